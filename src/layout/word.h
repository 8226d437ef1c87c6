/*
 * word.h: what all words of the layout are made of: sizes, bits, generations.
 *
 * Part of the layout, whose picture is in layout.h; the headers beside it include this one.  Pure.
 */
#ifndef FORGE_LAYOUT_WORD_H
#define FORGE_LAYOUT_WORD_H

#include <assert.h>
#include <stdint.h>

#define LAYOUT_MAGIC   0x314c4f4f50475246u /* "FRGPOOL1" as it lies in memory */
#define LAYOUT_VERSION 8u

#define LAYOUT_SUPERBLOCK_BYTES 12288u
#define LAYOUT_CURSORS_BYTES	64u
#define LAYOUT_REGISTRY_BYTES	64u
#define LAYOUT_STATS_WORDS	32u
#define LAYOUT_STATS_BYTES	(8u * LAYOUT_STATS_WORDS)
#define LAYOUT_UNIT_BYTES	16u /* objects are placed and pointed to in these */
#define LAYOUT_BLOCK_BYTES	64u /* an index word's length counts these */
#define LAYOUT_PAD_BYTES	64u
#define LAYOUT_BUCKET_SLOTS	8u
#define LAYOUT_NEIGHBOURHOOD	(2u * LAYOUT_BUCKET_SLOTS) /* home bucket and the next one */

/* Take bits [shift, shift + width) of a word, and put a value there. */
static inline uint64_t layout_bits(uint64_t word, unsigned shift, unsigned width)
{
	return (word >> shift) & ((UINT64_C(1) << width) - 1);
}

static inline uint64_t layout_put(uint64_t value, unsigned shift, unsigned width)
{
	assert(value >> width == 0);
	return value << shift;
}

/*
 * How often a chunk has been re-used, modulo 2^14.  `forge-paper` keeps 10 bits of it in the
 * index word.  Older and newer are decided by the unsigned difference: a word is older when it
 * lies less than half the range behind; whoever concludes that must know that fewer than half
 * the range of re-uses can have happened since its reference was refreshed.
 */
#define LAYOUT_GENERATION_BITS	14u
#define LAYOUT_GENERATION_COUNT (1u << LAYOUT_GENERATION_BITS)

static inline uint32_t generation_next(uint32_t generation)
{
	return (generation + 1) & (LAYOUT_GENERATION_COUNT - 1);
}

#endif
