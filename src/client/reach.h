/*
 * reach.h: all memory nodes of a list at once, so that several that do not answer take no longer
 * than one of them.
 *
 * Internal to src/client, for who opens a client.
 */
#ifndef FORGE_CLIENT_REACH_H
#define FORGE_CLIENT_REACH_H

#include "client/attachment.h"

#define REACH_WHY_BYTES 512u

/* A node of the list. */
struct reach {
	const char *name;
	/* What came of it: 0 and an attachment, or why not. */
	struct attachment *attachment;
	int status;
	char why[REACH_WHY_BYTES];
};

/*
 * Reach each of them, as attachment_open().  Returns when all have been reached or have failed; as
 * soon as one fails by something that is no link_is_away() the others are given up, with
 * FORGE_E_NODE.  Waits for the longest of their deadlines, not for the sum.  The attachments are
 * the caller's.  options are borrowed by them.
 */
void reach_all(const struct client_options *options, struct reach *nodes, unsigned count);

#endif
