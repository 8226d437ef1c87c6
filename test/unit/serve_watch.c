/*
 * A worker's event loop: who is ready is called once in a turn, whoever is taken out in that turn
 * is not called any more, and when more are ready than a turn holds all have theirs in the next
 * ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "serve/watch.h"

#define SHOWN_COUNT (2u * WATCH_READY_MAX + 5u)

struct shown {
	struct watched watched;
	struct watch *watch;
	struct shown *removes; /* when it is called */
	unsigned calls;
};

static void on_ready(void *owner)
{
	struct shown *s = owner;

	s->calls++;
	if (s->removes) {
		watch_remove(s->watch, &s->removes->watched);
		close(s->removes->watched.fd);
		s->removes->watched.fd = -1;
	}
	s->removes = NULL;
}

/* An eventfd that is readable, or else that only becomes so. */
static void show(struct watch *w, struct shown *s, bool ready)
{
	*s = (struct shown){
	    .watch = w,
	    .watched = {.fd = eventfd(ready, EFD_CLOEXEC), .on_ready = on_ready, .owner = s},
	};
	assert_true(s->watched.fd >= 0);
	assert_int_equal(watch_add(w, &s->watched, EPOLLIN), 0);
}

static void hide(struct shown *s)
{
	if (s->watched.fd < 0)
		return;
	watch_remove(s->watch, &s->watched);
	close(s->watched.fd);
}

static void calls_who_is_ready(void **state)
{
	struct watch w;
	struct shown ready, idle;

	(void)state;
	assert_int_equal(watch_open(&w), 0);
	show(&w, &ready, true);
	show(&w, &idle, false);
	watch_turn(&w, WATCH_FOREVER);
	watch_turn(&w, WATCH_FOREVER);
	assert_int_equal(ready.calls, 2);
	assert_int_equal(idle.calls, 0);
	hide(&ready);
	watch_turn(&w, 0);
	assert_int_equal(ready.calls, 2);
	hide(&idle);
	watch_close(&w);
}

/* Of two that are ready the one that is called first takes the other out, or itself. */
static void calls_nobody_who_was_removed(void **state)
{
	struct watch w;
	struct shown a, b;

	(void)state;
	assert_int_equal(watch_open(&w), 0);
	show(&w, &a, true);
	show(&w, &b, true);
	a.removes = &b;
	b.removes = &a;
	watch_turn(&w, WATCH_FOREVER);
	assert_int_equal(a.calls + b.calls, 1);
	struct shown *left = a.calls ? &a : &b;

	left->removes = left;
	watch_turn(&w, WATCH_FOREVER);
	assert_int_equal(left->calls, 2);
	watch_turn(&w, 0);
	assert_int_equal(a.calls + b.calls, 2);
	hide(&a);
	hide(&b);
	watch_close(&w);
}

static void calls_all_in_the_end(void **state)
{
	static struct shown shown[SHOWN_COUNT];
	struct watch w;

	(void)state;
	assert_int_equal(watch_open(&w), 0);
	for (unsigned i = 0; i < SHOWN_COUNT; i++)
		show(&w, &shown[i], true);
	for (unsigned i = 0; i < 3; i++)
		watch_turn(&w, WATCH_FOREVER);
	for (unsigned i = 0; i < SHOWN_COUNT; i++) {
		assert_in_range(shown[i].calls, 1, 2);
		hide(&shown[i]);
	}
	watch_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(calls_who_is_ready),
	    cmocka_unit_test(calls_nobody_who_was_removed),
	    cmocka_unit_test(calls_all_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
