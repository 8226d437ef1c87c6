/* stat.c: `forge stat`: what is in a pool and who is attached, as a page or as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/opts.h"
#include "bench/json_text.h"
#include "base/text.h"
#include "pool/time.h"
#include "tool/counters.h"
#include "tool/look.h"
#include "tool/names.h"
#include "tool/space.h"
#include "tool/survey.h"

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

static const char *const chunk_state_names[CHUNK_STATES] = {
    [CHUNK_FREE] = "free",     [CHUNK_RESERVED] = "reserved", [CHUNK_OPEN] = "open",
    [CHUNK_QUEUED] = "queued", [CHUNK_EVICTING] = "evicting", [CHUNK_PART] = "part",
};
static const char *const chunk_state_sentences[CHUNK_STATES] = {
    [CHUNK_FREE] = "in the free ring, to be taken",
    [CHUNK_RESERVED] = "taken by a compute node, not yet filled",
    [CHUNK_OPEN] = "being filled",
    [CHUNK_QUEUED] = "a sealed group, in the small or the main ring",
    [CHUNK_EVICTING] = "a group that is being evicted or compacted",
    [CHUNK_PART] = "of a value too large for one chunk",
};

/* Between two memory nodes of several. */
#define PAGE_RULE "----------------------------------------------------------------"

static const char *const ring_names[RING_COUNT] = {
    [RING_SMALL] = "small", [RING_MAIN] = "main", [RING_FREE] = "free"};
static const char *const registry_state_names[] = {
    [REGISTRY_FREE] = "free",
    [REGISTRY_LIVE] = "live",
    [REGISTRY_DEAD] = "dead",
    [REGISTRY_RECOVERING] = "recovering",
};

/* ---- for people --------------------------------------------------------------------------- */

static void print_chunks(const struct survey *s)
{
	struct text_table *t = text_table_open("lrl");
	struct text n;

	text_table_cell(t, "chunks");
	text_table_cell(t, "count");
	text_table_cell(t, "what they are");
	text_table_rule(t);
	for (unsigned state = 0; state < CHUNK_STATES; state++) {
		text_table_cell(t, "%s", chunk_state_names[state]);
		text_table_cell(t, "%s", text_grouped(&n, s->chunks[state]));
		text_table_cell(t, "%s", chunk_state_sentences[state]);
	}
	if (s->chunks_unknown) {
		text_table_cell(t, "in no known state");
		text_table_cell(t, "%s", text_grouped(&n, s->chunks_unknown));
		text_table_cell(t, "damage: see 'forge check'");
	}
	text_table_print(t, stdout);
	text_table_close(t);
	putchar('\n');
}

static void print_rings(const struct survey *s)
{
	struct text_table *t = text_table_open("lrrrrr");
	struct text n[5];

	text_table_cell(t, "ring");
	text_table_cell(t, "head");
	text_table_cell(t, "tail");
	text_table_cell(t, "between");
	text_table_cell(t, "chunks");
	text_table_cell(t, "members");
	text_table_rule(t);
	for (unsigned r = 0; r < RING_COUNT; r++) {
		uint64_t head = s->cursors.ring[r].head, tail = s->cursors.ring[r].tail;

		text_table_cell(t, "%s", ring_names[r]);
		text_table_cell(t, "%s", text_grouped(&n[0], head));
		text_table_cell(t, "%s", text_grouped(&n[1], tail));
		text_table_cell(t, "%s", text_grouped(&n[2], tail > head ? tail - head : 0));
		text_table_cell(t, "%s", text_grouped(&n[3], s->ring_chunks[r]));
		text_table_cell(t, "%s",
				r < RING_QUEUES ? text_grouped(&n[4], s->ring_members[r]) : "-");
	}
	text_table_print(t, stdout);
	text_table_close(t);
	putchar('\n');
}

static void print_scan(const struct survey *s, const struct plan *p)
{
	struct text n, share, bytes;

	if (!s->has_scan)
		return;
	printf("objects             %s, %s of what fits when all are of %u bytes\n",
	       text_grouped(&n, s->slots_live),
	       text_percent(&share, (double)s->slots_live / (double)plan_capacity_objects(p)),
	       p->object_bytes);
	printf("object bytes        %s, live share %s of the chunks\n",
	       text_bytes(&bytes, s->live_bytes), text_percent(&share, survey_live_share(s, p)));
	printf("stale slots         %s", text_grouped(&n, s->slots_stale));
	printf(" of %s slots\n\n", text_grouped(&n, s->slots));
}

