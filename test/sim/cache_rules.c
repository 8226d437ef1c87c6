/*
 * cache_rules.c: the table of mutations: without the rule, something breaks.
 *
 * For each rule of pool/rules.h a world is searched with only that rule switched off until a
 * violation appears.  Some rules back each other up: then the other one is off, too, and without
 * it alone nothing may be found.  Rules that no world needs have a reason instead.  Each search
 * runs in a process of its own, because an assertion of the cache may be what finds the mistake.
 *
 *   sim_cache_rules          prints the table
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "cache_worlds.h"
#include "sim/explore.h"
#include "sim/random.h"
#include "support/child.h"

enum search { NO_SEARCH, EXPLORE, KILL, KILL_PAIR, RANDOM };

struct mutation {
	enum rule rule;
	enum rule with; /* off, too; RULE_COUNT: none */
	const char *world;
	enum search search;
	uint64_t runs_max;
	const char *reason; /* why no search: what the rule is for then */
};

#define FOUND(name, world, search, runs)                           \
	{                                                          \
		RULE_##name, RULE_COUNT, world, search, runs, NULL \
	}
#define WITH(name, other, world, search, runs)                       \
	{                                                            \
		RULE_##name, RULE_##other, world, search, runs, NULL \
	}
#define REASON(name, text)                                        \
	{                                                         \
		RULE_##name, RULE_COUNT, NULL, NO_SEARCH, 0, text \
	}

