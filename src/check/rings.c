/*
 * rings.c: the registry, the chunk words, the ring nodes and the OFM rows.
 *
 * The chunk word is the point of truth, so it is judged first; a node is then judged by the
 * chunk it names.  Positions in a chunk word are cut to 36 bits and cycles in a node to 14; both
 * are completed from tail, which no word READ before it can be ahead of.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "check/inside.h"

#define POSITION_MASK ((UINT64_C(1) << CHUNK_POSITION_BITS) - 1)

int check_position(const struct layout_cursors *cursors, uint32_t ring, uint64_t word,
		   uint64_t *position)
{
	uint64_t tail = cursors->ring[ring].tail;
	uint64_t behind = (tail - chunk_position(word)) & POSITION_MASK;

	if (behind == 0 || behind > min_u64(tail, POSITION_MASK / 2))
		return 0;
	*position = tail - behind;
	return 1;
}

int check_node_names(const struct plan *p, uint64_t node, uint64_t position, uint32_t chunk,
		     uint32_t generation)
{
	return node_state(node) == NODE_FULL &&
	       node_cycle(node) == (plan_ring_cycle(p, position) & (NODE_CYCLE_COUNT - 1)) &&
	       node_chunk(node) == chunk && node_generation(node) == generation &&
	       node_object_count(node) <= p->group_objects;
}

/* ---- registry ----------------------------------------------------------------------------- */

static MAY_WAIT int look_line(struct check *c, uint64_t cn, int fresh, struct check_verdict *v)
{
	uint64_t address = plan_registry_address(c->plan, (uint32_t)cn);
	struct layout_registry line = c->lines[cn];
	struct layout_cursors cursors = c->cursors;
	int status = fresh ? check_read(c, address, &line, sizeof(line)) : 0;

	if (!status && fresh)
		status = check_read(c, c->plan->cursors_offset, &cursors, sizeof(cursors));
	if (status)
		return status;
	uint32_t state = registry_state(line.id);

	if (!fresh) {
		c->out->cns_live += state == REGISTRY_LIVE;
		c->out->cns_dead += state == REGISTRY_DEAD || state == REGISTRY_RECOVERING;
	}
	if (state == REGISTRY_FREE && registry_pid(line.id) != 0)
		VERDICT(v, REGISTRY_LINE, address, line.id, "line %u is free, but names process %u",
			(unsigned)cn, registry_pid(line.id));
	else if (line.zero != 0)
		VERDICT(v, REGISTRY_LINE, address, line.id,
			"line %u has %016" PRIx64 " where zero is", (unsigned)cn, line.zero);
	for (unsigned r = 0; r < RING_QUEUES && state == REGISTRY_LIVE; r++)
		if (line.flushed[r] > check_end(c->plan, &cursors, r) && v->rule == CHECK_NONE)
			VERDICT(v, REGISTRY_FLUSHED, address, line.id,
				"node %u flushed ring %u up to %" PRIu64 ", but tail is %" PRIu64,
				(unsigned)cn, r, line.flushed[r], cursors.ring[r].tail);
	return 0;
}

/* ---- chunk words -------------------------------------------------------------------------- */

/* The word of that state, ring, owner, generation and position, and nothing else. */
static int word_well_formed(uint64_t word)
{
	uint32_t generation = chunk_generation(word), owner = chunk_owner(word);
	uint32_t ring = chunk_ring(word);
	uint64_t position = chunk_position(word);

	switch (chunk_state(word)) {
	case CHUNK_FREE:
		return word == chunk_pack_free(generation, position);
	case CHUNK_RESERVED:
		return word == chunk_pack_reserved(owner, generation);
	case CHUNK_OPEN:
		return word == chunk_pack_open(owner, generation);
	case CHUNK_QUEUED:
		return ring < RING_QUEUES && word == chunk_pack_queued(ring, generation, position);
	case CHUNK_EVICTING:
		return ring < RING_QUEUES;
	case CHUNK_PART:
		return word == chunk_pack_part(generation, position);
	}
	return 0;
}

static void count_chunk(struct check *c, uint64_t word)
{
	struct check_report *o = c->out;

	if (!word_well_formed(word)) {
		o->chunks_invalid++;
		return;
	}
	switch (chunk_state(word)) {
	case CHUNK_FREE:
		o->chunks_free++;
		break;
	case CHUNK_RESERVED:
		o->chunks_reserved++;
		break;
	case CHUNK_OPEN:
		o->chunks_open++;
		break;
	case CHUNK_QUEUED:
		o->chunks_queued++;
		o->groups_small += chunk_ring(word) == RING_SMALL;
		o->groups_main += chunk_ring(word) == RING_MAIN;
		break;
	case CHUNK_EVICTING:
		o->chunks_evicting++;
		break;
	case CHUNK_PART:
		o->chunks_part++;
		break;
	}
}

