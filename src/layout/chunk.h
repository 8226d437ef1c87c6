/*
 * chunk.h: the word of a chunk in the chunk table, its dead words, and the TWIM at its end.
 *
 * Part of the layout, whose picture is in layout.h.  Pure.
 */
#ifndef FORGE_LAYOUT_CHUNK_H
#define FORGE_LAYOUT_CHUNK_H

#include "layout/rings.h"

/* ---- chunk word --------------------------------------------------------------------------- */

/*
 *   BITS   FIELD
 *   0-35   position in the ring (queued, evicting, free); of a part: slot of the head object
 *   36-49  generation
 *   50-57  owner CN (open, reserved, evicting), else zero
 *   58-59  ring
 *   60-63  state
 *
 *   STATE     OWNER    POSITION  WHAT IT MEANS                         NEXT STATES
 *   free      -        in free   nobody's; in the free ring            reserved
 *   reserved  CN       -         in a CN's hand; no slot points here   open, free, part
 *   open      CN       -         being filled                          queued, reserved (+1)
 *   queued    -        in ring   sealed; the ring's node points here   evicting, queued (other p)
 *   evicting  CN       in ring   claimed; objects are still readable   queued, reserved (+1)
 *   part      -        slot      piece of the large object whose head  reserved (+1), free (+1)
 *                                the slot points to
 *
 * (+1) raises the generation: from then on every slot that points into the chunk is stale.
 */
#define CHUNK_FREE     0u
#define CHUNK_RESERVED 1u
#define CHUNK_OPEN     2u
#define CHUNK_QUEUED   3u
#define CHUNK_EVICTING 4u
#define CHUNK_PART     5u
#define CHUNK_STATES   6u

#define CHUNK_POSITION_BITS 36u

static inline uint64_t chunk_pack(uint32_t state, uint32_t ring, uint32_t owner,
				  uint32_t generation, uint64_t position)
{
	return layout_put(state, 60, 4) | layout_put(ring, 58, 2) | layout_put(owner, 50, 8) |
	       layout_put(generation, 36, 14) |
	       layout_put(position & ((UINT64_C(1) << CHUNK_POSITION_BITS) - 1), 0, 36);
}

static inline uint32_t chunk_state(uint64_t word)
{
	return (uint32_t)layout_bits(word, 60, 4);
}

static inline uint32_t chunk_ring(uint64_t word)
{
	return (uint32_t)layout_bits(word, 58, 2);
}

static inline uint32_t chunk_owner(uint64_t word)
{
	return (uint32_t)layout_bits(word, 50, 8);
}

static inline uint32_t chunk_generation(uint64_t word)
{
	return (uint32_t)layout_bits(word, 36, 14);
}

static inline uint64_t chunk_position(uint64_t word)
{
	return layout_bits(word, 0, 36);
}

/*
 * The whole position that the 36 bits of a word stand for: the one nearest to another position of
 * the ring, from which it is never further away than the ring is long.
 */
static inline uint64_t chunk_position_near(uint64_t word, uint64_t other)
{
	uint64_t ahead = (chunk_position(word) - other) << (64 - CHUNK_POSITION_BITS);

	return other + (uint64_t)((int64_t)ahead >> (64 - CHUNK_POSITION_BITS));
}

static inline uint64_t chunk_pack_free(uint32_t generation, uint64_t position)
{
	return chunk_pack(CHUNK_FREE, RING_FREE, 0, generation, position);
}

static inline uint64_t chunk_pack_reserved(uint32_t owner, uint32_t generation)
{
	return chunk_pack(CHUNK_RESERVED, 0, owner, generation, 0);
}

static inline uint64_t chunk_pack_open(uint32_t owner, uint32_t generation)
{
	return chunk_pack(CHUNK_OPEN, 0, owner, generation, 0);
}

static inline uint64_t chunk_pack_queued(uint32_t ring, uint32_t generation, uint64_t position)
{
	return chunk_pack(CHUNK_QUEUED, ring, 0, generation, position);
}

static inline uint64_t chunk_pack_evicting(uint32_t owner, uint32_t ring, uint32_t generation,
					   uint64_t position)
{
	return chunk_pack(CHUNK_EVICTING, ring, owner, generation, position);
}

/* A head keeps its slot for life, wherever it moves: so the word of its parts never changes. */
static inline uint64_t chunk_pack_part(uint32_t generation, uint64_t slot)
{
	return chunk_pack(CHUNK_PART, 0, 0, generation, slot);
}

