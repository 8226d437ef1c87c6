/*
 * quiet.h: what must hold in a pool that nobody is attached to any more.
 *
 * For tests that have closed every session.  Opens the export for itself; any thread.
 */
#ifndef FORGE_TEST_MT_QUIET_H
#define FORGE_TEST_MT_QUIET_H

#include <stddef.h>
#include <stdio.h>

/*
 * The checker finds nothing, every chunk is queued or free, no more objects are there than fit,
 * and every registry line is free.  0, or -1 with the reason.
 */
int quiet_check(const char *pool_name, char *reason, size_t reason_bytes);

/* Cursors and chunk words, for a person. */
void quiet_print(const char *pool_name, FILE *out);

#endif
