/* world_examine.c: is the pool in order when nothing moves? */
#include <stdio.h>
#include <string.h>

#include "cache_world.h"
#include "pool/object.h"

struct exam {
	const struct cache_world *cw;
	const struct plan *p;
	const uint8_t *memory;
	bool killed; /* some CN: what it left behind is no fault */
	char *why;
	size_t why_bytes;
};

#define FAULT(e, ...) (snprintf((e)->why, (e)->why_bytes, __VA_ARGS__), FORGE_E_CORRUPT)

static uint64_t word_at(const struct exam *e, uint64_t raddr)
{
	uint64_t word;

	memcpy(&word, e->memory + raddr, 8);
	return word;
}

static uint64_t chunk_word(const struct exam *e, uint32_t chunk)
{
	return word_at(e, plan_chunk_word_address(e->p, chunk));
}

/* Is the node at the position, not yet passed by head, this chunk's? */
static int check_node(const struct exam *e, uint32_t chunk, uint64_t word, uint32_t ring)
{
	uint64_t head = word_at(e, plan_head_address(e->p, ring));
	uint64_t tail = word_at(e, plan_tail_address(e->p, ring));
	uint64_t position = chunk_position(word);
	uint64_t node = word_at(e, plan_ring_node_address(e->p, ring, position));

	if (position < head || position >= tail)
		return FAULT(e, "chunk %u is lost: queued at %llu of ring %u, cursors %llu to %llu",
			     chunk, (unsigned long long)position, ring, (unsigned long long)head,
			     (unsigned long long)tail);
	if (node_state(node) != NODE_FULL || node_chunk(node) != chunk ||
	    node_generation(node) != chunk_generation(word) ||
	    node_cycle(node) != (plan_ring_cycle(e->p, position) & (NODE_CYCLE_COUNT - 1)))
		return FAULT(e, "chunk %u is lost: node %llu of ring %u is %016llx", chunk,
			     (unsigned long long)position, ring, (unsigned long long)node);
	return 0;
}

/* Who has the chunk in hand? */
static bool in_hand(const struct exam *e, uint32_t chunk, uint64_t word)
{
	for (uint32_t i = 0; i < e->cw->cn_count; i++) {
		const struct lane *lane = &e->cw->lanes[i];

		if (chunk_owner(word) != e->cw->cns[i].member.cn)
			continue;
		for (uint32_t k = 0; k < lane->reserve_count; k++)
			if (chunk_state(word) == CHUNK_RESERVED &&
			    lane->reserve[k].chunk == chunk &&
			    lane->reserve[k].generation == chunk_generation(word))
				return true;
		for (uint32_t k = 0; k < LANE_GROUPS_MAX; k++)
			if (chunk_state(word) == CHUNK_OPEN &&
			    lane->groups[k].state == OPEN_FILLING &&
			    lane->groups[k].in_flight == 0 && lane->groups[k].word == word)
				return true;
	}
	return false;
}

static int check_chunks(const struct exam *e)
{
	uint32_t held = 0, owned = 0;

	for (uint32_t chunk = 0; chunk < e->p->chunk_count; chunk++) {
		uint64_t word = chunk_word(e, chunk);
		uint32_t state = chunk_state(word);
		int status = 0;

		if (state == CHUNK_QUEUED)
			status = check_node(e, chunk, word, chunk_ring(word));
		else if (state == CHUNK_FREE)
			status = check_node(e, chunk, word, RING_FREE);
		else if (!in_hand(e, chunk, word))
			return FAULT(e, "chunk %u is lost: in nobody's hand, word %016llx", chunk,
				     (unsigned long long)word);
		else
			owned++;
		if (status)
			return status;
	}
	for (uint32_t i = 0; i < e->cw->cn_count; i++) {
		held += e->cw->lanes[i].reserve_count;
		for (uint32_t k = 0; k < LANE_GROUPS_MAX; k++)
			held += e->cw->lanes[i].groups[k].state != OPEN_UNUSED;
	}
	if (held != owned)
		return FAULT(e, "lanes hold %u chunks, the table says %u", held, owned);
	return 0;
}

