/*
 * poll.c: the housekeeper: learning what others queued, and flushing counts just in time.
 *
 *   1 READ the cursors
 *   2 tail moved: READ the new nodes; note chunk -> (position, generation); hits count from here
 *   3 head moved: for every group that entered the window, add this CN's counts to the node's
 *     OFM row, one FAA per 8 counters, none for a word of zeroes; and publish which of its
 *     members this CN saw die, so that whoever evicts it copies no dead ones
 *   4 publish "flushed up to": posted after the FAAs on the same connection, so whoever reads it
 *     also reads them
 *
 * One worker of a CN polls at a time; nobody waits for it.  A count is taken out of the local
 * OFM before it is added remotely, so it is credited once or, on a crash in between, lost.
 * A counter of a row holds 8 bits: each CN adds at most 85 / cn_max to it per position, all
 * flushes together, so that no sum carries into the next counter.
 */
#include "cache/cache.h"

#include <string.h>

#include "pool/ring.h"

#define POLL_NODES_MAX 128u /* nodes READ at once */
#define POLL_ROW_WORDS (LAYOUT_GROUP_OBJECTS_MAX / 8)
/* Verbs of one group at most: a row and the words of its dead map. */
#define POLL_GROUP_OPS (POLL_ROW_WORDS + LAYOUT_DEAD_WORDS_MAX)

/* Note the filled nodes among count READ from position on; returns the first unsettled one. */
static uint64_t note_nodes(struct cn *cn, uint32_t ring, uint64_t position, uint64_t count,
			   uint64_t head, const uint64_t *nodes)
{
	const struct plan *p = &cn->pool->plan;

	for (uint64_t i = 0; i < count; i++, position++) {
		uint64_t cycle = plan_ring_cycle(p, position);

		if (ring_node_waits(p, nodes[i], position) && (int64_t)(position - head) >= 0)
			break; /* its producer is on the way */
		if (!ring_node_valid(p, nodes[i]) ||
		    node_cycle(nodes[i]) != (cycle & (NODE_CYCLE_COUNT - 1)))
			continue;
		cn_note(cn, node_chunk(nodes[i]),
			chunk_pack_queued(ring, node_generation(nodes[i]), position), NULL,
			node_object_count(nodes[i]));
	}
	return position;
}

/* Did this CN queue (and note) what lies at a position? */
static int noted_already(const struct cn *cn, uint32_t ring, uint64_t position)
{
	const struct plan *p = &cn->pool->plan;
	uint32_t chunk = atomic_load_explicit(&cn->mirror[ring][position & (p->ring_nodes - 1)],
					      memory_order_relaxed);
	uint64_t seen = cn_map(cn, chunk);

	return seen && chunk_state(seen) == CHUNK_QUEUED && chunk_ring(seen) == ring &&
	       chunk_position_near(seen, position) == position;
}

/* Step 2. */
static MAY_WAIT int note_new(struct cache *c, uint32_t ring, uint64_t head, uint64_t tail)
{
	struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	uint64_t nodes[POLL_NODES_MAX];

	if ((int64_t)(head - cn->noted[ring]) > 0)
		cn->noted[ring] = head;
	/* Nodes are of the last trip; cursors further apart than that are damaged. */
	if ((int64_t)(tail - cn->noted[ring]) > (int64_t)p->ring_nodes)
		cn->noted[ring] = tail - p->ring_nodes;
	while ((int64_t)(tail - cn->noted[ring]) > 0) {
		uint64_t from = cn->noted[ring];

		if (noted_already(cn, ring, from)) {
			cn->noted[ring]++;
			continue;
		}
		uint64_t to_wrap = p->ring_nodes - (from & (p->ring_nodes - 1));
		uint64_t count = min_u64(min_u64(tail - from, to_wrap), POLL_NODES_MAX);
		struct fab_op op = fab_read(FAB_HOTNESS, plan_ring_node_address(p, ring, from),
					    nodes, (uint32_t)(8 * count));
		int status = flow_run(c->worker, &op, 1);

		if (status)
			return status;
		cn->noted[ring] = note_nodes(cn, ring, from, count, head, nodes);
		if (cn->noted[ring] != from + count)
			break;
	}
	return 0;
}

/* Take this CN's counts of a chunk out of the OFM, capped; returns how many words are not zero. */
static uint32_t take_counts(struct cache *c, uint32_t chunk, uint64_t *words, uint32_t *which)
{
	struct cn *cn = c->cn;
	/* Nobody counts beyond the members, and a row has room for the most there may be. */
	uint32_t row_words = (cn_members(cn, chunk) + 7) / 8, n = 0, flushed = 0, capped = 0;

	for (uint32_t k = 0; k < row_words; k++) {
		uint8_t bytes[8];

		for (uint32_t b = 0; b < 8; b++) {
			uint8_t count = atomic_exchange_explicit(cn_counter(cn, chunk, 8 * k + b),
								 0, memory_order_relaxed);

			bytes[b] = count < cn->flush_cap ? count : cn->flush_cap;
			flushed += bytes[b];
			capped += (uint32_t)(count - bytes[b]);
		}
		memcpy(&words[n], bytes, 8);
		which[n] = k;
		n += words[n] != 0;
	}
	c->count.hits_flushed += flushed;
	c->count.hits_capped += capped;
	return n;
}

