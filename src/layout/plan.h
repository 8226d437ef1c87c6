/*
 * plan.h: the geometry of a pool, computed once at format time from what the user wants.
 *
 * The plan is stored in the superblock and every compute node works from that copy alone.  Pure
 * functions; anyone above base may call them from any thread.
 */
#ifndef FORGE_LAYOUT_PLAN_H
#define FORGE_LAYOUT_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include <stdbool.h>

#include "layout/layout.h"

/*
 * Counts, strides and offsets of one pool; lies at PLAN_OFFSET in the superblock.  All offsets
 * are from the start of the export.
 */
struct plan {
	uint64_t pool_bytes;
	uint32_t chunk_count;
	uint32_t chunk_bytes;
	uint32_t group_objects; /* most objects in a group, of whatever size */
	uint32_t slot_words;	/* 1: 8-byte slots, 2: 16-byte slots */
	uint32_t bucket_count;	/* without the overflow bucket */
	uint32_t bucket_bytes;
	uint32_t cn_max;
	uint32_t ring_nodes; /* per ring, a power of two */
	uint32_t ofm_rows;   /* per queue, a power of two */
	uint32_t ofm_row_bytes;
	uint32_t window_groups;	  /* the eviction window */
	uint32_t object_bytes;	  /* expected: header, key and value */
	uint32_t value_bytes_max; /* limit; without parts for a key of 16 bytes */
	uint32_t part_count_max;  /* parts of the largest value; 0: no object has parts */
	uint64_t cursors_offset;
	uint64_t ofm_offset[RING_QUEUES];
	uint64_t registry_offset;
	uint64_t stats_offset;
	uint64_t chunk_table_offset;
	uint64_t dead_offset;
	uint64_t ring_offset[RING_COUNT];
	uint64_t index_offset;
	uint64_t chunks_offset;
	char policy[16]; /* name, zero-padded; what a CN uses unless told otherwise */
};
static_assert(sizeof(struct plan) == 176, "the plan is part of the layout");

/* What the user asks for; zero means the default. */
struct plan_wish {
	uint64_t pool_bytes;   /* size of the export; or */
	uint32_t chunk_count;  /* exactly that many chunks, and pool_bytes as a result */
	uint32_t object_bytes; /* expected bytes of key and value together, the mean */
	/*
	 * Half of the objects are smaller; 0: all are of one size.  It decides how many objects
	 * a group may have when they happen to be small, until its chunk is full.
	 */
	uint32_t object_bytes_median;
	uint32_t group_objects;	    /* objects of the expected size that fill a chunk */
	uint32_t group_objects_max; /* most in a group; 0: by the median */
	uint32_t slot_words;
	uint32_t cn_max;
	uint32_t value_bytes_max; /* largest value; what fits in a chunk is always stored */
	double slots_per_object;  /* index size; the stale slots in it are the ghosts */
	const char *policy;
	const char *value_option; /* what value_bytes_max is called; NULL: --value-max */
};

#define PLAN_OBJECT_BYTES_DEFAULT  272u /* a 16-byte key and a 256-byte value */
#define PLAN_GROUP_OBJECTS_DEFAULT 64u
#define PLAN_CN_MAX_DEFAULT	   32u
#define PLAN_VALUE_BYTES_DEFAULT   (1u << 20) /* as memcached's; less in a small pool */
#define PLAN_VALUE_BYTES_LIMIT	   (1u << 30)
/*
 * At least so many of the largest values fit in a pool: one being stored, the one it replaces,
 * one that is being evicted and one that is read.
 */
#define PLAN_LARGE_VALUES_MIN 4u
/*
 * How many more objects a group may have than fill its chunk when they are of mean size, as a
 * share of mean / median (with their headers).  1.25 seals 99.5 % full on Meta's four published
 * mixes, which draw each size for itself; but where small ones come in bursts (a block trace of
 * CloudPhysics) 1.25 gives .93 to .94, and 2.5 .97.  It is not free: each costs a byte of OFM and
 * four bits for a chunk in every compute node, and two on the memory node.
 */