/* Is the object that a word points to a member of its sealed group? */
static int check_member(const struct exam *e, uint64_t slot, uint64_t word, uint32_t chunk)
{
	uint64_t owner = chunk_word(e, chunk);
	uint64_t node =
	    word_at(e, plan_ring_node_address(e->p, chunk_ring(owner), chunk_position(owner)));
	uint32_t n = node_object_count(node);
	uint64_t twim[LAYOUT_GROUP_OBJECTS_MAX];
	struct twim_member members[LAYOUT_GROUP_OBJECTS_MAX];

	memcpy(twim, e->memory + plan_twim_address(e->p, chunk, n), n * TWIM_BYTES);
	twim_decode(e->p, chunk, chunk_generation(owner), twim, n, members);
	for (uint32_t sn = 0; sn < n; sn++)
		if (members[sn].units && members[sn].slot == slot && members[sn].word == word)
			return 0;
	return FAULT(e, "slot %llu points to an object its sealed group %u does not know",
		     (unsigned long long)slot, chunk);
}

/* A word of the present life of its chunk. */
static int check_live_word(const struct exam *e, uint64_t slot, uint64_t word, uint32_t chunk)
{
	uint64_t owner = chunk_word(e, chunk);
	const uint8_t *object = e->memory + index_object_address(word);
	uint32_t state = chunk_state(owner);

	if (object_check(object, index_object_bytes(word), 1) != OBJECT_VALID ||
	    object_header(object)->generation != chunk_generation(owner))
		return FAULT(e, "slot %llu points to chunk %u, but no object is there",
			     (unsigned long long)slot, chunk);
	struct index_home home =
	    index_locate(e->p, object_key(object), object_header(object)->key_bytes);

	if (home.fingerprint != index_fingerprint(word) ||
	    slot - index_slot_number(&home, 0) >= LAYOUT_NEIGHBOURHOOD)
		return FAULT(e, "slot %llu points to another key's object",
			     (unsigned long long)slot);
	if (state == CHUNK_FREE || state == CHUNK_RESERVED)
		return FAULT(e, "slot %llu points into chunk %u, which holds nothing",
			     (unsigned long long)slot, chunk);
	if (state == CHUNK_QUEUED && !e->killed)
		return check_member(e, slot, word, chunk);
	return 0;
}

static int check_index(const struct exam *e)
{
	uint64_t slot_count = plan_slot_count(e->p);
	const uint8_t *seen[64];
	uint32_t seen_count = 0;

	for (uint64_t slot = 0; slot < slot_count; slot++) {
		uint64_t word = word_at(e, plan_slot_address(e->p, slot));
		uint32_t chunk = plan_chunk_of_pointer(e->p, index_pointer(word));

		if (!index_is_object(word))
			continue;
		if (chunk == UINT32_MAX)
			return FAULT(e, "slot %llu points out of the chunks",
				     (unsigned long long)slot);
		if (index_generations_behind(e->p, word, chunk_generation(chunk_word(e, chunk))))
			continue;
		int status = check_live_word(e, slot, word, chunk);

		if (status)
			return status;
		const uint8_t *object = e->memory + index_object_address(word);

		for (uint32_t i = 0; i < seen_count && !e->killed; i++)
			if (object_key_is(seen[i], object_key(object),
					  object_header(object)->key_bytes))
				return FAULT(e, "two live words for the key of slot %llu",
					     (unsigned long long)slot);
		if (seen_count < ARRAY_COUNT(seen))
			seen[seen_count++] = object;
	}
	return 0;
}

static int check_rows(const struct exam *e)
{
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++)
		for (uint64_t i = 0; i < (uint64_t)e->p->ofm_rows * e->p->ofm_row_bytes; i++)
			if (e->memory[e->p->ofm_offset[ring] + i] > e->cw->rows_max)
				return FAULT(e, "hotness row %llu of ring %u, byte %llu is %u",
					     (unsigned long long)(i / e->p->ofm_row_bytes), ring,
					     (unsigned long long)(i % e->p->ofm_row_bytes),
					     e->memory[e->p->ofm_offset[ring] + i]);
	return 0;
}

int world_examine(const struct cache_world *cw, const struct sim *s, char *why, size_t why_bytes)
{
	struct exam e = {.cw = cw,
			 .p = &cw->pool.plan,
			 .memory = sim_memory(s),
			 .why = why,
			 .why_bytes = why_bytes};

	for (uint32_t i = 0; i < cw->cn_count; i++)
		e.killed = e.killed || sim_cn_is_killed(s, i);
	int status = check_rows(&e);

	if (!status)
		status = check_index(&e);
	if (!status && !e.killed)
		status = check_chunks(&e);
	return status;
}
