/* ring.c: the transcript of the argument in ring.h. */
#include "pool/ring.h"

#include <string.h>

static uint64_t queued_word(const struct pool *pool, uint32_t ring, uint32_t generation,
			    uint64_t position)
{
	return ring == RING_FREE ? chunk_pack_free(generation, position)
				 : chunk_pack_queued(ring, generation, position);
}

static unsigned skip_pauses(const struct pool *pool)
{
	return unlikely(pool->impatient) ? 0 : RING_SKIP_PAUSES;
}

/* The position a node stands for, which lies at the place of p: p or one of an earlier trip. */
static uint64_t node_position(const struct plan *plan, uint64_t node, uint64_t p)
{
	uint64_t behind = (plan_ring_cycle(plan, p) - node_cycle(node)) & (NODE_CYCLE_COUNT - 1);

	return p - behind * plan->ring_nodes;
}

/* ---- enqueue ------------------------------------------------------------------------------ */

/* One enqueue, with what it does for groups that are in its way. */
struct enqueue {
	const struct pool *pool;
	struct worker *w;
	enum fab_purpose purpose;
	uint32_t ring;
	unsigned tickets; /* that may still be taken, all together */
	unsigned depth;	  /* groups that were helped along and need a ticket of their own */
	const struct fab_op *before; /* goes with the next ticket, and only with that */
};

static uint64_t full_node(const struct plan *plan, const struct ring_entry *e, uint64_t p)
{
	return node_pack_full(plan_ring_cycle(plan, p), e->chunk, e->generation, e->object_count,
			      e->segment);
}

enum ticket_outcome {
	TICKET_SETTLED, /* the node is what we wanted it to be */
	TICKET_PASSED,	/* somebody has moved it on behind the ticket */
	TICKET_BLOCKED, /* a FULL one of an earlier trip, whose chunk is queued there */
};

/* Is the chunk of a FULL node of an earlier trip, at the place of p, still queued there? */
static MAY_WAIT int queued_there(const struct enqueue *q, uint64_t p, uint64_t node, int *there)
{
	const struct plan *plan = &q->pool->plan;
	uint64_t word;

	*there = 0;
	if (!ring_node_valid(plan, node))
		return 0;
	struct fab_op op =
	    fab_read(q->purpose, plan_chunk_word_address(plan, node_chunk(node)), &word, 8);
	int status = flow_run(q->w, &op, 1);

	*there = !status && word == queued_word(q->pool, q->ring, node_generation(node),
						node_position(plan, node, p));
	return status;
}

/*
 * Step 4: make the node of our ticket p `wanted`, from whatever it was left as by an earlier trip.
 * *node is what it was last, and then what it is.
 */
static MAY_WAIT int settle_ticket(const struct enqueue *q, uint64_t p, uint64_t wanted,
				  uint64_t *node, enum ticket_outcome *outcome)
{
	const struct plan *plan = &q->pool->plan;

	*outcome = TICKET_PASSED;
	for (unsigned try = 0; try < RING_SETTLE_TRIES && ring_node_waits(plan, *node, p); try++) {
		int there = 0, status = 0;

		if (node_state(*node) == NODE_FULL)
			status = queued_there(q, p, *node, &there);
		if (status)
			return status;
		if (there) {
			*outcome = TICKET_BLOCKED;
			return 0;
		}
		struct fab_op op =
		    fab_cas(q->purpose, plan_ring_node_address(plan, q->ring, p), *node, wanted);

		status = flow_run(q->w, &op, 1);
		if (status)
			return status;
		if (fab_cas_won(&op)) {
			*outcome = TICKET_SETTLED;
			return 0;
		}
		*node = op.old;
	}
	return 0;
}

static MAY_WAIT int enqueue(struct enqueue *, const struct ring_entry *, uint64_t *position);

/*
 * Step 5: the group in the way of ticket p, which is nobody's by now, gets it.  *again if it could
 * not use it and something else is in the way.
 */
