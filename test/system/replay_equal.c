/*
 * replay_equal.c: a replay through processes and shared memory hits as often as the plain loop.
 *
 * One request stream (Zipf 0.8 over 130,000 ids, 800,000 requests, a cache of 10 %) runs twice:
 * as a loop of cache_get() and cache_set() in this process over the loop provider, and through
 * the engine as `forge replay` runs it.  Only the times of the polls differ, so the hit ratios
 * are within a tenth of a point.  With three processes, of 67 groups each, they stay within a
 * point of one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/loads.h"
#include "bench/own_pool.h"
#include "fabric/loop.h"
#include "policy/policy.h"

#define IDS	 130000u
#define REQUESTS 800000u
#define CHUNKS	 (IDS / 10 / 64)

static uint32_t ids[REQUESTS];
static uint64_t keys[IDS];

static int make_requests(void **state)
{
	struct zipf_exact zipf;
	struct prng prng;

	zipf_exact_init(&zipf, IDS, 0.8);
	prng_seed(&prng, 11);
	for (uint32_t i = 0; i < IDS; i++)
		keys[i] = i;
	for (uint32_t i = 0; i < REQUESTS; i++)
		ids[i] = (uint32_t)zipf_scramble(zipf_exact_rank(&zipf, &prng), IDS);
	return 0;
}

static struct plan_wish wish_for(const struct policy *policy, uint32_t cn_max)
{
	return (struct plan_wish){
	    .chunk_count = CHUNKS,
	    .object_bytes = 24,
	    .slot_words = policy->slot_words,
	    .policy = policy->name,
	    .cn_max = cn_max,
	};
}

/* The loop of requests; the number of hits. */
static uint64_t hits_of(struct cache *c)
{
	uint64_t hits = 0;

	for (uint32_t i = 0; i < REQUESTS; i++) {
		uint64_t id = ids[i], value[2] = {id, id};
		struct cache_key key = {.data = &id, .bytes = sizeof(id)};
		struct cache_value found;
		int status = cache_get(c, key, &found);

		hits += status == 0;
		if (status == FORGE_MISS)
			status = cache_set(
			    c, key, &(struct cache_item){.value = value, .bytes = sizeof(value)});
		assert_int_equal(status, 0);
	}
	return hits;
}

static uint64_t loop_hits(const struct policy *policy, uint32_t cn_max)
{
	struct plan_wish wish = wish_for(policy, cn_max);
	static struct layout_registry lines[LAYOUT_CN_MAX];
	struct plan plan;
	struct pool pool;
	struct fab *fab;
	struct worker w;
	struct cn cn;
	struct lane lane;
	struct cache cache;
	char text[256];

	assert_int_equal(plan_make(&wish, &plan, text, sizeof(text)), 0);
	void *memory = aligned_alloc(4096, round_up_u64(plan.pool_bytes, 4096));

	assert_non_null(memory);
	memset(memory, 0, plan.pool_bytes);
	assert_int_equal(loop_open(memory, plan.pool_bytes, &fab), 0);
	worker_init(&w, fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&w, &plan, 1), 0);
	assert_int_equal(pool_open(&w, &pool, text, sizeof(text)), 0);
	assert_int_equal(cn_open(&cn, &pool, policy, &w, &(struct cn_options){0}, 1, lines), 0);
	assert_int_equal(lane_init(&lane, &cn), 0);
	assert_int_equal(cache_init(&cache, &w, &cn, &lane), 0);
	uint64_t hits = hits_of(&cache);

	cache_drain(&cache);
	cache_fini(&cache);
	lane_fini(&lane);
	cn_close(&cn, &w);
	fab_close(fab);
	free(memory);
	return hits;
}

static uint64_t replay_hits(const struct policy *policy, uint32_t cn_max, uint32_t processes)
{
	struct trace_data trace = {.count = REQUESTS, .distinct = IDS, .ids = ids, .keys = keys};
	struct replay_load replay = {.trace = &trace, .value_bytes = 16, .lag = REPLAY_LAG_DEFAULT};
	struct plan_wish wish = wish_for(policy, cn_max);
	struct bench_result *r = malloc(sizeof(*r));
	struct own_pool pool;
	struct bench_load load;
	char text[1024] = "";

	assert_non_null(r);
	if (own_pool_create(&pool, &wish, text, sizeof(text)))
		fail_msg("%s", text);
	struct bench_setup setup = {
	    .pool = pool.name, .processes = processes, .threads = 1, .verify = true};

	load_of_trace(&load, &replay);
	int status = bench_run(&setup, &load, r, text, sizeof(text));

	own_pool_forget(&pool);
	if (status)
		fail_msg("%s", text);
	uint64_t hits = r->tally.hits;

	assert_int_equal(r->tally.gets, REQUESTS);
	free(r);
	return hits;
}

static double points(uint64_t hits)
{
	return 100.0 * (double)hits / REQUESTS;
}

static void compare(const char *name)
{
	const struct policy *policy = policy_find(name);

	assert_non_null(policy);
	double loop = points(loop_hits(policy, 3));
	double one = points(replay_hits(policy, 3, 1));
	double three = points(replay_hits(policy, 3, 3));

	print_message("%s: %.3f %% in a loop, %.3f %% by one process, %.3f %% by three\n", name,
		      loop, one, three);
	assert_true(loop > 30 && loop < 90);
	assert_true(one > loop - 0.1 && one < loop + 0.1);
	assert_true(three > one - 1);
}

static void forge_replays_as_it_loops(void **state)
{
	compare("forge");
}

static void forge_paper_replays_as_it_loops(void **state)
{
	compare("forge-paper");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(forge_replays_as_it_loops),
	    cmocka_unit_test(forge_paper_replays_as_it_loops),
	};

	return cmocka_run_group_tests(tests, make_requests, NULL);
}
