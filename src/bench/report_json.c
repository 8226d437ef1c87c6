/* report_json.c: a run as JSON; doc/benchmarks.md describes every field. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/sanitizer.h"
#include "bench/json_text.h"
#include "bench/report.h"
#include "fabric/names.h"

/*
 * jansson's setters give -1 and free the value when memory ran out; the object is then short of
 * a field.  report_json() would write a wrong file, so each failure is remembered here.
 */
struct out {
	bool failed;
};

static void put(struct out *o, json_t *object, const char *name, json_t *value)
{
	if (json_object_set_new(object, name, value))
		o->failed = true;
}

static void put_count(struct out *o, json_t *object, const char *name, uint64_t n)
{
	put(o, object, name, json_integer((json_int_t)n));
}

static void put_text(struct out *o, json_t *object, const char *name, const char *text)
{
	put(o, object, name, text ? json_text(text) : json_null());
}

static json_t *host(struct out *o)
{
	json_t *j = json_object();
	struct utsname name;

	put_text(o, j, "kernel", uname(&name) == 0 ? name.release : NULL);
	put_text(o, j, "machine", uname(&name) == 0 ? name.machine : NULL);
	put_count(o, j, "processors", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	return j;
}

static json_t *build(struct out *o)
{
	json_t *j = json_object();

	put_text(o, j, "compiler", __VERSION__);
#ifdef __OPTIMIZE__
	put(o, j, "optimized", json_true());
#else
	put(o, j, "optimized", json_false());
#endif
#if ASAN_BUILD || TSAN_BUILD
	put(o, j, "sanitized", json_true());
#else
	put(o, j, "sanitized", json_false());
#endif
	return j;
}

static json_t *option_value(const struct opt *row, const void *config)
{
	const char *field = (const char *)config + row->offset;
	char word[64];

	switch (row->type) {
	case OPT_TYPE_FLAG:
		return json_boolean(*(const bool *)field);
	case OPT_TYPE_U64:
	case OPT_TYPE_BYTES:
	case OPT_TYPE_DURATION:
		return json_integer((json_int_t) * (const uint64_t *)field);
	case OPT_TYPE_DOUBLE:
		return json_real(*(const double *)field);
	case OPT_TYPE_CHOICE:
		return json_string(
		    opts_choice_name(row, *(const unsigned *)field, word, sizeof(word)));
	case OPT_TYPE_STRING:
		break;
	}
	const char *text = *(const char *const *)field;

	return text ? json_text(text) : json_null();
}

static json_t *settings(struct out *o, const struct bench_report *r)
{
	json_t *j = json_object();

	for (unsigned i = 0; i < r->options->option_count; i++) {
		const struct opt *row = &r->options->options[i];

		put(o, j, row->name, option_value(row, r->config));
	}
	return j;
}

static json_t *pool(struct out *o, const struct bench_report *r)
{
	const struct plan *p = &r->result->plan;
	struct bench_space all = bench_space_of(r->result);
	json_t *j = json_object();

	put_text(o, j, "policy", r->result->policy);
	put_count(o, j, "bytes", all.pool_bytes);
	put_count(o, j, "memory_nodes", all.nodes);
	put_count(o, j, "chunks", all.chunks);
	put_count(o, j, "chunk_bytes", p->chunk_bytes);
	put_count(o, j, "group_objects", plan_expected_objects(p));
	put_count(o, j, "group_objects_max", p->group_objects);
	put_count(o, j, "object_bytes", p->object_bytes);
	put_count(o, j, "capacity_objects", all.objects);
	put_count(o, j, "metadata_bytes", all.metadata_bytes);
	put_count(o, j, "compute_node_bytes", r->result->client_memory_bytes);
	put(o, j, "fill_factor", json_real(plan_fill_factor(p)));
	return j;
}

static json_t *trace(struct out *o, const struct bench_report *r)
{
	const struct trace_footprint *f = r->footprint;
	json_t *j = json_object();

	if (!f) {
		json_decref(j);
		return json_null();
	}
	put_text(o, j, "format", r->trace_format);
	put_count(o, j, "requests", f->requests);
	put_count(o, j, "distinct", f->distinct);
	put_count(o, j, "bytes", f->bytes);
	put_count(o, j, "request_bytes", f->request_bytes);
	put_count(o, j, "value_bytes_max", f->size_max);
	put_count(o, j, "collisions", f->collisions);
	put(o, j, "hit_ratio_max", json_real(bench_ratio(r->ceiling.hits, r->ceiling.gets)));
	return j;
}

static json_t *latency(struct out *o, const struct hist *h)
{
	json_t *j = json_object();

	put_count(o, j, "count", h->count);
	put(o, j, "mean", json_real(hist_mean_ns(h)));
	put_count(o, j, "min", hist_min_ns(h));
	put_count(o, j, "p50", hist_percentile_ns(h, 50));
	put_count(o, j, "p90", hist_percentile_ns(h, 90));
	put_count(o, j, "p99", hist_percentile_ns(h, 99));
	put_count(o, j, "p999", hist_percentile_ns(h, 99.9));
	put_count(o, j, "p9999", hist_percentile_ns(h, 99.99));
	put_count(o, j, "max", hist_max_ns(h));
	return j;
}

static json_t *latencies(struct out *o, const struct bench_result *b)
{
	json_t *j = json_object();

	for (unsigned i = 0; i < BENCH_LATENCIES; i++)
		put(o, j, bench_latency_name((enum bench_latency)i), latency(o, &b->latency[i]));
	return j;
}

static json_t *count(struct out *o, struct fab_count c, uint64_t verbs)
{
	json_t *j = json_object();

	put_count(o, j, "verbs", c.verbs);
	put(o, j, "share", json_real(bench_ratio(c.verbs, verbs)));
	put_count(o, j, "bytes", c.bytes);
	put_count(o, j, "cas_failed", c.cas_failed);
	put_count(o, j, "errors", c.errors);
	return j;
}

static json_t *verbs(struct out *o, const struct fab_counts *v)
{
	uint64_t total = fab_counts_total(v).verbs;
	json_t *j = json_object(), *purposes = json_object(), *codes = json_object();

	put(o, j, "all", count(o, fab_counts_total(v), total));
	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		put(o, purposes, fab_purpose_name((enum fab_purpose)p),
		    count(o, fab_counts_of_purpose(v, (enum fab_purpose)p), total));
	for (unsigned c = 0; c < FAB_CODES; c++)
		put(o, codes, fab_code_name((enum fab_code)c),
		    count(o, fab_counts_of_code(v, (enum fab_code)c), total));
	put(o, j, "by_purpose", purposes);
	put(o, j, "by_code", codes);
	uint64_t housekeeping = fab_counts_of_purpose(v, FAB_HOTNESS).verbs +
				fab_counts_of_purpose(v, FAB_EVICTION).verbs +
				fab_counts_of_purpose(v, FAB_COMPACTION).verbs +
				fab_counts_of_purpose(v, FAB_SPACE).verbs;

	put(o, j, "housekeeping_share", json_real(bench_ratio(housekeeping, total)));
	return j;
}

static json_t *result(struct out *o, const struct bench_report *r)
{
	const struct bench_result *b = r->result;
	json_t *j = json_object();

	put_count(o, j, "workers", b->workers);
	put(o, j, "seconds", json_real(b->seconds));
	put(o, j, "warm_up_seconds", json_real(b->warm_up_seconds));
	put(o, j, "throughput",
	    json_real(b->seconds > 0 ? (double)b->tally.operations / b->seconds : 0));
	put(o, j, "hit_ratio", json_real(bench_ratio(b->tally.hits, b->tally.gets)));
	put(o, j, "byte_hit_ratio", json_real(bench_ratio(b->tally.hit_bytes, b->tally.get_bytes)));
	put_count(o, j, "value_bytes_min", b->value_bytes_min);
	put_count(o, j, "value_bytes_max", b->value_bytes_max);
#define TALLY(name, sentence) put_count(o, j, #name, b->tally.name);
	BENCH_TALLIES(TALLY)
#undef TALLY
	put(o, j, "sealed_fill", json_real(report_sealed_fill(b)));
	put(o, j, "latency_ns", latencies(o, b));
	put(o, j, "verbs", verbs(o, &b->verbs));
	json_t *cache = json_object();

#define COUNTER(name, sentence) put_count(o, cache, #name, b->cache.name);
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	put(o, j, "cache", cache);
	return j;
}

static json_t *lru(struct out *o, const struct bench_reference *ref)
{
	json_t *j = json_object();

	if (!ref->known) {
		json_decref(j);
		return json_null();
	}
	put_count(o, j, "capacity_objects", ref->limit.objects);
	put_count(o, j, "capacity_bytes", ref->limit.bytes);
	put_count(o, j, "gets", ref->gets);
	put_count(o, j, "hits", ref->hits);
	put(o, j, "hit_ratio", json_real(bench_ratio(ref->hits, ref->gets)));
	return j;
}

static json_t *whole(struct out *o, const struct bench_report *r)
{
	json_t *j = json_object(), *warnings = json_array();

	put_text(o, j, "schema", "forge-bench");
	put_count(o, j, "schema_version", BENCH_SCHEMA_VERSION);
	put_text(o, j, "program", r->program);
	put_text(o, j, "load", r->load);
	put(o, j, "host", host(o));
	put(o, j, "build", build(o));
	put(o, j, "settings", settings(o, r));
	put(o, j, "pool", pool(o, r));
	put(o, j, "trace", trace(o, r));
	put(o, j, "result", result(o, r));
	put(o, j, "lru", lru(o, &r->lru));
	if (r->aside)
		put(o, j, r->aside->name, r->aside->json(r->aside->context));
	for (unsigned i = 0; i < r->warning_count; i++)
		if (json_array_append_new(warnings, json_text(r->warnings[i])))
			o->failed = true;
	put(o, j, "warnings", warnings);
	return j;
}

int report_json(const struct bench_report *r, const char *path)
{
	struct out o = {0};
	json_t *j = whole(&o, r);
	FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
	int status = 0;

	if (o.failed || !j)
		status = FORGE_E_NO_MEMORY;
	else if (!file || json_dumpf(j, file, JSON_INDENT(2) | JSON_REAL_PRECISION(10)) ||
		 fputc('\n', file) == EOF || fflush(file))
		status = FORGE_E_SYSTEM;

	int error = errno;

	json_decref(j);
	if (file && file != stdout && fclose(file) && !status) {
		status = FORGE_E_SYSTEM;
		error = errno;
	}
	errno = error;
	return status;
}
