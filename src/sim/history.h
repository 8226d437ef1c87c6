/*
 * history.h: what the clients of a run asked for and were told, in logical time.
 *
 * The scheduler's workers write it (through sim_op_begin and sim_op_end, see sched.h), a world's
 * check may append to it, and the linearizability checker (lin.h) reads it.  A value is a number
 * the test chose; 0 is no value.  An operation that never returned (its compute node was killed)
 * stays pending: it may or may not have taken effect.
 *
 * A history owns its array, which has a fixed capacity unless it may grow: operations beyond it are
 * refused and counted, never dropped silently.  One thread.
 */
#ifndef FORGE_SIM_HISTORY_H
#define FORGE_SIM_HISTORY_H

#include <stddef.h>
#include <stdint.h>

enum hist_kind {
	HIST_GET,
	HIST_SET,
	HIST_DELETE,
	/* Found `seen` (0: no value) and left `value` (0: none), which may be the same. */
	HIST_CHANGE,
	HIST_FLUSH, /* a Delete of every key, at a time of its own for each */
	HIST_CLOCK, /* the clock went on by one, at once and for all keys */
};

/* The key of a flush or a step of the clock. */
#define HIST_EVERY_KEY UINT64_MAX

/* A change that has not looked at its key yet. */
#define HIST_UNSEEN UINT64_MAX

enum hist_result {
	HIST_PENDING,	/* never returned: may have taken effect, now or never */
	HIST_OK,	/* get: it saw value; set: stored; delete: deleted; else: done */
	HIST_MISS,	/* get: no value; delete: not found */
	HIST_UNDECIDED, /* returned an error: took effect while it ran, or not at all */
};

/* The time of return of a pending operation. */
#define HIST_NEVER UINT64_MAX

/* No operation: history_invoke() had no room. */
#define HIST_NONE UINT32_MAX

struct hist_op {
	uint64_t invoke_time; /* logical; no two events of a history share one */
	uint64_t return_time;
	uint64_t key;
	uint64_t value; /* set: the value written; get: the value seen */
	uint8_t kind;	/* enum hist_kind */
	uint8_t result; /* enum hist_result */
	uint32_t worker_index;
	uint64_t seen; /* change */
};

struct history {
	struct hist_op *ops;
	uint32_t op_count, op_count_max;
	uint32_t op_count_most; /* it may grow to, see history_let_grow() */
	uint32_t refused_count; /* operations that found no room; a check must insist on 0 */
	uint64_t time;
};

/* 0 or FORGE_E_NO_MEMORY.  history_destroy() gives the array back. */
int history_create(struct history *, uint32_t op_count_max);
/* The array is doubled when it is full, as long as it has no more room than that. */
void history_let_grow(struct history *, uint32_t op_count_most);
void history_destroy(struct history *);
void history_reset(struct history *);

/* Note the start of an operation; the index for history_return(), or HIST_NONE. */
uint32_t history_invoke(struct history *, uint32_t worker_index, enum hist_kind, uint64_t key,
			uint64_t value);

/* A change looked at its key and decided: what it found, and what it will leave. */
void history_decide(struct history *, uint32_t op_index, uint64_t seen, uint64_t value);

/* Note its end; value is what a get saw and is ignored otherwise. */
void history_return(struct history *, uint32_t op_index, enum hist_result, uint64_t value);

/* Check the operations of one key; as history_check_keys(). */
typedef int (*history_key_fn)(void *context, const struct history *, uint64_t key, char *text,
			      size_t text_bytes);

/*
 * Call check for every key of the history, once each and in the order they first come, until one
 * says other than 0.  Empties text first.  0, what check said, or FORGE_E_INVAL with the reason in
 * text if the history was too small.
 */
int history_check_keys(const struct history *, history_key_fn check, void *context, char *text,
		       size_t text_bytes);

/* One readable line, e.g. "[12,19] w1 set key 3 = 101 -> ok", without a newline. */
void history_print_op(const struct hist_op *, char *text, unsigned text_bytes);

#endif
