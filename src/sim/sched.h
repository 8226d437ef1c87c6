/*
 * sched.h: the deterministic scheduler: a whole small cluster in one thread, one verb at a time.
 *
 * A world is a buffer (the memory node) and some workers (fibers), each on a virtual compute
 * node (CN).  Whenever a worker waits in flow_run() the scheduler keeps its batch, and a strategy
 * decides whose next verb touches the buffer.  The worker runs on, in between two verbs and
 * alone, when its batch is done.  So a run is a list of choices; the same list gives the same
 * run, down to the hash of every verb and result.  There is no other nondeterminism: the clock
 * counts steps, and randomness is the worker's seeded prng.
 *
 * What is scheduled (a step): one verb, or a piece of a torn one; the start of an operation
 * (sim_op_begin), so that operations overlap in every possible way; a call of the host, such as
 * taking a lock (locks.h); a pause; a kill.  Detached
 * verbs keep their place in their worker's order of verbs, but the worker does not wait for them.
 *
 * Who may call: tests and the tool.  A world describes itself in a struct sim_world_ops, which
 * is borrowed, with its context, until sim_destroy().  One simulation belongs to one thread;
 * several may exist.
 *
 *   sim_create -> sim_random (random.h), sim_explore (explore.h) or sim_replay (replay.h)
 */
#ifndef FORGE_SIM_SCHED_H
#define FORGE_SIM_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"
#include "run/run.h"
#include "sim/history.h"
#include "sim/lin.h"

#define SIM_WORKERS_MAX 16
#define SIM_CNS_MAX	16
#define SIM_KILLS_MAX	4
/* A replay line has at most a letter or a digit for each step. */
#define SIM_REPLAY_BYTES 24576

struct sim;

struct sim_world_ops {
	const char *name; /* one word: it is printed in, and found by, the replay line */
	uint32_t worker_count;
	uint8_t worker_cn[SIM_WORKERS_MAX]; /* which CN each worker runs on */
	/* Workers of one CN share local state, so their order matters beyond their verbs. */
	bool cn_state_shared;
	/*
	 * Workers hold heap memory while they wait: whoever was killed, or is in the middle of a
	 * run that was given up, finds the node lost at every verb from then on until its function
	 * has returned.  That is before the next run, and nothing of it can be seen.
	 */
	bool unwinds;
	size_t memory_bytes;
	size_t stack_bytes; /* of a worker; 0: the default */
	uint32_t history_ops_max;

	/* Fill the initial image of the memory, directly or by verbs; called once.  0 or
	 * FORGE_E_... */
	int (*setup)(void *context, uint8_t *memory, struct worker *observer);
	/* Before each run: local state as at the start.  Must not touch the memory.  May be NULL.
	 */
	void (*reset)(void *context, struct sim *);
	/*
	 * What a worker does; w->index says which.  It runs on a fiber, so it must not jump out of
	 * it (as a test library's failed assertion does): note what is wrong, let check report it.
	 */
	void (*worker)(void *context, struct worker *w);
	/* A CN has been killed; called between two steps.  May be NULL. */
	void (*killed)(void *context, uint32_t cn);
	/*
	 * After each run: is all well?  0, or FORGE_E_... with the reason in why.  May run flows
	 * on sim_observer(), such as a recovery or last Gets, and record them as operations; the
	 * history is checked afterwards.  May be NULL.
	 */
	int (*check)(void *context, struct sim *, char *why, size_t why_bytes);
	/* A readable name of an address, for traces.  May be NULL. */
	void (*name_region)(void *context, uint64_t raddr, char *text, size_t text_bytes);
};

/* How READs and WRITEs of more than one word are cut into steps. */
enum sim_tear {
	SIM_TEAR_NEVER,	 /* not at all */
	SIM_TEAR_HALVES, /* in two, the lower words first */
	SIM_TEAR_WORDS,	 /* some in 2 to 4 pieces of arbitrary words, by the run's seed */
};

/*
 * Kill the CN in the place of its verb after_verbs + 1 (or at the end, if it has run exactly
 * after_verbs): none of its workers takes another step.  landing says what becomes of the verbs
 * it has posted.
 */
struct sim_kill {
	uint32_t cn;
	uint32_t after_verbs;
	uint32_t landing; /* enum sim_landing, or from SIM_LAND_SEEDED on a seed */
};

