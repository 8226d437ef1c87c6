/*
 * evict.c: freeing chunks, group by group and just in time.
 *
 *   1 claim the groups at the head of the ring the policy names    (ring.h)
 *   2 one batch: READ the registry, then their TWIMs and OFM rows
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

/* Looks at the registry while other nodes have not flushed. */
#define FLUSH_WAIT_LOOKS_MAX 64u

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
		    .ops = carve(&at, (n + 3 * RING_CLAIM_MAX + 2) * sizeof(struct fab_op)),
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

static MAY_WAIT int read_occupancy(struct cache *c, struct policy_occupancy *o)
{
	const struct plan *p = &c->cn->pool->plan;
	struct layout_cursors cursors;
	struct fab_op op = fab_read(FAB_EVICTION, p->cursors_offset, &cursors, sizeof(cursors));
	int status = flow_run(c->worker, &op, 1);

	if (status)
		return status;
	cn_see_heads(c->cn, &cursors);
	for (unsigned r = 0; r < RING_QUEUES; r++) {
		int64_t queued = (int64_t)(cursors.ring[r].tail - cursors.ring[r].head);

		o->queued[r] = queued > 0 ? (uint64_t)queued : 0;
	}
	int64_t free_count = (int64_t)(cursors.ring[RING_FREE].tail - cursors.ring[RING_FREE].head);

	atomic_store_explicit(&c->cn->free_hint, free_count > 0 ? (uint64_t)free_count : 0,
			      memory_order_relaxed);
	/* Parts are in no ring: the policy shares out what is left. */
	o->chunk_count = plan_group_chunks(p, cursors.part_chunks);
	return 0;
}

/*
 * How many groups to claim: the policy's wish, but never more than the lane may hold.  A group
 * stands for the parts its heads own, too, as many as it has on average.
 */
static uint32_t claim_count(const struct cache *c, const struct policy_occupancy *o)
{
	struct policy_company company = {
	    .evictors = cn_evictors(c->cn),
	    .nodes = atomic_load_explicit(&c->cn->cns_live, memory_order_relaxed),
	};
	uint64_t chunks = c->cn->pool->plan.chunk_count;
	uint64_t groups = o->queued[RING_SMALL] + o->queued[RING_MAIN];
	uint64_t weight = 1 + (chunks - o->chunk_count) / max_u64(1, groups);
	uint64_t count = c->cn->policy->claim_groups((uint32_t)chunks, &company) / weight;

	return (uint32_t)max_u64(1, min_u64(count, c->lane->reserve_cap));
}

/* Claim up to `count` groups behind the *n in hand. */
static MAY_WAIT int claim(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t count,
			  uint32_t *n)
{
	struct ring_claim_wish wish = {
	    .ring = ring,
	    .count = count,
	    .evictors = cn_evictors(c->cn),
	    .owner = c->cn->member.cn,
	};
	uint32_t won = 0;
	int status = ring_claim(c->cn->pool, c->worker, FAB_EVICTION, &wish, s->claimed + *n, &won);

	*n += won;
	return status;
}

