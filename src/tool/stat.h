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

/* What is reported. */
struct stat_node {
	struct survey survey;
	struct space space;
	struct counters counters; /* of the memory node, if it serves sockets */
};

/* What all of several nodes hold together. */
struct stat_sum {
	uint64_t chunks[CHUNK_STATES];
	struct stats_sum stats;
	uint64_t pool_bytes, slots_live, live_bytes;
	unsigned nodes;
	unsigned answers; /* memory nodes that were reported, seen into or not */
	bool has_scan;
	struct counters counters;
};

/* ---- stat_page.c -------------------------------------------------------------------------- */

/* A memory node; one of which only counters may be seen; and all together. */
void stat_print(struct look_at *, const char *name, const struct stat_node *);
void stat_print_metrics(const char *name, const struct counters *);
void stat_print_sum(const struct stat_sum *);

/* ---- stat_json.c -------------------------------------------------------------------------- */

/* The same; the caller has the reference. */
json_t *stat_json(struct look_at *, const char *name, const struct stat_node *);
json_t *stat_metrics_json(const char *name, const struct counters *);
json_t *stat_sum_json(const struct stat_sum *);

#endif
