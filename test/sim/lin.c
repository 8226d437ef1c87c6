/*
 * lin.c: the linearizability checker accepts good histories and refuses bad ones.
 *
 * Known-good and known-bad histories are written out by hand, one operation per line, with the
 * logical times of start and end.  Then 2,000 histories are made from a real register by chance,
 * which must pass, and each is spoilt by letting one Get see another value, after which a plain
 * search over all orders (no memory, no pruning) must agree with the checker.
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

#define NEVER HIST_NEVER

#define GET(t0, t1, v)                                \
	{                                             \
		t0, t1, 1, v, HIST_GET, HIST_OK, 0, 0 \
	}
#define MISSED(t0, t1)                                  \
	{                                               \
		t0, t1, 1, 0, HIST_GET, HIST_MISS, 0, 0 \
	}
#define SET(t0, t1, v)                                \
	{                                             \
		t0, t1, 1, v, HIST_SET, HIST_OK, 0, 0 \
	}
#define SET_PENDING(t0, v)                                    \
	{                                                     \
		t0, NEVER, 1, v, HIST_SET, HIST_PENDING, 0, 0 \
	}
#define SET_ERROR(t0, t1, v)                                 \
	{                                                    \
		t0, t1, 1, v, HIST_SET, HIST_UNDECIDED, 0, 0 \
	}
#define DEL(t0, t1)                                      \
	{                                                \
		t0, t1, 1, 0, HIST_DELETE, HIST_OK, 0, 0 \
	}
#define DEL_NONE(t0, t1)                                   \
	{                                                  \
		t0, t1, 1, 0, HIST_DELETE, HIST_MISS, 0, 0 \
	}
#define DEL_PENDING(t0)                                          \
	{                                                        \
		t0, NEVER, 1, 0, HIST_DELETE, HIST_PENDING, 0, 0 \
	}

#define CHANGE(t0, t1, from, to)                             \
	{                                                    \
		t0, t1, 1, to, HIST_CHANGE, HIST_OK, 0, from \
	}
#define CHANGE_PENDING(t0, from, to)                                 \
	{                                                            \
		t0, NEVER, 1, to, HIST_CHANGE, HIST_PENDING, 0, from \
	}
#define FLUSH(t0, t1)                                                \
	{                                                            \
		t0, t1, HIST_EVERY_KEY, 0, HIST_FLUSH, HIST_OK, 0, 0 \
	}
#define CLOCK(t0)                                                        \
	{                                                                \
		t0, t0 + 1, HIST_EVERY_KEY, 0, HIST_CLOCK, HIST_OK, 0, 0 \
	}

struct example {
	const char *name;
	int expected; /* 0 or FORGE_E_CORRUPT */
	uint32_t op_count;
	struct hist_op ops[8];
};

#define GOOD 0
#define BAD  FORGE_E_CORRUPT

