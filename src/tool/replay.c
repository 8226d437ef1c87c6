/* replay.c: `forge replay`: a recorded trace on a pool. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/load_options.h"

enum on_miss {
	MISS_FILL,
	MISS_IGNORE,
	MISS_AS_RECORDED,
};

struct config {
	const char *pool, *policy, *json, *format, *sizes, *columns, *delimiter;
	unsigned on_miss, by;
	uint64_t value_bytes, size, group_objects, group_objects_max, object_bytes, cache_objects;
	uint64_t open_groups, dead_percent;
	double cache_percent, warmup, rate;
	uint64_t threads, processes, requests, seed, poll_interval, miss_penalty, lag;
	bool footprint, own_sizes, gets_only, verify, progress, lru, count_verbs;
	const char *key_file;
};

static const struct opt options[] = {
    LOAD_POOL_OPTION(struct config),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_STRING(struct config, format, "format", 'f', NULL, "NAME",
	       "oracleGeneral, u32, u64, be32, be64 or csv; default: by the file's extension."),
    OPT_STRING(struct config, sizes, "sizes", 0, NULL, "FILE",
	       "Sizes for a trace of bare ids; default: NAME.sz beside it if that is there."),
    OPT_STRING(struct config, columns, "columns", 0, NULL, "NAMES",
	       "csv: what the columns are, as in time,key,size,op; - is one to ignore."),
    OPT_STRING(struct config, delimiter, "delimiter", 0, ",", "CHAR", "csv: what separates them."),
    OPT_U64(struct config, requests, "requests", 'n', "0", "requests", 0, 0,
	    "Replay only so many requests; 0: all."),
    OPT_FLAG(struct config, footprint, "footprint", 0,
	     "Only read the trace and print what it asks for, one number a line."),
    OPT_DOUBLE(struct config, cache_percent, "cache-percent", 'c', "10", "%", 0, 10000,
	       "Size of a pool made for the run, as a share of the trace's footprint."),
    OPT_CHOICE(struct config, by, "by", 0, "objects", "objects|bytes",
	       "Count the footprint and the pool in objects or in bytes of values."),
    OPT_U64(struct config, cache_objects, "cache-objects", 0, "0", "objects", 0, 0,
	    "Size of a pool made for the run, in place of --cache-percent: as many whole groups as "
	    "hold at most so many objects."),
    LOAD_PLAN_OPTIONS(struct config),
    OPT_U64(struct config, object_bytes, "object-bytes", 0, "0", "bytes", 0, 1 << 20,
	    "Expected bytes of key and value, for a pool made for the run; 0: the trace's mean."),
    OPT_U64(struct config, value_bytes, "value-bytes", 0, "256", "bytes", 1, 1 << 20,
	    "Size of every value."),
    OPT_FLAG(struct config, own_sizes, "own-sizes", 0,
	     "Values have the sizes in the trace, in place of --value-bytes."),
    LOAD_POLICY_OPTIONS(struct config),
    OPT_U64(struct config, processes, "processes", 'P', "1", "processes", 1, 256,
	    "Processes; each is a compute node.  Requests are dealt round to all threads."),
    OPT_U64(struct config, lag, "lag", 0, "64", "requests", 1, UINT32_MAX,
	    "No thread runs further ahead of the slowest one, or 16 requests for each "
	    "thread if that is more."),
    OPT_DOUBLE(struct config, warmup, "warmup", 0, "0", "%", 0, 99,
	       "The first requests, which are not measured, as a share of the trace."),
    OPT_CHOICE(struct config, on_miss, "on-miss", 0, "fill", "fill|ignore|as-recorded",
	       "What follows a Get that misses.  fill and ignore replay Sets and Deletes of the "
	       "trace as well; as-recorded does nothing beside."),
    OPT_FLAG(struct config, gets_only, "gets-only", 0,
	     "Take every request for a Get, whatever the trace calls it."),
    LOAD_PACE_OPTIONS(struct config),
    {.name = "lru",
     .type = OPT_TYPE_FLAG,
     .offset = OPT_FIELD(struct config, lru, bool),
     .preset = "true",
     .sentence = "Print what exact LRU of the same capacity hits on the same requests."},
    OPT_U64(struct config, seed, "seed", 0, "1", "NUMBER", 0, 0,
	    "Seed of what the compute nodes draw: the same number, the same draws."),
    LOAD_REPORT_OPTIONS(struct config),
};

static const struct opts_table table = {
    .operands = "TRACE",
    .sentence =
	"Replay a recorded trace (oracleGeneral, ids, csv; plain, zst, xz or gz) and print its hit "
	"ratio beside that of exact LRU and the highest possible one.  Other policies are not "
	"run; 'make hit-ratio' of the source prints what they hit on known traces.  "
	"Exit status: 0 done, 1 a wrong value or a worker that failed, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
    .operands_min = 1,
    .operands_max = 1,
};

static int run(int argc, char **argv);

const struct command command_replay = {"replay", "Replay a recorded trace.", run};

/* Larger ones are taken for this: above the limit of a pool that nobody asked for another. */
#define VALUE_BYTES_MAX (PLAN_VALUE_BYTES_DEFAULT + 1)

