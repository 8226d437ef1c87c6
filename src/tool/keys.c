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
#include "client/scan.h"
#include "tool/attach.h"

/* Text collected in one attachment, more or less. */
#define SHARE_BYTES (1u << 20)
/* Buckets that are scanned at once. */
#define FLOWS 32u

struct config {
	const char *pool;
	bool with_values;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_FLAG(struct config, with_values, "long", 'l',
	     "Print the bytes of the value and the seconds it has left before each key."),
};

static const struct opts_table table = {
    .command = "forge keys",
    .sentence =
	"Print every key of the pool, one a line, in no order; bytes that are not printable "
	"ASCII, spaces and backslashes as \\xHH.  Others may go on changing the pool: a key "
	"that is there all the time is printed, at least once.  Of several memory nodes the keys "
	"of those that live are printed, then an error names the others.  Exit status: 0 there "
	"were "
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

static void print_key(void *context, struct cache_key key, const struct cache_value *value,
		      uint64_t now_ms)
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
				value->expiry_ms > now_ms ? (value->expiry_ms - now_ms) / 1000 : 0);
	}
	for (uint32_t i = 0; i < key.bytes; i++)
		if (byte[i] > ' ' && byte[i] < 0x7f && byte[i] != '\\')
			fputc(byte[i], s->out);
		else
			fprintf(s->out, "\\x%02x", byte[i]);
	fputc('\n', s->out);
}

/* Scan from there on until there is enough text. */
static MAY_WAIT int collect(struct attached *a, struct share *share, struct scan *at)
{
	struct flows flows;
	int status = flows_open(&flows, a->session, FLOWS, sizeof(struct flow));

	if (status)
		return status;
	while (!status && !scan_is_over(at, a->client) && ftell(share->out) < (long)SHARE_BYTES)
		status = scan_page(at, &flows, print_key, share);
	flows_close(&flows);
	return status;
}

/* All that was lost is named; what can be done is the same for each. */
static int flow_error(const struct config *config, struct client *c, const struct scan *at,
		      int status)
{
	char names[1024] = "";
	size_t n = 0;

	for (uint32_t m = 0; status == FORGE_E_NODE && m < client_member_end(c); m++) {
		const char *name = client_member_name(c, m);

		if (scan_lost(at) >> m & 1 && name && n < sizeof(names))
			n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", n ? "," : "",
					      name);
	}
	return tool_flow_error(&command_keys, n ? names : config->pool, status);
}

/* One attachment; what was found is printed, whatever ended it.  0, or the exit status. */
static int print_share(const struct config *config, struct share *s, struct scan *at, int *is_over)
{
	char *text = NULL;
	size_t bytes = 0;
	struct attached a;
	int exit_status = tool_attach(&command_keys, config->pool, &a);

	if (exit_status)
		return exit_status;
	s->out = open_memstream(&text, &bytes);
	int status = s->out ? collect(&a, s, at) : FORGE_E_NO_MEMORY;

	*is_over = scan_is_over(at, a.client);
	if (s->out && (ferror(s->out) | fclose(s->out)))
		status = FORGE_E_NO_MEMORY;
	/* The names belong to the client, and nobody who is attached waits for a reader. */
	if (status)
		exit_status = flow_error(config, a.client, at, status);
	tool_detach(&a);
	if (text && (fwrite(text, 1, bytes, stdout) != bytes || fflush(stdout) != 0))
		exit_status = tool_fail(&command_keys, "cannot write the keys: %m");
	free(text);
	return exit_status;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct scan at = {0};
	int is_over = 0;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	struct share share = {.with_values = config.with_values};

	do {
		status = print_share(&config, &share, &at, &is_over);
	} while (!status && !is_over);
	return status ? status : share.count ? TOOL_OK : TOOL_NO;
}
