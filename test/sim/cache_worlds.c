/*
 * cache_worlds.c: the table of worlds.
 *
 * Index worlds have room for everything; before the run each CN has opened a group by a Set of a
 * key of its own, so that the scripts start with the index and not with the free ring.  Eviction
 * worlds have few chunks of two objects, all of them in use when the run begins.
 */
#include "cache_worlds.h"
#include "world_pieces.h"

#include <stdio.h>
#include <string.h>

#include "pool/object.h"

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

void world_heat_a(struct cache_world *cw, uint8_t *memory)
{
	heat(cw, memory, "a");
}

void world_heat_ab(struct cache_world *cw, uint8_t *memory)
{
	heat(cw, memory, "ab");
}

/* A bit of a's value has tipped over where it lies, and the evictor has counted hits on it. */
static void damage_hot_a(struct cache_world *cw, uint8_t *memory)
{
	uint64_t slot, word;

	world_heat_a(cw, memory);
	if (world_find(cw, memory, world_key_index('a'), &slot, &word))
		memory[index_object_address(word) + LAYOUT_OBJECT_HEADER_BYTES + 8] ^= 4;
}

/* --- demands on particular worlds ------------------------------------------------------------ */

/* Is a key's object there and its chunk not freed since? */
static bool is_live(const struct cache_world *cw, const uint8_t *memory, char letter)
{
	const struct plan *p = &cw->pool.plan;
	uint64_t slot, word, owner;

	if (!world_find(cw, memory, world_key_index(letter), &slot, &word))
		return false;
	memcpy(&owner,
	       memory + plan_chunk_word_address(p, plan_chunk_of_pointer(p, index_pointer(word))),
	       8);
	return index_generations_behind(p, word, chunk_generation(owner)) == 0;
}

/* ... unless the flush began after the group was claimed and had to drop it. */
static int expect_a_lives(struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	if (is_live(cw, sim_memory(s), 'a') || cw->workers[1].cache.count.flush_late)
		return 0;
	snprintf(why, why_bytes, "a hot object was evicted");
	return FORGE_E_CORRUPT;
}

/* CN 1 has hit a twice since its last flush, of which the registry knows. */
static void heat_a_elsewhere(struct cache_world *cw, uint8_t *memory)
{
	const struct plan *p = &cw->pool.plan;
	uint64_t slot, word;
	uint64_t line = plan_registry_address(p, cw->cns[1].member.cn);

	if (world_find(cw, memory, world_key_index('a'), &slot, &word))
		atomic_store(
		    cn_counter(&cw->cns[1], plan_chunk_of_pointer(p, index_pointer(word)), 0), 2);
	atomic_store(&cw->cns[1].flushed[RING_SMALL], 0);
	memset(memory + line + offsetof(struct layout_registry, flushed), 0, 8);
}

/* Both CNs have hit a, the first of its group, very often. */
void world_heat_a_everywhere(struct cache_world *cw, uint8_t *memory)
{
	const struct plan *p = &cw->pool.plan;
	uint64_t slot, word;

	if (!world_find(cw, memory, world_key_index('a'), &slot, &word))
		return;
	for (uint32_t i = 0; i < cw->cn_count; i++) {
		atomic_store(
		    cn_counter(&cw->cns[i], plan_chunk_of_pointer(p, index_pointer(word)), 0), 200);
		atomic_store(&cw->cns[i].flushed[RING_SMALL], 0);
	}
}

/* The hits on a that CN 1 counted before the group went round again, if it knows of that. */
static int expect_new_trip_counts_anew(struct cache_world *cw, struct sim *s, char *why,
				       size_t why_bytes)
{
	const struct cn *cn = &cw->cns[1];
	uint64_t slot, word;

	if (!world_find(cw, sim_memory(s), world_key_index('a'), &slot, &word))
		return 0;
	uint32_t chunk = plan_chunk_of_pointer(&cw->pool.plan, index_pointer(word));
	uint64_t seen = cn_map(cn, chunk);

	if (chunk_state(seen) != CHUNK_QUEUED || chunk_ring(seen) != RING_MAIN)
		return 0;
	/* What it knew it has flushed at once, since the window reaches so far. */
	const uint8_t *row =
	    sim_memory(s) + plan_ofm_row_address(&cw->pool.plan, RING_MAIN, chunk_position(seen));

	if (cn_count(cn, chunk, 0) == 0 && row[0] == 0)
		return 0;
	snprintf(why, why_bytes, "hits of the last trip count for the next");
	return FORGE_E_CORRUPT;
}

