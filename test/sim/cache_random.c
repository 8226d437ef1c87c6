/*
 * cache_random.c: the cache in worlds too large to exhaust, scheduled by chance.
 *
 * Two to four workers Set, Get, Delete and poll a few keys, some with one fingerprint, in pools so
 * small that they evict all the time; rings and generations wrap; verbs are torn; half of the
 * runs are with kills.  No Get may return a wrong, old or torn value, the pool is in order after
 * each run, and every run ends.
 *
 *   sim_cache_random [RUNS [SEED]]       of each world; 10,000 and 1 by default
 *   sim_cache_random --replay 'forge-sim replay: world=...'
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache_worlds.h"
#include "sim/random.h"
#include "sim/replay.h"
#include "sim/shrink.h"

#define TESTS_MAX 64u

static struct sim_report report; /* large */
static struct cache_world *world;
static uint64_t run_count = 10000, first_seed = 1;

static int build(const char *name, struct sim **out)
{
	const struct world_spec *spec = cache_world_find(name);

	return spec ? cache_world_build(spec, 0, &world, out) : FORGE_E_INVAL;
}

static void test_world(void **state)
{
	const struct world_spec *spec = *state;
	struct sim *s;

	assert_int_equal(build(spec->name, &s), 0);
	for (unsigned kill_percent = 0; kill_percent <= 60; kill_percent += 60) {
		struct sim_random_options options = {
		    .config = {.seed = first_seed, .tear = SIM_TEAR_WORDS},
		    .run_count = run_count / 2,
		    .kill_percent = kill_percent,
		    .kill_verbs_max = 150};

		sim_random(s, &options, &report);
		if (report.status)
			sim_shrink(s, &report);
		sim_report_print(&report, spec->name, stdout);
		assert_int_equal(report.status, 0);
	}
	if (!strstr(spec->name, "index"))
		assert_true(world->total.evictions > run_count / 10);
	cache_world_destroy(world, s);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[TESTS_MAX];
	size_t count = 0;
	int exit_status;

	if (sim_replay_main(argc, argv, build, &exit_status))
		return exit_status;
	if (argc > 1)
		run_count = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 10);
	for (unsigned i = 0; cache_world_at(i); i++) {
		const struct world_spec *spec = cache_world_at(i);

		assert(count < TESTS_MAX);
		if (spec->search == WORLD_RANDOM)
			tests[count++] =
			    (struct CMUnitTest){.name = spec->name,
						.test_func = test_world,
						.initial_state = (void *)(uintptr_t)spec};
	}
	return _cmocka_run_group_tests("random cache worlds", tests, count, NULL, NULL);
}
