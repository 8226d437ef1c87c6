/*
 * flows.h: several flows of one session under way at once, each on a fiber.
 *
 * Who has more to do than one operation takes a flow for each, so that while one waits for the
 * fabric the others go on: the library's operations in flight, the requests a server has read.
 * A poll that is due runs on a flow of its own, so that none of them waits for it.
 * What they have in common is here: a flow is a view of the cache with scratch of its own on its
 * session's connections and lanes, and runs one function at a time.  Where the fabric completes at
 * post there is nothing to wait for, and the function runs to its end when it is started.
 *
 * Who may call: the library and the server, from the thread of the session and, but for
 * flows_turn(), flows_finish() and flows_close(), from inside flows.  The set owns its flows,
 * whose memory grows to flow_max views on demand, and borrows the session, which ends after it.
 */
#ifndef FORGE_CLIENT_FLOWS_H
#define FORGE_CLIENT_FLOWS_H

#include "client/client.h"
#include "client/view.h"
#include "run/fiber_loop.h"

struct flows;

/* Begins the caller's own struct, if that has more to remember about a flow. */
struct flow {
	struct flow *next; /* among the idle ones; the taker's while it is taken */
	struct flow *next_all;
	struct flows *set;
	struct view *view; /* the one below, but for a flow that the caller made */
	void (*main)(struct flow *);
	struct view own_view;
};

struct flows {
	struct session *session;
	struct fiber_loop *loop; /* NULL: the fabric completes at post */
	struct flow *all, *idle;
	struct flow *first; /* that was made */
	size_t flow_bytes;
	unsigned flow_count, flow_max;
	unsigned active;  /* started and not finished */
	uint8_t tending;  /* a flow polls and tells what was counted */
	int tend_status;  /* what the last one of those came to */
	uint64_t told_ns; /* when one last told */
	void *context;	  /* the caller's, for its functions */
};

/*
 * A set without flows yet, of at most flow_max; flow_bytes is the size of the caller's struct that
 * begins with a struct flow.  0 or FORGE_E_NO_MEMORY.
 */
int flows_open(struct flows *, struct session *, unsigned flow_max, size_t flow_bytes);

/*
 * Let what is under way end, and free everything; in a child that fork() made, without running
 * anything.  Waits.
 */
MAY_WAIT void flows_close(struct flows *);

/* flows_take() when none is idle. */
struct flow *flows_take_new(struct flows *);

/*
 * An idle flow, zeroed behind its struct flow when it is new.  NULL: flow_max are taken; or there
 * is no memory for another one, and then flow_max is what there is.
 */
static inline struct flow *flows_take(struct flows *s)
{
	struct flow *f = s->idle;

	if (unlikely(!f))
		return flows_take_new(s);
	s->idle = f->next;
	return f;
}

/* It is idle again.  Also from its own function, as the last thing it does. */
static inline void flows_put(struct flow *f)
{
	f->next = f->set->idle;
	f->set->idle = f;
}

/*
 * Run main(f) on a fiber, from the next turn on; at once where the fabric completes at post.
 * 0 or FORGE_E_NO_MEMORY, and then it does not run.
 */
int flows_start(struct flow *, void (*main)(struct flow *));

/* Let all that can go on do so, once.  Are there flows that have not finished? */
int flows_turn(struct flows *);

/* Turn until all have finished. */
void flows_finish(struct flows *);

/*
 * Turn until all have finished, and leave nothing of what they did on the side half done or untold.
 * For a session that will have nothing to do for long, before session_tend().
 */
void flows_rest(struct flows *);

/*
 * What operations do on the side: poll if it is due, and tell the pool what flows have counted.  On
 * a flow of its own; nothing if none is free, or one is at it already.  For a set that has had
 * nothing to do for a while: as long as there are flows it happens by itself.
 */
void flows_tend(struct flows *);

/* Add the counters of all flows of the set. */
void flows_count(const struct flows *, struct cache_counters *into);

#endif