/* All that a chunk word is judged by. */
struct chunk_look {
	uint64_t word, node, owner_id;
	struct layout_cursors cursors;
	int changed;
};

static MAY_WAIT int chunk_look(struct check *c, uint32_t chunk, int fresh, struct chunk_look *l)
{
	const struct plan *p = c->plan;
	uint64_t address = plan_chunk_word_address(p, chunk), again;

	*l = (struct chunk_look){.word = c->words[chunk], .cursors = c->cursors};
	int status = fresh ? check_read(c, address, &l->word, 8) : 0;
	uint32_t owner = chunk_owner(l->word), ring = chunk_ring(l->word);
	uint64_t index = chunk_position(l->word) & (p->ring_nodes - 1);

	if (status)
		return status;
	if (!fresh) {
		l->owner_id = owner < p->cn_max ? c->lines[owner].id : 0;
		l->node = ring < RING_COUNT ? c->nodes[ring][index] : 0;
		return 0;
	}
	if (owner < p->cn_max)
		status = check_read(c, plan_registry_address(p, owner), &l->owner_id, 8);
	if (!status && ring < RING_COUNT)
		status = check_read(c, plan_ring_node_address(p, ring, index), &l->node, 8);
	if (!status)
		status = check_read(c, p->cursors_offset, &l->cursors, sizeof(l->cursors));
	if (!status)
		status = check_read(c, address, &again, 8);
	l->changed = !status && again != l->word;
	return status;
}

static void judge_owner(const struct check *c, uint64_t address, const struct chunk_look *l,
			struct check_verdict *v)
{
	uint32_t owner = chunk_owner(l->word), state = registry_state(l->owner_id);
	int dead =
	    state != REGISTRY_LIVE || (c->options->dead_cns[owner / 64 % 2] >> (owner % 64) & 1);

	if (owner >= c->plan->cn_max)
		VERDICT(v, CHUNK_OWNER, address, l->word, "%016" PRIx64 ": owner %u of %u", l->word,
			owner, c->plan->cn_max);
	else if (state == REGISTRY_FREE || (dead && !c->options->crashed))
		VERDICT(v, CHUNK_OWNER, address, l->word, "%016" PRIx64 ": owner %u is %s", l->word,
			owner, state == REGISTRY_FREE ? "not attached" : "dead");
	else if (chunk_state(l->word) == CHUNK_EVICTING && check_at_rest(c))
		VERDICT(v, CHUNK_CLAIMED, address, l->word,
			"%016" PRIx64 ": evicting by %u, but nothing is running", l->word, owner);
}

static void judge_position(struct check *c, uint32_t chunk, uint64_t address,
			   const struct chunk_look *l, int fresh, struct check_verdict *v)
{
	const struct plan *p = c->plan;
	uint32_t ring = chunk_ring(l->word), generation = chunk_generation(l->word);
	uint64_t position;

	if (!check_position(&l->cursors, ring, l->word, &position)) {
		VERDICT(v, CHUNK_POSITION, address, l->word,
			"%016" PRIx64 ": position %" PRIu64 " of ring %u, whose tail is %" PRIu64,
			l->word, chunk_position(l->word), ring, l->cursors.ring[ring].tail);
		return;
	}
	if (chunk_state(l->word) == CHUNK_EVICTING)
		return;
	uint64_t cycle = plan_ring_cycle(p, position) & (NODE_CYCLE_COUNT - 1);
	int names = check_node_names(p, l->node, position, chunk, generation);

	if (names && position >= l->cursors.ring[ring].head)
		return;
	if (!names && node_state(l->node) == NODE_FULL && node_cycle(l->node) == cycle) {
		VERDICT(v, CHUNK_NODE, address, l->word,
			"%016" PRIx64 ": node %016" PRIx64 " at its position %" PRIu64
			" names chunk %u, generation %u",
			l->word, l->node, position, node_chunk(l->node), node_generation(l->node));
		return;
	}
	c->out->chunks_in_transit += !fresh;
	if (check_at_rest(c))
		VERDICT(v, CHUNK_TRANSIT, address, l->word,
			"%016" PRIx64 ": position %" PRIu64 " of ring %u, head %" PRIu64
			", node %016" PRIx64 ": no dequeuer will find it",
			l->word, position, ring, l->cursors.ring[ring].head, l->node);
}