#define PLAN_GROUP_SPARE_PERCENT 250u
/* Limits above the expected count are multiples of this: a dead map has whole words. */
#define PLAN_GROUP_STEP 64u
/*
 * Hot words are meant for the memory of a NIC, of which there are a few 100 KiB.  Rows beyond 4
 * windows are for nodes that need longer ones (plan_window_most()).
 */
#define PLAN_HOT_BYTES_MAX   (256u << 10)
#define PLAN_OFM_WINDOWS     16u
#define PLAN_OFM_WINDOWS_MIN 4u
/*
 * Slots for every object that fits: one for each live object, 1.3 for the ghosts, and room so
 * that fewer than 1 in 10,000 inserts finds only live objects (2.5 slots: 1 to 2 in 10,000; 3:
 * 1 in 40,000).
 */
#define PLAN_SLOTS_PER_OBJECT_DEFAULT	3.0
#define PLAN_SLOTS_PER_OBJECT_NO_GHOSTS 2.0 /* with 16-byte slots */

/*
 * Compute the plan.  error_text (at least error_bytes) receives a sentence that names the wish
 * and the remedy.  0 or FORGE_E_INVAL.
 */
int plan_make(const struct plan_wish *wish, struct plan *out, char *error_text, size_t error_bytes);

/*
 * Does a plan read from memory hold together: counts in range, regions in order and inside
 * pool_bytes?  Never trusts a field.  0, FORGE_E_CORRUPT, with the reason in error_text.
 */
int plan_valid(const struct plan *, char *error_text, size_t error_bytes);

/* Write the plan as a readable table: geometry, fill, metadata share, effective capacity. */
int plan_print(const struct plan *, char *text, size_t text_bytes);

/* A hash of the layout constants; a CN refuses a pool formatted with other ones. */
uint64_t layout_fingerprint(void);

/*
 * May that be the head of a pool, whatever became of the rest?  The magic, or nothing at all, or
 * LAYOUT_SUPERBLOCK_BYTES zeroes, as before the format.  head: the first bytes, aligned to 8.
 */
bool layout_is_of_a_pool(const void *head, size_t bytes);

/* Bytes of the export that are neither object nor free chunk space. */
uint64_t plan_metadata_bytes(const struct plan *);

/* Objects of the expected size that fit; open, reserved and resting chunks count as capacity. */
uint64_t plan_capacity_objects(const struct plan *);

/* Most bytes of objects that fit in one group beside its TWIM. */
static inline uint32_t plan_group_bytes(const struct plan *p, uint32_t object_count)
{
	return p->chunk_bytes - TWIM_BYTES * object_count;
}

/* Bytes an object of the expected size takes, beside its TWIM entry. */
static inline uint64_t plan_expected_bytes(const struct plan *p)
{
	return (uint64_t)layout_object_units(0, p->object_bytes) * LAYOUT_UNIT_BYTES;
}

/* Objects of the expected size that fill a chunk. */
static inline uint32_t plan_expected_objects(const struct plan *p)
{
	uint32_t fit = (uint32_t)(p->chunk_bytes / (plan_expected_bytes(p) + TWIM_BYTES));

	return fit < p->group_objects ? fit : p->group_objects;
}

/*
 * The plan's fill factor: the share of a chunk that is objects when its group is full of expected
 * ones.  Two other words: sealed fill is the share of sealed chunks that objects and TWIMs take,
 * and live share the share of all chunk space that live objects take.
 */
static inline double plan_fill_factor(const struct plan *p)
{
	return (double)(plan_expected_objects(p) * plan_expected_bytes(p)) / p->chunk_bytes;
}

/* Most bytes an object takes in a chunk of its own. */
static inline uint32_t plan_object_bytes_max(const struct plan *p)
{
	uint32_t units = (p->chunk_bytes - TWIM_BYTES) / LAYOUT_UNIT_BYTES;

	return (units < LAYOUT_OBJECT_UNITS_MAX ? units : LAYOUT_OBJECT_UNITS_MAX) *
	       LAYOUT_UNIT_BYTES;
}

