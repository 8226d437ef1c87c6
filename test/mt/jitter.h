/*
 * jitter.h: a provider that stretches the moments between verbs, where races hide.
 *
 * Verbs on shared memory are so quick that two workers rarely meet inside a flow.  This wrapper
 * hands a batch down op by op and, at random, gives up the processor or sleeps in between, as a
 * busy host would.  Order and atomicity stay what fabric.h promises.  For tests; a connection
 * belongs to one thread and borrows the one below; where that does not complete at post, it waits.
 */
#ifndef FORGE_TEST_MT_JITTER_H
#define FORGE_TEST_MT_JITTER_H

#include <stdatomic.h>
#include <stdint.h>

#include "fabric/fabric.h"

/*
 * doom, which may be NULL, counts verbs that change memory down to 0 unless it is 0; before the
 * last of them the process kills itself, as if by kill -9 at exactly that moment.
 * NULL when out of memory.  Close with fab_close(); the connection below stays open.
 */
struct fab *jitter_open(struct fab *below, uint64_t seed, _Atomic uint64_t *doom);

#endif
