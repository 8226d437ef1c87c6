/*
 * regroup.h: moving chosen members of a claimed group into an open group, and freeing the chunk;
 * the common part of eviction and compaction.  Internal to cache/.
 */
#ifndef FORGE_CACHE_REGROUP_H
#define FORGE_CACHE_REGROUP_H

#include "cache/cache.h"

/* A group in our hands (its chunk word is evicting, with us as the owner). */
struct regroup_source {
	struct ring_claimed claimed;
	struct twim_member *members; /* [object_count] */
	uint8_t *keep;		     /* [object_count] rescue this member; out: it could be */
	const uint8_t *carried;	     /* [object_count] counts of the kept ones */
	uint64_t heat;		     /* sum of the counts the kept ones had */
	uint8_t dead_published;	     /* its dead words may hold bits */
	int freed;		     /* out: the chunk is ours, one generation on */
};

/* Scratch of one regroup; sized by the plan. */
struct regroup_scratch {
	uint8_t *read;		   /* objects as READ, chunk_bytes */
	uint8_t *copy;		   /* objects as they will be WRITTEN, chunk_bytes */
	struct fab_op *ops;	   /* [group_objects + 1] */
	struct lane_place *places; /* [group_objects] */
	uint32_t *pending;	   /* [group_objects] SNs that still need a place */
	uint32_t *moved;	   /* [group_objects] SNs in the copy */
	uint32_t *offset;	   /* [group_objects] where in read[] */
};

/*
 * Copy the kept members into the lane's groups bound for `target`, and free the chunk.
 * Never waits for space: if no chunk is at hand the source's own is freed first, with all its
 * kept members in local memory, and becomes the next open group.
 * Waits.  0 or FORGE_E_NODE.  A chunk that was taken from us meanwhile is no error.
 */
MAY_WAIT int regroup_move(struct cache *, struct regroup_scratch *, struct regroup_source *,
			  uint32_t target, enum fab_purpose);

/* Free the source's chunk into the lane's reserve, unless that has happened. */
MAY_WAIT int regroup_free(struct cache *, struct regroup_source *, enum fab_purpose);

#endif