static const struct example examples[] = {
    {"empty", GOOD, 0, {}},
    {"read your write", GOOD, 2, {SET(1, 2, 7), GET(3, 4, 7)}},
    {"miss at any time", GOOD, 3, {SET(1, 2, 7), MISSED(3, 4), GET(5, 6, 7)}},
    {"get during set sees it", GOOD, 2, {SET(1, 4, 7), GET(2, 3, 7)}},
    {"get during set sees the old value",
     GOOD,
     4,
     {SET(1, 2, 7), SET(3, 6, 8), GET(4, 5, 7), GET(7, 8, 8)}},
    {"two sets at once, either wins", GOOD, 3, {SET(1, 4, 7), SET(2, 3, 8), GET(5, 6, 7)}},
    {"two sets at once, the other wins", GOOD, 3, {SET(1, 4, 7), SET(2, 3, 8), GET(5, 6, 8)}},
    {"pending set seen later", GOOD, 2, {SET_PENDING(1, 7), GET(5, 6, 7)}},
    {"pending set never seen", GOOD, 3, {SET(1, 2, 6), SET_PENDING(3, 7), GET(5, 6, 6)}},
    {"pending set lands late",
     GOOD,
     4,
     {SET(1, 2, 6), SET_PENDING(3, 7), GET(5, 6, 6), GET(7, 8, 7)}},
    {"failed set took effect", GOOD, 2, {SET_ERROR(1, 3, 7), GET(4, 5, 7)}},
    {"failed set took none", GOOD, 3, {SET(1, 2, 6), SET_ERROR(3, 4, 7), GET(5, 6, 6)}},
    {"set, delete, set", GOOD, 4, {SET(1, 2, 7), DEL(3, 4), SET(5, 6, 8), GET(7, 8, 8)}},
    {"delete finds nothing though set", GOOD, 2, {SET(1, 2, 7), DEL_NONE(3, 4)}},
    {"get during delete", GOOD, 3, {SET(1, 2, 7), DEL(3, 6), GET(4, 5, 7)}},
    {"pending delete took none", GOOD, 3, {SET(1, 2, 7), DEL_PENDING(3), GET(4, 5, 7)}},

    {"value from nowhere (torn)", BAD, 2, {SET(1, 2, 7), GET(3, 4, 9)}},
    {"get before any set", BAD, 2, {GET(1, 2, 7), SET(3, 4, 7)}},
    {"stale read", BAD, 3, {SET(1, 2, 7), SET(3, 4, 8), GET(5, 6, 7)}},
    {"lost update seen", BAD, 4, {SET(1, 2, 7), SET(3, 4, 8), GET(5, 6, 8), GET(7, 8, 7)}},
    {"resurrected after delete", BAD, 3, {SET(1, 2, 7), DEL(3, 4), GET(5, 6, 7)}},
    {"resurrected after delete not found", BAD, 3, {SET(1, 2, 7), DEL_NONE(3, 4), GET(5, 6, 7)}},
    {"miss does not excuse an older value",
     BAD,
     4,
     {SET(1, 2, 7), SET(3, 4, 8), MISSED(5, 6), GET(7, 8, 7)}},
    {"new, then old, during a set",
     BAD,
     4,
     {SET(1, 2, 7), SET(3, 10, 8), GET(4, 5, 8), GET(6, 7, 7)}},
    {"two readers disagree on the order",
     BAD,
     6,
     {SET(1, 20, 7), SET(2, 21, 8), GET(3, 4, 7), GET(5, 6, 8), GET(7, 8, 7), GET(9, 10, 8)}},
    {"failed set takes effect after it returned",
     BAD,
     4,
     {SET(1, 2, 6), SET_ERROR(3, 4, 7), GET(5, 6, 6), GET(7, 8, 7)}},
    {"pending set seen before it began", BAD, 2, {GET(1, 2, 7), SET_PENDING(3, 7)}},

    {"changes in a chain", GOOD, 3, {SET(1, 2, 7), CHANGE(3, 6, 8, 9), CHANGE(4, 5, 7, 8)}},
    {"one value changed twice", BAD, 3, {SET(1, 2, 7), CHANGE(3, 6, 7, 9), CHANGE(4, 5, 7, 8)}},
    {"change of an older value", BAD, 3, {SET(1, 2, 7), SET(3, 4, 8), CHANGE(5, 6, 7, 9)}},
    {"a change that keeps is a read", GOOD, 3, {SET(1, 2, 7), CHANGE(3, 4, 7, 7), GET(5, 6, 7)}},
    {"... of the latest value", BAD, 3, {SET(1, 2, 7), SET(3, 4, 8), CHANGE(5, 6, 7, 7)}},
    {"absent, though set: evicted", GOOD, 3, {SET(1, 2, 7), CHANGE(3, 4, 0, 8), GET(5, 6, 8)}},
    {"... and seen again", BAD, 3, {SET(1, 2, 7), CHANGE(3, 4, 0, 0), GET(5, 6, 7)}},
    {"pending change took effect", GOOD, 3, {SET(1, 2, 7), CHANGE_PENDING(3, 7, 8), GET(4, 5, 8)}},
    {"pending change took none", GOOD, 3, {SET(1, 2, 7), CHANGE_PENDING(3, 7, 8), GET(4, 5, 7)}},
    {"pending change that never looked",
     BAD,
     3,
     {SET(1, 2, 7), CHANGE_PENDING(3, HIST_UNSEEN, 8), GET(4, 5, 8)}},
    {"seen after a flush", BAD, 3, {SET(1, 2, 7), FLUSH(3, 4), GET(5, 6, 7)}},
    {"seen during a flush", GOOD, 3, {SET(1, 2, 7), FLUSH(3, 6), GET(4, 5, 7)}},
    {"changed after a flush", BAD, 3, {SET(1, 2, 7), FLUSH(3, 4), CHANGE(5, 6, 7, 8)}},
};

