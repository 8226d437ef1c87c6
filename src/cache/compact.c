/*
 * compact.c: knowing which members are dead, and freeing a mostly dead group early.
 *
 * Objects are never overwritten in place, so an updated or deleted object leaves a hole until
 * its group is evicted.  The node that won the CAS on a slot knows that the old member died, and
 * nobody else does.  Where several nodes share the pool each publishes what it knows, several
 * deaths of a group in one FAA on each of the chunk's dead words; the word that comes back tells
 * what the others published, so no READ is needed.
 *
 * Who is late.  Between the CAS that won the slot and the FAA another node may free the chunk and
 * fill it anew: within a round trip, if it is just moving the group, or while we sleep.  The FAA
 * then lands beside deaths of the next life, and would name members that live: whoever moves their
 * group would leave them behind.  Nobody can keep it from landing, so it shows: each death is
 * published with the life it was in, and a word in which something else was added is not believed
 * (layout/chunk.h).  Its members are taken for alive, but for those the reader saw die itself: they
 * are copied in vain, as those that nobody published are, and the word is good again in the next
 * life.  So a member that a slot points to is never taken for dead.  Who frees the chunk zeroes its
 * words behind that; where he does not (alone, or because they held nothing when he READ them) what
 * is left in them is not believed either.
 * What a node knows by itself is as exact: the life stands in the word with the deaths (cn.c), for
 * of two of its threads one may learn of the next life while the other is about to note a death.
 * Crash: some deaths have been published, the others never will be.
 *
 * When a node needs room in main it looks for a group with dead members that is worth it, claims
 * it from the middle of its ring and moves the rest to those that are as old (lane.h): what has
 * lived long will live long.
 */
#include "cache/evict.h"

#include <string.h>

/*
 * A group is compacted from this share of known dead members on whatever the policy says: moving a
 * third frees two thirds.  YCSB-A at 10 %, three nodes, forge-paper: 75 gives hit ratio .656 for
 * 9.7 % housekeeping verbs, 66 .665 for 10.0, 60 .688 for 10.2.
 */
#define COMPACT_DEAD_PERCENT 66u
/* Below this share moving three members frees one, whatever the policy wants. */
#define COMPACT_WORTH_PERCENT 25u
/* Groups looked at for one that is compacted, in local memory, from all over the pool. */
#define COMPACT_SAMPLE 256u
/* Groups whose dead are READ before that. */
#define COMPACT_LEARNED 96u
/* Groups that others may have taken before an eviction is the better way. */
#define COMPACT_TRIES_MAX 4u
/*
 * Deaths per FAA: an eighth of a group.  At 8 of 64 an update costs 1/8 verb more, and what others
 * do not know yet stays small beside the 66 %.  Where the policy bounds the dead of the pool it is
 * not small: YCSB-A at 10 %, three nodes, hit .757 for 14.8 % housekeeping verbs at an eighth,
 * .767 for 17.9 % at a sixteenth.
 */
#define PUBLISH_SHARE	      8u
#define PUBLISH_SHARE_BOUNDED 16u
/* Dead words that are published in one batch: those of 256 members. */
#define PUBLISH_WORDS 8u

int compact_bounds_dead(const struct cache *c)
{
	return c->cn->dead_percent < 100 && plan_has_long_rings(c->cn->pool->plan.chunk_count);
}

/*
 * What compacting a group is worth: the room it frees for what it costs, one READ of the members
 * and one copy of the living, times the root of its age: members that outlived many others will
 * live on.  (The cost-benefit rule of log-structured file systems, Rosenblum and Ousterhout 1992,
 * where the age has no root: that moves 15 % more in the model of lane.h.)  The square of it.
 */
static uint64_t worth(const struct cn *cn, uint64_t seen, uint64_t dead, uint64_t members)
{
	uint64_t gain = dead * 1024 / (2 * members - dead);

	return gain * gain * cn_age(cn, seen);
}

static int is_worth(uint32_t dead, uint32_t members)
{
	return dead * 100 >= members * COMPACT_WORTH_PERCENT;
}

int compact_is_worth(const struct cn *cn, const struct ring_claimed *g)
{
	return is_worth(cn_dead_count(cn, g->chunk, g->generation), g->object_count);
}

