/*
 * time.h: pool time, what an object's expiry is compared with.
 *
 * Pool time is counted in ms: the clock of the node's host, which goes on while the host sleeps
 * and that nobody can set (base/clock.h), plus a base from the superblock.  The base is chosen when
 * the pool is formatted so that pool time is unix time at that moment; from then on a step of the
 * wall clock moves nothing.  The host's clock starts anew when the host does, so a node that takes
 * a pool over after that (known by the kernel's boot id) chooses a new base: unix time again, but
 * never less than the last pool time a node has written down.
 *
 * Every process on the host reads the same clock, so all agree on pool time to the microsecond,
 * unless they live in different time namespaces, which is not supported.
 *
 * Called by the node; compute nodes only add pool->time_base_ms.
 */
#ifndef FORGE_POOL_TIME_H
#define FORGE_POOL_TIME_H

#include "pool/pool.h"

/* How often a node writes pool time down, at least. */
#define POOL_TIME_STAMP_MS 1000u

/* What a host's clocks show. */
struct pool_host {
	uint64_t wall_ms;  /* since 1970 */
	uint64_t clock_ms; /* the worker's clock */
	uint64_t boot;	   /* a hash of the boot id; 0 when there is none */
};

/* The time of a new pool.  Pure. */
struct layout_time pool_time_new(const struct pool_host *);

/* The time of a pool that was there, as the node goes on with it.  Pure. */
struct layout_time pool_time_go_on(const struct layout_time *, const struct pool_host *);

/*
 * Before compute nodes may attach to a pool that was there: READ its time and WRITE how it goes
 * on.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int pool_time_take_over(struct worker *, const struct pool_host *);

/* WRITE pool time down.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int pool_time_stamp(struct worker *, const struct pool *);

#endif
