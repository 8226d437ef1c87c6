/*
 * repair.h: what `forge check --repair` does before it checks.
 *
 * For subcommands, on the main thread.  It writes to the pool, but joins nothing, and is safe
 * beside compute nodes and a memory node at work, which run the same recovery (pool/recover.h).
 * Damage is mended (check/mend.h) only while no compute node is attached, and none can meanwhile.
 */
#ifndef FORGE_TOOL_REPAIR_H
#define FORGE_TOOL_REPAIR_H

#include <jansson.h>

#include "check/mend.h"
#include "pool/recover.h"
#include "tool/command.h"

struct repair {
	struct recover_report report;
	uint32_t dead_count; /* compute nodes that were recovered */
	uint64_t took_ns;
	struct rebuild_report mended;
	int attached; /* somebody was: damage was left alone */
};

/*
 * Repair a pool; prints the error for c if that fails.  Refuses if it cannot be told who is alive,
 * and has changed nothing then.  0, or the exit status to end with.
 */
int repair_run(const struct command *c, const char *pool_name, struct repair *out);

/* One line for people; an object for programs. */
void repair_print(const struct repair *);
json_t *repair_json(const struct repair *);

#endif
