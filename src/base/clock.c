/* clock.c: the production clock. */
#include "base/clock.h"

#include <time.h>

static uint64_t monotonic_now_ns(const struct clock *c)
{
	struct timespec t;

	(void)c;
	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const struct clock *clock_monotonic(void)
{
	static const struct clock monotonic = {monotonic_now_ns};

	return &monotonic;
}