/* What the trace turned out to be, or what was asked for; static memory. */
static const char *format_name(const char *path, const struct trace_options *how)
{
	struct trace *t = NULL;
	const char *name = NULL;

	if (trace_file_open(&t, path, how, NULL) == 0)
		name = trace_format(t);
	trace_file_close(t);
	return name;
}

static int load_trace(const struct command *c, const struct config *config, const char *path,
		      struct trace_data *trace, const char **format)
{
	struct load_error error = {0};
	char beside[4096];
	struct trace_options how = {
	    .format = config->format,
	    .sizes_path = config->sizes,
	    .csv_columns = config->columns,
	    .csv_delimiter = config->delimiter[0],
	    .requests_max = config->requests,
	};

	if (access(path, R_OK))
		return tool_fail(c, "%s: %s", path, strerror(errno));
	if (!config->sizes && trace_sizes_beside(path, beside, sizeof(beside)))
		how.sizes_path = beside;
	if (config->delimiter[0] == '\0' || config->delimiter[1] != '\0')
		return tool_fail(c, "--delimiter=%s: give one letter", config->delimiter);
	if (trace_load(trace, path, &how, &error))
		return tool_fail(c, "%s", error.text);
	*format = format_name(path, &how);
	if (config->own_sizes && !trace->sizes) {
		trace_unload(trace);
		return tool_fail(c, "--own-sizes: %s has no sizes; give --sizes or --value-bytes",
				 path);
	}
	return 0;
}

/* By bytes it is the same number: a share of the bytes is that share of objects of mean size. */
static double wished_objects(const struct config *c, const struct trace_footprint *f)
{
	return c->cache_objects ? (double)c->cache_objects
				: (double)f->distinct * c->cache_percent / 100;
}

/*
 * The pool's geometry.  Capacity counts every chunk: chunk_count x group_objects objects of the
 * expected size fit exactly.  By bytes the expected size is the mean over ids.
 */
static void fill_wish(const struct config *c, const struct trace_data *trace,
		      struct plan_wish *wish)
{
	const struct trace_footprint *f = &trace->footprint;
	double mean =
	    c->own_sizes ? (double)f->bytes / (double)f->distinct : (double)c->value_bytes;
	double chunks = floor(wished_objects(c, f) / (double)c->group_objects);

	*wish = (struct plan_wish){
	    .pool_bytes = c->size,
	    .chunk_count = c->size			     ? 0
			   : chunks < 2			     ? 2
			   : chunks > LAYOUT_CHUNK_COUNT_MAX ? LAYOUT_CHUNK_COUNT_MAX
							     : (uint32_t)chunks,
	    .object_bytes = c->object_bytes ? (uint32_t)c->object_bytes : (uint32_t)(8 + mean),
	    .object_bytes_median = c->own_sizes ? 8 + trace_median_bytes(trace) : 0,
	    .group_objects = (uint32_t)c->group_objects,
	    .group_objects_max = (uint32_t)c->group_objects_max,
	};
}

static void fill_setup(const struct config *c, struct bench_setup *setup)
{
	*setup = (struct bench_setup){
	    .processes = (uint32_t)c->processes,
	    .threads = (uint32_t)c->threads,
	    .on_miss = c->on_miss == MISS_FILL ? BENCH_MISS_FILL : BENCH_MISS_IGNORE,
	    .rate = c->rate,
	    .miss_penalty_us = c->miss_penalty,
	    .poll_interval_us = (uint32_t)c->poll_interval,
	    .open_groups = (uint32_t)c->open_groups,
	    .dead_percent = (uint32_t)c->dead_percent,
	    .seed = c->seed,
	    .verify = c->verify,
	    .no_verb_counts = !c->count_verbs,
	    .progress = load_progress(c->progress),
	};
}

static int run_lru(const struct config *config, const struct replay_load *replay,
		   struct bench_report *report)
{
	const struct plan *p = &report->result->plan;
	uint64_t objects = bench_space_of(report->result).objects;
	struct refcache_limit limit = {.objects = objects};

