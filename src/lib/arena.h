/*
 * arena.h: memory for the values of one call, all of it given back by the next one.
 *
 * Internal to src/lib; belongs to a session.  Addresses stay where they are until arena_reset().
 */
#ifndef FORGE_LIB_ARENA_H
#define FORGE_LIB_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *first; /* the one that is filled now */
};

/* bytes of memory, aligned as malloc()'s; NULL: there is none. */
void *arena_take(struct arena *, size_t bytes);

/* What was taken is void.  Some memory is kept for the next time. */
void arena_reset(struct arena *);

void arena_destroy(struct arena *);

#endif
