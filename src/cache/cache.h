/*
 * cache.h: Get, Set and Delete, the flows of a compute node.
 *
 * A struct cache is one worker's view: its worker, its CN (shared), its lane and its scratch.
 * All functions belong to the thread (or fiber) of that worker and may wait; results are 0,
 * FORGE_MISS or a FORGE_E_ value.  doc/protocol.md holds the arguments that the files get.c,
 * set.c, delete.c, evict.c and poll.c are transcripts of.
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
	COUNTER(sets, "Sets")                                                                   \
	COUNTER(sets_inserted, "Sets that took a new slot")                                     \
	COUNTER(sets_updated, "Sets that replaced the key's word")                              \
	COUNTER(sets_superseded, "Sets overtaken by another Set of the key at once")            \
	COUNTER(sets_restarted, "index races a Set lost and started again after")               \
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
	COUNTER(objects_rescued, "objects copied by regroup")                                   \
	COUNTER(objects_rescue_lost, "copies whose slot had changed meanwhile")                 \
	COUNTER(objects_dropped, "members of evicted groups that were not rescued")             \
	COUNTER(groups_compacted, "mostly dead groups compacted")                               \
	COUNTER(evict_unflushed, "compute nodes that had not flushed when a group was evicted") \
	COUNTER(nodes_recovered, "dead compute nodes whose chunks this one took back")          \
	COUNTER(polls, "polls")                                                                 \
	COUNTER(groups_flushed, "groups whose counts were flushed")                             \
	COUNTER(flush_late, "groups evicted before this node could flush them")

struct cache_counters {
#define COUNTER(name, sentence) uint64_t name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
};

struct evict_scratch; /* evict.c's */

#define CACHE_CANDIDATES_MAX 64u

struct cache {
	struct worker *worker;
	struct cn *cn;
	struct lane *lane;
	struct cache_counters count;
	struct tally tally;

	/* Scratch of this worker; registered with its fabric. */
	uint8_t *object;  /* object being built, chunk_bytes */
	uint8_t *fetched; /* object being READ, chunk_bytes and some */
	uint8_t *other;	  /* a second one of those */
	uint64_t *twim;	  /* [group_objects] */
	struct evict_scratch *evict;
	void *memory;

	uint32_t candidates[CACHE_CANDIDATES_MAX]; /* chunks that looked mostly dead */
	uint32_t candidate_count;
};

/* Borrow worker, cn and lane; allocate scratch.  0 or FORGE_E_NO_MEMORY. */
int cache_init(struct cache *, struct worker *, struct cn *, struct lane *);
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
	uint64_t cas_id;
	uint64_t expiry_ms;
};

/*
 * Look a key up.  Borrows key; *out is valid until this cache's next call.
 * 0, FORGE_MISS, FORGE_E_KEY_EMPTY, FORGE_E_KEY_LONG, FORGE_E_NODE.
 */
MAY_WAIT int cache_get(struct cache *, struct cache_key key, struct cache_value *out);

/* What a Set stores beside key and value. */
struct cache_item {
	const void *value;
	uint32_t bytes;
	uint32_t flags;
};

/*
 * Store, replacing what was there.  Borrows everything until it returns.
 * 0; FORGE_E_KEY_EMPTY, _KEY_LONG, _VALUE_LARGE, _NO_SPACE (nothing changed); FORGE_E_AGAIN or
 * _NODE (the Set may or may not have happened).
 */
MAY_WAIT int cache_set(struct cache *, struct cache_key key, const struct cache_item *);

/* Remove a key.  0, FORGE_MISS when it was not there, or as cache_get(). */
MAY_WAIT int cache_delete(struct cache *, struct cache_key key);

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

/* Poll if it is time to; called at the start of every operation. */
MAY_WAIT int cache_poll_if_due(struct cache *);

/* Poll now, unless another worker is at it. */
MAY_WAIT int cache_poll(struct cache *);

/*
 * Look for dead compute nodes and take back what they held; at most every CN_RECOVER_INTERVAL_US
 * and by one worker of the CN, the others go on.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_recover(struct cache *);

/* Make sure the lane's reserve holds a chunk: free ring, compaction, eviction. */
MAY_WAIT int cache_reserve(struct cache *);

/*
 * READ the object a word points to into buffer (c->fetched or c->other) and verify it: generation,
 * length, checksum. *verdict OBJECT_VALID or OBJECT_INVALID.  0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_fetch(struct cache *, uint64_t word, enum fab_purpose, uint8_t *buffer,
			 int *verdict);

/* Check key length.  0, FORGE_E_KEY_EMPTY or FORGE_E_KEY_LONG. */
int cache_key_check(struct cache_key key);

/*
 * We won the CAS that took an object's slot: remember its death, publish it with others, and
 * remember its group as a candidate for compaction.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int cache_note_dead(struct cache *, uint32_t chunk, uint32_t generation, uint32_t sn);

/* READ the two buckets of a home. */
MAY_WAIT int cache_read_view(struct cache *, const struct index_home *, struct index_view *);

/*
 * CAS one slot to 0 from the exact word; *won as fab_cas_won().  left: how its object left the
 * index, to be counted.
 */
MAY_WAIT int cache_clear_slot(struct cache *, uint64_t slot, uint64_t from, enum stats_word left,
			      int *won);

#endif
