/*
 * load.c: the benchmark engine with several threads in one process, for TSan.
 *
 * One compute node of four threads runs a stress load (every value verified, none older than
 * what was acknowledged) on a pool that evicts all the time; and a trace is dealt to three threads
 * that keep each other's pace.  What the engine adds up must agree with the load.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "bench/loads.h"
#include "bench/own_pool.h"

#define OPERATIONS 120000u

static struct own_pool make_pool(const char *policy, uint32_t slot_words, uint32_t chunks)
{
	struct plan_wish wish = {
	    .chunk_count = chunks,
	    .object_bytes = 280,
	    .policy = policy,
	    .slot_words = slot_words,
	    .cn_max = 1,
	};
	struct own_pool pool;
	char text[512] = "";

	if (own_pool_create(&pool, &wish, text, sizeof(text)))
		fail_msg("%s", text);
	return pool;
}

static void run(const struct bench_setup *setup, const struct bench_load *load,
		struct bench_result *result)
{
	char text[1024] = "";

	if (bench_run(setup, load, result, text, sizeof(text)))
		fail_msg("%s", text);
}

static void stress(const char *policy, uint32_t slot_words)
{
	struct own_pool pool = make_pool(policy, slot_words, 48);
	struct bench_result *r = malloc(sizeof(*r));
	struct workload_spec spec;
	struct load_error error;
	struct bench_load load;
	struct bench_setup setup = {
	    .pool = pool.name,
	    .policy = policy,
	    .processes = 1,
	    .threads = 4,
	    .measured = {.operations = OPERATIONS},
	    .seed = 3,
	    .stress = true,
	    .attached = own_pool_forget,
	    .attached_context = &pool,
	};

	assert_non_null(r);
	assert_int_equal(
	    workload_parse(&spec, "zipf:0.7,get=0.6,set=0.38,delete=0.02,keys=6000", &error), 0);
	load_of_workload(&load, &spec);
	run(&setup, &load, r);
	assert_false(pool.named); /* forgotten as soon as all had attached */
	assert_int_equal(r->workers, 4);
	assert_int_equal(r->tally.operations, OPERATIONS);
	assert_int_equal(r->tally.gets + r->tally.sets + r->tally.deletes, OPERATIONS);
	assert_int_equal(r->tally.verified, r->tally.hits);
	assert_int_equal(r->tally.hits, r->cache.hits);
	assert_int_equal(r->latency[BENCH_ALL].count, OPERATIONS);
	assert_int_equal(r->latency[BENCH_GET_HIT].count, r->tally.hits);
	assert_true(r->tally.hits > OPERATIONS / 20);
	assert_true(r->cache.groups_regrouped > 100);
	workload_spec_free(&spec);
	free(r);
}

static void four_threads_read_no_wrong_value(void **state)
{
	stress("forge", 1);
}

static void four_threads_of_forge_paper(void **state)
{
	stress("forge-paper", 2);
}

#define REQUESTS 30000u
#define IDS	 3000u

static void a_trace_is_dealt_once(void **state)
{
	static uint32_t ids[REQUESTS];
	static uint64_t keys[IDS];
	struct trace_data trace = {.count = REQUESTS, .distinct = IDS, .ids = ids, .keys = keys};
	struct replay_load replay = {.trace = &trace, .value_bytes = 64, .lag = 4};
	struct own_pool pool = make_pool("forge", 1, 64);
	struct bench_result *r = malloc(sizeof(*r));
	struct bench_load load;
	struct bench_setup setup = {
	    .pool = pool.name, .processes = 1, .threads = 3, .verify = true};

	for (uint32_t i = 0; i < IDS; i++)
		keys[i] = i * 7919u;
	for (uint32_t i = 0; i < REQUESTS; i++)
		ids[i] = i % IDS; /* a loop that fits */
	load_of_trace(&load, &replay);
	run(&setup, &load, r);
	own_pool_forget(&pool);
	assert_int_equal(r->tally.operations, REQUESTS);
	assert_int_equal(r->tally.distinct, IDS);
	assert_int_equal(r->tally.gets, REQUESTS);
	/* Each id misses once, unless its next request overtook its fill. */
	assert_in_range(r->tally.gets - r->tally.hits, IDS, IDS + IDS / 10);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(four_threads_read_no_wrong_value),
	    cmocka_unit_test(four_threads_of_forge_paper),
	    cmocka_unit_test(a_trace_is_dealt_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
