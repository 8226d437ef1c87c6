/*
 * scan.h: every key of a cache, a page of buckets at a time, whose round trips overlap.
 *
 * Who may call: the thread of a session, with a set of flows of it (flows.h) that may have other
 * things under way, and not from inside a flow.  A scan is where it has come to and nothing else:
 * it holds nothing in the cache, and may go on with another session.  cache/scan.h has the argument
 * why a key that stays is found.
 *
 * Of several memory nodes one that is lost is left out until those that live have been seen; then
 * the scan says so, and whoever goes on all the same is given the keys of those that came back.
 */
#ifndef FORGE_CLIENT_SCAN_H
#define FORGE_CLIENT_SCAN_H

#include "client/flows.h"

/* Where a scan is.  Zeroes: at the beginning. */
struct scan {
	uint32_t member;       /* the memory node whose keys come next */
	uint32_t bucket;       /* the next one there */
	uint32_t bucket_count; /* of its pool; 0: not known yet */
	uint64_t lost;	       /* a bit for each node that was left out */
	uint64_t only;	       /* after it was said: the nodes left out before; 0: all are wanted */
};

/*
 * A key that was found; key and value are borrowed for the call, which must not wait.  Of a value
 * larger than a chunk data is NULL.  now_ms: what its expiry is to be compared with.
 */
typedef void (*scan_fn)(void *context, struct cache_key key, const struct cache_value *value,
			uint64_t now_ms);

/*
 * Find the keys of the next page, by as many flows of the set as are free, or by the session's own
 * view, and go on behind it.  The set's context is the scan's meanwhile.  Waits.
 * 0, also when a node was lost on the way: what each() was told holds, and the node is left out.
 * FORGE_E_NODE, each() was told nothing: all others are done (or the one node there is is lost),
 * and the scan has gone back to those left out.  FORGE_E_SPREAD, FORGE_E_NO_MEMORY, and
 * FORGE_E_AGAIN when others kept changing a bucket or the node came back with another pool: then
 * the scan is where it was, and what each() was told is void.
 */
MAY_WAIT int scan_page(struct scan *, struct flows *, scan_fn each, void *context);

/* The nodes that scan_page() has last said are lost: a bit for each, of several. */
static inline uint64_t scan_lost(const struct scan *s)
{
	return s->only;
}

/* Was that the last page?  And how far is it, from 0 to 1? */
int scan_is_over(const struct scan *, struct client *);
double scan_progress(const struct scan *, struct client *);

#endif
