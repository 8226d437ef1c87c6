/*
 * report.h: the result of a run as a page for people and as JSON for programs.
 *
 * doc/benchmarks.md lists every field of the JSON and is checked against it by a test; a field
 * that changes its meaning or goes away raises BENCH_SCHEMA_VERSION.
 */
#ifndef FORGE_BENCH_REPORT_H
#define FORGE_BENCH_REPORT_H

#include "base/opts.h"
#include "bench/reference.h"

#define BENCH_SCHEMA_VERSION 1

#define REPORT_WARNINGS_MAX 8u

struct json_t;

/* What a program has to say beside; the simulator, about the machines it simulated. */
struct bench_aside {
	const char *name; /* of its object in the JSON */
	const void *context;
	void (*print)(const void *context, FILE *out); /* lines of the page */
	struct json_t *(*json)(const void *context);   /* a new object; NULL: no memory */
};

struct bench_report {
	const char *program; /* "bench" or "replay" */
	const char *load;    /* the workload's text or the trace's path */
	/* The options it ran with, for the JSON's settings. */
	const struct opts_table *options;
	const void *config;
	const struct bench_result *result;
	uint64_t wished_objects; /* how many the pool was to hold at most; 0: nobody said */
	struct bench_reference lru;
	const struct bench_aside *aside; /* NULL: nothing */
	bool virtual_time;		 /* no processor of this host was waited for */
	/* Of a trace; footprint NULL for a workload. */
	const struct trace_footprint *footprint;
	struct bench_ceiling ceiling;
	const char *trace_format;
	char warnings[REPORT_WARNINGS_MAX][256];
	unsigned warning_count;
};

/*
 * Look for what makes a result mean something else than the user thinks:
 *   one key       every operation went to a single key
 *   hit ratio     bench: below 0.1 % or above 99.9 % of at least 1,000 Gets;
 *                 replay: exactly 0 or exactly 1
 *   no Gets       so there is no hit ratio
 *   larger pool   than was wished for, because no smaller one exists
 *   client-bound  more workers than processors: latencies include waiting for one
 *   refusals      Sets that were given up or refused
 */
void report_warn(struct bench_report *);

/* Share of the chunks that were sealed in the run which objects and TWIMs filled; 0: none was. */
double report_sealed_fill(const struct bench_result *);

/* 0 or FORGE_E_SYSTEM when out refused to be written, with errno. */
int report_print(const struct bench_report *, FILE *out);

/* Write the JSON to path, "-" being standard output.  As report_print(), or FORGE_E_NO_MEMORY. */
int report_json(const struct bench_report *, const char *path);

#endif
