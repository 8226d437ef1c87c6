/*
 * cache.c: Get, Set and Delete of one compute node on the loop fabric, with both policies: values
 * come back verified, a pool far too small for the data keeps working, memory keys are found
 * again after updates and regroups, nothing that fits is evicted because its ring grew long, and
 * the limits give their errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "fabric/count.h"
#include "support/rig.h"

static void test_small(const char *policy)
{
	struct rig r;
	uint32_t version;

	rig_open(&r, policy, 32, 8);
	assert_int_equal(rig_get(&r, 3, &version), FORGE_MISS);
	assert_int_equal(rig_set(&r, 3, 1, 40), 0);
	assert_int_equal(rig_get(&r, 3, &version), 0);
	assert_int_equal(version, 1);
	assert_int_equal(rig_set(&r, 3, 2, 60), 0);
	assert_int_equal(rig_get(&r, 3, &version), 0);
	assert_int_equal(version, 2);
	assert_int_equal(rig_delete(&r, 3), 0);
	assert_int_equal(rig_get(&r, 3, &version), FORGE_MISS);
	assert_int_equal(rig_delete(&r, 3), FORGE_MISS);
	rig_close(&r);
}

static void test_evicting(const char *policy)
{
	struct rig r;
	struct prng prng;
	static uint32_t latest[4096];
	uint32_t hits = 0;

	memset(latest, 0, sizeof(latest));
	prng_seed(&prng, 5);
	rig_open(&r, policy, 32, 8);
	for (uint32_t i = 0; i < 200000; i++) {
		uint32_t version, id = (uint32_t)prng_below(&prng, 1 + prng_below(&prng, 4096));

		if (rig_get(&r, id, &version) == 0) {
			assert_int_equal(version, latest[id]);
			hits++;
			if (prng_below(&prng, 10))
				continue;
		}
		latest[id] = i + 1;
		assert_int_equal(rig_set(&r, id, i + 1, 4 * (1 + (uint32_t)prng_below(&prng, 20))),
				 0);
	}
	print_message("%s: %u hits, %llu evictions, %llu rescued, %llu requeued, %llu compacted\n",
		      policy, hits, (unsigned long long)r.cache.count.evictions,
		      (unsigned long long)r.cache.count.objects_rescued,
		      (unsigned long long)r.cache.count.groups_requeued,
		      (unsigned long long)r.cache.count.groups_compacted);
	assert_true(hits > 10000);
	assert_true(r.cache.count.evictions > 100);
	rig_close(&r);
}

static void test_forge_small(void **state)
{
	test_small("forge");
}

static void test_paper_small(void **state)
{
	test_small("forge-paper");
}

static void test_forge_evicting(void **state)
{
	test_evicting("forge");
}

static void test_paper_evicting(void **state)
{
	test_evicting("forge-paper");
}

/*
 * Half of the keys are never updated: their groups stay at the head of the ring while the others'
 * are compacted, until it is overlong.  All of it fits, so all of it stays.
 */
static void test_overlong(const char *policy, uint32_t chunks)
{
	struct rig r;
	uint32_t keys = 4 * chunks, version;

	rig_open(&r, policy, chunks, 8);
	for (uint32_t id = 0; id < keys; id++)
		assert_int_equal(rig_set(&r, id, 1, 40), 0);
	for (uint32_t round = 2; round < 40; round++)
		for (uint32_t id = keys / 2; id < keys; id++)
			assert_int_equal(rig_set(&r, id, round, 40), 0);
	for (uint32_t id = 0; id < keys; id++) {
		assert_int_equal(rig_get(&r, id, &version), 0);
		assert_int_equal(version, id < keys / 2 ? 1 : 39);
	}
	print_message("%s, %u chunks: %llu compacted, %llu spared\n", policy, chunks,
		      (unsigned long long)r.cache.count.groups_compacted,
		      (unsigned long long)r.cache.count.groups_spared);
	assert_int_equal(r.cache.count.evictions, 0);
	assert_true(r.cache.count.groups_spared > chunks / 4);
	rig_close(&r);
}

static void test_forge_overlong(void **state)
{
	test_overlong("forge", 96);
}

static void test_small_overlong(void **state)
{
	test_overlong("forge", 48);
}

static void test_paper_overlong(void **state)
{
	test_overlong("forge-paper", 96);
}

/*
 * Two nodes update keys that all fit.  The first believed that it was alone until it evicted: it
 * told nobody what it saw die, and left what others told in the next life of a chunk, so that
 * groups were evicted, and living members taken for dead, while most of the pool was holes.
 */
