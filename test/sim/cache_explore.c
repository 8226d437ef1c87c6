/*
 * cache_explore.c: the cache in small worlds, every schedule of them.
 *
 * Each world of cache_worlds.c that is small enough is searched to the end: whatever order its
 * verbs are executed in, no Get returns a wrong, old or torn value, and the pool is in order
 * afterwards.  A bound that is hit is a failure.  The number of schedules is printed.
 *
 *   sim_cache_explore [long]       with "long" the larger worlds, too
 *   sim_cache_explore --replay 'forge-sim replay: world=...'     repeats one run, verbosely
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
#include "sim/replay.h"

#define WORLDS_MAX 128u

static struct sim_report report; /* large */
static struct cache_world *world;

static int build(const char *name, struct sim **out)
{
	const struct world_spec *spec = cache_world_find(name);

	return spec ? cache_world_build(spec, 0, &world, out) : FORGE_E_INVAL;
}

static void test_world(void **state)
{
	const struct world_spec *spec = *state;
	struct sim_explore_options options = {.config = {.tear = SIM_TEAR_NEVER}};
	struct sim *s;

	assert_int_equal(build(spec->name, &s), 0);
	sim_explore(s, &options, &report);
	sim_report_print(&report, spec->name, stdout);
	assert_int_equal(report.status, 0);
	assert_true(report.exhausted);
	assert_null(report.bound);
	/* The script does meet what the world is named for. */
	if (strncmp(spec->name, "evict", 5) == 0 || strncmp(spec->name, "slow", 4) == 0)
		assert_true(world->total.evictions >= report.runs);
	if (strncmp(spec->name, "regroup", 7) == 0)
		assert_true(world->total.objects_rescued > 0);
	if (strncmp(spec->name, "requeue", 7) == 0)
		assert_true(world->total.groups_requeued > 0);
	cache_world_destroy(world, s);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[WORLDS_MAX];
	bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
	size_t count = 0;
	int exit_status;

	if (sim_replay_main(argc, argv, build, &exit_status))
		return exit_status;
	for (unsigned i = 0; cache_world_at(i); i++) {
		const struct world_spec *spec = cache_world_at(i);

		if (spec->search == WORLD_RANDOM ||
		    (spec->search == WORLD_EXPLORE_LONG && !is_long))
			continue;
		assert(count < WORLDS_MAX);
		tests[count++] = (struct CMUnitTest){.name = spec->name,
						     .test_func = test_world,
						     .initial_state = (void *)(uintptr_t)spec};
	}
	return _cmocka_run_group_tests("cache worlds", tests, count, NULL, NULL);
}
