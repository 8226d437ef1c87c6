/*
 * under_test.h: what the conformance suite needs to know about a provider.
 *
 * A provider joins the suite with one row in under_test.c: how to make an export, connect to it
 * and clean up.  Connections are closed by the test, before close_world.
 */
#ifndef FORGE_TEST_FABRIC_UNDER_TEST_H
#define FORGE_TEST_FABRIC_UNDER_TEST_H

#include "fabric/fabric.h"

struct under_test {
	const char *name;
	/* Make a zeroed export of bytes; NULL fails the test. */
	void *(*open_world)(uint64_t bytes);
	/* A new connection to it, on any thread or in a forked child; NULL fails the test. */
	struct fab *(*connect)(void *world);
	void (*close_world)(void *world);
	int forks;     /* a child made by fork() can connect to the same export */
	int alone;     /* one thread has all connections: concurrency.c leaves it out */
	int is_remote; /* a verb takes a round trip between threads */
};

extern const struct under_test providers_under_test[];
extern const unsigned providers_under_test_count;

/* Post ops, then kick and poll until each has completed. */
void run_ops(struct fab *f, struct fab_op *ops, unsigned n);

#endif
