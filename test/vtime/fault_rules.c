/*
 * fault_rules.c: the table of mutations, in time: without the rule, trials under faults fail.
 *
 * The scheduler's table (test/sim/cache_rules.c) has every rule of pool/rules.h.  Here are those
 * that random trials find, too, each by a search from a seed on, in a process of its own because an
 * assertion of the cache may be what finds it; with the rule the same trials are clean.  Why the
 * others are not here is in doc/simulator.md.
 *
 *   vtime_fault_rules                  holds the table
 *   vtime_fault_rules long             ... and that of rules for which many trials are needed
 *   vtime_fault_rules RULE RUNS        searches for one by hand, and prints the first seed
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "support/child.h"
#include "vtime/trial.h"

/* Shared with the searching process. */
struct found {
	uint64_t seed; /* of the last trial that began */
	struct trial_result result;
};
static struct found *found;

struct trials {
	rule_set rules_off;
	uint64_t first_seed, count;
};

static int run_trials(void *context)
{
	const struct trials *t = context;

	for (uint64_t i = 0; i < t->count; i++) {
		struct trial_options o = {.seed = t->first_seed + i, .rules_off = t->rules_off};

		found->seed = o.seed;
		if (trial_run(&o, &found->result))
			return 1;
	}
	return 0;
}

/* Without the rules, from that seed on.  Did a trial fail, or an assertion of the cache? */
static bool search(rule_set rules_off, uint64_t first_seed, uint64_t runs)
{
	struct trials trials = {rules_off, first_seed, runs};

	memset(found, 0, sizeof(*found));
	int status = child_run(run_trials, &trials);

	found->result.why[strcspn(found->result.why, ";\n")] = '\0';
	if (status == CHILD_ASSERTED)
		snprintf(found->result.why, sizeof(found->result.why), "an assertion of the cache");
	return status == CHILD_ASSERTED || status == 1;
}

/*
 * Trials tried for each.  When the table was made it took 1 to 227, of the rare 972 and 1,522; any
 * change of the flows makes other races of the same seeds.
 */
#define RUNS_MAX      1500u
#define RUNS_MAX_RARE 6000u
/* Trials up to the one that failed which must be clean with the rule. */
#define CLEAN_RUNS 20u

static const enum rule mutations[] = {
    RULE_READ_CHECKS_KEY,     RULE_ABSENT_CLEARS_DEAD,	RULE_FLUSH_SEEN_LATELY,
    RULE_FLUSH_WAITS,	      RULE_OVER_IS_DEAD,	RULE_DELETE_REREADS,
    RULE_SLOT_CAS_EXACT,      RULE_CLAIM_BY_CHUNK_WORD, RULE_FREE_RAISES_GENERATION,
    RULE_RECOVER_NEEDS_PROOF, RULE_RECOVER_LINE_LAST,	RULE_RECOVER_RAISES_GENERATION,
    RULE_CLEAR_BEFORE_INSERT, RULE_FLUSH_SAMPLED_ONCE,	RULE_DELETE_CLEARS_STALE,
    RULE_JOIN_LOCKS_FIRST,    RULE_ABSORBED_BY_NEWER,	RULE_ABSORBED_BY_UPDATE,
};

/* Which take a thousand trials and more: in the long suite. */
static const enum rule rare[] = {RULE_SKIP_LATE_PRODUCER, RULE_SKIPPED_RETICKETS};

static void hold_rule(enum rule rule, uint64_t runs)
{
	const char *name = rule_name(rule);

	if (!search(rule_bit(rule), 1, runs))
		fail_msg("without %s nothing was found", name);
	uint64_t seed = found->seed;

	printf("%-24s seed %4llu: %.120s\n", name, (unsigned long long)seed, found->result.why);
	if (search(0, seed > CLEAN_RUNS ? seed - CLEAN_RUNS + 1 : 1,
		   seed > CLEAN_RUNS ? CLEAN_RUNS : seed))
		fail_msg("with %s, too: seed %llu: %s", name, (unsigned long long)found->seed,
			 found->result.why);
}

static void test_every_rule(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(mutations); i++)
		hold_rule(mutations[i], RUNS_MAX);
}

static void test_rare_rules(void **state)
{
	for (size_t i = 0; i < ARRAY_COUNT(rare); i++)
		hold_rule(rare[i], RUNS_MAX_RARE);
}

static int by_hand(const char *name, uint64_t runs)
{
	for (unsigned rule = 0; rule < RULE_COUNT; rule++)
		if (strcmp(rule_name(rule), name) == 0) {
			bool any = search(rule_bit(rule), 1, runs);

			printf("%-24s %s %llu: %.120s\n", name, any ? "seed" : "nothing until",
			       (unsigned long long)found->seed, found->result.why);
			return !any;
		}
	fprintf(stderr, "there is no rule %s\n", name);
	return 2;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rule)};
	const struct CMUnitTest longer[] = {cmocka_unit_test(test_rare_rules)};

	found =
	    mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (found == MAP_FAILED)
		return 1;
	if (argc == 3)
		return by_hand(argv[1], strtoull(argv[2], NULL, 10));
	if (argc == 2 && strcmp(argv[1], "long") == 0)
		return cmocka_run_group_tests(longer, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