/*
 * Each life of a chunk begins with a ticket of its own, in the free ring or, when it went from an
 * eviction to the next group at once, in a queue.
 */
static int generation_possible(const struct check *c, uint32_t generation)
{
	uint32_t reuses = (generation - 1) & (LAYOUT_GENERATION_COUNT - 1);
	uint64_t tickets = 0;

	for (uint32_t ring = 0; ring < RING_COUNT; ring++) {
		uint64_t tail = c->cursors.ring[ring].tail;

		if (tail >= LAYOUT_GENERATION_COUNT)
			return 1;
		tickets += tail;
	}
	return reuses <= tickets;
}

static MAY_WAIT int look_chunk(struct check *c, uint64_t id, int fresh, struct check_verdict *v)
{
	uint32_t chunk = (uint32_t)id;
	uint64_t address = plan_chunk_word_address(c->plan, chunk);
	struct chunk_look l;
	int status = chunk_look(c, chunk, fresh, &l);

	if (status || l.changed)
		return status;
	if (!fresh)
		count_chunk(c, l.word);
	if (!word_well_formed(l.word)) {
		VERDICT(v, CHUNK_WORD, address, l.word,
			"%016" PRIx64 ": state %u, ring %u, owner %u, position %" PRIu64, l.word,
			chunk_state(l.word), chunk_ring(l.word), chunk_owner(l.word),
			chunk_position(l.word));
		return 0;
	}
	if (!generation_possible(c, chunk_generation(l.word))) {
		VERDICT(v, CHUNK_GENERATION, address, l.word,
			"%016" PRIx64 ": generation %u, but too few tickets were handed out",
			l.word, chunk_generation(l.word));
		return 0;
	}
	switch (chunk_state(l.word)) {
	case CHUNK_EVICTING:
		judge_owner(c, address, &l, v);
		if (v->rule == CHECK_NONE)
			judge_position(c, chunk, address, &l, fresh, v);
		break;
	case CHUNK_RESERVED:
	case CHUNK_OPEN:
		judge_owner(c, address, &l, v);
		break;
	case CHUNK_QUEUED:
	case CHUNK_FREE:
		judge_position(c, chunk, address, &l, fresh, v);
		break;
	}
	return 0;
}

/* Where a chunk word says the chunk is: (ring, position) as one number; 0 for nowhere. */
static uint64_t place_of(uint64_t word)
{
	uint32_t state = chunk_state(word);

	if (state != CHUNK_QUEUED && state != CHUNK_EVICTING && state != CHUNK_FREE)
		return 0;
	return (uint64_t)(chunk_ring(word) + 1) << CHUNK_POSITION_BITS | chunk_position(word);
}

static int by_place(const void *a, const void *b, void *words)
{
	uint64_t x = place_of(((uint64_t *)words)[*(const uint32_t *)a]);
	uint64_t y = place_of(((uint64_t *)words)[*(const uint32_t *)b]);

	return (x > y) - (x < y);
}

/* Tickets are handed out once, so two words READ at different times may be compared. */
static MAY_WAIT int judge_sharing(struct check *c, uint32_t a, uint32_t b)
{
	uint64_t address = plan_chunk_word_address(c->plan, a), now[2];
	struct check_verdict v;
	int status = check_read(c, address, &now[0], 8);

	if (!status)
		status = check_read(c, plan_chunk_word_address(c->plan, b), &now[1], 8);
	if (status)
		return status;
	if (place_of(now[0]) != place_of(c->words[a]) || place_of(now[1]) != place_of(now[0])) {
		c->out->unstable++;
		return 0;
	}
	VERDICT(&v, CHUNK_SHARED, address, now[0],
		"chunks %u and %u are both at position %" PRIu64 " of ring %u", a, b,
		chunk_position(now[0]), chunk_ring(now[0]));
	check_report_verdict(c, &v);
	return 0;
}

