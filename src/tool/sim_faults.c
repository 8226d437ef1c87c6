/*
 * sim_faults.c: `forge sim faults`: many small clusters under faults, each judged by the oracles.
 *
 * A trial that fails by an assertion of the cache ends this process; its seed was written down
 * before, so the signal's handler can still say how to repeat it.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "tool/policies.h"
#include "tool/sim.h"
#include "vtime/trial.h"

#define SHRINK_TRIES 200u
#define PROGRESS_NS  500000000u

struct config {
	uint64_t seed, runs, minutes, cns, threads, load_us;
	const char *faults, *kinds, *policy, *trace;
	bool no_shrink;
};

static const struct opt options[] = {
    OPT_U64(struct config, seed, "seed", 's', "1", "NUMBER", 0, 0,
	    "Of the first run; the next ones count on from there."),
    OPT_U64(struct config, runs, "runs", 'n', "100", "runs", 1, 0, "How many runs."),
    OPT_U64(struct config, minutes, "minutes", 0, "0", "minutes", 0, 100000,
	    "Go on for so long instead of a number of runs; 0: --runs counts."),
    OPT_STRING(struct config, faults, "faults", 'f', NULL, "LIST",
	       "This schedule instead of one by the seed, e.g. "
	       "'at=1ms pause cn=0 for=3ms; at=2ms kill cn=1 for=1ms'."),
    OPT_STRING(struct config, kinds, "kinds", 0, NULL, "LIST",
	       "Choose among these kinds of faults only: names with commas."),
    OPT_STRING(struct config, policy, "policy", 0, NULL, "NAME",
	       "The policy of all runs, forge or forge-paper; none: by the seed."),
    OPT_U64(struct config, cns, "cns", 'P', "0", "nodes", 0, 4, "Compute nodes; 0: by the seed."),
    OPT_U64(struct config, threads, "threads", 't', "0", "threads", 0, 4,
	    "Threads of each; 0: by the seed."),
    OPT_DURATION(struct config, load_us, "load", 0, "0us", "TIME", 0, 1000000,
		 "How long the load lasts in virtual time; 0: by the seed."),
    OPT_STRING(struct config, trace, "trace", 0, NULL, "FILE",
	       "Write a line for each operation and fault."),
    OPT_FLAG(struct config, no_shrink, "no-shrink", 0,
	     "Do not look for a shorter schedule when a run fails."),
};

static const struct opts_table table = {
    .command = "forge sim faults",
    .sentence =
	"Run small clusters in virtual time while things go wrong: pauses, slow processors, "
	"late and overtaking completions, lost connections, deaths, restarts of the memory "
	"node, clocks that are wrong.  Each run's history must be linearizable, its pool "
	"in order, and everybody must come to an end.  A seed decides the cluster, the "
	"operations and the faults; a failure is printed with the line that repeats it.  "
	"Exit status: 0, 1 when a run failed, 2 for an error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_sim_faults = {
    "faults", "Let things go wrong in small clusters, and look whether all is well.", run};

static const struct command for_errors = {"sim faults", "", run};

/* For the handler of SIGABRT. */
static char present[128];
static volatile sig_atomic_t interrupted;

static void on_abort(int number)
{
	ssize_t ignored = write(STDERR_FILENO, present, strlen(present));

	(void)ignored;
	signal(number, SIG_DFL);
	raise(number);
}

static void on_interrupt(int number)
{
	interrupted = number;
}

static int parse_kinds(const char *list, uint32_t *bits)
{
	char *copy = strdup(list), *rest;
	int status = copy ? TOOL_OK : TOOL_ERROR;

	*bits = 0;
	for (char *word = copy ? strtok_r(copy, ", ", &rest) : NULL; word && !status;
	     word = strtok_r(NULL, ", ", &rest)) {
		unsigned kind = 0;

		while (kind < FAULT_KINDS && strcmp(fault_kind_name(kind), word) != 0)
			kind++;
		if (kind == FAULT_KINDS)
			status =
			    tool_fail(&for_errors,
				      "--kinds: '%s' is no kind of fault; there are pause, slow, "
				      "delay, cut, kill, leave, restart, wipe and skew",
				      word);
		else
			*bits |= 1u << kind;
	}
	free(copy);
	return status;
}

