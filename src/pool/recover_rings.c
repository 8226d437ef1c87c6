/*
 * recover_rings.c: chunks that no ring can find, and nodes of the rings that somebody left behind,
 * whoever it was: what a recovery looks at when the dead one's own chunks are taken back.
 */
#include "pool/recover_inside.h"

static MAY_WAIT int read_rings(struct recover *r, struct worker *w)
{
	const struct plan *p = &r->pool->plan;
	int status = 0;

	for (uint32_t ring = 0; ring < RING_COUNT && !status; ring++)
		status =
		    recover_read_words(w, p->ring_offset[ring],
				       r->nodes + (uint64_t)ring * p->ring_nodes, p->ring_nodes);
	return status;
}

/* How often to look before acting on what may be in the hands of a live node. */
static unsigned looks(const struct recover *r)
{
	return unlikely(r->pool->impatient) ? 0 : RECOVER_LOOKS;
}

/* ---- orphans ------------------------------------------------------------------------------ */

static uint32_t ring_of(uint64_t word)
{
	return chunk_state(word) == CHUNK_FREE ? RING_FREE : chunk_ring(word);
}

/*
 * The position in a chunk word has 36 bits; the ticket it stands for is the one nearest to tail.
 */
static uint64_t full_position(uint64_t word, uint64_t tail)
{
	uint64_t mask = (UINT64_C(1) << CHUNK_POSITION_BITS) - 1;

	return tail - ((tail - chunk_position(word)) & mask);
}

/* Does the node say what the chunk word at position p would have a dequeuer find? */
static int node_names(const struct plan *p, uint64_t node, uint64_t position, uint32_t chunk,
		      uint64_t word)
{
	return node_state(node) == NODE_FULL && node_chunk(node) == chunk &&
	       node_generation(node) == chunk_generation(word) &&
	       node_cycle(node) == (plan_ring_cycle(p, position) & (NODE_CYCLE_COUNT - 1));
}

struct orphan {
	uint32_t chunk, ring;
	uint64_t word, position, node;
	int named; /* the node is there, only head has passed it */
};

/* Is the chunk queued or free, and will no dequeuer ever find it? */
static int is_orphan(const struct plan *p, const struct layout_cursors *cursors, uint64_t node,
		     struct orphan *o)
{
	uint64_t head = cursors->ring[o->ring].head, tail = cursors->ring[o->ring].tail;

	o->position = full_position(o->word, tail);
	o->node = node;
	o->named = node_names(p, node, o->position, o->chunk, o->word);
	return !o->named || (int64_t)(o->position - head) < 0;
}

/*
 * Does it stay one over RECOVER_LOOKS looks?  *still
 *
 * A changed word means that somebody has it in hand: a live node, or another recoverer, who, if
 * it dies, leaves the line it recovers taken, so that all this is done again.  A changed node
 * means nothing of that kind: whoever passes it (a dequeuer, the second half of another recovery)
 * moves it on without a look at the chunk.  Then the looks start again; after so many changes
 * enough time has passed all the same.
 */
static MAY_WAIT int look_again(struct recover *r, struct worker *w, struct orphan *o, int *still)
{
	const struct plan *p = &r->pool->plan;
	unsigned changes = 0;

	*still = 1;
	for (unsigned look = 0; look < looks(r); look++) {
		struct layout_cursors cursors;
		uint64_t word, node, seen = o->node;
		struct fab_op ops[] = {
		    fab_read(FAB_CONTROL, plan_chunk_word_address(p, o->chunk), &word, 8),
		    fab_read(FAB_CONTROL, plan_ring_node_address(p, o->ring, o->position), &node,
			     8),
		    fab_read(FAB_CONTROL, p->cursors_offset, &cursors, sizeof(cursors)),
		};

		flow_pause(w);
		int status = flow_run(w, ops, ARRAY_COUNT(ops));

		*still = !status && word == o->word && is_orphan(p, &cursors, node, o);
		if (!*still)
			return status;
		if (node != seen && changes++ < RECOVER_NODE_CHANGES_MAX)
			look = 0;
	}
	return 0;
}

static MAY_WAIT int adopt(struct recover *r, struct worker *w, struct orphan *o,
			  struct recover_report *report)
{
	int still = 0;
	int status = look_again(r, w, o, &still);

