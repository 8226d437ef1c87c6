/*
 * stat.h: what the files of `forge stat` share: a memory node as it was found, and all of several.
 *
 * On the main thread.
 */
#ifndef FORGE_TOOL_STAT_H
#define FORGE_TOOL_STAT_H

#include <jansson.h>
#include <stdbool.h>

#include "tool/counters.h"
#include "tool/look.h"
#include "tool/space.h"
#include "tool/survey.h"

extern const char *const stat_chunk_states[CHUNK_STATES];
extern const char *const stat_rings[RING_COUNT];
extern const char *const stat_registry_states[];

/* A memory node, as it was found. */
struct stat_node {
	const char *name;
	int status; /* 0; or why is a sentence, and nothing else is there */
	char why[TOOL_WHY_BYTES];
	struct look_at look;
	struct counters counters; /* of the memory node, if it serves sockets */
	/* Unless the key is good for these alone, look.is_metrics: */
	struct survey survey;
	bool is_alive[LAYOUT_CN_MAX]; /* of those in the registry */
	uint64_t now_us;	      /* pool time, when that was seen */
	struct space space;
};

/* What all of several nodes hold together. */
struct stat_sum {
	uint64_t chunks[CHUNK_STATES];
	struct stats_sum stats;
	uint64_t pool_bytes, slots_live, live_bytes;
	unsigned nodes;
	unsigned answers; /* memory nodes that were reported, seen into or not */
	unsigned named;	  /* and those that were named */
	bool has_scan;
	struct counters counters;
};

/* ---- stat_page.c -------------------------------------------------------------------------- */

/* A memory node, and all together. */
void stat_print(const struct stat_node *);
void stat_print_sum(const struct stat_sum *);

/* ---- stat_json.c -------------------------------------------------------------------------- */

/* The same; the caller has the reference. */
json_t *stat_json(const struct stat_node *);
json_t *stat_sum_json(const struct stat_sum *);

#endif
