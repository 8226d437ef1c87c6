/*
 * layout.h: every byte a compute node can find on a memory node, defined here and nowhere else.
 *
 * Everyone above base may include it; it owns no memory.  All words are little-endian, fixed
 * width, and read and written as whole aligned 8-byte words.  Nobody else shifts or masks.
 *
 * The export, in this order (offsets are in the plan, layout/plan.h):
 *
 *   REGION       SIZE                         CONTENT
 *   superblock   12288                        magic, version, fingerprint, ids, the plan
 *   cursors      64                           ring cursors, flush generation       (hot words)
 *   ofm          2 x rows x row_bytes         one counter byte per object          (hot words)
 *   registry     64 x cn_max                  one line per compute node
 *   stats        256 x cn_max                 one line of counters per compute node (stats.h)
 *   chunk table  8 x chunk_count              one word per chunk, the point of truth
 *   dead map     8 x dead_words x chunk_count one bit per object that lost its slot
 *   rings        3 x 8 x ring_nodes           small, main, free
 *   index        bucket_bytes x (buckets + 1) slots; the last bucket is the overflow bucket
 *   chunks       chunk_bytes x chunk_count    objects from the front, TWIM from the back; or one
 *                                             part of an object larger than a chunk
 *   pad          64                           so that a READ rounded up stays inside
 *
 * Life of each word (who writes it, with which verb, what a reader may conclude):
 *
 *   superblock   written by the node before it says READY, never after, except epoch, time and
 *                how keys are spread over nodes (spread.h).
 *   fence        FAA of a generation by a flush, CAS of the epoch by who changes the spread.
 *   cursors      FAA or CAS by any CN; never wrap (64 bits); a READ of them is a hint.
 *   ofm counter  FAA by every CN for positions in the window; subtracted by the evictor that won
 *                the chunk out of `evicting`.  A hint by nature.
 *   registry     the id word by CAS; the rest by WRITE of its owner alone.
 *   stats        FAA; the first word of a line also by WRITE of the node that joins with the id.
 *   chunk word   CAS only, from the exact word seen.  Who wins the CAS owns the chunk.
 *   dead word    FAA of the bits of members a CN saw die, each bit by the one CN that won its
 *                slot's CAS, so no addition carries; zeroed with the free of the chunk.  A hint:
 *                a bit that is wrong costs an object its place, never its correctness.
 *   ring node    CAS only.  A node is a hint; the chunk word decides.
 *   index word   CAS only, from the exact word seen.
 *   group word   (16-byte slots) detached WRITE after the CAS of its index word; a hint that
 *                counts only while its version equals the index word's.
 *   object       WRITE by the owner of the open chunk before the index CAS; never overwritten
 *                in place while its generation lives.
 *   part         WRITE by the owner of the reserved chunk before the index CAS of its head; the
 *                same then holds.
 *   part count   FAA by whoever makes chunks parts or frees them; a hint, set right by sweeps.
 *   TWIM         WRITE by the owner once, before the chunk is queued; immutable while queued.
 *
 * Differences from the first design, and why:
 *  - a TWIM entry holds the length in 16-byte units (16 bits) and the slot in 36 bits, because
 *    an object's offset is the sum of the lengths before it and objects are packed at 16 bytes;
 *  - a ring node carries the chunk's generation, so that the claim's expected chunk word and the
 *    pollers' maps need no READ of the chunk table;
 *  - there is no SKIP state: skipping is the CAS EMPTY(cycle) -> EMPTY(cycle + 1), which makes a
 *    late producer's CAS fail exactly as SKIP and its reset would;
 *  - the fence (flush generation, epoch of the spread) lives beside the cursors, because every
 *    poll reads both.
 */
#ifndef FORGE_LAYOUT_LAYOUT_H
#define FORGE_LAYOUT_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define LAYOUT_MAGIC   0x314c4f4f50475246u /* "FRGPOOL1" as it lies in memory */
#define LAYOUT_VERSION 7u

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

/* ---- generations -------------------------------------------------------------------------- */

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

/* ---- rings -------------------------------------------------------------------------------- */

#define RING_SMALL  0u
#define RING_MAIN   1u
#define RING_FREE   2u
#define RING_COUNT  3u
#define RING_QUEUES 2u /* small and main hold groups; free holds chunks nobody uses */

/*
 * Cursors: tickets that only grow.  Position p of a ring uses node p % ring_nodes in cycle
 * p / ring_nodes and, in the two queues, OFM row p % ofm_rows.
 *
 *   OFFSET SIZE FIELD
 *   0      8    small head       8   8  small tail
 *   16     8    main head        24  8  main tail
 *   32     8    free head        40  8  free tail
 *   48     8    fence: flush generation (bits 0-43), epoch of the spread (44-63)
 *   56     8    chunks that are parts, a hint
 */
