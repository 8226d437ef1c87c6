/*
 * cache.c: Get, Set and Delete of one compute node on the loop fabric, with both policies: values
 * come back verified, a pool far too small for the data keeps working, memory keys are found
 * again after updates and regroups, and the limits give their errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "fabric/loop.h"

struct rig {
	void *memory;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct cn cn;
	struct lane lane;
	struct cache cache;
};

static void rig_open(struct rig *r, const char *policy_name, uint32_t chunks, uint32_t objects)
{
	const struct policy *policy = policy_find(policy_name);
	struct plan_wish wish = {.chunk_count = chunks,
				 .group_objects = objects,
				 .object_bytes = 80,
				 .slot_words = policy->slot_words,
				 .policy = policy_name};
	struct plan plan;
	char error[256];

	assert_int_equal(plan_make(&wish, &plan, error, sizeof(error)), 0);
	r->memory = aligned_alloc(64, round_up_u64(plan.pool_bytes, 64));
	assert_non_null(r->memory);
	memset(r->memory, 0xa5, plan.pool_bytes);
	assert_int_equal(loop_open(r->memory, plan.pool_bytes, &r->fab), 0);
	worker_init(&r->worker, r->fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&r->worker, &plan, 7), 0);
	assert_int_equal(pool_open(&r->worker, &r->pool, error, sizeof(error)), 0);
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct cn_options options = {0};

	assert_int_equal(cn_open(&r->cn, &r->pool, policy, &r->worker, &options, 1, lines), 0);
	assert_int_equal(lane_init(&r->lane, &r->cn), 0);
	assert_int_equal(cache_init(&r->cache, &r->worker, &r->cn, &r->lane), 0);
}

static void rig_close(struct rig *r)
{
	assert_int_equal(cache_drain(&r->cache), 0);
	cache_fini(&r->cache);
	lane_fini(&r->lane);
	cn_close(&r->cn, &r->worker);
	fab_close(r->fab);
	free(r->memory);
}

static int set(struct rig *r, uint32_t id, uint32_t version, uint32_t bytes)
{
	char key[32];
	uint32_t value[256];
	struct cache_key k = {key, (uint32_t)snprintf(key, sizeof(key), "key-%u", id)};

	for (unsigned i = 0; i < ARRAY_COUNT(value); i++)
		value[i] = id * 2654435761u + version;
	return cache_set(&r->cache, k, &(struct cache_item){.value = value, .bytes = bytes});
}

static int get(struct rig *r, uint32_t id, uint32_t *version)
{
	char key[32];
	struct cache_key k = {key, (uint32_t)snprintf(key, sizeof(key), "key-%u", id)};
	struct cache_value v;
	int status = cache_get(&r->cache, k, &v);

	if (status)
		return status;
	uint32_t first;

	assert_true(v.bytes >= 4);
	memcpy(&first, v.data, 4);
	*version = first - id * 2654435761u;
	for (uint32_t i = 0; i + 4 <= v.bytes; i += 4)
		assert_memory_equal((const char *)v.data + i, &first, 4);
	return 0;
}

static void test_small(const char *policy)
{
	struct rig r;
	uint32_t version;
	char key[32] = "key-3";

	rig_open(&r, policy, 32, 8);
	assert_int_equal(get(&r, 3, &version), FORGE_MISS);
	assert_int_equal(set(&r, 3, 1, 40), 0);
	assert_int_equal(get(&r, 3, &version), 0);
	assert_int_equal(version, 1);
	assert_int_equal(set(&r, 3, 2, 60), 0);
	assert_int_equal(get(&r, 3, &version), 0);
	assert_int_equal(version, 2);
	assert_int_equal(cache_delete(&r.cache, (struct cache_key){key, 5}), 0);
	assert_int_equal(get(&r, 3, &version), FORGE_MISS);
	assert_int_equal(cache_delete(&r.cache, (struct cache_key){key, 5}), FORGE_MISS);
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

		if (get(&r, id, &version) == 0) {
			assert_int_equal(version, latest[id]);
			hits++;
			if (prng_below(&prng, 10))
				continue;
		}
		latest[id] = i + 1;
		assert_int_equal(set(&r, id, i + 1, 4 * (1 + (uint32_t)prng_below(&prng, 20))), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forge_small),	   cmocka_unit_test(test_paper_small),
	    cmocka_unit_test(test_forge_evicting), cmocka_unit_test(test_paper_evicting),
	    cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
