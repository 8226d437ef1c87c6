/*
 * reference.h: what exact LRU hits on the same requests, and what any cache could hit, to print
 * beside a run's hit ratio.
 *
 * LRU here has the pool's capacity and one queue; it sees the requests in the order of the trace,
 * or, for a workload, the workers' draws in turn.  Misses are filled.  Runs on the calling
 * thread, after the measurement, so that it takes no processor from it.
 */
#ifndef FORGE_BENCH_REFERENCE_H
#define FORGE_BENCH_REFERENCE_H

#include "bench/loads.h"
#include "load/refcache.h"

struct bench_reference {
	bool known;
	bool as_stored; /* in: weigh an object as what it takes of a chunk, TWIM entry and all */
	uint32_t stored_bytes_max; /* in, with as_stored: heavier ones are never stored */
	struct refcache_limit limit;
	uint64_t gets; /* after the warm-up, as are the hits */
	uint64_t hits;
};

struct reference_draws {
	uint64_t seed;
	uint32_t workers;
	uint64_t warm_up; /* operations of all workers */
	uint64_t measured;
};

/* Keys of a workload, when weighed as stored, count as 20 bytes.  0 or FORGE_E_NO_MEMORY. */
int reference_of_workload(const struct workload_spec *, const struct reference_draws *,
			  struct refcache_limit, struct bench_reference *out);
int reference_of_trace(const struct replay_load *, struct refcache_limit,
		       struct bench_reference *out);

/* The Gets that a run counts, and those of them that a cache without end would hit. */
struct bench_ceiling {
	uint64_t gets; /* after the warm-up, as are the hits */
	uint64_t hits;
	bool fills;
};

/*
 * The ceiling of a trace's hit ratio, which has that ratio's denominator: a Get may hit if its id
 * was stored before and not deleted since, where `fills` means that a Get which misses stores.
 * Nothing exceeds it that starts empty, does not prefetch and takes the requests in their order;
 * workers that run beside each other may change the places of two requests that are fewer than
 * the lag apart.  0 or FORGE_E_NO_MEMORY; takes a byte for each id.
 */
int reference_ceiling(const struct replay_load *, bool fills, struct bench_ceiling *out);

#endif
