/* sim_load.c: `forge sim bench` and `forge sim replay`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "tool/load_options.h"
#include "tool/sim.h"

struct config {
	uint64_t cns, threads, nodes, cores, pause_us, pause_every_us;
	const char *profile, *trace;
	bool free_housekeeping, tax, host_memory, check;
};

static const struct opt options[] = {
    OPT_U64(struct config, cns, "cns", 'P', "3", "nodes", 1, LAYOUT_CN_MAX,
	    "Compute nodes; each is a machine with a card of its own."),
    OPT_U64(struct config, threads, "threads", 't', "16", "threads", 1, CN_WORKERS_MAX,
	    "Threads of each compute node."),
    OPT_U64(struct config, nodes, "nodes", 0, "1", "nodes", 1, 64,
	    "Memory nodes; keys are dealt to them by their hash."),
    OPT_U64(struct config, cores, "cores", 0, "0", "processors", 0, 1024,
	    "Processors of a compute node, which its threads share; 0: one for each thread."),
    OPT_STRING(struct config, profile, "profile", 0, "cx5", "NAME",
	       "What network and processors cost; 'forge sim profiles' lists them."),
    OPT_DURATION(struct config, pause_us, "pause", 0, "0us", "TIME", 0, 10000000,
		 "Compute nodes stand still for so long, in turn; 0: none does."),
    OPT_DURATION(struct config, pause_every_us, "pause-every", 0, "10ms", "TIME", 1, 1000000000,
		 "Each does so once in this time."),
    OPT_FLAG(struct config, host_memory, "host-memory", 0,
	     "Hot words are in host memory, though the card has memory for them."),
    OPT_FLAG(struct config, free_housekeeping, "free-housekeeping", 0,
	     "Verbs for hotness, eviction, compaction and space cost nothing."),
    OPT_FLAG(struct config, tax, "tax", 0,
	     "Measure again after the same warm-up with housekeeping free, in all and one purpose "
	     "at a time, and print the ratios of the throughputs."),
    OPT_FLAG(struct config, check, "check", 0,
	     "Check the pools in the end, as forge check does; a finding ends the run."),
    OPT_STRING(struct config, trace, "trace", 0, NULL, "FILE",
	       "Write a line for every verb: microseconds, thread and node, purpose, verb, "
	       "address, result."),
};

/* What has no meaning where nothing is a process and nothing lasts. */
static const char *const without[] = {"pool",	     "key-file", "processes", "threads",
				      "count-verbs", "stress",	 NULL};

static int run_sim(const struct load_where *, void *more, struct load_pool *, struct bench_setup *,
		   const struct bench_load *, struct bench_report *);
static int run_bench(int argc, char **argv);
static int run_replay(int argc, char **argv);

const struct command command_sim_bench = {
    "bench", "Run a synthetic load, as forge bench does, in virtual time.", run_bench};
const struct command command_sim_replay = {
    "replay", "Replay a recorded trace, as forge replay does, in virtual time.", run_replay};

static const struct command for_errors_bench = {"sim bench", "", run_bench};
static const struct command for_errors_replay = {"sim replay", "", run_replay};

static int run_bench(int argc, char **argv)
{
	const struct load_where here = {
	    .command = &for_errors_bench,
	    .typed = "forge sim bench",
	    .more = options,
	    .more_count = ARRAY_COUNT(options),
	    .more_bytes = sizeof(struct config),
	    .without = without,
	    .run = run_sim,
	};

	return load_bench_main(&here, argc, argv);
}

static int run_replay(int argc, char **argv)
{
	const struct load_where here = {
	    .command = &for_errors_replay,
	    .typed = "forge sim replay",
	    .more = options,
	    .more_count = ARRAY_COUNT(options),
	    .more_bytes = sizeof(struct config),
	    .without = without,
	    .run = run_sim,
	};

	return load_replay_main(&here, argc, argv);
}

static const struct vt_profile *find_profile(const struct command *c, const char *name)
{
	const struct vt_profile *p = vt_profile_find(name);
	const char *known[32];
	unsigned n = 0;

	if (p)
		return p;
	for (; n < ARRAY_COUNT(known) && (p = vt_profile_at(n)); n++)
		known[n] = p->name;
	const char *nearest = opts_nearest(name, known, n, sizeof(known[0]));

	tool_fail(c, "--profile=%s: there is no such profile%s%s%s", name,
		  nearest ? ", did you mean " : "; 'forge sim profiles' lists them",
		  nearest ? nearest : "", nearest ? "?" : "");
	return NULL;
}

/* Everybody's pool: the wish, divided among the memory nodes. */
static int make_plan(const struct command *c, const struct config *config, struct load_pool *pool,
		     struct plan *plan)
{
	const struct policy *policy = tool_policy(c, pool->policy ? pool->policy : "forge");
	char text[512];

	if (!policy)
		return TOOL_ERROR;
	pool->wish.policy = policy->name;
	pool->wish.slot_words = policy->slot_words;
	pool->wish.cn_max = config->cns > 1 ? (uint32_t)config->cns : 2;
	pool->wish.pool_bytes /= config->nodes;
	if (pool->wish.chunk_count)
		pool->wish.chunk_count =
		    (uint32_t)max_u64(2, pool->wish.chunk_count / config->nodes);
	return plan_make(&pool->wish, plan, text, sizeof(text)) ? tool_fail(c, "%s", text) : 0;
}

