/*
 * respread.h: changing the members of a cache as `forge spread` does, a step at a time, so that a
 * test decides how long each step lasts and where it ends.
 *
 * For tests.  All nodes are pools in shared memory of this host; one thread.
 */
#ifndef FORGE_TEST_SUPPORT_RESPREAD_H
#define FORGE_TEST_SUPPORT_RESPREAD_H

#include <stdint.h>

#include "layout/spread.h"

#define RESPREAD_NODES_MAX 8u

struct respread {
	const char *const *names; /* of all nodes */
	unsigned count;
	unsigned which; /* a bit for each that is a member afterwards */
	/* Called before the next node's epoch is raised, and before the first claim goes. */
	void (*pause)(void *context);
	void *context;
	int is_cut_off;		/* half of the epochs are raised, and all claims stand */
	int is_forced;		/* over the claims of one that was cut off */
	const char *third_name; /* what the record says of the third node; NULL: the truth */
};

/* All of it; fails the test that calls it. */
void respread(const struct respread *);

/* What the first node says of it. */
void respread_record(const char *name, struct spread_record *out);

#endif
