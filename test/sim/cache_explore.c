/*
 * cache_explore.c: the cache in small worlds, every schedule of them.
 *
 * Each world of cache_worlds.c that is small enough is searched to the end: whatever order its
 * verbs are executed in, no Get returns a wrong, old or torn value, and the pool is in order
 * afterwards.  Then the same with each CN killed after each of its verbs, what it had posted
 * landing not at all, whole, or in part.  Nobody recovers here: what the dead CN held is lost, and
 * a Set may find no space, but nothing is wrong and nothing hangs.
 * A bound that is hit is a failure.  The numbers of schedules are printed.
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

#define TESTS_MAX 256u

static struct sim_report report; /* large */
static struct cache_world *world;
static char names[TESTS_MAX][64];

static int build(const char *name, struct sim **out)
{
	const struct world_spec *spec = cache_world_find(name);

	return spec ? cache_world_build(spec, 0, &world, out) : FORGE_E_INVAL;
}

static void expect_clean(const char *title)
{
	sim_report_print(&report, title, stdout);
	assert_int_equal(report.status, 0);
	assert_true(report.exhausted);
	assert_null(report.bound);
	assert_true(report.runs > 0);
}

static bool named(const struct world_spec *spec, const char *prefix)
{
	return strncmp(spec->name, prefix, strlen(prefix)) == 0;
}

static void test_every_schedule(void **state)
{
	const struct world_spec *spec = *state;
	struct sim_explore_options options = {.config = {.tear = SIM_TEAR_NEVER}};
	struct sim *s;

	assert_int_equal(build(spec->name, &s), 0);
	sim_explore(s, &options, &report);
	expect_clean(spec->name);
	/* The script does meet what the world is named for. */
	if (named(spec, "evict") || named(spec, "slow"))
		assert_true(world->total.evictions >= report.runs);
	if (named(spec, "regroup"))
		assert_true(world->total.objects_rescued > 0);
	if (named(spec, "requeue"))
		assert_true(world->total.groups_requeued > 0);
	if (named(spec, "ahead"))
		assert_true(world->total.chunks_ahead > 0);
	if (named(spec, "overlong"))
		assert_true(world->total.groups_spared + world->total.groups_compacted >=
			    report.runs);
	if (named(spec, "compact-evict"))
		assert_true(world->total.groups_compacted > 0);
	if (named(spec, "absorb-set") || named(spec, "absorb-evict"))
		assert_true(world->total.sets_absorbed > 0);
	if (named(spec, "full"))
		assert_true(world->total.bucket_full > 0);
	assert_int_equal(world->undecided, 0);
	cache_world_destroy(world, s);
}

static void try_exploring(struct sim *s, const struct sim_config *config, void *arg,
			  struct sim_report *out)
{
	struct sim_explore_options options = {.config = *config};

	sim_explore(s, &options, out);
}

static void test_every_kill(void **state)
{
	const struct world_spec *spec = *state;
	struct sim_config config = {.tear = SIM_TEAR_NEVER};
	struct sim *s;

	assert_int_equal(build(spec->name, &s), 0);
	sim_kill_every_verb(s, &config, try_exploring, NULL, &report);
	expect_clean(spec->name);
	assert_true(report.kills > 0);
	cache_world_destroy(world, s);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[TESTS_MAX];
	bool is_long = argc > 1 && strcmp(argv[1], "long") == 0;
	size_t count = 0;
	int exit_status;

	if (sim_replay_main(argc, argv, build, &exit_status))
		return exit_status;
	for (unsigned i = 0; cache_world_at(i); i++) {
		const struct world_spec *spec = cache_world_at(i);

		if (spec->search == WORLD_RANDOM || spec->search == WORLD_RECOVERY ||
		    (spec->search == WORLD_EXPLORE_LONG && !is_long))
			continue;
		assert(count + 2 <= TESTS_MAX);
		tests[count++] = (struct CMUnitTest){.name = spec->name,
						     .test_func = test_every_schedule,
						     .initial_state = (void *)(uintptr_t)spec};
		/*
		 * With kills the largest worlds would take hours; so would those where workers
		 * share a CN, whose count of verbs then ties all their steps together.
		 */
		if (spec->search == WORLD_EXPLORE_LONG || (spec->kills_long && !is_long) ||
		    spec->no_kills || spec->workers[0].cn == spec->workers[1].cn)
			continue;
		snprintf(names[count], sizeof(names[count]), "%s, killed", spec->name);
		tests[count] = (struct CMUnitTest){.name = names[count],
						   .test_func = test_every_kill,
						   .initial_state = (void *)(uintptr_t)spec};
		count++;
	}
	return _cmocka_run_group_tests("cache worlds", tests, count, NULL, NULL);
}
