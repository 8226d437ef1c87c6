/*
 * look.h: a pool seen by somebody who only reads: no compute node, no line in the registry, and
 * not a byte written, so that it works while others are attached, when no node serves the pool,
 * and without permission to write.
 *
 * For subcommands, on one thread.  What is READ while others are attached is a hint.
 *
 * Behind a socket a key may be good for less than reading: then there is the node to ask, for what
 * it counts, and no pool.
 */
#ifndef FORGE_TOOL_LOOK_H
#define FORGE_TOOL_LOOK_H

#include <stdbool.h>

#include "pool/pool.h"
#include "tool/command.h"

struct look_at {
	struct pool pool;
	struct worker worker;
	int is_served;	  /* does a node hold it? */
	int is_metrics;	  /* nothing of it but its node's counters may be seen */
	uint64_t pool_id; /* by which a node is known under every name, and whatever may be seen */
	struct fab *fab;
	struct link *link;
};

/*
 * Look at a pool.  On any thread, which looks until it closes: 0, or a status as link_open() and
 * pool_open() have it, with the sentence and its remedy in text.
 */
int tool_look_open(const char *pool_name, struct look_at *out, char *text, size_t text_bytes);

/* The same for who can do with is_metrics: then pool, worker and fab are not there. */
int tool_look_open_any(const char *pool_name, struct look_at *out, char *text, size_t text_bytes);

/*
 * Is the compute node whose line has this id word alive?  True unless it is proven dead, by the
 * lock of its id, which nobody has.
 */
bool tool_look_is_alive(struct look_at *, uint32_t cn, uint64_t id);

void tool_look_close(struct look_at *);

#endif
