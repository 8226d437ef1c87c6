/*
 * names.h: the names in a list of memory nodes, for subcommands that look at each by itself.
 *
 * On the main thread.  The struct owns copies of the names.
 */
#ifndef FORGE_TOOL_NAMES_H
#define FORGE_TOOL_NAMES_H

#include <jansson.h>

#include "tool/command.h"

/* Of two names in a list. */
#define TOOL_SAME_NODE_FORMAT "%s and %s are the same memory node: name it once"

struct tool_names {
	char **name;
	unsigned count; /* at least 1 */
};

/* Take a list apart; prints the error for c.  0, or the exit status to end with. */
int tool_names_open(const struct command *c, const char *list, struct tool_names *out);
void tool_names_close(struct tool_names *);

/*
 * Print what list says of each node: of one its object by itself, nothing if list is empty.  Of
 * several, all is given, and an object has schema, list as "nodes", and all under all_name.
 * Borrows list and takes all.
 */
void tool_names_dump(json_t *list, const char *schema, const char *all_name, json_t *all);

/*
 * Is it the name of a pool as its node has it, without options behind it?  0, or the exit status,
 * the error printed for c.
 */
int tool_own_name(const struct command *c, const char *name);

/* That there is no pool of that name, and how to make one. */
void tool_absent(const char *name, char *text, size_t text_bytes);

/*
 * How to start the memory node of that name again, as it may be written behind a colon: by its
 * own name on this host; one behind a socket has another on its own host.
 */
void tool_node_remedy(const char *name, char *text, size_t text_bytes);

#endif
