/*
 * pool_time.c: pool time starts as unix time, goes on with the host's clock whatever the wall clock
 * does, and never goes back when another node, or the same one on a host that was started anew,
 * takes the pool over.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "fabric/loop.h"
#include "pool/time.h"

#define HOUR_MS UINT64_C(3600000)

static const struct pool_host birth = {.wall_ms = 1700000000000, .clock_ms = 50000, .boot = 77};

static uint64_t at(const struct layout_time *t, const struct pool_host *h)
{
	return t->base_ms + h->clock_ms;
}

static void test_starts_as_unix_time(void **state)
{
	struct layout_time t = pool_time_new(&birth);

	assert_int_equal(at(&t, &birth), birth.wall_ms);
}

/* A step of the wall clock, forwards or backwards, between two nodes on one host: nothing. */
static void test_wall_clock_steps(void **state)
{
	struct layout_time t = pool_time_new(&birth), again;
	struct pool_host h = birth;

	h.clock_ms += HOUR_MS;
	for (int step = -1000; step <= 1000; step += 250) {
		h.wall_ms = birth.wall_ms + HOUR_MS + (uint64_t)(step * (int64_t)HOUR_MS);
		again = pool_time_go_on(&t, &h);
		assert_memory_equal(&again, &t, sizeof(t));
		assert_int_equal(at(&again, &h), birth.wall_ms + HOUR_MS);
	}
}

/* The host was started anew: its clock begins at 0. */
static void test_reboots(void **state)
{
	struct layout_time t = pool_time_new(&birth), again;
	struct pool_host h = {.wall_ms = birth.wall_ms + 2 * HOUR_MS, .clock_ms = 10, .boot = 78};

	t.seen_ms = birth.wall_ms + HOUR_MS;
	again = pool_time_go_on(&t, &h);
	assert_int_equal(at(&again, &h), h.wall_ms);
	assert_int_equal(again.boot, 78);
	/* Its wall clock was set back meanwhile, by a little or by years, or is lost. */
	for (uint64_t back = 1; back < h.wall_ms; back *= 3) {
		h.wall_ms = t.seen_ms - (back < t.seen_ms ? back : t.seen_ms);
		again = pool_time_go_on(&t, &h);
		assert_int_equal(at(&again, &h), t.seen_ms + POOL_TIME_STAMP_MS);
	}
	/* And the other way round: its clock is ahead of unix time. */
	h = (struct pool_host){.wall_ms = 5, .clock_ms = 20, .boot = 79};
	t.seen_ms = 3;
	again = pool_time_go_on(&t, &h);
	assert_int_equal(at(&again, &h), 3 + POOL_TIME_STAMP_MS);
}

/* Without a boot id a clock that went back gives the reboot away. */
static void test_no_boot_id(void **state)
{
	struct pool_host h = birth;

	h.boot = 0;
	struct layout_time t = pool_time_new(&h), again;

	t.seen_ms += HOUR_MS;
	h.clock_ms = 3;
	h.wall_ms += 2;
	again = pool_time_go_on(&t, &h);
	assert_int_equal(at(&again, &h), t.seen_ms + POOL_TIME_STAMP_MS);
}

static void test_in_a_pool(void **state)
{
	struct plan_wish wish = {
	    .chunk_count = 8, .group_objects = 8, .policy = "forge", .slot_words = 1};
	struct layout_time t = pool_time_new(&birth);
	struct pool_host h = birth;
	struct worker w;
	struct pool pool;
	struct plan plan;
	struct fab *fab;
	char error[256];

	assert_int_equal(plan_make(&wish, &plan, error, sizeof(error)), 0);
	void *memory = aligned_alloc(64, round_up_u64(plan.pool_bytes, 64));

	assert_non_null(memory);
	assert_int_equal(loop_open(memory, plan.pool_bytes, &fab), 0);
	worker_init(&w, fab, clock_monotonic(), 1);
	assert_int_equal(pool_format_timed(&w, &plan, 1, &t), 0);
	assert_int_equal(pool_open(&w, &pool, error, sizeof(error)), 0);
	assert_int_equal(pool.time_base_ms, birth.wall_ms - birth.clock_ms);
	/* Written down by the node; then a host that was started anew, and has no wall clock. */
	assert_int_equal(pool_time_stamp(&w, &pool), 0);
	uint64_t now_ms = pool.time_base_ms + worker_now_us(&w) / 1000;

	h = (struct pool_host){.wall_ms = 0, .clock_ms = 0, .boot = 5};
	assert_int_equal(pool_time_take_over(&w, &h), 0);
	assert_int_equal(pool_open(&w, &pool, error, sizeof(error)), 0);
	assert_in_range(pool.time_base_ms, now_ms + 1, now_ms + POOL_TIME_STAMP_MS);
	assert_int_equal(pool_format(&w, &plan, 1), 0);
	assert_int_equal(pool_open(&w, &pool, error, sizeof(error)), 0);
	assert_int_equal(pool.time_base_ms, 0);
	fab_close(fab);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_starts_as_unix_time),
	    cmocka_unit_test(test_wall_clock_steps),
	    cmocka_unit_test(test_reboots),
	    cmocka_unit_test(test_no_boot_id),
	    cmocka_unit_test(test_in_a_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
