/*
 * evict.c: freeing chunks, group by group and just in time.
 *
 *   1 claim the groups at the head of the ring the policy names    (ring.h, collect.c)
 *   2 in the same batch: READ the registry, then their TWIMs and OFM rows
 *   3 compute nodes that have not flushed up to the claimed positions are waited for, once, for
 *     a bounded time
 *   4 the policy judges, a pure function
 *   5 requeue what goes round again, regroup the others            (regroup.h)
 *   6 clear the OFM rows for the next position that uses them
 *
 * OFM rows.  Row p % ofm_rows belongs to position p until the group that was queued there is out
 * of evicting.  A node flushes a position once and then publishes that it did.  If every live
 * node has, nothing more can land and the rows of a batch are cleared by one WRITE.  Otherwise a
 * flush may land at any time, and each word is cleared by CAS from exactly what it held: nothing
 * is erased that was not READ, and, unlike with a subtraction, an evictor that slept across the
 * row's next owners cannot take away more than there is and make a counter wrap.  (A subtraction
 * after the win was the first design; a model broke it, see doc/models.md.)
 *
 * Step 3 is about precision alone: counts that arrive late are lost, nothing breaks.
 *
 * An overlong ring (cn_overlong()) is no sign that room is short: compaction claims from its middle
 * and leaves positions behind, which only a claim at its head removes.  So what lies there is no
 * victim: a group with many dead members is compacted, any other goes round whole, in its own ring
 * and with its counts, and the positions behind it are gone.  Nobody's object leaves for it.  Each
 * time a lane needs a chunk it spares a few groups (SPARED_MIN) and then goes on as ever; it makes
 * two positions at most (what compaction sealed, and a seal of its own).  In the worst case all
 * groups lie side by side at the head: while they pass, the ring gets longer by half of them, and
 * has nodes for more.  In a ring without nodes to spare (cn_at_its_end()) nothing is compacted
 * from the middle until it is shorter.
 */
#include "cache/evict.h"

#include <string.h>

static void *carve(uint8_t **at, uint64_t bytes)
{
	void *p = *at;

	*at += round_up_u64(bytes, 64);
	return p;
}

static uint64_t layout_scratch(const struct plan *p, uint8_t *memory, struct evict_scratch **out)
{
	uint8_t *at = memory;
	uint64_t n = p->group_objects;
	struct evict_scratch *s = carve(&at, sizeof(*s));
	struct evict_scratch filled = {
	    .regroup =
		{
		    .read = carve(&at, p->chunk_bytes + LAYOUT_PAD_BYTES),
		    .copy = carve(&at, p->chunk_bytes + LAYOUT_PAD_BYTES),
		    .ops = carve(&at, (n + 5 * RING_CLAIM_MAX + 4) * sizeof(struct fab_op)),
		    .places = carve(&at, n * sizeof(struct lane_place)),
		    .pending = carve(&at, n * sizeof(uint32_t)),
		    .moved = carve(&at, n * sizeof(uint32_t)),
		    .offset = carve(&at, n * sizeof(uint32_t)),
		},
	    .members = carve(&at, RING_CLAIM_MAX * n * sizeof(struct twim_member)),
	    .twims = carve(&at, RING_CLAIM_MAX * n * TWIM_BYTES),
	    .rows = carve(&at, RING_CLAIM_MAX * (uint64_t)p->ofm_row_bytes),
	    .counts = carve(&at, RING_CLAIM_MAX * n),
	    .keeps = carve(&at, RING_CLAIM_MAX * n),
	    .trial_counts = carve(&at, RING_CLAIM_MAX * n),
	    .lines = carve(&at, p->cn_max * sizeof(struct layout_registry)),
	};

	if (out) {
		*s = filled;
		*out = s;
	}
	return (uint64_t)(at - memory);
}

uint64_t evict_scratch_bytes(const struct plan *p)
{
	/* Offsets only: nothing behind the address is touched. */
	static uint8_t origin[1];

	return layout_scratch(p, origin, NULL);
}

struct evict_scratch *evict_scratch_place(const struct plan *p, void *memory)
{
	struct evict_scratch *s;

	layout_scratch(p, memory, &s);
	return s;
}

static int any_word(const uint64_t *words, uint32_t n)
{
	uint64_t all = 0;

	for (uint32_t k = 0; k < n; k++)
		all |= words[k];
	return all != 0;
}

static MAY_WAIT int requeue(struct cache *c, struct regroup_source *src, uint32_t ring,
			    uint32_t segment)
{
	struct ring_entry entry = {
	    .chunk = src->claimed.chunk,
	    .generation = src->claimed.generation,
	    .object_count = src->claimed.object_count,
	    .segment = segment,
	    .owned_word = src->claimed.word,
	};
	uint64_t position;
	int status = ring_enqueue(c->cn->pool, c->worker, FAB_EVICTION, ring, &entry, &position);

	if (status)
		return status == FORGE_E_AGAIN ? 0 : status;
	src->freed = 1; /* out of evicting, by our CAS */
	cn_note(c->cn, entry.chunk, chunk_pack_queued(ring, entry.generation, position),
		src->carried, entry.object_count);
	return 0;
}