static void print_repeat(const struct config *config, const struct trial_result *r)
{
	char text[4096];

	schedule_print(&r->schedule, text, sizeof(text));
	printf("to repeat it:\n  forge sim faults --runs 1 --seed %" PRIu64, config->seed);
	if (config->policy)
		printf(" --policy %s", config->policy);
	if (config->cns)
		printf(" --cns %" PRIu64, config->cns);
	if (config->threads)
		printf(" --threads %" PRIu64, config->threads);
	if (config->load_us)
		printf(" --load %" PRIu64 "us", config->load_us);
	printf(" --faults '%s'\n", text);
}

static void print_hits(const struct trial_hits *h)
{
	struct text count;

	printf("\n%10s  hits, and what became of them\n", "");
#define HIT(name, sentence) printf("%10s  %s\n", text_count(&count, (double)h->name), sentence);
	TRIAL_HITS(HIT)
#undef HIT
}

static void print_table(const struct trial_result *sum)
{
	struct text count;

	printf(
	    "\nAn effective one was felt: a thread or verb was held up, a process lost its node.\n"
	    "One away of a memory node counts for each process that was attached to it.\n\n"
	    "%-10s %10s %10s  %s\n",
	    "fault", "injected", "effective", "what it is");
	for (unsigned i = 0; i < FAULT_KINDS; i++)
		printf("%-10s %10" PRIu64 " %10" PRIu64 "  %s\n", fault_kind_name(i),
		       sum->injected[i], sum->effective[i], fault_kind_sentence(i));
	printf("\n%10s %10s %10s %10s  %s\n", "times", "verbs", "most", "most us", "flow");
	for (unsigned i = 0; i < TRIAL_FLOW_COUNT; i++) {
		const struct trial_cost *c = &sum->cost[i];

		printf("%10s %10.1f %10" PRIu64 " %10.1f  %s\n",
		       text_count(&count, (double)c->count),
		       c->count ? (double)c->verbs / (double)c->count : 0, c->verbs_most,
		       (double)c->ns_most / 1000, trial_flow_sentence(i));
	}
}

static void print_sum(const struct config *config, uint64_t runs, uint64_t failures,
		      const struct trial_result *sum, double seconds)
{
	struct text text[6];

	printf("%" PRIu64 " run%s from seed %" PRIu64 ", %" PRIu64 " failed, hash %016" PRIx64 "\n",
	       runs, runs == 1 ? "" : "s", config->seed, failures, sum->hash);
	printf("%s operations, %s verbs in %s virtual ms; %.1f s\n",
	       text_count(&text[0], (double)sum->operations),
	       text_count(&text[1], (double)sum->verbs),
	       text_count(&text[2], (double)sum->virtual_ns / 1e6), seconds);
	printf("%s processes attached, %s were recovered; %s operations found no space\n",
	       text_count(&text[0], (double)sum->processes),
	       text_count(&text[1], (double)sum->nodes_recovered),
	       text_count(&text[2], (double)sum->no_space));
	printf("%s operations never returned (of processes that were killed), %s ended without an "
	       "answer (connections cut, or out of retries)\n",
	       text_count(&text[0], (double)sum->pending),
	       text_count(&text[1], (double)sum->undecided));
	printf("%s groups evicted, %s of them before every node had flushed; %s compacted; "
	       "%s parts of large values\n",
	       text_count(&text[0],
			  (double)(sum->cache.groups_regrouped + sum->cache.groups_requeued)),
	       text_count(&text[1], (double)sum->cache.groups_unflushed),
	       text_count(&text[2], (double)sum->cache.groups_compacted),
	       text_count(&text[3], (double)sum->cache.parts_linked));
	print_table(sum);
	print_hits(&sum->hits);
}

