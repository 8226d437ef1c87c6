/*
 * made_pool.h: a formatted pool in shared memory, for tests.  One thread.
 */
#ifndef FORGE_TEST_MT_MADE_POOL_H
#define FORGE_TEST_MT_MADE_POOL_H

#include "layout/plan.h"

#define MADE_POOL_NAME_BYTES 64

/* Create and format; name receives what to open.  Fails the test when it cannot. */
void made_pool_create(const struct plan_wish *, char name[MADE_POOL_NAME_BYTES]);

void made_pool_unlink(const char *name);

#endif
