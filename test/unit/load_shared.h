/*
 * load_shared.h: where tests find real traces and reference values.
 *
 * For tests in this folder.  They lie in ../shared beside the repository, or where the
 * environment variable FORGE_SHARED says; a test that misses them says so and skips.
 */
#ifndef FORGE_TEST_LOAD_SHARED_H
#define FORGE_TEST_LOAD_SHARED_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define SHARED_PATH_MAX 512

/* The path of a file there; skips the running test, with the reason, when it is absent. */
static inline void shared_path(char path[SHARED_PATH_MAX], const char *name)
{
	const char *shared = getenv("FORGE_SHARED");

	if (shared == NULL)
		shared = SOURCE_ROOT "/../shared";
	snprintf(path, SHARED_PATH_MAX, "%s/%s", shared, name);
	if (access(path, R_OK) != 0) {
		print_message("skip: %s is not there (set FORGE_SHARED)\n", path);
		skip();
	}
}

#endif