struct layout_cursors {
	struct {
		uint64_t head, tail;
	} ring[RING_COUNT];
	uint64_t fence;
	uint64_t part_chunks;
};
static_assert(sizeof(struct layout_cursors) == LAYOUT_CURSORS_BYTES, "polled with one READ");
static_assert(offsetof(struct layout_cursors, fence) == 48, "layout");

/*
 * The fence: what an operation must know of before it starts (cache/flush.c).  Both parts only
 * grow, so the word does.  With a flush every ms the generation lasts 500 years; objects carry its
 * low 32 bits.  Epoch 0: the pool is a cache of its own; otherwise spread.h says what it is one of.
 */
#define FENCE_EPOCH_SHIFT 44u
#define FENCE_EPOCH_MAX	  ((UINT64_C(1) << 20) - 1)

static inline uint64_t fence_pack(uint64_t epoch, uint64_t generation)
{
	return layout_put(epoch, FENCE_EPOCH_SHIFT, 20) |
	       layout_put(generation, 0, FENCE_EPOCH_SHIFT);
}

static inline uint64_t fence_epoch(uint64_t fence)
{
	return fence >> FENCE_EPOCH_SHIFT;
}

static inline uint64_t fence_generation(uint64_t fence)
{
	return layout_bits(fence, 0, FENCE_EPOCH_SHIFT);
}

/*
 * Ring node.
 *   BITS   FIELD
 *   0-22   chunk
 *   23-36  generation of the chunk
 *   37-45  objects in the group, less one
 *   46-47  segment
 *   48-61  cycle, modulo 2^14
 *   62-63  state
 * EMPTY in cycle c says: position c * ring_nodes + i may be filled.  EMPTY nodes carry only the
 * cycle, so the expected word of a CAS is known without reading.
 *
 * The cycle may wrap: a producer asleep for 16,384 trips could fill a node it does not own, but
 * the chunk word then names another position and the next scanner resets the node.
 */
#define NODE_EMPTY 0u
#define NODE_FULL  1u

#define NODE_CYCLE_COUNT (1u << 14)

#define LAYOUT_CHUNK_COUNT_MAX	 (1u << 23)
#define LAYOUT_GROUP_OBJECTS_MAX 512u
#define LAYOUT_SEGMENT_MAX	 3u

static inline uint64_t node_pack_empty(uint64_t cycle)
{
	return layout_put(cycle & (NODE_CYCLE_COUNT - 1), 48, 14);
}

static inline uint64_t node_pack_full(uint64_t cycle, uint32_t chunk, uint32_t generation,
				      uint32_t object_count, uint32_t segment)
{
	return layout_put(chunk, 0, 23) | layout_put(generation, 23, 14) |
	       layout_put(object_count - 1, 37, 9) | layout_put(segment, 46, 2) |
	       layout_put(cycle & (NODE_CYCLE_COUNT - 1), 48, 14) | layout_put(NODE_FULL, 62, 2);
}

static inline uint32_t node_chunk(uint64_t node)
{
	return (uint32_t)layout_bits(node, 0, 23);
}

static inline uint32_t node_generation(uint64_t node)
{
	return (uint32_t)layout_bits(node, 23, 14);
}

static inline uint32_t node_object_count(uint64_t node)
{
	return (uint32_t)layout_bits(node, 37, 9) + 1;
}

static inline uint32_t node_segment(uint64_t node)
{
	return (uint32_t)layout_bits(node, 46, 2);
}

static inline uint32_t node_cycle(uint64_t node)
{
	return (uint32_t)layout_bits(node, 48, 14);
}

static inline uint32_t node_state(uint64_t node)
{
	return (uint32_t)layout_bits(node, 62, 2);
}

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

/* ---- object ------------------------------------------------------------------------------- */

/*
 *   OFFSET SIZE FIELD
 *   0      8    checksum: XXH3 of everything after it, through the last value byte
 *   8      2    generation of the chunk
 *   10     2    SN
 *   12     1    key length in bytes
 *   13     1    origin: how it came into its slot
 *   14     2    parts: chunks of an object larger than one; then the value is a struct
 *               layout_parts, and this object is called its head.  0: the value itself
 *   16     4    value length in bytes
 *   20     4    client flags
 *   24     8    expiry in pool time, ms; 0 = never
 *   32     8    cas id: CN in the top 8 bits, its counter below
 *   40     4    flush generation at the time of the Set
 *   44     4    marks: 32 bits that belong to the caller
 *   48          key, then value, then up to 15 bytes of padding
 */
