/*
 * top.c: `forge top`: what happens in a pool right now, as a page that is drawn anew each second.
 *
 * It only reads, as `forge stat` does, and attaches afresh for each page: so it never holds on to a
 * pool that has been removed, and notices one that was made anew under the same name, with which
 * the rates begin again.  What it shows is what compute nodes have told the pool.  Verbs are not
 * among it: each node counts its own, and servers are asked for theirs (scrape.h).
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/opts.h"
#include "base/text.h"
#include "client/link.h"
#include "fabric/names.h"
#include "tool/at_once.h"
#include "tool/counters.h"
#include "tool/look.h"
#include "tool/names.h"
#include "tool/scrape.h"
#include "tool/survey.h"

/* Home, and clear to the end of the screen. */
#define TERMINAL_NEW_PAGE "\033[H\033[J"

struct config {
	const char *pool, *metrics;
	uint64_t interval_us;
	bool once;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_DURATION(struct config, interval_us, "interval", 'i', "1s", NULL, 100000, 3600000000u,
		 "Time between pages, over which rates are taken."),
    OPT_STRING(
	struct config, metrics, "metrics", 'm', NULL, "ADDRESS:PORT,...",
	"Ask these 'forge serve --metrics' too, and show the verbs they cost, by purpose and "
	"for each operation."),
    OPT_FLAG(struct config, once, "once", 0, "Print one page, after one interval, and end."),
};

