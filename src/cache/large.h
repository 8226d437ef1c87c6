/*
 * large.h: values larger than a chunk: gathering chunks, linking, reading and freeing parts.
 *
 * The argument stands in pool/parts.h; a Set of such a value is
 *
 *   1 large_prepare()   gather chunks, WRITE the parts, build the stored value of the head
 *   2 the Set itself, with the head for an object: place, WRITE, CAS of the slot
 *   3 large_link()      make the chunks parts, and look at the slot once more
 *
 * and whoever takes a head out of its slot READs it before (large_note_old) and frees its parts
 * after it won the CAS (large_free_old).
 *
 * Internal to cache/.  Scratch and results belong to the worker's struct cache; only its buffers
 * in c->large are touched.
 */
#ifndef FORGE_CACHE_LARGE_H
#define FORGE_CACHE_LARGE_H

#include "cache/cache.h"
#include "pool/parts.h"

/*
 * A Set that finds too few chunks gives all back and gathers anew, at least so often and so long:
 * others gather, too, and may need time for a step.
 */
#define LARGE_GATHER_ROUNDS 16u
#define LARGE_GATHER_US	    500000u
/* Looks for a chunk that brought none before it does. */
#define LARGE_FRUITLESS_MAX 64u
/*
 * A slot whose heads cannot be read and keep changing is looked at so many times 16.  Each look in
 * vain is another node's step ahead, some round trips of its own; beyond that a sweep has to do it.
 */
#define LARGE_SETTLE_ROUNDS 64u
/* Trips round the rings after which a group is worth no more waiting. */
#define LARGE_TRIPS 4u

/* Allocate what values in parts need; nothing where the pool has none.  0, FORGE_E_NO_MEMORY. */
int large_init(struct cache *);
void large_fini(struct cache *);

/*
 * Gather chunks for a value and WRITE them.  Then c->large.stored holds *stored_bytes of what the
 * head has for a value, and c->large.count chunks are in hand until large_link() or
 * large_abandon().  Waits.  0; FORGE_E_NO_SPACE (nothing is in hand); FORGE_E_NODE.
 */
MAY_WAIT int large_prepare(struct cache *, const void *value, uint32_t value_bytes,
			   uint32_t *stored_bytes);

/*
 * The head, which lies in c->object, was linked in the slot by that word: make the chunks in hand
 * its parts.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int large_link(struct cache *, uint64_t slot, uint64_t word);

/* Give the chunks in hand back, if there are any: no head was linked.  Waits.  0, FORGE_E_NODE. */
MAY_WAIT int large_abandon(struct cache *);

/* READ the value of the verified head into c->large.value.  *good: it is whole.  Waits. */
MAY_WAIT int large_read(struct cache *, const struct parts_list *, int *good);

/*
 * Before the CAS that takes a word out of its slot: if it is a head's, READ it into c->large.head,
 * so that its parts are known.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int large_note_old(struct cache *, uint64_t word, struct parts_list *old);

/* After that CAS was won: free them.  Nothing to do for an old->count of 0. */
MAY_WAIT int large_free_old(struct cache *, const struct parts_list *old, uint64_t slot,
			    enum fab_purpose);

/*
 * A head with that list, which lies anywhere but in c->large.head, was seen in the slot and is not
 * there any more: free its parts, unless another head there lists them.  For who cannot know
 * whether whoever took it out could READ it.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int large_settle(struct cache *, const struct parts_list *, uint64_t slot,
			  enum fab_purpose);

#endif
