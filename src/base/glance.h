/*
 * glance.h: the time for who asks for it again and again, for half of what a look at the clock
 * costs.
 *
 * A look at the monotonic clock goes through the vDSO, which waits until everything before it has
 * been executed, READs of memory that are not in the cache among them.  A glance looks at most
 * every GLANCE_NS, and in between goes by the processor's counter, which orders nothing: on the
 * guest of doc/benchmarks.md 20 and 9 ns.
 *
 * It is right to within a microsecond: ahead of the clock by no more than a look took, behind it by
 * what the processor executes ahead, and off by what the rate is, some 50 ns in a million.  So two
 * of them may seem to go back, as the looks of two threads may: compare times signed.  Nothing that
 * is decided by it needs more: expiries are in ms, and polls and the trust in a look at the fence,
 * whose flush lasts twice as long, in hundreds of us.  A counter that stands still or jumps is
 * noticed within GLANCE_NS.  Where the processor does not promise a steady counter, and with any
 * other clock, a glance always is a look.
 *
 * Who may call: one belongs to one thread at a time, as its worker does.
 */
#ifndef FORGE_BASE_GLANCE_H
#define FORGE_BASE_GLANCE_H

#include "base/clock.h"
#include "base/compiler.h"

/* Short beside everything that is decided by it: a poll comes every 100 us or more. */
#define GLANCE_NS UINT64_C(100000)

struct glance {
	const struct clock *clock;    /* NULL: the counter is not to be trusted */
	uint64_t ticks, ns;	      /* of the last look */
	uint64_t ticks_max;	      /* so many after it there has to be another one */
	uint64_t ns_per_tick;	      /* times 2^32; 0: not known yet */
	uint64_t base_ticks, base_ns; /* of an earlier look, which the rate is measured from */
};

/* The processor's counter of time; 0 where there is none that is known to be one. */
static inline uint64_t glance_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

void glance_init(struct glance *, const struct clock *);

/* A look at the clock, for glance_now_ns(). */
uint64_t glance_look(struct glance *, const struct clock *);

/* The time by that clock. */
static inline uint64_t glance_now_ns(struct glance *w, const struct clock *c)
{
	uint64_t passed = glance_ticks() - w->ticks;

	if (likely(passed < w->ticks_max && w->clock == c))
		return w->ns + (passed * w->ns_per_tick >> 32);
	return glance_look(w, c);
}

#endif
