/*
 * cn.h: what one compute node (one process) knows about a pool, shared by its workers.
 *
 * The chunk map (the last chunk word seen of every chunk), the OFM (this CN's own hit counts),
 * the rings of past lives (for ghosts) and dead members (for compaction).  All of it is a hint
 * about remote memory or this CN's alone.  Workers read and write it concurrently with relaxed
 * atomics; a lost count or a late map entry costs precision, never correctness: wherever the map
 * is believed, doc/protocol.md says why.  Only the holder of `polling` moves noted, flushed and the
 * window.
 *
 * Called by the flows of cache/ and by client/, which creates and destroys it.
 */
#ifndef FORGE_CACHE_CN_H
#define FORGE_CACHE_CN_H

#include <stdatomic.h>
#include <stdint.h>

#include "policy/policy.h"
#include "pool/index.h"
#include "pool/pool.h"
#include "pool/registry.h"
#include "pool/time.h"

/* What may be tuned; zero means the default. */
struct cn_options {
	uint32_t worker_count;	   /* workers that share this CN, at most CN_WORKERS_MAX */
	uint32_t poll_interval_us; /* the paper's 100 */
	uint32_t map_trust_us;
	uint32_t open_groups;  /* a lane fills at once for each ring; 0: by its share of the pool */
	uint32_t dead_percent; /* members that may be dead, see policy.h; 0: the policy's share */
	uint8_t poll_every_op; /* for small worlds without time */
	uint8_t flush_every_op; /* the same: the flush generation is READ at every start */
	uint32_t flush_trust_us;
	uint32_t spread_epoch; /* of the spread when it joins; 0: the pool is none's */
	/* NULL: nobody is ever proven dead.  Borrowed until cn_close(). */
	const struct liveness *alive;
};

#define CN_POLL_INTERVAL_US_DEFAULT 100u
/*
 * The interval is adapted between a quarter of that and four times it, so that a poll finds a
 * quarter of the window moved: at three nodes a poll of 100 us costs 0.6 % of all verbs.  Four
 * times the default is still below CN_MAP_TRUST_US_DEFAULT.  A node that evicts sees how fast the
 * heads go and polls at once when that much has moved (cn_see_heads()); doc/simulator.md has the
 * effect of both.
 */
#define CN_POLL_ADAPT 4u
/*
 * One group in so many may be evicted before every compute node has flushed it, where that is in
 * the power of windows (poll.c).
 */
#define CN_UNFLUSHED_ONE_IN 100u
/* Past lives of a chunk that may hold ghosts: 32 serve as well as all, 16 cost up to a point. */
#define CN_LIVES 32u
/*
 * When a life was queued is kept as 16 bits, in ticks of 1 / 1,024 of the pool or less (a position
 * of the ring, in small pools).  Rings are at most 3 pools long, so that many ticks may lie ahead
 * of head.  One of 30 pools ago and more may be taken for young, with a chance of 1 in 10: then
 * a key that comes back goes to main for no good reason.
 */
#define CN_LIFE_TICKS_LOG2  10u
#define CN_LIFE_TICKS_AHEAD (2u << (CN_LIFE_TICKS_LOG2 + 1))
/*
 * A ghost older than 1.3 times the pool, in groups that passed the small ring, is forgotten;
 * without a limit the index remembers too much (half a point).
 */
#define CN_GHOST_AGE_PERCENT 130u
/*
 * How old a refresh of the map may be when a slot is called stale because of it.  Wrong only if
 * a chunk is re-used 8,192 times (512 with forge-paper's 10 bits) in between.  One re-use fills,
 * seals and evicts a group: at least 7 verbs one after another, so at least 1 us on shared
 * memory: 512 us are safe for the shorter tag, and 5 polls fit in.
 */
#define CN_MAP_TRUST_US_DEFAULT 500u

/*
 * How old the look at the flush generation may be when an operation starts.  Not less than the
 * longest time between polls, so that it costs nothing as long as polls are in time; a flush lasts
 * twice as long (flush.c).
 */
