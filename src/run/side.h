/*
 * side.h: a second flow of a worker's thread, which goes on while the first one waits.
 *
 * A thread that runs one operation at a time waits for one batch of verbs after the other.  What
 * has to be done beside (a chunk is evicted before it is needed) is a fiber on the same connection,
 * with a worker of its own: whenever the thread's worker, the lead, runs verbs or pauses, the side
 * goes on until it waits for verbs itself, and these travel with the lead's.  So it takes as many
 * of the lead's round trips as it has of its own, and none of those gets longer by more than the
 * verbs.
 *
 * A lead that does nothing lets its side stand where it is; what the side holds is then held as by
 * a thread that sleeps.  Who needs what it does brings it on with side_help().
 *
 * One thread: that of the lead, or of whoever may use its connection.  The side borrows the lead.
 */
#ifndef FORGE_RUN_SIDE_H
#define FORGE_RUN_SIDE_H

#include "run/run.h"

struct fiber;

struct side {
	struct worker worker; /* what its function runs verbs with */
	struct worker *lead;
	struct fiber *fiber;
	struct run_waited waited; /* without verbs: for its turn */
	void (*fn)(void *argument);
	void *argument;
};

/* 0 or FORGE_E_NO_MEMORY.  side_fini() drops what has not finished, and what that held stays held.
 */
int side_init(struct side *, struct worker *lead);
void side_fini(struct side *);

/* Begin fn(argument) when the lead runs verbs next.  Nothing is under way. */
void side_start(struct side *, void (*fn)(void *argument), void *argument);

static inline int side_is_busy(const struct side *s)
{
	return s->lead && s->lead->side == s;
}

/*
 * Bring a busy side on by a step, in the name of a worker on the same connection, which is not the
 * side's own.  Waits.
 */
MAY_WAIT void side_help(struct side *, struct worker *);

/* For flow_run() and flow_pause(): go on, if what it waits for has completed. */
MAY_WAIT void side_turn(struct side *);

#endif