static MAY_WAIT int help_along(struct enqueue *q, uint64_t p, uint64_t *node, int *again)
{
	const struct plan *plan = &q->pool->plan;
	uint64_t word = queued_word(q->pool, q->ring, node_generation(*node), p), position;
	struct ring_entry e = {
	    .chunk = node_chunk(*node),
	    .generation = node_generation(*node),
	    .object_count = node_object_count(*node),
	    .segment = node_segment(*node),
	    .owned_word = word,
	};
	struct fab_op op = fab_cas(
	    q->purpose, plan_chunk_word_address(plan, e.chunk),
	    queued_word(q->pool, q->ring, e.generation, node_position(plan, *node, p)), word);
	enum ticket_outcome outcome;
	int status = flow_run(q->w, &op, 1);

	*again = 1;
	if (status || !fab_cas_won(&op))
		return status; /* it is out of the way */
	status = settle_ticket(q, p, full_node(plan, &e, p), node, &outcome);
	*again = outcome == TICKET_BLOCKED;
	if (status || outcome == TICKET_SETTLED || q->depth >= RING_HELPED_MAX)
		return status;
	q->depth++;
	status = enqueue(q, &e, &position);
	q->depth--;
	return status == FORGE_E_AGAIN ? 0 : status;
}

/* Ticket p is not needed: leave its node behind it, so that nobody waits for us. */
static MAY_WAIT int give_up_ticket(struct enqueue *q, uint64_t p, uint64_t node)
{
	uint64_t passed = node_pack_empty(plan_ring_cycle(&q->pool->plan, p) + 1);
	int again = pool_rule(q->pool, RULE_TICKET_SETTLED), status = 0;

	for (unsigned try = 0; try < RING_SETTLE_TRIES && again && !status; try++) {
		enum ticket_outcome outcome;

		status = settle_ticket(q, p, passed, &node, &outcome);
		again = 0;
		if (!status && outcome == TICKET_BLOCKED)
			status = help_along(q, p, &node, &again);
	}
	return status;
}

static MAY_WAIT int enqueue(struct enqueue *q, const struct ring_entry *e, uint64_t *position)
{
	const struct plan *plan = &q->pool->plan;
	uint64_t owned = e->owned_word, blocked = 0, blocked_node = 0;
	enum ticket_outcome outcome = TICKET_PASSED;

	for (int first = 1; q->tickets > 0; first = 0) {
		struct fab_op ticket[2];
		unsigned n = 0;

		if (q->before)
			ticket[n++] = *q->before;
		q->before = NULL;
		ticket[n] = fab_faa(q->purpose, plan_tail_address(plan, q->ring), 1);
		int status = flow_run(q->w, ticket, n + 1);

		q->tickets--;
		if (status)
			return status;
		uint64_t p = ticket[n].old, word = queued_word(q->pool, q->ring, e->generation, p);
		struct fab_op ops[] = {
		    fab_cas(q->purpose, plan_chunk_word_address(plan, e->chunk), owned, word),
		    fab_cas(q->purpose, plan_ring_node_address(plan, q->ring, p),
			    node_pack_empty(plan_ring_cycle(plan, p)), full_node(plan, e, p)),
		};

		status = flow_run(q->w, ops, 2);
		/* Whatever became of the chunk, it is not at the last ticket any more. */
		if (!status && outcome == TICKET_BLOCKED)
			status = give_up_ticket(q, blocked, blocked_node);
		if (status)
			return status;
		uint64_t node = ops[1].old;
		int filled = fab_cas_won(&ops[1]);

		if (!fab_cas_won(&ops[0])) {
			status = filled ? 0 : give_up_ticket(q, p, node);
			/* Only a first ticket tells us that we never owned it. */
			return status ? status : first ? FORGE_E_AGAIN : 0;
		}
		*position = p;
		if (filled || !pool_rule(q->pool, RULE_SKIPPED_RETICKETS))
			return 0;
		outcome = TICKET_PASSED;
		if (pool_rule(q->pool, RULE_TICKET_SETTLED))
			status = settle_ticket(q, p, full_node(plan, e, p), &node, &outcome);
		if (status || outcome == TICKET_SETTLED)
			return status;
		blocked = p;
		blocked_node = node;
		owned = word;
	}
	return 0;
}

int ring_enqueue_behind(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
			uint32_t ring, const struct fab_op *before, const struct ring_entry *e,
			uint64_t *position)
{
	struct enqueue q = {
	    .pool = pool,
	    .w = w,
	    .purpose = purpose,
	    .ring = ring,
	    .tickets = RING_TICKETS_MAX,
	    .before = before,
	};

	return enqueue(&q, e, position);
}

int ring_enqueue(const struct pool *pool, struct worker *w, enum fab_purpose purpose, uint32_t ring,
		 const struct ring_entry *e, uint64_t *position)
{
	return ring_enqueue_behind(pool, w, purpose, ring, NULL, e, position);
}