static const struct opts_table table = {
    .command = "forge top",
    .sentence =
	"Show what happens in a pool, anew each second until SIGINT or SIGTERM: "
	"operations, hit ratio, evictions, how full it is and who is attached; by a key that "
	"is good for metrics what the memory node counts.  Only "
	"reads, with or without a node.  Exit status: 0 ended by a signal or --once, 2 "
	"error, also when the pool is removed.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_top = {"top", "Show what happens in a pool, each second.", run};

/* What one look at a memory node has found. */
struct node_sample {
	uint64_t pool_id, at_ns;
	bool is_away; /* of several, one that cannot be reached; nothing else is there */
	bool is_served, is_metrics;
	uint64_t count[STATS_COUNT];
	uint64_t groups_out[RING_QUEUES]; /* tickets taken at the heads */
	uint64_t chunks, chunks_free;
	uint64_t members; /* objects the sealed groups began with */
	unsigned nodes, nodes_dead;
	uint64_t workers;
	struct counters counters; /* only with is_metrics, and then nothing else */
	int status;
	char why[TOOL_WHY_BYTES];
};

/* What one look at all of them has found: their sums. */
struct sample {
	uint64_t pool_id, at_ns; /* id: of several, a mixture that is another one for others */
	uint64_t count[STATS_COUNT];
	uint64_t groups_out[RING_QUEUES];
	uint64_t chunks, chunks_free;
	uint64_t members;
	unsigned nodes, nodes_dead;
	uint64_t workers;
	unsigned away, metrics_only; /* memory nodes */
	uint64_t here;		     /* a bit for each that is not away */
	struct scraped scraped;
	char scrape_error[320]; /* "": scraped is there */
	struct counters counters;
};

/* A look at all memory nodes. */
struct look_at_all {
	const struct config *config;
	const struct tool_names *names;
	struct node_sample *node; /* [names->count], of the last look */
};

static void count_nodes(struct look_at *look, const struct survey *s, struct node_sample *out)
{
	for (uint32_t cn = 0; cn < look->pool.plan.cn_max; cn++) {
		const struct layout_registry *line = &s->lines[cn];

		if (registry_state(line->id) == REGISTRY_FREE)
			continue;
		if (registry_state(line->id) == REGISTRY_LIVE &&
		    tool_look_is_alive(look, cn, line->id)) {
			out->nodes++;
			out->workers += line->worker_count;
		} else {
			out->nodes_dead++;
		}
	}
}

static int count_pool(struct look_at *look, struct node_sample *out)
{
	struct survey s;
	int status = survey_take(&look->pool, &look->worker, 0, &s);

	if (status)
		return status;
	out->at_ns = clock_now_ns(clock_monotonic());
	out->is_served = look->is_served;
	out->chunks = look->pool.plan.chunk_count;
	out->chunks_free = s.chunks[CHUNK_FREE];
	memcpy(out->count, s.stats.count, sizeof(out->count));
	for (unsigned r = 0; r < RING_QUEUES; r++) {
		out->groups_out[r] = s.cursors.ring[r].head;
		out->members += s.ring_members[r];
	}
	count_nodes(look, &s, out);
	survey_free(&s);
	return 0;
}

/* On a thread of its own, if there are several. */
static void take_node(const struct look_at_all *all, unsigned i)
{
	struct node_sample *out = &all->node[i];
	const char *name = all->names->name[i];
	struct look_at look;

	*out = (struct node_sample){0};
	out->status = tool_look_open_any(name, &look, out->why, sizeof(out->why));
	if (!out->status) {
		out->pool_id = look.pool_id;
		out->is_metrics = look.is_metrics;
		out->status =
		    look.is_metrics ? counters_take(&look, &out->counters) : count_pool(&look, out);
		if (look.is_metrics)
			out->at_ns = clock_now_ns(clock_monotonic());
		if (out->status)
			snprintf(out->why, sizeof(out->why), "%s: %s", name,
				 status_sentence(out->status));
		tool_look_close(&look);
	}
	/* Of several one that is lost keeps nobody from looking at the others. */
	out->is_away = all->names->count > 1 && link_is_away(out->status);
}

static void add_node(struct sample *sum, const struct node_sample *n)
{
	sum->away += n->is_away;
	if (n->is_away)
		return;
	sum->at_ns = max_u64(sum->at_ns, n->at_ns);
	sum->metrics_only += n->is_metrics;
	counters_merge(&sum->counters, &n->counters);
	sum->pool_id ^= n->pool_id;
	sum->chunks += n->chunks;
	sum->chunks_free += n->chunks_free;
	sum->members += n->members;
	for (unsigned i = 0; i < STATS_COUNT; i++)
		sum->count[i] += n->count[i];
	for (unsigned r = 0; r < RING_QUEUES; r++)
		sum->groups_out[r] += n->groups_out[r];
	/* A compute node is one of each. */
	sum->nodes = n->nodes > sum->nodes ? n->nodes : sum->nodes;
	sum->nodes_dead = n->nodes_dead > sum->nodes_dead ? n->nodes_dead : sum->nodes_dead;
	sum->workers = max_u64(sum->workers, n->workers);
}

/* A look that is being taken, by a thread for each memory node and one for the servers. */
struct taking {
	const struct look_at_all *all;
	struct sample *out;
};

static void take_part(void *context, unsigned i)
{
	const struct taking *t = context;
	struct sample *out = t->out;

	if (i < t->all->names->count)
		take_node(t->all, i);
	else
		scrape_servers(t->all->config->metrics, &out->scraped, out->scrape_error,
			       sizeof(out->scrape_error));
}

/*
 * All memory nodes together, and the servers at the same time, so that those who do not answer take
 * one time limit.  0, or the exit status.
 */
static int take(const struct look_at_all *all, struct sample *out)
{
	struct taking taking = {all, out};

	*out = (struct sample){0};
	at_once(all->names->count + (all->config->metrics ? 1 : 0), take_part, &taking);
	for (unsigned i = 0; i < all->names->count; i++) {
		const struct node_sample *n = &all->node[i];

		if (n->status && !n->is_away)
			return tool_fail(&command_top, "%s", n->why);
		for (unsigned j = 0; j < i; j++)
			if (n->pool_id && n->pool_id == all->node[j].pool_id)
				return tool_fail(&command_top, TOOL_SAME_NODE_FORMAT,
						 all->names->name[j], all->names->name[i]);
		add_node(out, n);
		out->here |= (uint64_t)!n->is_away << i;
	}
	if (out->here == 0)
		return tool_fail(&command_top, "none of the %u memory nodes can be reached: %s",
				 all->names->count, all->node[0].why);
	return 0;
}

/* A counter: how many a second, how many in all, and what. */
static void put_counter(struct text_table *t, double seconds, uint64_t before, uint64_t now,
			const char *name, const char *sentence)
{
	struct text rate, total;

	text_table_cell(t, "%s",
			text_grouped(&rate, (uint64_t)((double)(now - before) / seconds + 0.5)));
	text_table_cell(t, "%s", text_grouped(&total, now));
	text_table_cell(t, "%s: %s", name, sentence);
}

static const char *ratio(struct text *t, uint64_t hits, uint64_t gets)
{
	return gets ? text_percent(t, (double)hits / (double)gets) : "-";
}

static void print_counters(const struct sample *before, const struct sample *now)
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	struct text_table *t = text_table_open("rrl");
	struct text recent, total;

	text_table_cell(t, "a second");
	text_table_cell(t, "in all");
	text_table_cell(t, "of");
	text_table_rule(t);
	text_table_cell(t, "%s",
			ratio(&recent, now->count[STATS_hits] - before->count[STATS_hits],
			      now->count[STATS_gets] - before->count[STATS_gets]));
	text_table_cell(t, "%s", ratio(&total, now->count[STATS_hits], now->count[STATS_gets]));
	text_table_cell(t, "hit ratio: in this interval, and in all");
	for (unsigned i = 0; i < STATS_COUNT; i++)
		put_counter(t, seconds, before->count[i], now->count[i], stats_name(i)->name,
			    stats_name(i)->sentence);
	put_counter(t, seconds, before->groups_out[RING_SMALL], now->groups_out[RING_SMALL],
		    "out of small", "groups that left the small ring");
	put_counter(t, seconds, before->groups_out[RING_MAIN], now->groups_out[RING_MAIN],
		    "out of main", "groups that left the main ring");
	text_table_print(t, stdout);
	text_table_close(t);
}

