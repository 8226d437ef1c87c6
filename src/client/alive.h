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

struct alive;

/* For the pool of that name.  0 or FORGE_E_NO_MEMORY. */
int alive_open(const char *pool_name, struct alive **out);

/* Release what is still held. */
void alive_close(struct alive *);

/* What the pool layer uses; borrowed, valid until alive_close(). */
const struct liveness *alive_liveness(struct alive *);

/* Is this a child of the process that opened it?  Then nothing may be done with its sessions. */
int alive_is_forked(const struct alive *);

/*
 * Is the compute node alive?  1, 0, or FORGE_E_SYSTEM and the like when it cannot be told.
 * Changes nothing.
 */
int alive_is_held(struct alive *, uint32_t cn);

#endif
