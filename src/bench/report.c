/* report.c: the warnings of a run, and its page. */
#include "bench/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/text.h"
#include "fabric/names.h"

#define GETS_FOR_RATIO 1000u
/* Arrivals are random: a short run has a few less than it should. */
#define RATE_SUSTAINED 0.97

static double report_throughput(const struct bench_result *b)
{
	return b->seconds > 0 ? (double)b->tally.operations / b->seconds : 0;
}

PRINTF_LIKE(2, 3) static void warn(struct bench_report *r, const char *format, ...)
{
	va_list args;

	if (r->warning_count == REPORT_WARNINGS_MAX)
		return;
	va_start(args, format);
	vsnprintf(r->warnings[r->warning_count++], sizeof(r->warnings[0]), format, args);
	va_end(args);
}

/*
 * A pool that was empty before gives no more hits than the ceiling, but for requests that several
 * workers carried out in another order than the trace's, about the end of the warm-up.
 */
#define ABOVE_CEILING 0.001

static void warn_hit_ratio(struct bench_report *r)
{
	const struct bench_tally *n = &r->result->tally;
	double ratio = bench_ratio(n->hits, n->gets);

	if (n->gets == 0) {
		warn(r, "there was no Get, so there is no hit ratio");
	} else if (r->footprint) {
		if (r->ceiling.gets &&
		    ratio > bench_ratio(r->ceiling.hits, r->ceiling.gets) + ABOVE_CEILING)
			warn(r,
			     "more Gets hit than the ceiling allows: the pool had values of these "
			     "keys before the run; 'forge flush' forgets them, and without --pool "
			     "a new one is made");
		else if (n->hits == 0 || n->hits == n->gets)
			warn(r,
			     "the miss ratio is exactly %d: check the unit of the trace's sizes "
			     "and the size of the cache",
			     n->hits == 0);
	} else if (n->gets >= GETS_FOR_RATIO && ratio < 0.001) {
		warn(r, "almost no Get hit (%.3f %%): is the cache too small, or filled at all?",
		     100 * ratio);
	} else if (n->gets >= GETS_FOR_RATIO && ratio > 0.999) {
		warn(r, "almost every Get hit (%.3f %%): this measures a cache that holds all keys",
		     100 * ratio);
	}
}

/* A worker fills a group for each queue and keeps one in hand, in pools too small for more. */
#define GROUPS_PER_WORKER (RING_QUEUES + 1)

static void warn_no_space(struct bench_report *r)
{
	const struct bench_result *b = r->result;

	if (b->tally.sets_no_space)
		warn(
		    r,
		    "%llu Sets found no space: %u worker%s need %llu groups, %u each, and the pool "
		    "has %u; raise --cache-percent or --size, or lower --threads or --open-groups",
		    (unsigned long long)b->tally.sets_no_space, b->workers,
		    b->workers == 1 ? "" : "s", (unsigned long long)b->workers * GROUPS_PER_WORKER,
		    GROUPS_PER_WORKER, b->plan.chunk_count);
}

void report_warn(struct bench_report *r)
{
	const struct bench_tally *n = &r->result->tally;
	uint64_t capacity = bench_space_of(r->result).objects;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (n->distinct == 1)
		warn(r, "all %llu operations went to one key", (unsigned long long)n->operations);
	warn_hit_ratio(r);
	if (r->wished_objects && capacity > r->wished_objects)
		warn(r,
		     "the pool holds %llu objects where %llu were wished for, because two groups "
		     "are the least: a smaller --group-objects makes a smaller pool",
		     (unsigned long long)capacity, (unsigned long long)r->wished_objects);
	if (!r->virtual_time && processors > 0 && r->result->workers > (unsigned long)processors)
		warn(r,
		     "client-bound: %u workers share %ld processors, so latencies include "
		     "waiting for one",
		     r->result->workers, processors);
	if (r->result->rate > 0 && report_throughput(r->result) < RATE_SUSTAINED * r->result->rate)
		warn(r,
		     "overload: of %.0f operations a second that were due only %.0f were done, so "
		     "latencies grow with the length of the run",
		     r->result->rate, report_throughput(r->result));
	if (n->sets_again)
		warn(r, "%llu Sets were given up because others kept changing the key",
		     (unsigned long long)n->sets_again);
	warn_no_space(r);
	if (n->sets_too_large)
		warn(r, "%llu Sets were refused: values above %u bytes do not fit this pool",
		     (unsigned long long)n->sets_too_large, r->result->plan.value_bytes_max);
	if (r->result->cache.gets_lost || n->refused)
		warn(r,
		     "a memory node was lost: %llu Gets missed and %llu changes were refused for "
		     "that reason",
		     (unsigned long long)r->result->cache.gets_lost,
		     (unsigned long long)n->refused);
}

