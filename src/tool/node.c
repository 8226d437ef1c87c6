/*
 * node.c: `forge node`: the memory node daemon.
 *
 * It runs in the foreground and holds the pool until a signal ends it.  Meanwhile it looks for
 * compute nodes that died, and takes back what they held.
 */
#include "node/node.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/opts.h"
#include "base/text.h"
#include "fabric/shm.h"
#include "node/serve.h"
#include "tool/command.h"
#include "tool/names.h"
#include "tool/node_listen.h"
#include "tool/policies.h"

/*
 * How often the node looks for dead compute nodes.  A look at 85 that live is 85 times open and
 * ask for a lock, measured as 0.4 ms; so it takes at most 4 per mille of one processor.
 */
#define LOOK_MS 100

/* Looks between two sweeps of the parts of large objects: every 5 s, three READs for each object.
 */
#define LOOKS_PER_SWEEP 50u

#define DRAIN_MAX_US (UINT64_C(365) * 24 * 3600 * 1000000)

struct config {
	const char *pool;
	uint64_t size;
	const char *policy;
	uint64_t object_bytes, object_bytes_median, group_objects, group_objects_max, cn_max;
	uint64_t value_max;
	double slots_per_object;
	bool plan, force, keep;
	unsigned on_damage;
	uint64_t drain_us;
	struct listen_config listen;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: shm:/name for POSIX shared memory, or the path of a file to be mapped."),
    OPT_BYTES(struct config, size, "size", 's', NULL, "SIZE", 0, 0,
	      "How much memory the pool may take; needed to create one."),
    OPT_STRING(struct config, policy, "policy", 0, "forge", "NAME",
	       "The policy that compute nodes follow unless told otherwise: forge or forge-paper."),
    OPT_BYTES(struct config, object_bytes, "object-bytes", 0, "272", "SIZE", 1, UINT32_MAX,
	      "Mean size of key and value together; larger and smaller objects fit too."),
    OPT_BYTES(struct config, object_bytes_median, "object-bytes-median", 0, "0", "SIZE", 0,
	      UINT32_MAX,
	      "Half of the objects are smaller; it decides how many a group may have if they "
	      "happen to be small.  0: the mean."),
    OPT_U64(struct config, group_objects, "group-objects", 0, "64", "objects", 2,
	    LAYOUT_GROUP_OBJECTS_MAX,
	    "How many objects of mean size make a group, and fill a chunk."),
    OPT_U64(struct config, group_objects_max, "group-objects-max", 0, "0", "objects", 0,
	    LAYOUT_GROUP_OBJECTS_MAX,
	    "How many objects a group may have, in place of --object-bytes-median."),
    OPT_BYTES(
	struct config, value_max, "value-max", 0, NULL, "SIZE", 1, PLAN_VALUE_BYTES_LIMIT,
	"The largest value.  Without it 1M, or less in a pool too small for four of them; what "
	"fits in a chunk is always taken."),
    OPT_U64(struct config, cn_max, "cn-max", 0, "0", "nodes", 0, LAYOUT_CN_MAX,
	    "How many compute nodes may attach at once; 0: 32, or fewer in a small pool."),
    OPT_DOUBLE(struct config, slots_per_object, "slots-per-object", 0, "0", "slots", 0, 16,
	       "How large the index is, in slots for each object; slots that are not in use "
	       "remember evicted keys.  0: what "
	       "the policy needs."),
    OPT_FLAG(struct config, plan, "plan", 0, "Print the plan of such a pool, and create nothing."),
    OPT_FLAG(struct config, force, "force", 0,
	     "Replace a pool of that name, with all that is cached in it."),
    OPT_CHOICE(struct config, on_damage, "on-damage", 0, "refuse", "refuse|empty|repair",
	       "What to do with a pool that cannot be served as it is: end and say why; start "
	       "empty; or take out what is damaged, and start empty if that cannot be told."),
    OPT_DURATION(
	struct config, drain_us, "drain", 0, "0", "TIME", 0, DRAIN_MAX_US,
	"How long to wait at the end for compute nodes to leave; a second signal ends at once."),
    OPT_FLAG(struct config, keep, "keep", 0,
	     "Leave the pool in memory at the end, for the next node to serve warm."),
    NODE_LISTEN_OPTIONS,
};

