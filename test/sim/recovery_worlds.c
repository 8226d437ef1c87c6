/*
 * recovery_worlds.c: worlds in which somebody dies and others recover.
 *
 * In each, CN 0 is the victim; its script is the flow the world is named for.  CN 1 waits for its
 * death, recovers, and goes on.  In the worlds called "busy" CN 2 works all the while.  Pools are
 * as small as the flow permits, one chunk larger where a third node works.
 */
#include "cache_worlds.h"

#include <string.h>

/* clang-format off */
#define COMMON	.search = WORLD_RECOVERY, .recovers = true
/* Room for everything: eight objects a group. */
#define ROOMY	COMMON, .chunk_count = 12, .group_objects = 8
/* Groups of two, and room. */
#define PAIRS	COMMON, .chunk_count = 12, .group_objects = 2
/* a and b are in the first group to be evicted; the victim's next Set evicts. */
#define TIGHT	COMMON, .chunk_count = 5, .group_objects = 2, .keys = "ab"
#define TIGHT3	COMMON, .chunk_count = 6, .group_objects = 2, .keys = "ab"
#define FULL	{1, "Sa Sb Sc Sd Sn"}, {0, "So Sp Sq Sr"}
#define FULL2	FULL, {1, "Y"}, {0, "Y"}
#define FULL3	FULL, {2, "Sx"}, {1, "Y"}, {0, "Y"}, {2, "Y"}
/* The victim knows a group that is mostly dead. */
#define DEAD	{0, "Sa Sb Sn So Sa Sb"}, {1, "Sp Sq Sr Ss"}
#define DEAD2	DEAD, {0, "Y"}
#define DEAD3	DEAD, {2, "Sx"}, {0, "Y"}, {2, "Y"}
#define OPEN2	{0, "Sx"}, {1, "Sy"}
#define OPEN3	{0, "Sx"}, {1, "Sy"}, {2, "Sz"}
#define RECOVERER	{1, "W0 V Ga Sa Ga"}
#define TRAFFIC		{2, "Sa Ga Da"}
/* clang-format on */

