/*
 * fault.h: a provider that loses its node at a chosen verb, or a chosen detached op.
 *
 * Who may call: tests and the scheduler, between a provider and a worker.  The plan belongs to
 * the caller, outlives the connection, and may be changed between posts.
 */
#ifndef FORGE_FABRIC_FAULT_H
#define FORGE_FABRIC_FAULT_H

#include "fabric/fabric.h"

/* What the verb at which the node is lost does before it fails. */
enum fault_landing {
	FAULT_LANDS_NOT,
	FAULT_LANDS_WHOLE, /* it takes effect, though its sender will never know */
	FAULT_LANDS_PART,  /* a WRITE stops short of aligned word part_words; others do not land */
};

struct fault_plan {
	uint64_t lose_at;	    /* which verb, counted from 1; 0: never */
	enum fault_landing landing; /* of that verb */
	uint32_t part_words;	    /* FAULT_LANDS_PART: words that land, a ragged first one too */
	uint64_t drop_detached_at;  /* which detached op is dropped, counted from 1; 0: none */

	/* Kept by the provider. */
	uint64_t verbs;	   /* posted so far, those after the loss included */
	uint64_t detached; /* of these, detached */
	int lost;	   /* the node is lost: all that is posted fails with FORGE_E_NODE */
};

/*
 * Wrap inner, which is owned from now on, also on failure, when it is closed.  plan is the
 * caller's; several connections of one thread may share it, and so count and fail together.
 * After a dropped op the rest of its post is a post of its own to inner.
 * Ops in flight when plan->lost is set from outside still complete as inner completes them.
 * 0 or FORGE_E_NO_MEMORY.
 */
int fault_open(struct fab *inner, struct fault_plan *plan, struct fab **out);

#endif
