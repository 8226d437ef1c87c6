/*
 * load_reference.c: the ceiling of a trace's hit ratio.
 *
 * Shows, on traces of a few requests and random ones beside a plain model, which Gets may hit:
 * those of ids that were stored before, or asked for where misses are filled, and not deleted
 * since; that only Gets after the warm-up count; and that a Set is no Get, so that a trace with
 * Sets has a ceiling above the share of its requests that repeat an id.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "bench/reference.h"

enum { REQUESTS_MAX = 4096, IDS = 50 };

static enum load_op_kind kind_of(char op)
{
	static const char letters[] = "gsuird"; /* as enum load_op_kind has them */
	const char *at = strchr(letters, op);

	assert_non_null(at);
	return (enum load_op_kind)(at - letters);
}

/* ops and ids are one letter for each request. */
static void check(const char *ops, const char *ids, const struct replay_load *how, bool fills,
		  uint64_t hits, uint64_t gets)
{
	uint32_t dense[REQUESTS_MAX];
	uint8_t kinds[REQUESTS_MAX];
	struct trace_data t = {.count = strlen(ops), .distinct = 26, .ids = dense, .ops = kinds};
	struct replay_load r = *how;
	struct bench_ceiling c;

	assert_int_equal(strlen(ids), t.count);
	for (size_t i = 0; i < t.count; i++) {
		dense[i] = (uint32_t)(ids[i] - 'a');
		kinds[i] = (uint8_t)kind_of(ops[i]);
	}
	r.trace = &t;
	assert_int_equal(reference_ceiling(&r, fills, &c), 0);
	if (c.hits != hits || c.gets != gets || c.fills != fills)
		fail_msg("%s of %s: %llu of %llu, expected %llu of %llu", ops, ids,
			 (unsigned long long)c.hits, (unsigned long long)c.gets,
			 (unsigned long long)hits, (unsigned long long)gets);
}

static void test_by_hand(void **state)
{
	const struct replay_load plain = {0};

	(void)state;
	check("gggg", "abab", &plain, true, 2, 4);
	check("gggg", "abab", &plain, false, 0, 4);
	/* A Set brings its id in and is no Get: all of these hit, though each id is new once. */
	check("sgsg", "aabb", &plain, true, 2, 2);
	check("sgsg", "aabb", &plain, false, 2, 2);
	check("ugig", "aabb", &plain, false, 2, 2);
	/* What was deleted is gone until it is stored or filled again. */
	check("sdgg", "aaaa", &plain, true, 1, 2);
	check("sdgg", "aaaa", &plain, false, 0, 2);
	check("dsg", "aaa", &plain, false, 1, 1);
	/* A read-modify-write is a Get, and stores. */
	check("rrg", "aaa", &plain, false, 2, 3);
	check("ss", "aa", &plain, true, 0, 0);
	check("", "", &plain, true, 0, 0);
}

static void test_warm_up_and_gets_only(void **state)
{
	(void)state;
	check("ggsgg", "abcac", &(struct replay_load){.warm_up_requests = 3}, true, 2, 2);
	check("ggsgg", "abcac", &(struct replay_load){.warm_up_requests = 3}, false, 1, 2);
	check("ggsgg", "abcac", &(struct replay_load){.warm_up_requests = 9}, true, 0, 0);
	check("sgsgd", "aabba", &(struct replay_load){.gets_only = true}, true, 3, 5);
	check("sgsgd", "aabba", &(struct replay_load){.gets_only = true}, false, 0, 5);
}

/* An LRU that never evicts hits exactly the ceiling; a smaller one hits no more than that. */
static void test_beside_lru(void **state)
{
	uint32_t ids[REQUESTS_MAX];
	uint8_t ops[REQUESTS_MAX];
	struct trace_data t = {.count = REQUESTS_MAX, .distinct = IDS, .ids = ids, .ops = ops};
	struct replay_load r = {.trace = &t, .value_bytes = 1, .value_bytes_max = 1};
	struct prng draw;
	struct bench_ceiling c;

	(void)state;
	prng_seed(&draw, 11);
	for (int i = 0; i < REQUESTS_MAX; i++) {
		ids[i] = (uint32_t)prng_below(&draw, IDS);
		ops[i] = (uint8_t)prng_below(&draw, LOAD_OP_KINDS);
	}
	for (r.warm_up_requests = 0; r.warm_up_requests < 3000; r.warm_up_requests += 1000) {
		assert_int_equal(reference_ceiling(&r, true, &c), 0);
		for (uint64_t objects = IDS; objects > 1; objects /= 2) {
			struct bench_reference lru = {0};

			assert_int_equal(reference_of_trace(
					     &r, (struct refcache_limit){.objects = objects}, &lru),
					 0);
			assert_int_equal(lru.gets, c.gets);
			assert_true(objects == IDS ? lru.hits == c.hits : lru.hits < c.hits);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_by_hand),
	    cmocka_unit_test(test_warm_up_and_gets_only),
	    cmocka_unit_test(test_beside_lru),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
