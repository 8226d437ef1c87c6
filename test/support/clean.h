/*
 * clean.h: opening a pool by its name, as a stranger does, to see that the checker finds nothing.
 *
 * For tests on pools of their own in shared memory, when nobody is at work in them.  Called by
 * cmocka tests, on any thread; what is found fails the test.
 */
#ifndef FORGE_TEST_SUPPORT_CLEAN_H
#define FORGE_TEST_SUPPORT_CLEAN_H

#include <stdint.h>

#include "check/check.h"

/* Nothing is found in the pool.  How many slots have a live object. */
uint64_t assert_pool_clean(const char *name, const struct check_options *);

#endif