/* Looks at a word that keeps changing before its counts are left to the row's next owner. */
#define CLEAR_TRIES_MAX 4u

int evict_clear_row(struct cache *c, struct evict_scratch *s, uint64_t address, uint64_t *row)
{
	const struct pool *pool = c->cn->pool;
	uint32_t row_words = pool->plan.ofm_row_bytes / 8;
	static const uint64_t zero;

	for (unsigned try = 0; try < CLEAR_TRIES_MAX; try++) {
		struct fab_op *ops = s->regroup.ops;
		uint32_t count = 0;

		for (uint32_t k = 0; k < row_words; k++)
			if (row[k])
				ops[count++] =
				    fab_cas(FAB_EVICTION, address + 8 * (uint64_t)k, row[k], 0);
		if (count == 0)
			return 0;
		if (!pool_rule(pool, RULE_ROW_CLEARED_EXACTLY))
			for (uint32_t i = 0; i < count; i++)
				ops[i] = fab_write(FAB_EVICTION, ops[i].raddr, &zero, 8);
		int status = flow_run(c->worker, ops, count);

		if (status || !pool_rule(pool, RULE_ROW_CLEARED_EXACTLY))
			return status;
		count = 0;
		for (uint32_t k = 0; k < row_words; k++) {
			if (!row[k])
				continue;
			row[k] = fab_cas_won(&ops[count]) ? 0 : ops[count].old;
			count++;
		}
	}
	return 0;
}

/* Step 6, for all groups whose chunk we won out of evicting. */
static MAY_WAIT int clear_rows(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t n)
{
	const struct pool *pool = c->cn->pool;
	const struct plan *p = &pool->plan;
	uint32_t row_words = p->ofm_row_bytes / 8;
	uint64_t run_end = 0;
	struct fab_op write = {0};
	int status = 0;

	for (uint32_t i = 0; i < n && !status; i++) {
		uint64_t *row = s->rows + (uint64_t)i * row_words;
		uint64_t address = plan_ofm_row_address(p, ring, s->claimed[i].position);

		/* Taken from us: the row is the thief's business. */
		if (!s->sources[i].freed || !any_word(row, row_words))
			continue;
		if (!collect_row_is_still(c, ring, s->claimed[i].position)) {
			status = evict_clear_row(c, s, address, row);
			continue;
		}
		memset(row, 0, p->ofm_row_bytes);
		if (write.len && address == run_end &&
		    (const uint8_t *)write.buf + write.len == (const uint8_t *)row) {
			write.len += p->ofm_row_bytes;
		} else {
			if (write.len)
				status = flow_run(c->worker, &write, 1);
			write = fab_write(FAB_EVICTION, address, row, p->ofm_row_bytes);
		}
		run_end = address + p->ofm_row_bytes;
	}
	/*
	 * Nobody waits for the last one.  If it is lost, or late, counts of this group are added to
	 * those of the row's next owner, or some of its are gone.
	 */
	if (write.len <= FAB_DETACHED_BYTES_MAX)
		write.flags |= FAB_DETACHED;
	return status || !write.len ? status : flow_run(c->worker, &write, 1);
}

/* Step 5 for one group. */
static MAY_WAIT int dispose(struct cache *c, struct evict_scratch *s, uint32_t i)
{
	struct policy_group *g = &s->groups[i];
	uint64_t rescued = c->count.objects_rescued;

	if (g->action == POLICY_REQUEUE) {
		int status = requeue(c, &s->sources[i], RING_MAIN, g->requeue_segment);

		c->count.groups_requeued += (uint64_t)s->sources[i].freed;
		return status;
	}
	s->sources[i].heat = g->heat;
	int status = regroup_move(c, &s->regroup, &s->sources[i], RING_MAIN, FAB_EVICTION);

	c->count.groups_regrouped++;
	c->count.objects_dropped += g->object_count - (c->count.objects_rescued - rescued);
	return status;
}

/* At least so many groups are spared for each chunk that a lane needs. */
#define SPARED_MIN 2u

/* A group from the head of an overlong ring. */
static MAY_WAIT int spare(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t i)
{
	struct regroup_source *src = &s->sources[i];
	const struct ring_claimed *g = &src->claimed;

	if (!compact_is_worth(c->cn, g)) {
		int status = requeue(c, src, ring, g->segment);

		c->count.groups_spared += (uint64_t)src->freed;
		return status;
	}
	uint64_t seen = chunk_pack_queued(ring, g->generation, g->position);

	for (uint32_t sn = 0; sn < g->object_count; sn++)
		s->groups[i].keep[sn] =
		    src->members[sn].units > 0 && !cn_is_dead(c->cn, g->chunk, g->generation, sn);
	c->count.groups_compacted++;
	return regroup_move(c, &s->regroup, src, ring == RING_MAIN ? compact_stream(c, seen) : ring,
			    FAB_COMPACTION);
}

