/*
 * lin_long.c: the checker of long histories says what lin.c says.
 *
 * 20,000 short histories are made from a register whose value may be evicted: up to four clients,
 * all kinds of operations, some that never return and some that do not know.  Each is then spoilt
 * at random: another value seen.  Both checkers must agree on each, and both answers must be
 * frequent. And a history of 30,000 operations is checked without one that cannot be explained, and
 * with one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "base/status.h"
#include "sim/lin.h"
#include "sim/lin_long.h"

#define CLIENTS	   4u
#define SHORT_OPS  14u
#define SHORT_RUNS 20000u
#define LONG_OPS   30000u

struct client {
	uint32_t op; /* HIST_NONE: idle */
	bool done;
	uint64_t saw;
};

static void take_effect(struct prng *p, struct history *h, struct client *c, uint64_t *value)
{
	struct hist_op *op = &h->ops[c->op];

	c->done = true;
	if (prng_below(p, 8) == 0)
		*value = 0; /* evicted */
	c->saw = *value;
	if (op->kind == HIST_CHANGE)
		history_decide(h, c->op, *value, op->value);
	if (op->kind != HIST_GET)
		*value = op->kind == HIST_DELETE || op->kind == HIST_FLUSH ? 0 : op->value;
}

static enum hist_result answer(struct prng *p, const struct hist_op *op, const struct client *c)
{
	if (op->kind != HIST_GET && prng_below(p, 10) == 0)
		return HIST_UNDECIDED;
	return op->kind == HIST_GET && c->saw == 0 ? HIST_MISS : HIST_OK;
}

/* values: how many there are to choose from; 0: each is new. */
static void make(struct prng *p, struct history *h, uint32_t ops, uint64_t values)
{
	static const enum hist_kind kinds[] = {HIST_GET,    HIST_GET,	 HIST_SET,
					       HIST_DELETE, HIST_CHANGE, HIST_FLUSH};
	struct client clients[CLIENTS];
	uint64_t value = 0;

	history_reset(h);
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){.op = HIST_NONE};
	for (uint32_t steps = 0; steps < 4 * ops && h->op_count < ops; steps++) {
		struct client *c = &clients[prng_below(p, CLIENTS)];

		if (c->op == HIST_NONE) {
			enum hist_kind kind = kinds[prng_below(p, ARRAY_COUNT(kinds))];
			uint64_t key = kind == HIST_FLUSH ? HIST_EVERY_KEY : 1;

			*c = (struct client){
			    .op = history_invoke(h, 0, kind, key,
						 values ? 1 + prng_below(p, values) : steps + 1)};
		} else if (!c->done && prng_below(p, 60)) {
			take_effect(p, h, c, &value);
		} else if (values && prng_below(p, 30) == 0) {
			c->op = HIST_NONE; /* it never returns; perhaps it took effect */
		} else if (!c->done && h->ops[c->op].kind != HIST_GET) {
			history_return(h, c->op, HIST_UNDECIDED, 0);
			c->op = HIST_NONE;
		} else if (c->done) {
			history_return(h, c->op, answer(p, &h->ops[c->op], c), c->saw);
			c->op = HIST_NONE;
		}
	}
}

/* Another value, seen by somebody. */
static void spoil(struct prng *p, struct history *h, uint64_t values)
{
	struct hist_op *op = &h->ops[prng_below(p, h->op_count)];

	if (op->kind == HIST_GET && op->result == HIST_OK)
		op->value = 1 + prng_below(p, values);
	else if (op->kind == HIST_CHANGE && op->seen != HIST_UNSEEN)
		op->seen = prng_below(p, values + 1);
}

static void test_agrees(void **state)
{
	struct history h;
	struct lin lin;
	struct lin_long long_lin;
	struct prng p;
	uint32_t good = 0, bad = 0;
	char why[4096], why_long[4096];

	assert_int_equal(history_create(&h, SHORT_OPS), 0);
	assert_int_equal(lin_create(&lin), 0);
	lin_long_create(&long_lin);
	prng_seed(&p, 4711);
	for (uint32_t run = 0; run < SHORT_RUNS; run++) {
		make(&p, &h, SHORT_OPS, 3);
		for (uint64_t times = prng_below(&p, 3); times--;)
			spoil(&p, &h, 3);
		int expected = lin_check(&lin, &h, why, sizeof(why));
		int status = lin_long_check(&long_lin, &h, why_long, sizeof(why_long));

		if (status != expected)
			fail_msg("run %u: lin.c says %d, this %d\n%s%s", run, expected, status, why,
				 why_long);
		good += !status;
		bad += status == FORGE_E_CORRUPT;
	}
	assert_true(good > SHORT_RUNS / 4);
	assert_true(bad > SHORT_RUNS / 20);
	lin_long_destroy(&long_lin);
	lin_destroy(&lin);
	history_destroy(&h);
}

static void test_long(void **state)
{
	struct history h;
	struct lin_long l;
	struct prng p;
	char why[8192];
	uint32_t at = LONG_OPS - 1;

	assert_int_equal(history_create(&h, LONG_OPS), 0);
	lin_long_create(&l);
	prng_seed(&p, 1);
	make(&p, &h, LONG_OPS, 0);
	assert_int_equal(lin_long_check(&l, &h, why, sizeof(why)), 0);
	assert_true(l.states_max < 200);
	while (h.ops[at].kind != HIST_GET || h.ops[at].result != HIST_OK)
		at--;
	h.ops[at].value = h.ops[0].value; /* one of long ago, or of nobody */
	assert_int_equal(lin_long_check(&l, &h, why, sizeof(why)), FORGE_E_CORRUPT);
	assert_non_null(strstr(why, "key 1 is not linearizable"));
	assert_non_null(strstr(why, "! ["));
	lin_long_destroy(&l);
	history_destroy(&h);
}

/* More at once than there are slots for is an error, not a pass. */
static void test_limits(void **state)
{
	struct history h;
	struct lin_long l;
	char why[1024];

	assert_int_equal(history_create(&h, 200), 0);
	lin_long_create(&l);
	for (uint32_t i = 0; i <= LIN_LONG_OPEN_MAX; i++)
		history_invoke(&h, i, HIST_SET, 1, i + 1);
	for (uint32_t i = 0; i <= LIN_LONG_OPEN_MAX; i++)
		history_return(&h, i, HIST_OK, 0);
	assert_int_equal(lin_long_check(&l, &h, why, sizeof(why)), FORGE_E_INVAL);
	history_reset(&h);
	h.refused_count = 1;
	assert_int_equal(lin_long_check(&l, &h, why, sizeof(why)), FORGE_E_INVAL);
	lin_long_destroy(&l);
	history_destroy(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_agrees),
	    cmocka_unit_test(test_long),
	    cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