/* The evictor has hit a and b, CN 1 has hit a, and has flushed as far as it can. */
static void heat_ab_and_a_later(struct cache_world *cw, uint8_t *memory)
{
	uint64_t slot, word;

	world_heat_ab(cw, memory);
	if (world_find(cw, memory, world_key_index('a'), &slot, &word))
		atomic_store(cn_counter(&cw->cns[1],
					plan_chunk_of_pointer(&cw->pool.plan, index_pointer(word)),
					0),
			     2);
}

static int expect_no_carry(struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	const uint8_t *row = sim_memory(s) + plan_ofm_row_address(&cw->pool.plan, RING_SMALL, 0);

	if (row[0] >= 2 && row[0] <= LAYOUT_FLUSH_BUDGET && row[1] == 0)
		return 0;
	snprintf(why, why_bytes, "counters are %u and %u, expected 2 to %u and 0", row[0], row[1],
		 LAYOUT_FLUSH_BUDGET);
	return FORGE_E_CORRUPT;
}

/* What a Get found to be invalid it has taken away. */
static int expect_no_invalid(struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	const struct plan *p = &cw->pool.plan;
	const uint8_t *memory = sim_memory(s);

	for (uint64_t slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++) {
		uint64_t word;

		memcpy(&word, memory + plan_slot_address(p, slot), 8);
		const uint8_t *object = memory + index_object_address(word);

		if (index_is_object(word) &&
		    (object_check(object, index_object_bytes(word), 1) != OBJECT_VALID ||
		     index_generations_behind(p, word, object_header(object)->generation))) {
			snprintf(why, why_bytes, "slot %llu still points to no object",
				 (unsigned long long)slot);
			return FORGE_E_CORRUPT;
		}
	}
	return 0;
}

/*
 * CN 2 slept for so long that the chunk CN 1 fills had as many lives as make it look older than
 * what the map remembers; and its map is known to be old.
 */
static void outdate_map(struct cache_world *cw, uint8_t *memory)
{
	struct cn *cn = &cw->cns[2];
	uint32_t chunk = cw->lanes[1].filling[RING_SMALL][0]->chunk;

	atomic_store(&cn->map[chunk], chunk_pack_queued(RING_SMALL, 100, 0));
	atomic_store(&cn->refreshed_ns, 0);
}

/* Others have flushed their hits on the group that will be compacted. */
static void fill_first_row(struct cache_world *cw, uint8_t *memory)
{
	memory[plan_ofm_row_address(&cw->pool.plan, RING_SMALL, 0)] = 5;
}

static int expect_first_row_empty(struct cache_world *cw, struct sim *s, char *why,
				  size_t why_bytes)
{
	uint8_t count = sim_memory(s)[plan_ofm_row_address(&cw->pool.plan, RING_SMALL, 0)];

	if (count == 0)
		return 0;
	snprintf(why, why_bytes, "the row of the compacted group still holds %u", count);
	return FORGE_E_CORRUPT;
}

/*
 * The small ring begins with a trip of which only the group at head is left, and then come those
 * that are there.  So many tickets were given to groups that have been claimed from the middle
 * since that the one after the next is for the node of the group at head.
 */