	if (config->by == 1)
		limit = (struct refcache_limit){.bytes = objects * (p->object_bytes - 8)};
	return reference_of_trace(replay, limit, &report->lru);
}

static struct replay_load replay_of(const struct config *config, const struct trace_data *trace)
{
	return (struct replay_load){
	    .trace = trace,
	    .value_bytes = config->own_sizes ? 0 : config->value_bytes,
	    .value_bytes_max = config->own_sizes
				   ? (uint32_t)min_u64(VALUE_BYTES_MAX, trace->footprint.size_max)
				   : (uint32_t)config->value_bytes,
	    .warm_up_requests = (uint64_t)((double)trace->count * config->warmup / 100),
	    .lag = (uint32_t)config->lag,
	    .gets_only = config->gets_only,
	};
}

static int replay_trace(const struct load_where *where, const struct load_table *given,
			const char *path, const struct trace_data *trace, const char *format)
{
	const struct config *config = given->config;
	const struct replay_load replay = replay_of(config, trace);
	struct load_pool pool = {.name = config->pool, .policy = config->policy};

	tool_use_key_file(config->key_file);
	struct bench_setup setup;
	struct bench_report report = {
	    .program = "replay",
	    .load = path,
	    .options = &given->table,
	    .config = config,
	    .footprint = &trace->footprint,
	    .trace_format = format,
	};
	struct bench_load load;
	int lru_status = 0;

	fill_setup(config, &setup);
	fill_wish(config, trace, &pool.wish);
	if (!load_pool_is_named(&pool) && !config->size)
		report.wished_objects = (uint64_t)ceil(wished_objects(config, &trace->footprint));
	load_of_trace(&load, &replay);
	if (reference_ceiling(&replay, config->on_miss == MISS_FILL, &report.ceiling))
		return tool_fail(where->command, "out of memory for a byte for each id");
	int status = where->run(where, given->more, &pool, &setup, &load, &report);

	if (status)
		return status;
	if (config->lru && config->on_miss == MISS_FILL)
		lru_status = run_lru(config, &replay, &report);
	return load_finish(where->command, &report, lru_status, config->json);
}

static int print_footprint(const struct load_where *where, const struct config *config,
			   const struct trace_data *trace, const char *format)
{
	const struct command *c = where->command;
	const struct trace_footprint *f = &trace->footprint;
	const struct replay_load replay = replay_of(config, trace);
	struct bench_ceiling ceiling;

	if (reference_ceiling(&replay, config->on_miss == MISS_FILL, &ceiling))
		return tool_fail(c, "out of memory for a byte for each id");
	printf("format         %s\nrequests       %" PRIu64 "\nids            %" PRIu64
	       "\nbytes          %" PRIu64 "\nrequest_bytes  %" PRIu64 "\nlargest        %" PRIu64
	       "\nhit_ratio_max  %.6f\n",
	       format ? format : "unknown", f->requests, f->distinct, f->bytes, f->request_bytes,
	       f->size_max, bench_ratio(ceiling.hits, ceiling.gets));
	return fflush(stdout) ? tool_fail(c, "cannot write the footprint") : TOOL_OK;
}

static int run_config(const struct load_where *where, const struct load_table *given,
		      const char *path)
{
	const struct command *c = where->command;
	const struct config *config = given->config;
	struct trace_data trace;
	const char *format = NULL;

	if (config->policy && !tool_policy(c, config->policy))
		return TOOL_ERROR;
	if (load_json_check(c, config->json))
		return TOOL_ERROR;
	int status = load_trace(c, config, path, &trace, &format);

	if (status)
		return status;
	status = config->footprint ? print_footprint(where, config, &trace, format)
				   : replay_trace(where, given, path, &trace, format);
	trace_unload(&trace);
	return status;
}

int load_replay_main(const struct load_where *where, int argc, char **argv)
{
	static const char *const own[] = {"cache-percent", "cache-objects",	"size",
					  "group-objects", "group-objects-max", "object-bytes"};
	struct load_table given;
	struct opts_parsed parsed;
	int status =
	    load_table_parse(&given, where, &table, sizeof(struct config), argc, argv, &parsed);

	if (status >= 0)
		return status;
	status = load_check_own(where->command, &given, &parsed,
				((const struct config *)given.config)->pool, own, ARRAY_COUNT(own));
	if (!status)
		status = run_config(where, &given, parsed.operands[0]);
	load_table_fini(&given);
	return status;
}

static int run(int argc, char **argv)
{
	const struct load_where here = {
	    .command = &command_replay,
	    .typed = "forge replay",
	    .run = load_run_processes,
	};

	return load_replay_main(&here, argc, argv);
}
