/*
 * gc.h: what of `forge gc` other subcommands use.
 *
 * On the main thread.  gc.c has the argument why nobody's pool is removed under him.
 */
#ifndef FORGE_TOOL_GC_H
#define FORGE_TOOL_GC_H

#include <stdbool.h>
#include <stddef.h>

/* Where pools named shm:/name are. */
#define SHM_DIRECTORY "/dev/shm"

/*
 * Remove the pool of that name, warm or not, if all its owners are proven to be gone.  Was it?
 * text says what was found.
 */
bool gc_remove(const char *where, char *text, size_t text_bytes);

#endif