/* ---- dequeue ------------------------------------------------------------------------------ */

/* READ count nodes from position on; the ring may wrap in between. */
static MAY_WAIT int read_nodes(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
			       uint32_t ring, uint64_t position, uint32_t count, uint64_t *nodes)
{
	const struct plan *plan = &pool->plan;
	uint32_t index = (uint32_t)(position & (plan->ring_nodes - 1));
	uint32_t first = (uint32_t)min_u64(count, plan->ring_nodes - index);
	struct fab_op ops[2] = {
	    fab_read(purpose, plan_ring_node_address(plan, ring, position), nodes, 8 * first),
	    fab_read(purpose, plan->ring_offset[ring], nodes + first, 8 * (count - first)),
	};

	return flow_run(w, ops, first < count ? 2 : 1);
}

struct fab_op ring_view_nodes(const struct pool *pool, enum fab_purpose purpose, uint32_t ring,
			      uint64_t from, struct ring_view *view)
{
	const struct plan *plan = &pool->plan;

	view->from = from;
	view->count =
	    (uint32_t)min_u64(RING_CLAIM_MAX, plan->ring_nodes - (from & (plan->ring_nodes - 1)));
	return fab_read(purpose, plan_ring_node_address(plan, ring, from), view->nodes,
			8 * view->count);
}

/* Nodes of a view from a position on; how many there are, at most n. */
static uint32_t viewed_nodes(const struct ring_view *view, uint64_t position, uint32_t n,
			     uint64_t *nodes)
{
	if (!view || position - view->from >= view->count)
		return 0;
	uint64_t skip = position - view->from;

	n = (uint32_t)min_u64(n, view->count - skip);
	memcpy(nodes, view->nodes + skip, n * sizeof(*nodes));
	return n;
}

/* How many nodes from head on can be taken: up to `count` filled ones and what was passed. */
static uint32_t leading_nodes(const struct plan *plan, uint64_t head, const uint64_t *nodes,
			      uint32_t n, uint32_t count)
{
	uint32_t leading = 0, filled = 0;

	for (; leading < n; leading++) {
		int full = ring_node_filled(plan, nodes[leading], head + leading);

		if ((!full && !ring_node_passed(plan, nodes[leading], head + leading)) ||
		    (full && filled == count))
			break;
		filled += (uint32_t)full;
	}
	return leading;
}

/*
 * Move head on.  nodes[] receives the nodes of the *claimed positions that are ours, from
 * *position on.  FORGE_E_AGAIN: lost the race, look again.
 */
static MAY_WAIT int advance_head(const struct pool *pool, struct worker *w,
				 enum fab_purpose purpose, const struct ring_claim_wish *wish,
				 uint64_t head, uint64_t occupancy, uint64_t *nodes,
				 uint64_t *position, uint32_t *claimed)
{
	const struct plan *plan = &pool->plan;
	uint64_t head_address = plan_head_address(plan, wish->ring);

	/* More positions than chunks: many were passed, and passing them by READ is cheaper. */
	if (occupancy > (uint64_t)wish->count * ((uint64_t)wish->evictors + 1) &&
	    occupancy <= plan->chunk_count) {
		struct fab_op faa = fab_faa(purpose, head_address, wish->count);
		int status = flow_run(w, &faa, 1);

		if (status)
			return status;
		*position = faa.old;
		*claimed = wish->count;
		if (viewed_nodes(wish->view, faa.old, wish->count, nodes) == wish->count)
			return 0;
		return read_nodes(pool, w, purpose, wish->ring, faa.old, wish->count, nodes);
	}
	uint32_t most = (uint32_t)min_u64(RING_CLAIM_MAX, occupancy);
	uint32_t n = viewed_nodes(wish->view, head, most, nodes);
	uint32_t leading = leading_nodes(plan, head, nodes, n, wish->count);

	for (unsigned pauses = 0; leading == 0; pauses++) {
		n = most;
		int status = read_nodes(pool, w, purpose, wish->ring, head, n, nodes);

		if (status)
			return status;
		leading = leading_nodes(plan, head, nodes, n, wish->count);
		if (leading == 0 && pauses >= skip_pauses(pool)) {
			if (!pool_rule(pool, RULE_SKIP_LATE_PRODUCER))
				return FORGE_E_AGAIN;
			leading = 1; /* a late producer: take its position and skip it */
		} else if (leading == 0) {
			flow_pause(w);
		}
	}
	struct fab_op cas = fab_cas(purpose, head_address, head, head + leading);
	int status = flow_run(w, &cas, 1);

	if (status)
		return status;
	if (!fab_cas_won(&cas))
		return FORGE_E_AGAIN;
	*position = head;
	*claimed = leading;
	return 0;
}

