/*
 * processes.c: compute nodes as processes on a pool that evicts all the time.
 *
 *	system_processes [MILLIONS]	operations of the whole program, 40 by default
 *
 * Each of 4 processes runs 2 threads against a pool far too small for the keys, with one writer
 * per key (no older value may come back, see test/mt/stress.h) and with many.  Every Get that
 * hits is verified.  At the end the pool must be at rest: every chunk accounted for, no key
 * twice.  A run in which no operation ends for a minute fails with the state of every worker.
 * The policies, sizes and mixes of the cases differ, so that each takes another path most often.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "stress.h"

#define NODES	4u
#define THREADS 2u

static uint64_t millions = 40;

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* share: of the operations of the program, in percent */
static void run(struct stress_wish wish, uint32_t share)
{
	wish.nodes = wish.nodes ? wish.nodes : NODES;
	wish.threads = wish.threads ? wish.threads : THREADS;
	wish.ops = millions * 10000 * share / (wish.nodes * wish.threads);
	wish.seed = wish.seed ? wish.seed : 1;
	double start = seconds();
	struct stress *s = stress_begin(&wish);
	int failed = stress_run_processes(s) || stress_check_pool(s);
	const struct stress_totals *t = stress_sum(s);

	print_message("%s, %u chunks of %u: %" PRIu64 " Gets (%" PRIu64 " verified hits), %" PRIu64
		      " Sets, %" PRIu64 " Deletes in %.1f s; %" PRIu64 " groups sealed, %" PRIu64
		      " rescued, %" PRIu64 " requeued, %" PRIu64 " compacted, %" PRIu64
		      " bucket full; %" PRIu64 " no space, %" PRIu64 " again\n",
		      wish.policy, wish.chunks, wish.group_objects, t->gets, t->hits, t->sets,
		      t->deletes, seconds() - start, t->count.groups_sealed,
		      t->count.objects_rescued, t->count.groups_requeued, t->count.groups_compacted,
		      t->count.bucket_full, t->no_space, t->again);
	if (failed)
		print_error("%s\n", stress_failure(s));
	uint64_t sealed = t->count.groups_sealed, ops = t->gets + t->sets + t->deletes;
	uint64_t sets = t->sets, no_space = t->no_space;

	stress_end(s);
	assert_false(failed);
	assert_true(ops >= wish.ops * wish.nodes * wish.threads);
	/* The pool was turned over again and again, or this shows nothing. */
	assert_true(sealed > 10 * (uint64_t)wish.chunks);
	/* Short of chunks, workers take turns; nobody keeps all of them for ever. */
	assert_true(no_space < sets / 2);
}

static void test_forge_one_writer(void **state)
{
	run((struct stress_wish){.policy = "forge",
				 .chunks = 128,
				 .group_objects = 16,
				 .object_bytes = 100,
				 .keys = 5000,
				 .value_bytes_max = 200,
				 .set_percent = 25,
				 .delete_percent = 5},
	    25);
}

static void test_paper_one_writer(void **state)
{
	run((struct stress_wish){.policy = "forge-paper",
				 .chunks = 128,
				 .group_objects = 16,
				 .object_bytes = 100,
				 .keys = 5000,
				 .value_bytes_max = 200,
				 .set_percent = 25,
				 .delete_percent = 5},
	    25);
}

/* Mostly updates of few keys: compaction claims from the middle of the rings. */
static void test_forge_updates(void **state)
{
	run((struct stress_wish){.policy = "forge",
				 .chunks = 64,
				 .group_objects = 8,
				 .object_bytes = 100,
				 .keys = 400,
				 .value_bytes_max = 150,
				 .set_percent = 60,
				 .delete_percent = 10},
	    15);
}

/* All write all keys, in buckets that are often full. */
static void test_forge_many_writers(void **state)
{
	run((struct stress_wish){.policy = "forge",
				 .chunks = 64,
				 .group_objects = 32,
				 .object_bytes = 60,
				 .slots_per_object = 1,
				 .keys = 4000,
				 .value_bytes_max = 100,
				 .set_percent = 35,
				 .delete_percent = 15,
				 .many_writers = 1},
	    15);
}

static void test_paper_many_writers(void **state)
{
	run((struct stress_wish){.policy = "forge-paper",
				 .chunks = 64,
				 .group_objects = 64,
				 .object_bytes = 300,
				 .keys = 10000,
				 .value_bytes_max = 800,
				 .set_percent = 35,
				 .delete_percent = 15,
				 .many_writers = 1},
	    15);
}

/* Fewer chunks than hands. */
static void test_forge_handful(void **state)
{
	run((struct stress_wish){.policy = "forge",
				 .chunks = 6,
				 .group_objects = 8,
				 .object_bytes = 60,
				 .keys = 200,
				 .value_bytes_max = 60,
				 .set_percent = 30,
				 .delete_percent = 5,
				 .may_run_dry = 1},
	    5);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_forge_one_writer),   cmocka_unit_test(test_paper_one_writer),
	    cmocka_unit_test(test_forge_updates),      cmocka_unit_test(test_forge_many_writers),
	    cmocka_unit_test(test_paper_many_writers), cmocka_unit_test(test_forge_handful),
	};

	if (argc > 1 && parse_u64(argv[1], &millions))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
