/*
 * lane.c: first fit.  How many groups a lane fills at once, which of them an object goes into,
 * which is sealed when none has room, that groups with Sets in flight are sealed by the last one
 * to land, and that the drain seals what is left.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/rig.h"

#define CHUNKS	512u
#define OBJECTS 8u

/* rig_open() expects objects of 80 bytes: 128 stored. */
#define EXPECTED_UNITS 8u

static struct rig rig;

static int setup(void **state)
{
	rig_open(&rig, "forge", CHUNKS, OBJECTS);
	/* The share of one of 32 nodes is too small for more than one; test_share() shows that. */
	assert_int_equal(rig.lane.filling_max, 1);
	rig.lane.filling_max = LANE_FILLING_MAX;
	return 0;
}

static int teardown(void **state)
{
	rig_close(&rig);
	return 0;
}

static struct open_group *filling(uint32_t at)
{
	return rig.lane.filling[RING_SMALL][at];
}

/* What find_room() does when chunks are at hand; the object gets no slot. */
static struct lane_place put(uint32_t units)
{
	struct lane *lane = &rig.lane;
	struct open_group *g = lane_fit(lane, RING_SMALL, units);

	if (!g) {
		assert_int_equal(cache_make_way(&rig.cache, RING_SMALL), 0);
		assert_int_equal(cache_reserve(&rig.cache, 0), 0);
		assert_true(lane_may_open(lane, RING_SMALL, units));
		assert_int_equal(lane_open(lane, &rig.worker, RING_SMALL), 0);
		g = lane_fit(lane, RING_SMALL, units);
	}
	assert_non_null(g);
	return open_group_take(&rig.pool.plan, g, units);
}

static void land(struct lane_place place)
{
	assert_int_equal(lane_land(&rig.lane, &rig.worker, place.group, rig.cache.twim), 0);
}

/* Units that fill a group to the last: one object of the rest beside `count` others. */
static uint32_t units_left(uint32_t used, uint32_t count)
{
	return plan_group_bytes(&rig.pool.plan, count + 1) / LAYOUT_UNIT_BYTES - used;
}

static uint32_t share_filling(uint32_t chunks, uint32_t cn_max, uint32_t workers,
			      uint32_t open_groups)
{
	struct pool pool = {0};
	struct cn cn = {.pool = &pool, .worker_count = workers, .open_groups = open_groups};
	struct lane lane;

	pool.plan.chunk_count = chunks;
	pool.plan.cn_max = cn_max;
	pool.plan.group_objects = 8;
	pool.plan.ofm_row_bytes = 8;
	assert_int_equal(lane_init(&lane, &cn), 0);
	uint32_t cap = chunks / (2 * cn_max * workers);

	assert_true(lane.reserve_cap >= 1 && lane.reserve_cap <= LANE_RESERVE_MAX);
	/* What is open and in hand is within the share, if that is not tiny. */
	if (cap > 2 && !open_groups)
		assert_true(lane.streams * lane.filling_max + lane.reserve_cap <= cap);
	uint32_t filling_max = lane.filling_max;

	lane_fini(&lane);
	return filling_max;
}

static void test_share(void **state)
{
	assert_int_equal(share_filling(64, 2, 1, 0), 1);
	assert_int_equal(share_filling(124, 2, 1, 0), 1);
	assert_int_equal(share_filling(128, 2, 1, 0), 2);
	assert_int_equal(share_filling(256, 2, 2, 0), 2);
	assert_int_equal(share_filling(256, 2, 1, 0), 4);
	assert_int_equal(share_filling(1u << 20, 2, 1, 0), LANE_FILLING_MAX);
	assert_int_equal(share_filling(4096, 32, 1, 0), 4);
	assert_int_equal(share_filling(4096, 32, 16, 0), 1);
	assert_int_equal(share_filling(4, 2, 4, 0), 1);
	assert_int_equal(share_filling(64, 2, 1, 3), 3);
	assert_int_equal(share_filling(64, 2, 1, 1000), LANE_FILLING_MAX);
	for (uint32_t chunks = 4; chunks < 4000; chunks = chunks * 5 / 4 + 1)
		for (uint32_t cns = 1; cns < 40; cns += 3)
			for (uint32_t workers = 1; workers < 20; workers += 2)
				share_filling(chunks, cns, workers, 0);
}

/* Where an object goes by how old its last group had become; a small share has no streams for it.
 */