/*
 * A node below head that waits for a producer, or for a dequeuer of an earlier trip: wait a
 * little, then move it on behind p, so that no later trip finds it behind.  *node receives the
 * FULL node if there is one after all.  One of an earlier trip is out of the ring then and its
 * chunk for us alone to look after; a late dequeuer may still win it, by the chunk word.
 */
static MAY_WAIT int skip_or_fill(const struct pool *pool, struct worker *w,
				 enum fab_purpose purpose, uint32_t ring, uint64_t p,
				 uint64_t *node)
{
	const struct plan *plan = &pool->plan;
	uint64_t next = node_pack_empty(plan_ring_cycle(plan, p) + 1);
	uint64_t address = plan_ring_node_address(plan, ring, p);

	for (unsigned pauses = 0; ring_node_waits(plan, *node, p); pauses++) {
		struct fab_op op;

		if (pauses < skip_pauses(pool)) {
			flow_pause(w);
			op = fab_read(purpose, address, node, 8);
			int status = flow_run(w, &op, 1);

			if (status)
				return status;
			continue;
		}
		if (!pool_rule(pool, RULE_SKIP_LATE_PRODUCER))
			return 0;
		op = fab_cas(purpose, address, *node, next);
		int status = flow_run(w, &op, 1);

		if (status)
			return status;
		if (fab_cas_won(&op) && node_state(*node) == NODE_FULL)
			return 0;
		*node = fab_cas_won(&op) ? next : op.old;
	}
	return 0;
}

static uint64_t owned_word(const struct ring_claim_wish *wish, uint32_t generation, uint64_t p)
{
	return wish->ring == RING_FREE
		   ? chunk_pack_reserved(wish->owner, generation)
		   : chunk_pack_evicting(wish->owner, wish->ring, generation, p);
}

/*
 * Steps 3 and 4 for the FULL node at the place of position `at`, as ops[0] and ops[1].  One of an
 * earlier trip has been taken out of the ring before.
 */
static MAY_WAIT int take_ops(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
			     const struct ring_claim_wish *wish, uint64_t at, uint64_t *at_node,
			     struct fab_op *ops, struct ring_claimed *out)
{
	const struct plan *plan = &pool->plan;
	uint64_t node = *at_node;
	uint32_t chunk = node_chunk(node), generation = node_generation(node);
	uint64_t p = node_position(plan, node, at);
	uint64_t empty = node_pack_empty(plan_ring_cycle(plan, at) + 1);
	uint64_t address = plan_chunk_word_address(plan, chunk);
	uint64_t expected = queued_word(pool, wish->ring, generation, p);

	*out = (struct ring_claimed){
	    .position = p,
	    .word = owned_word(wish, generation, p),
	    .chunk = chunk,
	    .generation = generation,
	    .object_count = node_object_count(node),
	    .segment = node_segment(node),
	};
	if (unlikely(!pool_rule(pool, RULE_CLAIM_CHECKS_POSITION))) {
		/* The mutation: any queued word of the ring will do. */
		struct fab_op op = fab_read(purpose, address, &expected, 8);
		int status = flow_run(w, &op, 1);

		if (status)
			return status;
		if (chunk_state(expected) != CHUNK_QUEUED && chunk_state(expected) != CHUNK_FREE)
			expected = 0;
	}
	ops[0] = fab_cas(purpose, address, expected, out->word);
	ops[1] = fab_cas(purpose, plan_ring_node_address(plan, wish->ring, p), node, empty);
	if (unlikely(!pool_rule(pool, RULE_NODE_RESET_BY_CAS))) {
		*at_node = empty;
		ops[1] = fab_write(purpose, ops[1].raddr, at_node, 8);
	}
	return 0;
}

/* Of the n groups whose steps 3 and 4 are done, keep those that were won; how many. */
static uint32_t keep_won(const struct pool *pool, const struct fab_op *ops,
			 struct ring_claimed *out, uint32_t n)
{
	uint32_t won = 0;

