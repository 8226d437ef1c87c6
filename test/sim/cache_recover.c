/*
 * cache_recover.c: a kill after every verb of every flow, and a kill after every verb of the
 * recovery from that kill.
 *
 * Each world of recovery_worlds.c is a flow that its victim (CN 0) dies in.  It is searched three
 * times: without a death; with the victim killed after each of its verbs, what it had posted
 * landing not at all, whole, or in part; and with that and, for each of those, CN 1, who
 * recovers, killed after each of its verbs.  Small worlds in every schedule, larger ones in random
 * ones for each pair of deaths.  When a run is over the last who died are recovered, and then the
 * pool is as if nobody ever had: the checker at rest finds nothing, every chunk is in exactly one
 * place, nothing is left to mend, every survivor Gets every key with a right value, and the
 * history is linearizable.  What was tried is printed as a table.
 *
 *   sim_cache_recover [long]     a share of the pairs, or all of them
 *   sim_cache_recover --replay 'forge-sim replay: world=...'     repeats one run, verbosely
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
/* Every SHARE-th verb of the recoverer in the default suite: 7 is prime to most lengths. */
#define SHARE 7u
/* Random schedules for each plan of so many deaths, and in the long suite. */
static const uint32_t random_runs[2][3] = {{500, 5, 1}, {20000, 100, 5}};

static struct sim_report alone, once, twice; /* large */
static struct sim_report sum;
static struct cache_world *world;
static bool is_long;

static int build(const char *name, struct sim **out)
{
	const struct world_spec *spec = cache_world_find(name);

	return spec ? cache_world_build(spec, 0, &world, out) : FORGE_E_INVAL;
}

/* One world under one plan of deaths. */
struct search {
	const struct world_spec *spec;
	uint32_t share;
};

static uint8_t sampling_of(const struct world_spec *spec)
{
	return is_long ? spec->sampling_long : spec->sampling;
}

static bool is_sampled(const struct world_spec *spec, uint32_t deaths)
{
	return sampling_of(spec) + deaths > 2;
}

static void try_schedules(struct sim *s, const struct sim_config *config, void *arg,
			  struct sim_report *out)
{
	const struct search *search = arg;
	struct sim_explore_options explore = {.config = *config};
	struct sim_random_options random = {
	    .config = *config,
	    .run_count = random_runs[is_long][config->kill_count],
	};

	if (!is_sampled(search->spec, config->kill_count)) {
		sim_explore(s, &explore, out);
		return;
	}
	random.config.tear = SIM_TEAR_WORDS;
	/* Another seed for each plan of deaths. */
	for (uint32_t i = 0; i < config->kill_count; i++)
		random.config.seed = 1000 * (random.config.seed + config->kills[i].after_verbs) +
				     10 * config->kills[i].landing;
	sim_random(s, &random, out);
	out->exhausted = true; /* of the plan */
}

/* ... and the recoverer dies, too. */
static void try_second_deaths(struct sim *s, const struct sim_config *config, void *arg,
			      struct sim_report *out)
{
	struct search *search = arg;
	struct sim_kill_range range = {
	    .cn = 1,
	    /* Others for each verb of the victim. */
	    .first = config->kills[0].after_verbs % search->share,
	    .stride = search->share,
	};

	sim_kill_verbs_of(s, config, &range, try_schedules, arg, out);
}

static void expect_clean(struct sim *s, const struct sim_report *r, const char *what)
{
	static struct sim_report failed;

	if (r->status || !r->exhausted || r->bound) {
		failed = *r;
		if (failed.status)
			sim_shrink(s, &failed);
		sim_report_print(&failed, what, stdout);
	}
	assert_int_equal(r->status, 0);
	assert_true(r->exhausted);
	assert_null(r->bound);
	assert_true(r->runs > 0);
}

static const char *const sampling_names[] = {"all schedules", "all; of two deaths a sample",
					     "all without a death, else a sample", "a sample"};

static void test_flow(void **state)
{
	struct search search = {.spec = *state};
	struct sim_config config = {.tear = SIM_TEAR_NEVER};
	struct sim_kill_range victim = {.cn = 0, .stride = 1};
	struct sim *s;

	search.share = is_long ? 1 : SHARE;
	if (sampling_of(search.spec) == SAMPLED_ALL)
		search.share *= SHARE; /* a larger world */
	assert_int_equal(build(search.spec->name, &s), 0);
	try_schedules(s, &config, &search, &alone);
	expect_clean(s, &alone, "nobody dies");
	sim_kill_verbs_of(s, &config, &victim, try_schedules, &search, &once);
	expect_clean(s, &once, "one dies");
	assert_true(once.kills >= once.cn_verbs_max[0]);
	sim_kill_verbs_of(s, &config, &victim, try_second_deaths, &search, &twice);
	expect_clean(s, &twice, "the recoverer dies, too");
	assert_true(world->nodes_recovered > 0);
	printf("%-16s %6u %6u %9llu %9llu %9llu %9llu %9llu  %s\n", search.spec->name,
	       once.cn_verbs_max[0], once.cn_verbs_max[1], (unsigned long long)alone.runs,
	       (unsigned long long)once.kills, (unsigned long long)once.runs,
	       (unsigned long long)twice.kills, (unsigned long long)twice.runs,
	       sampling_names[sampling_of(search.spec)]);
	sim_report_add(&sum, &alone);
	sim_report_add(&sum, &once);
	sim_report_add(&sum, &twice);
	cache_world_destroy(world, s);
}

static void test_sum(void **state)
{
	printf("all: %llu kills in %llu runs of %llu steps, all clean\n",
	       (unsigned long long)sum.kills, (unsigned long long)sum.runs,
	       (unsigned long long)sum.steps);
	assert_int_equal(sum.failed, 0);
}

int main(int argc, char **argv)
{
	static struct CMUnitTest tests[TESTS_MAX];
	const char *only = getenv("FORGE_SIM_WORLD");
	size_t count = 0;
	int exit_status;

	if (sim_replay_main(argc, argv, build, &exit_status))
		return exit_status;
	is_long = argc > 1 && strcmp(argv[1], "long") == 0;
	for (unsigned i = 0; cache_world_at(i); i++) {
		const struct world_spec *spec = cache_world_at(i);

		if (spec->search != WORLD_RECOVERY)
			continue;

		if (only && strcmp(only, spec->name) != 0)
			continue;
		assert(count + 1 < TESTS_MAX);
		tests[count++] = (struct CMUnitTest){.name = spec->name,
						     .test_func = test_flow,
						     .initial_state = (void *)(uintptr_t)spec};
	}
	tests[count++] = (struct CMUnitTest){.name = "sum", .test_func = test_sum};
	printf("%-16s %6s %6s %9s %9s %9s %9s %9s\n", "", "verbs", "verbs", "nobody", "kills of",
	       "in", "kills of", "in");
	printf("%-16s %6s %6s %9s %9s %9s %9s %9s\n", "flow", "victim", "recov.", "dies: runs",
	       "one", "runs", "both", "runs");
	return _cmocka_run_group_tests("recovery worlds", tests, count, NULL, NULL);
}