static void put_verbs(struct text_table *t, const char *name, const uint64_t *verbs, double seconds,
		      uint64_t operations)
{
	struct text n;
	uint64_t all = 0;

	text_table_cell(t, "%s", name);
	for (unsigned c = 0; c < FAB_CODES; c++) {
		text_table_cell(t, "%s",
				text_grouped(&n, (uint64_t)((double)verbs[c] / seconds + 0.5)));
		all += verbs[c];
	}
	text_table_cell(t, "%s", text_grouped(&n, (uint64_t)((double)all / seconds + 0.5)));
	if (operations)
		text_table_cell(t, "%.3f", (double)all / (double)operations);
	else
		text_table_cell(t, "-");
}

/* Of the servers that were asked, by purpose and code. */
static void print_verbs(const struct sample *before, const struct sample *now)
{
	double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
	const struct scraped *from = &before->scraped, *to = &now->scraped;
	uint64_t all[FAB_CODES] = {0};

	if (now->scrape_error[0] || before->scrape_error[0] || to->operations < from->operations) {
		printf("\nverbs               %s\n",
		       now->scrape_error[0] ? now->scrape_error : "a server was started anew");
		return;
	}
	struct text_table *t = text_table_open("lrrrrrr");

	text_table_cell(t, "verbs a second");
	for (unsigned c = 0; c < FAB_CODES; c++)
		text_table_cell(t, "%s", fab_code_name(c));
	text_table_cell(t, "all");
	text_table_cell(t, "an operation");
	text_table_rule(t);
	for (unsigned p = 0; p < FAB_PURPOSES; p++) {
		uint64_t verbs[FAB_CODES];

		for (unsigned c = 0; c < FAB_CODES; c++) {
			verbs[c] = to->verbs[p][c] - from->verbs[p][c];
			all[c] += verbs[c];
		}
		put_verbs(t, fab_purpose_name(p), verbs, seconds,
			  to->operations - from->operations);
	}
	put_verbs(t, "all", all, seconds, to->operations - from->operations);
	printf("\n");
	text_table_print(t, stdout);
	text_table_close(t);
}

static void print_node(const struct node_sample *n)
{
	if (n->is_away)
		printf("cannot be reached");
	else if (n->is_metrics)
		printf("the key is good for what the memory node counts alone");
	else
		printf("id %016" PRIx64 "  memory node %s", n->pool_id,
		       n->is_served ? "serves it" : "none");
}

