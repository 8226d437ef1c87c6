/*
 * slot.h: the slots of the index: the index word, and the group word that 16-byte slots have too.
 *
 * Part of the layout, whose picture is in layout.h.  Pure.
 */
#ifndef FORGE_LAYOUT_SLOT_H
#define FORGE_LAYOUT_SLOT_H

#include "layout/word.h"

/* ---- index word --------------------------------------------------------------------------- */

/*
 *   BITS   FIELD        MEANING
 *   0-33   pointer      object offset in the export, in 16-byte units (256 GiB)
 *   34-47  tag          the chunk's generation; forge-paper: 10 bits of it, then a 4-bit version
 *   48-55  blocks       length in 64-byte blocks; 0 empty, 253 head of a large object,
 *                       254 tentative, 255 see the header
 *   56-63  fingerprint  8 bits of the key's hash
 *
 * An address is written once per generation, so a word cannot repeat until its chunk has been
 * re-used 16,384 times: that is the ABA argument for every CAS on an index word.
 *
 * The word itself says whether it is a head, because whoever takes it out of the index has to
 * free the parts.
 */
#define INDEX_BLOCKS_EMPTY     0u
#define INDEX_BLOCKS_MAX       252u
#define INDEX_BLOCKS_HEAD      253u
#define INDEX_BLOCKS_TENTATIVE 254u
#define INDEX_BLOCKS_HEADER    255u

static inline uint64_t index_pack(uint32_t fingerprint, uint32_t blocks, uint32_t tag,
				  uint64_t pointer_units)
{
	return layout_put(fingerprint, 56, 8) | layout_put(blocks, 48, 8) |
	       layout_put(tag, 34, 14) | layout_put(pointer_units, 0, 34);
}

static inline uint32_t index_fingerprint(uint64_t word)
{
	return (uint32_t)layout_bits(word, 56, 8);
}

static inline uint32_t index_blocks(uint64_t word)
{
	return (uint32_t)layout_bits(word, 48, 8);
}

static inline uint32_t index_tag(uint64_t word)
{
	return (uint32_t)layout_bits(word, 34, 14);
}

static inline uint64_t index_pointer(uint64_t word)
{
	return layout_bits(word, 0, 34);
}

/* The length field for an object of that many 16-byte units. */
static inline uint32_t index_blocks_of_units(uint32_t units)
{
	uint32_t blocks = (units + 3) / 4;

	return blocks <= INDEX_BLOCKS_MAX ? blocks : INDEX_BLOCKS_HEADER;
}

/* Does the word say "an object is here" (not empty, not tentative)? */
static inline int index_is_object(uint64_t word)
{
	uint32_t blocks = index_blocks(word);

	return blocks != INDEX_BLOCKS_EMPTY && blocks != INDEX_BLOCKS_TENTATIVE;
}

/*
 * The word of an insert that is not decided yet (cache/change.c): it points to its object, but
 * readers take the key for absent.  What becomes of it is the word it was made from, or 0.
 */
static inline uint64_t index_tentative(uint64_t word)
{
	return (word & ~layout_put(255, 48, 8)) | layout_put(INDEX_BLOCKS_TENTATIVE, 48, 8);
}

static inline int index_is_tentative(uint64_t word)
{
	return index_blocks(word) == INDEX_BLOCKS_TENTATIVE;
}

/* Does the word point to the head of an object larger than a chunk? */
static inline int index_is_head(uint64_t word)
{
	return index_blocks(word) == INDEX_BLOCKS_HEAD;
}

/* Tag of 8-byte slots: the generation; of 16-byte slots: 10 bits of it and a 4-bit version. */
#define INDEX_TAG_PAPER_GENERATION_BITS 10u
#define INDEX_TAG_PAPER_VERSION_BITS	4u

static inline uint32_t index_tag_paper(uint32_t generation, uint32_t version)
{
	return (uint32_t)(layout_put(generation & 1023u, 4, 10) | layout_put(version & 15u, 0, 4));
}

static inline uint32_t index_tag_paper_generation(uint32_t tag)
{
	return (uint32_t)layout_bits(tag, 4, 10);
}

static inline uint32_t index_tag_paper_version(uint32_t tag)
{
	return (uint32_t)layout_bits(tag, 0, 4);
}

/* ---- group word (second word of a 16-byte slot) ------------------------------------------- */

/*
 *   BITS   FIELD
 *   0-22   chunk
 *   23-31  SN
 *   32-45  generation
 *   46-49  version, equal to the index word's while the group word is current
 *   50-63  zero
 */
static inline uint64_t group_pack(uint32_t chunk, uint32_t sn, uint32_t generation,
				  uint32_t version)
{
	return layout_put(chunk, 0, 23) | layout_put(sn, 23, 9) | layout_put(generation, 32, 14) |
	       layout_put(version & 15u, 46, 4);
}

static inline uint32_t group_chunk(uint64_t word)
{
	return (uint32_t)layout_bits(word, 0, 23);
}

static inline uint32_t group_sn(uint64_t word)
{
	return (uint32_t)layout_bits(word, 23, 9);
}

static inline uint32_t group_generation(uint64_t word)
{
	return (uint32_t)layout_bits(word, 32, 14);
}

static inline uint32_t group_version(uint64_t word)
{
	return (uint32_t)layout_bits(word, 46, 4);
}

#endif
