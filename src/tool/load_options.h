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

/*
 * Where a load runs: on processes and a pool (bench, replay), or in virtual time (sim).  Both have
 * the options of bench.c and replay.c, but for those of `without`, and those of `more` beside.
 */
struct load_where {
	const struct command *command;
	const char *typed; /* "forge bench" */
	const struct opt *more;
	unsigned more_count;
	size_t more_bytes;	    /* of the struct that the rows of more name */
	const char *const *without; /* names, and NULL at the end; NULL: none */
	/*
	 * Run the load; its result is in report until load_finish().  more: as parsed.  0, or the
	 * exit status with the error printed and nothing to finish.
	 */
	int (*run)(const struct load_where *, void *more, struct load_pool *, struct bench_setup *,
		   const struct bench_load *, struct bench_report *);
};

/* A table of options made for a place, and the configuration it names. */
struct load_table {
	struct opt options[OPTS_MAX];
	struct opts_table table;
	void *config; /* the command's, and behind it more */
	void *more;
};

/*
 * base's rows, whose struct has config_bytes, with those of the place.  Parses argv.  -1: go on,
 * and give it to load_table_fini() in the end; otherwise the exit status.
 */
int load_table_parse(struct load_table *, const struct load_where *, const struct opts_table *base,
		     size_t config_bytes, int argc, char **argv, struct opts_parsed *);
void load_table_fini(struct load_table *);

/* The two loads, wherever. */
int load_bench_main(const struct load_where *, int argc, char **argv);
int load_replay_main(const struct load_where *, int argc, char **argv);

/* The run of forge bench and forge replay. */
int load_run_processes(const struct load_where *, void *more, struct load_pool *,
		       struct bench_setup *, const struct bench_load *, struct bench_report *);

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
 * After a run and, if wanted, the exact LRU beside it, whose status is lru_status: warnings, the
 * page on standard output (unless the JSON goes there), the JSON.  Frees the result and returns
 * the exit status.
 */
int load_finish(const struct command *, struct bench_report *, int lru_status,
		const char *json_path);

#endif
