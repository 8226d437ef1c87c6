/*
 * twim.h: the two-way index map of a group: from SN to offset, slot and exact index word.
 *
 * Pure functions on a TWIM that was READ, which may be damaged: every offset is checked.
 */
#ifndef FORGE_POOL_TWIM_H
#define FORGE_POOL_TWIM_H

#include <stdint.h>

#include "layout/plan.h"
#include "pool/index.h"

/* One member of a group, as its TWIM describes it. */
struct twim_member {
	uint64_t slot;	  /* slot number in the index */
	uint64_t word;	  /* the exact index word the member was inserted with */
	uint64_t address; /* of the object in the export */
	uint32_t units;
	uint32_t sn;
	uint32_t fingerprint;
	uint32_t version;
	uint32_t is_head; /* of an object larger than a chunk */
};

/*
 * Decode object_count entries, READ as they lie in memory, of a chunk with that generation.
 * Fills members[0 .. object_count) in SN order; one whose entry is dead or out of bounds has
 * units 0.  Returns how many are usable.
 */
uint32_t twim_decode(const struct plan *, uint32_t chunk, uint32_t generation,
		     const uint64_t *entries, uint32_t object_count, struct twim_member *members);

#endif
