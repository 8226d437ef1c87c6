/* sim.c: `forge sim`: clusters in virtual time. */
#include "tool/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static int run(int argc, char **argv);

const struct command command_sim = {
    "sim", "Simulate a cluster: networks and processors in virtual time, the code as it is.", run};

static int run_profiles(int argc, char **argv);

static const struct command command_sim_profiles = {
    "profiles", "List the profiles: every constant of the networks and processors.", run_profiles};

static const struct command for_errors_profiles = {"sim profiles", "", run_profiles};

static const struct command *const commands[] = {
    &command_sim_bench,	 &command_sim_replay,	&command_sim_calibrate,
    &command_sim_faults, &command_sim_profiles,
};

static int run_profiles(int argc, char **argv)
{
	const struct vt_profile *p;

	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: forge sim profiles\n\n%s\n", command_sim_profiles.sentence);
		return TOOL_OK;
	}
	if (argc > 1)
		return tool_fail(&for_errors_profiles,
				 "unexpected argument '%s'; see 'forge sim profiles --help'",
				 argv[1]);
	for (unsigned i = 0; (p = vt_profile_at(i)); i++) {
		printf("%s%s: %s, hash %016llx\n", i ? "\n" : "", p->name, p->sentence,
		       (unsigned long long)vt_profile_hash(p));
#define FIELD(name, unit, sentence) \
	printf("  %-15s %8llu %-6s %s\n", #name, (unsigned long long)p->name, #unit, sentence);
		VT_PROFILE_FIELDS(FIELD)
#undef FIELD
	}
	return TOOL_OK;
}

static int help(void)
{
	printf("Usage: forge sim SUBCOMMAND [options] [arguments]\n\n%s\n\n", command_sim.sentence);
	for (unsigned i = 0; i < ARRAY_COUNT(commands); i++) {
		printf("  %-10s", commands[i]->name);
		text_wrap(stdout, commands[i]->sentence, 12, 80);
	}
	printf("\n'forge sim SUBCOMMAND --help' explains the options of one.\n");
	return TOOL_OK;
}

static int run(int argc, char **argv)
{
	const char *names[ARRAY_COUNT(commands)];

	if (argc < 2)
		return tool_fail(&command_sim, "a subcommand is missing; see 'forge sim --help'");
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return help();
	for (unsigned i = 0; i < ARRAY_COUNT(commands); i++) {
		names[i] = commands[i]->name;
		if (strcmp(argv[1], names[i]) == 0)
			return commands[i]->run(argc - 1, argv + 1);
	}
	const char *nearest = opts_nearest(argv[1], names, ARRAY_COUNT(names), sizeof(names[0]));

	return tool_fail(&command_sim, "unknown subcommand '%s'%s%s%s; see 'forge sim --help'",
			 argv[1], nearest ? ", did you mean '" : "", nearest ? nearest : "",
			 nearest ? "'?" : "");
}