	if (status || !still)
		return status;
	if (o->ring != RING_FREE && !o->named)
		return recover_free_chunk(r, w, o->chunk, o->word, &report->queued_freed, report);
	struct ring_entry entry = {
	    .chunk = o->chunk,
	    .generation = chunk_generation(o->word),
	    .object_count = o->named ? node_object_count(o->node) : 1,
	    .segment = o->named ? node_segment(o->node) : 0,
	    .owned_word = o->word,
	};

	return recover_move_chunk(
	    r, w, o->ring, &entry,
	    o->ring == RING_FREE ? &report->free_again : &report->queued_again, report);
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* A node that is not what its place in the ring asks for, and what it should be. */
struct misfit {
	uint32_t ring;
	uint64_t address, node, settled;
	uint64_t position; /* the ticket of a FULL one */
};

/*
 * The next position at a place of the ring is the first one from head on.  Before tail its node
 * must be FULL in its cycle, or passed already; from tail on it must be EMPTY in its cycle.  What
 * is behind that was left by somebody who died: a producer after its ticket, or a dequeuer before
 * its reset.
 */
static int is_misfit(const struct plan *p, const struct layout_cursors *cursors, uint32_t place,
		     struct misfit *m)
{
	uint64_t head = cursors->ring[m->ring].head, tail = cursors->ring[m->ring].tail;
	uint64_t position = head + ((place - head) & (p->ring_nodes - 1));
	uint64_t cycle = plan_ring_cycle(p, position);
	uint32_t behind = ((uint32_t)cycle - node_cycle(m->node)) & (NODE_CYCLE_COUNT - 1);
	int late = behind != 0 && behind < NODE_CYCLE_COUNT / 2;
	int queued = (int64_t)(tail - position) > 0;

	m->address = plan_ring_node_address(p, m->ring, position);
	m->settled = node_pack_empty(queued ? cycle + 1 : cycle);
	m->position = position - (uint64_t)behind * p->ring_nodes;
	return late || (queued && m->node == node_pack_empty(cycle));
}

/* READ the chunk word of a FULL node; *there says whether the chunk is queued at this node. */
static MAY_WAIT int look_at_chunk(struct recover *r, struct worker *w, const struct misfit *m,
				  uint64_t *word, int *there)
{
	uint32_t chunk = node_chunk(m->node), generation = node_generation(m->node);
	struct fab_op op = fab_read(FAB_CONTROL, plan_chunk_word_address(&r->pool->plan, chunk),
				    word, sizeof(*word));
	int status = flow_run(w, &op, 1);

	*there = !status && *word == (m->ring == RING_FREE
					  ? chunk_pack_free(generation, m->position)
					  : chunk_pack_queued(m->ring, generation, m->position));
	return status;
}

/*
 * Head may have passed a FULL node since the chunks were looked at.  Who moved head may be slow,
 * and not have READ the node yet: were it reset, the chunk would be nobody's.  So its chunk gets
 * a new ticket first.  Once its word is elsewhere it never comes back to this one, so *gone needs
 * no second look.
 */
static MAY_WAIT int rescue_chunk(struct recover *r, struct worker *w, const struct misfit *m,
				 int *gone, struct recover_report *report)
{
	struct orphan o = {.chunk = node_chunk(m->node), .ring = m->ring, .node = m->node};
	int there = 0, status;

	*gone = 1;
	if (node_state(m->node) != NODE_FULL || o.chunk >= r->pool->plan.chunk_count)
		return 0;
	status = look_at_chunk(r, w, m, &o.word, &there);
	if (status || !there)
		return status;
	o.position = m->position;
	status = adopt(r, w, &o, report);
	if (!status)
		status = look_at_chunk(r, w, m, &o.word, &there);
	*gone = !there;
	return status;
}

/* READ the node and the cursors it is judged by.  *misfit */
static MAY_WAIT int look_at_node(struct recover *r, struct worker *w, uint32_t place,
				 struct misfit *m, int *misfit)
{
	struct layout_cursors cursors;
	struct fab_op ops[] = {
	    fab_read(FAB_CONTROL, m->address, &m->node, 8),
	    fab_read(FAB_CONTROL, r->pool->plan.cursors_offset, &cursors, sizeof(cursors)),
	};
	int status = flow_run(w, ops, ARRAY_COUNT(ops));

