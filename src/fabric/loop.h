/*
 * loop.h: a provider that completes at once in a private buffer, for tests and tools.
 *
 * Who may call: set-up code, on any thread.  A connection belongs to one thread; several
 * connections, also of several threads, may share one buffer.
 */
#ifndef FORGE_FABRIC_LOOP_H
#define FORGE_FABRIC_LOOP_H

#include "fabric/fabric.h"

/*
 * Open a connection to [mem, mem + bytes).  mem is 8-aligned and borrowed until close; with NULL
 * the connection allocates a zeroed buffer of its own and frees it at close.
 * 0, FORGE_E_INVAL when bytes is 0 or anything is not a multiple of 8, FORGE_E_NO_MEMORY.
 */
int loop_open(void *mem, uint64_t bytes, struct fab **out);

/* The buffer of a loop connection, valid until close. */
void *loop_base(struct fab *f);

#endif
