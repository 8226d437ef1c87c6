/* bench.c: `forge bench`: a synthetic load on a pool. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load_options.h"

struct config {
	const char *pool, *workload, *policy, *json;
	uint64_t keys, value_bytes, size, group_objects, group_objects_max, open_groups;
	uint64_t dead_percent;
	double cache_percent;
	uint64_t threads, processes, operations, seconds, warmup_seconds, seed;
	double warmup, rate;
	uint64_t poll_interval, miss_penalty;
	unsigned on_miss;
	bool preload, verify, stress, progress, lru, count_verbs;
	const char *key_file;
};

static const struct opt options[] = {
    LOAD_POOL_OPTION(struct config),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_STRING(struct config, workload, "workload", 'w', "ycsb-b", "LOAD",
	       "ycsb-a to ycsb-f, uniform, zipf:THETA, scan, hotspot, cachelib:PREFIX, each with "
	       "options after ':' or ','; forge(1) lists them."),
    OPT_U64(struct config, keys, "keys", 'k', "1000000", "keys", 0, 0,
	    "Keys that exist at the start; 0: as the workload says."),
    OPT_U64(struct config, value_bytes, "value-bytes", 0, "256", "bytes", 0, 1 << 20,
	    "Size of every value; 0: as the workload says."),
    OPT_DOUBLE(struct config, cache_percent, "cache-percent", 'c', "10", "%", 0, 10000,
	       "Size of a pool made for the run: its groups hold that share of the keys."),
    LOAD_PLAN_OPTIONS(struct config),
    LOAD_POLICY_OPTIONS(struct config),
    OPT_U64(struct config, processes, "processes", 'P', "1", "processes", 1, 256,
	    "Processes; each is a compute node."),
    OPT_U64(struct config, operations, "ops", 'n', "1000000", "operations", 1, 0,
	    "Measured operations of all workers together."),
    OPT_DURATION(struct config, seconds, "seconds", 0, "0", "TIME", 0, LOAD_TIME_MAX_US,
		 "Measure for so long, in place of --ops."),
    OPT_DOUBLE(struct config, warmup, "warmup", 0, "20", "%", 0, 10000,
	       "Operations before, not measured, as a share of --ops."),
    OPT_DURATION(struct config, warmup_seconds, "warmup-seconds", 0, "0", "TIME", 0,
		 LOAD_TIME_MAX_US, "Warm up for so long, in place of --warmup."),
    OPT_FLAG(struct config, preload, "preload", 0, "Store every key once before the warm-up."),
    OPT_CHOICE(struct config, on_miss, "on-miss", 0, "fill", "fill|ignore",
	       "What follows a Get that misses; the Set that fills is no operation of its own."),
    LOAD_PACE_OPTIONS(struct config),
    OPT_FLAG(struct config, stress, "stress", 0,
	     "Verify, and see to it that no value is older than what was acknowledged: all but "
	     "every eighth key have one writer, whose versions are counted."),
    OPT_FLAG(struct config, lru, "lru", 0,
	     "Print what exact LRU of the same capacity hits, on the same operations."),
    OPT_U64(struct config, seed, "seed", 0, "1", "NUMBER", 0, 0,
	    "Seed of all draws: the same number, the same draws."),
    LOAD_REPORT_OPTIONS(struct config),
};

static const struct opts_table table = {
    .sentence =
	"Run a synthetic load and print throughput, latencies, hit ratio and verbs by purpose.  "
	"Exit status: 0 done, 1 a wrong value or a worker that failed, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_bench = {
    "bench", "Run a synthetic load: YCSB, zipf, uniform, scan, hotspot.", run};

/* The workload's text with --keys and --value-bytes in it; what the text names itself stays. */
static int parse_workload(const struct command *c, const struct config *config,
			  struct workload_spec *spec, char *text, size_t text_bytes)
{
	struct load_error error = {0};
	bool options_follow = strchr(config->workload, ':') != NULL;
	int n = snprintf(text, text_bytes, "%s", config->workload);

	if (config->keys && !strstr(config->workload, "keys=") && n < (int)text_bytes) {
		n += snprintf(text + n, text_bytes - (size_t)n, "%ckeys=%llu",
			      options_follow ? ',' : ':', (unsigned long long)config->keys);
		options_follow = true;
	}
	if (config->value_bytes && !strstr(config->workload, "sizes=") &&
	    !strstr(config->workload, "cachelib:") && n < (int)text_bytes)
		n += snprintf(text + n, text_bytes - (size_t)n, "%csizes=%llu",
			      options_follow ? ',' : ':', (unsigned long long)config->value_bytes);
	if (n >= (int)text_bytes)
		return tool_fail(c, "--workload is longer than %zu letters", text_bytes - 1);
	if (workload_parse(spec, text, &error))
		return tool_fail(c, "--workload=%s: %s", config->workload, error.text);
	return 0;
}

static double objects_for(const struct config *config, const struct workload_spec *spec)
{
	return (double)spec->key_count * config->cache_percent / 100;
}

static uint32_t chunks_for(const struct config *config, const struct workload_spec *spec)
{
	double chunks = objects_for(config, spec) / (double)config->group_objects;

	return chunks < 2			 ? 2
	       : chunks > LAYOUT_CHUNK_COUNT_MAX ? LAYOUT_CHUNK_COUNT_MAX
						 : (uint32_t)chunks;
}