/* Does an object of that size lie in one chunk? */
static inline int plan_is_whole(const struct plan *p, uint32_t key_bytes, uint64_t value_bytes)
{
	return LAYOUT_OBJECT_HEADER_BYTES + key_bytes + value_bytes <= plan_object_bytes_max(p);
}

/* The largest value that any key can have; what does not fit in a chunk goes into parts. */
static inline uint32_t plan_value_limit(const struct plan *p)
{
	/* Without parts the plan names it for a key of 16 bytes, and the shortest has one. */
	return p->part_count_max ? p->value_bytes_max : p->value_bytes_max + 15;
}

/*
 * Chunks that are not parts of large objects, given the count of those, which is a hint and may be
 * below zero for a moment; at least a few.
 */
static inline uint32_t plan_group_chunks(const struct plan *p, uint64_t part_chunks)
{
	uint32_t least = p->chunk_count < 8 ? p->chunk_count : 8;

	if ((int64_t)part_chunks < 0)
		part_chunks = 0;
	return part_chunks < p->chunk_count - least ? p->chunk_count - (uint32_t)part_chunks
						    : least;
}

/* How long the eviction window is in a pool of so many chunks for groups. */
static inline uint32_t plan_window(uint32_t chunk_count)
{
	uint32_t window = chunk_count / 48;

	return window < 8 ? 8 : window > 64 ? 64 : window;
}

/*
 * The longest window any compute node may flush.  Row p % ofm_rows is position p's: there must be
 * many more rows than that, so that a row is cleared before the next position in it is flushed.
 */
static inline uint32_t plan_window_most(const struct plan *p)
{
	uint32_t most = p->ofm_rows / PLAN_OFM_WINDOWS_MIN;

	return most < p->window_groups ? p->window_groups : most;
}

/* How a value larger than a chunk is cut: so many parts, and the rest lies in the head. */
struct plan_cut {
	uint32_t part_count;
	uint32_t rest_bytes;
};

/*
 * A rest of up to half a chunk lies in the head, so that it shares its chunk with other objects;
 * a larger one gets a part of its own.  So less than half a chunk is wasted.
 */
struct plan_cut plan_cut(const struct plan *, uint64_t value_bytes);

/* ---- addresses ---------------------------------------------------------------------------- */

static inline uint64_t plan_chunk_address(const struct plan *p, uint32_t chunk)
{
	return p->chunks_offset + (uint64_t)chunk * p->chunk_bytes;
}

static inline uint64_t plan_chunk_word_address(const struct plan *p, uint32_t chunk)
{
	return p->chunk_table_offset + 8 * (uint64_t)chunk;
}

/* Words of the dead map that one chunk has. */
static inline uint32_t plan_dead_words(const struct plan *p)
{
	return (p->group_objects + DEAD_WORD_MEMBERS - 1) / DEAD_WORD_MEMBERS;
}

static inline uint64_t plan_dead_address(const struct plan *p, uint32_t chunk)
{
	return p->dead_offset + 8 * (uint64_t)plan_dead_words(p) * chunk;
}

/* The chunk a pointer (16-byte units) lies in; chunk_count or more when it lies in none. */
static inline uint32_t plan_chunk_of_pointer(const struct plan *p, uint64_t pointer_units)
{
	uint64_t bytes = pointer_units * LAYOUT_UNIT_BYTES;

	if (bytes < p->chunks_offset)
		return UINT32_MAX;
	uint64_t chunk = (bytes - p->chunks_offset) / p->chunk_bytes;

	return chunk < p->chunk_count ? (uint32_t)chunk : UINT32_MAX;
}

static inline uint64_t plan_twim_address(const struct plan *p, uint32_t chunk,
					 uint32_t object_count)
{
	return plan_chunk_address(p, chunk) + p->chunk_bytes - TWIM_BYTES * (uint64_t)object_count;
}

/* Entry sn of a TWIM that was READ as an array of object_count words. */
static inline uint32_t plan_twim_index(uint32_t sn, uint32_t object_count)
{
	return object_count - 1 - sn;
}