/* Make an overlong ring shorter, see above.  0 or FORGE_E_NODE. */
static MAY_WAIT int shorten(struct cache *c, uint32_t ring, uint32_t count)
{
	struct evict_scratch *s = c->evict;
	uint32_t n = 0;
	int status = collect(c, ring, (uint32_t)max_u64(count, SPARED_MIN), 1, &n);

	if (status == FORGE_MISS || status == FORGE_E_AGAIN)
		return 0;
	for (uint32_t i = 0; i < n && !status; i++)
		status = spare(c, s, ring, i);
	return status ? status : clear_rows(c, s, ring, n);
}

/* The longest ring, if it is overlong; RING_QUEUES: none is. */
static uint32_t overlong_ring(const struct cache *c, const struct policy_occupancy *o)
{
	uint32_t ring = o->queued[RING_MAIN] > o->queued[RING_SMALL] ? RING_MAIN : RING_SMALL;

	return cn_overlong(c->cn, o->queued[ring]) ? ring : (uint32_t)RING_QUEUES;
}

/*
 * Room in main is made first where members are dead, which costs no hit.  In small those that die
 * go with the cold ones for nothing, unless so much of the pool is dead that nobody need go.
 */
static uint32_t dead_limit(const struct cache *c, uint32_t ring)
{
	uint32_t percent = c->cn->dead_percent;

	return ring == RING_MAIN ? percent : (uint32_t)min_u64(100, percent + percent / 2);
}

/*
 * Compact before anybody is evicted.  Who finds nothing to compact may not know of what there is:
 * of the holes that others made before it joined, or where groups are that others moved since it
 * polled. An eviction then costs hits and that look a few READs, so it is had first.  0;
 * FORGE_MISS; FORGE_E_NODE.
 */
static MAY_WAIT int compact_first(struct cache *c, uint32_t ring)
{
	uint32_t limit = compact_bounds_dead(c) ? dead_limit(c, ring) : 100;
	int status = compact(c, limit);

	if (status != FORGE_MISS)
		return status;
	status = compact_learn_all(c);
	if (status == FORGE_MISS && c->evict->outrun && compact_bounds_dead(c))
		status = cache_poll(c);
	return status ? status : compact(c, limit);
}

int evict(struct cache *c)
{
	struct evict_scratch *s = c->evict;
	struct policy_occupancy occupancy;
	uint32_t n = 0;
	int status = collect_look(c, &occupancy);

	if (!status && atomic_load_explicit(&c->cn->free_hint, memory_order_relaxed) > 0) {
		/* Given back since the last poll: nobody need go. */
		status = lane_claim_free(c->lane, c->worker, c->lane->reserve_cap);
		if (status != FORGE_MISS)
			return status;
		status = 0;
	}
	if (status)
		return status;
	lane_judge_spare(c->lane, occupancy.chunk_count);
	if (!occupancy.queued[RING_SMALL] && !occupancy.queued[RING_MAIN])
		return FORGE_MISS;
	uint32_t overlong = overlong_ring(c, &occupancy), ring = overlong;

	if (overlong != RING_QUEUES && pool_rule(c->cn->pool, RULE_OVERLONG_SPARED)) {
		status = shorten(c, overlong, collect_count(c, &occupancy));
		if (status || c->lane->reserve_count > 0 ||
		    cn_at_its_end(c->cn, occupancy.queued[overlong]))
			return status;
		overlong = RING_QUEUES;
	}
	if (likely(overlong == RING_QUEUES)) {
		ring = c->cn->policy->victim_ring(&occupancy);
		/* A hint of the ring's length may have kept cache_reserve_try() from it. */
		status = compact_first(c, ring);
		s->compacted = status == 0;
		if (status != FORGE_MISS)
			return status;
	}
	c->lane->calm = 0;
	lane_judge_spare(c->lane, occupancy.chunk_count);
	if (!c->lane->wants_spare && lane_use_spare(c->lane))
		return 0;
	status = collect(c, ring, collect_count(c, &occupancy), c->cn->policy->merge_min, &n);
	if (status || n == 0)
		return status; /* with 0: positions whose groups others took were passed */
	c->count.evictions++;
	for (uint32_t i = 0; i < n; i++)
		memset(s->groups[i].keep, 0, s->groups[i].object_count);
	c->cn->policy->judge(s->groups, n, plan_expected_objects(&c->cn->pool->plan));
	for (uint32_t i = 0; i < n && !status; i++)
		status = dispose(c, s, i);
	return status ? status : clear_rows(c, s, ring, n);
}