static const struct world_spec worlds[] = {
    /* --- one dies, one recovers ----------------------------------------------------------------
     */
    {.name = "die-insert",
     ROOMY,
     .keys = "a",
     .before = {OPEN2},
     .workers = {{0, "Sa"}, RECOVERER}},
    {.name = "die-update",
     ROOMY,
     .keys = "a",
     .before = {OPEN2, {1, "Sa"}},
     .workers = {{0, "Sa"}, RECOVERER}},
    {.name = "die-delete",
     ROOMY,
     .keys = "a",
     .before = {OPEN2, {1, "Sa"}},
     .workers = {{0, "Da"}, RECOVERER}},
    {.name = "die-seal",
     PAIRS,
     .keys = "ab",
     .before = {OPEN2},
     .workers = {{0, "Sa Sb Sn"}, RECOVERER}},
    {.name = "die-evict", TIGHT, .before = {FULL2}, .workers = {{0, "Ss"}, RECOVERER}},
    {.name = "die-regroup",
     TIGHT,
     .before = {FULL2},
     .prepare = world_heat_a,
     .workers = {{0, "Ss"}, RECOVERER}},
    {.name = "die-requeue",
     TIGHT,
     .before = {FULL2},
     .prepare = world_heat_ab,
     .workers = {{0, "Ss"}, RECOVERER}},
    {.name = "die-compact", TIGHT, .before = {DEAD2}, .workers = {{0, "St"}, RECOVERER}},
    {.name = "die-flush",
     TIGHT,
     .before = {FULL2},
     .prepare = world_heat_a_everywhere,
     .workers = {{0, "Y"}, RECOVERER}},
    {.name = "die-join",
     PAIRS,
     .late = 1 << 0,
     .keys = "a",
     .before = {{1, "Sy"}},
     .workers = {{0, "J Sa L"}, RECOVERER}},
    {.name = "die-leave",
     PAIRS,
     .keys = "ab",
     .before = {OPEN2, {0, "Sa Sb"}},
     .workers = {{0, "L"}, RECOVERER}},
    {.name = "die-paper",
     TIGHT,
     .policy = "forge-paper",
     .before = {FULL2},
     .prepare = world_heat_a,
     .workers = {{0, "Ss"}, RECOVERER}},
    /*
     * The dead node's value lies in front of an older one that was acknowledged; when its group
     * is gone with it, the older one must not come back.
     */
    {.name = "die-in-front",
     COMMON,
     .chunk_count = 4,
     .group_objects = 2,
     .keys = "a",
     .before = {{0, "Sb"}, {1, "Sy"}},
     .workers = {{0, "Db Sa"}, {1, "Sa W0 Ga V Sn So Sp Sq Sr Ga"}}},
    /* Nobody looks more than once before it acts: whoever is late has been taken for dead. */
    {.name = "hasty-seal",
     PAIRS,
     .impatient = true,
     .keys = "ab",
     .before = {OPEN2},
     .workers = {{0, "Sa Sb Sn"}, RECOVERER}},
    {.name = "hasty-evict",
     TIGHT,
     .impatient = true,
     .before = {FULL2},
     .workers = {{0, "Ss"}, RECOVERER}},
    {.name = "hasty-regroup",
     TIGHT,
     .impatient = true,
     .before = {FULL2},
     .prepare = world_heat_a,
     .workers = {{0, "Ss"}, RECOVERER}},
    {.name = "hasty-requeue",
     TIGHT,
     .impatient = true,
     .before = {FULL2},
     .prepare = world_heat_ab,
     .workers = {{0, "Ss"}, RECOVERER}},
    /* --- ... while a third goes on -------------------------------------------------------------
     */
    {.name = "busy-insert",
     ROOMY,
     .keys = "a",
     .before = {OPEN3},
     .workers = {{0, "Sa"}, {1, "W0 V"}, {2, "Sa Ga"}}},
    {.name = "busy-update",
     ROOMY,
     .keys = "a",
     .before = {OPEN3, {1, "Sa"}},
     .workers = {{0, "Sa"}, {1, "W0 V"}, {2, "Sa Ga"}}},
    {.name = "busy-delete",
     ROOMY,
     .keys = "a",
     .before = {OPEN3, {1, "Sa"}},
     .workers = {{0, "Da"}, {1, "W0 V"}, {2, "Sa Ga"}}},
    {.name = "busy-seal",
     PAIRS,
     .impatient = true,
     .keys = "ab",
     .before = {OPEN3},
     .sampling = SAMPLED_PAIRS,
     .workers = {{0, "Sa Sb"}, {1, "W0 V"}, {2, "Sn So"}}},
    {.name = "busy-evict",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .workers = {{0, "Ss"}, {1, "W0 V"}, TRAFFIC}},
    {.name = "busy-regroup",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .prepare = world_heat_a,
     .workers = {{0, "Ss"}, {1, "W0 V"}, TRAFFIC}},
    {.name = "busy-requeue",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .prepare = world_heat_ab,
     .workers = {{0, "Ss"}, {1, "W0 V"}, TRAFFIC}},
    {.name = "busy-compact",
     TIGHT3,
     .impatient = true,
     .before = {DEAD3},
     .workers = {{0, "St"}, {1, "W0 V"}, TRAFFIC}},
    {.name = "busy-flush",
     TIGHT3,
     .flush_waits = true,
     .before = {FULL3},
     .prepare = world_heat_a_everywhere,
     .sampling = SAMPLED_PAIRS,
     .workers = {{0, "Y"}, {1, "W0 V"}, {2, "Sa Sn"}}},
    {.name = "busy-join",
     PAIRS,
     .impatient = true,
     .late = 1 << 0,
     .keys = "a",
     .before = {{1, "Sy"}, {2, "Sz"}},
     .sampling = SAMPLED_DEATHS,
     .workers = {{0, "J Sa L"}, {1, "W0 V"}, {2, "Sa Sn"}}},
    {.name = "busy-leave",
     PAIRS,
     .impatient = true,
     .keys = "ab",
     .before = {OPEN3, {0, "Sa Sb"}},
     .sampling = SAMPLED_PAIRS,
     .workers = {{0, "L"}, {1, "W0 V"}, {2, "Sa Sn"}}},
    /* --- several recover -----------------------------------------------------------------------
     */
    {.name = "two-recover",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .workers = {{0, "Ss"}, {1, "W0 V"}, {2, "W0 V Ga"}}},
    {.name = "recover-repair",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .workers = {{0, "Ss"}, {1, "W0 V"}, {2, "W0 X Ga"}}},
    /* CN 2 waits for the death of the recoverer, and recovers both. */
    {.name = "heir",
     TIGHT3,
     .impatient = true,
     .before = {FULL3},
     .workers = {{0, "Ss"}, {1, "W0 V Sa"}, {2, "W1 V Ga Sb Ga"}}},
    /* Who recovers is no compute node: the memory node, or forge check --repair. */
    {.name = "node-recovers",
     TIGHT,
     .impatient = true,
     .cn_max = 2,
     .late = 1 << 1,
     .before = {{2, "Sa Sb Sc Sd Sn"}, {0, "So Sp Sq Sr"}, {2, "Y"}, {0, "Y"}},
     .workers = {{0, "Ss"}, {1, "W0 V"}, {2, "Ga Sa Ga"}}},
    /* An eviction that waits for the dead finds out by itself. */
    {.name = "evictor-finds",
     TIGHT,
     .vigilant = 1 << 1,
     .flush_waits = true,
     .before = {FULL2},
     .prepare = world_heat_a_everywhere,
     .workers = {{0, "Ss Sa"}, {1, "W0 Su Sv Ga"}}},
    /* --- ids -----------------------------------------------------------------------------------
     */
    /* The dead node's id, the only free one, is joined while it is recovered. */
    {.name = "rejoin",
     PAIRS,
     .impatient = true,
     .cn_max = 2,
     .late = 1 << 2,
     .keys = "a",
     .before = {OPEN2},
     .sampling = SAMPLED_PAIRS,
     .workers = {{0, "Sa Sn So"}, {1, "W0 V Ga"}, {2, "W0 J Sa Sn L"}}},
    {.name = "rejoin-node",
     PAIRS,
     .impatient = true,
     .cn_max = 1,
     .late = 1 << 1 | 1 << 2,
     .keys = "a",
     .before = {{0, "Sx"}},
     .last_repairs = true,
     .sampling = SAMPLED_DEATHS,
     .workers = {{0, "Sa Sn"}, {1, "W0 V X"}, {2, "W0 J Sa Sn"}}},
    /* The id of one who leaves in order, while somebody repairs. */
    {.name = "leave-repair-join",
     PAIRS,
     .impatient = true,
     .cn_max = 1,
     .late = 1 << 1 | 1 << 2,
     .keys = "a",
     .before = {{0, "Sx"}},
     .last_repairs = true,
     .sampling = SAMPLED_ALL,
     .workers = {{0, "Sa L"}, {1, "X"}, {2, "J Sa Sn"}}},
    /* --- nobody is dead, and what sleepers have in hand is taken --------------------------------
     */
    {.name = "repair-evict",
     TIGHT,
     .impatient = true,
     .before = {FULL2},
     .sampling = SAMPLED_PAIRS,
     .workers = {{0, "Ss Ga"}, {1, "X"}}},
    {.name = "repair-requeue",
     TIGHT,
     .impatient = true,
     .before = {FULL2},
     .prepare = world_heat_ab,
     .sampling = SAMPLED_DEATHS,
     .workers = {{0, "Ss Ga"}, {1, "X"}}},
    {.name = "repair-seal",
     PAIRS,
     .impatient = true,
     .keys = "ab",
     .before = {OPEN2},
     .sampling = SAMPLED_DEATHS,
     .workers = {{0, "Sa Sb Sn So"}, {1, "X"}}},
    {.name = "repair-compact",
     TIGHT,
     .impatient = true,
     .before = {DEAD2},
     .workers = {{0, "St Ga"}, {1, "X"}}},
};

const struct world_spec *recovery_world_at(unsigned n)
{
	return n < ARRAY_COUNT(worlds) ? &worlds[n] : NULL;
}
