/*
 * alias.h: draws from a table of weights in constant time (Walker's method, built as in Vose
 * 1991).
 *
 * The builder owns the table until alias_free(); drawing only reads it, from any thread.
 */
#ifndef FORGE_LOAD_ALIAS_H
#define FORGE_LOAD_ALIAS_H

#include <stdint.h>

struct alias_cell {
	uint64_t cut; /* fractions of 2^64 below it stay in this cell */
	uint32_t other;
};

struct alias {
	uint32_t count;
	struct alias_cell *cells;
};

/*
 * Borrows count weights, each finite and >= 0, at least one > 0.  0, or FORGE_E_INVAL for
 * weights outside that, or FORGE_E_NO_MEMORY.
 */
int alias_build(struct alias *, const double *weights, uint32_t count);

void alias_free(struct alias *);

/* The index chosen by 64 uniformly random bits. */
static inline uint32_t alias_pick(const struct alias *a, uint64_t bits)
{
	unsigned __int128 product = (unsigned __int128)bits * a->count;
	uint32_t index = (uint32_t)(product >> 64);
	const struct alias_cell *cell = &a->cells[index];

	return (uint64_t)product < cell->cut ? index : cell->other;
}

#endif
