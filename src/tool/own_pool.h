/*
 * own_pool.h: the pool that a server makes for itself, and who removes it.
 *
 * Nobody asked for such a pool to outlive its server: who replaces memcached by `forge serve -m`
 * expects the memory back however the server ends, above all when it was the kernel that killed it
 * for want of memory.  A name in /dev/shm does not go by itself, and without one no other process
 * could attach.  So:
 *  - Before it makes the pool the server starts `forge gc --after` itself as a process of its own,
 *    which sleeps until the server is gone, by whatever signal, and then removes the pool.  It has
 *    a session of its own, and ignores the signals that end whole groups, because systemd and
 *    shells send them to it too.
 *  - When that was killed as well, the next server that makes a pool of its own removes what is
 *    left before it does, and so does `forge gc` without --warm-too.
 * Each of them goes by the locks of the pool's owners (gc.c): of a pool that a memory node has
 * taken over, or which other processes still use, nothing is removed; the last waits for them.
 *
 * Nor is a pool that bench or replay made for a run (bench/own_pool.h) to outlive it.  Its name
 * goes as soon as all have attached; of a run that was killed before that it is `forge gc` that
 * removes it.
 */
#ifndef FORGE_TOOL_OWN_POOL_H
#define FORGE_TOOL_OWN_POOL_H

#include <stdbool.h>
#include <stddef.h>

/* The name of this process's. */
void own_pool_name(char *name, size_t bytes);

/* Is it the name of some server's, or of a pool that bench or replay made for a run? */
bool own_pool_is(const char *name);

/* Start who removes the pool when this process has ended.  Failure is logged: it is not vital. */
void own_pool_watch(const char *name);

/* Remove those of servers that are gone. */
void own_pool_collect(void);

#endif
