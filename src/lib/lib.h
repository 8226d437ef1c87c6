/*
 * lib.h: what the files of the public library share; see forge/forge.h for what it promises.
 *
 * Internal to src/lib.  A client is shared by threads and has a lock for the list of its sessions,
 * taken only when one is opened or closed.  Everything else belongs to a session's thread.
 */
#ifndef FORGE_LIB_LIB_H
#define FORGE_LIB_LIB_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/compiler.h"
#include "access/pass.h"
#include "client/client.h"
#include "forge/forge.h"
#include "lib/flight.h"

/* Where no option says otherwise. */
#define LIB_SESSIONS_DEFAULT  1u
#define LIB_IN_FLIGHT_DEFAULT 32u
#define LIB_IN_FLIGHT_MAX     1024u

/* Longer times than this (centuries) are as good as none. */
#define LIB_TIMEOUT_US_MAX (UINT64_C(1) << 53)

struct forge_client {
	struct client *client;
	struct forge_options options; /* without zeroes; policy unused; files its own copies */
	struct pass_wish access;      /* of these files */
	struct forge_limits limits;
	pthread_mutex_t lock;
	unsigned session_count;	      /* open */
	struct forge_session *closed; /* handles to use again, so that a stale one is noticed */
	char pool_name[256];	      /* for messages, cut if need be */
};

struct forge_session {
	struct forge_client *client;
	struct session *session; /* NULL: closed */
	struct view *view;	 /* the session's own */
	uint64_t timeout_ns;	 /* 0: none */
	struct flight flight;
	struct forge_session *next_closed;
};

/* ---- errors (error.c) --------------------------------------------------------------------- */

/* Remember a sentence for forge_detail(); returns status. */
int lib_fail(int status, const char *format, ...) PRINTF_LIKE(2, 3);

/* The same for an operation that ended with status, which may be an outcome and then is no news. */
int lib_fail_op(const struct forge_session *, const struct forge_op *);

/* 0, or FORGE_E_INVAL or FORGE_E_FORKED, remembered, for a session that no call may use. */
int lib_check_session(const struct forge_session *);

/* ---- operations (op.c) -------------------------------------------------------------------- */

/*
 * Do an operation on a view of the session and wait for it; writes its answer.  A value it found
 * lies in the view's scratch or in op->buffer.
 */
MAY_WAIT void op_execute(struct forge_session *, struct view *, struct forge_op *);

/* 0: none. */
static inline uint64_t lib_timeout_ns(uint64_t timeout_us)
{
	return timeout_us <= LIB_TIMEOUT_US_MAX ? 1000 * timeout_us : 0;
}

/* Set the time an operation that begins now has to be done by. */
void op_begin(const struct forge_session *, struct forge_op *);

/* Is found.data in the scratch of the view that did it? */
int op_lends(const struct forge_op *);

/* Do it now, one of its own or beside those in flight; remembers an error.  op->status. */
MAY_WAIT int op_wait(struct forge_session *, struct forge_op *);

/* ---- time (expiry.c) ---------------------------------------------------------------------- */

/* In pool time, 0 never.  0 or FORGE_E_INVAL for an expiry no function made. */
int expiry_to_pool(const struct forge_session *, struct forge_expiry, uint64_t *expiry_ms);

/* The time that is left of an expiry in pool time. */
uint64_t expiry_ttl_ms(const struct forge_session *, uint64_t expiry_ms);

#endif
