/*
 * late.h: a provider that completes its ops later, one per poll, over one that does so at post.
 *
 * It stands for the network providers in tests of wrappers and wait backends: nothing happens
 * before a kick, ops are out for many polls, a batch has at most LATE_BATCH_OPS_MAX ops.  The
 * connection belongs to one thread and owns inner.
 */
#ifndef FORGE_TEST_FABRIC_LATE_H
#define FORGE_TEST_FABRIC_LATE_H

#include "fabric/fabric.h"

#define LATE_BATCH_OPS_MAX 12
#define LATE_QUEUE_OPS	   256

int late_open(struct fab *inner, struct fab **out);

/* How many kicks there were for something, so far. */
unsigned late_kicks(const struct fab *);

#endif
