/*
 * cache.h: Get, Set, Delete and the conditional operations, the flows of a compute node.
 *
 * A struct cache is one worker's view: its worker, its CN (shared), its lane and its scratch.
 * All functions belong to the thread (or fiber) of that worker and may wait; results are 0,
 * a positive outcome such as FORGE_MISS, or a FORGE_E_ value.  doc/protocol.md holds the arguments
 * that the files get.c, set.c, change.c, delete.c, flush.c, evict.c and poll.c are transcripts of.
 */
#ifndef FORGE_CACHE_CACHE_H
#define FORGE_CACHE_CACHE_H

#include <stdint.h>

#include "cache/cn.h"
#include "cache/lane.h"
#include "cache/tally.h"
#include "pool/index.h"
#include "pool/ring.h"
#include "pool/twim.h"

/* What this worker did; plain counters of one thread.  COUNTER(name, sentence) */
#define CACHE_COUNTERS(COUNTER)                                                                 \
	COUNTER(gets, "Gets")                                                                   \
	COUNTER(hits, "Gets that found the key")                                                \
	COUNTER(get_retries_exhausted, "Gets that missed because others kept changing the key") \
	COUNTER(gets_lost, "Gets that missed because the memory node of the key is lost")       \
	COUNTER(changes_refused, "changes refused because the memory node of the key is lost")  \
	COUNTER(sets, "Sets")                                                                   \
	COUNTER(sets_inserted, "Sets that took a new slot")                                     \
	COUNTER(sets_updated, "Sets that replaced the key's word")                              \
	COUNTER(sets_superseded, "Sets overtaken by another Set of the key at once")            \
	COUNTER(sets_absorbed, "Sets that a newer Set of the key had overtaken in its slot")    \
	COUNTER(sets_restarted, "index races a store lost")                                     \
	COUNTER(changes, "conditional operations")                                              \
	COUNTER(changes_kept, "conditional operations that left the key as it was")             \
	COUNTER(changes_inserted, "conditional operations that inserted the key")               \
	COUNTER(changes_updated, "conditional operations that replaced or removed the value")   \
	COUNTER(tentatives_removed, "undecided inserts of others taken away after a wait")      \
	COUNTER(flushes, "flushes of everything")                                               \
	COUNTER(over_removed, "slots whose object had expired or been flushed, CASed away")     \
	COUNTER(bucket_full, "inserts that had to replace a live object of another key")        \
	COUNTER(deletes, "Deletes")                                                             \
	COUNTER(deletes_found, "Deletes that removed an object")                                \
	COUNTER(ghost_hits, "Sets of a key that had left the small ring lately")                \
	COUNTER(invalid_removed, "slots whose object was found invalid and CASed away")         \
	COUNTER(groups_sealed, "groups sealed into a ring")                                     \
	COUNTER(objects_sealed, "members they had")                                             \
	COUNTER(bytes_sealed, "bytes of their objects and TWIMs, of as many chunks")            \
	COUNTER(evictions, "batches of groups claimed for eviction")                            \
	COUNTER(groups_regrouped, "evicted groups of which the hot objects were copied")        \
	COUNTER(groups_requeued, "groups that went round again whole")                          \
	COUNTER(chunks_ahead, "chunks that were fetched before they were needed")               \
	COUNTER(groups_spared, "groups that went round whole to make an overlong ring shorter") \
	COUNTER(objects_rescued, "objects copied by regroup")                                   \
	COUNTER(objects_rescue_lost, "copies whose slot had changed meanwhile")                 \
	COUNTER(objects_hidden, "of them, out of sight meanwhile: no chunk was at hand")        \
	COUNTER(objects_dropped, "members of evicted groups that were not rescued")             \
	COUNTER(groups_compacted, "mostly dead groups compacted")                               \
	COUNTER(evict_unflushed, "compute nodes that had not flushed when a group was evicted") \
	COUNTER(flush_waits, "batches of groups whose eviction waited for nodes to flush")      \
	COUNTER(groups_unflushed, "groups evicted before every node had flushed them")          \
	COUNTER(nodes_recovered, "dead compute nodes whose chunks this one took back")          \
	COUNTER(parts_linked, "chunks that became parts of large objects")                      \
	COUNTER(parts_freed, "parts freed with their head")                                     \
	COUNTER(parts_left, "parts left to a sweep, since heads in their slot kept changing")   \
	COUNTER(polls, "polls")                                                                 \
	COUNTER(groups_flushed, "groups whose counts were flushed")                             \
	COUNTER(hits_counted, "hits that were counted; others met too new a group")             \
	COUNTER(hits_flushed, "counts of them, and carried ones, added to rows")                \
	COUNTER(hits_capped, "counts above what a flush may add, lost")                         \
	COUNTER(hits_late, "counts of groups that were evicted before they could be flushed")   \
	COUNTER(hits_judged, "counts an eviction of this node added by itself")                 \
	COUNTER(flush_late, "groups evicted before this node could flush them")