uint32_t compact_stream(const struct cache *c, uint64_t seen)
{
	return compact_bounds_dead(c) ? lane_stream_after(c->lane, seen) : (uint32_t)RING_MAIN;
}

/* Groups from one on whose dead are READ together: read[] has room for a chunk at least. */
static uint32_t learned_at_once(const struct cn *cn, uint32_t from, uint32_t most)
{
	const struct plan *p = &cn->pool->plan;
	uint32_t count = (uint32_t)min_u64(most, p->chunk_count - from);

	return (uint32_t)min_u64(count, p->chunk_bytes / (8 * cn->dead_words));
}

static struct fab_op read_dead(const struct cache *c, uint32_t from, uint32_t count)
{
	return fab_read(FAB_COMPACTION, plan_dead_address(&c->cn->pool->plan, from),
			c->evict->regroup.read, count * c->cn->dead_words * 8);
}

/* Words may be older or newer than the map: then they say nothing of the life it has. */
static void take_dead(const struct cache *c, uint32_t from, uint32_t count)
{
	struct cn *cn = c->cn;
	uint32_t words = cn->dead_words;
	const uint64_t *dead = (const uint64_t *)(const void *)c->evict->regroup.read;

	for (uint32_t i = 0; i < count; i++)
		cn_learn_dead(cn, from + i, chunk_generation(cn_map(cn, from + i)),
			      dead + i * words);
}

uint32_t compact_learn_op(struct cache *c, struct fab_op *op)
{
	const struct cn *cn = c->cn;

	if (!atomic_load_explicit(&cn->any_dead, memory_order_relaxed) || cn_is_alone(cn) ||
	    !compact_bounds_dead(c))
		return 0;
	*op = read_dead(c, c->learn_from, learned_at_once(cn, c->learn_from, COMPACT_LEARNED));
	return 1;
}

void compact_learn(struct cache *c)
{
	uint32_t count = learned_at_once(c->cn, c->learn_from, COMPACT_LEARNED);

	take_dead(c, c->learn_from, count);
	c->learn_from = (c->learn_from + count) % c->cn->pool->plan.chunk_count;
}

int compact_learn_all(struct cache *c)
{
	struct cn *cn = c->cn;
	uint32_t chunks = cn->pool->plan.chunk_count, count;
	int status = 0;

	if (cn_is_alone(cn) || !compact_bounds_dead(c) ||
	    atomic_load_explicit(&cn->learned_all, memory_order_relaxed))
		return FORGE_MISS;
	for (uint32_t from = 0; from < chunks && !status; from += count) {
		count = learned_at_once(cn, from, UINT32_MAX);
		struct fab_op op = read_dead(c, from, count);

		status = flow_run(c->worker, &op, 1);
		if (!status)
			take_dead(c, from, count);
	}
	if (!status)
		atomic_store_explicit(&cn->learned_all, 1, memory_order_relaxed);
	return status;
}

/* The best of the groups seen so far. */
struct choice {
	uint64_t worth, seen;
	uint32_t chunk;
};

static void prefer(struct choice *best, uint64_t worth, uint64_t seen, uint32_t chunk)
{
	if (worth > best->worth)
		*best = (struct choice){worth, seen, chunk};
}

/*
 * Look at a sample of the groups, all of them in a small pool, and choose one: the best of those
 * that are mostly dead or, while more members than dead_percent are dead, of all that are worth it.
 */
static int choose(struct cache *c, uint32_t dead_percent, struct ring_claimed *g, uint32_t *ring)
{
	const struct cn *cn = c->cn;
	uint32_t n = cn->pool->plan.chunk_count;
	uint32_t stride = (n + COMPACT_SAMPLE - 1) / COMPACT_SAMPLE;
	uint64_t members = 0, dead = 0;
	struct choice any = {0}, mostly = {0};

	/* The remainders in turn. */
	c->compact_from = (c->compact_from + 1) % stride;
	for (uint32_t chunk = c->compact_from; chunk < n; chunk += stride) {
		uint64_t seen = cn_map(cn, chunk);
		uint32_t has = cn_members(cn, chunk);
		uint32_t died = cn_dead_count(cn, chunk, chunk_generation(seen));

		if (chunk_state(seen) == CHUNK_QUEUED && died <= has) {
			members += has;
			dead += died;
			if (is_worth(died, has))
				prefer(&any, worth(cn, seen, died, has), seen, chunk);
			if (died * 100 >= has * COMPACT_DEAD_PERCENT)
				prefer(&mostly, worth(cn, seen, died, has), seen, chunk);
		}
	}
	int too_many = dead * 100 > members * dead_percent;
	const struct choice *best = too_many ? &any : &mostly;

	if (!best->worth)
		return 0;
	*ring = chunk_ring(best->seen);
	*g = (struct ring_claimed){
	    .chunk = best->chunk,
	    .generation = chunk_generation(best->seen),
	    .position = chunk_position_near(
		best->seen, atomic_load_explicit(&cn->tail[*ring], memory_order_relaxed)),
	};
	return 1;
}

