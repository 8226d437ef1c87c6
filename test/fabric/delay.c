/*
 * delay.c: what the delay provider adds to a fabric, on a clock that the test moves.
 *
 * A post is out until its time has come and takes effect no sooner; posts overlap; a full queue
 * makes the sender wait; fibers that share a connection pay the latency together.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "fabric/delay.h"
#include "fabric/loop.h"
#include "late.h"
#include "run/fiber_loop.h"

#define LATENCY_NS 100u

struct hand_clock {
	struct clock clock;
	uint64_t *now_ns;
	uint64_t step_ns; /* how far each look moves it */
};

static uint64_t now_ns, mem[64];

static uint64_t hand_now(const struct clock *c)
{
	const struct hand_clock *h = (const struct hand_clock *)c;

	*h->now_ns += h->step_ns;
	return *h->now_ns;
}

static struct fab *open_delay(const struct hand_clock *h)
{
	struct fab *f = NULL;

	now_ns = 1000;
	memset(mem, 0, sizeof(mem));
	assert_int_equal(loop_open(mem, sizeof(mem), &f), 0);
	assert_int_equal(delay_open(f, LATENCY_NS, &h->clock, &f), 0);
	return f;
}

static void test_due(void **state)
{
	const struct hand_clock hand = {{hand_now}, &now_ns, 0};
	struct fab *f = open_delay(&hand);
	struct fab_op first[2] = {fab_faa(FAB_DATA, 0, 1), fab_faa(FAB_DATA, 0, 1)};
	struct fab_op second = fab_faa(FAB_DATA, 0, 1);

	assert_false(fab_caps(f)->completes_at_post);
	fab_post(f, first, 2);
	now_ns += 10 * LATENCY_NS;
	fab_poll(f);
	assert_int_equal(first[0].status, FAB_PENDING); /* it was not kicked */
	fab_kick(f);
	now_ns += LATENCY_NS / 2;
	fab_post(f, &second, 1);
	fab_kick(f);
	now_ns += LATENCY_NS / 2 - 1;
	fab_poll(f);
	assert_int_equal(first[0].status, FAB_PENDING);
	assert_int_equal(mem[0], 0);
	now_ns += 1;
	fab_poll(f);
	assert_int_equal(first[0].status, 0);
	assert_int_equal(first[1].status, 0);
	assert_int_equal(first[1].old, 1);
	assert_int_equal(second.status, FAB_PENDING);
	assert_int_equal(mem[0], 2);
	now_ns += LATENCY_NS / 2;
	fab_poll(f);
	assert_int_equal(second.status, 0);
	assert_int_equal(second.old, 2);
	fab_close(f);
}

static void test_full_queue(void **state)
{
	const struct hand_clock hand = {{hand_now}, &now_ns, 0};
	struct hand_clock moving = {{hand_now}, &now_ns, 1};
	struct fab *f = open_delay(&hand);
	static struct fab_op ops[DELAY_POSTS_MAX + 1];

	for (unsigned i = 0; i < DELAY_POSTS_MAX; i++) {
		ops[i] = fab_faa(FAB_DATA, 0, 1);
		fab_post(f, &ops[i], 1);
	}
	fab_kick(f);
	assert_int_equal(ops[0].status, FAB_PENDING);
	now_ns += 10 * LATENCY_NS;
	/* One more finds no room until the oldest has landed. */
	ops[DELAY_POSTS_MAX] = fab_faa(FAB_DATA, 0, 1);
	fab_post(f, &ops[DELAY_POSTS_MAX], 1);
	assert_int_equal(ops[0].status, 0);
	assert_int_equal(ops[1].status, FAB_PENDING);
	fab_kick(f);
	now_ns += LATENCY_NS;
	fab_poll(f);
	assert_int_equal(mem[0], DELAY_POSTS_MAX + 1);
	fab_close(f);

	/* And it does so by itself, as time passes. */
	f = open_delay(&moving);
	for (unsigned i = 0; i <= DELAY_POSTS_MAX; i++) {
		ops[i] = fab_faa(FAB_DATA, 0, 1);
		fab_post(f, &ops[i], 1);
	}
	fab_kick(f);
	now_ns += LATENCY_NS;
	fab_poll(f);
	assert_int_equal(mem[0], DELAY_POSTS_MAX + 1);
	fab_close(f);
}

static void two_trips(struct worker *w, void *argument)
{
	for (unsigned i = 0; i < 2; i++) {
		struct fab_op op = fab_faa(FAB_DATA, 8, 1);

		assert_int_equal(flow_run(w, &op, 1), 0);
	}
	*(uint64_t *)argument = now_ns;
}

/* Each look at the clock takes a nanosecond: 20 fibers take little longer than one. */
static void test_fibers_overlap(void **state)
{
	const struct hand_clock moving = {{hand_now}, &now_ns, 1};

	for (unsigned n = 1; n <= 20; n += 19) {
		struct fab *f = open_delay(&moving);
		struct fiber_loop *loop = fiber_loop_create(0);
		struct worker workers[20];
		uint64_t start_ns = now_ns, end_ns[20];

		for (unsigned i = 0; i < n; i++) {
			worker_init(&workers[i], f, &moving.clock, i);
			assert_int_equal(fiber_loop_spawn(loop, &workers[i], two_trips, &end_ns[i]),
					 0);
		}
		unsigned turns = 0;

		while (fiber_loop_turn(loop))
			turns++;
		assert_true(turns >= 2 * (LATENCY_NS - 2 * n));
		for (unsigned i = 0; i < n; i++) {
			assert_true(end_ns[i] - start_ns >= 2 * LATENCY_NS);
			assert_true(end_ns[i] - start_ns <= 2 * LATENCY_NS + 3 * n + 4);
		}
		assert_int_equal(mem[1], 2 * n);
		fiber_loop_destroy(loop);
		fab_close(f);
	}
}

static void test_needs_a_fast_one(void **state)
{
	struct fab *f = NULL;

	assert_int_equal(loop_open(mem, sizeof(mem), &f), 0);
	assert_int_equal(late_open(f, &f), 0);
	assert_int_equal(delay_open(f, LATENCY_NS, clock_monotonic(), &f), FORGE_E_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_due),
	    cmocka_unit_test(test_full_queue),
	    cmocka_unit_test(test_fibers_overlap),
	    cmocka_unit_test(test_needs_a_fast_one),
	};

	return cmocka_run_group_tests_name("delay", tests, NULL, NULL);
}
