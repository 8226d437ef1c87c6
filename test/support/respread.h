/*
 * respread.h: changing the members of a cache as `forge spread` does, a step at a time, so that a
 * test decides how long each step lasts and where it ends.
 *
 * For tests.  All nodes are pools in shared memory of this host; one thread.
 */
#ifndef FORGE_TEST_SUPPORT_RESPREAD_H
#define FORGE_TEST_SUPPORT_RESPREAD_H

#include <stdint.h>

#include "cache/cache.h"
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

/* Who has which key, as the node of that name says. */
struct respread_now {
	struct spread_record record;
	uint8_t table[SPREAD_PARTITIONS];
};

void respread_learn(const char *name, struct respread_now *out);

/* The id of the member with that name, which its pool had before it was one. */
uint64_t respread_id_of(const struct respread_now *, const char *name);

/* Which of the names has the key; none fails the test. */
unsigned respread_node_of(const struct respread_now *, const char *const *names, unsigned count,
			  struct cache_key);

#endif
