/*
 * collect.c: steps 1 to 3 of an eviction (evict.c): looking at the rings, claiming groups and
 * READing what they will be judged by.
 *
 * Round trips follow one another, verbs of a batch do not, so what is independent goes together:
 *   1 READ the cursors; the nodes where the head of the ring that will probably be the victim was
 *     last seen; and some of the dead map, if compaction may be the better way
 *   2 move head on (ring.h)
 *   3 CAS the chunk words and nodes; behind that READ the registry, rows, TWIMs and dead words
 * A node that is alone counts every hit itself: it READs neither rows nor the registry, but for a
 * look who is there at most every 20 ms (collect_company()).  It misses what a node flushes that
 * joined in between; such counts stay in the rows and are added to those of their next owners,
 * once. If a claim of step 3 is lost, what was READ beside it does not fit any more, and is READ
 * again.
 */
#include "cache/evict.h"

#include <string.h>

/* Looks at the registry while other nodes have not flushed. */
#define FLUSH_WAIT_LOOKS_MAX 64u

/* The ring that the policy will probably name, by what was last seen of them. */
static uint32_t likely_ring(const struct cache *c)
{
	const struct cn *cn = c->cn;
	struct policy_occupancy o = {.chunk_count = cn->pool->plan.chunk_count};

	for (uint32_t r = 0; r < RING_QUEUES; r++) {
		int64_t queued =
		    (int64_t)(atomic_load_explicit(&cn->tail[r], memory_order_relaxed) -
			      atomic_load_explicit(&cn->next[r], memory_order_relaxed));

		o.queued[r] = queued > 0 ? (uint64_t)queued : 0;
	}
	return o.queued[RING_SMALL] || o.queued[RING_MAIN] ? cn->policy->victim_ring(&o)
							   : (uint32_t)RING_SMALL;
}

int collect_company(struct cache *c)
{
	struct cn *cn = c->cn;
	uint64_t now_ns = clock_now_ns(c->worker->clock);
	uint64_t seen_ns = atomic_load_explicit(&cn->company_ns, memory_order_relaxed);

	/* Signed: another worker may have looked after our own look at the clock. */
	if (!cn_is_alone(cn) || (seen_ns && (int64_t)(now_ns - seen_ns) <
						INT64_C(1000) * (int64_t)CN_COMPANY_INTERVAL_US))
		return 0;
	int status = registry_read(cn->pool, c->worker, FAB_EVICTION, c->evict->lines);

	if (!status)
		cn_see_company(cn, c->evict->lines, now_ns);
	return status;
}

MAY_WAIT int collect_look(struct cache *c, struct policy_occupancy *o)
{
	struct cn *cn = c->cn;
	struct evict_scratch *s = c->evict;
	const struct plan *p = &cn->pool->plan;
	struct layout_cursors cursors;
	uint32_t n = 0, learns;
	struct fab_op ops[3];

	ops[n++] = fab_read(FAB_EVICTION, p->cursors_offset, &cursors, sizeof(cursors));
	/* Who waits for a group, as many may in a small pool, looks often and has nothing to
	 * choose. */
	learns = s->emptied ? 0 : compact_learn_op(c, &ops[n]);
	n += learns;
	s->viewed = RING_QUEUES;
	/* Who compacted the last time will probably do so again, and needs no head. */
	if (!s->compacted) {
		s->viewed = likely_ring(c);
		ops[n++] = ring_view_nodes(
		    cn->pool, FAB_EVICTION, s->viewed,
		    atomic_load_explicit(&cn->next[s->viewed], memory_order_relaxed), &s->view);
	}
	int status = flow_run(c->worker, ops, n);

	if (status)
		return status;
	if (learns)
		compact_learn(c);
	cn_see_heads(cn, &cursors);
	for (unsigned r = 0; r < RING_QUEUES; r++) {
		int64_t queued = (int64_t)(cursors.ring[r].tail - cursors.ring[r].head);

		o->queued[r] = queued > 0 ? (uint64_t)queued : 0;
		if (r == s->viewed) {
			s->view.head = cursors.ring[r].head;
			s->view.tail = cursors.ring[r].tail;
		}
	}
	s->emptied = !o->queued[RING_SMALL] && !o->queued[RING_MAIN];
	int64_t free_count = (int64_t)(cursors.ring[RING_FREE].tail - cursors.ring[RING_FREE].head);

	atomic_store_explicit(&cn->free_hint, free_count > 0 ? (uint64_t)free_count : 0,
			      memory_order_relaxed);
	/* Parts are in no ring: the policy shares out what is left. */
	o->chunk_count = plan_group_chunks(p, cursors.part_chunks);
	return 0;
}

/*
 * How many groups to claim: the policy's wish, but never more than the lane may hold.  A group
 * stands for the parts its heads own, too, as many as it has on average.
 */
uint32_t collect_count(const struct cache *c, const struct policy_occupancy *o)
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

/* Groups that are being claimed or are ours, from `from` on in the scratch. */
struct batch {
	struct cache *c;
	uint32_t ring, from;
};

/* What is READ of n of them.  Rows of neighbouring positions are neighbours. */
static uint32_t group_reads(void *context, const struct ring_claimed *claimed, uint32_t n,
			    struct fab_op *ops)
{
	const struct batch *batch = context;
	struct evict_scratch *s = batch->c->evict;
	const struct plan *p = &batch->c->cn->pool->plan;
	uint32_t count = 0, row_words = p->ofm_row_bytes / 8, from = batch->from;

