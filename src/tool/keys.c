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
#include "client/view.h"
#include "tool/attach.h"

/* Text collected in one attachment, more or less. */
#define SHARE_BYTES (1u << 20)
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
	uint64_t now_ms;
	int with_values;
};

static void print_key(void *context, struct cache_key key, const struct cache_value *value)
{
	struct share *s = context;
	const uint8_t *byte = key.data;

	s->count++;
	if (s->with_values) {
		fprintf(s->out, "%10" PRIu32 " ", value->bytes);
		if (value->expiry_ms == 0)
			fprintf(s->out, "%10s ", "-");
		else
			fprintf(s->out, "%10" PRIu64 " ",
				value->expiry_ms > s->now_ms ? (value->expiry_ms - s->now_ms) / 1000
							     : 0);
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

/* Scan from there on until there is enough text. */
static int collect(struct attached *a, struct share *s, struct progress *at)
{
	int status = 0;

	while (!status && at->member < at->member_count && ftell(s->out) < (long)SHARE_BYTES) {
		struct cache *cache;

		status = view_cache(session_view(a->session), at->member, &cache);
		if (status)
			break;
		s->now_ms = cache_pool_ms(cache);
		status = FORGE_E_AGAIN;
		for (unsigned try = 0; try < TRIES_MAX && status == FORGE_E_AGAIN; try++)
			status = cache_scan_home(cache, at->bucket, print_key, s);
		if (++at->bucket >= cache->cn->pool->plan.bucket_count) {
			at->bucket = 0;
			at->member++;
		}
	}
	return status;
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
