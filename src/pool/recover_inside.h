/*
 * recover_inside.h: what the files of a recovery share: its buffers, and putting a chunk elsewhere.
 *
 * Internal to recover.c and recover_rings.c.  All functions wait, and return 0 or FORGE_E_NODE.
 */
#ifndef FORGE_POOL_RECOVER_INSIDE_H
#define FORGE_POOL_RECOVER_INSIDE_H

#include "pool/recover.h"
#include "pool/ring.h"

struct recover {
	const struct pool *pool;
	uint64_t *chunks; /* [chunk_count] the chunk table as READ */
	uint64_t *nodes;  /* [RING_COUNT][ring_nodes] the rings as READ */
	uint8_t *listed;  /* [chunk_count] for a sweep of the parts */
	uint8_t *head;	  /* [chunk_bytes] for a head of a large object */
	struct layout_cursors cursors;
};

/* READ so many words, a part at a time. */
MAY_WAIT int recover_read_words(struct worker *, uint64_t raddr, uint64_t *words, uint64_t count);

/*
 * Put a chunk into a ring from its exact word.  FORGE_E_AGAIN of the enqueue means that somebody
 * else dealt with it: no error here.  *done counts the ones that were ours.
 */
MAY_WAIT int recover_move_chunk(struct recover *, struct worker *, uint32_t ring,
				const struct ring_entry *, uint64_t *done, struct recover_report *);

/*
 * Free a chunk, one generation on, from its exact word.  One that was only reserved, too: of its
 * last life the dead map may not have been cleared.
 */
MAY_WAIT int recover_free_chunk(struct recover *, struct worker *, uint32_t chunk, uint64_t word,
				uint64_t *done, struct recover_report *);

#endif
