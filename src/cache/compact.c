/*
 * compact.c: freeing a mostly dead group early.
 *
 * Objects are never overwritten in place, so an updated or deleted object leaves a hole until
 * its group is evicted.  A CN remembers which members it saw die.  When it needs a chunk it first
 * looks for a group of which most members are dead, claims it from the middle of its ring and
 * moves the rest.  With several CNs each knows only its share, so the slots of the others are
 * READ first: a slot that does not hold the member's exact word says it is dead, too.
 */
#include "cache/evict.h"

#include <string.h>

/* Compact from this share of dead members on: moving a quarter frees three quarters. */
#define COMPACT_DEAD_PERCENT 75u

/* Take the deadest candidate that is still queued: it frees most and costs least. */
static int next_candidate(struct cache *c, struct ring_claimed *g, uint32_t *ring)
{
	const struct cn *cn = c->cn;
	uint32_t best = UINT32_MAX, best_dead = 0, kept = 0;

	for (uint32_t i = 0; i < c->candidate_count; i++) {
		uint32_t chunk = c->candidates[i], dead = cn_dead_count(cn, chunk);

		if (!cache_dead_enough(cn, chunk, cn->pool->plan.group_objects))
			continue; /* its life is over */
		c->candidates[kept] = chunk;
		if (chunk_state(cn_map(cn, chunk)) == CHUNK_QUEUED && dead > best_dead) {
			best = kept;
			best_dead = dead;
		}
		kept++;
	}
	c->candidate_count = kept;
	if (best == UINT32_MAX)
		return 0;
	uint32_t chunk = c->candidates[best];
	uint64_t seen = cn_map(cn, chunk);

	c->candidates[best] = c->candidates[--c->candidate_count];
	*ring = chunk_ring(seen);
	*g = (struct ring_claimed){
	    .chunk = chunk,
	    .generation = chunk_generation(seen),
	    .position = chunk_position(seen),
	};
	return 1;
}

int cache_dead_enough(const struct cn *cn, uint32_t chunk, uint32_t group_objects)
{
	uint32_t live = atomic_load_explicit(&cn->cns_live, memory_order_relaxed);

	return cn_dead_count(cn, chunk) * 100 * (live ? live : 1) >=
	       group_objects * COMPACT_DEAD_PERCENT;
}

void cache_note_dead(struct cache *c, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	const struct cn *cn = c->cn;
	uint32_t group_objects = cn->pool->plan.group_objects;

	cn_note_dead(c->cn, chunk, generation, sn);
	if (!cache_dead_enough(cn, chunk, group_objects))
		return;
	for (uint32_t i = 0; i < c->candidate_count; i++)
		if (c->candidates[i] == chunk)
			return;
	if (c->candidate_count == CACHE_CANDIDATES_MAX) {
		/* The oldest is the least likely to be still there. */
		memmove(c->candidates, c->candidates + 1,
			(CACHE_CANDIDATES_MAX - 1) * sizeof(c->candidates[0]));
		c->candidate_count--;
	}
	c->candidates[c->candidate_count++] = chunk;
}

static MAY_WAIT int compact_claimed(struct cache *c, struct evict_scratch *s,
				    const struct ring_claimed *g, uint32_t ring)
{
	const struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	struct fab_op op = fab_read(FAB_SPACE, plan_twim_address(p, g->chunk, g->object_count),
				    s->twims, g->object_count * TWIM_BYTES);
	int status = flow_run(c->worker, &op, 1);

	if (status)
		return status;
	twim_decode(p, g->chunk, g->generation, s->twims, g->object_count, s->members);
	for (uint32_t sn = 0; sn < g->object_count; sn++) {
		s->keeps[sn] = s->members[sn].units > 0 && !cn_is_dead(cn, g->chunk, sn);
		s->counts[sn] = cn_count(cn, g->chunk, sn);
	}
	struct regroup_source source = {
	    .claimed = *g,
	    .ring = ring,
	    .members = s->members,
	    .keep = s->keeps,
	    .carried = s->counts,
	};

	if (atomic_load_explicit(&cn->cns_live, memory_order_relaxed) > 1)
		status = regroup_weed_out(c, &s->regroup, &source, FAB_SPACE);
	if (!status)
		status = regroup_move(c, &s->regroup, &source, ring, FAB_SPACE);
	c->count.groups_compacted++;
	return status;
}

int compact(struct cache *c)
{
	struct ring_claimed group;
	uint32_t ring;

	while (next_candidate(c, &group, &ring)) {
		int status = ring_claim_middle(c->cn->pool, c->worker, FAB_SPACE, ring,
					       c->cn->member.cn, &group);

		if (!status)
			return compact_claimed(c, c->evict, &group, ring);
		if (status < 0)
			return status;
	}
	return FORGE_MISS;
}