static const struct mutation mutations[] = {
    FOUND(READ_CHECKS_GENERATION, "random-evict", RANDOM, 3000),
    FOUND(READ_CHECKS_CHECKSUM, "random-evict", RANDOM, 20000),
    FOUND(READ_CHECKS_KEY, "insert-twin", EXPLORE, 100),
    FOUND(GET_REMOVES_INVALID, "invalid-get", EXPLORE, 100),
    FOUND(GET_CLEARS_DEAD, "slow-insert-get", EXPLORE, 2000),
    FOUND(GET_MERGES_MATCHES, "die-in-front", KILL, 1000),
    WITH(MAP_TRUST_BOUND, GET_MERGES_MATCHES, "old-map", EXPLORE, 50000),
    FOUND(CLEAR_BEFORE_INSERT, "regroup-set", EXPLORE, 200),
    REASON(
	CLEAR_THEN_REREAD,
	"words never repeat: after clearing each word it saw, a Set is where a slow Set with the "
	"same, clean READ would be, and the READ after the CAS deals with what came meanwhile"),
    FOUND(REREAD_AFTER_INSERT, "hole", EXPLORE, 200),
    WITH(NOT_LOWEST_REMOVES_SELF, GET_MERGES_MATCHES, "hole-get3", EXPLORE, 20000),
    FOUND(LOWEST_REMOVES_OTHERS, "hole", EXPLORE, 200),
    WITH(MERGE_MATCHES_FIRST, GONE_STILL_MERGES, "hole-set", EXPLORE, 30000),
    FOUND(UPDATE_CLEARS_DEAD, "slow-insert-set", EXPLORE, 200),
    WITH(FULL_TAKES_HIGHEST, GET_MERGES_MATCHES, "full-bucket", EXPLORE, 100000),
    FOUND(DELETE_CLEARS_STALE, "slow-insert-delete", EXPLORE, 200),
    WITH(DELETE_HIGHEST_FIRST, GET_MERGES_MATCHES, "hole-delete-get", EXPLORE, 200000),
    FOUND(DELETE_REREADS, "hole-delete", EXPLORE, 10000),
    FOUND(SCAN_DOWNWARDS, "hole-scan", EXPLORE, 20000),
    FOUND(SLOT_CAS_EXACT, "hole-set", EXPLORE, 30000),
    FOUND(SEAL_WAITS_IN_FLIGHT, "lane-seal2", EXPLORE, 10000),
    FOUND(CLAIM_BY_CHUNK_WORD, "repair-seal", EXPLORE, 1000),
    FOUND(CLAIM_CHECKS_POSITION, "compact-evict", EXPLORE, 10000),
    FOUND(NODE_RESET_BY_CAS, "evict-lap", RANDOM, 20000),
    FOUND(SKIP_LATE_PRODUCER, "random-evict", RANDOM, 20000),
    FOUND(SKIPPED_RETICKETS, "skip-producer", EXPLORE, 10000),
    FOUND(TICKET_SETTLED, "evict-trip", EXPLORE, 1000),
    FOUND(FREE_RAISES_GENERATION, "evict-get", EXPLORE, 10),
    FOUND(REGROUP_VERIFIES, "damaged-regroup", EXPLORE, 100),
    FOUND(REGROUP_WRITES_FIRST, "regroup-get", KILL, 10000),
    FOUND(MOVES_HAVE_ROOM, "move-get", EXPLORE, 100),
    FOUND(DEAD_OF_THIS_LIFE, "compact-set", EXPLORE, 1000),
    REASON(ROW_CLEARED_EXACTLY,
	   "precision either way: a WRITE of zeroes erases what was flushed late, and so does the "
	   "CAS that is tried again from the word it met, only that it gives up after four tries "
	   "at a word that keeps changing. What it replaced, a subtraction, could wrap: a CAS "
	   "cannot, and neither can a WRITE"),
    FOUND(FLUSH_CAPPED, "flush-both", EXPLORE, 10),
    FOUND(NOTE_ZEROES_COUNTS, "requeue-note", EXPLORE, 10),
    FOUND(EVICT_WAITS_FLUSH, "flush-wait", EXPLORE, 200),
    FOUND(ABSORBED_BY_KEY, "absorb-twin", EXPLORE, 1000),
    FOUND(ABSORBED_BY_NEWER, "absorb-regroup", EXPLORE, 1000),
    FOUND(ABSORBED_BY_UPDATE, "absorb-change", EXPLORE, 1000),
    REASON(ORIGIN_IS_TRUE,
	   "a Set may be right to be absorbed by an insert, too, by a longer argument: it saw its "
	   "match alone, so whatever that insert has still to remove was stored after it began"),
    FOUND(SET_REMOVES_TENTATIVES, "add-slow-insert", EXPLORE, 1000),
    FOUND(GONE_STILL_MERGES, "add-set-change", EXPLORE, 1000),
    FOUND(ABSENT_CLEARS_DEAD, "regroup-change", EXPLORE, 1000),
    FOUND(CHANGE_STANDS_ALONE, "slow-insert-change", EXPLORE, 1000),
    FOUND(ADD_IS_TENTATIVE, "add-hole", EXPLORE, 1000),
    FOUND(ADD_REREADS, "add-hole", EXPLORE, 1000),
    FOUND(ADD_SEES_MATCHES, "add-hole", EXPLORE, 1000),
    FOUND(ADD_LOWEST_WINS, "add-add", EXPLORE, 1000),
    FOUND(DEAD_ADDS_END, "add-add", KILL, 10000),
    FOUND(FLUSH_SEEN_LATELY, "flush-get", EXPLORE, 100),
    FOUND(FLUSH_SAMPLED_ONCE, "flush-change-lane", EXPLORE, 60000),
    REASON(FLUSH_WAITS,
	   "worlds have no time; test/unit/semantics.c shows what another node finds without it"),
    FOUND(OVER_IS_DEAD, "expire-get", EXPLORE, 100),
    FOUND(OVERLONG_SPARED, "overlong", EXPLORE, 10),
    FOUND(CN_CHUNK_CAP, "share-space", EXPLORE, 100),
    FOUND(JOIN_LOCKS_FIRST, "leave-repair-join", EXPLORE, 60000),
    FOUND(RECOVER_NEEDS_PROOF, "die-insert", EXPLORE, 10),
    FOUND(RECOVER_HOLDS_LOCK, "rejoin", KILL, 3000),
    FOUND(RECOVER_LINE_LAST, "die-seal", KILL_PAIR, 100),
    FOUND(RECOVER_EXACT_WORD, "repair-evict", EXPLORE, 1000),
    FOUND(RECOVER_RAISES_GENERATION, "die-insert", KILL, 100),
    FOUND(RECOVER_RESCUES_FIRST, "repair-evict", EXPLORE, 1000),
    FOUND(RECOVER_NODE_BY_CAS, "repair-evict", EXPLORE, 1000),
    FOUND(PARTS_CHECKSUM, "random-parts", RANDOM, 2000),
    WITH(PARTS_WRITTEN_FIRST, PARTS_CHECKSUM, "parts-set-get", EXPLORE, 1000),
    FOUND(PARTS_WINNER_FREES, "parts-evict-touch", EXPLORE, 1000),
    FOUND(PARTS_STAY, "parts-regroup-get", EXPLORE, 100),
    FOUND(PARTS_OF_A_HEAD, "parts-append-append", EXPLORE, 1000),
    FOUND(PARTS_LOOK_AGAIN, "parts-insert-delete", EXPLORE, 1000),
    FOUND(PARTS_COLD_HEADS_OUT, "parts-evict-get", EXPLORE, 100),
    FOUND(PARTS_RAISE_GENERATION, "random-parts", RANDOM, 3000),
};

