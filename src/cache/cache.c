/* cache.c: a worker's view on the cache: scratch, the reserve of chunks, leaving. */
#include "cache/cache.h"

#include <stdlib.h>

#include "cache/evict.h"
#include "cache/large.h"
#include "pool/recover.h"
#include "run/side.h"

static uint64_t object_scratch_bytes(const struct plan *p)
{
	return round_up_u64((uint64_t)p->chunk_bytes + LAYOUT_PAD_BYTES, 64);
}

/* What no two views share: objects and a TWIM. */
static uint64_t own_scratch_bytes(const struct plan *p)
{
	return 3 * object_scratch_bytes(p) +
	       round_up_u64((uint64_t)p->group_objects * TWIM_BYTES, 64);
}

uint64_t cache_memory_bytes(const struct plan *p)
{
	return own_scratch_bytes(p) + evict_scratch_bytes(p);
}

/* evict: somebody else's scratch, or NULL for one of its own. */
static int create(struct cache *c, struct worker *w, struct cn *cn, struct lane *lane,
		  struct evict_scratch *evict)
{
	const struct plan *p = &cn->pool->plan;
	uint64_t object_bytes = object_scratch_bytes(p), own_bytes = own_scratch_bytes(p);
	uint64_t total = evict ? own_bytes : cache_memory_bytes(p);
	uint8_t *memory = aligned_alloc(64, total);

	if (!memory)
		return FORGE_E_NO_MEMORY;
	int status = fab_reg(w->fab, memory, total);

	if (status) {
		free(memory);
		return status;
	}
	*c = (struct cache){
	    .worker = w,
	    .cn = cn,
	    .lane = lane,
	    .tally = {.gets = &c->count.gets, .hits = &c->count.hits},
	    .object = memory,
	    .fetched = memory + object_bytes,
	    .other = memory + 2 * object_bytes,
	    .twim = (uint64_t *)(void *)(memory + 3 * object_bytes),
	    .evict = evict ? evict : evict_scratch_place(p, memory + own_bytes),
	    .memory = memory,
	    .spread_epoch = cn->spread_epoch,
	    .looks_ahead = !fab_caps(w->fab)->completes_at_post,
	    .seldom_from_ns = clock_now_ns(w->clock),
	};
	status = large_init(c);
	if (status)
		cache_fini(c);
	return status;
}

int cache_init(struct cache *c, struct worker *w, struct cn *cn, struct lane *lane)
{
	return create(c, w, cn, lane, NULL);
}

int cache_init_beside(struct cache *c, struct worker *w, struct cache *first)
{
	return create(c, w, first->cn, first->lane, first->evict);
}

void cache_fini(struct cache *c)
{
	cache_ahead_fini(c);
	large_fini(c);
	free(c->memory);
	c->memory = NULL;
}

/* The fibers of a lane share what it sealed; whoever looks first counts it. */
static void count_sealed(struct cache *c)
{
	struct lane_sealed *sealed = &c->lane->sealed;

	c->count.groups_sealed += sealed->groups;
	c->count.objects_sealed += sealed->objects;
	c->count.bytes_sealed += sealed->bytes;
	*sealed = (struct lane_sealed){0};
}

uint64_t cache_pool_ms(const struct cache *c)
{
	return pool_ms_earliest(c->cn->pool, clock_now_ns(c->worker->clock));
}

int cache_close_group(struct cache *c, uint32_t ring)
{
	int status = lane_close(c->lane, c->worker, ring, c->twim);

	count_sealed(c);
	return status;
}

int cache_close_heavy(struct cache *c, struct open_group *g)
{
	int status = lane_close_heavy(c->lane, c->worker, g, c->twim);

	count_sealed(c);
	return status;
}

int cache_make_way(struct cache *c, uint32_t ring)
{
	int status = 0;

	while (!status && lane_is_crowded(c->lane, ring))
		status = cache_close_group(c, ring);
	return status;
}

int cache_count_in_pool(struct cache *c)
{
	return tally_open(&c->tally, c->cn->pool, c->worker, c->cn->member.cn);
}

int cache_drain(struct cache *c)
{
	cache_ahead_end(c);
	int status = lane_drain(c->lane, c->worker, c->twim);
	int told = tally_close(&c->tally, c->worker);

	count_sealed(c);
	return status ? status : told;
}

static int some_ring_overlong(const struct cn *cn)
{
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++)
		if (cn_overlong(cn,
				atomic_load_explicit(&cn->tail[ring], memory_order_relaxed) -
				    atomic_load_explicit(&cn->head[ring], memory_order_relaxed)))
			return 1;
	return 0;
}

