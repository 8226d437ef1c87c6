/*
 * log.h: a levelled log, one line to standard error per event.
 *
 * Everyone above base may log, but nobody on the data path of a small operation does.  A
 * failure is logged once, where it is first understood, with the values needed to act on it.
 * The threshold is process-wide: warn, unless FORGE_LOG=error|warn|info|debug (read by
 * log_init_from_env) or log_set_level says otherwise.  Any thread may log at any time; a hook,
 * if set, gets each line instead of standard error, on the thread that logged it.
 */
#ifndef FORGE_BASE_LOG_H
#define FORGE_BASE_LOG_H

#include "base/compiler.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
#define LOG_LEVELS 4

/* Longer lines are cut, and end in "...". */
#define LOG_LINE_BYTES_MAX 1024

/*
 * Receives one line, without level prefix and line feed.  line is borrowed for the call.  A hook
 * must not log.
 */
typedef void (*log_hook_fn)(void *context, enum log_level level, const char *line);

/* Use the threshold named by FORGE_LOG, if set.  0, or FORGE_E_INVAL (logged) for a bad name. */
int log_init_from_env(void);

void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Send lines to hook(context, ...); NULL returns to standard error.  Set it before threads. */
void log_set_hook(log_hook_fn hook, void *context);

/* The level of a name, or -1. */
int log_level_of(const char *name);
const char *log_level_name(enum log_level level);

/* Log at a level; nothing is formatted if the threshold is below it.  errno is preserved. */
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif
