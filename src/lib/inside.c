/* inside.c: counters, the log and where memory comes from. */
#include "base/log.h"
#include "lib/lib.h"

#define TEXT_OF(x) #x
#define TEXT(x)	   TEXT_OF(x)

const char *forge_version(void)
{
	return TEXT(FORGE_VERSION_MAJOR) "." TEXT(FORGE_VERSION_MINOR) "." TEXT(
	    FORGE_VERSION_PATCH);
}

int forge_session_stats(const struct forge_session *s, forge_stat_fn each, void *context)
{
	int status = lib_check_session(s);

	if (!status && !each)
		status = lib_fail(FORGE_E_INVAL, "the function to call is NULL");
	if (status)
		return status;
	struct cache_counters sum = {0};

	view_count(s->view, &sum);

	flows_count(&s->flight.flows, &sum);
#define COUNTER(name, sentence) each(context, #name, sum.name, sentence);
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	return 0;
}

/* ---- log ---------------------------------------------------------------------------------- */

static struct {
	forge_log_fn fn;
	void *context;
} hook;

static void pass_line(void *context, enum log_level level, const char *line)
{
	hook.fn(hook.context, (enum forge_log_level)level, line);
}

_Static_assert((int)FORGE_LOG_ERROR == LOG_ERROR && (int)FORGE_LOG_WARN == LOG_WARN &&
		   (int)FORGE_LOG_INFO == LOG_INFO && (int)FORGE_LOG_DEBUG == LOG_DEBUG,
	       "levels are the same");

void forge_set_log(forge_log_fn log, void *context, enum forge_log_level level)
{
	hook.fn = log;
	hook.context = context;
	log_set_hook(log ? pass_line : NULL, NULL);
	log_set_level((enum log_level)level);
}
