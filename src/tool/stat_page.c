/* stat_page.c: what `forge stat` prints for people. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tool/stat.h"

const char *const stat_chunk_states[CHUNK_STATES] = {
    [CHUNK_FREE] = "free",     [CHUNK_RESERVED] = "reserved", [CHUNK_OPEN] = "open",
    [CHUNK_QUEUED] = "queued", [CHUNK_EVICTING] = "evicting", [CHUNK_PART] = "part",
};

const char *const stat_rings[RING_COUNT] = {
    [RING_SMALL] = "small", [RING_MAIN] = "main", [RING_FREE] = "free"};
const char *const stat_registry_states[] = {
    [REGISTRY_FREE] = "free",
    [REGISTRY_LIVE] = "live",
    [REGISTRY_DEAD] = "dead",
    [REGISTRY_RECOVERING] = "recovering",
};

static const char *const chunk_state_sentences[CHUNK_STATES] = {
    [CHUNK_FREE] = "in the free ring, to be taken",
    [CHUNK_RESERVED] = "taken by a compute node, not yet filled",
    [CHUNK_OPEN] = "being filled",
    [CHUNK_QUEUED] = "a sealed group, in the small or the main ring",
    [CHUNK_EVICTING] = "a group that is being evicted or compacted",
    [CHUNK_PART] = "of a value too large for one chunk",
};

static void print_chunks(const struct survey *s)
{
	struct text_table *t = text_table_open("lrl");
	struct text n;

	text_table_cell(t, "chunks");
	text_table_cell(t, "count");
	text_table_cell(t, "what they are");
	text_table_rule(t);
	for (unsigned state = 0; state < CHUNK_STATES; state++) {
		text_table_cell(t, "%s", stat_chunk_states[state]);
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

static const char *const ring_sentences[RING_COUNT] = {
    [RING_SMALL] = "groups of new objects; the hot ones go on to main",
    [RING_MAIN] = "groups of objects that were hot before",
    [RING_FREE] = "chunks to be taken and filled",
};

static void print_rings(const struct survey *s)
{
	struct text_table *t = text_table_open("lrrrrrl");
	struct text n[5];

	text_table_cell(t, "ring");
	text_table_cell(t, "head");
	text_table_cell(t, "tail");
	text_table_cell(t, "between");
	text_table_cell(t, "chunks");
	text_table_cell(t, "members");
	text_table_cell(t, "what it is");
	text_table_rule(t);
	for (unsigned r = 0; r < RING_COUNT; r++) {
		uint64_t head = s->cursors.ring[r].head, tail = s->cursors.ring[r].tail;

		text_table_cell(t, "%s", stat_rings[r]);
		text_table_cell(t, "%s", text_grouped(&n[0], head));
		text_table_cell(t, "%s", text_grouped(&n[1], tail));
		text_table_cell(t, "%s", text_grouped(&n[2], tail > head ? tail - head : 0));
		text_table_cell(t, "%s", text_grouped(&n[3], s->ring_chunks[r]));
		text_table_cell(t, "%s",
				r < RING_QUEUES ? text_grouped(&n[4], s->ring_members[r]) : "-");
		text_table_cell(t, "%s", ring_sentences[r]);
	}
	text_table_print(t, stdout);
	text_table_close(t);
	printf(
	    "head, tail: how many have left it and entered it, ever; between: tickets from head to "
	    "tail;\nmembers: objects that its groups were sealed with, dead ones included\n\n");
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

static void print_registry(const struct stat_node *node)
{
	const struct plan *p = &node->look.pool.plan;
	const struct survey *s = &node->survey;
	uint64_t now_us = node->now_us;
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
		text_table_cell(t, "%s", stat_registry_states[state]);
		text_table_cell(t, "%u%s", registry_pid(line->id),
				node->is_alive[cn] ? "" : " (dead)");
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
	if (count) {
		text_table_print(t, stdout);
		printf("cn: its id; chunks: that it holds; flushed: up to which ticket of a ring "
		       "its hits are counted\n");
	}
	text_table_close(t);
}

void stat_print(const struct stat_node *n)
{
	const struct pool *pool = &n->look.pool;
	char text[2048];

	printf("name                %s\n", n->name);
	if (n->look.is_metrics) {
		printf(
		    "memory node         serves it; the key is good for what it counts alone\n\n");
		counters_print(&n->counters);
		return;
	}
	printf("id                  %016" PRIx64 "\n", pool->pool_id);
	printf("epoch               %" PRIu64 "\n", pool->epoch);
	printf("memory node         %s\n", n->look.is_served ? "serves it" : "none");
	plan_print(&pool->plan, text, sizeof(text));
	printf("%s\n", text);
	print_chunks(&n->survey);
	print_rings(&n->survey);
	print_scan(&n->survey, &pool->plan);
	space_print(&n->space, &pool->plan);
	print_stats(&n->survey);
	print_registry(n);
	if (n->counters.count)
		putchar('\n');
	counters_print(&n->counters);
}

void stat_print_sum(const struct stat_sum *sum)
{
	struct survey all = {.stats = sum->stats};
	struct text bytes, objects;
	unsigned nodes = sum->nodes ? sum->nodes : sum->answers;
	char who[64];

	if (nodes == sum->named)
		snprintf(who, sizeof(who), "all %u memory nodes", nodes);
	else
		snprintf(who, sizeof(who), "%u of the %u memory nodes", nodes, sum->named);
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
