/*
 * The log: what passes the threshold reaches the hook once, as one line whatever the values
 * contain; FORGE_LOG sets the threshold and a bad name is refused by name.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"

static struct {
	unsigned lines;
	enum log_level level;
	char last[LOG_LINE_BYTES_MAX];
} seen;

static void remember(void *context, enum log_level level, const char *line)
{
	assert_ptr_equal(context, &seen);
	seen.lines++;
	seen.level = level;
	snprintf(seen.last, sizeof(seen.last), "%s", line);
}

static int set_up(void **state)
{
	memset(&seen, 0, sizeof(seen));
	log_set_level(LOG_WARN);
	log_set_hook(remember, &seen);
	unsetenv("FORGE_LOG");
	return 0;
}

static void the_threshold_decides(void **state)
{
	log_info("not this");
	assert_int_equal(seen.lines, 0);
	errno = EDOM;
	log_warn("pool %s: %d chunks", "a", 3);
	assert_int_equal(errno, EDOM);
	assert_int_equal(seen.lines, 1);
	assert_int_equal(seen.level, LOG_WARN);
	assert_string_equal(seen.last, "pool a: 3 chunks");
	log_set_level(LOG_ERROR);
	log_warn("nor this");
	assert_int_equal(seen.lines, 1);
	log_set_level(LOG_DEBUG);
	log_debug("this");
	assert_int_equal(seen.lines, 2);
}

static void a_value_cannot_forge_a_line(void **state)
{
	log_error("key '%s'", "a\nforge: error: b\033[2J");
	assert_int_equal(seen.lines, 1);
	assert_string_equal(seen.last, "key 'a?forge: error: b?[2J'");
}

static void long_lines_are_cut(void **state)
{
	char big[2 * LOG_LINE_BYTES_MAX];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_error("%s", big);
	assert_int_equal(strlen(seen.last), LOG_LINE_BYTES_MAX - 1);
	assert_string_equal(seen.last + LOG_LINE_BYTES_MAX - 5, "x...");
}

static void the_environment_sets_the_threshold(void **state)
{
	assert_int_equal(log_init_from_env(), 0);
	assert_int_equal(log_get_level(), LOG_WARN);
	setenv("FORGE_LOG", "debug", 1);
	assert_int_equal(log_init_from_env(), 0);
	assert_int_equal(log_get_level(), LOG_DEBUG);
	setenv("FORGE_LOG", "loud", 1);
	assert_int_equal(log_init_from_env(), FORGE_E_INVAL);
	assert_string_equal(seen.last, "FORGE_LOG=loud: must be one of error, warn, info, debug");
	assert_int_equal(log_get_level(), LOG_DEBUG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(the_threshold_decides, set_up),
	    cmocka_unit_test_setup(a_value_cannot_forge_a_line, set_up),
	    cmocka_unit_test_setup(long_lines_are_cut, set_up),
	    cmocka_unit_test_setup(the_environment_sets_the_threshold, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