#define CN_FLUSH_TRUST_US_DEFAULT 1000u

/* Workers of one compute node; the shares of chunks and claims are divided by it. */
#define CN_WORKERS_MAX 1024u

struct cn {
	const struct pool *pool;
	const struct policy *policy;
	const struct liveness *alive;
	struct registry_member member;
	uint32_t worker_count;
	uint32_t poll_interval_us;
	uint32_t map_trust_us;
	uint32_t open_groups;
	uint32_t dead_percent; /* of a pool's members may be dead; 100: nobody cares */
	uint8_t poll_every_op;
	uint8_t flush_every_op;
	uint32_t flush_trust_us;
	uint32_t spread_epoch;
	uint8_t flush_cap; /* most a flush adds to one counter: 85 / cn_max */

	_Atomic uint64_t *map; /* [chunk_count] last chunk word seen; 0 unknown */
	/* [chunk_count][CN_LIVES] tick at which life g % CN_LIVES entered the small ring; 0: no */
	_Atomic uint16_t *lives;
	uint32_t life_shift;	   /* from position to tick */
	_Atomic uint8_t *ofm;	   /* [chunk_count][ofm_row_bytes] */
	_Atomic uint64_t *dead;	   /* [chunk_count][dead_words] a life and its known dead (cn.c) */
	_Atomic uint64_t *news;	   /* [chunk_count][dead_words] those this CN has not published */
	_Atomic uint16_t *members; /* [chunk_count] of the group queued there; 0 unknown */
	_Atomic uint8_t any_dead;  /* some bit of dead[] has been set in this life of the CN */
	_Atomic uint8_t learned_all; /* what others had published was READ, all of it, once */
	uint32_t dead_words;
	_Atomic uint32_t *mirror[RING_QUEUES]; /* [ring_nodes] chunk queued at a position */

	/*
	 * What became of counts beside being flushed: hits that were counted, and those carried in
	 * (of objects that were moved or replaced), are flushed, above the cap of a flush,
	 * forgotten here, or still in the OFM.  Exact with one thread.
	 */
	_Atomic uint64_t hits_carried, hits_forgotten;

	int32_t late_groups;		    /* the policy's */
	_Atomic uint64_t tail[RING_QUEUES]; /* as last seen */
	_Atomic uint64_t head[RING_QUEUES]; /* as last polled */
	_Atomic uint64_t next[RING_QUEUES]; /* where head was last seen by anybody */

	_Atomic uint32_t poll_now_us; /* the interval as adapted to the eviction rate */
	/* poll_now_us, but at most flush_trust_us; 0: the next operation polls */
	_Atomic uint32_t quick_us;
	_Atomic uint64_t refreshed_ns; /* start of the last complete poll */
	_Atomic uint64_t free_hint;    /* chunks in the free ring, as last polled */
	_Atomic uint32_t cns_live;     /* compute nodes attached, as last seen (cn_see_company()) */
	_Atomic uint32_t workers_live; /* workers of all of them */
	_Atomic uint64_t company_ns;   /* when; 0: not since this one joined */

	atomic_flag recovering;	       /* held by the worker that looks for dead nodes */
	_Atomic uint64_t recovered_ns; /* when somebody last looked */

	atomic_flag polling;	/* held by the worker that polls; nobody waits for it */
	uint32_t window_groups; /* the least eviction window, by how many chunks are for groups */
	/* The window as this CN needs it, and groups that left the ring since it last changed. */
	uint32_t window[RING_QUEUES];
	uint64_t window_calm[RING_QUEUES];
	uint64_t noted[RING_QUEUES];
	_Atomic uint64_t flushed[RING_QUEUES];
	/*
	 * The newest fence seen, and when the READ that a look at it was based on began:
	 * stored in this order (R1), loaded in the other (A1), so what is loaded is at least as new
	 * as what was there at that time.  Neither goes back.
	 */
	_Atomic uint64_t fence;
	_Atomic uint64_t flush_seen_ns;
	_Atomic uint64_t cas_counter;

