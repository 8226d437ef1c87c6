/*
 * world_pieces.h: how the worlds of cache_worlds.c and change_worlds.c begin; for these alone.
 */
#ifndef FORGE_TEST_SIM_WORLD_PIECES_H
#define FORGE_TEST_SIM_WORLD_PIECES_H

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
/* Three small objects a group, or one large and one small, and then room for a small one only. */
#define FIT	.chunk_count = 8, .group_objects = 3, .open_groups = 2, .large = "bBop"
/*
 * Five chunks of two: a and b are in the first group to be evicted, c and d in the second; CN 0
 * has a full group open, and CN 1 one with a member.  The next Set on CN 0 evicts.
 */
#define EVICT	.chunk_count = 5, .group_objects = 2
#define FULL	{1, "Sa Sb Sc Sd Sn"}, {0, "So Sp Sq Sr"}, {1, "Y"}, {0, "Y"}
#define RECOVERY .search = WORLD_RECOVERY, .recovers = true, .chunk_count = 12, .group_objects = 8
/* clang-format on */

#endif
