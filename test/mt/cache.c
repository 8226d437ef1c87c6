/*
 * cache.c: compute nodes as threads: what the workers of one node share (map, counters, who
 * polls) under TSan, one node with many workers and many nodes in one process, with and without
 * pauses between verbs; and proof that the stress notices when a rule of the protocol is missing.
 *
 *	mt_cache [THOUSANDS]	operations per thread, 20 by default
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "fabric/shm.h"
#include "stress.h"

static uint64_t thousands = 20;

static const struct stress_wish small = {
    .policy = "forge",
    .chunks = 96,
    .group_objects = 8,
    .object_bytes = 80,
    .nodes = 1,
    .threads = 4,
    .keys = 1500,
    .value_bytes_max = 120,
    .set_percent = 30,
    .delete_percent = 6,
    .seed = 1,
};

static void finish(struct stress *s, int failed)
{
	const struct stress_totals *t = stress_sum(s);

	failed = failed || stress_check_pool(s);
	print_message("%" PRIu64 " Gets (%" PRIu64 " verified hits), %" PRIu64 " Sets, %" PRIu64
		      " Deletes; %" PRIu64 " groups sealed, %" PRIu64 " polls\n",
		      t->gets, t->hits, t->sets, t->deletes, t->count.groups_sealed,
		      t->count.polls);
	if (failed)
		print_error("%s\n", stress_failure(s));
	uint64_t hits = t->hits;

	stress_end(s);
	assert_false(failed);
	assert_true(hits > 0);
}

static void run(struct stress_wish wish)
{
	wish.ops = thousands * 1000;
	struct stress *s = stress_begin(&wish);

	finish(s, stress_run_threads(s));
}

static void test_one_node(void **state)
{
	run(small);
}

static void test_one_node_paper(void **state)
{
	struct stress_wish wish = small;

	wish.policy = "forge-paper";
	run(wish);
}

static void test_one_node_pausing(void **state)
{
	struct stress_wish wish = small;

	wish.jitter = 1;
	run(wish);
}

static void test_nodes(void **state)
{
	struct stress_wish wish = small;

	wish.nodes = 3;
	wish.threads = 2;
	run(wish);
}

static void test_nodes_paper_pausing(void **state)
{
	struct stress_wish wish = small;

	wish.policy = "forge-paper";
	wish.nodes = 3;
	wish.threads = 2;
	wish.jitter = 1;
	run(wish);
}

/*
 * Values of any length up to 1 MiB beside small ones, each verified byte by byte, on a pool that
 * the largest of a dozen workers would fill: they gather, evict, replace and sweep at once.
 */
static const struct stress_wish large = {
    .policy = "forge",
    .chunks = 2000,
    .group_objects = 16,
    .object_bytes = 300,
    .nodes = 3,
    .threads = 2,
    .keys = 400,
    .value_bytes_max = 3000,
    .large_bytes_max = 1 << 20,
    .large_percent = 10,
    .set_percent = 35,
    .delete_percent = 6,
    .seed = 1,
};

static void run_large(struct stress_wish wish)
{
	wish.ops = thousands * 100;
	struct stress *s = stress_begin(&wish);
	int failed = stress_run_threads(s);
	const struct stress_totals *t = stress_sum(s);

	print_message("%" PRIu64 " parts linked, %" PRIu64 " freed\n", t->count.parts_linked,
		      t->count.parts_freed);
	assert_true(t->count.parts_freed > 1000 || failed);
	finish(s, failed);
}

static void test_large(void **state)
{
	run_large(large);
}

static void test_large_paper_pausing(void **state)
{
	struct stress_wish wish = large;

	wish.policy = "forge-paper";
	wish.large_bytes_max = 200000;
	wish.chunks = 500;
	wish.jitter = 1;
	run_large(wish);
}

static void test_large_many_writers(void **state)
{
	struct stress_wish wish = large;

	wish.keys = 20;
	wish.many_writers = 1;
	wish.large_percent = 50;
	run_large(wish);
}

static void test_many_writers(void **state)
{
	struct stress_wish wish = small;

	wish.nodes = 2;
	wish.threads = 2;
	wish.many_writers = 1;
	wish.keys = 100;
	wish.jitter = 1;
	run(wish);
}

