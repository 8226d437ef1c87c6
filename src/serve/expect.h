/*
 * expect.h: the keys of requests that are about to be carried out, for session_expect().
 *
 * ahead.c collects those of a pipeline, gather.c those of several connections.  A request's key
 * stays where it is: until expect_tell() the requests and their input must, too.  Everything
 * belongs to the worker's thread.
 */
#ifndef FORGE_SERVE_EXPECT_H
#define FORGE_SERVE_EXPECT_H

#include "serve/conn.h"

/* One for each request of whoever looks further ahead. */
#define EXPECT_REQUESTS_MAX (CONN_AHEAD > CONN_GATHER ? CONN_AHEAD : CONN_GATHER)

struct expected {
	unsigned count;
	struct cache_key keys[EXPECT_REQUESTS_MAX];
};

static inline void expect_none(struct expected *e)
{
	e->count = 0;
}

/* Of at most EXPECT_REQUESTS_MAX requests, whether they have a key or not. */
static inline void expect_key_of(struct expected *e, const struct request *r)
{
	if (request_looks_up_key(r))
		e->keys[e->count++] = request_key(r);
}

/* A key alone has nothing to overlap with. */
static inline void expect_tell(const struct expected *e, struct session *session)
{
	if (e->count > 1)
		session_expect(session, e->keys, e->count);
}

#endif
