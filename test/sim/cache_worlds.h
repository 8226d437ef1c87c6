/*
 * cache_worlds.h: the worlds the cache is tried in, by name; for the test programs beside it.
 */
#ifndef FORGE_TEST_SIM_CACHE_WORLDS_H
#define FORGE_TEST_SIM_CACHE_WORLDS_H

#include "cache_world.h"

/* NULL if there is none of that name. */
const struct world_spec *cache_world_find(const char *name);

/* The n-th world, or NULL; those of change_worlds.c, parts_worlds.c, absorb_worlds.c and
 * recovery_worlds.c come last. */
const struct world_spec *cache_world_at(unsigned n);
const struct world_spec *change_world_at(unsigned n);
const struct world_spec *parts_world_at(unsigned n);
const struct world_spec *absorb_world_at(unsigned n);
const struct world_spec *recovery_world_at(unsigned n);

/*
 * Preparations: the evictor (CN 0) has hit a, or a and b; both CNs have hit a very often; the
 * small ring's second ticket from now is for the node of the group at head.
 */
void world_heat_a(struct cache_world *, uint8_t *memory);
void world_heat_ab(struct cache_world *, uint8_t *memory);
void world_heat_a_everywhere(struct cache_world *, uint8_t *memory);
void world_fill_trip(struct cache_world *, uint8_t *memory);
/* With 5 to 8 chunks. */
#define TRIP .first_position = 16, .overlong_evicts = true, .prepare = world_fill_trip

#endif