/* The verbs of several groups wait together: a long window is flushed in a few round trips. */
struct flush {
	struct fab_op ops[POLL_GROUP_OPS];
	uint32_t count;
};

static MAY_WAIT int flush_post(struct cache *c, struct flush *f)
{
	uint32_t count = f->count;

	f->count = 0;
	return count ? flow_run(c->worker, f->ops, count) : 0;
}

static MAY_WAIT int flush_group(struct cache *c, struct flush *f, uint32_t ring, uint64_t position)
{
	struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	uint32_t chunk = atomic_load_explicit(&cn->mirror[ring][position & (p->ring_nodes - 1)],
					      memory_order_relaxed);
	uint64_t words[POLL_ROW_WORDS];
	uint32_t which[POLL_ROW_WORDS], generation;

	if (!noted_already(cn, ring, position))
		return 0; /* skipped, or claimed from the middle */
	/*
	 * Alone in the pool: whoever evicts the group is this node, which adds its own counts
	 * anyway.  (A node that joins just now misses the counts of one window.)
	 */
	if (cn_is_alone(cn))
		return 0;
	int status = 0;

	if (f->count + p->ofm_row_bytes / 8 + cn->dead_words > POLL_GROUP_OPS)
		status = flush_post(c, f);
	if (status)
		return status;
	uint32_t n = take_counts(c, chunk, words, which);

	c->count.groups_flushed++;
	for (uint32_t i = 0; i < n; i++)
		f->ops[f->count++] = fab_faa(
		    FAB_HOTNESS, plan_ofm_row_address(p, ring, position) + 8 * (uint64_t)which[i],
		    words[i]);
	/* Whoever evicts the group should know its dead, too. */
	generation = chunk_generation(cn_map(cn, chunk));
	for (uint32_t i = 0; i < cn->dead_words; i++) {
		uint64_t news = cn_take_news(cn, chunk, generation, i);

		if (news)
			f->ops[f->count++] = fab_faa(
			    FAB_HOTNESS, plan_dead_address(p, chunk) + 8 * (uint64_t)i, news);
	}
	return 0;
}

/* Hits on groups that have left the ring unflushed are lost, unless this node evicted them. */
static void count_late(struct cache *c, uint32_t ring, uint64_t from, uint64_t head)
{
	const struct cn *cn = c->cn;
	uint64_t known = min_u64(head - from, cn->pool->plan.ring_nodes);

	c->count.flush_late += head - from;
	for (uint64_t position = head - known; position != head; position++) {
		uint32_t chunk = atomic_load_explicit(
		    &cn->mirror[ring][position & (cn->pool->plan.ring_nodes - 1)],
		    memory_order_relaxed);

		if (!noted_already(cn, ring, position))
			continue;
		for (uint32_t sn = 0; sn < cn_members(cn, chunk); sn++)
			c->count.hits_late += cn_count(cn, chunk, sn);
	}
}

/*
 * How long the window must be, once `left` groups have left a ring between two polls, and `queued`
 * are in it.  A poll flushes up to head + window, so a group is late for this node if more than
 * window left before the next poll published.  Therefore: longer at once, to what left and a batch
 * of claims more; shorter by one group whenever CN_UNFLUSHED_ONE_IN groups for each live node have
 * left, but not below the least.
 *
 * What that keeps.  Being late by n groups makes the window at least n longer, and it becomes
 * shorter by one in 100 x nodes: so of the groups that leave a ring this node is late for no more
 * than that share, beside once the difference between the longest window and the least, and for all
 * nodes together it is 1 in 100.  That holds whatever the rate, the interval and the pauses are, as
 * long as no more leave between two polls than the longest window has; beyond, the rest are late.
 *
 * Nobody need agree.  Evictors do not know of windows; they go by what each node publishes.  What a
 * length could break is the row of position p, which is also that of p - ofm_rows: that group
 * should be gone and its row cleared when p is flushed.  Each flush is for a position less than
 * plan_window_most(), a quarter of the rows, ahead of a head that was READ, and heads only grow: so
 * three quarters of all rows' groups have left since the row's last one did, whatever others do.
 * A node that sleeps between READ and FAA flushes late, as it always could: see evict.c.
 *
 * Nor longer than half the ring: hits that come after the flush are seen only by who evicts.
 */