static inline uint64_t plan_bucket_address(const struct plan *p, uint32_t bucket)
{
	return p->index_offset + (uint64_t)bucket * p->bucket_bytes;
}

/* Address of the index word of a slot number. */
static inline uint64_t plan_slot_address(const struct plan *p, uint64_t slot)
{
	return p->index_offset + slot * 8 * p->slot_words;
}

static inline uint64_t plan_slot_count(const struct plan *p)
{
	return ((uint64_t)p->bucket_count + 1) * LAYOUT_BUCKET_SLOTS;
}

static inline uint64_t plan_ring_node_address(const struct plan *p, uint32_t ring,
					      uint64_t position)
{
	return p->ring_offset[ring] + 8 * (position & (p->ring_nodes - 1));
}

/* From so many chunks on the share of dead members is bounded, and rings are longer for it. */
#define PLAN_LONG_RINGS_CHUNKS 64u

static inline int plan_has_long_rings(uint32_t chunk_count)
{
	return chunk_count >= PLAN_LONG_RINGS_CHUNKS;
}

static inline uint64_t plan_ring_cycle(const struct plan *p, uint64_t position)
{
	return position / p->ring_nodes;
}

static inline uint64_t plan_head_address(const struct plan *p, uint32_t ring)
{
	return p->cursors_offset + 16 * (uint64_t)ring;
}

static inline uint64_t plan_tail_address(const struct plan *p, uint32_t ring)
{
	return p->cursors_offset + 16 * (uint64_t)ring + 8;
}

static inline uint64_t plan_fence_address(const struct plan *p)
{
	return p->cursors_offset + offsetof(struct layout_cursors, fence);
}

static inline uint64_t plan_ofm_row_address(const struct plan *p, uint32_t ring, uint64_t position)
{
	return p->ofm_offset[ring] + (position & (p->ofm_rows - 1)) * p->ofm_row_bytes;
}

/* Of the count of chunks that are parts. */
static inline uint64_t plan_part_chunks_address(const struct plan *p)
{
	return p->cursors_offset + offsetof(struct layout_cursors, part_chunks);
}

static inline uint64_t plan_registry_address(const struct plan *p, uint32_t cn)
{
	return p->registry_offset + (uint64_t)cn * LAYOUT_REGISTRY_BYTES;
}

static inline uint64_t plan_stats_address(const struct plan *p, uint32_t cn)
{
	return p->stats_offset + (uint64_t)cn * LAYOUT_STATS_BYTES;
}

/* ---- superblock --------------------------------------------------------------------------- */

#define SUPERBLOCK_FORMATTING 0u
#define SUPERBLOCK_READY      1u

/*
 *   OFFSET SIZE FIELD
 *   0      8    magic
 *   8      4    layout version
 *   12     4    state: formatting, ready
 *   16     8    layout fingerprint
 *   24     8    pool id, random
 *   32     8    epoch: raised whenever the node starts anew over this memory
 *   40     8    checksum of the plan
 *   48     176  the plan
 *   224    24   pool time (pool/time.h):
 *            224  base: pool time in ms less the clock of the node's host
 *            232  a hash of that host's boot id, 0 for none
 *            240  pool time when a node last wrote it down
 *   248    8    starts: of nodes over this memory that were never ready, since one was
 *   256    8    claim, 264: member, 512: owned, 1024 and 2560: records (spread.h)
 *                the rest is zero
 *
 * The time is written before READY, and anew by a node that takes the pool over, before compute
 * nodes attach; the last word of it also while it serves.
 */
struct layout_time {
	uint64_t base_ms;
	uint64_t boot;
	uint64_t seen_ms;
};

struct layout_superblock {
	uint64_t magic;
	uint32_t version;
	uint32_t state;
	uint64_t fingerprint;
	uint64_t pool_id;
	uint64_t epoch;
	uint64_t plan_checksum;
	struct plan plan;
	struct layout_time time;
	uint64_t starts;
};
static_assert(sizeof(struct layout_superblock) == 256, "layout");
static_assert(offsetof(struct layout_superblock, plan) == 48, "layout");
static_assert(offsetof(struct layout_superblock, time) == 224, "layout");

#endif
