/*
 * cache_random.c: the cache in worlds too large to exhaust, scheduled by chance.
 *
 * Two to four workers Set, Get, Delete and poll a few keys, some with one fingerprint, in pools so
 * small that they evict all the time; rings and generations wrap; verbs are torn; half of the
 * runs are with kills at random moments.  Then each node is killed after each of its verbs in
 * turn, in a few random schedules for each; so it is in the worlds that cache_explore.c searches
 * without kills only, because with them all schedules are too many.  No Get may return a wrong,
 * old or torn value, the pool is in order after each run, and every run ends.
 *
 *   sim_cache_random [RUNS [SEED [SCHEDULES]]]    RUNS of each world, SCHEDULES of each kill;
 *                                                 10,000, 1 and 5 by default
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
#include "sim/explore.h"
#include "sim/random.h"
#include "sim/replay.h"
#include "sim/shrink.h"

#define TESTS_MAX 128u

static struct sim_report report; /* large */
static struct cache_world *world;
static uint64_t run_count = 10000, first_seed = 1, kill_schedules = 5;
static char names[TESTS_MAX][64];

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

static void try_random(struct sim *s, const struct sim_config *config, void *arg,
		       struct sim_report *out)
{
	const struct sim_kill *kill = &config->kills[0];
	struct sim_random_options options = {.config = *config, .run_count = kill_schedules};

	/* Others for each kill. */
	options.config.seed += 1000 * (uint64_t)kill->after_verbs + 100 * kill->landing + kill->cn;
	options.config.seed *= 1000;
	sim_random(s, &options, out);
}

static void test_kills(void **state)
{
	const struct world_spec *spec = *state;
	struct sim_config config = {.seed = first_seed, .tear = SIM_TEAR_WORDS};
	struct sim *s;

	assert_int_equal(build(spec->name, &s), 0);
	sim_kill_every_verb(s, &config, try_random, NULL, &report);
	if (report.status)
		sim_shrink(s, &report);
	sim_report_print(&report, spec->name, stdout);
	assert_int_equal(report.status, 0);
	assert_true(report.kills > 0);
	cache_world_destroy(world, s);
}

/* Too large for all schedules of all kills: see cache_explore.c. */
static bool kills_are_sampled(const struct world_spec *spec)
{
	return !spec->no_kills && spec->search != WORLD_RECOVERY &&
	       (spec->search != WORLD_EXPLORE || spec->workers[0].cn == spec->workers[1].cn);
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
	if (argc > 3)
		kill_schedules = strtoull(argv[3], NULL, 10);
	for (unsigned i = 0; cache_world_at(i); i++) {
		const struct world_spec *spec = cache_world_at(i);

		assert(count + 2 <= TESTS_MAX);
		if (spec->search == WORLD_RANDOM)
			tests[count++] =
			    (struct CMUnitTest){.name = spec->name,
						.test_func = test_world,
						.initial_state = (void *)(uintptr_t)spec};
		if (!kills_are_sampled(spec))
			continue;
		snprintf(names[count], sizeof(names[count]), "%s, killed at every verb",
			 spec->name);
		tests[count] = (struct CMUnitTest){.name = names[count],
						   .test_func = test_kills,
						   .initial_state = (void *)(uintptr_t)spec};
		count++;
	}
	return _cmocka_run_group_tests("random cache worlds", tests, count, NULL, NULL);
}