static void print_pool(const struct bench_report *r, FILE *out)
{
	const struct plan *p = &r->result->plan;
	struct bench_space all = bench_space_of(r->result);
	struct text pool, capacity, client;

	fprintf(out,
		"pool          %s, policy %s: %s objects in %" PRIu64
		" groups of %u, fill factor %.1f %%\n",
		text_bytes(&pool, all.pool_bytes), r->result->policy,
		text_grouped(&capacity, all.objects), all.chunks, plan_expected_objects(p),
		100 * plan_fill_factor(p));
	if (all.nodes > 1)
		fprintf(out, "              on %u memory nodes\n", all.nodes);
	fprintf(out, "              a compute node's local memory %s\n",
		text_bytes(&client, r->result->client_memory_bytes));
}

static void print_load(const struct bench_report *r, FILE *out)
{
	const struct bench_result *b = r->result;
	const struct bench_tally *n = &b->tally;
	struct text operations, distinct, low, high, requests, ids, bytes;

	fprintf(out, "load          %s\n", r->load);
	if (r->footprint)
		fprintf(out, "              %s requests for %s ids%s%s\n",
			text_grouped(&requests, r->footprint->requests),
			text_grouped(&ids, r->footprint->distinct),
			r->footprint->bytes ? ", recorded footprint " : "",
			r->footprint->bytes ? text_bytes(&bytes, r->footprint->bytes) : "");
	fprintf(out,
		"measured      %s operations by %u worker%s in %.2f s, after %.2f s of warm-up\n"
		"              %s distinct keys, values of %s",
		text_grouped(&operations, n->operations), b->workers, b->workers == 1 ? "" : "s",
		b->seconds, b->warm_up_seconds, text_grouped(&distinct, n->distinct),
		text_bytes(&low, b->value_bytes_min));
	if (b->value_bytes_max != b->value_bytes_min)
		fprintf(out, " to %s", text_bytes(&high, b->value_bytes_max));
	if (n->verified)
		fprintf(out, ", %s verified", text_grouped(&requests, n->verified));
	fputc('\n', out);
}

static void print_ratio(const struct bench_report *r, FILE *out)
{
	const struct bench_result *b = r->result;
	const struct bench_tally *n = &b->tally;
	struct text rate;

	fprintf(out, "throughput    %s\n",
		text_rate(&rate, b->seconds > 0 ? (double)n->operations / b->seconds : 0));
	if (n->gets == 0)
		return;
	fprintf(out, "hit ratio     %.2f %% of Gets", 100 * bench_ratio(n->hits, n->gets));
	if (b->value_bytes_max != b->value_bytes_min)
		fprintf(out, ", %.2f %% of bytes", 100 * bench_ratio(n->hit_bytes, n->get_bytes));
	if (r->lru.known)
		fprintf(out, "; exact LRU of that size %.2f %%",
			100 * bench_ratio(r->lru.hits, r->lru.gets));
	if (r->footprint)
		fprintf(out, "; ceiling %.2f %% (ids that were %s before)",
			100 * bench_ratio(r->ceiling.hits, r->ceiling.gets),
			r->ceiling.fills ? "asked for or stored" : "stored");
	fputc('\n', out);
}