/* Of the dead words of a chunk, from *from on; *from receives how far that went. */
static MAY_WAIT int publish_some(struct cache *c, uint32_t chunk, uint32_t generation,
				 uint32_t *from)
{
	struct cn *cn = c->cn;
	struct fab_op ops[PUBLISH_WORDS];
	uint32_t which[PUBLISH_WORDS], n = 0;
	/* Where they are READ anyway nobody waits: what is lost is taken for alive until it is
	 * evicted. */
	int waits = !compact_bounds_dead(c);

	for (; *from < cn->dead_words && n < PUBLISH_WORDS; ++*from) {
		uint64_t news = cn_take_news(cn, chunk, generation, *from);

		if (!news && !waits)
			continue;
		which[n] = *from;
		ops[n] =
		    fab_faa(FAB_COMPACTION,
			    plan_dead_address(&cn->pool->plan, chunk) + 8 * (uint64_t)*from, news);
		ops[n].flags |= waits ? 0 : FAB_DETACHED;
		n++;
	}
	int status = n ? flow_run(c->worker, ops, n) : 0;

	for (uint32_t i = 0; i < n && !status && waits; i++)
		cn_learn_dead_word(cn, chunk, generation, which[i], ops[i].old);
	return status;
}

/* Publish what this node saw die in a life of a chunk, and learn what the others did. */
static MAY_WAIT int publish(struct cache *c, uint32_t chunk, uint32_t generation)
{
	int status = 0;

	for (uint32_t at = 0; at < c->cn->dead_words && !status;)
		status = publish_some(c, chunk, generation, &at);
	return status;
}

int cache_note_dead(struct cache *c, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	struct cn *cn = c->cn;
	uint32_t share = compact_bounds_dead(c) ? PUBLISH_SHARE_BOUNDED : PUBLISH_SHARE, news;

	cn_note_dead(cn, chunk, generation, sn);
	if (cn_is_alone(cn))
		return 0;
	news = cn_news_count(cn, chunk, generation);
	return news && news * share >= cn_members(cn, chunk) ? publish(c, chunk, generation) : 0;
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
		s->keeps[sn] =
		    s->members[sn].units > 0 && !cn_is_dead(cn, g->chunk, g->generation, sn);
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

	uint32_t stream =
	    ring == RING_MAIN
		? compact_stream(c, chunk_pack_queued(ring, g->generation, g->position))
		: ring;

	status = regroup_move(c, &s->regroup, &source, stream, FAB_COMPACTION);
	/* No evictor will come for this position: what was flushed would stay, trip upon trip. */
	if (!status && source.freed)
		status = evict_clear_row(c, s, row_address, s->rows);
	c->count.groups_compacted++;
	return status;
}

int compact(struct cache *c, uint32_t dead_percent)
{
	struct ring_claimed group;
	uint32_t ring;

	c->evict->outrun = 0;
	if (!atomic_load_explicit(&c->cn->any_dead, memory_order_relaxed))
		return FORGE_MISS;
	for (unsigned try = 0; try < COMPACT_TRIES_MAX && choose(c, dead_percent, &group, &ring);
	     try++) {
		int status = ring_claim_middle(c->cn->pool, c->worker, FAB_COMPACTION, ring,
					       c->cn->member.cn, &group);

		if (!status)
			return compact_claimed(c, c->evict, &group, ring);
		if (status < 0)
			return status;
		/* Others took it or moved it: until the next poll the map is wrong about it. */
		cn_forget_dead(c->cn, group.chunk);
		c->evict->outrun = 1;
	}
	return FORGE_MISS;
}
