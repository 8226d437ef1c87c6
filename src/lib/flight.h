/*
 * flight.h: the operations of a session that are under way at once.
 *
 * A flow is a view of the cache with scratch of its own, and runs one operation at a time, on a
 * fiber of the session's loop, so that while one waits for the fabric the others go on.  Where the
 * fabric completes at post there is nothing to wait for, and operations run to their end in turn.
 * They move only inside calls on the session, which belongs to one thread.
 *
 * Two kinds: operations that were submitted, whose values stay in their flows until the caller has
 * polled for them and polls again; and those of a call that waits, whose values are copied to the
 * arena, so that a call may have any number of them.  The session's own view is a flow for the
 * second kind alone, so that no call ever waits for the caller to poll.
 *
 * Internal to src/lib.  A flight is part of its session and owns its flows and its fibers.
 */
#ifndef FORGE_LIB_FLIGHT_H
#define FORGE_LIB_FLIGHT_H

#include "cache/cache.h"
#include "forge/forge.h"
#include "lib/arena.h"
#include "run/fiber_loop.h"

struct flow {
	struct flow *next;     /* in idle or lent */
	struct flow *next_all; /* in all */
	struct forge_session *session;
	struct cache *cache;	/* the session's, or: */
	struct cache own_cache; /* with */
	struct worker own_worker;
	struct forge_op *op; /* under way, or done and its value still here */
	uint8_t waited;	     /* op is of a call that waits */
};

/* Operations in the order they came, linked by op->next. */
struct op_list {
	struct forge_op *first, **end;
};

struct flight {
	struct fiber_loop *loop; /* NULL: the fabric completes at post */
	struct flow *all;	 /* but for the session's own */
	struct flow *idle;
	struct flow *lent; /* their values are with the caller until the next poll */
	unsigned flow_count, flow_max;
	unsigned active;	  /* fibers that have not finished */
	struct op_list waited;	  /* of a call that waits, not begun */
	struct op_list submitted; /* not begun */
	struct op_list done;	  /* submitted ones, not given back */
	size_t done_count;
	size_t pending;	    /* submitted, not given back */
	size_t waited_left; /* of the call that waits */
	struct arena arena; /* the values of that call */
	struct flow own;    /* the session's own view */
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

/* Add the counters of all flows but the session's own. */
void flight_count(const struct flight *, struct cache_counters *into);

#endif