static void test_two_update(const char *policy)
{
	struct rig first, second, *rigs[] = {&first, &second};
	uint32_t latest[200] = {0}, version;
	struct prng prng;

	prng_seed(&prng, 3);
	rig_open(&first, policy, 192, 8);
	rig_attach(&second, &first, 2);
	for (uint32_t i = 0; i < 60000; i++) {
		uint32_t id = (uint32_t)prng_below(&prng, ARRAY_COUNT(latest));

		assert_int_equal(rig_set(rigs[prng_below(&prng, 2)], id, i + 1, 40), 0);
		latest[id] = i + 1;
		id = (uint32_t)prng_below(&prng, ARRAY_COUNT(latest));
		if (!latest[id])
			continue;
		assert_int_equal(rig_get(rigs[prng_below(&prng, 2)], id, &version), 0);
		assert_int_equal(version, latest[id]);
	}
	for (unsigned i = 0; i < ARRAY_COUNT(rigs); i++) {
		assert_true(rigs[i]->cache.count.groups_compacted > 100);
		assert_int_equal(rigs[i]->cache.count.evictions, 0);
		assert_int_equal(rigs[i]->cache.count.objects_hidden, 0);
	}
	rig_close(&second);
	rig_close(&first);
}

static void test_forge_two_update(void **state)
{
	test_two_update("forge");
}

static void test_paper_two_update(void **state)
{
	test_two_update("forge-paper");
}

static void test_limits(void **state)
{
	struct rig r;
	static char big[100000];
	struct cache_item item = {.value = big, .bytes = 10};

	rig_open(&r, "forge", 32, 8);
	assert_int_equal(cache_set(&r.cache, (struct cache_key){big, 0}, &item), FORGE_E_KEY_EMPTY);
	assert_int_equal(cache_set(&r.cache, (struct cache_key){big, 251}, &item),
			 FORGE_E_KEY_LONG);
	assert_int_equal(cache_set(&r.cache, (struct cache_key){big, 250}, &item), 0);
	item.bytes = sizeof(big);
	assert_int_equal(cache_set(&r.cache, (struct cache_key){big, 10}, &item),
			 FORGE_E_VALUE_LARGE);
	item.bytes = r.pool.plan.chunk_bytes - 8 - 48 - 10;
	item.bytes -= item.bytes % 16;
	assert_int_equal(cache_set(&r.cache, (struct cache_key){big, 10}, &item), 0);
	rig_close(&r);
}

/* Wherever cursors lie, an operation ends: by the alarm, not by the patience of who looks on. */
static void test_damaged_cursors(void **state)
{
	static const uint64_t places[] = {
	    0, 5, 1000, UINT64_C(1) << 36, UINT64_C(1) << 62, UINT64_C(1) << 63, -UINT64_C(33), -1,
	};

	alarm(60);
	for (unsigned i = 0; i < 2 * ARRAY_COUNT(places) * ARRAY_COUNT(places); i++) {
		struct rig r, other;
		uint32_t ring = i % 2, version;

		rig_open(&r, "forge", 32, 8);
		rig_attach(&other, &r, 2);
		for (uint32_t id = 0; id < 150; id++)
			assert_int_equal(rig_set(&r, id, 1, 40), 0);
		uint64_t *cursors = (void *)((uint8_t *)r.memory + r.pool.plan.cursors_offset);

		cursors[2 * ring] = places[i / 2 % ARRAY_COUNT(places)];
		cursors[2 * ring + 1] = places[i / 2 / ARRAY_COUNT(places)];
		assert_int_equal(cache_poll(&r.cache), 0);
		assert_int_equal(cache_poll(&other.cache), 0);
		for (uint32_t id = 0; id < 50; id++) {
			rig_set(&other, id, 2, 40);
			if (rig_get(&r, id, &version) == 0)
				assert_in_range(version, 1, 2);
		}
		rig_kill(&other);
		rig_kill(&r);
	}
	alarm(0);
}

/* On a machine so busy that a look at the clock takes a millisecond. */
static uint64_t tick_ms(const struct clock *clock)
{
	const struct rig_clock *c = (const void *)clock;

	return *c->now_ns += 1000000;
}

