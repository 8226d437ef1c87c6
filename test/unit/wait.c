/*
 * Whether a waiter looks or sleeps, and that both ways lead back: good waits keep it looking, waits
 * in vain make it sleep at once, and a good one of those it tries meanwhile makes it look again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fabric/wait.h"

#define SPIN_NS UINT64_C(50000)
#define LOOK_NS UINT64_C(1000)

static uint64_t now_ns = 1;

/* Look that often, a microsecond apart, find nothing; does it still look? */
static int looks_after(struct fab_wait *w, unsigned looks)
{
	for (unsigned i = 0; i < looks && !w->sleeps; i++) {
		now_ns += LOOK_NS;
		fab_wait_in_vain(w, now_ns, SPIN_NS);
	}
	return !w->sleeps;
}

static void wait_well(struct fab_wait *w)
{
	assert_true(looks_after(w, 3));
	fab_wait_found(w);
}

static void wait_in_vain(struct fab_wait *w)
{
	assert_false(looks_after(w, SPIN_NS / LOOK_NS + 1));
	fab_wait_found(w);
}

static void wait_while_away(struct fab_wait *w)
{
	assert_true(looks_after(w, 2));
	now_ns += FAB_WAIT_AWAY_NS;
	assert_true(looks_after(w, 1));
	fab_wait_found(w);
}

static void nobody_sleeps_before_the_time_for_looking_is_over(void **state)
{
	struct fab_wait w = {0};

	assert_true(looks_after(&w, SPIN_NS / LOOK_NS));
	assert_false(looks_after(&w, 1));
}

static void good_waits_are_looked_through(void **state)
{
	struct fab_wait w = {0};

	for (unsigned i = 0; i < 1000; i++)
		wait_well(&w);
	assert_false(w.sleeps);
}

static void exhaust(struct fab_wait *w, void (*wait)(struct fab_wait *))
{
	for (unsigned i = 0; i < FAB_WAIT_FORGIVEN; i++) {
		assert_false(w->sleeps);
		wait(w);
	}
	assert_true(w->sleeps);
}

/* From now on; the number of waits until it looks again. */
static unsigned waits_at_once(struct fab_wait *w)
{
	unsigned n = 0;

	for (; w->sleeps; n++) {
		fab_wait_in_vain(w, now_ns += LOOK_NS, SPIN_NS);
		assert_true(w->sleeps);
		fab_wait_found(w);
	}
	return n;
}

static void waits_in_vain_end_the_looking(void **state)
{
	struct fab_wait w = {0};

	exhaust(&w, wait_in_vain);
	assert_in_range(waits_at_once(&w), 1, FAB_WAIT_RETRY);
	/* The one it looks through is in vain, too. */
	wait_in_vain(&w);
	assert_int_equal(waits_at_once(&w), FAB_WAIT_RETRY - 1);
}

static void a_processor_that_others_have_ends_the_looking(void **state)
{
	struct fab_wait w = {0};

	exhaust(&w, wait_while_away);
}

static void a_good_wait_makes_up_for_those_in_vain(void **state)
{
	struct fab_wait w = {0};

	for (unsigned i = 0; i < 100; i++) {
		for (unsigned k = 1; k < FAB_WAIT_FORGIVEN; k++)
			wait_in_vain(&w);
		wait_well(&w);
	}
	assert_false(w.sleeps);
}

static void a_good_wait_that_was_tried_ends_the_sleeping(void **state)
{
	struct fab_wait w = {0};

	exhaust(&w, wait_in_vain);
	waits_at_once(&w);
	wait_well(&w);
	for (unsigned k = 1; k < FAB_WAIT_FORGIVEN; k++) {
		wait_in_vain(&w);
		assert_false(w.sleeps);
	}
}

/* Nobody waited, so it says nothing about waiting. */
static void what_is_found_at_once_changes_nothing(void **state)
{
	struct fab_wait w = {0};

	for (unsigned k = 1; k < FAB_WAIT_FORGIVEN; k++)
		wait_in_vain(&w);
	fab_wait_found(&w);
	assert_false(w.sleeps);
	wait_in_vain(&w);
	assert_true(w.sleeps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nobody_sleeps_before_the_time_for_looking_is_over),
	    cmocka_unit_test(good_waits_are_looked_through),
	    cmocka_unit_test(waits_in_vain_end_the_looking),
	    cmocka_unit_test(a_processor_that_others_have_ends_the_looking),
	    cmocka_unit_test(a_good_wait_makes_up_for_those_in_vain),
	    cmocka_unit_test(a_good_wait_that_was_tried_ends_the_sleeping),
	    cmocka_unit_test(what_is_found_at_once_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