	for (uint32_t i = 0; i < n; i++)
		if (fab_cas_won(&ops[2 * i]) || !pool_rule(pool, RULE_CLAIM_BY_CHUNK_WORD))
			out[won++] = out[i];
	return won;
}

/* Groups taken in one batch by those who bring no room for the ops. */
#define TAKEN_AT_ONCE 4u

/* Steps 3 and 4 for the FULL ones of n nodes from a position on; *count were won. */
static MAY_WAIT int take_chunks(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
				const struct ring_claim_wish *wish, uint64_t position,
				uint64_t *nodes, uint32_t n, struct ring_claimed *out,
				uint32_t *count)
{
	struct fab_op few[2 * TAKEN_AT_ONCE];
	struct ring_company *company = wish->company;
	struct fab_op *ops = company ? company->ops : few;
	uint32_t at_once = company ? RING_CLAIM_MAX : TAKEN_AT_ONCE;

	for (uint32_t i = 0; i < n;) {
		struct ring_claimed *taken = out + *count;
		uint32_t m = 0, more = 0;

		for (; i < n && m < at_once; i++) {
			if (ring_node_passed(&pool->plan, nodes[i], position + i) ||
			    !ring_node_valid(&pool->plan, nodes[i]))
				continue;
			int status = take_ops(pool, w, purpose, wish, position + i, &nodes[i],
					      &ops[2 * m], &taken[m]);

			if (status)
				return status;
			m++;
		}
		if (m == 0)
			return 0;
		if (company)
			more = company->append(company->context, taken, m, ops + 2 * m);
		int status = flow_run(w, ops, 2 * m + more);

		if (status)
			return status;
		uint32_t won = keep_won(pool, ops, taken, m);

		if (company)
			company->complete = won == m;
		*count += won;
	}
	return 0;
}

/* READ both cursors of a ring; a hint. */
static MAY_WAIT int read_cursors(const struct pool *pool, struct worker *w,
				 enum fab_purpose purpose, uint32_t ring, uint64_t cursor[2])
{
	struct fab_op op = fab_read(purpose, plan_head_address(&pool->plan, ring), cursor, 16);

	return flow_run(w, &op, 1);
}

int ring_claim(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
	       const struct ring_claim_wish *wish, struct ring_claimed *out, uint32_t *count)
{
	uint64_t nodes[RING_CLAIM_MAX];
	uint64_t position = 0;
	uint32_t claimed = 0;
	int status = FORGE_E_AGAIN;

	assert(wish->count >= 1 && wish->count <= RING_CLAIM_MAX);
	*count = 0;
	for (unsigned try = 0; try < RING_CLAIM_TRIES && status == FORGE_E_AGAIN; try++) {
		uint64_t cursor[2];

		if (try == 0 && wish->view) {
			cursor[0] = wish->view->head;
			cursor[1] = wish->view->tail;
		} else {
			status = read_cursors(pool, w, purpose, wish->ring, cursor);
			if (status)
				return status;
		}
		int64_t occupancy = (int64_t)(cursor[1] - cursor[0]);

		if (occupancy <= 0)
			return FORGE_MISS;
		status = advance_head(pool, w, purpose, wish, cursor[0], (uint64_t)occupancy, nodes,
				      &position, &claimed);
	}
	for (uint32_t i = 0; !status && i < claimed; i++)
		status = skip_or_fill(pool, w, purpose, wish->ring, position + i, &nodes[i]);
	return status ? status
		      : take_chunks(pool, w, purpose, wish, position, nodes, claimed, out, count);
}

int ring_claim_middle(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
		      uint32_t ring, uint32_t owner, struct ring_claimed *known)
{
	const struct plan *plan = &pool->plan;
	struct ring_claim_wish wish = {.ring = ring, .owner = owner};
	uint64_t p = known->position, node;
	struct fab_op op = fab_read(purpose, plan_ring_node_address(plan, ring, p), &node, 8);
	int status = flow_run(w, &op, 1);
	uint32_t won = 0;

	if (status)
		return status;
	if (!ring_node_filled(plan, node, p) || !ring_node_valid(plan, node) ||
	    node_chunk(node) != known->chunk || node_generation(node) != known->generation)
		return FORGE_MISS;
	status = take_chunks(pool, w, purpose, &wish, p, &node, 1, known, &won);
	return status ? status : won ? 0 : FORGE_MISS;
}
