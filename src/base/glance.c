/* glance.c: looking at the clock, and learning how fast the counter is. */
#include "base/glance.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* A look in which the thread was interrupted says nothing about the counter. */
#define LOOK_TICKS_MAX 4000u
/* The rate is measured over at least so long, and anew from time to time. */
#define RATE_NS_MIN UINT64_C(1000000)
#define RATE_NS_MAX UINT64_C(1000000000)

/* Does the counter go at one rate, whatever the processor does, and on all of them alike? */
static int counter_is_steady(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d = 0;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
#else
	return 0;
#endif
}

void glance_init(struct glance *w, const struct clock *clock)
{
	*w = (struct glance){0};
	if (clock == clock_monotonic() && counter_is_steady())
		w->clock = clock;
}

static void measure_rate(struct glance *w)
{
	uint64_t ns = w->ns - w->base_ns, ticks = w->ticks - w->base_ticks;

	if (w->base_ns && ns < RATE_NS_MIN)
		return;
	/* Neither before the first look, nor after a long time, nor when the counter jumped. */
	if (w->base_ns && ns <= 2 * RATE_NS_MAX && ticks >= ns / 2 && ticks <= ns * 16)
		w->ns_per_tick = (ns << 32) / ticks;
	else
		w->ns_per_tick = 0;
	if (!w->ns_per_tick || ns >= RATE_NS_MAX) {
		w->base_ns = w->ns;
		w->base_ticks = w->ticks;
	}
}

uint64_t glance_look(struct glance *w, const struct clock *c)
{
	if (w->clock != c)
		return clock_now_ns(c);
	uint64_t before = glance_ticks(), ns = clock_now_ns(c);

	w->ticks_max = 0;
	if (glance_ticks() - before > LOOK_TICKS_MAX)
		return ns;
	w->ticks = before;
	w->ns = ns;
	measure_rate(w);
	if (w->ns_per_tick)
		w->ticks_max = (GLANCE_NS << 32) / w->ns_per_tick;
	return ns;
}
