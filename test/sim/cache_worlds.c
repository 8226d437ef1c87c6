/*
 * cache_worlds.c: the table of worlds.
 *
 * Index worlds have room for everything; before the run each CN has opened a group by a Set of a
 * key of its own, so that the scripts start with the index and not with the free ring.  Eviction
 * worlds have few chunks of two objects, all of them in use when the run begins.
 */
#include "cache_worlds.h"

#include <string.h>

#include "pool/object.h"

/* clang-format off */
#define INDEX	.chunk_count = 12, .group_objects = 8
#define OPEN2	{0, "Sx"}, {1, "Sy"}
#define OPEN3	{0, "Sx"}, {1, "Sy"}, {2, "Sz"}
#define OPEN4	{0, "Sw"}, {1, "Sx"}, {2, "Sy"}, {3, "Sz"}
/*
 * An insert on CN 0 sleeps between READ and CAS while CN 1 inserts the key in a lower slot and
 * evicts it.  Then CN 1 sees a match, and a stale word that CN 0 still reads through.
 */
#define SLOW	.chunk_count = 4, .group_objects = 3, .keys = "a", \
		.before = {{0, "Sb"}, {1, "Sy Sz"}}
/* Enough Sets to evict the group that z is in, and to leave its third object as it was. */
#define EVICT_Z	" Sn So Sp Sq Sr Ss St "
/*
 * Five chunks of two: a and b are in the first group to be evicted, c and d in the second; CN 0
 * has a full group open, and CN 1 one with a member.  The next Set on CN 0 evicts.
 */
#define EVICT	.chunk_count = 5, .group_objects = 2
#define FULL	{1, "Sa Sb Sc Sd Sn"}, {0, "So Sp Sq Sr"}, {1, "Y"}, {0, "Y"}
/* clang-format on */

/* The evictor (CN 0) has counted hits on these keys. */
static void heat(struct cache_world *cw, const uint8_t *memory, const char *letters)
{
	for (; *letters; letters++) {
		uint64_t slot, word;

		if (!world_find(cw, memory, world_key_index(*letters), &slot, &word))
			continue;
		atomic_store(cn_counter(&cw->cns[0],
					plan_chunk_of_pointer(&cw->pool.plan, index_pointer(word)),
					object_header(memory + index_object_address(word))->sn),
			     2);
	}
}

static void heat_a(struct cache_world *cw, uint8_t *memory)
{
	heat(cw, memory, "a");
}

static void heat_ab(struct cache_world *cw, uint8_t *memory)
{
	heat(cw, memory, "ab");
}