static const char *const search_names[] = {"-", "all schedules", "all kills", "pairs of kills",
					   "random"};

/* Shared with the searching process. */
static struct sim_report *report;

static void try_exploring(struct sim *s, const struct sim_config *config, void *arg,
			  struct sim_report *out)
{
	struct sim_explore_options options = {.config = *config, .runs_max = *(uint64_t *)arg};

	sim_explore(s, &options, out);
}

/* CN 1 is killed after each of its verbs, too. */
static void try_second_deaths(struct sim *s, const struct sim_config *config, void *arg,
			      struct sim_report *out)
{
	const struct sim_kill_range recoverer = {.cn = 1, .stride = 1};

	sim_kill_verbs_of(s, config, &recoverer, try_exploring, arg, out);
}

static void search(const struct mutation *m, rule_set rules_off)
{
	struct sim_explore_options explore = {.runs_max = m->runs_max};
	struct sim_random_options random = {.config = {.seed = 0, .tear = SIM_TEAR_WORDS},
					    .run_count = m->runs_max};
	const struct sim_kill_range victim = {.cn = 0, .stride = 1};
	uint64_t runs_max = m->runs_max;
	struct cache_world *world;
	struct sim *s;

	assert_int_equal(cache_world_build(cache_world_find(m->world), rules_off, &world, &s), 0);
	if (m->search == EXPLORE)
		sim_explore(s, &explore, report);
	else if (m->search == KILL)
		sim_kill_every_verb(s, &explore.config, try_exploring, &runs_max, report);
	else if (m->search == KILL_PAIR)
		sim_kill_verbs_of(s, &explore.config, &victim, try_second_deaths, &runs_max,
				  report);
	else
		sim_random(s, &random, report);
	cache_world_destroy(world, s);
}

struct search_for {
	const struct mutation *mutation;
	rule_set rules_off;
};

static int search_in_child(void *context)
{
	const struct search_for *f = context;

	search(f->mutation, f->rules_off);
	return report->status ? 1 : 0;
}

/* Search in a child; true if a violation or an assertion was met.  *how says which. */
static bool is_found(const struct mutation *m, rule_set rules_off, const char **how)
{
	struct search_for f = {m, rules_off};

	memset(report, 0, sizeof(*report));
	int status = child_run(search_in_child, &f);

	*how = "an assertion of the cache";
	if (status == CHILD_ASSERTED)
		return true;
	assert_true(status <= 1);
	report->why[strcspn(report->why, ";\n")] = '\0';
	*how = report->why;
	return status == 1;
}

static void test_every_rule(void **state)
{
	printf("%-24s %-20s %-14s %8s  %s\n", "rule switched off", "world", "search", "runs",
	       "what was violated");
	for (unsigned rule = 0; rule < RULE_COUNT; rule++) {
		const struct mutation *m = NULL;
		const char *how;

		for (size_t i = 0; i < ARRAY_COUNT(mutations); i++)
			if (mutations[i].rule == rule)
				m = &mutations[i];
		if (!m)
			fail_msg("rule %s has neither a world nor a reason", rule_name(rule));
		if (m->reason) {
			printf("%-24s defence in depth: %s\n", rule_name(rule), m->reason);
			continue;
		}
		rule_set bits = rule_bit(rule);

		if (m->with != RULE_COUNT)
			bits |= rule_bit(m->with);
		bool found = is_found(m, bits, &how);

		printf("%-24s %-20s %-14s %8llu  %s%s%s\n", rule_name(rule), m->world,
		       search_names[m->search], (unsigned long long)report->runs, how,
		       m->with != RULE_COUNT ? "; only without " : "",
		       m->with != RULE_COUNT ? rule_name(m->with) : "");
		if (!found)
			fail_msg("without %s nothing was found in world %s", rule_name(rule),
				 m->world);
		/* With the rule, the same search finds nothing. */
		bits &= ~rule_bit(rule);
		if (is_found(m, bits, &how))
			fail_msg("world %s fails with rule %s, too: %s", m->world, rule_name(rule),
				 how);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_rule)};

	report =
	    mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
