/*
 * object.h: an object in a chunk, and what the head of one larger than a chunk lists.
 *
 * Part of the layout, whose picture is in layout.h.  Pure.
 */
#ifndef FORGE_LAYOUT_OBJECT_H
#define FORGE_LAYOUT_OBJECT_H

#include <stddef.h>
#include "layout/word.h"

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

#endif
