/*
 * run.h: the worker and flow_run(), the only place where cache logic can be suspended.
 *
 * A worker is one flow of control: a thread in the synchronous API, a fiber in the scheduler
 * and the asynchronous API.  It brings the connection, the clock and the randomness; what a wait
 * does is its wait backend's choice: poll the fabric (threads), park the fiber (fibers), let the
 * scheduler run another virtual compute node (sim).  On a fabric that completes at post the
 * backend is never called.
 *
 * A worker belongs to one thread at a time.  It borrows fab, clock and wait.
 */
#ifndef FORGE_RUN_RUN_H
#define FORGE_RUN_RUN_H

#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/prng.h"
#include "base/glance.h"
#include "fabric/fabric.h"
#include "fabric/wait.h"

struct worker;
struct side; /* side.h */

/*
 * Verbs that one flow of a thread waits for, for others of that thread.  They lie in its frames:
 * once it goes on, which any of the others may see to, they are gone and turns has grown.
 */
struct run_waited {
	const struct fab_op *ops; /* NULL: it waits for none */
	unsigned count;
	uint32_t turns; /* how often it has gone on */
};

/* What a wait does. */
struct run_wait {
	/* Post ops and return when each has completed; see flow_run(). */
	int (*run)(struct worker *, struct fab_op *ops, unsigned n);
	/* Nothing to wait for but somebody else's progress: let others run for a moment. */
	void (*pause)(struct worker *);
	/* Wait a little for them, or until that flow has gone on.  NULL: by pauses. */
	void (*follow)(struct worker *, const struct run_waited *);
	/* Where time is simulated: posting them takes some of the thread's.  NULL elsewhere. */
	void (*work)(struct worker *, const struct fab_op *ops, unsigned n);
	/* It kicks by itself, for several posts at once; otherwise each post is kicked by itself.
	 */
	int kicks;
};

struct worker {
	struct fab *fab;
	const struct run_wait *wait;
	void *wait_context; /* the backend's, e.g. the fiber to park */
	struct side *side;  /* a flow that goes on while this one waits; NULL: none is under way */
	const struct clock *clock;
	struct glance glance; /* by that clock */
	struct prng prng;
	uint32_t index;	 /* 0-based, within the process; for logs */
	uint32_t pauses; /* how many flow_pause(); the poll backend gives up its CPU at some */
	struct fab_wait waits; /* the poll backend's */
};

/* flow_run() of what has to be waited for, or posted in parts. */
MAY_WAIT int run_and_wait(struct worker *, struct fab_op *ops, unsigned n);

/* The first error of n ops that have completed; a detached one has none. */
int run_first_error(const struct fab_op *ops, unsigned n);

/*
 * Run n verbs as one batch and return when every one has completed or the node is lost.
 * Ops take effect in order.  0, or the first op's error.  A failed CAS is not an error.
 * A detached op is posted in its place in the order, and not waited for.
 */
static inline MAY_WAIT int flow_run(struct worker *w, struct fab_op *ops, unsigned n)
{
	const struct fab_caps *caps = fab_caps(w->fab);

	if (!caps->completes_at_post || unlikely(n > caps->batch_ops_max))
		return run_and_wait(w, ops, n);
	fab_post(w->fab, ops, n);
	return n == 1 && !ops->flags ? ops->status : run_first_error(ops, n);
}

/* Give others a chance while polling a remote condition; every such loop has a bound. */
MAY_WAIT void flow_pause(struct worker *);

/*
 * The batch as one post to the fabric, or as several when it is larger than batch_ops_max, for
 * wait backends: post(), then call step() until every op has completed.  After a failed part the
 * rest of the batch is not posted and gets the same status.  0, or the first op's error.
 */
typedef void (*run_step_fn)(struct worker *, const struct fab_op *ops, unsigned n);
MAY_WAIT int run_batch(struct worker *, struct fab_op *ops, unsigned n, run_step_fn step);

/* Has each of the n ops completed?  A detached op always has. */
static inline int run_all_complete(const struct fab_op *ops, unsigned n)
{
	/* The last ones complete last, so look there first. */
	while (n-- > 0)
		if (ops[n].status == FAB_PENDING && !(ops[n].flags & FAB_DETACHED))
			return 0;
	return 1;
}

/*
 * Sleep until one of these connections may have something for its poll, or for max_ns, or not at
 * all if one of them cannot be slept on, or there are more than RUN_WAIT_FABS_MAX.  For threads
 * whose flows all wait, and that had better not look (fabric/wait.h).
 */
#define RUN_WAIT_FABS_MAX 64u
void run_wait_for(struct fab *const *fabs, unsigned n, uint64_t max_ns);

/* Post, poll, and sleep after a while, on the calling thread. */
extern const struct run_wait run_wait_poll;

/* Fill in a worker of a thread; w is the caller's, as are fab and clock. */
void worker_init(struct worker *w, struct fab *fab, const struct clock *clock, uint64_t seed);

static inline uint64_t worker_now_us(const struct worker *w)
{
	return clock_now_ns(w->clock) / 1000;
}

#endif
