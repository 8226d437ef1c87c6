/*
 * stress.h: many workers on one pool, each of which verifies whatever it reads.
 *
 * For tests: one process with threads (test/mt) and several processes (test/system).  The ledger
 * lies in shared memory, so every worker of every process knows what the others have been told.
 * Whoever calls stress_begin() owns it until stress_end(), in the same process.
 *
 * What is checked on every Get that hits.  The value carries key and version over its whole
 * length (load/value.h), its length and flags follow from key and version, and the version was
 * begun by somebody before the Get returned.  With one writer per key the Sets and Deletes of a
 * key are totally ordered, so each key has a floor: the highest version anyone had an answer
 * about (a Set or Delete that returned, a Get that saw it) before this Get began.  A hit below
 * the floor is an older value come back; a hit at a version deleted since is one, too.  With
 * many writers per key two versions may be in either order, and only the former is checked.
 */
#ifndef FORGE_TEST_MT_STRESS_H
#define FORGE_TEST_MT_STRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/client.h"

#define STRESS_WORKERS_MAX 64u
#define STRESS_STALL_S	   60u /* nobody makes progress for so long: the run hangs */

struct stress_wish {
	const char *policy;
	uint32_t chunks, group_objects, object_bytes, cn_max;
	double slots_per_object; /* 0: the plan's default */
	uint32_t nodes;		 /* compute nodes */
	uint32_t threads;	 /* of each of them */
	uint64_t ops;		 /* of each thread; UINT64_MAX: until stress_stop() */
	uint32_t keys;
	uint32_t value_bytes_max;
	uint32_t large_bytes_max; /* 0: none; else so many in 100 values have any length up to it */
	uint32_t large_percent;
	uint32_t set_percent, delete_percent;
	uint32_t poll_interval_us; /* 0: the default */
	uint32_t reopen_ops;	   /* a session is closed and opened anew after so many; 0: never */
	uint8_t many_writers;
	uint8_t jitter;	     /* pauses between verbs, see jitter.h */
	uint8_t may_run_dry; /* FORGE_E_NO_SPACE is permitted: more hands than chunks */
	uint64_t seed;
	rule_set rules_off; /* bits of enum rule: does the stress notice? */
};

struct stress_totals {
	uint64_t gets, hits, sets, deletes, no_space, again, refused;
	struct cache_counters count;
};

struct stress;

/* Create the pool and the ledger; fails the test when it cannot. */
struct stress *stress_begin(const struct stress_wish *);

/*
 * The life of one compute node: open a client, run its threads, close.  node is 0-based.  In the
 * caller's process; thread-safe.  What goes wrong is in the ledger.
 */
void stress_node(struct stress *, uint32_t node);

/* All nodes as threads of this process, watched.  0, or -1 when it hung or a worker failed. */
int stress_run_threads(struct stress *);

/* Every node a process of its own, watched. */
int stress_run_processes(struct stress *);

/*
 * For drivers that do things to single nodes (test/system/herd.h).  Start a node as a process of
 * its own, or start it again after its death: it goes on with the versions of its keys.
 */
pid_t stress_start_node(struct stress *, uint32_t node);

/* Every worker ends after its operation, and every node closes. */
void stress_stop(struct stress *);

/*
 * Ask every worker to wait between two operations (1) or to go on (0); are all workers of the
 * node waiting by now?
 */
void stress_hold(struct stress *, int hold);
int stress_is_held(const struct stress *, uint32_t node);

/* Operations and verified hits of a node over all its lives. */
uint64_t stress_node_ops(const struct stress *, uint32_t node);
uint64_t stress_node_hits(const struct stress *, uint32_t node);

/*
 * The first worker of the node kills its process before the n-th verb from now that changes
 * memory.  The wish has jitter.
 */
void stress_doom(struct stress *, uint32_t node, uint64_t n);
/* How many there are left, with that one; 0: none that it knows of. */
uint64_t stress_doom_left(const struct stress *, uint32_t node);

/* What every worker is doing, for a driver that gives up, as the failure. */
void stress_give_up(struct stress *, const char *why);

/* The first failure, or "". */
const char *stress_failure(const struct stress *);

/*
 * The pool at rest: every chunk queued or free and found where it says, every resident where its
 * group says, no key twice.  0, or -1 with the reason as stress_failure().
 */
int stress_at_rest(struct stress *);

/* The same, and prints the pool when it is not. */
int stress_check_pool(struct stress *);

const struct stress_totals *stress_sum(struct stress *);
const char *stress_pool_name(const struct stress *);

/* The nodes of that mask open the pool by another name of it; before any is started. */
void stress_reach_by(struct stress *, const char *name, uint64_t nodes);

/* Remove the pool and the ledger. */
void stress_end(struct stress *);

#endif