struct cache_counters {
#define COUNTER(name, sentence) uint64_t name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
};

struct evict_scratch; /* evict.c's */
struct ahead;	      /* ahead.c's */

/*
 * What an operation judges objects by, sampled once at its start.  All it does, it does as of then:
 * an object that expires meanwhile may still be returned, and what is stored on the ground of a
 * value carries no later flush generation than the value was judged by.
 */
struct cache_moment {
	uint64_t now_ns;	   /* the worker's clock */
	uint32_t flush_generation; /* the low half of the word */
};

/* Scratch for values larger than a chunk; all of it NULL where the pool takes none. */
struct cache_large {
	uint8_t *value;		   /* a whole value, value_bytes_max */
	uint8_t *stored;	   /* what a head has for a value, chunk_bytes */
	uint8_t *head;		   /* another head as READ, chunk_bytes and some */
	struct lane_chunk *chunks; /* [part_count_max] in hand, WRITTEN and not linked yet */
	uint32_t count;
	uint32_t value_bytes; /* of the value in those chunks */
};

struct cache {
	struct worker *worker;
	struct cn *cn;
	struct lane *lane;
	struct cache_counters count;
	struct tally tally;
	struct cache_moment moment; /* of the operation under way */
	/*
	 * On the worker's clock; 0: none.  From then on an operation that has not taken effect
	 * begins no further round, and gives up with FORGE_E_DEADLINE; nothing changed.  Set before
	 * each operation by those who want it.
	 */
	uint64_t deadline_ns;
	/*
	 * Of the spread by which its operations are led here, of the compute node's when it was
	 * made.  Set before each operation by those who follow a change of the spread: it must be
	 * the epoch of the very map that led the operation (client/view.c).
	 */
	uint32_t spread_epoch;

	/* Scratch of this worker; registered with its fabric. */
	uint8_t *object;  /* object being built, chunk_bytes */
	uint8_t *fetched; /* object being READ, chunk_bytes and some */
	uint8_t *other;	  /* a second one of those */
	uint64_t *twim;	  /* [group_objects] */
	struct evict_scratch *evict;
	struct cache_large large;
	void *memory;

	struct ahead *ahead;   /* what fetches chunks on the side; NULL: not yet, or nothing does */
	uint8_t looks_ahead;   /* there is something to wait for */
	uint8_t fetches_aside; /* see cache_fetch_aside() */
	/* The worker's operations come so seldom that it fetches none, and since when that counts
	 */
	uint8_t is_seldom;
	uint64_t seldom_from_ns, seldom_from_ops;

	uint32_t compact_from; /* the last sample for compaction began at that chunk */
	uint32_t learn_from;   /* chunk whose dead are READ next */
};

/* Bytes of scratch it allocates, for reports. */
uint64_t cache_memory_bytes(const struct plan *);

/* Borrow worker, cn and lane; allocate scratch.  0 or FORGE_E_NO_MEMORY. */
int cache_init(struct cache *, struct worker *, struct cn *, struct lane *);

/*
 * A further view for another fiber of first's thread, on its lane.  It uses first's scratch for
 * evictions, which one flow of a lane needs at a time, and ends before it.  As cache_init().
 */
