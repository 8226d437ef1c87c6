/*
 * flight.h: the operations of a session that are under way at once.
 *
 * Each has a flow of client/flows.h.  They move only inside calls on the session, which belongs to
 * one thread.
 *
 * Two kinds: operations that were submitted, whose values stay in their flows until the caller has
 * polled for them and polls again; and those of a call that waits, whose values are copied to the
 * arena, so that a call may have any number of them.  The session's own view is a flow for the
 * second kind alone, so that no call ever waits for the caller to poll.
 *
 * Internal to src/lib.  A flight is part of its session and owns its flows.
 */
#ifndef FORGE_LIB_FLIGHT_H
#define FORGE_LIB_FLIGHT_H

#include "client/flows.h"
#include "forge/forge.h"
#include "lib/arena.h"

struct op_flow {
	struct flow flow;
	struct forge_session *session;
	struct forge_op *op; /* under way, or done and its value still here */
	uint8_t waited;	     /* op is of a call that waits */
};

/* Operations in the order they came, linked by op->next. */
struct op_list {
	struct forge_op *first, **end;
};

struct flight {
	struct flows flows;	  /* all but the session's own */
	struct op_flow *lent;	  /* their values are with the caller until the next poll */
	struct op_list waited;	  /* of a call that waits, not begun */
	struct op_list submitted; /* not begun */
	struct op_list done;	  /* submitted ones, not given back */
	size_t done_count;
	size_t pending;	    /* submitted, not given back */
	size_t waited_left; /* of the call that waits */
	struct arena arena; /* the values of that call */
	struct op_flow own; /* the session's own view */
	uint8_t own_busy;
};

/* The session's own view is there already.  0 or FORGE_E_NO_MEMORY. */
int flight_open(struct forge_session *, unsigned flow_max);

/* Finish what is in flight and free everything; without running anything if it is the parent's. */
void flight_close(struct forge_session *, int is_forked);

/* A call that waits begins: values of the one before are void. */
void flight_begin(struct flight *);

/* Do n of its operations; values are copied to the arena.  Waits for all. */
MAY_WAIT void flight_run(struct forge_session *, struct forge_op *ops, size_t n);

#endif