/*
 * What was stored and how it left.  What is left over is in the index: live, or, until its slot is
 * wanted, evicted already; only a scan can tell.
 */
static void print_stats(const struct survey *s)
{
	struct text_table *t = text_table_open("rl");
	struct text n;

	text_table_cell(t, "count");
	text_table_cell(t, "of");
	text_table_rule(t);
	for (unsigned i = 0; i < STATS_COUNT; i++) {
		text_table_cell(t, "%s", text_grouped(&n, s->stats.count[i]));
		text_table_cell(t, "%s: %s", stats_name(i)->name, stats_name(i)->sentence);
	}
	text_table_cell(t, "%s", text_grouped(&n, stats_present(&s->stats)));
	text_table_cell(t, "in the index: values stored that have not left, evicted or not");
	text_table_print(t, stdout);
	text_table_close(t);
	putchar('\n');
}

static void print_registry(struct look_at *look, const struct survey *s)
{
	const struct plan *p = &look->pool.plan;
	uint64_t now_us = pool_node_ns_latest(&look->pool, clock_now_ns(look->worker.clock)) / 1000;
	struct text_table *t = text_table_open("rllrrrrr");
	uint32_t count = 0;
	struct text n[3];

	static const char *const head[] = {"cn",     "state",	  "process",	   "threads",
					   "chunks", "last poll", "flushed small", "main"};
	for (unsigned i = 0; i < ARRAY_COUNT(head); i++)
		text_table_cell(t, "%s", head[i]);
	text_table_rule(t);
	for (uint32_t cn = 0; cn < p->cn_max; cn++) {
		const struct layout_registry *line = &s->lines[cn];
		uint32_t state = registry_state(line->id);

		if (state == REGISTRY_FREE && !s->held[cn])
			continue;
		count++;
		text_table_cell(t, "%u", cn);
		text_table_cell(t, "%s", registry_state_names[state]);
		text_table_cell(t, "%u%s", registry_pid(line->id),
				tool_look_is_alive(look, cn, line->id) ? "" : " (dead)");
		text_table_cell(t, "%" PRIu64, line->worker_count);
		text_table_cell(t, "%u", s->held[cn]);
		text_table_cell(t, "%s",
				line->polled_us && now_us >= line->polled_us
				    ? text_duration(&n[0], 1000 * (now_us - line->polled_us))
				    : "-");
		text_table_cell(t, "%s", text_grouped(&n[1], line->flushed[RING_SMALL]));
		text_table_cell(t, "%s", text_grouped(&n[2], line->flushed[RING_MAIN]));
	}
	printf("compute nodes       %u of at most %u\n", count, p->cn_max);
	if (count)
		text_table_print(t, stdout);
	text_table_close(t);
}

/* What is reported. */
struct reported {
	struct survey survey;
	struct space space;
	struct counters counters; /* of the memory node, if it serves sockets */
};

static void print_page(struct look_at *look, const char *name, const struct reported *r)
{
	const struct pool *pool = &look->pool;
	const struct survey *s = &r->survey;
	char text[2048];

	printf("name                %s\n", name);
	printf("id                  %016" PRIx64 "\n", pool->pool_id);
	printf("epoch               %" PRIu64 "\n", pool->epoch);
	printf("memory node         %s\n", look->is_served ? "serves it" : "none");
	plan_print(&pool->plan, text, sizeof(text));
	printf("%s\n", text);
	print_chunks(s);
	print_rings(s);
	print_scan(s, &pool->plan);
	space_print(&r->space, &pool->plan);
	print_stats(s);
	print_registry(look, s);
	if (r->counters.count)
		putchar('\n');
	counters_print(&r->counters);
}

static void print_metrics(const char *name, const struct counters *c)
{
	printf("name                %s\n", name);
	printf("memory node         serves it; the key is good for what it counts alone\n\n");
	counters_print(c);
}