#define POINTS (2 + SIM_TAX_PURPOSES)

struct outcome {
	struct bench_result results[POINTS];
	struct vt_report reports[POINTS];
};

const enum fab_purpose sim_tax_purposes[SIM_TAX_PURPOSES] = {FAB_HOTNESS, FAB_EVICTION,
							     FAB_COMPACTION, FAB_SPACE};

static void add_tax_points(struct vt_setup *setup)
{
	struct vt_point *p = &setup->points[1];

	*p++ = (struct vt_point){setup->points[0].profile, VT_HOUSEKEEPING};
	for (unsigned i = 0; i < SIM_TAX_PURPOSES; i++)
		*p++ = (struct vt_point){setup->points[0].profile, 1u << sim_tax_purposes[i]};
	setup->point_count = POINTS;
}

static double throughput(const struct bench_result *r)
{
	return r->seconds > 0 ? (double)r->tally.operations / r->seconds : 0;
}

static void fill_tax(struct sim_tax *tax, const struct outcome *o)
{
	tax->measured = true;
	tax->paid = throughput(&o->results[0]);
	tax->all_free = throughput(&o->results[1]);
	for (unsigned i = 0; i < SIM_TAX_PURPOSES; i++)
		tax->one_free[i] = throughput(&o->results[2 + i]);
}

/* What bench and replay say of themselves: 1 is about values and workers, all else an error. */
static int exit_status(int status)
{
	return status == FORGE_E_NO_MEMORY || status == FORGE_E_INVAL || status == FORGE_E_SYSTEM
		   ? TOOL_ERROR
		   : TOOL_NO;
}

static int run_world(const struct command *c, const struct vt_setup *setup,
		     const struct bench_load *load, struct bench_report *report)
{
	/* Until the page is printed, which is before the program ends. */
	static struct sim_page page;
	struct outcome *o = calloc(1, sizeof(*o));
	struct bench_result *result = malloc(sizeof(*result));
	char text[1024];
	int status = o && result ? vt_run(setup, load, o->results, o->reports, text, sizeof(text))
				 : FORGE_E_NO_MEMORY;

	if (status) {
		tool_fail(c, "%s", o && result ? text : status_sentence(status));
		free(result);
		free(o);
		return exit_status(status);
	}
	*result = o->results[0];
	page = (struct sim_page){.profile = setup->points[0].profile, .report = o->reports[0]};
	if (setup->point_count > 1)
		fill_tax(&page.tax, o);
	sim_page_make(&page);
	free(o);
	report->result = result;
	report->aside = &page.aside;
	report->virtual_time = true;
	return 0;
}

/* Said before the run: its length in host time is what comes of it. */
static void warn_of_crowd(const struct command *c, const struct config *config,
			  const struct plan *plan)
{
	uint64_t threads = config->cns * config->threads;

	if (threads > plan->chunk_count)
		fprintf(stderr,
			"forge %s: warning: %" PRIu64
			" threads share %u chunks: who finds none looks for one up to %" PRIu64
			" times, which takes long to simulate; a larger pool does not\n",
			c->name, threads, plan->chunk_count, cache_reserve_tries(plan));
}

static int run_sim(const struct load_where *where, void *more, struct load_pool *pool,
		   struct bench_setup *bench, const struct bench_load *load,
		   struct bench_report *report)
{
	const struct config *config = more;
	const struct command *c = where->command;
	const struct vt_profile *profile = find_profile(c, config->profile);
	struct plan plan;

	if (!profile)
		return TOOL_ERROR;
	if (config->tax && config->free_housekeeping)
		return tool_fail(c, "--tax and --free-housekeeping: give one of them");
	if (config->tax && config->trace)
		return tool_fail(c, "--tax and --trace: give one of them");
	int status = make_plan(c, config, pool, &plan);

	if (status)
		return status;
	warn_of_crowd(c, config, &plan);
	bench->processes = (uint32_t)config->cns;
	bench->threads = (uint32_t)config->threads;
	bench->policy = pool->policy;
	struct vt_setup setup = {
	    .bench = bench,
	    .plan = &plan,
	    .nodes = (uint32_t)config->nodes,
	    .cores = (uint32_t)config->cores,
	    .host_memory = config->host_memory,
	    .check = config->check,
	    .pause_ns = config->pause_us * 1000,
	    .pause_every_ns = config->pause_every_us * 1000,
	    .points = {{profile, config->free_housekeeping ? VT_HOUSEKEEPING : 0}},
	    .point_count = 1,
	};

	if (config->tax)
		add_tax_points(&setup);

	if (config->trace && !(setup.trace = fopen(config->trace, "w")))
		return tool_fail(c, "--trace=%s: %s", config->trace, strerror(errno));
	status = run_world(c, &setup, load, report);
	if (setup.trace && fclose(setup.trace)) {
		tool_fail(c, "--trace=%s: %s", config->trace, strerror(errno));
		return TOOL_ERROR;
	}
	return status;
}
