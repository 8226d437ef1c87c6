/*
 * link.h: how a process reaches one memory node, whatever lies between: a pool by its name, the
 * connections of its threads, and the locks that prove who lives.
 *
 * Called by clients, and by tools that look at a pool or mend it; the node itself owns its memory
 * and needs no link.  A link belongs to one process; any thread of it may call.  Connections are
 * one for a thread and are closed before their link.  What differs from medium to medium is in
 * link_medium.h and below; nobody above asks which one it is.
 *
 * Names are what client/name.h takes apart.  A key that neither the name nor the caller gives is
 * looked for in the environment: FORGE_KEY_FILE, a file, or FORGE_KEY, a line of one.
 */
#ifndef FORGE_CLIENT_LINK_H
#define FORGE_CLIENT_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "client/link_medium.h"
#include "fabric/fabric.h"
#include "pool/registry.h"

struct cancel;
struct link;

/* Flags of link_open(). */
#define LINK_LAZY      0x01 /* for a tool that looks at little: prepare no more than needed */
#define LINK_READ_ONLY 0x02 /* nothing but READs will be posted, and no lock be taken */
#define LINK_METRICS   0x04 /* not even these: nothing is asked but link_counters() */

/*
 * Reach the pool of that name.  error_text names what is wrong and the remedy.
 * 0; FORGE_E_INVAL for a name that cannot be one; FORGE_E_POOL_ABSENT, _POOL_TRUNCATED,
 * _POOL_SPACE, _NO_MEMORY, _SYSTEM, _DENIED, _FORMAT as the medium has it.
 */
int link_open(const char *pool_name, int flags, struct link **out, char *error_text,
	      size_t error_bytes);

/*
 * The same; what the name does not say about access is taken from there (NULL: nothing).  Until
 * link_keep() the link and everything over it fail with FORGE_E_NODE as soon as cancel is fired,
 * without waiting for the node any longer (NULL: nobody will).
 */
int link_open_with(const char *pool_name, int flags, const struct pass_wish *, struct cancel *,
		   struct link **out, char *error_text, size_t error_bytes);

/* It is not given up any more; by the thread that opened it, while no other has it yet. */
void link_keep(struct link *);

/* Does that status mean: not there now, but it may be a minute later?  All else is a mistake. */
static inline int link_is_away(int status)
{
	return status == FORGE_E_NODE || status == FORGE_E_POOL_ABSENT ||
	       status == FORGE_E_POOL_TRUNCATED;
}

/*
 * Its node is lost: what is under way over it and whatever follows gives FORGE_E_NODE, and the node
 * hears of it as soon as it can, even if connections stay open.  Does not wait.
 */
void link_end(struct link *);

/* Every connection over it has been closed.  NULL is permitted. */
void link_close(struct link *);

/*
 * A connection for the calling thread; the caller closes it.
 * 0, FORGE_E_NO_MEMORY, FORGE_E_NODE, FORGE_E_SYSTEM.
 */
int link_connect(struct link *, struct fab **out);

/* What the pool layer joins and recovers by; borrowed, valid until close. */
static inline const struct liveness *link_liveness(const struct link *l)
{
	return l->liveness;
}

/*
 * The memory, if it is mapped here, else NULL: for prefetches alone, others change it at any
 * time.  What is not mapped has another clock, too, and may be on another host.
 */
static inline const char *link_base(const struct link *l)
{
	return l->base;
}

/* What is known of its node's clock; NULL: it is ours.  For struct pool; valid until close. */
static inline struct pool_clock *link_clock(const struct link *l)
{
	return l->clock;
}

/* The size of what the node exports. */
static inline uint64_t link_bytes(const struct link *l)
{
	return l->bytes;
}

/*
 * Which memory it is, as its node said, who is asked behind a socket by any key; 0 over a medium
 * where the superblock, that anybody may read, is the one to ask.
 */
static inline uint64_t link_pool_id(const struct link *l)
{
	return l->pool_id;
}

/*
 * Is that compute node alive?  1, 0, or an error when it cannot be told: FORGE_E_POOL_ABSENT when
 * the name has gone or stands for another pool, FORGE_E_SYSTEM, FORGE_E_NODE.  Changes nothing.
 */
int link_is_held(struct link *, uint32_t cn);

/*
 * Have the descriptor (shm_watch_open()) tell when that may be FORGE_E_POOL_ABSENT.  1, or 0: it
 * will not, ask now and then.
 */
int link_watch(struct link *, int fd);

/* Does a memory node serve it, as far as can be told?  1 or 0. */
int link_is_served(struct link *);

/*
 * What its memory node has counted of those who come by sockets, a line "name value" each, from a
 * node that is not trusted: text[bytes], ended by a zero.  How many bytes; 0 over a medium where no
 * node serves; FORGE_E_NODE.
 */
#define LINK_COUNTERS_BYTES 16384u
int link_counters(struct link *, char text[LINK_COUNTERS_BYTES + 1]);

/*
 * Take the locks of all ids below cn_max, so that nobody is attached and nobody can come.
 * 0; FORGE_E_AGAIN, with none taken, when somebody is there or it cannot be told.
 */
int link_hold_all(struct link *, uint32_t cn_max);
void link_release_all(struct link *, uint32_t cn_max);

/*
 * Does a node serve the pool of that name?  Opens no link.
 * 1 or 0 (the pool is there but cold: no node holds it), or FORGE_E_POOL_ABSENT, FORGE_E_INVAL,
 * FORGE_E_SYSTEM with the reason in error_text.
 */
int link_probe(const char *pool_name, char *error_text, size_t error_bytes);

#endif
