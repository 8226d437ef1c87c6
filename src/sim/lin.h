/*
 * lin.h: is a history linearizable, key by key?
 *
 * The specification is that of a cache's key: a register with Delete whose Gets may miss at any
 * time.  So a missed Get, and the difference between a Delete's two answers, say nothing; but
 * every Delete that returned leaves no value, every Set that returned leaves its own, and a Get
 * that hits saw exactly the value of the latest of them.  A change that says it found a value
 * found exactly the latest one, and no other change found it before; one that says it found none
 * evicted what was there.  A pending operation may be placed
 * anywhere after its start or nowhere; an undecided one anywhere within its span or nowhere.
 *
 * The search is that of Wing and Gong (1993) with the memory of visited (set, state) pairs that
 * Lowe (2017) added.  Keys are independent (locality of linearizability), so each is searched
 * alone.  A checker owns its tables and is re-used from history to history; one thread.
 */
#ifndef FORGE_SIM_LIN_H
#define FORGE_SIM_LIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/history.h"

/* Operations of one key that matter (all but missed Gets); more is an error, not a pass. */
#define LIN_OPS_MAX 64

struct lin_slot {
	uint64_t linearised, state;
	uint32_t era; /* the slot is empty unless this is the checker's */
};

struct lin {
	struct lin_slot *slots;
	uint32_t slot_count, used_count, era;
	/* When set, a delete that answered "deleted" must have found a value. */
	bool deleted_needs_value;
	/*
	 * When set, nothing is ever evicted: a Get that missed and a change that found no value
	 * say that there was none.
	 */
	bool exact;
	/*
	 * When set, the low 8 bits of a value say by which step of the clock it has expired (0:
	 * never): it is there no more for operations that began after that many HIST_CLOCK, and may
	 * be gone for one that returns after them, because another took it away.
	 */
	bool timed;
	/* One key's operations, by time of invocation. */
	const struct hist_op *ops[LIN_OPS_MAX];
	uint32_t op_count;
	/* Steps the clock had made when each began, and when it returned. */
	uint32_t clock[LIN_OPS_MAX], clock_after[LIN_OPS_MAX];
	uint64_t deepest;	/* the largest set that could be linearised, for the report */
	uint64_t visited_count; /* states searched, over the checker's life */
};

/* 0 or FORGE_E_NO_MEMORY. */
int lin_create(struct lin *);
void lin_destroy(struct lin *);

/*
 * Check every key of the history.  0 if it is linearizable; else FORGE_E_CORRUPT (it is not),
 * FORGE_E_INVAL (more than LIN_OPS_MAX operations on one key, or the history was too small) or
 * FORGE_E_NO_MEMORY, with the reason and a readable counterexample in text.
 */
int lin_check(struct lin *, const struct history *, char *text, size_t text_bytes);

#endif
