/* del.c: `forge del`: remove a key. */
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
    .command = "forge del",
    .operands = "KEY",
    .sentence = "Remove KEY.  Exit status: 0 removed, 1 it was not there, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
    .operands_min = 1,
    .operands_max = 1,
};

static int run(int argc, char **argv);

const struct command command_del = {"del", "Remove a key.", run};

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct cache_key key;
	struct attached a;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	status = tool_key(&command_del, parsed.operands[0], &key);
	if (!status)
		status = tool_attach(&command_del, config.pool, &a);
	if (status)
		return status;
	status = session_delete(a.session, key);
	if (status && status != FORGE_MISS)
		return tool_key_error(&command_del, &a, config.pool, key, status);
	tool_detach(&a);
	return status ? TOOL_NO : TOOL_OK;
}