struct layout_object {
	uint64_t checksum;
	uint16_t generation;
	uint16_t sn;
	uint8_t key_bytes;
	uint8_t origin;
	uint16_t part_count;
	uint32_t value_bytes;
	uint32_t flags;
	uint64_t expiry_ms;
	uint64_t cas_id;
	uint32_t flush_generation;
	uint32_t marks;
};
#define LAYOUT_OBJECT_HEADER_BYTES 48u
static_assert(sizeof(struct layout_object) == LAYOUT_OBJECT_HEADER_BYTES, "layout");
static_assert(offsetof(struct layout_object, generation) == 8, "layout");
static_assert(offsetof(struct layout_object, value_bytes) == 16, "layout");
static_assert(offsetof(struct layout_object, expiry_ms) == 24, "layout");
static_assert(offsetof(struct layout_object, cas_id) == 32, "layout");
static_assert(offsetof(struct layout_object, flush_generation) == 40, "layout");
static_assert(offsetof(struct layout_object, marks) == 44, "layout");

/*
 * Origin of an object.  OVERWROTE: a Set, which depends on nothing, CASed its word over that of a
 * value of its key, and with that the Set was done (cache/set.c).  ANY: all others.  Moving an
 * object keeps it.
 */
#define OBJECT_ORIGIN_ANY	0u
#define OBJECT_ORIGIN_OVERWROTE 1u
#define OBJECT_ORIGINS		2u

#define LAYOUT_KEY_BYTES_MAX 250u /* as memcached's */

static inline uint32_t layout_object_units(uint32_t key_bytes, uint32_t value_bytes)
{
	uint64_t bytes = (uint64_t)LAYOUT_OBJECT_HEADER_BYTES + key_bytes + value_bytes;

	return (uint32_t)((bytes + LAYOUT_UNIT_BYTES - 1) / LAYOUT_UNIT_BYTES);
}

/*
 * What a head has for a value:
 *
 *   OFFSET     SIZE  FIELD
 *   0          8     bytes of the whole value
 *   8          8     checksum of it: XXH3
 *   16         8 x n its parts in order, n as in the header: chunk 0-22, generation 23-36, zero
 *   16 + 8n          what of the value the parts have no room for, if anything
 *
 * Every part but the last holds chunk_bytes of the value.
 */
struct layout_parts {
	uint64_t value_bytes;
	uint64_t checksum;
	uint64_t part[];
};
#define LAYOUT_PARTS_BYTES     16u
#define LAYOUT_PART_BYTES      8u
#define LAYOUT_PARTS_COUNT_MAX 65535u
static_assert(sizeof(struct layout_parts) == LAYOUT_PARTS_BYTES, "layout");

static inline uint64_t part_pack(uint32_t chunk, uint32_t generation)
{
	return layout_put(chunk, 0, 23) | layout_put(generation, 23, 14);
}

static inline uint32_t part_chunk(uint64_t part)
{
	return (uint32_t)layout_bits(part, 0, 23);
}

static inline uint32_t part_generation(uint64_t part)
{
	return (uint32_t)layout_bits(part, 23, 14);
}

/* ---- registry ----------------------------------------------------------------------------- */

/*
 *   OFFSET SIZE FIELD
 *   0      8    id word: state (bits 62-63), incarnation (32-61), pid (0-31); CAS only
 *   8      8    lease: pool time in us until which the CN promises to be alive (0: no lease)
 *   16     8    flushed-up-to, small: every position below it has been flushed
 *   24     8    flushed-up-to, main
 *   32     8    fence seen
 *   40     8    time of the last poll, us of pool time
 *   48     8    workers: how many threads of this CN may evict
 *   56     8    zero
 */
struct layout_registry {
	uint64_t id;
	uint64_t lease_us;
	uint64_t flushed[RING_QUEUES];
	uint64_t fence;
	uint64_t polled_us;
	uint64_t worker_count;
	uint64_t zero;
};
static_assert(sizeof(struct layout_registry) == LAYOUT_REGISTRY_BYTES, "one line per CN");
static_assert(offsetof(struct layout_registry, flushed) == 16, "layout");
static_assert(offsetof(struct layout_registry, worker_count) == 48, "layout");

#define REGISTRY_FREE	    0u
#define REGISTRY_LIVE	    1u
#define REGISTRY_DEAD	    2u
#define REGISTRY_RECOVERING 3u

/*
 * A counter of an OFM row holds 255.  One row can hold what three positions got before it is
 * cleared (its own, a late flush to the one before, and one in between), so a CN may add
 * 255 / 3 / cn_max to a counter per position; that must be at least 1.
 */
#define LAYOUT_FLUSH_BUDGET 85u
#define LAYOUT_CN_MAX	    LAYOUT_FLUSH_BUDGET

static inline uint64_t registry_pack(uint32_t state, uint32_t incarnation, uint32_t pid)
{
	return layout_put(state, 62, 2) | layout_put(incarnation & ((1u << 30) - 1), 32, 30) |
	       layout_put(pid, 0, 32);
}

static inline uint32_t registry_state(uint64_t id)
{
	return (uint32_t)layout_bits(id, 62, 2);
}

static inline uint32_t registry_incarnation(uint64_t id)
{
	return (uint32_t)layout_bits(id, 32, 30);
}

static inline uint32_t registry_pid(uint64_t id)
{
	return (uint32_t)layout_bits(id, 0, 32);
}

#endif