/* Of a world in which nothing is ever lost. */
static const struct example exact_examples[] = {
    {"two adds, one stores", GOOD, 3, {CHANGE(1, 4, 0, 7), CHANGE(2, 3, 7, 7), GET(5, 6, 7)}},
    {"two adds store", BAD, 2, {CHANGE(1, 4, 0, 7), CHANGE(2, 3, 0, 8)}},
    {"a miss after a set", BAD, 2, {SET(1, 2, 7), MISSED(3, 4)}},
    {"a miss during a set", GOOD, 2, {SET(1, 4, 7), MISSED(2, 3)}},
    {"an add after a delete", GOOD, 3, {SET(1, 2, 7), DEL(3, 4), CHANGE(5, 6, 0, 8)}},
};

/* The low 8 bits of a value say by which step of the clock it has expired. */
static const struct example timed_examples[] = {
    {"before its time", GOOD, 3, {SET(1, 2, 0x702), CLOCK(3), GET(5, 6, 0x702)}},
    {"after its time", BAD, 3, {SET(1, 2, 0x701), CLOCK(3), GET(5, 6, 0x701)}},
    {"a get that began before", GOOD, 3, {SET(1, 2, 0x701), GET(3, 6, 0x701), CLOCK(4)}},
    {"set before, seen after", BAD, 3, {SET(1, 6, 0x701), CLOCK(2), GET(4, 5, 0x701)}},
    {"set and changed by who began before",
     GOOD,
     5,
     {SET(1, 10, 0x701), CHANGE(2, 11, 0x701, 0x700), CLOCK(3), CHANGE(5, 6, 0, 0x800),
      GET(12, 13, 0x700)}},
    {"touched in time",
     GOOD,
     4,
     {SET(1, 2, 0x701), CHANGE(3, 4, 0x701, 0x700), CLOCK(5), GET(7, 8, 0x700)}},
    {"touched too late",
     BAD,
     4,
     {SET(1, 2, 0x701), CLOCK(3), CHANGE(5, 6, 0x701, 0x700), GET(7, 8, 0x700)}},
};

static int run_example(struct lin *l, const struct hist_op *ops, uint32_t n, char *why,
		       size_t bytes)
{
	struct hist_op copy[64];
	struct history h = {.ops = copy, .op_count = n, .op_count_max = 64};

	memcpy(copy, ops, n * sizeof(*ops));
	return lin_check(l, &h, why, bytes);
}

static void try_examples(struct lin *l, const struct example *e, size_t count)
{
	char why[1024];

	for (; count--; e++) {
		int rc = run_example(l, e->ops, e->op_count, why, sizeof(why));

		if (rc != e->expected)
			fail_msg("%s: got %d\n%s", e->name, rc, why);
		if (rc) {
			assert_non_null(strstr(why, "key 1 is not linearizable"));
			assert_true(strstr(why, "get key 1") || strstr(why, "change key 1 from"));
		}
	}
}

static void test_examples(void **state)
{
	struct lin l;

	assert_int_equal(lin_create(&l), 0);
	try_examples(&l, examples, ARRAY_COUNT(examples));
	l.exact = true;
	try_examples(&l, exact_examples, ARRAY_COUNT(exact_examples));
	l.exact = false;
	l.timed = true;
	try_examples(&l, timed_examples, ARRAY_COUNT(timed_examples));
	lin_destroy(&l);
}

/* With two keys each is checked alone, and the report names the bad one. */
static void test_keys_apart(void **state)
{
	struct hist_op ops[] = {SET(1, 2, 7), SET(3, 4, 8), GET(5, 6, 8), GET(7, 8, 7)};
	struct lin l;
	char why[1024];

	assert_int_equal(lin_create(&l), 0);
	ops[1].key = ops[2].key = 5;
	assert_int_equal(run_example(&l, ops, 4, why, sizeof(why)), 0);
	ops[0].value = ops[3].value = 8;
	ops[2].value = 9;
	assert_int_equal(run_example(&l, ops, 4, why, sizeof(why)), FORGE_E_CORRUPT);
	assert_non_null(strstr(why, "key 5 is not linearizable"));
	lin_destroy(&l);
}

static void test_strict_deleted(void **state)
{
	const struct hist_op ops[] = {SET(1, 2, 7), DEL(3, 6), DEL(4, 5)};
	struct lin l;
	char why[1024];

	assert_int_equal(lin_create(&l), 0);
	assert_int_equal(run_example(&l, ops, 3, why, sizeof(why)), 0);
	l.deleted_needs_value = true;
	assert_int_equal(run_example(&l, ops, 3, why, sizeof(why)), FORGE_E_CORRUPT);
	assert_int_equal(run_example(&l, ops, 2, why, sizeof(why)), 0);
	lin_destroy(&l);
}