int cache_recover(struct cache *c)
{
	struct cn *cn = c->cn;
	uint64_t now_ns = clock_now_ns(c->worker->clock);
	struct recover_report report = {0};
	uint32_t dead_count = 0;

	if (!cn->alive ||
	    now_ns - atomic_load_explicit(&cn->recovered_ns, memory_order_relaxed) <
		UINT64_C(1000) * CN_RECOVER_INTERVAL_US ||
	    atomic_flag_test_and_set_explicit(&cn->recovering, memory_order_acquire))
		return 0;
	int status = recover_dead_open(cn->pool, c->worker, cn->alive, &report, &dead_count);

	c->count.nodes_recovered += dead_count;
	atomic_store_explicit(&cn->recovered_ns, now_ns, memory_order_relaxed);
	atomic_flag_clear_explicit(&cn->recovering, memory_order_release);
	/* Without memory for it now, somebody else or the next look will do. */
	return status == FORGE_E_NO_MEMORY ? 0 : status;
}

static MAY_WAIT int fetch_chunk(struct cache *c)
{
	int status = FORGE_MISS;

	if (atomic_load_explicit(&c->cn->free_hint, memory_order_relaxed) > 0)
		status = lane_claim_free(c->lane, c->worker, c->lane->reserve_cap);
	if (status == FORGE_MISS) {
		status = collect_company(c);
		status = status ? status : FORGE_MISS;
	}
	/* Where the policy bounds the dead, evict() decides between the two. */
	if (status == FORGE_MISS && !compact_bounds_dead(c) && !some_ring_overlong(c->cn))
		status = compact(c, 100);
	if (status == FORGE_MISS)
		status = evict(c);
	if (status == FORGE_MISS || status == FORGE_E_AGAIN) {
		/* Everything is in the hands of others at the moment. */
		flow_pause(c->worker);
		status = cache_recover(c);
		if (!status)
			status = cache_poll(c);
	}
	return status;
}

int cache_reserve_try(struct cache *c)
{
	struct lane *lane = c->lane;
	int status = FORGE_MISS;

	if (!lane->reserving) {
		lane->reserving = 1;
		status = fetch_chunk(c);
		lane->reserving = 0;
		/* Each chunk is in somebody's hand; this may be the last that is not open. */
		if (c->evict->emptied)
			lane_use_spare(lane);
		lane->starved = lane->reserve_count > 0 ? 0 : lane->starved + c->evict->emptied;
	} else if (lane->side && side_is_busy(lane->side)) {
		side_help(lane->side, c->worker);
	} else {
		flow_pause(c->worker);
	}
	return status;
}

/*
 * Tries that got hold of no group, and the time they took, after which there is no space.  Both,
 * because others may need time for a step, and so may we; and not as many as the pool has chunks:
 * where cursors are damaged, each try passes a position that never was, after all its waits.
 *
 * Nobody sleeps for that time: each try looks at the rings, some 7 us over a card, and takes what
 * has come.  To be woken by who frees a chunk would save a part of the last try.  Where chunks are
 * few, cache_reserve()'s own bound of tries ends the wait much earlier: doc/simulator.md has how
 * long it is.
 */
#define BARREN_TRIES_MAX 256u
#define BARREN_US_MAX	 500000u

struct patience {
	uint64_t groups; /* in hand so far */
	uint64_t since_us;
	uint32_t tries;
};

/* One more try is over; is it time to give up? */
static int out_of_patience(const struct cache *c, struct patience *p)
{
	uint64_t groups = cache_groups_had(c);
	uint64_t now_us = worker_now_us(c->worker);

	if (groups != p->groups || p->tries == 0)
		*p = (struct patience){.groups = groups, .since_us = now_us};
	return ++p->tries > BARREN_TRIES_MAX && now_us - p->since_us > BARREN_US_MAX;
}

/*
 * Looks at empty rings after which who has another way goes it: an eviction that others are at
 * takes no longer.  It is counted for the lane, so that what follows does not wait as long again.
 */
#define STARVED_LOOKS_MAX 16u

/*
 * An eviction may find only groups that go round again; each trip lowers their counts, so that
 * after a few trips of the whole ring something is freed.
 */
uint64_t cache_reserve_tries(const struct plan *p)
{
	return 4 * (uint64_t)p->chunk_count + 64;
}

int cache_reserve(struct cache *c, int other_way)
{
	struct lane *lane = c->lane;
	struct patience patience = {0};
	uint64_t tries_max = cache_reserve_tries(&c->cn->pool->plan);

	for (uint64_t try = 0; try < tries_max; try++) {
		if (lane->reserve_count > 0)
			return 0;
		if (cache_is_late(c))
			return FORGE_E_DEADLINE;
		int status = cache_reserve_try(c);

		try -= status == FORGE_MISS; /* whoever is at it has a bound */
		if (status < 0)
			return status;
		if (lane->reserve_count > 0)
			return 0;
		if (out_of_patience(c, &patience) ||
		    (other_way && lane->starved >= STARVED_LOOKS_MAX))
			break;
	}
	return FORGE_E_NO_SPACE;
}