static const struct opts_table table = {
    .command = "forge node",
    .sentence =
	"Serve a pool of memory until SIGTERM or SIGINT, which remove it unless --keep is "
	"given; a second signal ends at once.  A pool that is there is served warm, if "
	"--size and the other options of the plan are left out or are what it was made "
	"with.  Prints a line 'listens ADDRESS' for each of --listen, and one that begins with "
	"'ready' when compute nodes may attach.  "
	"While it serves it takes back what compute nodes held that died, and logs a line.  "
	"Exit status: 0 ended by a signal, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static const char *const plan_options[] = {
    "size",
    "policy",
    "object-bytes",
    "object-bytes-median",
    "group-objects",
    "group-objects-max",
    "value-max",
    "cn-max",
    "slots-per-object",
};

static int run(int argc, char **argv);

const struct command command_node = {
    "node", "Serve a pool of memory: create it, or take over one that is there.", run};

/* What is for who connects, and says nothing without --listen. */
static const char *const listen_options[] = {
    "threads",	"connections-max", "spin",   "client-timeout", "key-file",
    "tls-cert", "tls-key",	   "tls-ca", "strangers-max",  "insecure",
};

/* ---- signals ------------------------------------------------------------------------------ */

static volatile sig_atomic_t stop_signal, reload_signal;
static bool reloads; /* SIGHUP does not end, but reads keys anew */

static void on_signal(int number)
{
	if (number == SIGHUP && reloads) {
		reload_signal = 1;
		return;
	}
	if (stop_signal)
		_exit(128 + number);
	stop_signal = number;
}

static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP};

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigemptyset(&action.sa_mask);
	for (unsigned i = 0; i < ARRAY_COUNT(stop_signals); i++)
		sigaction(stop_signals[i], &action, NULL);
}

/*
 * Wait for a signal, or until it is time to look.  Blocked while stop_signal is looked at, let in
 * while waiting: none can slip through between.
 */