static uint64_t warm_up_operations(const struct config *c)
{
	double operations = (double)c->operations * c->warmup / 100;

	return operations < 0x1p63 ? (uint64_t)operations : UINT64_MAX;
}

static void fill_setup(const struct config *c, struct bench_setup *setup)
{
	*setup = (struct bench_setup){
	    .processes = (uint32_t)c->processes,
	    .threads = (uint32_t)c->threads,
	    .warm_up = {.operations = c->warmup_seconds ? 0 : warm_up_operations(c),
			.ns = c->warmup_seconds * 1000},
	    .measured = {.operations = c->seconds ? 0 : c->operations, .ns = c->seconds * 1000},
	    .on_miss = c->on_miss == 0 ? BENCH_MISS_FILL : BENCH_MISS_IGNORE,
	    .rate = c->rate,
	    .miss_penalty_us = c->miss_penalty,
	    .poll_interval_us = (uint32_t)c->poll_interval,
	    .open_groups = (uint32_t)c->open_groups,
	    .dead_percent = (uint32_t)c->dead_percent,
	    .seed = c->seed,
	    .preload = c->preload,
	    .verify = c->verify,
	    .stress = c->stress,
	    .no_verb_counts = !c->count_verbs,
	    .progress = load_progress(c->progress),
	};
}

static int run_lru(const struct config *config, const struct workload_spec *spec,
		   const struct bench_setup *setup, struct bench_report *report)
{
	struct bench_space space = bench_space_of(report->result);
	struct reference_draws draws = {
	    .seed = config->seed,
	    .workers = report->result->workers,
	    .warm_up = setup->warm_up.operations,
	    .measured = report->result->tally.operations,
	};
	struct refcache_limit limit = {.objects = space.objects};

	if (workload_median_value_bytes(spec)) {
		/* Sizes differ: as many bytes as the chunks have, and no waste at all. */
		limit = (struct refcache_limit){.bytes = space.chunk_bytes};
		report->lru.as_stored = true;
		report->lru.stored_bytes_max = report->result->plan.chunk_bytes;
	}

	return reference_of_workload(spec, &draws, limit, &report->lru);
}

static int run_load(const struct load_where *where, const struct load_table *given,
		    const struct workload_spec *spec, struct bench_report *report)
{
	const struct config *config = given->config;
	uint32_t median = workload_median_value_bytes(spec);

	tool_use_key_file(config->key_file);
	struct load_pool pool = {
	    .name = config->pool,
	    .policy = config->policy,
	    .wish = {.pool_bytes = config->size,
		     .chunk_count = config->size ? 0 : chunks_for(config, spec),
		     .object_bytes = (uint32_t)(20 + workload_mean_value_bytes(spec)),
		     .object_bytes_median = median ? 20 + median : 0,
		     .group_objects = (uint32_t)config->group_objects,
		     .group_objects_max = (uint32_t)config->group_objects_max},
	};
	struct bench_setup setup;
	struct bench_load load;
	int lru_status = 0;

	fill_setup(config, &setup);
	if (!load_pool_is_named(&pool) && !config->size)
		report->wished_objects = (uint64_t)ceil(objects_for(config, spec));
	load_of_workload(&load, spec);
	int status = where->run(where, given->more, &pool, &setup, &load, report);

	if (status)
		return status;
	if (config->lru)
		lru_status = run_lru(config, spec, &setup, report);
	return load_finish(where->command, report, lru_status, config->json);
}

static int check_config(const struct command *c, const struct config *config)
{
	if (config->policy && !tool_policy(c, config->policy))
		return TOOL_ERROR;
	if (config->lru && config->on_miss != 0)
		return tool_fail(c, "--lru needs --on-miss=fill: LRU fills its misses");
	return load_json_check(c, config->json);
}

int load_bench_main(const struct load_where *where, int argc, char **argv)
{
	static const char *const own[] = {"cache-percent", "size", "group-objects",
					  "group-objects-max"};
	struct load_table given;
	struct opts_parsed parsed;
	struct workload_spec spec;
	char text[WORKLOAD_NAME_MAX];
	int status =
	    load_table_parse(&given, where, &table, sizeof(struct config), argc, argv, &parsed);

	if (status >= 0)
		return status;
	status = check_config(where->command, given.config);
	if (!status)
		status = load_check_own(where->command, &given, &parsed,
					((const struct config *)given.config)->pool, own,
					ARRAY_COUNT(own));
	if (!status)
		status = parse_workload(where->command, given.config, &spec, text, sizeof(text));
	if (!status) {
		struct bench_report report = {
		    .program = "bench",
		    .load = text,
		    .options = &given.table,
		    .config = given.config,
		};

		status = run_load(where, &given, &spec, &report);
		workload_spec_free(&spec);
	}
	load_table_fini(&given);
	return status;
}

static int run(int argc, char **argv)
{
	const struct load_where here = {
	    .command = &command_bench,
	    .typed = "forge bench",
	    .run = load_run_processes,
	};

	return load_bench_main(&here, argc, argv);
}
