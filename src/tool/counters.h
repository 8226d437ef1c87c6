/*
 * counters.h: what a memory node counts of those who come by sockets, for `forge stat` and
 * `forge top`.
 *
 * The node names its counters itself (doc/wire.md, STAT), so that a newer one
 * may have more; what it says is taken apart and bounded here, and never trusted.
 */
#ifndef FORGE_TOOL_COUNTERS_H
#define FORGE_TOOL_COUNTERS_H

#include <jansson.h>

#include "tool/look.h"

#define COUNTERS_MAX	   64u
#define COUNTER_NAME_BYTES 40u

struct counters {
	unsigned count; /* 0: no node serves it over a socket */
	struct counter {
		char name[COUNTER_NAME_BYTES];
		uint64_t value;
	} row[COUNTERS_MAX];
};

/*
 * Ask the node.  Waits; on the thread of the look.  0, FORGE_E_NODE or FORGE_E_NO_MEMORY.
 */
int counters_take(struct look_at *, struct counters *out);

/* Add those of another node. */
void counters_merge(struct counters *into, const struct counters *from);

/* A table; with before, seconds ago, of rates as well.  Nothing without counters. */
void counters_print(const struct counters *);
void counters_print_rates(const struct counters *before, const struct counters *now,
			  double seconds);

/* An object with a member for each; the caller has the reference. */
json_t *counters_json(const struct counters *);

#endif