/* ---- for programs ------------------------------------------------------------------------- */

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *plan_json(const struct plan *p)
{
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
	    {"pool_bytes", p->pool_bytes},
	    {"chunk_count", p->chunk_count},
	    {"chunk_bytes", p->chunk_bytes},
	    {"group_objects", plan_expected_objects(p)},
	    {"group_objects_max", p->group_objects},
	    {"object_bytes", p->object_bytes},
	    {"slot_words", p->slot_words},
	    {"bucket_count", p->bucket_count},
	    {"bucket_bytes", p->bucket_bytes},
	    {"cn_max", p->cn_max},
	    {"ring_nodes", p->ring_nodes},
	    {"ofm_rows", p->ofm_rows},
	    {"window_groups", p->window_groups},
	    {"value_bytes_max", p->value_bytes_max},
	    {"part_count_max", p->part_count_max},
	    {"metadata_bytes", plan_metadata_bytes(p)},
	    {"capacity_objects", plan_capacity_objects(p)},
	    {"cursors_offset", p->cursors_offset},
	    {"registry_offset", p->registry_offset},
	    {"chunk_table_offset", p->chunk_table_offset},
	    {"index_offset", p->index_offset},
	    {"chunks_offset", p->chunks_offset},
	};
	json_t *plan = json_object();

	json_object_set_new(plan, "policy", json_string(p->policy));
	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++)
		json_object_set_new(plan, rows[i].name, number(rows[i].value));
	return plan;
}

static json_t *rings_json(const struct survey *s)
{
	json_t *rings = json_object();

	for (unsigned r = 0; r < RING_COUNT; r++) {
		json_t *ring = json_object();

		json_object_set_new(ring, "head", number(s->cursors.ring[r].head));
		json_object_set_new(ring, "tail", number(s->cursors.ring[r].tail));
		json_object_set_new(ring, "chunks", number(s->ring_chunks[r]));
		if (r < RING_QUEUES)
			json_object_set_new(ring, "members", number(s->ring_members[r]));
		json_object_set_new(rings, ring_names[r], ring);
	}
	return rings;
}

static json_t *stats_json(const struct survey *s)
{
	json_t *stats = json_object();

	for (unsigned i = 0; i < STATS_COUNT; i++)
		json_object_set_new(stats, stats_name(i)->name, number(s->stats.count[i]));
	json_object_set_new(stats, "in_index", number(stats_present(&s->stats)));
	return stats;
}

static json_t *registry_json(struct look_at *look, const struct survey *s)
{
	const struct plan *p = &look->pool.plan;
	json_t *lines = json_array();

	for (uint32_t cn = 0; cn < p->cn_max; cn++) {
		const struct layout_registry *line = &s->lines[cn];
		uint32_t state = registry_state(line->id);
		json_t *o;

		if (state == REGISTRY_FREE && !s->held[cn])
			continue;
		o = json_object();
		json_object_set_new(o, "cn", number(cn));
		json_object_set_new(o, "state", json_string(registry_state_names[state]));
		json_object_set_new(o, "pid", number(registry_pid(line->id)));
		json_object_set_new(o, "process_is_alive",
				    json_boolean(tool_look_is_alive(look, cn, line->id)));
		json_object_set_new(o, "worker_count", number(line->worker_count));
		json_object_set_new(o, "chunks_held", number(s->held[cn]));
		json_object_set_new(o, "polled_us", number(line->polled_us));
		json_object_set_new(o, "flushed_small", number(line->flushed[RING_SMALL]));
		json_object_set_new(o, "flushed_main", number(line->flushed[RING_MAIN]));
		json_object_set_new(o, "flush_generation", number(fence_generation(line->fence)));
		json_array_append_new(lines, o);
	}
	return lines;
}

static json_t *scan_json(const struct survey *s, const struct plan *p)
{
	json_t *scan = json_object();

	json_object_set_new(scan, "objects", number(s->slots_live));
	json_object_set_new(scan, "object_bytes", number(s->live_bytes));
	json_object_set_new(scan, "live_share", json_real(survey_live_share(s, p)));
	json_object_set_new(scan, "slots", number(s->slots));
	json_object_set_new(scan, "slots_stale", number(s->slots_stale));
	json_object_set_new(scan, "slots_tentative", number(s->slots_tentative));
	return scan;
}

