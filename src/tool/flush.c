/* flush.c: `forge flush`: forget everything that is stored. */
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
    .command = "forge flush",
    .sentence = "Forget everything that is stored in the pool, in about 2 ms whatever its size: "
		"from then on no compute node finds any of it.  Exit status: 0 done, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

static int run(int argc, char **argv);

const struct command command_flush = {"flush", "Forget everything that is stored.", run};

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct attached a;
	int status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	status = tool_attach(&command_flush, config.pool, &a);
	if (status)
		return status;
	status = session_flush(a.session);
	tool_detach(&a);
	return status ? tool_flow_error(&command_flush, config.pool, status) : TOOL_OK;
}