static void test_sessions_come_and_go(void **state)
{
	struct stress_wish wish = small;

	wish.nodes = 2;
	wish.threads = 2;
	wish.reopen_ops = 300;
	run(wish);
}

struct flusher {
	const char *pool_name;
	atomic_int stop;
	uint64_t raised;
};

/* Raises the flush generation, as a flush of everything does. */
static void *flush_main(void *argument)
{
	struct flusher *f = argument;
	struct shm_map *map;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	char error[256];

	if (shm_map_open(f->pool_name, 0, error, sizeof(error), &map))
		return NULL;
	if (!shm_open_connection(map, &fab)) {
		worker_init(&worker, fab, clock_monotonic(), 1);
		int status = pool_open(&worker, &pool, error, sizeof(error));

		while (!status && !atomic_load(&f->stop)) {
			struct fab_op op = fab_faa(
			    FAB_CONTROL,
			    pool.plan.cursors_offset + offsetof(struct layout_cursors, fence), 1);

			status = flow_run(&worker, &op, 1);
			f->raised++;
			for (int i = 0; i < 1000; i++)
				flow_pause(&worker);
		}
		fab_close(fab);
	}
	shm_map_close(map);
	return NULL;
}

static void test_flush_generation(void **state)
{
	struct stress_wish wish = small;
	struct flusher flusher = {0};
	pthread_t thread;

	wish.ops = thousands * 1000;
	struct stress *s = stress_begin(&wish);

	flusher.pool_name = stress_pool_name(s);
	assert_int_equal(pthread_create(&thread, NULL, flush_main, &flusher), 0);
	int failed = stress_run_threads(s);

	atomic_store(&flusher.stop, 1);
	pthread_join(thread, NULL);
	finish(s, failed);
	assert_true(flusher.raised > 0);
}

/*
 * Every rule here is one whose loss the stress shows within a few runs, by a wrong value or a
 * pool that is not at rest.  A stress that found nothing here would find nothing anywhere.
 */
static void test_notices_missing_rules(void **state)
{
	static const enum rule rules[] = {
	    RULE_READ_CHECKS_KEY,
	    RULE_DELETE_CLEARS_STALE,
	    RULE_FREE_RAISES_GENERATION,
	    RULE_SKIPPED_RETICKETS,
	};

	for (unsigned i = 0; i < ARRAY_COUNT(rules); i++) {
		int noticed = 0;

		for (unsigned seed = 1; seed <= 10 && !noticed; seed++) {
			struct stress_wish wish = small;

			wish.policy = seed % 2 ? "forge-paper" : "forge";
			wish.chunks = 64;
			wish.object_bytes = 60;
			wish.slots_per_object = 1;
			wish.nodes = 4;
			wish.threads = 2;
			wish.keys = 1000;
			wish.ops = 20000;
			wish.value_bytes_max = 100;
			wish.set_percent = 35;
			wish.delete_percent = 10;
			wish.seed = seed;
			wish.jitter = 1;
			wish.may_run_dry = 1;
			wish.rules_off = rule_bit(rules[i]);
			struct stress *s = stress_begin(&wish);

			noticed = stress_run_threads(s) || stress_at_rest(s);
			if (noticed)
				print_message("without %s: %s\n", rule_name(rules[i]),
					      stress_failure(s));
			stress_end(s);
		}
		if (!noticed)
			fail_msg("the stress passes without %s", rule_name(rules[i]));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_one_node),
	    cmocka_unit_test(test_one_node_paper),
	    cmocka_unit_test(test_one_node_pausing),
	    cmocka_unit_test(test_nodes),
	    cmocka_unit_test(test_nodes_paper_pausing),
	    cmocka_unit_test(test_large),
	    cmocka_unit_test(test_large_paper_pausing),
	    cmocka_unit_test(test_large_many_writers),
	    cmocka_unit_test(test_many_writers),
	    cmocka_unit_test(test_sessions_come_and_go),
	    cmocka_unit_test(test_flush_generation),
	    cmocka_unit_test(test_notices_missing_rules),
	};

	if (argc > 1 && parse_u64(argv[1], &thousands))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
