/* stat.c: `forge stat`: what is in a pool and who is attached, as a page or as JSON. */
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "base/opts.h"
#include "pool/registry.h"
#include "pool/time.h"
#include "tool/at_once.h"
#include "tool/names.h"
#include "tool/stat.h"

struct config {
	const char *pool;
	bool json, scan;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_FLAG(struct config, json, "json", 0, "Print JSON instead of tables."),
    OPT_FLAG(struct config, scan, "scan", 0,
	     "READ the whole index as well, to count the objects and their bytes."),
};

static const struct opts_table table = {
    .command = "forge stat",
    .sentence = "Print the geometry of a pool, what its chunks and rings hold, and the compute "
		"nodes in its registry; over a socket also what the memory node has counted, and "
		"no more than that by a key that is good for metrics.  Only reads, with or without "
		"a node.  Exit status: 0, or 2 for an error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_stat = {"stat", "Print what a pool holds and who is attached.", run};

/* Between two memory nodes of several. */
#define PAGE_RULE "----------------------------------------------------------------"

static void sum_add(struct stat_sum *sum, const struct plan *p, const struct survey *s)
{
	for (unsigned state = 0; state < CHUNK_STATES; state++)
		sum->chunks[state] += s->chunks[state];
	stats_merge(&sum->stats, &s->stats);
	sum->pool_bytes += p->pool_bytes;
	sum->slots_live += s->slots_live;
	sum->live_bytes += s->live_bytes;
	sum->has_scan = s->has_scan;
	sum->nodes++;
}

/* Nothing of it is kept open. */
static void fail_node(struct stat_node *n, int status)
{
	snprintf(n->why, sizeof(n->why), "%s: %s", n->name, status_sentence(status));
	n->status = status;
	tool_look_close(&n->look);
}

static void see_who_lives(struct stat_node *n)
{
	const struct pool *pool = &n->look.pool;

	n->now_us = pool_node_ns_latest(pool, clock_now_ns(n->look.worker.clock)) / 1000;
	for (uint32_t cn = 0; cn < pool->plan.cn_max; cn++) {
		uint64_t id = n->survey.lines[cn].id;

		if (registry_state(id) != REGISTRY_FREE || n->survey.held[cn])
			n->is_alive[cn] = tool_look_is_alive(&n->look, cn, id);
	}
}

struct reporting {
	const struct config *config;
	struct stat_node *nodes;
};

/* On a thread of its own, if there are several. */
static void take_node(void *context, unsigned i)
{
	const struct reporting *r = context;
	struct stat_node *n = &r->nodes[i];
	int status;

	n->status = tool_look_open_any(n->name, &n->look, n->why, sizeof(n->why));
	if (n->status)
		return;
	status = counters_take(&n->look, &n->counters);
	if (!status && !n->look.is_metrics)
		status = survey_take(&n->look.pool, &n->look.worker, r->config->scan, &n->survey);
	if (status)
		fail_node(n, status);
	else if (!n->look.is_metrics)
		see_who_lives(n);
}

/* In turn: with a scan it needs memory for the whole index of a pool. */
static void take_space(const struct reporting *r, struct stat_node *n)
{
	int status;

	if (n->look.is_metrics)
		return;
	status = space_take(&n->look.pool, &n->look.worker, r->config->scan, &n->space);
	if (!status)
		return;
	survey_free(&n->survey);
	fail_node(n, status);
}

static bool is_same(const struct stat_node *a, const struct stat_node *b)
{
	return !a->status && !b->status && a->look.pool_id == b->look.pool_id;
}

/* Print one node, or append it to list if there is one.  0, or the exit status. */
static int report_node(const struct reporting *r, struct stat_node *n, json_t *list,
		       struct stat_sum *sum)
{
	if (!n->status)
		take_space(r, n);
	if (n->status)
		return tool_fail(&command_stat, "%s", n->why);
	for (const struct stat_node *before = r->nodes; before < n; before++)
		if (is_same(before, n)) {
			survey_free(&n->survey);
			tool_look_close(&n->look);
			return tool_fail(&command_stat, TOOL_SAME_NODE_FORMAT, before->name,
					 n->name);
		}
	if (sum->answers > 0 && !list)
		printf("\n%s\n\n", PAGE_RULE);
	sum->answers++;
	counters_merge(&sum->counters, &n->counters);
	if (list)
		json_array_append_new(list, stat_json(n));
	else
		stat_print(n);
	if (!n->look.is_metrics) {
		sum_add(sum, &n->look.pool.plan, &n->survey);
		survey_free(&n->survey);
	}
	tool_look_close(&n->look);
	return TOOL_OK;
}

static int report(const struct reporting *r, unsigned count)
{
	struct stat_sum sum = {.named = count};
	json_t *list = r->config->json ? json_array() : NULL;
	int status = 0;

	at_once(count, take_node, (void *)r);
	/* One that is lost keeps nobody from looking at the others. */
	for (unsigned i = 0; i < count; i++) {
		int one = report_node(r, &r->nodes[i], list, &sum);

		status = status ? status : one;
	}
	if (sum.answers > 0 && list) {
		tool_names_dump(list, "forge-stat-nodes-1", "all",
				count > 1 ? stat_sum_json(&sum) : NULL);
	} else if (sum.answers > 0 && count > 1) {
		printf("\n%s\n\n", PAGE_RULE);
		stat_print_sum(&sum);
	}
	json_decref(list);
	return status;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct tool_names names;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	status = tool_names_open(&command_stat, config.pool, &names);
	if (status)
		return status;
	struct reporting r = {.config = &config, .nodes = calloc(names.count, sizeof(*r.nodes))};

	for (unsigned i = 0; i < names.count && r.nodes; i++)
		r.nodes[i].name = names.name[i];
	status = r.nodes ? report(&r, names.count)
			 : tool_fail(&command_stat, "%s", status_sentence(FORGE_E_NO_MEMORY));
	free(r.nodes);
	tool_names_close(&names);
	return status;
}
