/* queue.c: events come out by time, those of one time in the order they went in. */
#include "vtime/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"

#define EVENTS 5000u

static void test_random_order(void **state)
{
	struct vt_queue q = {0};
	struct prng prng;
	uint32_t in = 0, out = 0;
	struct vt_event last = {0};
	bool seen[EVENTS] = {false};

	prng_seed(&prng, 3);
	/* The serial wraps on the way. */
	q.serial = UINT32_MAX - EVENTS / 2;
	while (out < EVENTS) {
		if (in < EVENTS && (q.count == 0 || prng_below(&prng, 5) < 3)) {
			/* Never before what came out already; often at the same time. */
			assert_true(vt_queue_push(&q, last.time_ps + prng_below(&prng, 20), in++));
			continue;
		}
		struct vt_event e = vt_queue_pop(&q);

		assert_true(out == 0 || e.time_ps > last.time_ps ||
			    (e.time_ps == last.time_ps && (int32_t)(e.serial - last.serial) > 0));
		assert_true(e.what < in && !seen[e.what]);
		seen[e.what] = true;
		last = e;
		out++;
	}
	assert_int_equal(q.count, 0);
	vt_queue_fini(&q);
}

/* The same pushes give the same order, whatever was in the heap before. */
static void test_ties_keep_their_order(void **state)
{
	struct vt_queue q = {0};

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 1000; i++)
			assert_true(vt_queue_push(&q, 1000 + i % 3, i));
		for (uint32_t time = 0; time < 3; time++)
			for (uint32_t i = time; i < 1000; i += 3)
				assert_int_equal(vt_queue_pop(&q).what, i);
	}
	vt_queue_fini(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random_order),
	    cmocka_unit_test(test_ties_keep_their_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
