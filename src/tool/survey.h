/*
 * survey.h: what a pool holds, counted from its metadata alone.
 *
 * For `forge stat` and for reports.  Everything is READ, nothing is written; while compute nodes
 * are attached the numbers are a moment each, not one moment together.  The caller owns the
 * struct and frees it with survey_free().
 */
#ifndef FORGE_TOOL_SURVEY_H
#define FORGE_TOOL_SURVEY_H

#include "layout/stats.h"
#include "pool/pool.h"

struct survey {
	struct layout_cursors cursors;
	uint64_t chunks[CHUNK_STATES];	    /* by state */
	uint64_t chunks_unknown;	    /* in a state that does not exist */
	uint64_t ring_chunks[RING_COUNT];   /* queued in it (free: lying in it) */
	uint64_t ring_members[RING_QUEUES]; /* objects of their groups, dead ones included */
	struct layout_registry *lines;	    /* [cn_max] */
	uint32_t *held;			    /* [cn_max] chunks a compute node owns */
	struct stats_sum stats;		    /* what all compute nodes have told */

	/* Only with a scan of the index. */
	int has_scan;
	uint64_t slots, slots_live, slots_stale, slots_tentative;
	uint64_t live_bytes; /* that their objects take */
};

/* 0, FORGE_E_NO_MEMORY or FORGE_E_NODE.  Waits. */
MAY_WAIT int survey_take(const struct pool *, struct worker *, int scan, struct survey *out);

void survey_free(struct survey *);

/* Live objects' share of the memory for chunks; needs a scan. */
double survey_live_share(const struct survey *, const struct plan *);

#endif
