/* set.c: `forge set`: store a value under a key. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "tool/attach.h"

struct config {
	const char *pool;
	const char *file;
	uint64_t ttl;
	const char *key_file;
};

/* A hundred years. */
#define TTL_MAX_US 3153600000000000

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_STRING(struct config, file, "file", 'f', NULL, "FILE", "Read the value from FILE."),
    OPT_DURATION(struct config, ttl, "ttl", 't', "0", "TIME", 0, TTL_MAX_US,
		 "The value is gone after so long; less than a millisecond counts as one.  0: it "
		 "stays until it is evicted."),
};

static const struct opts_table table = {
    .command = "forge set",
    .operands = "KEY [VALUE]",
    .sentence = "Store VALUE under KEY, replacing what was there.  Without VALUE, or when it is "
		"-, the value is read from standard input.  Exit status: 0 stored, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
    .operands_min = 1,
    .operands_max = 2,
};

static int run(int argc, char **argv);

const struct command command_set = {"set", "Store a value under a key.", run};

/* No pool takes more. */
#define INPUT_BYTES_MAX	  PLAN_VALUE_BYTES_LIMIT
#define INPUT_BYTES_FIRST (64u << 10)

struct input {
	const char *data;
	size_t bytes;
	char *owned; /* to be freed, or NULL */
};

/* Read all of f; one byte beyond the limit is read, and shows that there is more. */
static int read_input(FILE *f, const char *name, struct input *out)
{
	size_t room = 0;

	while (out->bytes == room && room <= INPUT_BYTES_MAX) {
		size_t more = room ? 2 * room : INPUT_BYTES_FIRST;
		char *grown = realloc(out->owned, more);

		if (!grown)
			return tool_fail(&command_set, "%s", status_sentence(FORGE_E_NO_MEMORY));
		out->data = out->owned = grown;
		out->bytes += fread(grown + room, 1, more - room, f);
		room = more;
	}
	if (ferror(f))
		return tool_fail(&command_set, "cannot read %s: %m", name);
	if (out->bytes > INPUT_BYTES_MAX)
		return tool_fail(&command_set,
				 "%s has more than %u bytes, and no pool takes a larger value: cut "
				 "it into several keys",
				 name, INPUT_BYTES_MAX);
	return 0;
}

static int take_value(const struct config *config, const struct opts_parsed *parsed,
		      struct input *out)
{
	const char *operand = parsed->operand_count > 1 ? parsed->operands[1] : NULL;
	FILE *f;
	int status;

	if (operand && config->file)
		return tool_fail(&command_set,
				 "both a VALUE and --file %s are given: leave one out",
				 config->file);
	if (operand && strcmp(operand, "-") != 0) {
		*out = (struct input){.data = operand, .bytes = strlen(operand)};
		return 0;
	}
	if (!config->file)
		return read_input(stdin, "standard input", out);
	f = fopen(config->file, "rbe");
	if (!f)
		return tool_fail(&command_set, "cannot open %s: %m; check the %s", config->file,
				 errno == EACCES ? "mode of the file" : "name");
	status = read_input(f, config->file, out);
	fclose(f);
	return status;
}

static int value_too_large(const struct plan *plan, const struct config *config, uint32_t key_bytes,
			   size_t bytes)
{
	/* Without parts value_bytes_max is for a key of 16 bytes. */
	uint32_t most = plan->value_bytes_max + (plan->part_count_max ? 0 : 16 - key_bytes);

	return tool_fail(
	    &command_set,
	    "the value has %zu bytes, %s takes at most %u with this key: cut it into "
	    "several keys, or use memory nodes that were made with a larger --value-max",
	    bytes, config->pool, most);
}

static int store(const struct config *config, struct cache_key key, const struct input *input)
{
	struct cache_item item = {.value = input->data, .bytes = (uint32_t)input->bytes};
	struct attached a;
	int status = tool_attach(&command_set, config->pool, &a);

	if (status)
		return status;
	struct plan plan = client_pool(a.client)->plan;

	if (config->ttl)
		item.expiry_ms = session_expiry_in(a.session, (config->ttl + 999) / 1000);
	status = session_set(a.session, key, &item);
	if (status && status != FORGE_E_VALUE_LARGE)
		return tool_key_error(&command_set, &a, config->pool, key, status);
	tool_detach(&a);
	return status ? value_too_large(&plan, config, key.bytes, input->bytes) : TOOL_OK;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct input input = {0};
	struct cache_key key;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	status = tool_key(&command_set, parsed.operands[0], &key);
	if (!status)
		status = take_value(&config, &parsed, &input);
	if (!status)
		status = store(&config, key, &input);
	free(input.owned);
	return status;
}
