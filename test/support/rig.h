/*
 * rig.h: a small pool on the loop fabric with one compute node on it, for tests of the cache and
 * of what works on its pools.
 *
 * Called by cmocka tests: whatever fails, fails the test.  A rig belongs to one thread; the rigs
 * of rig_attach() share the memory of another, and each may have a thread of its own.
 */
#ifndef FORGE_TEST_SUPPORT_RIG_H
#define FORGE_TEST_SUPPORT_RIG_H

#include "cache/cache.h"

/* Time that passes by being looked at, so that a run can be repeated. */
struct rig_clock {
	struct clock clock;
	uint64_t *now_ns;
};

struct rig {
	void *memory;
	int owns_memory;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct cn cn;
	struct lane lane;
	struct cache cache;
	struct rig_clock ticking;
	uint64_t ticks_ns;
};

/* Format a pool of that many chunks, groups and attach to it. */
void rig_open(struct rig *r, const char *policy_name, uint32_t chunks, uint32_t objects);

/* The same for any plan. */
void rig_open_plan(struct rig *r, const struct plan_wish *wish);

/* From now on each look at the clock takes a microsecond, as long as nobody else is attached. */
void rig_tick(struct rig *r);

/* A further compute node on the pool of host, which outlives it. */
void rig_attach(struct rig *r, const struct rig *host, uint64_t seed);

/* Drain, leave, and free what rig_open() made. */
void rig_close(struct rig *r);

/* Die: free local memory, and leave the pool as it is. */
void rig_kill(struct rig *r);

/* Set key number id to a value of bytes (4 to 1024, in fours) made of id and version. */
int rig_set(struct rig *r, uint32_t id, uint32_t version, uint32_t bytes);

/* Get key number id, verify the whole value and give its version back. */
int rig_get(struct rig *r, uint32_t id, uint32_t *version);

int rig_delete(struct rig *r, uint32_t id);

#endif
