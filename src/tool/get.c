/* get.c: `forge get`: print the value of a key. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/opts.h"
#include "tool/attach.h"

struct config {
	const char *pool;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 'p', TOOL_POOL_DEFAULT, "NAME",
	       "The pool: " TOOL_POOL_NAMES "."),
    TOOL_KEY_FILE_OPTION(struct config),
};

static const struct opts_table table = {
    .command = "forge get",
    .operands = "KEY",
    .sentence = "Print the value of KEY.  Exit status: 0 found, 1 not in the cache, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
    .operands_min = 1,
    .operands_max = 1,
};

static int run(int argc, char **argv);

const struct command command_get = {"get", "Print the value of a key.", run};

/* Copy the value out, since it lies in the session's scratch. */
static int fetch(struct attached *a, struct cache_key key, char **value, size_t *bytes)
{
	struct cache_value found;
	int status = session_get(a->session, key, &found);

	if (status)
		return status;
	*value = malloc(found.bytes + 1);
	if (!*value)
		return FORGE_E_NO_MEMORY;
	memcpy(*value, found.data, found.bytes);
	*bytes = found.bytes;
	return 0;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct cache_key key;
	struct attached a;
	char *value = NULL;
	size_t bytes = 0;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	status = tool_key(&command_get, parsed.operands[0], &key);
	if (!status)
		status = tool_attach(&command_get, config.pool, &a);
	if (status)
		return status;
	status = fetch(&a, key, &value, &bytes);
	if (status && status != FORGE_MISS)
		return tool_key_error(&command_get, &a, config.pool, key, status);
	tool_detach(&a);
	if (status)
		return TOOL_NO;
	if (isatty(STDOUT_FILENO))
		value[bytes++] = '\n';
	if (fwrite(value, 1, bytes, stdout) != bytes || fflush(stdout) != 0)
		status = tool_fail(&command_get, "cannot write the value: %m");
	free(value);
	return status;
}
