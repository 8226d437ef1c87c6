/*
 * actor.h: one closed loop of a run: draws operations, carries them out, times and counts them.
 *
 * What a thread of an engine's process does, and what a virtual thread of the simulator does
 * (vtime/): both are an actor over a struct cache or a client's view, and differ in the clock, in
 * how time passes and in where a key's cache is.  Time is read before and after every flow, so a
 * latency includes one look at the clock and nothing of the load generator: drawing the operation,
 * making its value, verifying and counting happen outside the timed interval.  BENCH_ALL adds the
 * intervals of one operation up; in an open loop it is the time since the operation was due.
 *
 * An actor belongs to one thread or fiber.  It borrows everything but state and value, which
 * actor_begin() allocates.
 */
#ifndef FORGE_BENCH_ACTOR_H
#define FORGE_BENCH_ACTOR_H

#include "bench/shared.h"

struct bench_actor {
	struct bench_shared *shared;
	const struct bench_setup *setup;
	const struct bench_load *load;
	struct bench_worker *out; /* where it counts; fibers of one thread may share it */
	uint32_t index;		  /* 0-based, over all of the run */
	const struct clock *clock;
	struct view *view; /* all of a client's cache; NULL: what follows counts */
	/* Asked for a key's cache as its operation starts; NULL: it is always the same. */
	struct cache *(*route)(struct bench_actor *, struct cache_key);
	struct cache *cache;
	bool may_lose_nodes; /* a change refused for a lost node is counted, and fails no run */
	/* Let so much time pass. */
	void (*wait_ns)(struct bench_actor *, uint64_t ns);

	void *state;	/* the load's */
	uint8_t *value; /* to be stored */
	uint64_t version;
	bool measured;

	/* Open loop: when the next operation is due, and the draws of the times between them. */
	uint64_t due_ns;
	struct prng arrivals;
};

/*
 * Allocate and start the load's state.  place: pause of it may be set, the rest is filled in.
 * 0, or the status with which the run failed.
 */
int actor_begin(struct bench_actor *, struct bench_place *place);
void actor_end(struct bench_actor *);

/* Operations until the extent is used up, the load ends (both 0) or the run stops. */
int actor_part(struct bench_actor *, const struct bench_extent *);

/* Store this actor's share of the keys. */
int actor_preload(struct bench_actor *);

/* Forget what was counted in out. */
void actor_forget(struct bench_actor *);

/* Fail the run, with the reason; the first to fail is the one reported.  Gives status back. */
int actor_fail(struct bench_actor *, int status, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
