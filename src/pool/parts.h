/*
 * parts.h: objects larger than a chunk: their list of parts, and freeing what nobody lists.
 *
 * The value of such an object lies in whole chunks outside the rings, its parts.  Its head is an
 * ordinary object of an ordinary group, whose stored value is a struct layout_parts: length and
 * checksum of the value, and chunk and generation of each part.  Called by the flows of cache/,
 * by recovery, the checker and tools.
 *
 * The argument.  The head's index word is the point of truth; parts follow it.
 *
 * Life of a part (c, g), g being the chunk's generation, whose head is linked in slot s:
 *   reserved(cn, g)   gathered and WRITTEN before the head is linked; nobody else knows it, and if
 *                     another object is linked instead it does not become a part (large.c)
 *   the CAS that links the head in slot s
 *   part(s, g)        CAS by the same node, after the link
 *   reserved(x, g+1) or free(g+1)   CAS from exactly part(s, g), by whoever frees it
 *
 * 1. A head keeps its slot.  Moving it (regroup) or replacing it by one with the same list (touch)
 *    is a CAS of that slot from the exact old word to the new one, and frees nothing.
 * 2. Whoever wins the CAS that takes a head out of its slot, to 0 or to an object with another
 *    list, frees the parts of its list; he has READ and verified the head before.  One wins.
 * 3. The head may be taken out before its parts are parts: the winner's CASes fail then.  So the
 *    node that made them parts READs the slot after it; if no head there lists them it frees them
 *    itself.  Either the winner's CAS of a chunk comes after ours to part(s, g) and succeeds, or
 *    it comes before, and then so did the removal, and our READ of the slot sees it.
 * 4. So a chunk that is seen as part(s, g), and then slot s is seen without a head that lists
 *    (c, g), is nobody's: the head was linked there before the chunk became a part, has kept the
 *    slot (1) and cannot come back, since a chunk becomes a part of generation g only once.
 *    Sweeps free such chunks.  They come from deaths, and from heads whose bytes were damaged.
 *    A sweep needs no scan of the index: one READ of the slot and one of the head for each large
 *    object, since the head names all other parts.
 * 5. Two free one part at once: its generation rises with the first, the other's CAS fails.
 *
 * Crash: before the link, the chunks are reserved in the dead node's name, and recovery frees
 * them.  After the link, some may be parts and some reserved: recovery takes the latter, with the
 * next generation, so that no list ever means their next life; the value is lost, and the first
 * who reads it finds its checksum wrong and takes the head out.  After a removal some parts are
 * left: 4.
 *
 * A value that is read is believed only if its checksum fits, whatever became of the parts
 * meanwhile.
 */
#ifndef FORGE_POOL_PARTS_H
#define FORGE_POOL_PARTS_H

#include <string.h>

#include "pool/index.h"
#include "pool/object.h"
#include "pool/pool.h"

/* Most verbs on parts in one batch, so that a frame stays small. */
#define PARTS_BATCH 16u

/* A look into a head that lies in local memory, valid as long as that is. */
struct parts_list {
	uint64_t value_bytes;
	uint64_t checksum;
	uint32_t count;
	uint32_t rest_bytes;
	const uint8_t *words; /* unaligned */
	const uint8_t *rest;
};

/* Is the checked object a head, with a list that can be one of this pool?  Fills in *out if so. */
int parts_of(const struct plan *, const void *object, struct parts_list *out);

static inline uint64_t parts_at(const struct parts_list *l, uint32_t i)
{
	uint64_t part;

	memcpy(&part, l->words + LAYOUT_PART_BYTES * (uint64_t)i, sizeof(part));
	return part;
}

/* Does the list name the chunk in that generation? */
int parts_name(const struct parts_list *, uint32_t chunk, uint32_t generation);

/* Bytes of the value that lie in its i-th part. */
static inline uint32_t parts_bytes(const struct plan *p, uint64_t value_bytes, uint32_t i)
{
	uint64_t from = (uint64_t)i * p->chunk_bytes;

	return (uint32_t)min_u64(p->chunk_bytes, value_bytes - from);
}

/* Bytes of the stored value of a head. */
static inline uint32_t parts_stored_bytes(struct plan_cut cut)
{
	return LAYOUT_PARTS_BYTES + LAYOUT_PART_BYTES * cut.part_count + cut.rest_bytes;
}

/*
 * READ the whole value into buffer.  *good: its checksum fits.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int parts_read(const struct pool *, struct worker *, enum fab_purpose,
			const struct parts_list *, uint8_t *buffer, int *good);

/* What became of the slot that a part names. */
struct parts_slot {
	uint64_t word;	  /* the slot's */
	int is_head;	  /* of a live head, which lies in the buffer */
	uint32_t dropped; /* heads that were CASed to 0; the caller counts them (layout/stats.h) */
	struct parts_list list;
};

/*
 * Which live head is in the slot?  One that cannot be read, or whose chunk has another generation
 * by now, is CASed to 0: it is evicted.  buffer: chunk_bytes.
 * Waits.  0, FORGE_E_AGAIN when it kept changing, or FORGE_E_NODE.
 */
MAY_WAIT int parts_look(const struct pool *, struct worker *, enum fab_purpose, uint64_t slot,
			uint8_t *buffer, struct parts_slot *out);

/* What a sweep works with; the caller's. */
struct parts_sweep {
	uint64_t *words; /* [chunk_count] */
	uint8_t *listed; /* [chunk_count] */
	uint8_t *buffer; /* chunk_bytes */
	uint64_t found;	 /* out: parts there were */
	uint64_t freed;	 /* out: parts that no head listed */
	uint64_t lost;	 /* out: those that somebody else freed meanwhile */
};

/*
 * Free every chunk that is a part and that no live head lists (4), and set the count of parts
 * right if nobody changes it meanwhile.  Beside live nodes, in any number.
 * Time: one READ of the chunk table, three READs for each large object and each part freed, and
 * no wait for anybody.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int parts_sweep(const struct pool *, struct worker *, struct parts_sweep *);

#endif
