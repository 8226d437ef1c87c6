/*
 * cluster.h: pools on the memory nodes of a virtual world, and the compute nodes attached to them.
 *
 * What client/ does for a process: each compute node has one struct cn for each memory node, which
 * its threads share, and each thread a connection, a worker, a lane and a cache of its own for each
 * memory node.  With several memory nodes a key belongs to one of them, by its hash.
 *
 * For run.c and tests.  The cluster owns all of it and the world as well.
 */
#ifndef FORGE_VTIME_CLUSTER_H
#define FORGE_VTIME_CLUSTER_H

#include <stdio.h>

#include "cache/cache.h"
#include "vtime/world.h"

struct vt_cluster_options {
	struct vt_world_options world; /* node_bytes is filled in */
	struct plan plan;	       /* of each node */
	const char *policy;
	uint32_t poll_interval_us; /* 0: the default */
	uint32_t open_groups;
	uint32_t dead_percent;
	FILE *trace;	  /* a line for each verb; NULL: none */
	bool host_memory; /* hot words are in host memory, whatever the card has */
};

/* One thread on one memory node. */
struct vt_session {
	struct fab *fab;
	struct worker worker;
	struct lane lane;
	struct cache cache;
	char name[24]; /* "t17@0": thread and node, in traces */
	bool ready;    /* lane and cache are there */
};

struct vt_cluster {
	struct vt_cluster_options options;
	struct vt_world *world;
	const struct policy *policy;
	struct pool *pools;	     /* [nodes] */
	struct cn *cns;		     /* [cns][nodes] */
	uint32_t cns_open;	     /* of those, in their order */
	struct vt_session *sessions; /* [threads][nodes] */
	uint32_t session_count;
};

/*
 * Format the pools and attach everybody, in no time.  error_text says what went wrong.  Whatever
 * the cluster holds is given back by vt_cluster_close(), also after an error.  0, or as pool_open()
 * and cn_open().
 */
int vt_cluster_open(struct vt_cluster *, const struct vt_cluster_options *, char *error_text,
		    size_t error_bytes);

/* Drop everything as it is; nothing is given back to the pools. */
void vt_cluster_close(struct vt_cluster *);

struct vt_session *vt_session_at(struct vt_cluster *, uint32_t thread, uint32_t node);

/* From inside the thread: begin to count in the pool; give everything back to it.  Waits. */
MAY_WAIT int vt_sessions_begin(struct vt_cluster *, uint32_t thread);
MAY_WAIT int vt_sessions_drain(struct vt_cluster *, uint32_t thread);

/*
 * Everybody has drained and nothing is under way: check every pool (check/check.h).  0, or
 * FORGE_E_CORRUPT with the first finding, or as check_pool().
 */
int vt_cluster_check(struct vt_cluster *, char *error_text, size_t error_bytes);

/* The node of a key. */
uint32_t vt_node_of(const struct vt_cluster *, struct cache_key);

/* What all sessions did so far. */
void vt_cluster_counts(struct vt_cluster *, struct cache_counters *);

#endif
