/*
 * rings.h: the cursors, with the fence beside them, and the nodes of the three rings.
 *
 * Part of the layout, whose picture is in layout.h.  Pure.
 */
#ifndef FORGE_LAYOUT_RINGS_H
#define FORGE_LAYOUT_RINGS_H

#include <stddef.h>
#include "layout/word.h"

/* ---- cursors and fence -------------------------------------------------------------------- */

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

/* ---- nodes -------------------------------------------------------------------------------- */

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

#endif
