/*
 * policy.h: what a group policy decides.  A policy is one file that fills one struct policy.
 *
 * The machinery in cache/ (groups, rings, OFM, TWIM, regroup) is shared; a policy answers four
 * questions and touches no remote memory: how large is the small ring, where does a new object
 * go, what happens to the groups at the head of a ring, and what may its index tell.  All
 * functions are pure; any thread may call them.
 */
#ifndef FORGE_POLICY_POLICY_H
#define FORGE_POLICY_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "layout/layout.h"

/* What is known of a key when its object is about to be written. */
struct policy_hint {
	uint8_t ghost;	   /* a stale slot says the key was evicted from the small ring lately */
	uint8_t update;	   /* the key is in the cache and will be replaced */
	uint8_t old_ring;  /* update: the ring its group is in */
	uint8_t old_count; /* update: this CN's own count of the old object */
};

struct policy_place {
	uint32_t ring;	 /* the ring the object's group is bound for */
	uint8_t carried; /* the count it starts with once its group is queued */
};

enum policy_action {
	POLICY_REGROUP, /* rescue the members marked keep, free the chunk */
	POLICY_REQUEUE, /* the whole group goes round again, nothing is copied */
};

/* A claimed group and what becomes of it. */
struct policy_group {
	uint32_t ring; /* it came from */
	uint32_t segment;
	uint32_t object_count;
	uint8_t *count; /* [object_count] in: hits; out: what a kept or requeued object carries */
	uint8_t *keep;	/* [object_count] out, zeroed before: rescue this member */
	uint64_t heat;	/* out: sum of the counts of the kept members */
	enum policy_action action; /* out */
	uint32_t requeue_segment;  /* out, for POLICY_REQUEUE */
};

/* How full the rings are, in groups. */
struct policy_occupancy {
	uint64_t queued[RING_QUEUES];
	uint32_t chunk_count;
};

/* Who else may evict. */
struct policy_company {
	uint32_t evictors; /* workers of all compute nodes */
	uint32_t nodes;	   /* compute nodes attached */
};

struct policy {
	const char *name;
	const char *sentence;
	uint32_t slot_words;  /* of the index */
	uint8_t keeps_ghosts; /* stale slots are asked whether a key was evicted lately */
	/*
	 * Groups that must be queued behind a group before hits on it count; -1: hits count from
	 * the first Set on, in open groups too.
	 */
	int32_t (*late_groups)(uint32_t chunk_count);
	/* How many groups to claim at once, and how many of them have to be regrouped at least. */
	uint32_t (*claim_groups)(uint32_t chunk_count, const struct policy_company *);
	uint32_t merge_min;
	/*
	 * Share of a pool's members that may be dead, in percent.  While more are, room for main
	 * is made by compaction, and by eviction only when no group is worth it.  100: only groups
	 * that are mostly dead are compacted.
	 */
	uint32_t dead_percent;
	/* Segment of a sealed group of rescued objects, from the sum of their counts. */
	uint32_t (*segment)(uint64_t heat, uint32_t object_count);

	/* Which ring to evict from; called only when at least one is not empty. */
	uint32_t (*victim_ring)(const struct policy_occupancy *);
	struct policy_place (*place)(const struct policy_hint *);
	/* Judge n groups of one ring together; group_objects are expected to fill a chunk. */
	void (*judge)(struct policy_group *groups, uint32_t n, uint32_t group_objects);
};

/* The policy of that name, or NULL. */
const struct policy *policy_find(const char *name);

/* All their names, with commas between them, into buf, which is returned. */
const char *policy_names(char *buf, size_t bytes);

/* The n-th policy (0-based), or NULL: for listings. */
const struct policy *policy_at(unsigned n);

#endif
