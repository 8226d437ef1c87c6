/*
 * cache_worlds.h: the worlds the cache is tried in, by name; for the test programs beside it.
 */
#ifndef FORGE_TEST_SIM_CACHE_WORLDS_H
#define FORGE_TEST_SIM_CACHE_WORLDS_H

#include "cache_world.h"

/* NULL if there is none of that name. */
const struct world_spec *cache_world_find(const char *name);

/* The n-th world, or NULL. */
const struct world_spec *cache_world_at(unsigned n);

#endif