int cache_init_beside(struct cache *, struct worker *, struct cache *first);
void cache_fini(struct cache *);

/*
 * Begin to count in the pool what this worker does (layout/stats.h), before its first operation;
 * cache_drain() ends it.  Without it the pool's counters do not add up any more.
 * Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_count_in_pool(struct cache *);

struct cache_key {
	const void *data;
	uint32_t bytes;
};

/* An object found by cache_get(); value points into scratch until the next call. */
struct cache_value {
	const void *data;
	uint32_t bytes;
	uint32_t flags;
	uint32_t marks;	    /* 32 bits that mean nothing here */
	uint64_t cas_id;    /* of this value; never 0, and never that of another one */
	uint64_t expiry_ms; /* pool time; 0 never */
};

/*
 * Look a key up.  Borrows key; *out is valid until this cache's next call.
 * 0, FORGE_MISS, FORGE_E_KEY_EMPTY, FORGE_E_KEY_LONG, FORGE_E_NODE.
 */
MAY_WAIT int cache_get(struct cache *, struct cache_key key, struct cache_value *out);

/* What is stored under a key. */
struct cache_item {
	const void *value;
	uint32_t bytes;
	uint32_t flags;
	uint32_t marks;
	uint64_t expiry_ms; /* pool time (cache_pool_ms()); 0 never */
	uint64_t cas_id;    /* CACHE_CAS: the id the present value must have */
};

/*
 * Store, replacing what was there.  Borrows everything until it returns.
 * 0; FORGE_E_KEY_EMPTY, _KEY_LONG, _VALUE_LARGE, _NO_SPACE (nothing changed); FORGE_E_AGAIN or
 * _NODE (the Set may or may not have happened).
 */
MAY_WAIT int cache_set(struct cache *, struct cache_key key, const struct cache_item *);

/* Remove a key.  0, FORGE_MISS when it was not there, or as cache_get(). */
MAY_WAIT int cache_delete(struct cache *, struct cache_key key);

/* ---- conditional operations --------------------------------------------------------------- */

/*
 * What becomes of a key.  A pure function of the present value (NULL: absent) looks at it and
 * fills in *out, which comes zeroed (KEEP, 0) but for the scratch.  It may be called several
 * times; only what it said last took effect.
 */
enum cache_verdict {
	CACHE_KEEP,   /* leave it as it is */
	CACHE_STORE,  /* store out->item */
	CACHE_REMOVE, /* remove it; only for a key that is present */
};

struct cache_decision {
	enum cache_verdict verdict;
	int status; /* what the operation answers once the verdict has taken effect */
	struct cache_item item;
	uint64_t cas_id;    /* STORE: the id of what is stored; 0 one of its own */
	uint8_t same_bytes; /* STORE: the item has the bytes of the old value, all of them */
	/* Room to put a value together; item.value may point there, or into *old. */
	uint8_t *scratch;
	uint32_t scratch_bytes;
};

struct cache_change {
	void (*decide)(void *context, const struct cache_value *old, struct cache_decision *out);
	void *context;
};

/*
 * Read, decide, write: one linearizable step on one key.  *cas_id (may be NULL) receives the id of
 * what was stored.  Borrows key and change; what decide() saw stays valid until the next call.
 * Waits.
 * What the decision says; FORGE_E_KEY_EMPTY, _KEY_LONG, _VALUE_LARGE, _NO_SPACE (nothing changed);
 * FORGE_E_AGAIN when others were faster too often (nothing changed); FORGE_E_NODE.
 */
MAY_WAIT int cache_change(struct cache *, struct cache_key key, const struct cache_change *change,
			  uint64_t *cas_id);

/*
 * The same for a decision that looks at no byte of the old value: one larger than a chunk is not
 * READ.
 */
MAY_WAIT int cache_change_blindly(struct cache *, struct cache_key key,
				  const struct cache_change *change, uint64_t *cas_id);

enum cache_store {
	CACHE_SET,
	CACHE_ADD,     /* only if absent */
	CACHE_REPLACE, /* only if present */
	CACHE_CAS,     /* only if the value has the id item->cas_id */
	CACHE_APPEND,  /* the value behind the present one; flags and expiry stay */
	CACHE_PREPEND, /* ... in front of it */
};