/* ... and in a large pool as soon as in a small one: a Set that finds no space says so. */
static void test_damaged_cursors_large(void **state)
{
	uint64_t now_ns = clock_now_ns(clock_monotonic());
	struct rig_clock slow = {.clock = {tick_ms}, .now_ns = &now_ns};
	struct fab_counts counts = {0};
	struct rig r;

	rig_open(&r, "forge", 1u << 16, 8);
	assert_int_equal(rig_set(&r, 0, 1, 40), 0);
	uint64_t *cursors = (void *)((uint8_t *)r.memory + r.pool.plan.cursors_offset);

	for (uint32_t ring = 0; ring < RING_COUNT; ring++)
		cursors[2 * ring + 1] = cursors[2 * ring] + UINT64_C(0x123456789a);
	memset((uint8_t *)r.memory + r.pool.plan.ring_offset[RING_FREE], 0,
	       8 * r.pool.plan.ring_nodes);
	assert_int_equal(count_open(r.fab, &counts, &r.fab), 0);
	r.worker.fab = r.fab;
	r.worker.clock = &slow.clock;
	uint32_t id = 1;
	int status = 0;

	while (!status && id < 1000)
		status = rig_set(&r, id++, 1, 40);
	assert_int_equal(status, FORGE_E_NO_SPACE);
	/* 53,396; try upon try for each chunk it was 53.9 million. */
	assert_in_range(fab_counts_total(&counts).verbs, 1, 500000);
	rig_kill(&r);
}

/* Put every chunk that is free or queued into another node's hand. */
static void take_all_chunks(const struct rig *r)
{
	uint64_t *chunks =
	    (void *)((uint8_t *)r->memory + plan_chunk_word_address(&r->pool.plan, 0));

	for (uint32_t chunk = 0; chunk < r->pool.plan.chunk_count; chunk++)
		if (chunk_state(chunks[chunk]) == CHUNK_FREE ||
		    chunk_state(chunks[chunk]) == CHUNK_QUEUED)
			chunks[chunk] = chunk_pack_reserved(1, chunk_generation(chunks[chunk]));
}

/*
 * A deadline that has passed: nothing is done.  One that passes while a Set seeks space, every
 * chunk being in another node's hand: it gives up, and leaves nothing.
 */
static void test_deadline(void **state)
{
	struct rig r;
	uint32_t version;

	rig_open(&r, "forge", 32, 8);
	rig_tick(&r);
	assert_int_equal(rig_set(&r, 1, 1, 40), 0);
	r.cache.deadline_ns = clock_now_ns(r.worker.clock) + 1000000000;
	assert_int_equal(rig_set(&r, 1, 2, 40), 0);
	r.cache.deadline_ns = clock_now_ns(r.worker.clock);
	assert_int_equal(rig_set(&r, 1, 3, 40), FORGE_E_DEADLINE);
	assert_int_equal(rig_delete(&r, 1), FORGE_E_DEADLINE);
	assert_int_equal(rig_get(&r, 1, &version), FORGE_E_DEADLINE);
	r.cache.deadline_ns = 0;
	assert_int_equal(rig_get(&r, 1, &version), 0);
	assert_int_equal(version, 2);

	uint32_t id = 100;
	int status;

	do {
		take_all_chunks(&r);
		/* Less than it takes to see that others hold all chunks. */
		r.cache.deadline_ns = clock_now_ns(r.worker.clock) + 2000;
		status = rig_set(&r, ++id, 1, 40);
	} while (!status && id < 1000);
	assert_int_equal(status, FORGE_E_DEADLINE);
	r.cache.deadline_ns = 0;
	assert_int_equal(rig_get(&r, id, &version), FORGE_MISS);
	/* In the end it seals a group of its own, and evicts that. */
	take_all_chunks(&r);
	assert_int_equal(rig_set(&r, id, 1, 40), 0);
	assert_int_equal(rig_get(&r, id, &version), 0);
	assert_int_equal(r.lane.refilling, 0);
	rig_kill(&r);
}

/* An id kept from before a node lost its memory names no value of the pool that comes after. */
static void test_cas_ids_of_pools(void **state)
{
	uint64_t ids[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct rig r;
		const struct cache_key key = {"key", 3};
		const struct cache_item item = {.value = "value", .bytes = 5};

		rig_open(&r, "forge", 32, 8);
		assert_int_equal(cache_store(&r.cache, key, CACHE_ADD, &item, &ids[i]), 0);
		rig_close(&r);
	}
	assert_int_not_equal(ids[0], ids[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forge_small),	     cmocka_unit_test(test_paper_small),
	    cmocka_unit_test(test_forge_evicting),   cmocka_unit_test(test_paper_evicting),
	    cmocka_unit_test(test_forge_overlong),   cmocka_unit_test(test_small_overlong),
	    cmocka_unit_test(test_paper_overlong),   cmocka_unit_test(test_forge_two_update),
	    cmocka_unit_test(test_paper_two_update), cmocka_unit_test(test_limits),
	    cmocka_unit_test(test_damaged_cursors),  cmocka_unit_test(test_damaged_cursors_large),
	    cmocka_unit_test(test_deadline),	     cmocka_unit_test(test_cas_ids_of_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
