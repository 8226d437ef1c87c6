/*
 * clock.h: where a worker gets the time from.
 *
 * Production uses clock_monotonic(); the scheduler and the simulator supply their own, so no
 * code below the client may ask the operating system.  A clock is borrowed by its workers and
 * must outlive them; now_ns may be called from any thread for clock_monotonic().
 */
#ifndef FORGE_BASE_CLOCK_H
#define FORGE_BASE_CLOCK_H

#include <stdint.h>

struct clock {
	uint64_t (*now_ns)(const struct clock *);
};

static inline uint64_t clock_now_ns(const struct clock *c)
{
	return c->now_ns(c);
}

/*
 * The time since the host was started, also while it was suspended (CLOCK_BOOTTIME through the
 * vDSO: no system call), the same in all processes.  Nobody can set it.
 */
const struct clock *clock_monotonic(void);

#endif