/*
 * Store in one of these ways.  *cas_id (may be NULL) receives the new id.  Waits.
 * 0; FORGE_MISS (replace, cas, append, prepend: the key is absent); FORGE_NOT_STORED (add: it is
 * present); FORGE_EXISTS (cas: it has another id); FORGE_E_VALUE_LARGE also when what append would
 * make is too large; else as cache_change().  CACHE_SET: as cache_set().
 */
MAY_WAIT int cache_store(struct cache *, struct cache_key key, enum cache_store mode,
			 const struct cache_item *, uint64_t *cas_id);

struct cache_arith {
	uint64_t delta;
	uint8_t decrement;
	uint8_t create; /* an absent key becomes `initial`, with these flags and this expiry */
	uint64_t initial;
	uint32_t flags;
	uint64_t expiry_ms;
};

/*
 * Add to the decimal number that is the value, or subtract: an increment wraps at 2^64, a decrement
 * stops at 0; flags, marks and expiry stay, and the length is that of the number.  *value and
 * *cas_id (may be NULL) receive what is stored then.  Waits.
 * 0; FORGE_MISS (absent, and not create); FORGE_E_NOT_NUMBER for a value that is not 1 to 20 digits
 * below 2^64, nothing around them; else as cache_change().
 */
MAY_WAIT int cache_arithmetic(struct cache *, struct cache_key key, const struct cache_arith *,
			      uint64_t *value, uint64_t *cas_id);

/*
 * Give the value another expiry; it keeps its id.  out (may be NULL) receives it, valid until this
 * cache's next call.  Waits.  0, FORGE_MISS, else as cache_change().
 */
MAY_WAIT int cache_touch(struct cache *, struct cache_key key, uint64_t expiry_ms,
			 struct cache_value *out);

/* Remove the key if its value has that id.  Waits.  0, FORGE_MISS, FORGE_EXISTS, as cache_change().
 */
MAY_WAIT int cache_delete_if(struct cache *, struct cache_key key, uint64_t cas_id);

/*
 * Forget everything: whatever was stored before the call is in no operation's sight that starts
 * after it returned 0.  Takes twice flush_trust_us, whatever the size of the pool.  Waits.
 * 0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_flush(struct cache *);

/* Pool time in ms, as of now, at the earliest (pool/time.h): what an expiry_ms is made from. */
uint64_t cache_pool_ms(const struct cache *);

/* Seal and give back what the lane holds and tell what was counted, before the CN leaves. */
MAY_WAIT int cache_drain(struct cache *);

/* ---- between the files of this folder ----------------------------------------------------- */

/*
 * Close the fullest group the lane fills for a ring, and count what was sealed.  Waits.
 * 0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_close_group(struct cache *, uint32_t ring);

/* Nothing fitted: close groups of the ring until the lane may open another one.  Waits.  The same.
 */
MAY_WAIT int cache_make_way(struct cache *, uint32_t ring);

/*
 * Start an operation: poll if it is due, and sample the moment.  Waits.
 * 0, FORGE_E_NODE, or FORGE_E_SPREAD when the node is of another epoch of the spread.
 */
MAY_WAIT int cache_begin(struct cache *);

/*
 * Would an operation that begins now poll, or is a chunk needed soon?  Who has flows to spare
 * begins one that does so beside the operation: while one of the compute node polls, no other does
 * (cache_poll()).  No wait.
 */
int cache_is_due(const struct cache *);

/* Is the operation's time up? */
static inline int cache_is_late(const struct cache *c)
{
	return unlikely(c->deadline_ns) && clock_now_ns(c->worker->clock) >= c->deadline_ns;
}

/* The operation has taken effect, in part at least: it goes on whatever the time. */
static inline void cache_commit(struct cache *c)
{
	c->deadline_ns = 0;
}

/* Has the object expired, or was it flushed, as of the operation's moment? */
enum cache_over { CACHE_NOT_OVER, CACHE_EXPIRED, CACHE_FLUSHED };

