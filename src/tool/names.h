/*
 * names.h: the names in a list of memory nodes, for subcommands that look at each by itself.
 *
 * On the main thread.  The struct owns copies of the names.
 */
#ifndef FORGE_TOOL_NAMES_H
#define FORGE_TOOL_NAMES_H

#include "tool/command.h"

struct tool_names {
	char **name;
	unsigned count; /* at least 1 */
};

/* Take a list apart; prints the error for c.  0, or the exit status to end with. */
int tool_names_open(const struct command *c, const char *list, struct tool_names *out);
void tool_names_close(struct tool_names *);

#endif