static bool may_go_on(const struct config *config, uint64_t done, uint64_t begun_ns)
{
	if (interrupted)
		return false;
	if (!config->minutes)
		return done < config->runs;
	return clock_now_ns(clock_monotonic()) - begun_ns < config->minutes * 60 * 1000000000u;
}

/* One run; 0, 1 when it failed, 2 when it could not be made, 3 when a signal ended it. */
static int run_one(const struct config *config, struct trial_options *o, struct trial_result *r,
		   uint64_t seed)
{
	struct config one = *config;

	o->seed = one.seed = seed;
	snprintf(present, sizeof(present),
		 "forge sim faults: the run that ended so has --seed %" PRIu64 "\n", seed);
	int status = trial_run(o, r);

	if (!status)
		return 0;
	if (interrupted && status == FORGE_E_AGAIN)
		return 3;
	if (status != FORGE_E_CORRUPT) {
		tool_fail(&for_errors, "seed %" PRIu64 ": %s%s%s", seed, status_sentence(status),
			  r->why[0] ? ": " : "", r->why);
		return 2;
	}
	if (!config->no_shrink)
		trial_shrink(o, r, SHRINK_TRIES);
	printf("seed %" PRIu64 " failed: %s\n%s\n", seed, r->shape, r->why);
	print_repeat(&one, r);
	fflush(stdout);
	return 1;
}

static int run_all(const struct config *config, struct trial_options *o)
{
	struct trial_result *sum = calloc(2, sizeof(*sum)), *r = sum ? sum + 1 : NULL;
	uint64_t begun_ns = clock_now_ns(clock_monotonic()), printed_ns = begun_ns, runs = 0;
	uint64_t failures = 0;
	int status = sum ? 0 : 2;

	while (status < 2 && may_go_on(config, runs, begun_ns)) {
		status = run_one(config, o, r, config->seed + runs);
		if (status > 1)
			break;
		failures += status == 1;
		runs++;
		trial_result_add(sum, r);
		uint64_t now_ns = clock_now_ns(clock_monotonic());

		if (isatty(STDERR_FILENO) && now_ns - printed_ns > PROGRESS_NS) {
			fprintf(stderr, "\r%" PRIu64 " run%s, %" PRIu64 " failed ", runs,
				runs == 1 ? "" : "s", failures);
			printed_ns = now_ns;
		}
	}
	if (status != 2)
		print_sum(config, runs, failures, sum,
			  (double)(clock_now_ns(clock_monotonic()) - begun_ns) / 1e9);
	free(sum);
	if (interrupted && status != 2 && !failures)
		return tool_fail(&for_errors, "stopped by a signal");
	return status == 2 ? TOOL_ERROR : failures ? TOOL_NO : TOOL_OK;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct schedule schedule;
	char error_text[512];
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	struct trial_options o = {
	    .policy = config.policy,
	    .cns = (uint32_t)config.cns,
	    .threads = (uint32_t)config.threads,
	    .load_ns = config.load_us * 1000,
	    .stop = &interrupted,
	};

	if (config.policy && !tool_policy(&for_errors, config.policy))
		return TOOL_ERROR;
	if (config.kinds && parse_kinds(config.kinds, &o.kinds))
		return TOOL_ERROR;
	if (config.faults) {
		if (schedule_parse(&schedule, config.faults, error_text, sizeof(error_text)))
			return tool_fail(&for_errors, "--faults: %s", error_text);
		o.schedule = &schedule;
	}
	if (config.trace && !(o.trace = fopen(config.trace, "w")))
		return tool_fail(&for_errors, "--trace=%s: %s", config.trace, strerror(errno));
	signal(SIGABRT, on_abort);
	signal(SIGINT, on_interrupt);
	signal(SIGTERM, on_interrupt);
	status = run_all(&config, &o);
	if (o.trace && fclose(o.trace))
		return tool_fail(&for_errors, "--trace=%s: %s", config.trace, strerror(errno));
	return status;
}
