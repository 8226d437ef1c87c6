/*
 * pool_clock.c: what a process knows of the clock of a node elsewhere always holds, however the two
 * clocks drift and however unevenly the network delays, and is as narrow as promised.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/prng.h"
#include "pool/time.h"

#define US  INT64_C(1000)
#define MS  (1000 * US)
#define SEC (1000 * MS)

/* Two clocks that start apart and run apart. */
struct clocks {
	uint64_t now_ns; /* ours */
	uint64_t node_ns;
	int64_t drift_ppm;
	int64_t carry; /* of the drift, in 1e-6 ns */
	struct prng prng;
	int64_t delay_ns_max;
	struct pool pool;
	struct pool_clock clock;
	uint64_t answer_ns; /* of a question that is out */
	uint64_t answered_at_ns;
	int never_answers;
};

static void pass(struct clocks *c, int64_t ns)
{
	c->carry += ns * c->drift_ppm;
	c->now_ns += (uint64_t)ns;
	c->node_ns += (uint64_t)(ns + c->carry / 1000000);
	c->carry %= 1000000;
}

static int64_t any(struct clocks *c, int64_t below)
{
	return (int64_t)(prng_u64(&c->prng) % (uint64_t)below);
}

static int look(void *context, uint64_t *node_ns)
{
	struct clocks *c = context;

	pass(c, 5 * US + any(c, c->delay_ns_max));
	*node_ns = c->node_ns;
	pass(c, 5 * US + any(c, c->delay_ns_max));
	return 0;
}

/* The question arrives, and its answer after it, while we go on. */
static int ask(void *context)
{
	struct clocks *c = context;
	struct clocks later = *c;

	pass(&later, 5 * US + any(c, c->delay_ns_max));
	c->answer_ns = later.node_ns;
	c->answered_at_ns = later.now_ns + (uint64_t)(5 * US + any(c, c->delay_ns_max));
	return 0;
}

static int answer(void *context, uint64_t *node_ns)
{
	struct clocks *c = context;

	*node_ns = c->answer_ns;
	return !c->never_answers && c->now_ns >= c->answered_at_ns;
}

static const struct pool_clock_source source = {look, ask, answer};
static const struct pool_clock_source source_that_waits = {.read = look};

struct our_clock {
	struct clock clock;
	struct clocks *clocks;
};

static uint64_t read_ours(const struct clock *c)
{
	return ((const struct our_clock *)c)->clocks->now_ns;
}

static void begin(struct clocks *c, uint64_t now_ns, uint64_t node_ns, int64_t drift_ppm,
		  int64_t delay_ns_max)
{
	*c = (struct clocks){.now_ns = now_ns,
			     .node_ns = node_ns,
			     .drift_ppm = drift_ppm,
			     .delay_ns_max = delay_ns_max};
	prng_seed(&c->prng, 1);
	pool_clock_init(&c->clock, &source, c);
	c->pool.clock = &c->clock;
}

static int64_t width_ns(const struct clocks *c)
{
	return (int64_t)(pool_node_ns_latest(&c->pool, c->now_ns) -
			 pool_node_ns_earliest(&c->pool, c->now_ns));
}

static bool holds(const struct clocks *c)
{
	return (int64_t)(c->node_ns - pool_node_ns_earliest(&c->pool, c->now_ns)) >= 0 &&
	       (int64_t)(pool_node_ns_latest(&c->pool, c->now_ns) - c->node_ns) >= 0;
}

/* A day of the given drift; looks as polls would have them, and now and then a long sleep. */
static void live_a_day(struct clocks *c)
{
	const struct our_clock ours = {{read_ours}, c};
	uint64_t end_ns = c->now_ns + 86400 * (uint64_t)SEC;

	c->clock.source = &source_that_waits;
	assert_int_equal(pool_clock_look(&c->clock, &ours.clock, 8), 0);
	assert_true(width_ns(c) <= 2 * c->delay_ns_max + 20 * US);
	while (c->now_ns < end_ns) {
		pass(c, any(c, 100) ? any(c, 2 * SEC) : any(c, 3600 * SEC));
		assert_true(holds(c));
		assert_int_equal(pool_clock_tend(&c->pool, &ours.clock, c->now_ns), 0);
		assert_true(holds(c));
		/* By a look that is at most so old. */
		assert_true(width_ns(c) <=
			    2 * c->delay_ns_max + 20 * US + (int64_t)(POOL_CLOCK_LOOK_NS >> 9) + 2);
	}
}

static void test_bounds_hold(void **state)
{
	static const int64_t drifts[] = {-900, -500, -20, 0, 1, 300, 900};
	static const uint64_t starts[] = {0, 1, 86400u * UINT64_C(1000000000) * 4000, UINT64_MAX};
	struct clocks c;

	/* The node's clock may be ahead of ours by ages, or begin before it: all modulo 2^64. */
	for (unsigned i = 0; i < 7; i++)
		for (unsigned s = 0; s < 4; s++) {
			begin(&c, 7 * (uint64_t)SEC, starts[s], drifts[i], 100 * US);
			live_a_day(&c);
			begin(&c, starts[2], starts[s], drifts[i], 20 * MS);
			live_a_day(&c);
		}
}