static const struct world_spec worlds[] = {
    /* --- the index ----------------------------------------------------------------------- */
    {.name = "insert-insert",
     INDEX,
     .keys = "a",
     .before = {OPEN2},
     .workers = {{0, "Sa Ga"}, {1, "Sa Ga"}}},
    {.name = "insert3",
     INDEX,
     .keys = "a",
     .before = {OPEN3},
     .workers = {{0, "Sa"}, {1, "Sa"}, {2, "Sa Ga"}}},
    {.name = "insert-twin",
     INDEX,
     .keys = "aA",
     .before = {OPEN2},
     .workers = {{0, "Sa GA"}, {1, "SA Ga"}}},
    {.name = "set-get",
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa Sa"}, {1, "Ga Ga"}}},
    {.name = "update-update",
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa Ga"}, {1, "Sa Ga"}}},
    {.name = "set-delete",
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Sa Ga"}, {1, "Da Ga"}}},
    {.name = "delete-delete",
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sa"}},
     .workers = {{0, "Da Sa"}, {1, "Da Ga"}}},
    /* A slot in front of that of an insert becomes free while it is under way. */
    {.name = "hole",
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sb"}},
     .workers = {{0, "Sa Ga"}, {1, "Db Sa"}}},
    {.name = "hole-get",
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Ga Ga"}}},
    {.name = "hole-get3",
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Ga Ga Ga"}}},
    {.name = "hole-set",
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Sa Ga"}}},
    {.name = "hole-delete",
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Da Ga"}}},
    {.name = "hole-delete-get",
     INDEX,
     .keys = "a",
     .search = WORLD_EXPLORE_LONG,
     .before = {OPEN4, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Da"}, {3, "Ga Ga"}}},
    {.name = "slow-insert-set", SLOW, .workers = {{0, "Sa"}, {1, "Db Sa" EVICT_Z "Sa"}}},
    {.name = "slow-insert-delete", SLOW, .workers = {{0, "Sa"}, {1, "Db Sa" EVICT_Z "Da"}}},
    {.name = "slow-insert-get", SLOW, .workers = {{0, "Sa"}, {1, "Db Sa" EVICT_Z "Ga"}, {2, "Ga"}}},
    {.name = "paper-index",
     INDEX,
     .policy = "forge-paper",
     .keys = "a",
     .before = {OPEN2, {0, "Sb"}},
     .workers = {{0, "Sa Ga"}, {1, "Db Sa"}}},
    /* --- eviction ------------------------------------------------------------------------ */
    {.name = "evict-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss"}, {1, "Ga Gb"}}},
    {.name = "evict-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss"}, {1, "Sa Ga"}}},
    {.name = "evict-delete",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss Ga"}, {1, "Da Ga"}}},
    {.name = "evict-then-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss Sa Da"}, {1, "Ga Ga"}}},
    {.name = "regroup-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Ga Ga"}}},
    {.name = "regroup-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Sa Ga"}}},
    {.name = "regroup-delete",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Da Sa"}}},
    {.name = "requeue-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = heat_ab,
     .workers = {{0, "Ss Ga"}, {1, "Sa Gb"}}},
    {.name = "reuse-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss Sa Sb"}, {1, "Ga Ga"}}},
    /* --- random -------------------------------------------------------------------------- */
    {.name = "random-index",
     INDEX,
     .search = WORLD_RANDOM,
     .keys = "aAbB",
     .before = {OPEN3},
     .workers = {{0, "R6"}, {1, "R6"}, {2, "R6"}}},
    {.name = "random-evict",
     .chunk_count = 7,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R10"}, {1, "R10"}}},
    {.name = "random-evict3",
     .chunk_count = 10,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .keys = "aAbBcdefg",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}, {2, "Sg Sn So"}},
     .workers = {{0, "R10"}, {1, "R10"}, {2, "R10"}}},
    {.name = "random-paper",
     .policy = "forge-paper",
     .chunk_count = 7,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R10"}, {1, "R10"}}},
    {.name = "random-wrap",
     .chunk_count = 7,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .first_position = 16 * NODE_CYCLE_COUNT - 3,
     .first_generation = LAYOUT_GENERATION_COUNT - 1,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R10"}, {1, "R10"}}},
    {.name = "random-paper-wrap",
     .policy = "forge-paper",
     .chunk_count = 7,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .first_position = 16 * NODE_CYCLE_COUNT - 3,
     .first_generation = 1023,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R10"}, {1, "R10"}}},
    {.name = "random-lane",
     .chunk_count = 12,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .keys = "aAbBcdefg",
     .before = {{0, "Sa SA Sb SB Sn So"}, {1, "Sc Sd Se Sf Sg Sp"}},
     .workers = {{0, "R7"}, {0, "R7"}, {1, "R7"}, {1, "R7"}}},
    {.name = "random-flush",
     .chunk_count = 8,
     .group_objects = 2,
     .search = WORLD_RANDOM,
     .flush_waits = true,
     .poll_interval_us = 40,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R10"}, {1, "R10"}}},
};

const struct world_spec *cache_world_at(unsigned n)
{
	return n < ARRAY_COUNT(worlds) ? &worlds[n] : NULL;
}

const struct world_spec *cache_world_find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_COUNT(worlds); i++)
		if (strcmp(worlds[i].name, name) == 0)
			return &worlds[i];
	return NULL;
}