static void fit_window(struct cn *cn, uint32_t ring, uint64_t left, uint64_t queued)
{
	uint64_t least = cn->window_groups, window = cn->window[ring];
	uint64_t most = max_u64(least, min_u64(plan_window_most(&cn->pool->plan), queued / 2));
	uint64_t nodes = atomic_load_explicit(&cn->cns_live, memory_order_relaxed);

	left = min_u64(left, UINT32_MAX); /* damaged cursors may lie anywhere */
	cn->window_calm[ring] += left;
	if (left + least / 4 > window) {
		window = left + least / 4;
		cn->window_calm[ring] = 0;
	} else if (cn->window_calm[ring] >= nodes * CN_UNFLUSHED_ONE_IN) {
		window--;
		cn->window_calm[ring] = 0;
	}
	cn->window[ring] = (uint32_t)max_u64(least, min_u64(window, most));
}

/* Step 3; *moved if there is news to publish. */
static MAY_WAIT int flush_window(struct cache *c, uint32_t ring, uint64_t head, int *moved)
{
	struct cn *cn = c->cn;
	uint64_t from = atomic_load_explicit(&cn->flushed[ring], memory_order_relaxed);
	/* Signed: cursors may lie anywhere, and never must the window be longer than planned. */
	int64_t ahead = (int64_t)(cn->noted[ring] - head);
	uint64_t end = ahead < 0 ? head : head + min_u64((uint64_t)ahead, cn->window[ring]);

	struct flush flush;
	int status = 0;

	flush.count = 0; /* the rest is some KiB, and mostly there is nothing to flush */
	if ((int64_t)(head - from) > 0) {
		count_late(c, ring, from, head);
		from = head;
	}
	for (; (int64_t)(end - from) > 0 && !status; from++)
		status = flush_group(c, &flush, ring, from);
	if (!status)
		status = flush_post(c, &flush);
	if (status)
		return status;
	*moved |= from != atomic_load_explicit(&cn->flushed[ring], memory_order_relaxed);
	atomic_store_explicit(&cn->flushed[ring], from, memory_order_relaxed);
	return 0;
}

/*
 * Poll more seldom or more often, by how many groups left the rings since the last poll, elapsed_us
 * ago: so that the next one finds a quarter of the window moved.  Faster at once, slower by
 * doubling: a burst must not meet a node that has just been told of a quiet time.
 */
static void adapt(struct cn *cn, uint64_t moved, uint64_t elapsed_us)
{
	uint64_t now = atomic_load_explicit(&cn->poll_now_us, memory_order_relaxed);
	uint64_t most = (uint64_t)cn->poll_interval_us * CN_POLL_ADAPT;
	uint64_t least = max_u64(1, cn->poll_interval_us / CN_POLL_ADAPT);

	moved = min_u64(moved, UINT32_MAX); /* damaged cursors may lie anywhere */
	uint64_t want = moved ? min_u64(elapsed_us, most) * cn->window_groups / (4 * moved) : most;

	if (moved && want < now)
		now = max_u64(want, least);
	else if (now < most)
		now = min_u64(min_u64(want, 2 * now), most);
	cn_poll_every(cn, (uint32_t)now);
}

static MAY_WAIT int poll_once(struct cache *c)
{
	struct cn *cn = c->cn;
	uint64_t started_ns = clock_now_ns(c->worker->clock);
	struct layout_cursors cursors;
	uint64_t left = 0;
	struct fab_op op =
	    fab_read(FAB_HOTNESS, cn->pool->plan.cursors_offset, &cursors, sizeof(cursors));
	int status = flow_run(c->worker, &op, 1), moved = 0;

	if (!status) {
		moved = cursors.fence != atomic_load_explicit(&cn->fence, memory_order_relaxed);
		cn_see_fence(cn, cursors.fence, started_ns);
	}
	/* Where large objects leave few groups, a window as planned would hold them all. */
	if (!status)
		cn->window_groups =
		    plan_window(plan_group_chunks(&cn->pool->plan, cursors.part_chunks));
	for (uint32_t ring = 0; ring < RING_QUEUES && !status; ring++) {
		uint64_t gone = cursors.ring[ring].head -
				atomic_load_explicit(&cn->head[ring], memory_order_relaxed);

		left += gone;
		fit_window(cn, ring, gone, cursors.ring[ring].tail - cursors.ring[ring].head);
		atomic_store_explicit(&cn->head[ring], cursors.ring[ring].head,
				      memory_order_relaxed);
		cn_see_tail(cn, ring, cursors.ring[ring].tail);
		status = note_new(c, ring, cursors.ring[ring].head, cursors.ring[ring].tail);
		if (!status)
			status = flush_window(c, ring, cursors.ring[ring].head, &moved);
	}
	if (status)
		return status;
	int64_t free_count = (int64_t)(cursors.ring[RING_FREE].tail - cursors.ring[RING_FREE].head);

	atomic_store_explicit(&cn->free_hint, free_count > 0 ? (uint64_t)free_count : 0,
			      memory_order_relaxed);
	uint64_t before_ns = atomic_load_explicit(&cn->refreshed_ns, memory_order_relaxed);

	atomic_store_explicit(&cn->refreshed_ns, started_ns, memory_order_release); /* R2 */
	adapt(cn, left, (started_ns - before_ns) / 1000);
	if (!moved)
		return 0;
	struct registry_news news = {
	    .flushed = {cn->flushed[RING_SMALL], cn->flushed[RING_MAIN]},
	    .fence = cn->fence,
	    .polled_us = pool_node_ns_earliest(cn->pool, started_ns) / 1000,
	    .worker_count = cn->worker_count,
	};

	return registry_publish(cn->pool, c->worker, &cn->member, &news);
}

