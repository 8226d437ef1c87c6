/*
 * cache_try.c: try one world by hand, for whoever looks for a bug or writes a world.
 *
 *   sim_cache_try WORLD explore [RUNS_MAX] [RULE]
 *   sim_cache_try WORLD random RUNS [RULE] [KILL_PERCENT] [SEED]
 *   sim_cache_try WORLD kill RUNS_MAX [RULE]
 * RULE is the rule to switch off, or several: A+B.
 *
 *   sim_cache_try --replay 'forge-sim replay: ...'      (RULE in FORGE_RULE_OFF)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cache_worlds.h"
#include "sim/explore.h"
#include "sim/random.h"
#include "sim/replay.h"
#include "sim/shrink.h"

static struct sim_report report;
static struct cache_world *world;

/* The bits of rules named in a list; names it does not know are 0. */
static rule_set rule_bits(const char *names)
{
	rule_set bits = 0;

	for (unsigned rule = 0; names && rule < RULE_COUNT; rule++) {
		const char *at = strstr(names, rule_name(rule));
		size_t length = strlen(rule_name(rule));

		if (at && (at == names || at[-1] == '+') && (!at[length] || at[length] == '+'))
			bits |= rule_bit(rule);
	}
	return bits;
}

static int build(const char *name, struct sim **out)
{
	const struct world_spec *spec = cache_world_find(name);

	return spec ? cache_world_build(spec, rule_bits(getenv("FORGE_RULE_OFF")), &world, out)
		    : FORGE_E_INVAL;
}

static void try_exploring(struct sim *s, const struct sim_config *config, void *arg,
			  struct sim_report *out)
{
	struct sim_explore_options options = {.config = *config, .runs_max = *(uint64_t *)arg};

	sim_explore(s, &options, out);
}

int main(int argc, char **argv)
{
	int exit_status;
	struct sim *s;

	if (sim_replay_main(argc, argv, build, &exit_status))
		return exit_status;
	if (argc < 3)
		return 2;
	uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	struct sim_config config = {.tear = SIM_TEAR_NEVER};
	struct timespec from, to;

	if (argc > 4)
		setenv("FORGE_RULE_OFF", argv[4], 1);
	if (getenv("TEAR"))
		config.tear = (enum sim_tear)atoi(getenv("TEAR"));
	if (build(argv[1], &s)) {
		fprintf(stderr, "no such world, or it cannot be set up\n");
		return 2;
	}
	clock_gettime(CLOCK_MONOTONIC, &from);
	if (strcmp(argv[2], "explore") == 0) {
		struct sim_explore_options options = {.config = config, .runs_max = count};

		sim_explore(s, &options, &report);
	} else if (strcmp(argv[2], "kill") == 0) {
		sim_kill_every_verb(s, &config, try_exploring, &count, &report);
	} else {
		struct sim_random_options options = {
		    .config = {.tear = SIM_TEAR_WORDS,
			       .seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 0},
		    .run_count = count,
		    .kill_percent = argc > 5 ? (uint32_t)atoi(argv[5]) : 0,
		    .kill_verbs_max = 120};

		sim_random(s, &options, &report);
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	double seconds =
	    (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);

	if (report.status)
		sim_shrink(s, &report);
	sim_report_print(&report, argv[1], stdout);
	printf("%.1f s; no space %llu, undecided %llu\n", seconds,
	       (unsigned long long)world->no_space, (unsigned long long)world->undecided);
#define COUNTER(name, sentence) printf(#name " %llu, ", (unsigned long long)world->total.name);
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	printf("\n");
	cache_world_destroy(world, s);
	return report.status != 0;
}
