/*
 * load_options.h: what `forge bench` and `forge replay` have in common around a run.
 *
 * Main thread only.  Errors are printed for the command given.
 */
#ifndef FORGE_TOOL_LOAD_OPTIONS_H
#define FORGE_TOOL_LOAD_OPTIONS_H

#include "bench/own_pool.h"
#include "bench/report.h"
#include "tool/command.h"

/* No run or miss takes longer than a year; a nanosecond count of it fits 64 bits by far. */
#define LOAD_TIME_MAX_US (UINT64_C(365) * 24 * 3600 * 1000000)

/* The pool a run works on: the user's, or one made for it. */
struct load_pool {
	const char *name; /* as the user wrote it; NULL or "none": make one */
	const char *policy;
	struct plan_wish wish; /* for one that is made */
	struct own_pool own;
};

/* Did the user name a pool?  If not, one is made. */
bool load_pool_is_named(const struct load_pool *);

/*
 * Make the pool if none is named, or see that a node serves the one that is, and fill in the
 * setup's pool and policy.  0, or the exit status to end with.  Give it to load_pool_close() either
 * way.
 */
int load_pool_open(const struct command *, struct load_pool *, struct bench_setup *);
void load_pool_close(struct load_pool *);

/* Find a policy by name; NULL, and the error with the nearest name printed, if there is none. */
const struct policy *load_policy(const struct command *, const char *name);

/* Can the JSON be written?  Better known before a long run.  0, or the exit status. */
int load_json_check(const struct command *, const char *json_path);

/* Where the progress line goes: standard error if wanted, or if it is a terminal. */
FILE *load_progress(bool wanted);

/*
 * Run the load; its result is in report until load_finish().  0, or the exit status with the error
 * printed and nothing to finish.
 */
int load_run(const struct command *, const struct bench_setup *, const struct bench_load *,
	     struct bench_report *);

/*
 * After a run and, if wanted, the exact LRU beside it, whose status is lru_status: warnings, the
 * page on standard output (unless the JSON goes there), the JSON.  Frees the result and returns
 * the exit status.
 */
int load_finish(const struct command *, struct bench_report *, int lru_status,
		const char *json_path);

#endif
