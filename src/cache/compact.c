/*
 * compact.c: knowing which members are dead, and freeing a mostly dead group early.
 *
 * Objects are never overwritten in place, so an updated or deleted object leaves a hole until
 * its group is evicted.  The node that won the CAS on a slot knows that the old member died, and
 * nobody else does.  Where several nodes share the pool each publishes what it knows, several
 * deaths of a group in one FAA on the chunk's dead words; the word that comes back tells what the
 * others published, so no READ is needed.  Each bit is added by one node, the winner of one CAS,
 * so the addition never carries.  A node that publishes so late that the chunk lives again marks
 * living members as dead: they lose their place at the next eviction, as any object may.
 *
 * When a node needs a chunk it first looks for a group of which most members are dead, claims it
 * from the middle of its ring and moves the rest.
 */
#include "cache/evict.h"

#include <string.h>

/*
 * Compact from this share of known dead members on: moving a third frees two thirds.  YCSB-A at
 * 10 %, three nodes, forge-paper: 75 gives hit ratio .656 for 9.7 % housekeeping verbs, 66 .665
 * for 10.0, 60 .688 for 10.2.
 */
#define COMPACT_DEAD_PERCENT 66u
/*
 * Deaths per FAA: an eighth of a group.  At 8 of 64 an update costs 1/8 verb more, and what
 * others do not know yet stays small beside the 66 %.
 */
#define PUBLISH_SHARE 8u

static int dead_enough(const struct cn *cn, uint32_t chunk)
{
	return cn_dead_count(cn, chunk) * 100 >= cn_members(cn, chunk) * COMPACT_DEAD_PERCENT;
}

/* Take the deadest candidate that is still queued: it frees most and costs least. */
static int next_candidate(struct cache *c, struct ring_claimed *g, uint32_t *ring)
{
	const struct cn *cn = c->cn;
	uint32_t best = UINT32_MAX, best_dead = 0, kept = 0;

	for (uint32_t i = 0; i < c->candidate_count; i++) {
		uint32_t chunk = c->candidates[i], dead = cn_dead_count(cn, chunk);

		if (!dead_enough(cn, chunk))
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
	    .position = chunk_position_near(
		seen, atomic_load_explicit(&cn->tail[*ring], memory_order_relaxed)),
	};
	return 1;
}

/* Publish what this node saw die in a chunk, and learn what the others did. */
static MAY_WAIT int publish(struct cache *c, uint32_t chunk)
{
	struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	uint64_t words[LAYOUT_GROUP_OBJECTS_MAX / 64];
	struct fab_op ops[LAYOUT_GROUP_OBJECTS_MAX / 64];

	cn_take_news(cn, chunk, words);
	for (uint32_t i = 0; i < cn->dead_words; i++)
		ops[i] = fab_faa(FAB_COMPACTION, plan_dead_address(p, chunk) + 8 * (uint64_t)i,
				 words[i]);
	int status = flow_run(c->worker, ops, cn->dead_words);

	for (uint32_t i = 0; i < cn->dead_words; i++)
		words[i] |= ops[i].old;
	if (!status)
		cn_learn_dead(cn, chunk, words);
	return status;
}

static void add_candidate(struct cache *c, uint32_t chunk)
{
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

int cache_note_dead(struct cache *c, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	struct cn *cn = c->cn;
	int status = 0;

	cn_note_dead(cn, chunk, generation, sn);
	if (!cn_is_alone(cn) && cn_news_count(cn, chunk) * PUBLISH_SHARE >= cn_members(cn, chunk))
		status = publish(c, chunk);
	if (!status && dead_enough(cn, chunk))
		add_candidate(c, chunk);
	return status;
}

static MAY_WAIT int compact_claimed(struct cache *c, struct evict_scratch *s,
				    const struct ring_claimed *g, uint32_t ring)
{
	const struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	int alone = cn_is_alone(cn);
	uint64_t row_address = plan_ofm_row_address(p, ring, g->position);
	struct fab_op ops[] = {
	    fab_read(FAB_COMPACTION, plan_twim_address(p, g->chunk, g->object_count), s->twims,
		     g->object_count * TWIM_BYTES),
	    fab_read(FAB_COMPACTION, row_address, s->rows, p->ofm_row_bytes),
	};
	int status = flow_run(c->worker, ops, alone ? 1 : 2);

	if (status)
		return status;
	if (alone)
		memset(s->rows, 0, p->ofm_row_bytes);
	twim_decode(p, g->chunk, g->generation, s->twims, g->object_count, s->members);
	for (uint32_t sn = 0; sn < g->object_count; sn++) {
		s->keeps[sn] = s->members[sn].units > 0 && !cn_is_dead(cn, g->chunk, sn);
		s->counts[sn] = (uint8_t)min_u64((uint64_t)cn_count(cn, g->chunk, sn) +
						     ((const uint8_t *)s->rows)[sn],
						 UINT8_MAX);
	}
	struct regroup_source source = {
	    .claimed = *g,
	    .members = s->members,
	    .keep = s->keeps,
	    .carried = s->counts,
	    .dead_published = !alone,
	};

	status = regroup_move(c, &s->regroup, &source, ring, FAB_COMPACTION);
	/* No evictor will come for this position: what was flushed would stay, trip upon trip. */
	if (!status && source.freed)
		status = evict_clear_row(c, s, row_address, s->rows);
	c->count.groups_compacted++;
	return status;
}

int compact(struct cache *c)
{
	struct ring_claimed group;
	uint32_t ring;

	while (next_candidate(c, &group, &ring)) {
		int status = ring_claim_middle(c->cn->pool, c->worker, FAB_COMPACTION, ring,
					       c->cn->member.cn, &group);

		if (!status)
			return compact_claimed(c, c->evict, &group, ring);
		if (status < 0)
			return status;
	}
	return FORGE_MISS;
}
