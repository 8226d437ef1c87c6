/* log.c: format a line, keep it one line, and hand it to standard error or the hook. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

static _Atomic(int) threshold = LOG_WARN;
static log_hook_fn hook_fn;
static void *hook_context;

static const char *const level_names[LOG_LEVELS] = {"error", "warn", "info", "debug"};

int log_level_of(const char *name)
{
	for (int i = 0; i < LOG_LEVELS; i++)
		if (strcmp(name, level_names[i]) == 0)
			return i;
	return -1;
}

const char *log_level_name(enum log_level level)
{
	return level_names[level];
}

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
	return (enum log_level)atomic_load_explicit(&threshold, memory_order_relaxed);
}

void log_set_hook(log_hook_fn hook, void *context)
{
	hook_fn = hook;
	hook_context = context;
}

int log_init_from_env(void)
{
	const char *name = getenv("FORGE_LOG");
	int level;

	if (!name || !*name)
		return 0;
	level = log_level_of(name);
	if (level < 0) {
		log_error("FORGE_LOG=%s: must be one of error, warn, info, debug", name);
		return FORGE_E_INVAL;
	}
	log_set_level((enum log_level)level);
	return 0;
}

/* Keys and file names come from outside: no control character may forge a second line. */
static void mask_control(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
}

void log_line(enum log_level level, const char *format, ...)
{
	int saved_errno = errno;
	char line[LOG_LINE_BYTES_MAX];
	char whole[LOG_LINE_BYTES_MAX + 32];
	va_list args;
	int n;

	if (level > log_get_level())
		return;
	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n >= (int)sizeof(line))
		strcpy(line + sizeof(line) - 4, "...");
	mask_control(line);
	if (hook_fn) {
		hook_fn(hook_context, level, line);
	} else {
		n = snprintf(whole, sizeof(whole), "forge: %s: %s\n", level_names[level], line);
		/* One write, so that lines of several threads and processes stay whole. */
		if (write(STDERR_FILENO, whole, (size_t)n) < 0) {
			/* There is nobody left to tell. */
		}
	}
	errno = saved_errno;
}
