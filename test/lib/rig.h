/*
 * rig.h: a pool of a test's own and a client on it, through the public header.
 *
 * Called by cmocka tests: whatever fails, fails the test.  A rig belongs to one thread, its client
 * to all.
 */
#ifndef FORGE_TEST_LIB_RIG_H
#define FORGE_TEST_LIB_RIG_H

#include "forge/forge.h"
#include "made_pool.h"

struct lib_rig {
	char pool[MADE_POOL_NAME_BYTES]; /* without a latency */
	struct forge_client *client;
	struct forge_session *session;
};

/*
 * Make a pool of that many chunks of 8 objects, and open a client and a session.  latency: e.g.
 * "2us", or NULL for as fast as memory.  options may be NULL.
 */
void lib_rig_open(struct lib_rig *, unsigned chunks, const char *latency,
		  const struct forge_options *options);

/* Close what is open, and hold the pool to its invariants. */
void lib_rig_close(struct lib_rig *);

/* Another client on the same pool. */
struct forge_client *lib_rig_join(const struct lib_rig *, const struct forge_options *options);

/* 0 fails the test with what FORGE has to say. */
void expect_ok(int status, const char *what);
#define OK(call) expect_ok(call, #call)

/* Store a text; is it what is found? */
int put_text(struct forge_session *, const char *key, const char *value);
int says(struct forge_session *, const char *key, const char *value);

/* Is a text what was found? */
int value_is(const struct forge_value *, const char *text);

#endif