static void test_too_many(void **state)
{
	struct hist_op ops[LIN_OPS_MAX + 1];
	struct history h = {.ops = ops, .op_count = LIN_OPS_MAX};
	struct lin l;
	char why[1024];

	for (uint64_t i = 0; i <= LIN_OPS_MAX; i++)
		ops[i] = (struct hist_op)SET(2 * i + 1, 2 * i + 2, i + 1);
	assert_int_equal(lin_create(&l), 0);
	assert_int_equal(lin_check(&l, &h, why, sizeof(why)), 0);
	h.op_count++;
	assert_int_equal(lin_check(&l, &h, why, sizeof(why)), FORGE_E_INVAL);
	h.op_count = 1;
	h.refused_count = 1;
	assert_int_equal(lin_check(&l, &h, why, sizeof(why)), FORGE_E_INVAL);
	lin_destroy(&l);
}

/* The oracle: try every order of every subset that real time permits. */
static bool try_all(const struct hist_op *ops, uint32_t n, uint32_t placed, uint64_t value)
{
	bool complete = true;

	for (uint32_t i = 0; i < n; i++)
		if (!(placed >> i & 1) && ops[i].result == HIST_OK)
			complete = false;
	if (complete)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		bool may = !(placed >> i & 1);
		uint64_t next = value;

		for (uint32_t k = 0; may && k < n; k++)
			if (!(placed >> k & 1) && ops[k].result == HIST_OK &&
			    ops[k].return_time < ops[i].invoke_time)
				may = false;
		if (ops[i].kind == HIST_GET && ops[i].result == HIST_OK && ops[i].value != value)
			may = false;
		if (ops[i].kind == HIST_SET)
			next = ops[i].value;
		if (ops[i].kind == HIST_DELETE)
			next = 0;
		if (may && try_all(ops, n, placed | 1u << i, next))
			return true;
	}
	return false;
}

/* Run a register under up to 3 clients; each operation takes effect at a chosen moment. */
static uint32_t make_history(struct prng *p, struct hist_op *ops)
{
	struct history h = {.ops = ops, .op_count_max = 8};
	uint32_t open[3] = {HIST_NONE, HIST_NONE, HIST_NONE};
	bool done[3] = {false};
	uint64_t seen[3] = {0}, value = 0;

	for (int steps = 0; steps < 40; steps++) {
		uint32_t c = (uint32_t)prng_below(p, 3);

		if (open[c] == HIST_NONE) {
			if (h.op_count < 7)
				open[c] = history_invoke(&h, c, (enum hist_kind)prng_below(p, 3), 1,
							 1 + prng_below(p, 3));
			done[c] = false;
		} else if (!done[c]) {
			struct hist_op *op = &ops[open[c]];

			done[c] = true;
			seen[c] = value;
			if (op->kind != HIST_GET)
				value = op->kind == HIST_SET ? op->value : 0;
		} else if (prng_below(p, 10) != 0) {
			bool hit = ops[open[c]].kind != HIST_GET || seen[c] != 0;

			history_return(&h, open[c], hit ? HIST_OK : HIST_MISS, seen[c]);
			open[c] = HIST_NONE;
		} else {
			return h.op_count; /* whoever is open stays pending */
		}
	}
	return h.op_count;
}

static void test_by_chance(void **state)
{
	struct hist_op ops[8];
	struct prng p;
	struct lin l;
	char why[1024];
	uint32_t refused = 0;

	prng_seed(&p, 1);
	assert_int_equal(lin_create(&l), 0);
	for (int i = 0; i < 2000; i++) {
		uint32_t n = make_history(&p, ops);
		bool good;

		if (run_example(&l, ops, n, why, sizeof(why)))
			fail_msg("history %d: %s", i, why);
		for (uint32_t k = 0; k < n; k++)
			if (ops[k].kind == HIST_GET && ops[k].result == HIST_OK)
				ops[k].value = 1 + prng_below(&p, 3);
		good = try_all(ops, n, 0, 0);
		refused += !good;
		assert_int_equal(run_example(&l, ops, n, why, sizeof(why)),
				 good ? 0 : FORGE_E_CORRUPT);
	}
	assert_in_range(refused, 200, 1800);
	lin_destroy(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_examples),	   cmocka_unit_test(test_keys_apart),
	    cmocka_unit_test(test_strict_deleted), cmocka_unit_test(test_too_many),
	    cmocka_unit_test(test_by_chance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