static int print_latencies(const struct bench_report *r, FILE *out)
{
	static const char *const label[BENCH_LATENCIES] = {
	    "Get, hit", "Get, miss", "Set", "Delete", "fill of a miss", "operation",
	};
	static const double percents[] = {50, 99, 99.9};
	struct text_table *t = text_table_open("lrrrrrr");
	struct text text;

	text_table_cell(t, "latency");
	text_table_cell(t, "count");
	text_table_cell(t, "mean");
	text_table_cell(t, "P50");
	text_table_cell(t, "P99");
	text_table_cell(t, "P99.9");
	text_table_cell(t, "max");
	text_table_rule(t);
	for (unsigned i = 0; i < BENCH_LATENCIES; i++) {
		const struct hist *h = &r->result->latency[i];

		if (h->count == 0)
			continue;
		text_table_cell(t, "%s", label[i]);
		text_table_cell(t, "%s", text_grouped(&text, h->count));
		text_table_cell(t, "%s", text_duration(&text, (uint64_t)hist_mean_ns(h)));
		for (unsigned p = 0; p < ARRAY_COUNT(percents); p++)
			text_table_cell(t, "%s",
					text_duration(&text, hist_percentile_ns(h, percents[p])));
		text_table_cell(t, "%s", text_duration(&text, hist_max_ns(h)));
	}
	int status = text_table_print(t, out);

	text_table_close(t);
	return status;
}

static int print_verbs(const struct bench_report *r, FILE *out)
{
	const struct fab_counts *v = &r->result->verbs;
	struct fab_count total = fab_counts_total(v);
	double operations = (double)r->result->tally.operations;
	struct text_table *t = text_table_open("lrrrrr");
	struct text text;

	if (total.verbs == 0) {
		text_table_close(t);
		return 0;
	}
	text_table_cell(t, "verbs");
	text_table_cell(t, "count");
	text_table_cell(t, "share");
	text_table_cell(t, "per operation");
	text_table_cell(t, "bytes");
	text_table_cell(t, "failed CAS");
	text_table_rule(t);
	for (unsigned p = 0; p <= FAB_PURPOSES; p++) {
		bool all = p == FAB_PURPOSES;
		struct fab_count c = all ? total : fab_counts_of_purpose(v, (enum fab_purpose)p);

		text_table_cell(t, "%s", all ? "all" : fab_purpose_name((enum fab_purpose)p));
		text_table_cell(t, "%s", text_grouped(&text, c.verbs));
		text_table_cell(t, "%s", text_percent(&text, bench_ratio(c.verbs, total.verbs)));
		text_table_cell(t, "%.3f", operations > 0 ? (double)c.verbs / operations : 0);
		text_table_cell(t, "%s", text_bytes(&text, c.bytes));
		text_table_cell(t, "%s", text_grouped(&text, c.cas_failed));
	}
	int status = text_table_print(t, out);

	text_table_close(t);
	return status;
}

double report_sealed_fill(const struct bench_result *b)
{
	double room = (double)b->cache.groups_sealed * b->plan.chunk_bytes;

	return room > 0 ? (double)b->cache.bytes_sealed / room : 0;
}

static void print_housekeeping(const struct bench_report *r, FILE *out)
{
	const struct cache_counters *c = &r->result->cache;
	uint64_t verbs = fab_counts_of_purpose(&r->result->verbs, FAB_COMPACTION).verbs;
	struct text text[6];

	fprintf(
	    out,
	    "housekeeping  %s groups sealed, sealed fill %.1f %%; %s regrouped, %s requeued, %s "
	    "compacted; "
	    "%s objects rescued, %s dropped\n",
	    text_grouped(&text[0], c->groups_sealed), 100 * report_sealed_fill(r->result),
	    text_grouped(&text[1], c->groups_regrouped), text_grouped(&text[2], c->groups_requeued),
	    text_grouped(&text[3], c->groups_compacted), text_grouped(&text[4], c->objects_rescued),
	    text_grouped(&text[5], c->objects_dropped));
	if (verbs > 0 && c->groups_compacted == 0)
		fprintf(out,
			"              verbs of compaction: which objects are dead was published "
			"and READ; no group was compacted\n");
}

int report_print(const struct bench_report *r, FILE *out)
{
	print_load(r, out);
	print_pool(r, out);
	print_ratio(r, out);
	fputc('\n', out);
	int status = print_latencies(r, out);

	fputc('\n', out);
	if (!status)
		status = print_verbs(r, out);
	print_housekeeping(r, out);
	if (r->aside)
		r->aside->print(r->aside->context, out);
	for (unsigned i = 0; i < r->warning_count; i++)
		fprintf(out, "warning: %s\n", r->warnings[i]);
	return status || fflush(out) || ferror(out) ? FORGE_E_SYSTEM : 0;
}