static void wait_for_signal(const struct timespec *patience)
{
	sigset_t block, before;

	sigemptyset(&block);
	for (unsigned i = 0; i < ARRAY_COUNT(stop_signals); i++)
		sigaddset(&block, stop_signals[i]);
	sigprocmask(SIG_BLOCK, &block, &before);
	if (!stop_signal && !reload_signal)
		ppoll(NULL, 0, patience, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* ---- the wish ----------------------------------------------------------------------------- */

static int make_wish(const struct config *config, const struct opts_parsed *parsed,
		     struct node_wish *out)
{
	const struct policy *policy = tool_policy(&command_node, config->policy);
	bool size_given = opts_given(&table, parsed, "size");
	const char *given = NULL;

	if (!policy || tool_own_name(&command_node, config->pool))
		return TOOL_ERROR;
	for (unsigned i = 0; i < ARRAY_COUNT(plan_options); i++)
		if (opts_given(&table, parsed, plan_options[i]))
			given = plan_options[i];
	if (!size_given && (given || config->plan || config->force))
		return tool_fail(&command_node, "--%s needs --size: give the size of the pool too",
				 given		? given
				 : config->plan ? "plan"
						: "force");
	/* Sizes nobody said more about: a group may have 192 objects where 64 are expected. */
	uint64_t median =
	    config->object_bytes_median ? config->object_bytes_median : config->object_bytes;

	*out = (struct node_wish){
	    .where = config->pool,
	    .plan = {.pool_bytes = config->size,
		     .object_bytes = (uint32_t)config->object_bytes,
		     .object_bytes_median = (uint32_t)median,
		     /* Left out, a group is what fills a chunk that large values made wider. */
		     .group_objects = opts_given(&table, parsed, "group-objects")
					  ? (uint32_t)config->group_objects
					  : 0,
		     .value_bytes_max = (uint32_t)config->value_max,
		     .group_objects_max = (uint32_t)config->group_objects_max,
		     .slot_words = policy->slot_words,
		     .cn_max = (uint32_t)config->cn_max,
		     .slots_per_object = config->slots_per_object,
		     .policy = policy->name},
	    .plan_given = size_given,
	    .force = config->force,
	    .on_damage = (enum node_on_damage)config->on_damage,
	};
	return 0;
}

static int print_plan(const struct node_wish *wish)
{
	struct plan plan;
	char text[2048];

	if (plan_make(&wish->plan, &plan, text, sizeof(text)))
		return tool_fail(&command_node, "%s", text);
	plan_print(&plan, text, sizeof(text));
	fputs(text, stdout);
	return TOOL_OK;
}

/* ---- serving ------------------------------------------------------------------------------ */

static void print_ready(const struct node *node, const char *name)
{
	const struct pool *pool = node_pool(node);
	struct text bytes, objects;

	printf("ready %s id %016" PRIx64 " epoch %" PRIu64 " %s: %s, %s objects of %u bytes\n",
	       name, pool->pool_id, pool->epoch, node_is_warm(node) ? "warm" : "new",
	       text_bytes(&bytes, pool->plan.pool_bytes),
	       text_grouped(&objects, plan_capacity_objects(&pool->plan)), pool->plan.object_bytes);
	fflush(stdout);
}

typedef int (*recover_fn)(struct node *, struct recover_report *, uint32_t *dead_count);

/* One line for each time that something was taken back.  0, or what went wrong. */
static int recover(struct node *node, const char *name, recover_fn how)
{
	struct recover_report report;
	uint32_t dead_count;
	uint64_t start_ns = clock_now_ns(clock_monotonic());
	int status = how(node, &report, &dead_count);
	struct text took;
	char done[512];

	if (!dead_count && !recover_report_sum(&report))
		return status;
	recover_report_print(&report, done, sizeof(done));
	log_warn("%s: %u compute node%s ended without leaving; taken back in %s: %s", name,
		 dead_count, dead_count == 1 ? "" : "s",
		 text_duration(&took, clock_now_ns(clock_monotonic()) - start_ns), done);
	return status;
}

static void fail_recovery(const char *name, int status)
{
	log_error("%s: looking for dead compute nodes: %s (%s); what they held stays reserved "
		  "until 'forge check --repair'",
		  name, status_sentence(status), status_name(status));
}

/* Until a signal comes.  A failure is told when it begins, not ten times a second. */
static void serve(struct node *node, struct node_listen *l, const char *name)
{
	static const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
	uint64_t freed;
	int before = 0;

	for (uint64_t looks = 1; !stop_signal; looks++) {
		wait_for_signal(&look);
		if (reload_signal) {
			reload_signal = 0;
			node_listen_reload(l, name);
		}
		int status = recover(node, name, node_recover);

		if (!status && looks % LOOKS_PER_SWEEP == 0)
			status = node_sweep_parts(node, &freed);

		if (!status)
			status = node_stamp_time(node);
		if (status && status != before)
			fail_recovery(name, status);
		before = status;
	}
}

/*
 * After the first signal, which has become none: a second one ends the process where it stands, by
 * on_signal(), since stop_signal stays set.  Until then what the dead held is taken back as before.
 */
static void drain(struct node *node, const char *name, uint64_t drain_us)
{
	static const struct timespec look = {.tv_nsec = LOOK_MS * 1000000L};
	const struct clock *clock = clock_monotonic();
	uint64_t end_ns = clock_now_ns(clock) + 1000 * drain_us;
	uint32_t count = node_attached_count(node);

	if (count && drain_us)
		log_info("%s: waiting for %u compute node%s to leave", name, count,
			 count == 1 ? "" : "s");
	while (count && clock_now_ns(clock) < end_ns) {
		ppoll(NULL, 0, &look, NULL);
		recover(node, name, node_recover);
		count = node_attached_count(node);
	}
}

static void warn_attached(struct node *node, const char *name)
{
	uint32_t count = node_attached_count(node);

	if (count)
		log_warn("%s: %u compute node%s still attached; the memory is kept until %s", name,
			 count, count == 1 ? " is" : "s are", count == 1 ? "it ends" : "they end");
}

/* From what was there to a pool that is in order.  0, or the exit status. */
static int settle(struct node *node, const struct config *config, const struct node_wish *wish)
{
	char text[1024];
	int status = node_settle(node, wish, text, sizeof(text));

	if (status)
		return tool_fail(&command_node, "%s", text);
	if (node_story(node)[0])
		log_warn("%s", node_story(node));
	status = node_is_warm(node) ? recover(node, config->pool, node_repair) : 0;
	if (status)
		fail_recovery(config->pool, status);
	status = node_ready(node);
	return status ? tool_fail(&command_node, "%s: %s", config->pool, status_sentence(status))
		      : TOOL_OK;
}

/* Serve until a signal, and for --drain after that.  The exit status. */
static int serve_all(struct node *node, struct node_listen *l, const struct config *config)
{
	int status = l->server ? node_server_start(l->server, node) : 0;

	if (status)
		return tool_fail(&command_node, "%s: starting the threads of --listen: %s",
				 config->pool, status_sentence(status));
	if (!stop_signal) {
		node_listen_print(l);
		print_ready(node, config->pool);
	}
	serve(node, l, config->pool);
	drain(node, config->pool, config->drain_us);
	return TOOL_OK;
}

/* The environment may be for clients, too: what is only there is no contradiction. */
static int check_listen_options(const struct config *config, const struct opts_parsed *parsed)
{
	for (unsigned i = 0; i < table.option_count && !config->listen.list; i++)
		for (unsigned j = 0; j < ARRAY_COUNT(listen_options); j++)
			if (strcmp(options[i].name, listen_options[j]) == 0 &&
			    (parsed->origin[i] == OPTS_FILE ||
			     parsed->origin[i] == OPTS_COMMAND_LINE))
				return tool_fail(
				    &command_node,
				    "--%s is for who connects to --listen: add that, or "
				    "leave it out",
				    options[i].name);
	return TOOL_OK;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct node_wish wish;
	struct node_listen l;
	struct node *node;
	char text[1024];
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	status = make_wish(&config, &parsed, &wish);
	if (status)
		return status;
	if (config.plan)
		return print_plan(&wish);
	status = check_listen_options(&config, &parsed);
	if (status)
		return status;
	reloads = node_listen_reloads(&config.listen);
	catch_signals();
	shm_stop_by(&stop_signal);
	status = node_listen_open(&config.listen, &l);
	if (status)
		return status;
	if (node_open(&wish, &node, text, sizeof(text))) {
		node_listen_close(&l);
		if (!stop_signal)
			return tool_fail(&command_node, "%s", text);
		log_warn("%s", text);
		return TOOL_OK;
	}
	status = settle(node, &config, &wish);
	if (!status)
		status = serve_all(node, &l, &config);
	/* Nobody's verbs land from here on, and only who maps the pool itself is still attached. */
	node_listen_close(&l);
	if (status) {
		node_close(node, true, text, sizeof(text));
		return status;
	}
	if (!config.keep)
		warn_attached(node, config.pool);
	if (node_close(node, config.keep, text, sizeof(text)))
		return tool_fail(&command_node, "%s", text);
	return TOOL_OK;
}
