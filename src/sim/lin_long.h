/*
 * lin_long.h: is a long history linearizable, key by key?
 *
 * The specification is that of lin.h, for histories in which values may be evicted (not `exact`)
 * and in which nothing happens by steps of a clock: who makes the history sees to expiry himself.
 * Where lin.h searches all operations of a key at once, this goes through a key's calls and returns
 * in their order and keeps every (set of operations under way that took effect, value) that
 * explains what was said so far, as Lowe's just-in-time linearization (2017) does.  So memory and
 * time grow with how many operations of one key are under way at once, not with the length of the
 * history.
 *
 * Operations that never returned, or returned undecided, are left out where leaving them out can
 * hide nothing: when nobody saw what they would have stored.  An operation may find a key absent
 * at any time, so a state with a value permits all that one without permits, and an effect
 * that nobody saw is never needed to explain anything.
 *
 * A checker owns its tables and is re-used from history to history; one thread.
 */
#ifndef FORGE_SIM_LIN_LONG_H
#define FORGE_SIM_LIN_LONG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/history.h"

/* Operations of one key under way at once, those that never return included. */
#define LIN_LONG_OPEN_MAX 64u
/* Explanations kept at once; more is an error, not a pass. */
#define LIN_LONG_STATES_MAX (1u << 18)

struct lin_state {
	uint64_t placed; /* bit per slot: took effect and has not returned */
	uint64_t value;
};

/* A set of states, in the order in which they came. */
struct lin_states {
	struct lin_state *states;
	uint32_t count, capacity;
	uint32_t *table; /* [2 x capacity] 1 + index; 0 empty */
};

struct lin_long {
	struct lin_states now, seen; /* explanations; those looked at for one return */
	struct lin_states after;
	/* One key's operations by time of invocation, and by time of return. */
	const struct hist_op **ops, **returns;
	uint32_t op_count, return_count, op_capacity;
	const struct hist_op *open[LIN_LONG_OPEN_MAX];
	uint32_t states_max; /* most explanations there ever were, over the checker's life */
};

/* Allocates when it is first needed. */
void lin_long_create(struct lin_long *);
void lin_long_destroy(struct lin_long *);

/*
 * Check every key of the history.  0 if it is linearizable; else FORGE_E_CORRUPT (it is not),
 * FORGE_E_INVAL (the history was too small, or one of the limits above) or FORGE_E_NO_MEMORY, with
 * the reason and the operations around the first that cannot be explained in text.
 */
int lin_long_check(struct lin_long *, const struct history *, char *text, size_t text_bytes);

#endif