/* Step 2.  Rows of neighbouring positions are neighbours. */
static MAY_WAIT int read_groups(struct cache *c, struct evict_scratch *s, uint32_t ring,
				uint32_t from, uint32_t n)
{
	const struct plan *p = &c->cn->pool->plan;
	struct fab_op *ops = s->regroup.ops;
	uint32_t count = 0, row_words = p->ofm_row_bytes / 8;

	/* First, so that the rows hold what a node says it has flushed. */
	ops[count++] =
	    fab_read(FAB_EVICTION, p->registry_offset, s->lines, p->cn_max * LAYOUT_REGISTRY_BYTES);
	for (uint32_t i = from; i < n;) {
		/* One READ for a run of rows that lie side by side. */
		uint64_t first = s->claimed[i].position;
		uint32_t run = 1;

		while (i + run < n && s->claimed[i + run].position == first + run &&
		       ((first + run) & (p->ofm_rows - 1)) != 0)
			run++;
		ops[count++] = fab_read(FAB_EVICTION, plan_ofm_row_address(p, ring, first),
					s->rows + (uint64_t)i * row_words, run * p->ofm_row_bytes);
		i += run;
	}
	for (uint32_t i = from; i < n; i++)
		ops[count++] =
		    fab_read(FAB_EVICTION,
			     plan_twim_address(p, s->claimed[i].chunk, s->claimed[i].object_count),
			     s->twims + (uint64_t)i * p->group_objects,
			     s->claimed[i].object_count * TWIM_BYTES);
	/* What others saw die; alone, this node has seen it all itself. */
	if (!cn_is_alone(c->cn))
		for (uint32_t i = from; i < n; i++)
			ops[count++] =
			    fab_read(FAB_EVICTION, plan_dead_address(p, s->claimed[i].chunk),
				     s->dead[i], 8 * plan_dead_words(p));
	else
		memset(s->dead + from, 0, (n - from) * sizeof(s->dead[0]));
	return flow_run(c->worker, ops, count);
}

/*
 * Nodes that are live, did not flush up to `upto`, and are not known to be asleep.  *asleep
 * receives how many are.
 */
static uint32_t unflushed(struct cache *c, const struct evict_scratch *s, uint32_t ring,
			  uint64_t upto, int give_up, uint32_t *asleep)
{
	struct cn *cn = c->cn;
	uint32_t late = 0, live = 0, workers = 0;

	*asleep = 0;
	for (uint32_t i = 0; i < cn->pool->plan.cn_max; i++) {
		const struct layout_registry *line = &s->lines[i];

		if (registry_state(line->id) != REGISTRY_LIVE)
			continue;
		live++;
		workers += (uint32_t)min_u64(line->worker_count, CN_WORKERS_MAX);
		if (i == cn->member.cn || line->flushed[ring] > upto)
			continue;
		if (atomic_load_explicit(&cn->asleep[i][ring], memory_order_relaxed) ==
		    line->flushed[ring] + 1) {
			*asleep += 1;
			continue;
		}
		late++;
		if (give_up)
			atomic_store_explicit(&cn->asleep[i][ring], line->flushed[ring] + 1,
					      memory_order_relaxed);
	}
	atomic_store_explicit(&cn->cns_live, live, memory_order_relaxed);
	atomic_store_explicit(&cn->workers_live, workers, memory_order_relaxed);
	return late;
}

/* Has every other live node flushed position p, so that its row is still for good? */
static int row_is_still(const struct cache *c, const struct evict_scratch *s, uint32_t ring,
			uint64_t position)
{
	for (uint32_t i = 0; i < c->cn->pool->plan.cn_max; i++)
		if (i != c->cn->member.cn && registry_state(s->lines[i].id) == REGISTRY_LIVE &&
		    s->lines[i].flushed[ring] <= position)
			return 0;
	return 1;
}

/* Step 3. */
static MAY_WAIT int wait_for_flushes(struct cache *c, struct evict_scratch *s, uint32_t ring,
				     uint32_t n)
{
	const struct plan *p = &c->cn->pool->plan;
	uint64_t upto = s->claimed[n - 1].position;
	uint64_t start_us = worker_now_us(c->worker);
	uint64_t limit_us = 2 * (uint64_t)c->cn->poll_interval_us;
	uint32_t asleep;
	int looked = 0, status = 0;

	if (!pool_rule(c->cn->pool, RULE_EVICT_WAITS_FLUSH))
		return 0;
	while (unflushed(c, s, ring, upto, 0, &asleep) > 0) {
		c->count.flush_waits += !looked;
		if (++looked > (int)FLUSH_WAIT_LOOKS_MAX ||
		    worker_now_us(c->worker) - start_us > limit_us) {
			c->count.evict_unflushed += unflushed(c, s, ring, upto, 1, &asleep);
			return cache_recover(c); /* some of them may be dead */
		}
		flow_pause(c->worker);
		status = registry_read(c->cn->pool, c->worker, FAB_EVICTION, s->lines);
		if (status)
			return status;
	}
	/*
	 * Who is asleep may have died in its sleep, or was given up too soon after the last look
	 * for another one.  Nobody waits for it any more, so this is what keeps looking.
	 */
	if (asleep && c->cn->alive)
		status = cache_recover(c);
	if (status || !looked)
		return status;
	/* Somebody flushed meanwhile: READ the rows again. */
	struct fab_op *ops = s->regroup.ops;

	for (uint32_t i = 0; i < n; i++)
		ops[i] =
		    fab_read(FAB_EVICTION, plan_ofm_row_address(p, ring, s->claimed[i].position),
			     s->rows + (uint64_t)i * (p->ofm_row_bytes / 8), p->ofm_row_bytes);
	return flow_run(c->worker, ops, n);
}

