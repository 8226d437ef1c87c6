/*
 * keys.c: `forge keys`: every key of a pool.
 *
 * It attaches for a share of the buckets at a time and prints after it has left, because whoever
 * reads its output may take his time, and nobody attached should be waited for.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/opts.h"
#include "cache/scan.h"
#include "client/flows.h"
#include "client/view.h"
#include "tool/attach.h"

/* Text collected in one attachment, more or less. */
#define SHARE_BYTES (1u << 20)
/* Buckets that are scanned at once. */
#define FLOWS 32u
/* Tries at a bucket that others keep changing. */
#define TRIES_MAX 100u

struct config {
	const char *pool;
	bool with_values;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    OPT_FLAG(struct config, with_values, "long", 'l',
	     "Print the bytes of the value and the seconds it has left before each key."),
};

static const struct opts_table table = {
    .command = "forge keys",
    .sentence =
	"Print every key of the pool, one a line, in no order; bytes that are not printable "
	"ASCII, spaces and backslashes as \\xHH.  Others may go on changing the pool: a key "
	"that is there all the time is printed, at least once.  Exit status: 0 there were "
	"some, 1 none, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_keys = {"keys", "Print every key.", run};

struct share {
	FILE *out; /* into memory */
	uint64_t count;
	int with_values;
};

static void print_key(struct share *s, uint64_t now_ms, struct cache_key key,
		      const struct cache_value *value)
{
	const uint8_t *byte = key.data;

	s->count++;
	if (s->with_values) {
		fprintf(s->out, "%10" PRIu32 " ", value->bytes);
		if (value->expiry_ms == 0)
			fprintf(s->out, "%10s ", "-");
		else
			fprintf(s->out, "%10" PRIu64 " ",
				value->expiry_ms > now_ms ? (value->expiry_ms - now_ms) / 1000 : 0);
	}
	for (uint32_t i = 0; i < key.bytes; i++)
		if (byte[i] > ' ' && byte[i] < 0x7f && byte[i] != '\\')
			fputc(byte[i], s->out);
		else
			fprintf(s->out, "\\x%02x", byte[i]);
	fputc('\n', s->out);
}

/* How far it is: a bucket of a memory node. */
struct progress {
	uint32_t member, member_count;
	uint32_t bucket;
};

/* What the flows of an attachment have in common. */
struct collecting {
	struct share *share;
	struct progress *at;
	int status; /* the first error */
};

/* One of the flows that scan beside each other, so that round trips overlap. */
struct scanner {
	struct flow flow;
	struct collecting *of;
	uint64_t now_ms;
	uint32_t member; /* being scanned */
};

static void print_scanned(void *context, struct cache_key key, const struct cache_value *value)
{
	const struct scanner *s = context;

	/* Others were left behind when the nodes were changed. */
	if (view_member_of(s->flow.view, key) == s->member)
		print_key(s->of->share, s->now_ms, key, value);
}

/* Is there another bucket, and room for its text? */
static int goes_on(const struct collecting *c)
{
	return !c->status && c->at->member < c->at->member_count &&
	       ftell(c->share->out) < (long)SHARE_BYTES;
}

static MAY_WAIT int scan_next(struct scanner *s)
{
	struct progress *at = s->of->at;
	uint32_t member = at->member;
	struct cache *cache;
	int status = view_cache(s->flow.view, member, &cache);

	if (status || at->member != member)
		return status; /* others went on while this one waited */
	uint32_t bucket = at->bucket++;

	if (at->bucket >= cache->cn->pool->plan.bucket_count) {
		at->bucket = 0;
		at->member++;
	}
	s->now_ms = cache_pool_ms(cache);
	s->member = member;
	status = FORGE_E_AGAIN;
	for (unsigned try = 0; try < TRIES_MAX && status == FORGE_E_AGAIN; try++)
		status = cache_scan_home(cache, bucket, print_scanned, s);
	return status;
}

static MAY_WAIT void scan(struct flow *f)
{
	struct scanner *s = (struct scanner *)f;

	while (goes_on(s->of)) {
		int status = scan_next(s);

		if (status && !s->of->status)
			s->of->status = status;
	}
	flows_put(f);
}

/* Scan from there on until there is enough text. */
static MAY_WAIT int collect(struct attached *a, struct share *share, struct progress *at)
{
	struct collecting c = {.share = share, .at = at};
	struct flows flows;
	int status = flows_open(&flows, a->session, FLOWS, sizeof(struct scanner));

	if (status)
		return status;
	for (unsigned i = 0; i < FLOWS && !status && goes_on(&c); i++) {
		struct scanner *s = (struct scanner *)flows_take(&flows);

		status = s ? 0 : FORGE_E_NO_MEMORY;
		if (s) {
			s->of = &c;
			status = flows_start(&s->flow, scan);
		}
	}
	flows_finish(&flows);
	flows_close(&flows);
	return status ? status : c.status;
}

/* One attachment.  0, or the exit status to end with. */
static int print_share(const struct config *config, struct share *s, struct progress *at)
{
	char *text = NULL;
	size_t bytes = 0;
	struct attached a;
	int exit_status = tool_attach(&command_keys, config->pool, &a);

	if (exit_status)
		return exit_status;
	at->member_count = client_member_count(a.client);
	s->out = open_memstream(&text, &bytes);
	int status = s->out ? collect(&a, s, at) : FORGE_E_NO_MEMORY;

	if (s->out && (ferror(s->out) | fclose(s->out)))
		status = FORGE_E_NO_MEMORY;
	tool_detach(&a);
	if (status)
		exit_status = tool_flow_error(&command_keys, config->pool, status);
	else if (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0)
		exit_status = tool_fail(&command_keys, "cannot write the keys: %m");
	free(text);
	return exit_status;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct progress at = {0};
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	struct share share = {.with_values = config.with_values};

	do {
		status = print_share(&config, &share, &at);
	} while (!status && at.member < at.member_count);
	return status ? status : share.count ? TOOL_OK : TOOL_NO;
}