enum sim_landing {
	SIM_LAND_NONE,	 /* nothing more lands */
	SIM_LAND_WHOLE,	 /* every posted verb lands */
	SIM_LAND_LOWER,	 /* of the next verb, if it is a longer WRITE, the lower half */
	SIM_LAND_UPPER,	 /* ... or the upper half */
	SIM_LAND_SEEDED, /* a random prefix, and random words of a WRITE after it */
};

/* Everything that, together with the choices, determines a run. */
struct sim_config {
	uint64_t seed; /* of the workers' prngs and of how verbs are torn */
	enum sim_tear tear;
	/*
	 * A paused worker stays so until something it read since its last pause was changed (or
	 * nobody else can run).  Else a few steps of others are enough as well.
	 */
	bool pause_strict;
	/* A worker's clock counts its own steps, not everyone's: reading it is no dependency. */
	bool clock_own;
	uint64_t tick_ns;   /* of the clock, per step; 0: 1000 */
	uint32_t steps_max; /* of a run; 0: 20,000; a run that gets there has failed */
	struct sim_kill kills[SIM_KILLS_MAX];
	uint32_t kill_count;
};

/* Build the world; sim_destroy() gives everything back.  0 or FORGE_E_... */
int sim_create(const struct sim_world_ops *, void *context, struct sim **);
void sim_destroy(struct sim *);

/* If the world unwinds: do it for the last run, before its context goes. */
void sim_unwind(struct sim *);

/* A worker, for local state that points to it: always at the same place. */
struct worker *sim_worker_at(struct sim *, uint32_t index);

/* For checks and tests. */
const uint8_t *sim_memory(const struct sim *);
struct history *sim_history(struct sim *);
struct lin *sim_lin(struct sim *);
bool sim_cn_is_killed(const struct sim *, uint32_t cn);
uint64_t sim_hash(const struct sim *);
uint32_t sim_step_count(const struct sim *);
uint32_t sim_cn_verb_count(const struct sim *, uint32_t cn);

/*
 * A worker of no CN, for setup, reset and check: its verbs are executed at once, on the caller's
 * stack, and are no steps.  Its index is the number of workers.
 */
struct worker *sim_observer(struct sim *);

/* For workers. */
struct sim *sim_of(const struct worker *);
uint32_t sim_worker_cn(const struct worker *);
/* Has the CN been killed, as the worker's host would learn it (a fence, a broken lock)? */
bool sim_worker_sees_killed(struct worker *, uint32_t cn);
/*
 * A call of the worker's host that others can notice: a step of its own, after which the caller
 * looks at or changes what it shares with them, and says so with sim_touch_cell().  The caller is
 * whichever worker runs; for the observer nothing happens.
 */
void sim_call_host(struct sim *);
/* A word of state outside the memory, by a number below SIM_CELLS_MAX, was read or changed. */
#define SIM_CELLS_MAX 256u
void sim_touch_cell(struct sim *, uint32_t cell, bool writes);
/* Start an operation: a step of its own, so that its place in time is a choice too. */
MAY_WAIT uint32_t sim_op_begin(struct worker *, enum hist_kind, uint64_t key, uint64_t value);
/* A HIST_CHANGE has looked at its key; see history_decide(). */
void sim_op_decide(struct worker *, uint32_t op_index, uint64_t seen, uint64_t value);
void sim_op_end(struct worker *, uint32_t op_index, enum hist_result, uint64_t value);

/* The sum of many runs. */
struct sim_report {
	uint64_t runs;		/* executed to their end and checked */
	uint64_t redundant;	/* given up early as equivalent to another (explore only) */
	uint64_t steps;		/* in all of them */
	uint64_t kills;		/* that took effect */
	uint64_t kills_writing; /* ... where a longer WRITE was next */
	uint64_t failed;	/* runs whose check failed */
	uint64_t forced;	/* pauses ended because nobody else could run */
	uint32_t steps_max;	/* of one run */
	uint32_t cn_verbs_max[SIM_CNS_MAX]; /* most verbs of a CN in one run */
	bool exhausted;			    /* explore: nothing is left to try */
	const char *bound;		    /* the bound that was hit, or NULL */
	int status;			    /* 0, or why the first failing run failed */
	uint64_t failed_hash;		    /* its hash */
	char replay[SIM_REPLAY_BYTES];	    /* the line that repeats it */
	char why[2048];
};

/* Fold b, of the same world, into a; the first failure stays. */
void sim_report_add(struct sim_report *a, const struct sim_report *b);
void sim_report_print(const struct sim_report *, const char *title, FILE *);

#endif