/* Of one node, its name and what serves it; of several, which they are. */
static void print_names(const struct look_at_all *all, const struct sample *before,
			const struct sample *now)
{
	const struct tool_names *names = all->names;
	struct text time;

	text_duration(&time, now->at_ns - before->at_ns);
	if (names->count == 1) {
		printf("%s  ", names->name[0]);
		print_node(&all->node[0]);
		printf("  over %s\n", time.s);
		return;
	}
	printf("%u memory nodes", names->count);
	if (now->away)
		printf(", %u of them cannot be reached: what follows is without %s", now->away,
		       now->away == 1 ? "it" : "them");
	printf("  over %s\n", time.s);
	for (unsigned i = 0; i < names->count; i++) {
		printf("  %s  ", names->name[i]);
		print_node(&all->node[i]);
		putchar('\n');
	}
}

static void print_pool(const struct config *c, const struct sample *before,
		       const struct sample *now)
{
	uint64_t used = now->chunks - min_u64(now->chunks_free, now->chunks);
	struct text n[3], share;

	printf("chunks used         %s of %s, %s\n", text_grouped(&n[0], used),
	       text_grouped(&n[1], now->chunks),
	       text_percent(&share, now->chunks ? (double)used / (double)now->chunks : 0));
	printf("objects sealed      %s, dead ones included\n", text_grouped(&n[2], now->members));
	printf("compute nodes       %u, with %llu thread%s", now->nodes,
	       (unsigned long long)now->workers, now->workers == 1 ? "" : "s");
	if (now->nodes_dead)
		printf("; %u dead", now->nodes_dead);
	printf("\n\n");
	print_counters(before, now);
	if (c->metrics)
		print_verbs(before, now);
}

/* By a key that may not read. */
static void print_counted(const struct config *c, const struct sample *before,
			  const struct sample *now)
{
	counters_print_rates(&before->counters, &now->counters,
			     (double)(now->at_ns - before->at_ns) / 1e9);
	if (c->metrics)
		print_verbs(before, now);
}

static void print_page(const struct look_at_all *all, const struct sample *before,
		       const struct sample *now)
{
	print_names(all, before, now);
	putchar('\n');
	if (now->metrics_only)
		print_counted(all->config, before, now);
	else
		print_pool(all->config, before, now);
	fflush(stdout);
}

/* The signals that end it are blocked but here.  True: one has come. */
static bool wait_for_end(const sigset_t *ends, uint64_t us)
{
	struct timespec limit = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	/* A signal of another kind, such as the stop and continue of a shell, ends the wait early.
	 */
	return sigtimedwait(ends, NULL, &limit) > 0;
}

static int show(const struct look_at_all *all, const sigset_t *ends)
{
	const struct config *c = all->config;
	bool is_terminal = isatty(STDOUT_FILENO);
	struct sample before, now;
	int status = take(all, &before);

	if (!status && before.scrape_error[0])
		return tool_fail(&command_top, "--metrics: %s", before.scrape_error);

	while (!status && !wait_for_end(ends, c->interval_us)) {
		status = take(all, &now);
		if (status)
			break;
		if (now.pool_id == before.pool_id && now.here == before.here &&
		    now.at_ns > before.at_ns) {
			if (is_terminal && !c->once)
				fputs(TERMINAL_NEW_PAGE, stdout);
			print_page(all, &before, &now);
			if (c->once || ferror(stdout))
				break;
			if (!is_terminal)
				putchar('\n');
		}
		before = now;
	}
	return status;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct tool_names names;
	sigset_t ends;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	status = tool_names_open(&command_top, config.pool, &names);
	if (status)
		return status;
	struct look_at_all all = {&config, &names, calloc(names.count, sizeof(*all.node))};

	status = all.node ? show(&all, &ends)
			  : tool_fail(&command_top, "%s", status_sentence(FORGE_E_NO_MEMORY));
	free(all.node);
	tool_names_close(&names);
	return status;
}