static inline enum cache_over cache_is_over(const struct cache *c, const struct layout_object *h)
{
	enum cache_over over = CACHE_NOT_OVER;

	if (unlikely((int32_t)(h->flush_generation - c->moment.flush_generation) < 0))
		over = CACHE_FLUSHED;
	else if (unlikely(h->expiry_ms) && h->expiry_ms <= cn_pool_ms(c->cn, c->moment.now_ns))
		over = CACHE_EXPIRED;
	return pool_rule(c->cn->pool, RULE_OVER_IS_DEAD) ? over : CACHE_NOT_OVER;
}
/* The same for a group whose heads own much, if it is still being filled. */
MAY_WAIT int cache_close_heavy(struct cache *, struct open_group *);

/* Poll now, unless another worker is at it. */
MAY_WAIT int cache_poll(struct cache *);

/*
 * Look for dead compute nodes and take back what they held; at most every CN_RECOVER_INTERVAL_US
 * and by one worker of the CN, the others go on.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_recover(struct cache *);

/*
 * Make sure the lane's reserve holds a chunk: free ring, compaction, eviction.  One flow of a lane
 * at a time (lane->refilling).  Who can do without goes on after a few looks at empty rings
 * (other_way).  Waits.  0, FORGE_E_NO_SPACE, FORGE_E_DEADLINE, FORGE_E_NODE.
 */
MAY_WAIT int cache_reserve(struct cache *, int other_way);

/* How often it looks at most, where nobody frees a chunk.  Any thread. */
uint64_t cache_reserve_tries(const struct plan *);

/*
 * From now on chunks are fetched on the side, before they are needed, while this worker waits for
 * its own verbs (run/side.h): for a worker whose flow is the only one of its thread.  Where there
 * are several, the one that polls does it: cache_is_due() says that it should, and cache_ahead()
 * that it did.  On a fabric that completes at post there is nothing to wait for, and nothing
 * happens.
 */
void cache_fetch_aside(struct cache *);

/* An object got a place in that group: see to it that there is a chunk when it is full. */
void cache_look_ahead(struct cache *, const struct open_group *);

/* Fetch one here and now, if one is needed soon and nobody is at it.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int cache_ahead(struct cache *);

/* Let what is fetched on the side arrive.  Waits. */
MAY_WAIT void cache_ahead_end(struct cache *);
void cache_ahead_fini(struct cache *);

/*
 * One attempt of cache_reserve(), which may bring nothing.  FORGE_MISS: another flow of the lane is
 * at it, and this one has waited a little.  Waits.  0, FORGE_MISS or FORGE_E_NODE.
 */
MAY_WAIT int cache_reserve_try(struct cache *);

/* Groups its evictions and compactions got hold of, ever: more of them is progress. */
static inline uint64_t cache_groups_had(const struct cache *c)
{
	return c->count.evictions + c->count.groups_compacted + c->count.groups_spared;
}

/*
 * READ the object a word points to, in that chunk (cn_chunk_of()), into buffer (c->fetched or
 * c->other) and verify it: generation, length, checksum. *verdict OBJECT_VALID or OBJECT_INVALID.
 * 0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_fetch(struct cache *, uint64_t word, uint32_t chunk, enum fab_purpose,
			 uint8_t *buffer, int *verdict);

/* Check key length.  0, FORGE_E_KEY_EMPTY or FORGE_E_KEY_LONG. */
int cache_key_check(struct cache_key key);

/*
 * We won the CAS that took an object's slot: remember its death and publish it with others.  Waits.
 * 0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_note_dead(struct cache *, uint32_t chunk, uint32_t generation, uint32_t sn);

/* READ the two buckets of a home. */
MAY_WAIT int cache_read_view(struct cache *, const struct index_home *, struct index_view *);

/*
 * CAS one slot to 0 from the exact word; *won as fab_cas_won().  left: how its object left the
 * index, to be counted.  The parts of a large object are freed with its head.
 */
MAY_WAIT int cache_clear_slot(struct cache *, uint64_t slot, uint64_t from, enum stats_word left,
			      int *won);

#endif
