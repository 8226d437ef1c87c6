/*
 * look.h: a pool seen by somebody who only reads: no compute node, no line in the registry, and
 * not a byte written, so that it works while others are attached, when no node serves the pool,
 * and without permission to write.
 *
 * For subcommands, on the main thread.  What is READ while others are attached is a hint.
 */
#ifndef FORGE_TOOL_LOOK_H
#define FORGE_TOOL_LOOK_H

#include <stdbool.h>

#include "pool/pool.h"
#include "tool/command.h"

struct look_at {
	struct pool pool;
	struct worker worker;
	int is_served; /* does a node hold it? */
	struct fab *fab;
	struct link *link;
};

/* Look at a pool; prints the error for c if that fails.  0, or the exit status to end with. */
int tool_look_open(const struct command *c, const char *pool_name, struct look_at *out);

/*
 * Is the compute node whose line has this id word alive?  True unless it is proven dead, by the
 * lock of its id, which nobody has.
 */
bool tool_look_is_alive(struct look_at *, uint32_t cn, uint64_t id);

void tool_look_close(struct look_at *);

#endif
