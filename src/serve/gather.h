/*
 * gather.h: requests of several connections that are ready at once.
 *
 * When the event loop finds many connections with something to read, each of which sends one
 * request and waits for the reply, a worker reads some of them, tells the session all their keys
 * (session_expect()), and only then carries the requests out and answers, in the order in which it
 * has read them.  So the processor's cache misses of all overlap, as those of a pipeline do.
 *
 * What a client may rely on is unchanged: a connection is gathered at most once at a time, with
 * what one read brought, which is carried out before anything else happens to it; how requests of
 * different connections follow each other was never promised.  The first of them waits while up
 * to CONN_GATHER - 1 others are read, a few microseconds, and no longer: whoever takes the last
 * place serves all, and otherwise the end of the loop's turn does, so that nobody is waited for.
 * A connection that is alone is served as before.
 *
 * Only where the fabric completes at post; elsewhere overlap.h lets requests wait together.
 */
#ifndef FORGE_SERVE_GATHER_H
#define FORGE_SERVE_GATHER_H

#include "serve/parse.h"

/*
 * Enough to hide most of the misses.  Processor time of the server per Get with 1, 2, 4, 8 and 16,
 * 50 connections with a request in flight each, 2 workers, 2 processors of their own:
 * 3.63 3.39 3.22 3.10 3.08 us over a Unix socket, 6.94 6.80 6.57 6.53 6.49 over TCP.
 */
#define CONN_GATHER 8u

struct conn;
struct conn_worker;

/* One connection, and what it has sent: bytes of the worker's input buffer of that number. */
struct gathered {
	struct conn *conn;
	size_t bytes;
	uint64_t start_ns;
	bool is_one; /* all of it is one request, parsed already: */
	struct request request;
	struct parser parser; /* behind it */
};

struct gather {
	unsigned count;
	struct gathered of[CONN_GATHER];
};

/* Read once, and serve it when those that are ready have been read.  false: it is over. */
bool gather_read(struct conn *, uint64_t now_ns);

/* Serve what has been gathered, now: something else is to happen to connections. */
void gather_serve(struct conn_worker *);

#endif
