/*
 * parts_worlds.c: worlds with objects larger than a chunk.
 *
 * Chunks are as small as the list of the parts of the largest value permits.  In the roomy worlds
 * each CN has chunks enough in hand; in the full ones all are in use, a is in the first group to be
 * evicted, and the next large Set on CN 0 evicts it.
 */
#include "cache_worlds.h"

/* clang-format off */
#define ROOMY	.chunk_count = 64, .group_objects = 4, .parts = "a", .keys = "a"
#define OPEN2	{0, "Sx"}, {1, "Sy"}
#define OPEN3	{0, "Sx"}, {1, "Sy"}, {2, "Sz"}
#define FULL	.chunk_count = 16, .group_objects = 2, .parts = "abcd", .keys = "ab"
#define ALL_USED	{0, "Sm Sa"}, {1, "Sd Sn"}, {0, "Sc So"}
#define BEFORE	.before = {ALL_USED, {1, "Y"}, {0, "Y"}}
#define RANDOM	.chunk_count = 24, .group_objects = 2, .parts = "abBcn", .search = WORLD_RANDOM, \
		.keys = "aAbBcde", .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se"}}
/* Somebody dies, CN 1 recovers. */
#define DIES	.search = WORLD_RECOVERY, .recovers = true
#define RECOVERER	{1, "W0 V Ga Sa Ga"}
/* clang-format on */

static const struct world_spec worlds[] = {
    {.name = "parts-set-get",
     ROOMY,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa"}, {1, "Ga Ga"}}},
    {.name = "parts-insert-insert",
     ROOMY,
     .kills_long = true,
     .before = {OPEN2},
     .workers = {{0, "Sa Ga"}, {1, "Sa"}}},
    {.name = "parts-insert-delete", ROOMY, .before = {OPEN2}, .workers = {{0, "Sa"}, {1, "Da Ga"}}},
    {.name = "parts-insert-touch", ROOMY, .before = {OPEN2}, .workers = {{0, "Sa"}, {1, "Ha Ga"}}},
    {.name = "parts-update-update",
     ROOMY,
     .kills_long = true,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa"}, {1, "Sa Ga"}}},
    {.name = "parts-update-delete",
     ROOMY,
     .kills_long = true,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa Ga"}, {1, "Da"}}},
    {.name = "parts-update-touch",
     ROOMY,
     .kills_long = true,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa"}, {1, "Ha Ga"}}},
    {.name = "parts-touch-get",
     ROOMY,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Ha"}, {1, "Ga Ga"}}},
    {.name = "parts-append-append",
     ROOMY,
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Ba"}, {1, "Ba Ga"}}},
    {.name = "parts-insert-delete3",
     ROOMY,
     .search = WORLD_EXPLORE_LONG,
     .before = {OPEN3},
     .workers = {{0, "Sa"}, {1, "Da"}, {2, "Sa"}}},
    {.name = "parts-evict-get", FULL, BEFORE, .workers = {{0, "Sb"}, {1, "Ga"}}},
    {.name = "parts-evict-set",
     FULL,
     BEFORE,
     .kills_long = true,
     .workers = {{0, "Sb"}, {1, "Sa"}}},
    {.name = "parts-evict-delete", FULL, BEFORE, .workers = {{0, "Sb"}, {1, "Da"}}},
    {.name = "parts-evict-touch",
     FULL,
     BEFORE,
     .kills_long = true,
     .workers = {{0, "Sb"}, {1, "Ha Ga"}}},
    {.name = "parts-regroup-get",
     FULL,
     BEFORE,
     .prepare = world_heat_a,
     .workers = {{0, "Sb"}, {1, "Ga"}}},
    {.name = "parts-regroup-delete",
     FULL,
     BEFORE,
     .kills_long = true,
     .prepare = world_heat_a,
     .workers = {{0, "Sb"}, {1, "Da"}}},
    {.name = "parts-regroup-touch",
     FULL,
     BEFORE,
     .kills_long = true,
     .prepare = world_heat_a,
     .workers = {{0, "Sb"}, {1, "Ha Ga"}}},
    /* --- random -------------------------------------------------------------------------- */
    {.name = "random-parts", RANDOM, .workers = {{0, "R10"}, {1, "R10"}}},
    {.name = "random-parts3", RANDOM, .workers = {{0, "R8"}, {1, "R8"}, {2, "R8"}}},
    {.name = "random-parts-lane", RANDOM, .workers = {{0, "R8"}, {0, "R8"}, {1, "R8"}}},
    {.name = "random-parts-touch",
     RANDOM,
     .workers = {{0, "R4 Ha R2 Hb R2 Hc"}, {1, "Ha R4 Hc R2 Hb"}, {2, "R8"}}},
    {.name = "random-parts-change", RANDOM, .workers = {{0, "M10"}, {1, "M10"}}},
    {.name = "random-parts-change3", RANDOM, .workers = {{0, "M8"}, {0, "M8"}, {1, "M8"}}},
    {.name = "random-parts-paper",
     RANDOM,
     .policy = "forge-paper",
     .workers = {{0, "R10"}, {1, "R10"}}},
    /* --- with a death -------------------------------------------------------------------- */
    {.name = "die-parts-insert", DIES, ROOMY, .before = {OPEN2}, .workers = {{0, "Sa"}, RECOVERER}},
    {.name = "die-parts-update",
     DIES,
     ROOMY,
     .before = {OPEN2, {1, "Sa"}},
     .workers = {{0, "Sa"}, RECOVERER}},
    {.name = "die-parts-delete",
     DIES,
     ROOMY,
     .before = {OPEN2, {1, "Sa"}},
     .workers = {{0, "Da"}, RECOVERER}},
    {.name = "die-parts-touch",
     DIES,
     ROOMY,
     .before = {OPEN2, {1, "Sa"}},
     .workers = {{0, "Ha"}, RECOVERER}},
    {.name = "die-parts-evict", DIES, FULL, BEFORE, .workers = {{0, "Sb"}, RECOVERER}},
    {.name = "die-parts-regroup",
     DIES,
     FULL,
     BEFORE,
     .prepare = world_heat_a,
     .workers = {{0, "Sb"}, RECOVERER}},
    {.name = "die-parts-busy",
     DIES,
     ROOMY,
     .sampling = SAMPLED_ALL,
     .before = {OPEN3, {1, "Sa"}},
     .workers = {{0, "Sa Da Sa"}, RECOVERER, {2, "Sa Ha Da"}}},
    {.name = "die-parts-evict-busy",
     DIES,
     FULL,
     .sampling = SAMPLED_ALL,
     .before = {ALL_USED, {2, "Sx"}, {1, "Y"}, {0, "Y"}, {2, "Y"}},
     .workers = {{0, "Sb"}, RECOVERER, {2, "Sa Da"}}},
};

const struct world_spec *parts_world_at(unsigned n)
{
	return n < ARRAY_COUNT(worlds) ? &worlds[n] : absorb_world_at(n - ARRAY_COUNT(worlds));
}