	/* What was published by a CN that did not flush in time; until it changes nobody waits. */
	_Atomic uint64_t (*asleep)[RING_QUEUES]; /* [cn_max] */
};

/*
 * How often, at most, a CN looks for dead ones.  It costs a READ and a few system calls, and is
 * done only when somebody is late or chunks run out.
 */
#define CN_RECOVER_INTERVAL_US 20000u

/*
 * Allocate the local state and join the registry.  lines: scratch for cn_max registry lines.
 * Waits.  0, FORGE_E_INVAL for too many workers, FORGE_E_NO_MEMORY, FORGE_E_FULL_REGISTRY or
 * FORGE_E_NODE.
 */
MAY_WAIT int cn_open(struct cn *, const struct pool *, const struct policy *, struct worker *,
		     const struct cn_options *, uint32_t pid, struct layout_registry *lines);

/* Leave the registry and give the lock of the id back.  Every lane has been closed.  Waits. */
MAY_WAIT void cn_leave(struct cn *, struct worker *);

/* Leave the registry and free the local state.  Every lane has been closed before.  Waits. */
MAY_WAIT void cn_close(struct cn *, struct worker *);

/* Free the local state only: for a compute node that is dead (tests). */
void cn_memory_destroy(struct cn *);

/* What the local memory of a compute node is for, in bytes.  PART(name, sentence) */
#define CN_MEMORY_PARTS(PART)                                                                   \
	PART(map, "the chunk word last seen of each chunk, and how many members its group has") \
	PART(ofm, "a hit counter for each object")                                              \
	PART(lives, "past lives of the chunks, which tell ghosts from what is long forgotten")  \
	PART(dead, "two bits for each object: known to be dead, and not yet published; of each" \
		   " 32 the generation")                                                        \
	PART(mirrors, "which chunk is queued at a position of a ring")

struct cn_memory {
#define PART(name, sentence) uint64_t name;
	CN_MEMORY_PARTS(PART)
#undef PART
};

/* Of a compute node on a pool of that plan, without its sessions; for reports. */
void cn_memory_of(const struct plan *, struct cn_memory *);
uint64_t cn_memory_bytes(const struct plan *);

/* An id that no value of the pool ever had: the CN in the top 8 bits. */
static inline uint64_t cn_next_cas_id(struct cn *cn)
{
	return (uint64_t)cn->member.cn << 56 |
	       (atomic_fetch_add_explicit(&cn->cas_counter, 1, memory_order_relaxed) + 1);
}

/* Pool time, in ms, that expiries are judged by when a worker's clock shows now_ns. */
static inline uint64_t cn_pool_ms(const struct cn *cn, uint64_t now_ns)
{
	return pool_ms_latest(cn->pool, now_ns);
}

/* From now on a poll is due after so many us. */
void cn_poll_every(struct cn *, uint32_t us);

/*
 * An eviction, which READs the cursors anyway, saw how far the heads have come: if that is a
 * quarter of the window since the last poll, the next operation polls, whatever the interval.
 */
void cn_see_heads(struct cn *, const struct layout_cursors *);

/*
 * Who believes that it is alone looks at the registry again when a chunk is wanted, at most so
 * often.  Until then it does not tell what it saw die, which others pay for by copying the dead.
 */
#define CN_COMPANY_INTERVAL_US 20000u

/* The lines of the registry as they were at now_ns: who is there? */
void cn_see_company(struct cn *, const struct layout_registry *lines, uint64_t now_ns);

/* A READ that began at started_ns showed that fence. */
void cn_see_fence(struct cn *, uint64_t fence, uint64_t started_ns);

static inline uint64_t cn_map(const struct cn *cn, uint32_t chunk)
{
	return atomic_load_explicit(&cn->map[chunk], memory_order_relaxed);
}

