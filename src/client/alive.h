/*
 * alive.h: which compute nodes of a pool on this host are alive, by locks the kernel keeps.
 *
 * Byte 1 + id of the export belongs to the compute node with that id (byte 0 is the memory
 * node's): it holds an open-file-description lock on it from before it joins until after it
 * leaves.  The kernel drops the lock when the process is gone, however it ended, and not while it
 * merely sleeps, so nobody is ever declared dead by a guess.
 *
 * Called by clients, the node and `forge check --repair`.  A struct alive belongs to one process;
 * any thread of it may call.  A child that fork() makes would keep its parent's locks alive, so
 * in the child they are closed at once (pthread_atfork): it has no compute node.
 */
#ifndef FORGE_CLIENT_ALIVE_H
#define FORGE_CLIENT_ALIVE_H

#include "pool/registry.h"

/* The bytes, and how many belong to somebody. */
#define ALIVE_NODE_BYTE UINT64_C(0)
#define ALIVE_BYTES	(1 + (uint64_t)LAYOUT_CN_MAX)

static inline uint64_t alive_cn_byte(uint32_t cn)
{
	return 1 + (uint64_t)cn;
}

struct alive;
struct shm_map;

/*
 * For the pool of that name, which is mapped, and borrowed until alive_close().  Once the name is
 * gone or stands for another pool, nothing can be locked and nobody proven dead any more.
 * 0 or FORGE_E_NO_MEMORY.
 */
int alive_open(const char *pool_name, const struct shm_map *, struct alive **out);

/* Release what is still held. */
void alive_close(struct alive *);

/* What the pool layer uses; borrowed, valid until alive_close(). */
const struct liveness *alive_liveness(struct alive *);

/*
 * Is the compute node alive?  1, 0, or FORGE_E_SYSTEM and the like when it cannot be told.
 * Changes nothing.
 */
int alive_is_held(struct alive *, uint32_t cn);

/*
 * Take the locks of all ids below cn_max, so that nobody is attached and nobody can come.
 * 0; FORGE_E_AGAIN, with none taken, when somebody is there.
 */
int alive_hold_all(struct alive *, uint32_t cn_max);
void alive_release_all(struct alive *, uint32_t cn_max);

#endif
