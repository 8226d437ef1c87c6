/* object.c: building and verifying objects. */
#include "pool/object.h"

#include "base/hash.h"

#define CHECKSUM_FROM 8u /* the checksum covers everything behind itself */

static uint64_t object_checksum(const void *object)
{
	const struct layout_object *h = object_header(object);
	size_t bytes =
	    (size_t)LAYOUT_OBJECT_HEADER_BYTES - CHECKSUM_FROM + h->key_bytes + h->value_bytes;

	return hash_checksum(0, (const uint8_t *)object + CHECKSUM_FROM, bytes);
}

void object_build(void *out, const struct object_spec *spec, struct object_place place)
{
	struct layout_object *h = out;
	uint8_t *key = (uint8_t *)out + LAYOUT_OBJECT_HEADER_BYTES;
	uint32_t units = layout_object_units(spec->key_bytes, spec->value_bytes);
	uint32_t used = LAYOUT_OBJECT_HEADER_BYTES + spec->key_bytes + spec->value_bytes;

	*h = (struct layout_object){
	    .generation = (uint16_t)place.generation,
	    .sn = (uint16_t)place.sn,
	    .key_bytes = (uint8_t)spec->key_bytes,
	    .origin = (uint8_t)spec->origin,
	    .part_count = (uint16_t)spec->part_count,
	    .value_bytes = spec->value_bytes,
	    .flags = spec->flags,
	    .expiry_ms = spec->expiry_ms,
	    .cas_id = spec->cas_id,
	    .flush_generation = spec->flush_generation,
	    .marks = spec->marks,
	};
	memcpy(key, spec->key, spec->key_bytes);
	if (spec->value_bytes)
		memcpy(key + spec->key_bytes, spec->value, spec->value_bytes);
	memset((uint8_t *)out + used, 0, (size_t)units * LAYOUT_UNIT_BYTES - used);
	h->checksum = object_checksum(out);
}

void object_rebind(void *object, struct object_place place)
{
	struct layout_object *h = object;

	h->generation = (uint16_t)place.generation;
	h->sn = (uint16_t)place.sn;
	h->checksum = object_checksum(object);
}

void object_set_origin(void *object, uint32_t origin)
{
	struct layout_object *h = object;

	h->origin = (uint8_t)origin;
	h->checksum = object_checksum(object);
}

enum object_verdict object_check(const void *object, uint64_t bytes, int check_sum)
{
	const struct layout_object *h = object_header(object);

	if (bytes < LAYOUT_OBJECT_HEADER_BYTES)
		return OBJECT_SHORT;
	if (h->key_bytes == 0 || h->key_bytes > LAYOUT_KEY_BYTES_MAX)
		return OBJECT_INVALID;
	/* A checksum that fits proves no honest writer, and both become fields of words. */
	if (h->generation >= LAYOUT_GENERATION_COUNT || h->sn >= LAYOUT_GROUP_OBJECTS_MAX ||
	    h->origin >= OBJECT_ORIGINS)
		return OBJECT_INVALID;
	uint64_t units = layout_object_units(h->key_bytes, h->value_bytes);

	if (units > LAYOUT_OBJECT_UNITS_MAX)
		return OBJECT_INVALID;
	if (units * LAYOUT_UNIT_BYTES > bytes)
		return OBJECT_SHORT;
	if (check_sum && object_checksum(object) != h->checksum)
		return OBJECT_INVALID;
	return OBJECT_VALID;
}