static inline _Atomic uint8_t *cn_counter(const struct cn *cn, uint32_t chunk, uint32_t sn)
{
	return &cn->ofm[(uint64_t)chunk * cn->pool->plan.ofm_row_bytes + sn];
}

static inline uint8_t cn_count(const struct cn *cn, uint32_t chunk, uint32_t sn)
{
	return atomic_load_explicit(cn_counter(cn, chunk, sn), memory_order_relaxed);
}

/* The counters of a chunk will be wanted soon: by the time the object has been READ. */
static inline void cn_prefetch_counters(const struct cn *cn, uint32_t chunk)
{
	if (likely(chunk < cn->pool->plan.chunk_count))
		fetch_ahead_to_write(cn_counter(cn, chunk, 0));
}

/*
 * The chunk was seen to live in that generation, in somebody's open group: if that is newer than
 * what the map says, forget the life before.
 */
void cn_note_life(struct cn *, uint32_t chunk, uint32_t generation);

/* Do hits on the chunk count yet?  Not while it is open or fewer than late_groups follow it. */
static inline int cn_counts(const struct cn *cn, uint32_t chunk)
{
	uint64_t seen = cn_map(cn, chunk);

	if (cn->late_groups < 0)
		return 1;
	if (chunk_state(seen) != CHUNK_QUEUED)
		return 0;
	uint64_t tail = atomic_load_explicit(&cn->tail[chunk_ring(seen)], memory_order_relaxed);

	return (int64_t)(tail - chunk_position_near(seen, tail)) > cn->late_groups;
}

/*
 * A hit on an object of that generation: no verb at all.  Two threads may lose one of two counts;
 * it saturates at 255.  Was it counted?
 */
static inline int cn_count_hit(struct cn *cn, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	if (!cn_counts(cn, chunk))
		return 0;
	if (unlikely(chunk_generation(cn_map(cn, chunk)) != generation))
		cn_note_life(cn, chunk, generation);
	_Atomic uint8_t *counter = cn_counter(cn, chunk, sn);
	uint8_t count = atomic_load_explicit(counter, memory_order_relaxed);

	if (count == UINT8_MAX)
		return 0;
	atomic_store_explicit(counter, (uint8_t)(count + 1), memory_order_relaxed);
	return 1;
}

/* Members of the group in a chunk; as many as are expected while it is open or unknown. */
static inline uint32_t cn_members(const struct cn *cn, uint32_t chunk)
{
	uint16_t count = atomic_load_explicit(&cn->members[chunk], memory_order_relaxed);

	return count ? count : plan_expected_objects(&cn->pool->plan);
}

/*
 * Remember the newest chunk word.  A change of generation forgets counts and dead members.
 * A group that was just queued starts with the counts carried[] if given, otherwise with zeroes,
 * unless hits count from the first Set on; noting the same word again changes nothing.
 * object_count: of the group that was queued.
 */
void cn_note(struct cn *, uint32_t chunk, uint64_t word, const uint8_t *carried,
	     uint32_t object_count);

/* The ring's tail is at least there. */
void cn_see_tail(struct cn *, uint32_t ring, uint64_t tail);

/* This CN saw the object at (chunk, sn) of that generation lose its slot. */
void cn_note_dead(struct cn *, uint32_t chunk, uint32_t generation, uint32_t sn);

/* The dead words of a chunk, or one of them: add whom they name in that life to those known. */
void cn_learn_dead(struct cn *, uint32_t chunk, uint32_t generation, const uint64_t *words);
void cn_learn_dead_word(struct cn *, uint32_t chunk, uint32_t generation, uint32_t at,
			uint64_t word);

/* How many deaths in a life of the chunk this CN has not published. */
uint32_t cn_news_count(const struct cn *, uint32_t chunk, uint32_t generation);

/*
 * What to add to a dead word of the chunk for them, 0 if there are none; they count as published
 * then.  Deaths in another life are forgotten.
 */
uint64_t cn_take_news(struct cn *, uint32_t chunk, uint32_t generation, uint32_t at);