static void test_streams(void **state)
{
	for (uint32_t chunks = 32; chunks <= 4096; chunks *= 128) {
		struct pool pool = {.plan = {.chunk_count = chunks,
					     .cn_max = 2,
					     .group_objects = 8,
					     .ofm_row_bytes = 8}};
		struct cn cn = {.pool = &pool, .worker_count = 1};
		struct lane lane;
		uint64_t tail = (UINT64_C(5) << CHUNK_POSITION_BITS) + 7, old = tail - chunks;
		int large = chunks > 32;

		assert_int_equal(lane_init(&lane, &cn), 0);
		assert_int_equal(lane.streams, large ? LANE_STREAMS : RING_QUEUES);
		atomic_store(&cn.tail[RING_MAIN], tail);
		uint64_t hot = chunk_pack_queued(RING_MAIN, 1, tail - chunks / LANE_HOT_SHARE + 1);
		uint64_t warm = chunk_pack_queued(RING_MAIN, 1, tail - chunks / LANE_HOT_SHARE);

		assert_int_equal(lane_stream_after(&lane, hot), large ? LANE_HOT : RING_MAIN);
		assert_int_equal(lane_stream_after(&lane, warm), large ? LANE_WARM : RING_MAIN);
		assert_int_equal(lane_stream_after(&lane, chunk_pack_queued(RING_MAIN, 1, old + 1)),
				 large ? LANE_WARM : RING_MAIN);
		assert_int_equal(lane_stream_after(&lane, chunk_pack_queued(RING_MAIN, 1, old)),
				 RING_MAIN);
		assert_int_equal(lane_stream_after(&lane, chunk_pack_queued(RING_SMALL, 1, 3)),
				 RING_MAIN);
		assert_int_equal(lane_stream_after(&lane, chunk_pack_open(1, 1)),
				 large ? LANE_HOT : RING_MAIN);
		for (uint32_t stream = RING_QUEUES; stream < LANE_STREAMS; stream++)
			assert_int_equal(lane_stream_ring(stream), RING_MAIN);
		lane_fini(&lane);
	}
}

/* Objects of the expected size fill one group after the other: nothing stays open beside. */
static void test_equal_sizes(void **state)
{
	for (uint32_t i = 0; i < 5 * OBJECTS; i++) {
		struct lane_place place = put(EXPECTED_UNITS);

		assert_int_equal(place.sn, i % OBJECTS);
		assert_int_equal(rig.lane.filling_count[RING_SMALL], 1);
		land(place);
	}
	assert_int_equal(rig.cache.count.groups_sealed, 4);
	assert_int_equal(rig.cache.count.objects_sealed, 4 * OBJECTS);
	assert_int_equal(rig.cache.count.bytes_sealed,
			 4 * OBJECTS * (EXPECTED_UNITS * LAYOUT_UNIT_BYTES + TWIM_BYTES));
}

/* The first group with room, oldest first; a new one only when no other has. */
static void test_first_fit(void **state)
{
	uint32_t whole = units_left(0, 0);
	uint32_t large = whole - EXPECTED_UNITS - 4;

	land(put(large));
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 1);
	land(put(large));
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 2);
	struct open_group *first = filling(0), *second = filling(1);
	struct lane_place place = put(EXPECTED_UNITS);

	assert_ptr_equal(place.group, first);
	land(place);
	place = put(EXPECTED_UNITS);
	assert_ptr_equal(place.group, second);
	land(place);
	/* Both have less room than an expected object: both are sealed before a third is opened. */
	place = put(EXPECTED_UNITS);
	assert_ptr_not_equal(place.group, NULL);
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 1);
	assert_int_equal(rig.cache.count.groups_sealed, 2);
	land(place);
}

/* When four are filled and none fits, the fullest is sealed; of equally full ones the oldest. */
static void test_sealing_order(void **state)
{
	uint32_t whole = units_left(0, 0);
	static const uint32_t spare[] = {25, 15, 30,
					 15}; /* units left by each, which has half the room */
	struct open_group *g[4];

	assert_int_equal(rig.lane.filling_max, 4);
	for (uint32_t i = 0; i < 4; i++) {
		struct lane_place place = put(whole - spare[i]);

		g[i] = place.group;
		land(place);
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_ptr_equal(filling(i), g[i]);
	uint64_t second = cn_map(&rig.cn, g[1]->chunk);
	uint32_t chunk = g[1]->chunk, last_chunk = g[3]->chunk;

	assert_int_equal(chunk_state(second), CHUNK_OPEN);
	land(put(45));
	assert_int_equal(rig.cache.count.groups_sealed, 1);
	assert_int_equal(chunk_state(cn_map(&rig.cn, chunk)), CHUNK_QUEUED);
	assert_ptr_equal(filling(0), g[0]);
	assert_ptr_equal(filling(1), g[2]);
	assert_ptr_equal(filling(2), g[3]);
	land(put(whole));
	assert_int_equal(rig.cache.count.groups_sealed, 2);
	assert_int_equal(chunk_state(cn_map(&rig.cn, last_chunk)), CHUNK_QUEUED);
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 4);
}

