/*
 * host.h: which host this is, as far as shared memory is concerned.
 *
 * Called by the node, which writes it into the superblock, and by clients, which refuse a pool that
 * is served elsewhere: memory that two hosts share (CXL, a file on a shared device) need not be
 * coherent between them, its atomics need not be atomic, and their clocks differ.  Any thread.
 */
#ifndef FORGE_CLIENT_HOST_H
#define FORGE_CLIENT_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

/* A hash of the kernel's boot id; 0 when it does not say (then nothing is refused). */
uint64_t host_boot(void);

/* Is the pool served on this host?  0, or FORGE_E_INVAL with the reason and the remedy. */
int host_check(const struct pool *, char *error_text, size_t error_bytes);

#endif