void world_fill_trip(struct cache_world *cw, uint8_t *memory)
{
	const struct plan *p = &cw->pool.plan;
	struct layout_cursors *cursors = (struct layout_cursors *)(memory + p->cursors_offset);
	uint64_t at = cursors->ring[RING_SMALL].head, tail = cursors->ring[RING_SMALL].tail;
	uint64_t head = at - 4, node, word, passed = node_pack_empty(plan_ring_cycle(p, at) + 1);

	memcpy(&node, memory + plan_ring_node_address(p, RING_SMALL, at), 8);
	memcpy(memory + plan_ring_node_address(p, RING_SMALL, at), &passed, 8);
	uint32_t chunk = node_chunk(node), generation = node_generation(node);

	node =
	    node_pack_full(plan_ring_cycle(p, head), chunk, generation, node_object_count(node), 0);
	word = chunk_pack_queued(RING_SMALL, generation, head);
	memcpy(memory + plan_ring_node_address(p, RING_SMALL, head), &node, 8);
	memcpy(memory + plan_chunk_word_address(p, chunk), &word, 8);
	for (; tail < head + p->ring_nodes - 1; tail++) {
		passed = node_pack_empty(plan_ring_cycle(p, tail) + 1);
		memcpy(memory + plan_ring_node_address(p, RING_SMALL, tail), &passed, 8);
	}
	cursors->ring[RING_SMALL].head = head;
	cursors->ring[RING_SMALL].tail = tail;
}

/* So many groups were claimed from the middle of the small ring that it has this length. */
static void lengthen(struct cache_world *cw, uint8_t *memory, uint64_t length)
{
	const struct plan *p = &cw->pool.plan;
	struct layout_cursors *cursors = (struct layout_cursors *)(memory + p->cursors_offset);
	uint64_t *tail = &cursors->ring[RING_SMALL].tail;

	for (; *tail < cursors->ring[RING_SMALL].head + length; ++*tail) {
		uint64_t passed = node_pack_empty(plan_ring_cycle(p, *tail) + 1);

		memcpy(memory + plan_ring_node_address(p, RING_SMALL, *tail), &passed, 8);
	}
	for (uint32_t i = 0; i < cw->cn_count; i++)
		cn_see_tail(&cw->cns[i], RING_SMALL, *tail);
}

/* CN 0 knows of no other dead than those beside a. */
static void forget_other_dead(struct cache_world *cw, uint8_t *memory)
{
	uint64_t slot, word;

	if (!world_find(cw, memory, world_key_index('a'), &slot, &word))
		return;
	for (uint32_t chunk = 0; chunk < cw->pool.plan.chunk_count; chunk++)
		if (chunk != plan_chunk_of_pointer(&cw->pool.plan, index_pointer(word)))
			cn_forget_dead(&cw->cns[0], chunk);
}

/* Five chunks: beyond 7 the ring is overlong, beyond 8 at its end. */
static void overlong(struct cache_world *cw, uint8_t *memory)
{
	lengthen(cw, memory, 8);
}

static void at_its_end(struct cache_world *cw, uint8_t *memory)
{
	lengthen(cw, memory, 9);
}

