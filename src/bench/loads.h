/*
 * loads.h: the two kinds of load an engine runs: a synthetic workload and a recorded trace.
 *
 * Each fills a struct bench_load; what it points to is the caller's and outlives the run.
 */
#ifndef FORGE_BENCH_LOADS_H
#define FORGE_BENCH_LOADS_H

#include "bench/engine.h"
#include "load/trace.h"

/* Operations of a workload_spec, which is borrowed. */
void load_of_workload(struct bench_load *, const struct workload_spec *spec);

/* Mean bytes of a value: over keys, or over draws where a size is drawn per operation. */
double workload_mean_value_bytes(const struct workload_spec *spec);

/* Half of them are smaller, to within 1/128; 0 when all are of one size. */
uint32_t workload_median_value_bytes(const struct workload_spec *spec);

/*
 * A trace, dealt round: worker i of n takes the requests i, i + n, i + 2n, ... in their order.
 *
 * No worker runs more than `lag` requests ahead of the slowest one, or 16 for each worker
 * if that is more.  So every compute node sees
 * an even sample of the trace, as behind a load balancer, and two requests change places only if
 * they are fewer than about lag apart.  (A cursor that all take the next request from keeps
 * single requests closer in order, but when there are more workers than processors it deals whole
 * time slices, thousands of requests in a row, to one node while the others sleep.)
 */
struct replay_load {
	const struct trace_data *trace;
	uint64_t value_bytes; /* of every value; 0: the trace's own sizes */
	uint32_t value_bytes_max;
	uint64_t warm_up_requests;
	uint32_t lag;
	bool gets_only; /* every request is a Get */
};

#define REPLAY_LAG_DEFAULT 64u

void load_of_trace(struct bench_load *, const struct replay_load *);

/* Half of the trace's objects are smaller, each at its first recorded size; it has sizes. */
uint32_t trace_median_bytes(const struct trace_data *);

/* The size of the value of request i. */
uint32_t replay_value_bytes(const struct replay_load *, uint64_t i);

#endif
