/*
 * glance.c: the time at a glance beside looks at the clock, and clocks that are always looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/glance.h"

static void test_agrees_with_the_clock(void **state)
{
	const struct clock *clock = clock_monotonic();
	struct glance g;
	uint64_t end_ns = clock_now_ns(clock) + 30000000, by_counter = 0;

	glance_init(&g, clock);
	do {
		uint64_t before = clock_now_ns(clock), looked = g.ticks;
		uint64_t ns = glance_now_ns(&g, clock), after = clock_now_ns(clock);

		by_counter += g.ticks == looked;
		/* Of LOOK_TICKS_MAX, some 2 us, and what the rate is off by. */
		assert_true((int64_t)(ns - before) >= -1000);
		assert_true((int64_t)(ns - after) <= 5000);
	} while (clock_now_ns(clock) < end_ns);
	/* Where there is a counter it is what tells the time, once its rate is known. */
	assert_true(!g.clock || by_counter > 0);
}

/* What another test does to the clock it can do at any moment. */
struct own_clock {
	struct clock clock;
	uint64_t ns;
	unsigned looks;
};

static uint64_t own_now_ns(const struct clock *c)
{
	struct own_clock *own = (struct own_clock *)(uintptr_t)c;

	own->looks++;
	return own->ns;
}

static void test_other_clocks_are_looked_at(void **state)
{
	struct own_clock own = {.clock = {own_now_ns}};
	struct glance g;

	/* Also when it is the second clock of the one who looks. */
	for (unsigned second = 0; second < 2; second++) {
		glance_init(&g, second ? clock_monotonic() : &own.clock);
		uint64_t end_ns = clock_now_ns(clock_monotonic()) + 3000000;

		while (second && glance_now_ns(&g, clock_monotonic()) < end_ns)
			;
		own.looks = 0;
		for (unsigned i = 0; i < 1000; i++) {
			own.ns = i * UINT64_C(1000000007);
			assert_int_equal(glance_now_ns(&g, &own.clock), own.ns);
		}
		assert_int_equal(own.looks, 1000);
	}
}

/* A counter that is behind its last value, or far ahead of it, says nothing. */
static void test_a_jump_is_noticed(void **state)
{
	const struct clock *clock = clock_monotonic();
	struct glance g;

	glance_init(&g, clock);
	if (!g.clock)
		skip();
	for (int by = -1; by <= 1; by += 2) {
		uint64_t end_ns = clock_now_ns(clock) + 5000000;

		while (glance_now_ns(&g, clock) < end_ns || !g.ticks_max)
			;
		g.ticks += (uint64_t)by * (UINT64_C(1) << 40);
		uint64_t before = clock_now_ns(clock), ns = glance_now_ns(&g, clock);

		assert_true((int64_t)(ns - before) >= -1000);
		assert_true((int64_t)(ns - clock_now_ns(clock)) <= 5000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_agrees_with_the_clock),
	    cmocka_unit_test(test_other_clocks_are_looked_at),
	    cmocka_unit_test(test_a_jump_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