/* ---- dead word ---------------------------------------------------------------------------- */

/*
 *   BITS   FIELD
 *   0-31   members that lost their slot: SN % 32 of word SN / 32
 *   32-63  the sum, modulo 2^32, of the mark of the life in which each was seen to die
 *
 * Deaths are added by FAA, which looks at nothing: it may come when the chunk has been freed and
 * lives again.  So a word is believed only if its sum is what so many deaths in this life make.
 *
 * Proof.  In a life of mark m the word holds A, the deaths of this life, each once, and B, those of
 * another one of mark m', added late, with a >= 0 and b > 0 bits.  Their sum a m + b m' is taken
 * for that of n m, where n bits are set: n = a + b - k with k the carries, and a carry out of bit
 * 31 adds 1 to the sum.  Marks are 2^24 and a generation, so b (m - m') lies between -2^19 and 2^19
 * and is not 0.  With k = 0 the sums differ by just that.  With 1 <= k < 64 they differ by k m,
 * which is at least 2^24 and less than 2^30 + 2^20, but for less than 2^19 + 1.  Neither is 0
 * modulo 2^32. The same holds for late deaths of several lives, up to 2^10 of them, as long as
 * those lives are older and generations have not wrapped in between; where they have, a sum that
 * fits is a coincidence of numbers.
 */
#define DEAD_WORD_MEMBERS     32u
#define LAYOUT_DEAD_WORDS_MAX (LAYOUT_GROUP_OBJECTS_MAX / DEAD_WORD_MEMBERS)
#define DEAD_MARK	      (1u << 24)

/* The sum that so many deaths in a life make. */
static inline uint32_t dead_word_sum(uint32_t generation, uint32_t members)
{
	return (uint32_t)__builtin_popcount(members) * (DEAD_MARK + generation);
}

/* What to add for those members. */
static inline uint64_t dead_word_pack(uint32_t generation, uint32_t members)
{
	return (uint64_t)dead_word_sum(generation, members) << 32 | members;
}

/* Who died in that life; none if something else was added, too. */
static inline uint32_t dead_word_members(uint64_t word, uint32_t generation)
{
	uint32_t members = (uint32_t)word;

	return word >> 32 == dead_word_sum(generation, members) ? members : 0;
}

/* Is a member among those whom the words of its chunk name? */
static inline int dead_words_name(const uint64_t *words, uint32_t generation, uint32_t sn)
{
	return (int)(dead_word_members(words[sn / DEAD_WORD_MEMBERS], generation) >>
			 (sn % DEAD_WORD_MEMBERS) &
		     1);
}

/* ---- TWIM --------------------------------------------------------------------------------- */

/*
 * One entry per SN, from the back of the chunk: entry i of n lies at chunk_end - 8 * (i + 1).
 *   BITS   FIELD
 *   0-34   slot number in the index (bucket * 8 + slot)
 *   35     the object is the head of a large one
 *   36-39  version (forge-paper)
 *   40-47  fingerprint
 *   48-63  length in 16-byte units
 * The offset of object i is the sum of the lengths before it.  With chunk, SN and generation an
 * entry yields the exact index word that pointed to the object.
 */
#define TWIM_BYTES		8u
#define TWIM_SLOT_DEAD		((UINT64_C(1) << 35) - 1) /* no slot ever pointed here */
#define TWIM_HEAD		(UINT64_C(1) << 35)
#define LAYOUT_OBJECT_UNITS_MAX 65535u

static inline uint64_t twim_pack(uint32_t units, uint32_t fingerprint, uint32_t version,
				 uint64_t slot)
{
	return layout_put(units, 48, 16) | layout_put(fingerprint, 40, 8) |
	       layout_put(version & 15u, 36, 4) | layout_put(slot, 0, 35);
}

static inline int twim_is_head(uint64_t entry)
{
	return (entry & TWIM_HEAD) != 0;
}

static inline uint32_t twim_units(uint64_t entry)
{
	return (uint32_t)layout_bits(entry, 48, 16);
}

static inline uint32_t twim_fingerprint(uint64_t entry)
{
	return (uint32_t)layout_bits(entry, 40, 8);
}

static inline uint32_t twim_version(uint64_t entry)
{
	return (uint32_t)layout_bits(entry, 36, 4);
}

static inline uint64_t twim_slot(uint64_t entry)
{
	return layout_bits(entry, 0, 35);
}

#endif
