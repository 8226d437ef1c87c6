/*
 * refused.h: the keys whose changes were refused because their memory node is lost.
 *
 * Internal to src/client.  When the node is back with its memory, the old values of these keys
 * must not be found (doc/nodes.md).  A set of keys, bounded: when there are more, it only knows
 * that there were, and the node has to be flushed.  The owner locks it.
 */
#ifndef FORGE_CLIENT_REFUSED_H
#define FORGE_CLIENT_REFUSED_H

#include <stddef.h>
#include <stdint.h>

#include "cache/cache.h"

#define REFUSED_KEYS_MAX  65536u
#define REFUSED_BYTES_MAX (8u << 20)

struct refused {
	uint32_t *slots; /* [2 x REFUSED_KEYS_MAX] offset + 1 of a key in bytes, by its hash */
	uint8_t *bytes;	 /* for each key its length in a byte, and the key */
	uint32_t used, key_count;
	uint8_t is_too_much;
};

/* Remember a key; without memory for it, that there was too much. */
void refused_add(struct refused *, struct cache_key key);

/* Remember that everything was to go. */
static inline void refused_add_all(struct refused *r)
{
	r->is_too_much = 1;
}

static inline int refused_is_empty(const struct refused *r)
{
	return r->key_count == 0 && !r->is_too_much;
}

/* The key at *at, which begins at 0 and is moved on.  0: there is none any more. */
int refused_next(const struct refused *, uint32_t *at, struct cache_key *out);

void refused_clear(struct refused *);

#endif