/* Forget who died in a chunk: the map is wrong about it. */
void cn_forget_dead(struct cn *, uint32_t chunk);

/* How many members of a life of the chunk are known to be dead; is that one? */
uint32_t cn_dead_count(const struct cn *, uint32_t chunk, uint32_t generation);
int cn_is_dead(const struct cn *, uint32_t chunk, uint32_t generation, uint32_t sn);

/* The chunk an index word points into; UINT32_MAX: into none, and no honest word does.  It divides,
 * so whoever asks several questions about a word finds it once. */
static inline uint32_t cn_chunk_of(const struct cn *cn, uint64_t word)
{
	return plan_chunk_of_pointer(&cn->pool->plan, index_pointer(word));
}

/* How many lives older than the one the map has of its chunk is a word?  0: none, or not known. */
static inline uint32_t cn_lives_behind(const struct cn *cn, uint64_t word, uint32_t chunk)
{
	uint64_t seen = likely(chunk != UINT32_MAX) ? cn_map(cn, chunk) : 0;

	return seen ? index_generations_behind(&cn->pool->plan, word, chunk_generation(seen)) : 0;
}

/* cn_word_is_stale() of a word that is so many lives behind, and not none. */
int cn_life_is_over(const struct cn *, const struct worker *, uint32_t behind);

/*
 * Does the map prove that the word points into a life that is over?  The bucket was READ before
 * this call.  1 only if the map was refreshed recently enough for the generations not to have
 * wrapped; otherwise the object has to be READ.
 */
static inline int cn_word_is_stale(const struct cn *cn, const struct worker *w, uint64_t word,
				   uint32_t chunk)
{
	uint32_t behind = cn_lives_behind(cn, word, chunk);

	return unlikely(behind != 0) && cn_life_is_over(cn, w, behind);
}

/*
 * Is the stale word a ghost: did its object leave the small ring not too long ago?  A hint; it
 * cannot tell keys with one fingerprint apart.
 */
int cn_word_is_ghost(const struct cn *, uint64_t word, uint32_t chunk);

/* Tickets of its ring that were taken since the group was queued, as last seen. */
static inline uint64_t cn_age(const struct cn *cn, uint64_t seen)
{
	uint64_t tail = atomic_load_explicit(&cn->tail[chunk_ring(seen)], memory_order_relaxed);
	int64_t age = (int64_t)(tail - chunk_position_near(seen, tail));

	return age > 0 ? (uint64_t)age : 0;
}

/*
 * Has a ring become so long, by positions of groups that were claimed from its middle, that its
 * nodes might run out?  Then those at its head are spared, and the positions go (evict.c).
 */
static inline int cn_overlong(const struct cn *cn, uint64_t positions)
{
	uint64_t chunks = cn->pool->plan.chunk_count;
	uint64_t most = plan_has_long_rings((uint32_t)chunks) ? 3 * chunks : 3 * chunks / 2;

	/* Signed: a hint of head may be newer than that of tail, or beyond it. */
	return (int64_t)positions > (int64_t)most;
}

/* Is it so long that no more must be claimed from its middle?  7/8 of the nodes at least. */
static inline int cn_at_its_end(const struct cn *cn, uint64_t positions)
{
	uint64_t chunks = cn->pool->plan.chunk_count;
	uint64_t most = plan_has_long_rings((uint32_t)chunks) ? 15 * chunks / 4 : 7 * chunks / 4;

	return (int64_t)positions > (int64_t)most;
}

/* Is no other compute node attached, as last seen? */
static inline int cn_is_alone(const struct cn *cn)
{
	return atomic_load_explicit(&cn->cns_live, memory_order_relaxed) == 1;
}

/* Workers of all compute nodes that may claim at the same time. */
static inline uint32_t cn_evictors(const struct cn *cn)
{
	uint32_t live = atomic_load_explicit(&cn->workers_live, memory_order_relaxed);

	return live > cn->worker_count ? live : cn->worker_count;
}

#endif
