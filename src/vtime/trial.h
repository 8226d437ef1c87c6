/*
 * trial.h: one run of a small cluster in virtual time under faults, and the oracles.
 *
 * A seed decides everything: the shape (policy, compute nodes, threads, sizes, where cursors and
 * generations start), the fault schedule and the operations.  Compute nodes attach, work and leave
 * as processes do; who is dead is proven by locks, and who survives, or the memory node, takes
 * back what it left.  When nothing moves any more:
 *
 *  - the history must be linearizable, key by key (sim/lin_long.h), with what is left in the pool
 *    looked at in the end; no value is torn, another key's, or found after its time;
 *  - the pool checker finds nothing, a repair has nothing to do, and every chunk is in one place;
 *  - every hit was credited once to a row, or is counted as lost, and no counter of a row was
 * carried into the next;
 *  - every thread came to an end, and no operation took more verbs than TRIAL_VERBS_MOST.
 *
 * For the tool and tests; on one thread.  A trial owns everything it makes.
 */
#ifndef FORGE_VTIME_TRIAL_H
#define FORGE_VTIME_TRIAL_H

#include <signal.h>
#include <stdio.h>

#include "cache/cache.h"
#include "pool/recover.h"
#include "vtime/schedule.h"

/* Flows whose cost is looked at.  FLOW(name, sentence) */
#define TRIAL_FLOWS(FLOW)                                      \
	FLOW(get, "a Get")                                     \
	FLOW(set, "a Set")                                     \
	FLOW(remove, "a Delete")                               \
	FLOW(change, "a conditional operation")                \
	FLOW(scan, "a scan of a bucket")                       \
	FLOW(flush, "a flush of everything")                   \
	FLOW(attach, "attaching, recovery of others included") \
	FLOW(leave, "giving everything back")                  \
	FLOW(recovery, "a look of the memory node for the dead")

enum trial_flow {
#define FLOW(name, sentence) TRIAL_FLOW_##name,
	TRIAL_FLOWS(FLOW)
#undef FLOW
	    TRIAL_FLOW_COUNT
};

const char *trial_flow_sentence(unsigned flow);

/*
 * The bound on waiting: over 7,867 trials the most was 2,840 verbs, by an attaching that recovered
 * others, and 908 by an operation.
 */
#define TRIAL_VERBS_MOST UINT64_C(20000)

struct trial_cost {
	uint64_t count, verbs, verbs_most, ns_most; /* ns: without what its node was paused */
};

/*
 * Hits, and what became of them; each is in one of these.  HIT(name, sentence)
 *
 * A hit is counted in its node's OFM or not; what is counted there, or carried there with an object
 * that is moved or replaced, is flushed into a row of the pool, capped by a flush, forgotten, or
 * still there when its node ends; and what has landed in a row was READ by the evictor that cleared
 * it, or came too late, or is still there.
 */
#define TRIAL_HITS(HIT)                                                                         \
	HIT(found, "Gets that found their key")                                                 \
	HIT(counted, "counted; the others' groups were too new")                                \
	HIT(carried, "counts carried with objects that moved or were replaced")                 \
	HIT(flushed, "of both: flushed into rows")                                              \
	HIT(capped, "... lost by the cap of a flush")                                           \
	HIT(judged, "... added by an eviction of their node itself")                            \
	HIT(forgotten,                                                                          \
	    "... lost otherwise: the group was evicted, or the object replaced, before")        \
	HIT(kept, "... still there when their node ended")                                      \
	HIT(landed, "flushed and in a row: all but what was under way of nodes that were lost") \
	HIT(used, "of these: READ by the evictor that cleared the row")                         \
	HIT(late, "... cleared unREAD: they came too late")                                     \
	HIT(wiped, "... gone with the memory of the node")                                      \
	HIT(left, "... still there in the end")

struct trial_hits {
#define HIT(name, sentence) uint64_t name;
	TRIAL_HITS(HIT)
#undef HIT
};

struct trial_options {
	uint64_t seed;
	const struct schedule *schedule; /* NULL: by the seed */
	uint32_t kinds;			 /* bit per fault kind to choose from; 0: all */
	/* NULL or 0: by the seed. */
	const char *policy;
	uint32_t cns, threads;
	uint64_t load_ns;
	uint64_t first_position; /* of all rings */
	rule_set rules_off;	 /* tests: bits of enum rule */
	FILE *trace;		 /* a line for each operation and fault; NULL: none */
	/* Not 0 any more, by a signal's handler: end the run, with FORGE_E_AGAIN.  NULL: never. */
	const volatile sig_atomic_t *stop;
};

struct trial_result {
	/* 0; FORGE_E_CORRUPT for what an oracle found; FORGE_E_AGAIN: stopped; FORGE_E_INVAL: the
	 * schedule names who is not there, as why says; else it could not run. */
	int status;
	char why[8192];
	char shape[256]; /* in words */
	struct schedule schedule;
	uint64_t hash; /* of every verb and every answer */
	uint64_t operations, verbs, virtual_ns;
	uint64_t processes; /* that attached */
	uint64_t no_space, undecided, pending;
	uint64_t injected[FAULT_KINDS], effective[FAULT_KINDS];
	struct trial_cost cost[TRIAL_FLOW_COUNT];
	struct cache_counters cache;
	struct recover_report recovered;
	uint64_t nodes_recovered;
	struct trial_hits hits;
	uint32_t lin_states_most;
};

/* Run one.  out is large.  Its status is returned. */
int trial_run(const struct trial_options *, struct trial_result *out);

/* Add up what several trials did (counts, most); status and texts stay. */
void trial_result_add(struct trial_result *sum, const struct trial_result *);

/*
 * The trial failed: look for a shorter schedule with which it still does, by leaving out faults and
 * halving times.  At most tries runs.  *failed is replaced by the shortest that fails.
 */
void trial_shrink(const struct trial_options *, struct trial_result *failed, unsigned tries);

#endif
