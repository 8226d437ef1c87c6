/*
 * delay.h: a provider that makes another one as slow as a network.
 *
 * Every post takes a given time to complete, and meanwhile the connection accepts further ones,
 * as a network does: whoever waits for each verb in turn pays the time at each, and whoever has
 * many in flight pays it once.  For benchmarks and tests on one host; a client opens its
 * connections through it when its pool's name ends in "?latency=TIME".
 *
 * Who may call: set-up code.  A connection belongs to one thread and owns the inner one, which
 * completes at post.
 */
#ifndef FORGE_FABRIC_DELAY_H
#define FORGE_FABRIC_DELAY_H

#include "base/clock.h"
#include "fabric/fabric.h"

/*
 * Posts that may be out at once; the next one waits for the oldest.  As long as a queue of a
 * network card, and short enough to stay in the nearest cache.
 */
#define DELAY_POSTS_MAX 128u

/*
 * Wrap inner, which it owns from now on, also when it fails; clock is borrowed.
 * 0, FORGE_E_INVAL when inner does not complete at post, FORGE_E_NO_MEMORY.
 */
int delay_open(struct fab *inner, uint64_t latency_ns, const struct clock *clock, struct fab **out);

#endif