/* Polls every ms: no look waits, and the bounds are nearly as good. */
static void test_answers_that_come_later(void **state)
{
	struct clocks c;
	const struct our_clock ours = {{read_ours}, &c};

	begin(&c, 7 * (uint64_t)SEC, 4000 * (uint64_t)SEC, -400, 300 * US);
	assert_int_equal(pool_clock_look(&c.clock, &ours.clock, 8), 0);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t before_ns = c.now_ns;

		pass(&c, MS);
		assert_true(holds(&c));
		assert_int_equal(pool_clock_tend(&c.pool, &ours.clock, c.now_ns), 0);
		assert_int_equal(c.now_ns, before_ns + (uint64_t)MS);
		assert_true(holds(&c));
		assert_true(width_ns(&c) <= 2 * MS + 2 * c.delay_ns_max + 20 * US +
						(int64_t)(POOL_CLOCK_LOOK_NS >> 8));
	}
	/* One that hangs keeps nobody; what is known stays true, and gets worse. */
	c.never_answers = 1;
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t before_ns = c.now_ns;

		pass(&c, MS);
		assert_int_equal(pool_clock_tend(&c.pool, &ours.clock, c.now_ns), 0);
		assert_int_equal(c.now_ns, before_ns + (uint64_t)MS);
		assert_true(holds(&c));
	}
	assert_true(width_ns(&c) > 20 * MS);
}

/* The node's virtual machine is halted, or ours: at the next look the past is forgotten. */
static void test_jumps(void **state)
{
	static const int64_t jumps[] = {-50 * SEC, -SEC, SEC, 3600 * SEC};
	struct clocks c;

	for (unsigned i = 0; i < 4; i++) {
		const struct our_clock ours = {{read_ours}, &c};

		begin(&c, 100 * (uint64_t)SEC, 5000 * (uint64_t)SEC, 100, 50 * US);
		assert_int_equal(pool_clock_look(&c.clock, &ours.clock, 8), 0);
		pass(&c, 10 * SEC);
		c.node_ns += (uint64_t)jumps[i];
		assert_false(holds(&c));
		assert_int_equal(pool_clock_tend(&c.pool, &ours.clock, c.now_ns), 0);
		assert_true(holds(&c));
		assert_true(width_ns(&c) <= 120 * US);
		pass(&c, 1 * SEC);
		assert_true(holds(&c));
	}
}

/* A value stored by one and judged by another is gone at most 1 ms and their bounds early. */
static void test_expiry(void **state)
{
	const uint64_t ttl_ms = 50;
	struct clocks writer, reader;
	struct pool node = {.time_base_ms = 1000000};

	begin(&writer, 3 * (uint64_t)SEC, 900 * (uint64_t)SEC, 0, MS);
	begin(&reader, 77 * (uint64_t)SEC, 900 * (uint64_t)SEC, 0, 2 * MS);
	const struct our_clock w = {{read_ours}, &writer}, r = {{read_ours}, &reader};

	writer.pool.time_base_ms = reader.pool.time_base_ms = node.time_base_ms;
	assert_int_equal(pool_clock_look(&writer.clock, &w.clock, 8), 0);
	assert_int_equal(pool_clock_look(&reader.clock, &r.clock, 8), 0);
	pass(&writer, 950 * SEC - (int64_t)writer.node_ns);
	pass(&reader, 950 * SEC - (int64_t)reader.node_ns);
	uint64_t expiry_ms = pool_ms_earliest(&writer.pool, writer.now_ns) + ttl_ms;
	int64_t early_ms = 1 + (width_ns(&writer) + width_ns(&reader)) / MS;
	int64_t lived_ms = 0;

	while (pool_ms_latest(&reader.pool, reader.now_ns) < expiry_ms) {
		pass(&reader, MS / 4);
		pass(&writer, MS / 4);
		lived_ms = ((int64_t)reader.node_ns - 950 * SEC) / MS;
		assert_true(lived_ms < 1000);
	}
	assert_true(lived_ms <= (int64_t)ttl_ms);
	assert_true(lived_ms >= (int64_t)ttl_ms - early_ms - 1);
	/* Who reads the node's clock itself, judges and stores by the same. */
	assert_int_equal(pool_ms_earliest(&node, 5 * (uint64_t)MS), 1000005);
	assert_int_equal(pool_ms_latest(&node, 5 * (uint64_t)MS), 1000005);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bounds_hold),
	    cmocka_unit_test(test_answers_that_come_later),
	    cmocka_unit_test(test_jumps),
	    cmocka_unit_test(test_expiry),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
