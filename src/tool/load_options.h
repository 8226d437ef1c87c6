/*
 * load_options.h: what `forge bench` and `forge replay` have in common around a run.
 *
 * Main thread only.  Errors are printed for the command given.
 */
#ifndef FORGE_TOOL_LOAD_OPTIONS_H
#define FORGE_TOOL_LOAD_OPTIONS_H

#include "base/opts.h"
#include "bench/own_pool.h"
#include "bench/report.h"
#include "cache/lane.h"
#include "layout/layout.h"
#include "tool/command.h"
#include "tool/names.h"
#include "tool/policies.h"

/* No run or miss takes longer than a year; a nanosecond count of it fits 64 bits by far. */
#define LOAD_TIME_MAX_US (UINT64_C(365) * 24 * 3600 * 1000000)

/* ---- rows of both tables; c: a struct that has a field of the name of each ---- */

/* Which pool. */
#define LOAD_POOL_OPTION(c)                                              \
	OPT_STRING(c, pool, "pool", 'p', "none", "NAME",                 \
		   "The pool, as served by forge node: " TOOL_POOL_NAMES \
		   "; none: make one for this run.")

/* Of a pool that is made, and how its groups are filled. */
#define LOAD_PLAN_OPTIONS(c)                                                                       \
	OPT_BYTES(c, size, "size", 's', "0", "SIZE", 0, 0,                                         \
		  "Size of a pool made for the run, in place of --cache-percent; 0: by that."),    \
	    OPT_U64(c, group_objects, "group-objects", 0, "64", "objects", 2,                      \
		    LAYOUT_GROUP_OBJECTS_MAX,                                                      \
		    "How many objects of mean size fill a group, in a pool made for the run."),    \
	    OPT_U64(c, group_objects_max, "group-objects-max", 0, "0", "objects", 0,               \
		    LAYOUT_GROUP_OBJECTS_MAX,                                                      \
		    "How many objects a group may have, if they are small; 0: by median and mean " \
		    "size."),                                                                      \
	    OPT_U64(c, open_groups, "open-groups", 0, "0", "groups", 0, LANE_FILLING_MAX,          \
		    "How many groups a thread fills at once for each ring; 0: by its share of "    \
		    "the pool."),                                                                  \
	    OPT_U64(c, dead_percent, "dead-percent", 0, "0", "%", 0, 100,                          \
		    "Members that may be dead before groups are compacted for it; 0: the "         \
		    "policy's share.")

/* Who works. */
#define LOAD_POLICY_OPTIONS(c)                                                              \
	OPT_STRING(c, policy, "policy", 0, NULL, "NAME",                                    \
		   "The policy, forge or forge-paper; default: the pool's own, or forge."), \
	    OPT_U64(c, threads, "threads", 't', "1", "threads", 1, 256,                     \
		    "Threads of each process.")

/* How fast, and how strictly. */
#define LOAD_PACE_OPTIONS(c)                                                                       \
	OPT_DOUBLE(                                                                                \
	    c, rate, "rate", 0, "0", "op/s", 0, 1e12,                                              \
	    "Open loop: so many operations begin in a second, by all threads, at random moments; " \
	    "latencies count from there.  0: each thread goes on as soon as it can."),             \
	    OPT_DURATION(                                                                          \
		c, miss_penalty, "miss-penalty", 0, "0", "TIME", 0, LOAD_TIME_MAX_US,              \
		"What a miss costs beside: the time of a backend, slept (below 100 us: spun)."),   \
	    OPT_FLAG(c, verify, "verify", 0,                                                       \
		     "Check every byte of every value; a wrong one ends the run.")

/* What is reported. */
#define LOAD_REPORT_OPTIONS(c)                                                                    \
	OPT_DURATION(c, poll_interval, "poll-interval", 0, "0", "TIME", 0, 10000000,              \
		     "How often a compute node polls; 0: its default."),                          \
	    OPT_STRING(c, json, "json", 'j', NULL, "FILE",                                        \
		       "Write the result as JSON; -: to standard output, in place of the page."), \
	    OPT_FLAG(c, progress, "progress", 0,                                                  \
		     "A line of progress on standard error, also when that is no terminal."),     \
	{                                                                                         \
		.name = "count-verbs", .type = OPT_TYPE_FLAG,                                     \
		.offset = OPT_FIELD(c, count_verbs, bool), .preset = "true",                      \
		.sentence = "Count verbs by purpose, which costs some ns each."                   \
	}

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

/*
 * The options own[0..count) say how a pool is made, so they contradict one that is named; the
 * environment may be for memory nodes, too, and is none.  0, or the exit status, the error printed.
 */
int load_check_own(const struct command *, const struct load_table *, const struct opts_parsed *,
		   const char *pool, const char *const own[], unsigned count);

/* Did the user name a pool?  If not, one is made. */
bool load_pool_is_named(const struct load_pool *);

/*
 * Make the pool if none is named, or see that a node serves the one that is, and fill in the
 * setup's pool and policy.  0, or the exit status to end with.  Give it to load_pool_close() either
 * way.
 */
int load_pool_open(const struct command *, struct load_pool *, struct bench_setup *);
void load_pool_close(struct load_pool *);

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