/* One memory node; the caller has the reference. */
static json_t *node_json(struct look_at *look, const char *name, const struct reported *r)
{
	const struct survey *s = &r->survey;
	const struct plan *plan = &look->pool.plan;
	json_t *root = json_object(), *chunks = json_object();
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, look->pool.pool_id);
	json_object_set_new(root, "schema", json_string("forge-stat-1"));
	json_object_set_new(root, "pool", json_text(name));
	json_object_set_new(root, "id", json_string(id));
	json_object_set_new(root, "epoch", number(look->pool.epoch));
	json_object_set_new(root, "is_served", json_boolean(look->is_served));
	json_object_set_new(root, "plan", plan_json(plan));
	for (unsigned state = 0; state < CHUNK_STATES; state++)
		json_object_set_new(chunks, chunk_state_names[state], number(s->chunks[state]));
	json_object_set_new(chunks, "unknown", number(s->chunks_unknown));
	json_object_set_new(root, "chunks", chunks);
	json_object_set_new(root, "rings", rings_json(s));
	json_object_set_new(root, "flush_generation", number(fence_generation(s->cursors.fence)));
	json_object_set_new(root, "counters", stats_json(s));
	json_object_set_new(root, "compute_nodes", registry_json(look, s));
	if (s->has_scan)
		json_object_set_new(root, "scan", scan_json(s, plan));
	space_json(&r->space, plan, root);
	if (r->counters.count)
		json_object_set_new(root, "node", counters_json(&r->counters));
	return root;
}

static json_t *metrics_json(const char *name, const struct counters *c)
{
	json_t *root = json_object();

	json_object_set_new(root, "schema", json_string("forge-stat-metrics-1"));
	json_object_set_new(root, "pool", json_text(name));
	json_object_set_new(root, "is_served", json_true());
	json_object_set_new(root, "node", counters_json(c));
	return root;
}

/* What all of several nodes hold together. */
struct sum {
	uint64_t chunks[CHUNK_STATES];
	struct stats_sum stats;
	uint64_t pool_bytes, slots_live, live_bytes;
	unsigned nodes;
	unsigned answers; /* memory nodes that were reported, seen into or not */
	bool has_scan;
	struct counters counters;
};

static void sum_add(struct sum *sum, const struct plan *p, const struct survey *s)
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

static void print_sum(const struct sum *sum)
{
	struct survey all = {.stats = sum->stats};
	struct text bytes, objects;
	unsigned nodes = sum->nodes ? sum->nodes : sum->answers;
	char who[48] = "the one memory node that answers";

	if (nodes > 1)
		snprintf(who, sizeof(who), "all %u memory nodes", nodes);
	memcpy(all.chunks, sum->chunks, sizeof(all.chunks));
	if (sum->nodes == 0) {
		printf("%s\n\n", who);
		counters_print(&sum->counters);
		return;
	}
	printf("%s: %s\n\n", who, text_bytes(&bytes, sum->pool_bytes));
	print_chunks(&all);
	print_stats(&all);
	counters_print(&sum->counters);
	if (sum->has_scan)
		printf("objects             %s, %s\n", text_grouped(&objects, sum->slots_live),
		       text_bytes(&bytes, sum->live_bytes));
}

static json_t *sum_json(const struct sum *sum)
{
	const struct survey all = {.stats = sum->stats};
	json_t *o = json_object(), *chunks = json_object();

	for (unsigned state = 0; state < CHUNK_STATES; state++)
		json_object_set_new(chunks, chunk_state_names[state], number(sum->chunks[state]));
	json_object_set_new(o, "memory_nodes", number(sum->answers));
	if (sum->counters.count)
		json_object_set_new(o, "node", counters_json(&sum->counters));
	if (sum->nodes == 0) {
		json_decref(chunks);
		return o;
	}
	json_object_set_new(o, "pool_bytes", number(sum->pool_bytes));
	json_object_set_new(o, "chunks", chunks);
	json_object_set_new(o, "counters", stats_json(&all));
	if (sum->has_scan) {
		json_object_set_new(o, "objects", number(sum->slots_live));
		json_object_set_new(o, "object_bytes", number(sum->live_bytes));
	}
	return o;
}

/* Print one node, or append it to list if there is one.  0, or the exit status. */
static int report_node(const struct config *config, const char *name, json_t *list, struct sum *sum)
{
	struct look_at look;
	struct reported r;
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
			json_array_append_new(list, metrics_json(name, &r.counters));
		else if (!status)
			print_metrics(name, &r.counters);
		tool_look_close(&look);
		return status;
	}
	status = survey_take(&look.pool, &look.worker, config->scan, &r.survey);
	if (!status) {
		status = space_take(&look.pool, &look.worker, config->scan, &r.space);
		if (!status && list)
			json_array_append_new(list, node_json(&look, name, &r));
		else if (!status)
			print_page(&look, name, &r);
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
	struct sum sum = {0};
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
				names->count > 1 ? sum_json(&sum) : NULL);
	} else if (sum.answers > 0 && names->count > 1) {
		if (sum.answers > answers)
			printf("\n%s\n\n", PAGE_RULE);
		print_sum(&sum);
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
