/*
 * check.c: `forge check`: is everything in a pool as the protocol says?
 *
 * How strict the check may be depends on who is attached, and the registry tells: nobody, and the
 * pool is at rest; processes that are there, and what they are doing is no violation; processes
 * that are gone, and neither is what they left half done.  Who joins during a check at rest makes
 * it look at things in motion, so findings count only if nothing has moved meanwhile; otherwise
 * the check is done again, live.
 */
#include "check/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/opts.h"
#include "bench/json_text.h"
#include "pool/registry.h"
#include "pool/spread.h"
#include "tool/at_once.h"
#include "tool/look.h"
#include "tool/names.h"
#include "tool/repair.h"

struct config {
	const char *pool;
	uint64_t findings_max;
	bool json, live, repair;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_FLAG(struct config, live, "live", 0,
	     "Check as if compute nodes were attached, even if none is in the registry."),
    OPT_FLAG(struct config, repair, "repair", 0,
	     "First take back what dead compute nodes held and what no ring can find; the only "
	     "option that writes."),
    OPT_U64(struct config, findings_max, "findings-max", 0, "20", "findings", 0, 1000000,
	    "How many findings are printed one by one; all are counted."),
    OPT_FLAG(struct config, json, "json", 0, "Print JSON instead of a page."),
};

