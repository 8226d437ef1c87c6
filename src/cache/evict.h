/*
 * evict.h: scratch of eviction and compaction.  Internal to cache/.
 */
#ifndef FORGE_CACHE_EVICT_H
#define FORGE_CACHE_EVICT_H

#include "cache/regroup.h"

struct evict_scratch {
	struct regroup_scratch regroup;
	struct ring_claimed claimed[RING_CLAIM_MAX];
	struct policy_group groups[RING_CLAIM_MAX];
	struct regroup_source sources[RING_CLAIM_MAX];
	struct twim_member *members; /* [RING_CLAIM_MAX][group_objects] */
	uint64_t *twims;	     /* [RING_CLAIM_MAX][group_objects] */
	uint64_t *rows;		     /* [RING_CLAIM_MAX][row_bytes / 8] as READ */
	uint8_t *counts;	     /* [RING_CLAIM_MAX][group_objects] */
	uint8_t *keeps;		     /* [RING_CLAIM_MAX][group_objects] */
	uint8_t *trial_counts;	     /* [RING_CLAIM_MAX][group_objects] for a trial judgement */
	struct policy_group trial[RING_CLAIM_MAX];
	uint64_t dead[RING_CLAIM_MAX][LAYOUT_DEAD_WORDS_MAX]; /* as READ */
	struct layout_registry *lines;			      /* [cn_max] */
	struct ring_view view; /* of ring `viewed`; RING_QUEUES: none */
	uint32_t viewed;
	uint8_t alone;	   /* of the batch: no other node counted hits */
	uint8_t compacted; /* the last time there was a group worth it */
	uint8_t outrun;	   /* groups that were to be compacted were others' already */
	uint8_t emptied;   /* at the last look no ring held a group */
};

/* Bytes evict_scratch_place() needs, and the placement itself. */
uint64_t evict_scratch_bytes(const struct plan *);
struct evict_scratch *evict_scratch_place(const struct plan *, void *memory);

/*
 * Claim groups at the head of a ring and free their chunks, hot members rescued; or take a chunk
 * that was given back meanwhile, or compact, or make an overlong ring shorter.
 * Waits.  0; FORGE_MISS when neither ring holds a group; FORGE_E_AGAIN; FORGE_E_NODE.
 */
MAY_WAIT int evict(struct cache *);

/*
 * READ the cursors, and what else may be wanted next.  *o receives how full the rings are; the
 * hints of the CN are brought up to date.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int collect_look(struct cache *, struct policy_occupancy *o);

/*
 * Look who is there, if this node believes that it is alone and has not looked lately.  Waits.
 * 0 or FORGE_E_NODE.
 */
MAY_WAIT int collect_company(struct cache *);

/* How many groups to claim at once. */
uint32_t collect_count(const struct cache *, const struct policy_occupancy *);

/*
 * Claim groups at the head of a ring, READ what they are judged by into the scratch, and wait for
 * late flushes; more groups while the policy would merge fewer than merge_min.  *n receives how
 * many.  Waits.  0, also with none; FORGE_MISS and FORGE_E_AGAIN as ring_claim(); FORGE_E_NODE.
 */
MAY_WAIT int collect(struct cache *, uint32_t ring, uint32_t count, uint32_t merge_min,
		     uint32_t *n);

/* Has every other live node flushed position p, so that its row is still for good? */
int collect_row_is_still(const struct cache *, uint32_t ring, uint64_t position);

/*
 * CAS every word of an OFM row to zero from what was READ, again from what it became meanwhile.
 * row[] is used up.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int evict_clear_row(struct cache *, struct evict_scratch *, uint64_t address,
			     uint64_t *row);

/*
 * Does the policy bound the share of dead members here?  In a pool of a few groups it does not:
 * they are no sample.
 */
int compact_bounds_dead(const struct cache *);

/* Are so many of the group's members known to be dead that moving the others frees something? */
int compact_is_worth(const struct cn *, const struct ring_claimed *);

/*
 * The stream for objects bound for main that lived in a group which the map shows so, until they
 * were updated or their group compacted.
 */
uint32_t compact_stream(const struct cache *, uint64_t seen);

/*
 * The READ of what the other nodes published of some groups, others each time, if that may be of
 * use: 1, or 0 and no op.  compact_learn() takes in what it brought.
 */
uint32_t compact_learn_op(struct cache *, struct fab_op *);
void compact_learn(struct cache *);

/*
 * Take in all that the others have published so far; once for a CN, when its first eviction is
 * near: who joins knows of no hole that others made, and the READs beside its looks tell it of so
 * few at a time that meanwhile it would evict what need not go.  Workers that come to it at once
 * each do it. Waits.  0; FORGE_MISS when there is nothing to be learned, or all was; FORGE_E_NODE.
 */
MAY_WAIT int compact_learn_all(struct cache *);

/*
 * Compact a group: a mostly dead one or, while more than dead_percent of all members are dead, the
 * one that is most worth it.  FORGE_MISS if this CN knows none.
 */
MAY_WAIT int compact(struct cache *, uint32_t dead_percent);

#endif
