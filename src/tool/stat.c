/* stat.c: `forge stat`: what is in a pool and who is attached, as a page or as JSON. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/opts.h"
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

/* Print one node, or append it to list if there is one.  0, or the exit status. */
static int report_node(const struct config *config, const char *name, json_t *list,
		       struct stat_sum *sum)
{
	struct look_at look;
	struct stat_node r;
	int status = tool_look_open_any(&command_stat, name, &look);

	if (status)
		return status;
	status = counters_take(&command_stat, name, &look, &r.counters);
	if (!status) {
		counters_merge(&sum->counters, &r.counters);
		sum->answers++;
	}
	if (status || look.is_metrics) {
		if (!status && list)
			json_array_append_new(list, stat_metrics_json(name, &r.counters));
		else if (!status)
			stat_print_metrics(name, &r.counters);
		tool_look_close(&look);
		return status;
	}
	status = survey_take(&look.pool, &look.worker, config->scan, &r.survey);
	if (!status) {
		status = space_take(&look.pool, &look.worker, config->scan, &r.space);
		if (!status && list)
			json_array_append_new(list, stat_json(&look, name, &r));
		else if (!status)
			stat_print(&look, name, &r);
		sum_add(sum, &look.pool.plan, &r.survey);
		survey_free(&r.survey);
	}
	if (status)
		status = tool_fail(&command_stat, "%s: %s", name, status_sentence(status));
	tool_look_close(&look);
	return status;
}

static int report(const struct config *config, const struct tool_names *names)
{
	struct stat_sum sum = {0};
	json_t *list = config->json ? json_array() : NULL;
	unsigned answers = 0;
	int status = 0;

	/* One that is lost keeps nobody from looking at the others. */
	for (unsigned i = 0; i < names->count; i++) {
		if (sum.answers > answers && !list)
			printf("\n%s\n\n", PAGE_RULE);
		answers = sum.answers;
		int one = report_node(config, names->name[i], list, &sum);

		status = status ? status : one;
	}
	if (sum.answers > 0 && list) {
		tool_names_dump(list, "forge-stat-nodes-1", "all",
				names->count > 1 ? stat_sum_json(&sum) : NULL);
	} else if (sum.answers > 0 && names->count > 1) {
		if (sum.answers > answers)
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
	status = report(&config, &names);
	tool_names_close(&names);
	return status;
}
