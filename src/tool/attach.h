/*
 * attach.h: one compute node with one session, for subcommands that do one operation.
 *
 * Whoever dies attached leaves a line in the registry and a chunk behind, so signals that ask to
 * end wait from attach to detach, which is milliseconds.  Main thread only; read the input
 * before attaching and write the output after.
 */
#ifndef FORGE_TOOL_ATTACH_H
#define FORGE_TOOL_ATTACH_H

#include <signal.h>
#include <stdbool.h>

#include "client/client.h"
#include "tool/command.h"

struct attached {
	struct client *client;
	struct session *session;
	sigset_t signals_before;
};

/*
 * Is there such a pool, and does a node serve it, or one of several?  Without a node nobody vouches
 * for it.  Of a list those in memory of this host are asked first, then, if none is served, those
 * behind sockets, at once; with attaches, for a caller who attaches next and ends if that fails,
 * not at all if all are behind sockets.  0, or the exit status to end with, the error printed.
 */
int tool_check_served(const struct command *c, const char *pool_name, bool attaches);

/*
 * Attach to a pool that a node serves; prints the error and the remedy for c if that fails.
 * 0, or the exit status to end with.
 */
int tool_attach(const struct command *c, const char *pool_name, struct attached *out);

/*
 * Print why attaching failed, as client_open() says it, and of what: the pool, unless one of its
 * memory nodes is named already.  Returns TOOL_ERROR.
 */
int tool_attach_error(const struct command *c, const char *pool_name, const char *why);

/* Leave. */
void tool_detach(struct attached *);

/*
 * Check a key given as an operand.  0, or the exit status to end with, the error printed.
 */
int tool_key(const struct command *c, const char *text, struct cache_key *out);

/* Print what a flow's error means for this pool and what to do about it; returns TOOL_ERROR. */
int tool_flow_error(const struct command *c, const char *pool_name, int status);

/* The same for an operation on key, whose memory node is named; leaves, too. */
int tool_key_error(const struct command *c, struct attached *a, const char *pool_name,
		   struct cache_key key, int status);

#endif