	/* First, so that the rows hold what a node says it has flushed. */
	if (!s->alone)
		ops[count++] = fab_read(FAB_EVICTION, p->registry_offset, s->lines,
					p->cn_max * LAYOUT_REGISTRY_BYTES);
	else
		memset(s->rows + (uint64_t)from * row_words, 0, (size_t)n * p->ofm_row_bytes);
	for (uint32_t i = 0; i < n && !s->alone;) {
		/* One READ for a run of rows that lie side by side. */
		uint64_t first = claimed[i].position;
		uint32_t run = 1;

		while (i + run < n && claimed[i + run].position == first + run &&
		       ((first + run) & (p->ofm_rows - 1)) != 0)
			run++;
		ops[count++] =
		    fab_read(FAB_EVICTION, plan_ofm_row_address(p, batch->ring, first),
			     s->rows + (uint64_t)(from + i) * row_words, run * p->ofm_row_bytes);
		i += run;
	}
	for (uint32_t i = 0; i < n; i++)
		ops[count++] = fab_read(
		    FAB_EVICTION, plan_twim_address(p, claimed[i].chunk, claimed[i].object_count),
		    s->twims + (uint64_t)(from + i) * p->group_objects,
		    claimed[i].object_count * TWIM_BYTES);
	/* What others saw die; alone, this node has seen it all itself. */
	if (!s->alone)
		for (uint32_t i = 0; i < n; i++)
			ops[count++] =
			    fab_read(FAB_EVICTION, plan_dead_address(p, claimed[i].chunk),
				     s->dead[from + i], 8 * plan_dead_words(p));
	else
		memset(s->dead + from, 0, n * sizeof(s->dead[0]));
	return count;
}

/* Claim up to `count` groups behind the *n in hand, and READ what they have. */
static MAY_WAIT int claim(struct cache *c, uint32_t ring, uint32_t count, uint32_t *n)
{
	struct evict_scratch *s = c->evict;
	struct batch batch = {.c = c, .ring = ring, .from = *n};
	struct ring_company company = {
	    .append = group_reads,
	    .context = &batch,
	    .ops = s->regroup.ops,
	};
	struct ring_claim_wish wish = {
	    .ring = ring,
	    .count = count,
	    .evictors = cn_evictors(c->cn),
	    .owner = c->cn->member.cn,
	    .view = *n == 0 && s->viewed == ring ? &s->view : NULL,
	    .company = &company,
	};
	struct ring_claimed *claimed = s->claimed + *n;
	uint32_t won = 0;
	int status = ring_claim(c->cn->pool, c->worker, FAB_EVICTION, &wish, claimed, &won);

	*n += won;
	if (won)
		atomic_store_explicit(&c->cn->next[ring], claimed[won - 1].position + 1,
				      memory_order_relaxed);
	if (status || won == 0 || company.complete)
		return status;
	return flow_run(c->worker, s->regroup.ops,
			group_reads(&batch, claimed, won, s->regroup.ops));
}

/*
 * Nodes that are live, did not flush up to `upto`, and are not known to be asleep.  *asleep
 * receives how many are.
 */
static uint32_t unflushed(struct cache *c, const struct evict_scratch *s, uint32_t ring,
			  uint64_t upto, int give_up, uint32_t *asleep)
{
	struct cn *cn = c->cn;
	uint32_t late = 0;

	*asleep = 0;
	for (uint32_t i = 0; i < cn->pool->plan.cn_max; i++) {
		const struct layout_registry *line = &s->lines[i];

		if (registry_state(line->id) != REGISTRY_LIVE || i == cn->member.cn ||
		    line->flushed[ring] > upto)
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
	cn_see_company(cn, s->lines, clock_now_ns(c->worker->clock));
	return late;
}

/* Has every other live node flushed position p, so that its row is still for good? */
int collect_row_is_still(const struct cache *c, uint32_t ring, uint64_t position)
{
	const struct evict_scratch *s = c->evict;

	for (uint32_t i = 0; i < c->cn->pool->plan.cn_max && !s->alone; i++)
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

	if (s->alone || !pool_rule(c->cn->pool, RULE_EVICT_WAITS_FLUSH))
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

		cn_learn_dead(c->cn, g->chunk, g->generation, s->dead[i]);
		twim_decode(p, g->chunk, g->generation, s->twims + (uint64_t)i * p->group_objects,
			    g->object_count, members);
		for (uint32_t sn = 0; sn < g->object_count; sn++) {
			uint32_t own = cn_count(c->cn, g->chunk, sn);
			uint32_t sum = (uint32_t)row[sn] + own;

			c->count.hits_judged += own;

			if (members[sn].units == 0 ||
			    cn_is_dead(c->cn, g->chunk, g->generation, sn))
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

int collect(struct cache *c, uint32_t ring, uint32_t count, uint32_t merge_min, uint32_t *n)
{
	struct evict_scratch *s = c->evict;
	uint32_t had = 0;

	s->alone = (uint8_t)cn_is_alone(c->cn);
	int status = claim(c, ring, count, n);

	while (!status && *n > had) {
		status = wait_for_flushes(c, s, ring, *n);
		if (status)
			return status;
		for (uint32_t i = had; i < *n; i++)
			c->count.groups_unflushed +=
			    (uint64_t)!collect_row_is_still(c, ring, s->claimed[i].position);
		gather(c, s, ring, had, *n);
		had = *n;
		uint32_t room = RING_CLAIM_MAX - had;

		if (merge_min <= 1 || room == 0)
			break;
		uint32_t merged = mergeable(c, s, had);

		if (merged >= merge_min || had >= c->lane->reserve_cap)
			break;
		count = (uint32_t)min_u64(merge_min - merged, room);
		status = claim(c, ring, count, n);
	}
	return *n > 0 && (status == FORGE_MISS || status == FORGE_E_AGAIN) ? 0 : status;
}