int cache_poll(struct cache *c)
{
	if (atomic_flag_test_and_set_explicit(&c->cn->polling, memory_order_acquire))
		return 0;
	c->count.polls++;
	int status = poll_once(c);

	atomic_flag_clear_explicit(&c->cn->polling, memory_order_release);
	return status;
}

/*
 * The sample of the fence must be from a look that began at most flush_trust_us before
 * the operation did: flush.c rests on it.  Polls see to that, unless the worker that is at it
 * sleeps; then the word is READ alone.
 */
static MAY_WAIT int see_fence(struct cache *c)
{
	struct cn *cn = c->cn;
	uint64_t now_ns = clock_now_ns(c->worker->clock), fence;
	uint64_t seen_ns = atomic_load_explicit(&cn->flush_seen_ns, memory_order_acquire); /* A1 */

	c->moment.now_ns = now_ns;
	/* Signed: another worker's look may have begun after our own look at the clock. */
	if (((int64_t)(now_ns - seen_ns) <= (int64_t)(UINT64_C(1000) * cn->flush_trust_us) &&
	     !cn->flush_every_op) ||
	    !pool_rule(cn->pool, RULE_FLUSH_SEEN_LATELY))
		return 0;
	struct fab_op op = fab_read(FAB_HOTNESS, plan_fence_address(&cn->pool->plan), &fence, 8);
	int status = flow_run(c->worker, &op, 1);

	if (!status)
		cn_see_fence(cn, fence, now_ns);
	return status;
}

/* Is it so long since the last complete poll? */
static int is_due(const struct cache *c, uint64_t refreshed_ns, const _Atomic uint32_t *us)
{
	/* Signed: another worker's poll may have begun after our own look at the clock. */
	return (int64_t)(c->moment.now_ns - refreshed_ns) >=
	       INT64_C(1000) * (int64_t)atomic_load_explicit(us, memory_order_relaxed);
}

/* Another worker may be polling, or polls may be rare: then see_fence() looks itself. */
static MAY_WAIT int begin_slowly(struct cache *c, uint64_t refreshed_ns)
{
	const struct cn *cn = c->cn;
	int status = 0;

	if (cn->poll_every_op || is_due(c, refreshed_ns, &cn->poll_now_us) ||
	    atomic_load_explicit(&cn->quick_us, memory_order_relaxed) == 0) {
		status = pool_clock_tend(cn->pool, c->worker->clock, c->moment.now_ns);
		if (!status)
			status = tally_tell_old(&c->tally, c->worker, c->moment.now_ns);
		if (!status)
			status = cache_poll(c);
	}
	return status ? status : see_fence(c);
}

int cache_is_due(const struct cache *c)
{
	const struct cn *cn = c->cn;
	uint64_t refreshed = atomic_load_explicit(&cn->refreshed_ns, memory_order_relaxed);

	return c->lane->is_low ||
	       (int64_t)(glance_now_ns(&c->worker->glance, c->worker->clock) - refreshed) >=
		   INT64_C(1000) *
		       (int64_t)atomic_load_explicit(&cn->quick_us, memory_order_relaxed);
}

int cache_begin(struct cache *c)
{
	const struct cn *cn = c->cn;
	uint64_t refreshed = atomic_load_explicit(&cn->refreshed_ns, memory_order_acquire); /* A2 */
	int status = 0;

	c->moment.now_ns = glance_now_ns(&c->worker->glance, c->worker->clock);
	if (unlikely(is_due(c, refreshed, &cn->quick_us) || cn->poll_every_op ||
		     cn->flush_every_op))
		status = begin_slowly(c, refreshed);
	uint64_t fence = atomic_load_explicit(&cn->fence, memory_order_relaxed);

	c->moment.flush_generation = (uint32_t)fence_generation(fence);
	/* Nobody may go on by a map of keys to nodes that is not the present one. */
	return likely(fence_epoch(fence) == c->spread_epoch) ? status : FORGE_E_SPREAD;
}