static MAY_WAIT int check_sharing(struct check *c)
{
	uint32_t n = c->plan->chunk_count;
	uint32_t *order = malloc(n * sizeof(*order));
	int status = 0;

	if (!order)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	qsort_r(order, n, sizeof(*order), by_place, c->words);
	for (uint32_t i = 1; i < n && !status; i++) {
		uint64_t place = place_of(c->words[order[i]]);

		if (place != 0 && place == place_of(c->words[order[i - 1]]))
			status = judge_sharing(c, order[i - 1], order[i]);
	}
	free(order);
	return status;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static int node_well_formed(const struct plan *p, uint32_t ring, uint64_t node)
{
	if (node_state(node) == NODE_EMPTY)
		return node == node_pack_empty(node_cycle(node));
	return ring_node_valid(p, node) &&
	       (ring != RING_FREE || (node_object_count(node) == 1 && node_segment(node) == 0));
}

enum node_kind {
	KIND_FULL,
	KIND_STALE,
	KIND_PASSED,
	KIND_UNFILLED,
	KIND_LEFTOVER,
	KIND_EMPTY,
	KIND_AHEAD,
};

/*
 * What a well-formed node is.  Its last position with a ticket is the largest below tail; the
 * cycle says by how many trips the node differs from it.
 */
static enum node_kind node_kind(const struct plan *p, uint32_t ring, uint64_t index, uint64_t node,
				const struct layout_cursors *cursors, uint64_t word)
{
	uint64_t head = cursors->ring[ring].head, tail = check_end(p, cursors, ring);
	uint64_t trips = (tail + p->ring_nodes - 1 - index) / p->ring_nodes; /* tickets so far */
	uint32_t behind = ((uint32_t)trips - node_cycle(node)) & (NODE_CYCLE_COUNT - 1);

	if (behind >= NODE_CYCLE_COUNT / 2 || behind > trips)
		return KIND_AHEAD;
	/* behind 0: the node is of the trip that comes next; 1: of the last one with a ticket. */
	uint64_t position = (trips - behind) * p->ring_nodes + index;

	if (node_state(node) == NODE_EMPTY) {
		/* Claims from the middle leave passed nodes in [head, tail). */
		if (behind == 0)
			return trips > 0 && position - p->ring_nodes >= head ? KIND_PASSED
									     : KIND_EMPTY;
		return behind == 1 && position >= head ? KIND_UNFILLED : KIND_LEFTOVER;
	}
	if (behind == 0)
		return KIND_AHEAD;
	uint32_t state = ring == RING_FREE ? CHUNK_FREE : CHUNK_QUEUED;

	if (chunk_state(word) == state && chunk_ring(word) == ring &&
	    chunk_generation(word) == node_generation(node) &&
	    chunk_position(word) == (position & POSITION_MASK))
		return KIND_FULL;
	return position >= head ? KIND_STALE : KIND_LEFTOVER;
}

/*
 * A FULL node of a life that has not begun: who polls would believe it, and take the chunk's
 * objects for stale.  If the chunk word names this node CHUNK_NODE has said so.  In the free ring,
 * which nobody polls, a recoverer that lost the chunk to somebody leaves such nodes.
 */
static int node_is_newer(const struct plan *p, uint32_t ring, uint64_t index, uint64_t node,
			 uint64_t word)
{
	uint32_t ahead =
	    (node_generation(node) - chunk_generation(word)) & (LAYOUT_GENERATION_COUNT - 1);
	int named = chunk_state(word) == CHUNK_QUEUED && chunk_ring(word) == ring &&
		    (chunk_position(word) & (p->ring_nodes - 1)) == index;

	return ring < RING_QUEUES && node_state(node) == NODE_FULL && ahead != 0 &&
	       ahead < LAYOUT_GENERATION_COUNT / 2 && !named;
}

static void count_node(struct check *c, enum node_kind kind)
{
	struct check_report *o = c->out;

	switch (kind) {
	case KIND_FULL:
		o->nodes_full++;
		break;
	case KIND_STALE:
		o->nodes_stale++;
		break;
	case KIND_PASSED:
		o->nodes_passed++;
		break;
	case KIND_UNFILLED:
		o->nodes_unfilled++;
		break;
	case KIND_LEFTOVER:
		o->nodes_leftover++;
		break;
	case KIND_EMPTY:
		o->nodes_empty++;
		break;
	case KIND_AHEAD:
		o->nodes_invalid++;
		break;
	}
}

/* READ the node, what it is judged by, and the node again. */
static MAY_WAIT int reread_node(struct check *c, uint64_t address, uint64_t *node, uint64_t *word,
				struct layout_cursors *cursors, int *changed)
{
	uint64_t again;
	int status = check_read(c, address, node, 8);

	if (!status && node_chunk(*node) < c->plan->chunk_count)
		status =
		    check_read(c, plan_chunk_word_address(c->plan, node_chunk(*node)), word, 8);
	if (!status)
		status = check_read(c, c->plan->cursors_offset, cursors, sizeof(*cursors));
	if (!status)
		status = check_read(c, address, &again, 8);
	*changed = !status && again != *node;
	return status;
}

/* id: ring * ring_nodes + index */
static MAY_WAIT int look_node(struct check *c, uint64_t id, int fresh, struct check_verdict *v)
{
	const struct plan *p = c->plan;
	uint32_t ring = (uint32_t)(id / p->ring_nodes);
	uint64_t index = id % p->ring_nodes, address = p->ring_offset[ring] + 8 * index;
	uint64_t node = c->nodes[ring][index], word = 0;
	struct layout_cursors cursors = c->cursors;
	int changed = 0, status = 0;

	if (fresh)
		status = reread_node(c, address, &node, &word, &cursors, &changed);
	else if (node_chunk(node) < p->chunk_count)
		word = c->words[node_chunk(node)];
	if (status || changed)
		return status;
	if (!node_well_formed(p, ring, node)) {
		c->out->nodes_invalid += !fresh;
		VERDICT(v, NODE_WORD, address, node,
			"%016" PRIx64 ": state %u, chunk %u, %u objects", node, node_state(node),
			node_chunk(node), node_object_count(node));
		return 0;
	}
	enum node_kind kind = node_kind(p, ring, index, node, &cursors, word);
	uint64_t head = cursors.ring[ring].head, tail = cursors.ring[ring].tail;

	if (!fresh)
		count_node(c, kind);
	if (kind == KIND_AHEAD)
		VERDICT(v, NODE_CYCLE, address, node,
			"%016" PRIx64 ": %s in cycle %u is ahead of head %" PRIu64
			", tail %" PRIu64,
			node, node_state(node) == NODE_FULL ? "FULL" : "EMPTY", node_cycle(node),
			head, tail);
	else if (node_is_newer(p, ring, index, node, word))
		VERDICT(v, NODE_NEWER, address, node,
			"%016" PRIx64 ": chunk %u in generation %u, but its word is %016" PRIx64,
			node, node_chunk(node), node_generation(node), word);
	else if (kind == KIND_UNFILLED && check_at_rest(c))
		VERDICT(v, NODE_UNFILLED, address, node,
			"%016" PRIx64 ": EMPTY between head %" PRIu64 " and tail %" PRIu64, node,
			head, tail);
	else if (kind == KIND_LEFTOVER && check_at_rest(c))
		VERDICT(v, NODE_LEFTOVER, address, node,
			"%016" PRIx64 ": cycle %u is over, head %" PRIu64 ", tail %" PRIu64, node,
			node_cycle(node), head, tail);
	return 0;
}

/* ---- OFM rows ----------------------------------------------------------------------------- */

/* Counts outside the window are late flushes: reported, harmless. */
static MAY_WAIT int count_rows(struct check *c, uint32_t ring)
{
	const struct plan *p = c->plan;
	uint64_t head = c->cursors.ring[ring].head;

	for (uint64_t row = 0; row < p->ofm_rows; row++) {
		uint8_t *counts = (uint8_t *)c->piece;
		uint64_t sum = 0;

		if (((row - head) & (p->ofm_rows - 1)) < plan_window_most(p))
			continue;
		int status =
		    check_read(c, plan_ofm_row_address(p, ring, row), counts, p->ofm_row_bytes);

		if (status)
			return status;
		for (uint32_t i = 0; i < p->ofm_row_bytes; i++)
			sum += counts[i];
		c->out->ofm_rows_counted += sum != 0;
		c->out->ofm_counts += sum;
	}
	return 0;
}

int check_rings(struct check *c)
{
	const struct plan *p = c->plan;
	int status = 0;

	for (uint32_t cn = 0; cn < p->cn_max && !status; cn++)
		status = check_judge(c, look_line, cn);
	for (uint32_t chunk = 0; chunk < p->chunk_count && !status; chunk++)
		status = check_judge(c, look_chunk, chunk);
	if (!status)
		status = check_sharing(c);
	for (uint64_t id = 0; id < RING_COUNT * (uint64_t)p->ring_nodes && !status; id++)
		status = check_judge(c, look_node, id);
	for (uint32_t ring = 0; ring < RING_QUEUES && !status; ring++)
		status = count_rows(c, ring);
	return status;
}
