/*
 * overlap.h: requests of connections under way at once, where requests wait for the fabric.
 *
 * A worker whose fabric does not complete at post gives each request a flow (client/flows.h):
 * those that one client has pipelined and those of all its clients wait for the fabric together,
 * and the event loop goes on meanwhile.  Where the fabric completes at post nothing of this is
 * used.  Everything belongs to the worker's thread.
 *
 * What a client may rely on, and why it holds:
 *  - Replies come in the order of the requests: a connection has its flows in a list in that
 *    order, and a reply leaves only from its head.
 *  - Requests for one key take effect in the order in which they were sent: one that names the
 *    key of an earlier request of its connection that is not done starts when that one is done.
 *    Keys are compared by a hash; two that share one wait for each other needlessly.  So a get
 *    sees the set before it, and of two gets the later one never sees the older value.  Gets of
 *    one key that wait when the first of them begins are answered by its one lookup, which took
 *    place after all of them had been sent; those that come later wait for the next one.  A
 *    pipeline of Gets of a hot key costs two lookups, whatever its length, and the cache counts
 *    two hits.
 *  - Requests for different keys of one connection are as concurrent as those of two
 *    connections, until the reply to the first has been sent.  Who wants them in order awaits the
 *    reply, or sends a request without a key in between, such as mn or noop: those, and flush_all
 *    and stats, which look at everything, begin when all before them are done, and what comes
 *    behind them begins when they are done.
 *  - A connection that ends has what was carried out of it already, or is under way: flows run to
 *    their end, and nobody gets their replies.
 *
 * What is bounded: flows of a connection and of a worker; a connection whose client does not read
 * begins nothing new, and has the replies of what was under way; once all of those of a worker are
 * OVERLAP_KEPT_BYTES_MAX, its connections have one flow each.  How large a value is nobody knows
 * before it has been READ, so flows are given out by how large values have lately been: as many as
 * have room for such ones in OVERLAP_KEPT_BYTES_MAX.  Who finds none waits, and not for ever: each
 * that was given out comes back when its request is done and those before it of its connection,
 * which have theirs, and with none out there is always room for one.
 */
#ifndef FORGE_SERVE_OVERLAP_H
#define FORGE_SERVE_OVERLAP_H

#include <sys/queue.h>

#include "client/flows.h"
#include "serve/execute.h"

/*
 * Of one connection: four times the depth to which clients pipeline, and a line of 64 keys is one
 * round of waits.  Of a worker: what it takes to hide 200 us of round trip at the rate at which
 * one thread can serve anyway (some 300,000 requests a second that wait twice each).
 */
#define OVERLAP_CONN_FLOWS_MAX	 64u
#define OVERLAP_WORKER_FLOWS_MAX 128u
/* Replies that wait for clients to read. */
#define OVERLAP_KEPT_BYTES_MAX (UINT64_C(64) << 20)
/*
 * After each smaller request what is expected falls by this part: after one value of many MiB it
 * takes a few hundred small ones until all flows are given out again, some milliseconds.
 */
#define OVERLAP_EXPECTED_PART 64u
/* Flows given to a connection that had to wait for one, before the next that waits has its turn. */
#define OVERLAP_SHARE 8u
/* A flow with more memory than that for a request or a reply gives it back. */
#define OVERLAP_ROOM_BYTES (64u << 10)

struct conn;
struct conn_worker;

/* One request on its way. */
struct errand {
	struct flow flow;
	struct overlap *overlap; /* that has given it out */
	struct conn *conn;	 /* NULL: it has ended, and nobody waits for the reply */
	struct errand *next;	 /* of the connection's, in the order of its requests */
	struct errand *then;	 /* for the same key: starts when this one is done */
	uint64_t key_hash;
	uint64_t start_ns;
	bool is_done;
	bool is_void; /* the reply is replaced by an error of the same line */
	struct executor executor;
	struct out out;
	char *room; /* what the request refers to */
	size_t room_bytes;
	struct request request;
};

TAILQ_HEAD(conn_list, conn);

/* Of a worker. */
struct overlap {
	struct flows flows;
	struct conn_list ready;	  /* the reply at the head of their errands can be sent */
	struct conn_list waiting; /* for a flow */
	struct conn *served;	  /* that has its turn for one */
	unsigned share;		  /* how many it may still take */
	uint64_t kept_bytes;	  /* of replies that wait for clients to read */
	uint64_t expected_bytes;  /* what a request takes; at first the longest value */
	unsigned out_count;	  /* errands that were given out */
};

/* What a connection has still to be read for. */
struct input {
	const char *data;
	size_t bytes, need;
};

/* 0 or FORGE_E_NO_MEMORY; flows.loop is NULL where nothing ever waits. */
int overlap_open(struct overlap *, struct session *);
/* Let what is under way end.  Its connections have ended.  Waits. */
MAY_WAIT void overlap_close(struct overlap *);

static inline bool overlap_is_on(const struct overlap *o)
{
	return o->flows.loop;
}

/*
 * Begin what is complete in the input, in order, as far as order and bounds permit; what has no
 * key is carried out.  true: what follows is not complete; false: it must wait, or is not wanted.
 */
bool overlap_begin(struct conn *, struct input *);

/*
 * Let flows go on once, and send the replies of those that are done.  Are there flows that wait for
 * the fabric?
 */
bool overlap_turn(struct conn_worker *);

/* The connection ends: its errands go on without it. */
void overlap_leave(struct conn *);

#endif