	*misfit = !status && is_misfit(&r->pool->plan, &cursors, place, m);
	return status;
}

/* Move a misfit on, if it stays what it is.  *changed: it did not, and is another one by now. */
static MAY_WAIT int settle_once(struct recover *r, struct worker *w, uint32_t place,
				struct misfit *m, int *changed, struct recover_report *report)
{
	uint64_t first = m->node;
	int gone = 1, misfit, status = 0;

	*changed = 0;
	if (pool_rule(r->pool, RULE_RECOVER_RESCUES_FIRST))
		status = rescue_chunk(r, w, m, &gone, report);

	if (status || !gone)
		return status;
	for (unsigned look = 0; look < looks(r); look++) {
		flow_pause(w);
		status = look_at_node(r, w, place, m, &misfit);
		*changed = misfit && m->node != first;
		if (status || *changed || !misfit)
			return status;
	}
	struct fab_op cas = pool_rule(r->pool, RULE_RECOVER_NODE_BY_CAS)
				? fab_cas(FAB_CONTROL, m->address, m->node, m->settled)
				: fab_write(FAB_CONTROL, m->address, &m->settled, 8);

	status = flow_run(w, &cas, 1);
	report->nodes_reset += (uint64_t)fab_cas_won(&cas);
	if (status || fab_cas_won(&cas))
		return status;
	return look_at_node(r, w, place, m, changed);
}

/*
 * A node that changed was moved on by a dequeuer of an earlier trip that was late, and not dead;
 * that says nothing of the ticket which the dead one had for it.
 */
static MAY_WAIT int settle(struct recover *r, struct worker *w, uint32_t place, struct misfit *m,
			   struct recover_report *report)
{
	int changed = 1, status = 0;

	for (unsigned i = 0; i <= RECOVER_NODE_CHANGES_MAX && changed && !status; i++)
		status = settle_once(r, w, place, m, &changed, report);
	return status;
}

/* After the chunks: every node that no chunk needs any more. */
static MAY_WAIT int settle_nodes(struct recover *r, struct worker *w, struct recover_report *report)
{
	const struct plan *p = &r->pool->plan;
	struct fab_op op =
	    fab_read(FAB_CONTROL, p->cursors_offset, &r->cursors, sizeof(r->cursors));
	int status = read_rings(r, w);

	if (!status)
		status = flow_run(w, &op, 1);
	for (uint32_t ring = 0; ring < RING_COUNT; ring++)
		for (uint32_t place = 0; place < p->ring_nodes && !status; place++) {
			struct misfit m = {
			    .ring = ring,
			    .node = r->nodes[(uint64_t)ring * p->ring_nodes + place],
			};

			if (is_misfit(p, &r->cursors, place, &m))
				status = settle(r, w, place, &m, report);
		}
	return status;
}

int recover_orphans(struct recover *r, struct worker *w, struct recover_report *report)
{
	const struct plan *p = &r->pool->plan;
	struct fab_op op =
	    fab_read(FAB_CONTROL, p->cursors_offset, &r->cursors, sizeof(r->cursors));
	int status = recover_read_words(w, p->chunk_table_offset, r->chunks, p->chunk_count);

	if (!status)
		status = read_rings(r, w);
	if (!status)
		status = flow_run(w, &op, 1);
	for (uint32_t chunk = 0; chunk < p->chunk_count && !status; chunk++) {
		uint64_t word = r->chunks[chunk];
		struct orphan o = {.chunk = chunk, .word = word};

		if (chunk_state(word) != CHUNK_QUEUED && chunk_state(word) != CHUNK_FREE)
			continue;
		o.ring = ring_of(word);
		if (o.ring >= RING_COUNT)
			continue; /* no honest word */
		uint64_t index =
		    full_position(word, r->cursors.ring[o.ring].tail) & (p->ring_nodes - 1);

		if (is_orphan(p, &r->cursors, r->nodes[(uint64_t)o.ring * p->ring_nodes + index],
			      &o))
			status = adopt(r, w, &o, report);
	}
	return status ? status : settle_nodes(r, w, report);
}
