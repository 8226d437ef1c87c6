/*
 * idmap.h: 64-bit ids to dense 32-bit indices, in order of first appearance.
 *
 * For trace loading and the reference caches: what is arbitrary in a file becomes an index into
 * arrays.  A zeroed struct is an empty map.  One map, one thread; memory grows with the
 * distinct ids (about 16 to 24 bytes each) and is given back by idmap_free().
 */
#ifndef FORGE_LOAD_IDMAP_H
#define FORGE_LOAD_IDMAP_H

#include <stdint.h>

#define IDMAP_COUNT_MAX (UINT32_MAX - 1)

struct idmap {
	uint64_t *ids;	 /* by index; count of them */
	uint32_t *slots; /* index + 1, or 0 when empty */
	uint32_t count;
	uint32_t room;	     /* of ids */
	uint64_t slot_count; /* a power of two, or 0 */
};

#define IDMAP_NEW 1

/*
 * Find id, or give it the next index.  0 when it was there, IDMAP_NEW when it was not, or
 * FORGE_E_NO_MEMORY (also when IDMAP_COUNT_MAX ids are there), and then the map is unchanged.
 */
int idmap_add(struct idmap *, uint64_t id, uint32_t *index);

void idmap_free(struct idmap *);

#endif