static int any_word(const uint64_t *words, uint32_t n)
{
	uint64_t all = 0;

	for (uint32_t k = 0; k < n; k++)
		all |= words[k];
	return all != 0;
}

/* Hits of a member: what all nodes flushed and what this one has not flushed yet. */
static void gather(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t from,
		   uint32_t n)
{
	const struct plan *p = &c->cn->pool->plan;

	for (uint32_t i = from; i < n; i++) {
		const struct ring_claimed *g = &s->claimed[i];
		const uint8_t *row =
		    (const uint8_t *)(s->rows + (uint64_t)i * (p->ofm_row_bytes / 8));
		struct twim_member *members = s->members + (uint64_t)i * p->group_objects;
		uint8_t *count = s->counts + (uint64_t)i * p->group_objects;

		cn_learn_dead(c->cn, g->chunk, s->dead[i]);
		twim_decode(p, g->chunk, g->generation, s->twims + (uint64_t)i * p->group_objects,
			    g->object_count, members);
		for (uint32_t sn = 0; sn < g->object_count; sn++) {
			uint32_t own = cn_count(c->cn, g->chunk, sn);
			uint32_t sum = (uint32_t)row[sn] + own;

			c->count.hits_judged += own;

			if (members[sn].units == 0 || cn_is_dead(c->cn, g->chunk, sn))
				sum = 0;
			count[sn] = (uint8_t)min_u64(sum, UINT8_MAX);
		}
		s->groups[i] = (struct policy_group){
		    .ring = ring,
		    .segment = g->segment,
		    .object_count = g->object_count,
		    .count = count,
		    .keep = s->keeps + (uint64_t)i * p->group_objects,
		};
		memset(s->groups[i].keep, 0, g->object_count);
		s->sources[i] = (struct regroup_source){
		    .claimed = *g,
		    .members = members,
		    .keep = s->groups[i].keep,
		    .carried = count,
		    .dead_published = any_word(s->dead[i], plan_dead_words(p)),
		};
	}
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
		if (!row_is_still(c, s, ring, s->claimed[i].position)) {
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

/* Groups that a judgement would regroup. */
static uint32_t mergeable(struct cache *c, struct evict_scratch *s, uint32_t n)
{
	struct policy_group *copy = s->trial;
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++) {
		copy[i] = s->groups[i];
		copy[i].count = s->trial_counts + (uint64_t)i * c->cn->pool->plan.group_objects;
		memcpy(copy[i].count, s->groups[i].count, copy[i].object_count);
	}
	c->cn->policy->judge(copy, n, plan_expected_objects(&c->cn->pool->plan));
	for (uint32_t i = 0; i < n; i++)
		count += copy[i].action == POLICY_REGROUP;
	return count;
}

/* Steps 1 to 4: claim, READ, wait, and claim more while too few groups can be merged. */
static MAY_WAIT int collect(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t count,
			    uint32_t merge_min, uint32_t *n)
{
	uint32_t had = 0;
	int status = claim(c, s, ring, count, n);

	while (!status && *n > had) {
		status = read_groups(c, s, ring, had, *n);
		if (!status)
			status = wait_for_flushes(c, s, ring, *n);
		if (status)
			return status;
		for (uint32_t i = had; i < *n; i++)
			c->count.groups_unflushed +=
			    (uint64_t)!row_is_still(c, s, ring, s->claimed[i].position);
		gather(c, s, ring, had, *n);
		had = *n;
		uint32_t room = RING_CLAIM_MAX - had;

		if (merge_min <= 1 || room == 0)
			break;
		uint32_t merged = mergeable(c, s, had);

		if (merged >= merge_min || had >= c->lane->reserve_cap)
			break;
		count = (uint32_t)min_u64(merge_min - merged, room);
		status = claim(c, s, ring, count, n);
	}
	return *n > 0 && (status == FORGE_MISS || status == FORGE_E_AGAIN) ? 0 : status;
}

/* At least so many groups are spared for each chunk that a lane needs. */
#define SPARED_MIN 2u

/* A group from the head of an overlong ring. */
static MAY_WAIT int spare(struct cache *c, struct evict_scratch *s, uint32_t ring, uint32_t i)
{
	struct regroup_source *src = &s->sources[i];
	const struct ring_claimed *g = &src->claimed;

	if (!compact_is_worth(c->cn, g->chunk, g->object_count)) {
		int status = requeue(c, src, ring, g->segment);

		c->count.groups_spared += (uint64_t)src->freed;
		return status;
	}
	uint64_t seen = chunk_pack_queued(ring, g->generation, g->position);

	for (uint32_t sn = 0; sn < g->object_count; sn++)
		s->groups[i].keep[sn] =
		    src->members[sn].units > 0 && !cn_is_dead(c->cn, g->chunk, sn);
	c->count.groups_compacted++;
	return regroup_move(c, &s->regroup, src, ring == RING_MAIN ? compact_stream(c, seen) : ring,
			    FAB_COMPACTION);
}

/* Make an overlong ring shorter, see above.  0 or FORGE_E_NODE. */
static MAY_WAIT int shorten(struct cache *c, uint32_t ring, uint32_t count)
{
	struct evict_scratch *s = c->evict;
	uint32_t n = 0;
	int status = collect(c, s, ring, (uint32_t)max_u64(count, SPARED_MIN), 1, &n);

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

int evict(struct cache *c)
{
	struct evict_scratch *s = c->evict;
	struct policy_occupancy occupancy;
	uint32_t n = 0;
	int status = read_occupancy(c, &occupancy);

	if (!status && atomic_load_explicit(&c->cn->free_hint, memory_order_relaxed) > 0) {
		/* Given back since the last poll: nobody need go. */
		status = lane_claim_free(c->lane, c->worker, c->lane->reserve_cap);
		if (status != FORGE_MISS)
			return status;
		status = 0;
	}
	if (status)
		return status;
	if (!occupancy.queued[RING_SMALL] && !occupancy.queued[RING_MAIN])
		return FORGE_MISS;
	uint32_t overlong = overlong_ring(c, &occupancy), ring = overlong;

	if (overlong != RING_QUEUES && pool_rule(c->cn->pool, RULE_OVERLONG_SPARED)) {
		status = shorten(c, overlong, claim_count(c, &occupancy));
		if (status || c->lane->reserve_count > 0 ||
		    cn_at_its_end(c->cn, occupancy.queued[overlong]))
			return status;
		overlong = RING_QUEUES;
	}
	if (likely(overlong == RING_QUEUES)) {
		ring = c->cn->policy->victim_ring(&occupancy);
		/* A hint of the ring's length may have kept cache_reserve_try() from it. */
		status = compact(c, compact_bounds_dead(c) ? dead_limit(c, ring) : 100);
		if (status != FORGE_MISS)
			return status;
	}
	status = collect(c, s, ring, claim_count(c, &occupancy), c->cn->policy->merge_min, &n);
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
