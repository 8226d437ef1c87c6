/*
 * shared.h: what the processes of one run share.  For this folder, and for vtime/, where a run has
 * one process.
 *
 * One anonymous mapping, made before the fork and zeroed: the run's state, a record per worker
 * (written by that worker alone, read by the parent while it runs only where atomic, and wholly
 * after the worker's process has ended), and a bit per key for counting distinct ones.
 */
#ifndef FORGE_BENCH_SHARED_H
#define FORGE_BENCH_SHARED_H

#include "bench/engine.h"
#include "bench/fresh.h"

enum bench_barrier {
	BARRIER_ATTACHED,
	BARRIER_WARM_UP,
	BARRIER_MEASURED,
	BARRIER_DONE,
	BARRIERS,
};

struct bench_worker {
	_Atomic uint64_t progress; /* operations of the present part */
	_Atomic uint64_t hits;
	uint64_t warm_up_ns;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t value_bytes_min;
	uint64_t value_bytes_max;
	struct bench_tally tally;
	struct cache_counters cache;
	struct fab_counts verbs;
	struct plan plan;
	struct bench_space space;
	uint64_t client_memory_bytes;
	char policy[16];
	int status;
	char error[512];
	struct hist latency[BENCH_LATENCIES];
};

struct bench_shared {
	_Atomic uint32_t stopping; /* somebody failed, or a signal came: leave in good order */
	_Atomic uint32_t failed;   /* index + 1 of the worker that failed first */
	_Atomic uint32_t arrived[BARRIERS];
	uint32_t worker_count;
	_Atomic uint64_t key_count;
	uint64_t distinct_count; /* bits */
	_Atomic uint64_t *distinct;
	_Atomic uint64_t *positions;
	struct fresh_table fresh; /* only in a stress run */
	struct bench_worker *workers;
	uint64_t map_bytes;
};

/* alone: this process alone uses it, and a child that it forks has its own copy.  NULL: no memory.
 */
struct bench_shared *shared_create(const struct bench_setup *, const struct bench_load *,
				   bool alone);
void shared_destroy(struct bench_shared *);

/* Wait until every worker is there.  False when the run is stopping. */
bool shared_barrier(struct bench_shared *, enum bench_barrier);

/* True when the bit was not set before. */
bool shared_first_touch(struct bench_shared *, uint64_t slot);

/* Add what a worker did to a result. */
void bench_result_add(struct bench_result *, const struct bench_worker *);

/* The body of one compute node: returns when its threads have left the pool. */
void bench_process(struct bench_shared *, const struct bench_setup *, const struct bench_load *,
		   uint32_t process);

#endif
