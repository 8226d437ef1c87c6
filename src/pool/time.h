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
 * A process that maps the pool reads the node's clock itself, so all of them agree on pool time to
 * the microsecond, unless they live in different time namespaces, which is not supported.  One
 * that reaches the node over a network knows the node's clock only within bounds, struct
 * pool_clock, and stays on the safe side: a value it stores ends by the earliest time it may be
 * now, and whether a value is over it judges by the latest.  So no value is found after its time,
 * whoever stored it and whoever looks, and it may be over before that by what the bounds are apart.
 *
 * Called by the node and by compute nodes.
 */
#ifndef FORGE_POOL_TIME_H
#define FORGE_POOL_TIME_H

#include <stdatomic.h>

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

/* ---- the clock of a node elsewhere -------------------------------------------------------- */

/*
 * Two clocks run apart by at most 1 / 2^10: twice what the kernel lets a clock be steered by, which
 * is far more than oscillators differ.
 */
#define POOL_CLOCK_DRIFT_SHIFT 10u
/* How often the clock is looked at while there are operations: the bounds part by 0.5 ms meanwhile.
 */
#define POOL_CLOCK_LOOK_NS UINT64_C(250000000)
/* After a pause of that length one waits for the answer rather than go by what was known. */
#define POOL_CLOCK_OLD_NS UINT64_C(2000000000)

/*
 * Bounds of another host's clock.  The argument.  A look at it begins at b and ends at a by our
 * clock, and the other one showed n in between.  So it shows at most n at b, and from then on at
 * most n + (t - b)(1 + drift); it shows at least n at a, and from then on at least
 * n + (t - a)(1 - drift).  Each is a line with a fixed slope, so one word holds what tells it from
 * others, and of two upper bounds that are both true the lower one is the better at every time.
 * Hence looks only ever make high_ns smaller and low_ns larger, and the two are stored and
 * loaded independently.  Should they contradict each other, one of the clocks has jumped (a virtual
 * machine was halted): the last look then counts alone.
 *
 * Shared by the threads of a process.
 */
struct pool_clock {
	/* At our time t it shows t + low_ns - t / 2^10 at least, t + high_ns + t / 2^10 at most. */
	_Atomic int64_t low_ns, high_ns;
	_Atomic uint64_t looked_ns;
	_Atomic uint64_t asked_ns; /* 0: no question is out */
	atomic_flag looking;
	const struct pool_clock_source *source;
	void *context;
};

/* How the other clock is read. */
struct pool_clock_source {
	/* Now; waits.  0 or FORGE_E_NODE. */
	int (*read)(void *context, uint64_t *node_ns);
	/*
	 * Without waiting; both NULL: each look waits.  ask: 0, FORGE_E_AGAIN or FORGE_E_NODE.
	 * answer: 1 when it is there, 0, or FORGE_E_NODE.
	 */
	int (*ask)(void *context);
	int (*answer)(void *context, uint64_t *node_ns);
};

/* Nothing is known until the first look. */
void pool_clock_init(struct pool_clock *, const struct pool_clock_source *, void *context);

/* What a look has shown that lasted from began_ns to ended_ns by our clock.  One at a time. */
void pool_clock_learn(struct pool_clock *, uint64_t began_ns, uint64_t node_ns, uint64_t ended_ns);

/*
 * Look so many times, unless another thread is at it: more than one for the first, since the
 * quickest of them decides.  Waits.  0 or as read().
 */
MAY_WAIT int pool_clock_look(struct pool_clock *, const struct clock *ours, unsigned times);

/* See pool_clock_tend(). */
MAY_WAIT int pool_clock_go_on(struct pool_clock *, const struct clock *ours, uint64_t now_ns);

/*
 * Ask if it is due, take the answer if it is there; the longer that takes, the further apart the
 * bounds.  Nothing waits, lest a node that hangs keep a thread from its operations on others; but
 * after a pause of the process it does.  0 or FORGE_E_NODE.
 */
static inline MAY_WAIT int pool_clock_tend(const struct pool *p, const struct clock *ours,
					   uint64_t now_ns)
{
	struct pool_clock *c = p->clock;

	return likely(!c) || (now_ns - atomic_load_explicit(&c->looked_ns, memory_order_relaxed) <
				  POOL_CLOCK_LOOK_NS &&
			      !atomic_load_explicit(&c->asked_ns, memory_order_relaxed))
		   ? 0
		   : pool_clock_go_on(c, ours, now_ns);
}

/* What the node's clock shows at the earliest, and at the latest, when ours shows now_ns. */
static inline uint64_t pool_node_ns_earliest(const struct pool *p, uint64_t now_ns)
{
	if (likely(!p->clock))
		return now_ns;
	int64_t low_ns = atomic_load_explicit(&p->clock->low_ns, memory_order_relaxed);

	return now_ns + (uint64_t)low_ns - (now_ns >> POOL_CLOCK_DRIFT_SHIFT);
}

static inline uint64_t pool_node_ns_latest(const struct pool *p, uint64_t now_ns)
{
	if (likely(!p->clock))
		return now_ns;
	int64_t high_ns = atomic_load_explicit(&p->clock->high_ns, memory_order_relaxed);

	return now_ns + (uint64_t)high_ns + (now_ns >> POOL_CLOCK_DRIFT_SHIFT);
}

/* Pool time in ms when our clock shows now_ns: to store by, and to judge by. */
static inline uint64_t pool_ms_earliest(const struct pool *p, uint64_t now_ns)
{
	return p->time_base_ms + pool_node_ns_earliest(p, now_ns) / 1000000u;
}

static inline uint64_t pool_ms_latest(const struct pool *p, uint64_t now_ns)
{
	return p->time_base_ms + pool_node_ns_latest(p, now_ns) / 1000000u;
}

#endif