static const struct opts_table table = {
    .command = "forge check",
    .sentence = "Check every invariant of a pool and report each violation.  Only reads, unless "
		"--repair is given; with or without a node, at rest or while compute nodes are at "
		"work.  Exit status: 0 clean, 1 findings, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_check = {"check", "Check every invariant of a pool.", run};

/* The findings of one check; those beyond max are only counted, by the report. */
struct findings {
	struct check_finding *list;
	uint64_t count, max;
};

static void keep_finding(void *context, const struct check_finding *finding)
{
	struct findings *f = context;

	if (f->count < f->max)
		f->list[f->count++] = *finding;
}

/* What moves when anybody works on the pool, or so much as joins it. */
struct moment {
	struct layout_cursors cursors;
	struct layout_registry lines[LAYOUT_CN_MAX];
};

static int moment_read(struct look_at *look, struct moment *out)
{
	struct fab_op op = fab_read(FAB_CONTROL, look->pool.plan.cursors_offset, &out->cursors,
				    sizeof(out->cursors));
	int status = flow_run(&look->worker, &op, 1);

	if (!status)
		status = registry_read(&look->pool, &look->worker, FAB_CONTROL, out->lines);
	return status;
}

static void mode_from_registry(struct look_at *look, const struct moment *m,
			       struct check_options *o)
{
	uint32_t cn_max = look->pool.plan.cn_max;

	for (uint32_t cn = 0; cn < cn_max; cn++) {
		uint64_t id = m->lines[cn].id;

		if (registry_state(id) == REGISTRY_FREE)
			continue;
		if (tool_look_is_alive(look, cn, id)) {
			o->live = 1;
		} else {
			o->crashed = 1;
			o->dead_cns[cn / 64] |= UINT64_C(1) << (cn % 64);
		}
	}
}

struct result {
	struct check_options options;
	struct check_report report;
	struct findings findings;
	struct repair repair; /* only with --repair */
};

static int check_once(struct look_at *look, struct result *r)
{
	r->findings.count = 0;
	return check_pool(&look->worker, &look->pool, &r->options, &r->report, keep_finding,
			  &r->findings);
}

static int check(struct look_at *look, const struct config *config, struct result *r)
{
	static struct moment before, after;
	int status = moment_read(look, &before);

	if (status)
		return status;
	r->options.live = config->live;
	mode_from_registry(look, &before, &r->options);
	status = check_once(look, r);
	if (status || r->report.findings == 0 || r->options.live)
		return status;
	status = moment_read(look, &after);
	if (status || memcmp(&before, &after, sizeof(before)) == 0)
		return status;
	r->options.live = 1;
	mode_from_registry(look, &after, &r->options);
	return check_once(look, r);
}

static const char *mode_name(const struct check_options *o)
{
	if (o->live)
		return o->crashed ? "live, and some compute nodes are dead" : "live";
	return o->crashed ? "at rest, but some compute nodes are dead" : "at rest";
}

static void print_page(const struct look_at *look, const struct config *config, const char *name,
		       const struct result *r)
{
	const struct findings *f = &r->findings;

	printf("pool      %s, %s\n", name, mode_name(&r->options));
	if (config->repair)
		repair_print(&r->repair);
	check_print(stdout, &look->pool, &r->report);
	for (uint64_t i = 0; i < f->count; i++)
		check_print_finding(stdout, &f->list[i]);
	if (r->report.findings > f->count)
		printf("and %" PRIu64 " more (--findings-max)\n", r->report.findings - f->count);
	if (r->report.findings == 0)
		printf("pool check: clean\n");
	else
		printf("pool check: %" PRIu64 " finding%s\n", r->report.findings,
		       r->report.findings == 1 ? "" : "s");
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *findings_json(const struct findings *f)
{
	json_t *list = json_array();

	for (uint64_t i = 0; i < f->count; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "rule", json_string(check_rule_name(f->list[i].rule)));
		json_object_set_new(o, "address", number(f->list[i].address));
		json_object_set_new(o, "text", json_string(f->list[i].text));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *result_json(const struct config *config, const char *name, const struct result *r)
{
	json_t *root = json_object(), *counters = json_object(), *rules = json_object();

	for (unsigned i = 0; check_counter_name(i); i++)
		json_object_set_new(counters, check_counter_name(i),
				    number(check_counter(&r->report, i)));
	for (unsigned i = 0; check_rule_name(i); i++)
		json_object_set_new(rules, check_rule_name(i), number(r->report.found[i]));
	json_object_set_new(root, "schema", json_string("forge-check-1"));
	json_object_set_new(root, "pool", json_text(name));
	json_object_set_new(root, "live", json_boolean(r->options.live));
	json_object_set_new(root, "crashed", json_boolean(r->options.crashed));
	json_object_set_new(root, "clean", json_boolean(r->report.findings == 0));
	if (config->repair)
		json_object_set_new(root, "repair", repair_json(&r->repair));
	json_object_set_new(root, "counters", counters);
	json_object_set_new(root, "violations", rules);
	json_object_set_new(root, "findings", findings_json(&r->findings));
	return root;
}

static int check_and_print(struct look_at *look, const struct config *config, const char *name,
			   struct result *r, json_t *list)
{
	int status = check(look, config, r);

	if (status)
		return tool_fail(&command_check, "%s: %s (%s): nothing is known about the pool",
				 name, status_sentence(status), status_name(status));
	if (config->json)
		json_array_append_new(list, result_json(config, name, r));
	else
		print_page(look, config, name, r);
	return r->report.findings ? TOOL_NO : TOOL_OK;
}

/* What the nodes before it said of the spread. */
struct agreed {
	const char *name; /* of the first that is of one; NULL: none was yet */
	struct spread_record record;
};

/* Are they memory nodes of one cache, and of one epoch of it?  0, or an exit status. */
static int compare(struct look_at *look, const char *name, struct agreed *a)
{
	static struct spread_view v;
	int status = spread_read(&look->worker, &look->pool, &v);
	const struct spread_record *r = v.record;

	if (status)
		return tool_fail(&command_check, "%s: %s", name, status_sentence(status));
	/* Of one that is damaged a finding has told. */
	if (!r)
		return TOOL_OK;
	if (!a->name) {
		a->name = name;
		a->record = *r;
		return TOOL_OK;
	}
	if (spread_record_same(r, &a->record))
		return TOOL_OK;
	if (r->id != a->record.id)
		log_error("%s and %s are memory nodes of different caches", a->name, name);
	else if (r->epoch != a->record.epoch)
		log_error("%s is of epoch %" PRIu64 " of its cache and %s of epoch %" PRIu64
			  ": repeat the change with 'forge spread --set'",
			  a->name, a->record.epoch, name, r->epoch);
	else
		log_error("%s and %s name other memory nodes, or other sizes, for epoch %" PRIu64
			  ": form the cache anew with 'forge spread --set --force'",
			  a->name, name, r->epoch);
	return TOOL_NO;
}

/* A memory node of the list. */
struct node {
	const char *name;
	struct repair repair; /* only with --repair */
	struct look_at look;
	int status; /* of opening the look */
	char why[TOOL_WHY_BYTES];
};

static void look_at_node(void *context, unsigned i)
{
	struct node *n = (struct node *)context + i;

	n->status = tool_look_open(n->name, &n->look, n->why, sizeof(n->why));
}

static int check_node(const struct config *config, struct node *n, json_t *list,
		      struct agreed *agreed)
{
	struct result r = {.repair = n->repair};
	int status;

	r.findings.max = config->findings_max;
	r.findings.list = calloc(config->findings_max + 1, sizeof(*r.findings.list));
	if (r.findings.list)
		status = check_and_print(&n->look, config, n->name, &r, list);
	else
		status = tool_fail(&command_check, "%s", status_sentence(FORGE_E_NO_MEMORY));
	free(r.findings.list);
	if (status < TOOL_ERROR) {
		int same = compare(&n->look, n->name, agreed);

		status = same > status ? same : status;
	}
	return status;
}

/* Mended in turn, and looked at right after that; else all are reached at once. */
static int check_one_of(const struct config *config, struct node *n, json_t *list,
			struct agreed *agreed)
{
	int status = config->repair ? repair_run(&command_check, n->name, &n->repair) : 0;

	if (status)
		return status;
	if (config->repair)
		look_at_node(n, 0);
	if (n->status)
		return tool_fail(&command_check, "%s", n->why);
	status = check_node(config, n, list, agreed);
	tool_look_close(&n->look);
	return status;
}

/* The worst of all nodes. */
static int check_all(const struct config *config, struct node *nodes, unsigned count, json_t *list)
{
	struct agreed agreed = {0};
	int status = 0;

	if (!config->repair)
		at_once(count, look_at_node, nodes);
	for (unsigned i = 0; i < count; i++) {
		int one = check_one_of(config, &nodes[i], list, &agreed);

		status = one > status ? one : status;
		if (i + 1 < count && !config->json)
			putchar('\n');
	}
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
	status = tool_names_open(&command_check, config.pool, &names);
	if (status)
		return status;
	json_t *list = json_array();
	struct node *nodes = calloc(names.count, sizeof(*nodes));

	for (unsigned i = 0; i < names.count && nodes; i++)
		nodes[i].name = names.name[i];
	status = nodes ? check_all(&config, nodes, names.count, list)
		       : tool_fail(&command_check, "%s", status_sentence(FORGE_E_NO_MEMORY));
	if (config.json)
		tool_names_dump(list, "forge-check-nodes-1", "clean",
				names.count > 1 ? json_boolean(status == TOOL_OK) : NULL);
	json_decref(list);
	free(nodes);
	tool_names_close(&names);
	return status;
}
