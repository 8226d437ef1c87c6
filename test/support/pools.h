/*
 * pools.h: pools of this process that are to be the memory nodes of one cache, and who uses it.
 *
 * For cmocka tests of clients on several memory nodes; whatever fails, fails the test.  A struct
 * pools and a struct user belong to one thread each.  A client that is given the pools' options
 * can be cut off from any of them (support/cut.h).
 */
#ifndef FORGE_TEST_SUPPORT_POOLS_H
#define FORGE_TEST_SUPPORT_POOLS_H

#include "bench/own_pool.h"
#include "check/check.h"
#include "client/client.h"
#include "support/cut.h"

#define POOLS_MAX	 8u
#define POOLS_LIST_BYTES (POOLS_MAX * 80u)

struct pools {
	unsigned count;
	struct own_pool pool[POOLS_MAX];
	const char *names[POOLS_MAX];
	char list[POOLS_LIST_BYTES]; /* of all */
	struct cuts cuts;
};

/* So many, of 8 MiB, 12, and so on: which member a pool is, its weight tells. */
void pools_make(struct pools *, unsigned count);

/* So many of one kind. */
void pools_make_alike(struct pools *, unsigned count, const struct plan_wish *);

/* The names of those that have a bit in which, with commas. */
void pools_list(const struct pools *, unsigned which, char list[POOLS_LIST_BYTES]);

/* For two sessions, whose thread is the calling one, by fabrics that can be cut. */
struct client_options pools_options(struct pools *);

/*
 * The checker finds nothing in any of them; live[i] of the i-th is how many objects it has, or
 * NULL.
 */
void pools_check(const struct pools *, const struct check_options *, uint64_t *live);

/* They end. */
void pools_forget(struct pools *);

/* Both: nobody uses them any more, and everybody left in order. */
void pools_end(struct pools *);

/* Of a process of its own, as far as the pools know. */
struct user {
	struct client *client;
	struct session *session;
};

void user_attach(struct user *, const char *list, const struct client_options *);
void user_detach(struct user *);

/* By pools_options(), and the names of the pools that have a bit in which. */
void user_attach_to(struct user *, struct pools *, unsigned which);

/* Until so many members are up: it has 20 s. */
void user_wait_for_members(struct user *, unsigned count);

/* The same, until the client's thread has brought back members n times. */
void user_wait_for_return(struct user *, uint64_t n);

/* "key-N"; until the next call. */
struct cache_key user_key(unsigned n);

/* A value, which says which key's and version it is. */
struct user_value {
	unsigned key;
	int version;
};

int user_set(struct user *, unsigned n, int version);

/* -1: a miss; else the version, or what went wrong. */
int user_get(struct user *, unsigned n);

#endif
