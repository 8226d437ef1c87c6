/*
 * index.h: the key index as pure functions on a neighbourhood that was READ.
 *
 * A key lives in its home bucket or the next one; both are one READ.  The flows in cache/ fetch
 * and store, these functions decide.  Any thread.
 */
#ifndef FORGE_POOL_INDEX_H
#define FORGE_POOL_INDEX_H

#include <stdint.h>

#include "base/hash.h"
#include "layout/plan.h"

/* Where a key belongs. */
struct index_home {
	uint64_t hash;
	uint32_t bucket;
	uint32_t fingerprint;
};

static inline struct index_home index_locate(const struct plan *p, const void *key,
					     uint32_t key_bytes)
{
	uint64_t hash = hash_key(key, key_bytes);

	return (struct index_home){
	    .hash = hash,
	    .bucket = (uint32_t)(((hash >> 32) * p->bucket_count) >> 32),
	    .fingerprint = (uint32_t)(hash & 0xff),
	};
}

/* The two buckets as READ: 16 slots of one or two words. */
struct index_view {
	uint64_t words[LAYOUT_NEIGHBOURHOOD * 2];
};

static inline uint32_t index_view_bytes(const struct plan *p)
{
	return 2 * p->bucket_bytes;
}

static inline uint64_t index_view_word(const struct plan *p, const struct index_view *v,
				       unsigned slot)
{
	return v->words[slot * p->slot_words];
}

/* Bit per slot whose word has that fingerprint; slot_words is known when this is compiled. */
static inline uint32_t index_match_fingerprint(const uint64_t *words, unsigned slot_words,
					       uint32_t fingerprint)
{
	uint32_t slots = 0;

#pragma GCC unroll 16
	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++)
		slots |= (uint32_t)(index_fingerprint(words[slot * slot_words]) == fingerprint)
			 << slot;
	return slots;
}

/*
 * Bit per slot: a word of that fingerprint which is not empty; it may be tentative.  A Get looks
 * at 16 words and one matches, so there is no branch per slot.
 */
static inline uint32_t index_view_slots_of(const struct plan *p, const struct index_view *v,
					   uint32_t fingerprint)
{
	uint32_t slots = p->slot_words == 1 ? index_match_fingerprint(v->words, 1, fingerprint)
					    : index_match_fingerprint(v->words, 2, fingerprint);

	for (uint32_t rest = slots; rest; rest &= rest - 1) {
		unsigned slot = (unsigned)__builtin_ctz(rest);

		if (index_blocks(index_view_word(p, v, slot)) == INDEX_BLOCKS_EMPTY)
			slots &= ~(1u << slot);
	}
	return slots;
}

/* The group word beside it; only where slots have two words. */
static inline uint64_t index_view_group(const struct plan *p, const struct index_view *v,
					unsigned slot)
{
	return v->words[slot * p->slot_words + 1];
}

static inline uint64_t index_slot_number(const struct index_home *home, unsigned slot)
{
	return (uint64_t)home->bucket * LAYOUT_BUCKET_SLOTS + slot;
}

/* How many generations a word can tell apart in this pool. */
static inline uint32_t index_generation_range(const struct plan *p)
{
	return p->slot_words == 1 ? LAYOUT_GENERATION_COUNT : 1u << INDEX_TAG_PAPER_GENERATION_BITS;
}

/* The generation in a word, modulo index_generation_range(). */
static inline uint32_t index_word_generation(const struct plan *p, uint64_t word)
{
	uint32_t tag = index_tag(word);

	return p->slot_words == 1 ? tag : index_tag_paper_generation(tag);
}

static inline uint32_t index_word_version(const struct plan *p, uint64_t word)
{
	return p->slot_words == 1 ? 0 : index_tag_paper_version(index_tag(word));
}

/* By how many generations the word is older than `generation`; 0: the same. */
static inline uint32_t index_generations_behind(const struct plan *p, uint64_t word,
						uint32_t generation)
{
	return (generation - index_word_generation(p, word)) & (index_generation_range(p) - 1);
}

/* Everything an index word is made of. */
struct index_target {
	uint32_t fingerprint;
	uint32_t units;
	uint32_t generation;
	uint32_t version; /* ignored with 8-byte slots */
	uint32_t is_head; /* of an object larger than a chunk */
	uint64_t address; /* of the object in the export */
};

static inline uint64_t index_word(const struct plan *p, const struct index_target *t)
{
	uint32_t tag =
	    p->slot_words == 1 ? t->generation : index_tag_paper(t->generation, t->version);

	uint32_t blocks = t->is_head ? INDEX_BLOCKS_HEAD : index_blocks_of_units(t->units);

	return index_pack(t->fingerprint, blocks, tag, t->address / LAYOUT_UNIT_BYTES);
}

/* Address of the object a word points to. */
static inline uint64_t index_object_address(uint64_t word)
{
	return index_pointer(word) * LAYOUT_UNIT_BYTES;
}

/*
 * Bytes to READ for it; for INDEX_BLOCKS_HEADER and _HEAD only the header, which says how many
 * there are.
 */
static inline uint32_t index_object_bytes(uint64_t word)
{
	uint32_t blocks = index_blocks(word);

	return blocks == INDEX_BLOCKS_HEADER || blocks == INDEX_BLOCKS_HEAD
		   ? LAYOUT_OBJECT_HEADER_BYTES
		   : blocks * LAYOUT_BLOCK_BYTES;
}

/* Does the word leave the length to the header? */
static inline int index_length_in_header(uint64_t word)
{
	return index_blocks(word) == INDEX_BLOCKS_HEADER || index_is_head(word);
}

#endif
