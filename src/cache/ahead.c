/*
 * ahead.c: a chunk at hand before it is needed.
 *
 * An eviction is some 8 round trips one after the other.  The Set that needs a chunk would wait for
 * them; so the chunk is fetched while the last objects find room in the group before it.  Who does
 * that is another flow of the same lane, as several fibers of a thread are, and all that was argued
 * for those holds: only one of a lane evicts at a time (lane->reserving), and opens or closes
 * groups beside the others as in lane.c.  A lane holds no more chunks than before, only earlier;
 * those that wait are capacity lost, an eighth of a chunk a lane.  A CN that dies or sleeps with an
 * eviction half done is no other case than one whose Set did it.
 *
 * What is fetched on the side goes on with operations alone, a step or two with each.  Until it is
 * done nobody else can have the groups it claimed, so a worker that has nothing to do should end it
 * (cache_ahead_end(), forge_rest()); but not every program says when that is.  A worker whose
 * operations come seldom therefore fetches nothing ahead: its Sets do that when they need it, 8
 * round trips with one of them, which is little beside the time between two operations.
 */
#include "cache/cache.h"

#include <stdlib.h>

#include "run/side.h"

/* Tries to get one chunk; the Set that needs it tries on. */
#define AHEAD_TRIES_MAX 4u

/*
 * Seldom: the mean time between operations, over so many at least.  A group stands half evicted
 * from one operation to the next and up to the third (test/vtime/ahead.c), so below that limit for
 * some 30 ms: little beside the half second after which others without a chunk give up
 * (BARREN_US_MAX).
 */
#define AHEAD_GAP_US_MAX 10000u
#define AHEAD_GAPS_MIN	 16u

struct ahead {
	struct side side;
	struct cache cache; /* on the same lane, with the side's worker */
	struct cache *first;
};

int cache_ahead(struct cache *c)
{
	struct lane *lane = c->lane;
	int status = 0;

	if (!lane->is_low)
		return 0;
	lane->is_low = 0;
	for (unsigned try = 0;
	     try < AHEAD_TRIES_MAX && lane->reserve_count == 0 && !status && !lane->reserving;
	     try++)
		status = cache_reserve_try(c);
	c->count.chunks_ahead += lane->reserve_count > 0;
	return status < 0 ? status : 0;
}

/* What it did is added to what its worker does. */
static void hand_over_counts(struct ahead *a)
{
	const uint64_t *from = (const uint64_t *)&a->cache.count;
	uint64_t *into = (uint64_t *)&a->first->count;

	for (size_t i = 0; i < sizeof(a->cache.count) / sizeof(*from); i++)
		into[i] += from[i];
	a->cache.count = (struct cache_counters){0};
}

/* An error is the node's, and the worker will meet it. */
static MAY_WAIT void fetch(void *argument)
{
	struct ahead *a = argument;
	struct tally *tally = &a->cache.tally;

	/* It takes heads of large objects out of the index, and the pool counts those. */
	if (a->first->tally.tells && !tally->tells && cache_count_in_pool(&a->cache))
		return;
	cache_ahead(&a->cache);
	if (tally->tells && tally->untold)
		tally_tell(tally, a->cache.worker);
	hand_over_counts(a);
}

void cache_fetch_aside(struct cache *c)
{
	c->fetches_aside = c->looks_ahead;
}

static int create(struct cache *c)
{
	struct ahead *a = calloc(1, sizeof(*a));
	int status = a ? side_init(&a->side, c->worker) : FORGE_E_NO_MEMORY;

	if (!status) {
		status = cache_init_beside(&a->cache, &a->side.worker, c);
		if (status)
			side_fini(&a->side);
	}
	if (status) {
		free(a);
		return status;
	}
	a->first = c;
	c->ahead = a;
	return 0;
}

/* By the operation's moment, so it costs no look at the clock. */
static int comes_seldom(struct cache *c)
{
	const struct cache_counters *n = &c->count;
	uint64_t ops = n->gets + n->sets + n->changes + n->deletes;
	uint64_t count = ops - c->seldom_from_ops;
	/* Signed: the moment may be a little behind the look that began it. */
	int64_t took_ns = (int64_t)(c->moment.now_ns - c->seldom_from_ns);

	if (count >= AHEAD_GAPS_MIN) {
		c->is_seldom = took_ns > (int64_t)(count * AHEAD_GAP_US_MAX * 1000);
		c->seldom_from_ns = c->moment.now_ns;
		c->seldom_from_ops = ops;
	}
	return c->is_seldom;
}

void cache_look_ahead(struct cache *c, const struct open_group *g)
{
	struct lane *lane = c->lane;

	if (!c->looks_ahead || likely(!lane_is_low(lane, g)))
		return;
	if (comes_seldom(c))
		return;
	lane->is_low = 1;
	if (!c->fetches_aside)
		return;
	if (!c->ahead && create(c)) {
		c->fetches_aside = 0; /* no memory: chunks are fetched when they are needed */
		return;
	}
	if (side_is_busy(&c->ahead->side) || c->worker->side)
		return;
	c->ahead->cache.moment = c->moment;
	lane->side = &c->ahead->side;
	side_start(&c->ahead->side, fetch, c->ahead);
}

void cache_ahead_end(struct cache *c)
{
	while (c->ahead && side_is_busy(&c->ahead->side))
		side_help(&c->ahead->side, c->worker);
	if (c->ahead && c->ahead->cache.tally.tells)
		tally_close(&c->ahead->cache.tally, c->worker);
}

void cache_ahead_fini(struct cache *c)
{
	struct ahead *a = c->ahead;

	if (!a)
		return;
	side_fini(&a->side);
	cache_fini(&a->cache);
	if (c->lane->side == &a->side)
		c->lane->side = NULL;
	free(a);
	c->ahead = NULL;
}