static const struct world_spec worlds[] = {
    /* --- the index ----------------------------------------------------------------------- */
    {.name = "insert-insert",
     INDEX,
     .keys = "a",
     .before = {OPEN2},
     .workers = {{0, "Sa Ga"}, {1, "Sa Ga"}}},
    {.name = "insert3",
     .kills_long = true,
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
    /* ... and the key moves there while a scan is on its way. */
    {.name = "hole-scan",
     .kills_long = true,
     INDEX,
     .keys = "a",
     .before = {OPEN2, {0, "Sb"}},
     .workers = {{0, "Sa Ka"}, {1, "Db Sa"}}},
    {.name = "hole-get",
     .kills_long = true,
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Ga Ga"}}},
    {.name = "hole-get3",
     .kills_long = true,
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Ga Ga Ga"}}},
    {.name = "hole-set",
     .kills_long = true,
     INDEX,
     .keys = "a",
     .before = {OPEN3, {0, "Sb"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Sa Ga"}}},
    {.name = "hole-delete",
     .kills_long = true,
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
    {.name = "slow-insert-get",
     .kills_long = true,
     SLOW,
     .workers = {{0, "Sa"}, {1, "Db Sa" EVICT_Z "Ga"}, {2, "Ga"}}},
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
    /* A chunk is fetched before it is needed, by another flow of the lane, too. */
    {.name = "ahead-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_a,
     .workers = {{0, "Q Ss"}, {1, "Ga Sb"}}},
    {.name = "ahead-set",
     .search = WORLD_RANDOM,
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_a,
     .workers = {{0, "Ss Ga"}, {0, "Q"}, {1, "Ga"}}},
    {.name = "ahead-both",
     .search = WORLD_RANDOM,
     .chunk_count = 24,
     .group_objects = 2,
     .cn_max = 2,
     .keys = "ab",
     .workers =
	 {{0, "N40 Sa N10 Ga"}, {0, "Q Q Q Q Q Q Q Q"}, {1, "N40 Sb N10 Ga"}, {1, "Q Q Q Q Q Q"}}},
    {.name = "regroup-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Ga Ga"}}},
    {.name = "regroup-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Sa Ga"}}},
    {.name = "regroup-delete",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_a,
     .workers = {{0, "Ss Ga"}, {1, "Da Sa"}}},
    {.name = "damaged-regroup",
     .no_kills = true,
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = damage_hot_a,
     .workers = {{0, "Ss Ga"}, {1, "Gb Ga"}}},
    {.name = "requeue-set",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = world_heat_ab,
     .workers = {{0, "Ss Ga"}, {1, "Sa Gb"}}},
    {.name = "reuse-get",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .workers = {{0, "Ss Sa Sb"}, {1, "Ga Ga"}}},
    /* Both evict; a producer that is late is skipped, a dequeuer that is late overtaken. */
    {.name = "evict-evict",
     EVICT,
     .impatient = true,
     .keys = "ab",
     .before = {FULL, {1, "St"}},
     .workers = {{0, "Ss"}, {1, "Su"}}},
    {.name = "evict-evict-get",
     EVICT,
     .search = WORLD_EXPLORE_LONG,
     .impatient = true,
     .keys = "ab",
     .before = {FULL, {1, "St"}},
     .workers = {{0, "Ss"}, {1, "Su"}, {2, "Ga"}}},
    /* Nothing but what the two seal is in the ring: who is late with it is skipped. */
    {.name = "skip-producer",
     .chunk_count = 3,
     .group_objects = 2,
     .impatient = true,
     .keys = "a",
     .before = {{0, "Sa Sn"}, {1, "Sp Sq"}},
     .workers = {{0, "So"}, {1, "Sr Ss St"}}},
    /* Who claims a group is late, and somebody else has the next ticket for its node. */
    {.name = "evict-trip",
     EVICT,
     .impatient = true,
     .keys = "a",
     .before = {{1, "Sa Sb Sc Sd Sn So Sp Sq Sr Ss"}},
     TRIP,
     .workers = {{0, "Sx"}, {1, "St Su Sv"}}},
    /* ... while a third evicts, so that head comes to that ticket, too. */
    {.name = "evict-trip3",
     .search = WORLD_RANDOM,
     .chunk_count = 6,
     .group_objects = 2,
     .impatient = true,
     .keys = "a",
     .before = {{1, "Sa Sb Sc Sd Sn So Sp Sq Sr Ss St Su"}},
     TRIP,
     .workers = {{0, "N6"}, {1, "N6"}, {2, "N6"}}},
    /*
     * The pool is full, all of it but a and b is dead, and the next chunk comes from the group of
     * a, which has to be moved.  Whoever looks for a meanwhile finds it.
     */
    {.name = "move-get",
     .chunk_count = 32,
     .group_objects = 3,
     .exact = true,
     .keys = "abc",
     .before = {{0, "Sa Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb"
		    " Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb"
		    " Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb"
		    " Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb Sb"}},
     .prepare = forget_other_dead,
     .workers = {{0, "Sc"}, {1, "Ga Ga"}}},
    /*
     * c and d were updated again and again, which left positions behind; nothing need go, though
     * a and b lie at the head of an overlong ring.
     */
    {.name = "overlong",
     .chunk_count = 5,
     .group_objects = 2,
     .exact = true,
     .keys = "abcd",
     .before = {{0, "Sa Sb Sc Sd Sc Sd Sc Sd Sc Sd"}},
     .prepare = overlong,
     .workers = {{0, "Sc Ga"}, {1, "Gb"}}},
    {.name = "overlong-end",
     .chunk_count = 5,
     .group_objects = 2,
     .exact = true,
     .keys = "abcd",
     .before = {{0, "Sa Sb Sc Sd Sc Sd Sc Sd Sc Sd"}},
     .prepare = at_its_end,
     .workers = {{0, "Sc Ga"}, {1, "Gb"}}},
    /* Two make it shorter at once, and b has died in the group at its head. */
    {.name = "overlong-both",
     .kills_long = true,
     .chunk_count = 5,
     .group_objects = 2,
     .keys = "abc",
     .before = {{0, "Sa Sb Sb Sc Sb Sc"}, {1, "Sn So"}, {0, "Y"}, {1, "Y"}},
     .prepare = overlong,
     .workers = {{0, "Sb Sc"}, {1, "Sp Ga"}}},
    /* CN 0 knows a dead group, which is also the next to be evicted; it uses the chunk again. */
    {.name = "compact-evict",
     .kills_long = true,
     .chunk_count = 5,
     .group_objects = 2,
     .impatient = true,
     .keys = "ab",
     .before = {{0, "Sa Sb Sn So Sa Sb"}, {1, "Sp Sq Sr Ss"}, {0, "Y"}},
     .workers = {{0, "St Su Sv"}, {1, "Sw"}}},
    {.name = "compact-row",
     .chunk_count = 5,
     .group_objects = 2,
     .keys = "ab",
     .before = {{0, "Sa Sb Sn So Sa Sb"}, {1, "Sp Sq Sr Ss"}, {0, "Y"}},
     .prepare = fill_first_row,
     .expect = expect_first_row_empty,
     .workers = {{0, "St"}, {1, "Ga"}}},
    {.name = "compact-set",
     .chunk_count = 5,
     .group_objects = 2,
     .keys = "ab",
     .before = {{0, "Sa Sb Sn So Sb Sn"}, {1, "Sp Sq Sr Ss"}, {0, "Y"}},
     .workers = {{0, "St Ga"}, {1, "Sa Ga"}}},
    /* CN 0 goes round the ring twice while CN 1 evicts one group. */
    {.name = "evict-lap",
     .search = WORLD_RANDOM,
     .chunk_count = 4,
     .group_objects = 2,
     .keys = "a",
     .before = {{1, "Sa Sn So Sp"}, {0, "Sq Sr Ss St"}, {1, "Y"}},
     .workers = {{0, "N44"}, {1, "Su"}}},
    /* The flushes of two CNs, and an eviction that waits for them or does not. */
    {.name = "flush-both",
     EVICT,
     .keys = "a",
     .before = {FULL},
     .prepare = world_heat_a_everywhere,
     .expect = expect_no_carry,
     .workers = {{0, "Y"}, {1, "Y"}}},
    {.name = "flush-evict",
     .kills_long = true,
     EVICT,
     .cn_max = 3,
     .keys = "a",
     .before = {FULL},
     .prepare = world_heat_a_everywhere,
     .workers = {{0, "Ss"}, {1, "Y"}, {2, "Y"}}},
    {.name = "requeue-note",
     EVICT,
     .keys = "ab",
     .before = {FULL},
     .prepare = heat_ab_and_a_later,
     .expect = expect_new_trip_counts_anew,
     .workers = {{0, "Ss"}, {1, "Y"}}},
    {.name = "flush-wait",
     EVICT,
     .flush_waits = true,
     .keys = "a",
     .before = {FULL},
     .prepare = heat_a_elsewhere,
     .expect = expect_a_lives,
     .workers = {{0, "Ss"}, {1, "Y"}}},
    {.name = "share-space",
     .chunk_count = 6,
     .group_objects = 2,
     .space_promised = true,
     .keys = "a",
     .workers = {{0, "Sn"}, {1, "So"}, {2, "Sa"}}},
    {.name = "invalid-get",
     .chunk_count = 4,
     .group_objects = 2,
     .keys = "a",
     .before = {{0, "Sa Sn So Sp Sq Sr Ss St Su Sv"}},
     .expect = expect_no_invalid,
     .workers = {{1, "Ga"}, {0, "Sw"}}},
    /* Two workers of a CN fill one lane's group: it is sealed while a Set is under way in it. */
    {.name = "lane-seal",
     INDEX,
     .search = WORLD_EXPLORE_LONG,
     .keys = "ab",
     .before = {{0, "Sn So Sp Sq Sr Ss"}},
     .workers = {{0, "Sa"}, {0, "Sb Sa"}}},
    {.name = "lane-seal2",
     .kills_long = true,
     INDEX,
     .keys = "ab",
     .before = {{0, "Sn So Sp Sq Sr Ss St"}},
     .workers = {{0, "Sa"}, {0, "Sb"}}},
    /*
     * The lane fills two groups for one ring: n, o and what a needs fill the first, p and b the
     * second.  Neither has room for B: the fullest is closed, maybe with the Set of a in it.
     */
    {.name = "fit-seal",
     .kills_long = true,
     FIT,
     .keys = "abB",
     .before = {{0, "Sn So Sp Sb"}},
     .workers = {{0, "Sa"}, {0, "SB"}}},
    {.name = "fit-seal-get",
     .search = WORLD_EXPLORE_LONG,
     FIT,
     .keys = "abB",
     .before = {{0, "Sn So Sp"}},
     .workers = {{0, "Sa"}, {0, "Sb SB"}, {1, "Gb"}}},
    /* The first group is full, the second has no room for b: both Sets may open a third. */
    {.name = "fit-open",
     .search = WORLD_EXPLORE_LONG,
     FIT,
     .keys = "bB",
     .before = {{0, "Sn So Sp Sq Sp"}},
     .workers = {{0, "Sb"}, {0, "SB"}}},
    {.name = "lane-evict",
     .search = WORLD_EXPLORE_LONG,
     .chunk_count = 4,
     .group_objects = 2,
     .keys = "ab",
     .before = {{0, "Sa Sn So Sp Sq Sr Ss"}},
     .workers = {{0, "Sa"}, {0, "Sb Ga"}}},
    /* A map that is too old to be believed. */
    {.name = "old-map",
     INDEX,
     .map_trust_us = 500,
     .search = WORLD_EXPLORE_LONG,
     .keys = "a",
     .before = {OPEN4, {0, "Sb"}},
     .prepare = outdate_map,
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "Ga Ga"}, {3, "Ga"}}},
    /* A full bucket loses a word while a key is there twice. */
    {.name = "full-bucket",
     .chunk_count = 16,
     .group_objects = 8,
     .search = WORLD_EXPLORE_LONG,
     .keys = "a",
     .before = {OPEN4, {0, "Sb Sc Sd Se Sf Sg Sh Si Sj Sk Sl Sm SC SD SE SG"}},
     .workers = {{0, "Sa"}, {1, "Db Sa"}, {2, "SF"}, {3, "Ga Ga Ga"}}},
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
    {.name = "random-fit",
     .chunk_count = 6,
     .group_objects = 3,
     .open_groups = 2,
     .large = "bBdfnq",
     .search = WORLD_RANDOM,
     .keys = "aAbBcdef",
     .before = {{0, "Sa SA Sb SB"}, {1, "Sc Sd Se Sf"}},
     .workers = {{0, "R12"}, {1, "R12"}}},
    {.name = "random-fit-lane",
     .chunk_count = 7,
     .group_objects = 3,
     .open_groups = 2,
     .large = "bBdfnq",
     .search = WORLD_RANDOM,
     .keys = "aAbBcdefg",
     .before = {{0, "Sa SA Sb SB Sn So"}, {1, "Sc Sd Se Sf Sg Sp"}},
     .workers = {{0, "R8"}, {0, "R8"}, {1, "R8"}, {1, "R8"}}},
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
	return n < ARRAY_COUNT(worlds) ? &worlds[n] : change_world_at(n - ARRAY_COUNT(worlds));
}

const struct world_spec *cache_world_find(const char *name)
{
	for (unsigned i = 0; cache_world_at(i); i++)
		if (strcmp(cache_world_at(i)->name, name) == 0)
			return cache_world_at(i);
	return NULL;
}