/* As many members as a group may have make it full, however much room there is. */
static void test_count_limit(void **state)
{
	for (uint32_t i = 0; i < OBJECTS; i++)
		land(put(4));
	assert_null(lane_fit(&rig.lane, RING_SMALL, 4));
	land(put(4));
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 1);
	assert_int_equal(rig.cache.count.groups_sealed, 1);
}

/* A closed group with Sets in flight takes no more objects and is sealed by the last to land. */
static void test_in_flight(void **state)
{
	uint32_t whole = units_left(0, 0);
	struct lane_place a = put(whole - 30), b = put(20), full[3];
	uint32_t chunk = a.group->chunk;

	assert_ptr_equal(a.group, b.group);
	for (uint32_t i = 0; i < 3; i++)
		full[i] = put(whole - 25 - i);
	struct lane_place next = put(whole);

	assert_int_equal(a.group->state, OPEN_CLOSING);
	assert_int_equal(rig.cache.count.groups_sealed, 0);
	assert_ptr_not_equal(put(4).group, a.group);
	land(a);
	assert_int_equal(chunk_state(cn_map(&rig.cn, chunk)), CHUNK_OPEN);
	land(b);
	assert_int_equal(chunk_state(cn_map(&rig.cn, chunk)), CHUNK_QUEUED);
	for (uint32_t i = 0; i < 3; i++)
		land(full[i]);
	land(next);
	/* put(4) went into the oldest of the others and is still under way. */
	rig.lane.filling[RING_SMALL][0]->in_flight = 0;
}

/* Random sizes: what the lane counts as sealed is what the chunks' TWIMs say. */
static void test_random(void **state)
{
	struct prng prng;
	uint64_t bytes = 0, objects = 0, groups = 0;

	prng_seed(&prng, 9);
	for (int i = 0; i < 2000; i++)
		land(put(4 + (uint32_t)prng_below(&prng, prng_below(&prng, 8) ? 8 : 50)));
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++)
		assert_true(rig.lane.filling_count[ring] <= LANE_FILLING_MAX);
	assert_int_equal(cache_drain(&rig.cache), 0);
	const struct plan *p = &rig.pool.plan;

	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		uint64_t word = cn_map(&rig.cn, chunk), node;
		const uint8_t *memory = rig.memory;

		if (chunk_state(word) != CHUNK_QUEUED)
			continue;
		memcpy(&node, memory + plan_ring_node_address(p, RING_SMALL, chunk_position(word)),
		       8);
		uint32_t n = node_object_count(node);
		const uint64_t *twim = (const void *)(memory + plan_twim_address(p, chunk, n));

		groups++;
		objects += n;
		for (uint32_t sn = 0; sn < n; sn++)
			bytes += twim_units(twim[sn]) * LAYOUT_UNIT_BYTES + TWIM_BYTES;
	}
	assert_int_equal(objects, 2000);
	assert_int_equal(rig.cache.count.groups_sealed, groups);
	assert_int_equal(rig.cache.count.objects_sealed, objects);
	assert_int_equal(rig.cache.count.bytes_sealed, bytes);
	assert_true(groups > 50);
}

/* One of the chunks in hand has been taken from us: the others go back all the same. */
static void test_drain_goes_on(void **state)
{
	const struct plan *p = &rig.pool.plan;
	uint8_t *memory = rig.memory;
	uint32_t count = 0;

	rig.lane.reserve_cap = LANE_RESERVE_MAX;
	assert_int_equal(lane_claim_free(&rig.lane, &rig.worker, 3), 0);
	land(put(EXPECTED_UNITS));
	assert_true(rig.lane.reserve_count >= 2);
	uint64_t *word =
	    (void *)(memory + plan_chunk_word_address(
				  p, rig.lane.reserve[rig.lane.reserve_count - 1].chunk));
	uint64_t theirs = chunk_pack_reserved(7, chunk_generation(*word));

	*word = theirs;
	assert_int_equal(cache_drain(&rig.cache), FORGE_E_AGAIN);
	assert_int_equal(rig.lane.reserve_count, 0);
	assert_int_equal(rig.lane.filling_count[RING_SMALL], 0);
	assert_int_equal(*word, theirs);
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		uint64_t w;

		memcpy(&w, memory + plan_chunk_word_address(p, chunk), 8);
		count += chunk_state(w) == CHUNK_FREE || chunk_state(w) == CHUNK_QUEUED;
	}
	assert_int_equal(count, p->chunk_count - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_share),
	    cmocka_unit_test(test_streams),
	    cmocka_unit_test_setup_teardown(test_equal_sizes, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_first_fit, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_sealing_order, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_count_limit, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_in_flight, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	    cmocka_unit_test_setup_teardown(test_drain_goes_on, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
