/*
 * attachment.h: a process as a compute node of one memory node.
 *
 * Internal to src/client.  An attachment is reached first (connected, its plan READ and checked),
 * then joined, and shared by the sessions of its client, each of which holds a count on it.  Who
 * drops the last count leaves the pool in order, or, once the node is lost, only frees what is
 * here. A count may be taken and dropped on any thread; everything else belongs to whoever opened
 * it, but for attachment_connect().
 */
#ifndef FORGE_CLIENT_ATTACHMENT_H
#define FORGE_CLIENT_ATTACHMENT_H

#include <errno.h>

#include "client/client.h"
#include "client/link.h"

struct attachment {
	struct link *link;
	struct fab *fab; /* joining and leaving are a worker's business too; this one is its own */
	struct worker worker;
	struct pool pool;
	const struct policy *policy;
	struct cn cn;
	const struct client_options *options; /* the client's */
	unsigned forked_mark;
	uint8_t is_joined;
	_Atomic uint8_t is_lost;
	_Atomic uint32_t counts;
	/*
	 * Connections made ahead, so that no operation has to make one: the mender's until it is
	 * published, then under the client's lock.
	 */
	struct fab **spares;
	uint32_t spare_count;
};

/*
 * Connect and see what is there; the count is the caller's.  options are borrowed, and so is
 * cancel until link_keep().
 * 0; what link_open() and pool_open() say; FORGE_E_INVAL for a policy that does not exist or whose
 * slots are not the pool's.
 */
int attachment_open(const char *name, const struct client_options *options, struct cancel *cancel,
		    struct attachment **out, char *error_text, size_t error_bytes);

/*
 * Become a compute node, of that epoch of the spread.
 * 0; FORGE_E_FULL_REGISTRY; FORGE_E_INVAL for too many sessions; FORGE_E_NODE, FORGE_E_NO_MEMORY.
 */
int attachment_join(struct attachment *, uint32_t spread_epoch, char *error_text,
		    size_t error_bytes);

/* A connection for the calling thread, with what the client's options wrap around it. */
int attachment_connect(struct attachment *, struct fab **out);

static inline void attachment_hold(struct attachment *a)
{
	atomic_fetch_add_explicit(&a->counts, 1, memory_order_relaxed);
}

/*
 * For people, what a connection just failed by: more than its status says when no descriptor was
 * left, by errno.
 */
static inline const char *attachment_why(int status)
{
	if (status == FORGE_E_SYSTEM && (errno == EMFILE || errno == ENFILE))
		return "Too many open files; raise the limit (ulimit -n)";
	return status_sentence(status);
}

/* NULL is permitted.  Waits. */
void attachment_drop(struct attachment *);

#endif
