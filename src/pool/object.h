/*
 * object.h: building and verifying objects, the bytes a caller stored.
 *
 * Pure functions on local memory; called by the flows and the checker from any thread.  A buffer
 * filled by READ may hold anything: torn, foreign or malicious bytes.  object_check() is the only
 * way to believe it.
 */
#ifndef FORGE_POOL_OBJECT_H
#define FORGE_POOL_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "layout/layout.h"

/* What the caller stores.  Key and value are borrowed. */
struct object_spec {
	const void *key;
	const void *value;
	uint32_t key_bytes;
	uint32_t value_bytes;
	uint32_t flags;
	uint32_t flush_generation;
	uint32_t marks;
	uint64_t expiry_ms;
	uint64_t cas_id;
	uint32_t origin;     /* OBJECT_ORIGIN_... */
	uint32_t part_count; /* of a head, whose value is a struct layout_parts */
};

/* Where an object will live: both are in its header, so that a re-used address shows. */
struct object_place {
	uint32_t generation;
	uint32_t sn;
};

/* Write the object at out (layout_object_units() * 16 bytes), padding zeroed. */
void object_build(void *out, const struct object_spec *, struct object_place);

/* Give a verified object in local memory another place; the checksum is made anew. */
void object_rebind(void *object, struct object_place);

/* Change the origin of a verified object in local memory; the checksum is made anew. */
void object_set_origin(void *object, uint32_t origin);

enum object_verdict {
	OBJECT_VALID,
	OBJECT_SHORT,	/* the header asks for more bytes than there are */
	OBJECT_INVALID, /* torn, foreign, or no object at all */
};

/*
 * Does [object, object + bytes) hold a whole object?  check_sum 0 leaves the checksum out (a
 * mutation for tests).
 */
enum object_verdict object_check(const void *object, uint64_t bytes, int check_sum);

static inline const struct layout_object *object_header(const void *object)
{
	return object;
}

static inline const uint8_t *object_key(const void *object)
{
	return (const uint8_t *)object + LAYOUT_OBJECT_HEADER_BYTES;
}

static inline const uint8_t *object_value(const void *object)
{
	return object_key(object) + object_header(object)->key_bytes;
}

/* Units of 16 bytes that a checked object takes. */
static inline uint32_t object_units(const void *object)
{
	const struct layout_object *h = object_header(object);

	return layout_object_units(h->key_bytes, h->value_bytes);
}

/* The length field of an index word that points to a checked object. */
static inline uint32_t object_blocks(const void *object)
{
	return object_header(object)->part_count ? INDEX_BLOCKS_HEAD
						 : index_blocks_of_units(object_units(object));
}

static inline int object_key_is(const void *object, const void *key, uint32_t key_bytes)
{
	return object_header(object)->key_bytes == key_bytes &&
	       memcmp(object_key(object), key, key_bytes) == 0;
}

#endif
