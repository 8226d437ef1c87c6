/*
 * fiber.c: fibers switch, keep their stacks apart, can be dropped and begun anew.
 *
 * Built twice, once with each backend, so both always compile and behave alike.  What a fiber did
 * is written down in the order it happened and compared with a literal.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/sanitizer.h"
#include "fiber/fiber.h"

static char told[256];

static void tell(const char *word)
{
	strcat(told, word);
	strcat(told, " ");
}

static int start_telling(void **state)
{
	told[0] = '\0';
	return 0;
}

static void three_words(void *argument)
{
	char **words = argument;

	for (unsigned i = 0; i < 3; i++) {
		tell(words[i]);
		if (i < 2)
			fiber_yield();
	}
}

static void test_two_take_turns(void **state)
{
	char *low[] = {"a", "b", "c"}, *high[] = {"A", "B", "C"};
	struct fiber *one = fiber_create(three_words, low, 0);
	struct fiber *two = fiber_create(three_words, high, 0);

	assert_null(fiber_current());
	while (!fiber_done(one)) {
		fiber_resume(one);
		tell("|");
		fiber_resume(two);
		tell("|");
		assert_null(fiber_current());
	}
	assert_true(fiber_done(two));
	assert_string_equal(told, "a | A | b | B | c | C | ");
	fiber_destroy(one);
	fiber_destroy(two);
}

static void outer(void *argument)
{
	char *words[] = {"x", "y", "z"};
	struct fiber *self = fiber_current();
	struct fiber *inner = fiber_create(three_words, words, 0);

	while (!fiber_done(inner)) {
		fiber_resume(inner);
		assert_ptr_equal(fiber_current(), self);
		tell("outer");
		fiber_yield();
	}
	fiber_destroy(inner);
}

static void test_a_fiber_resumes_a_fiber(void **state)
{
	struct fiber *f = fiber_create(outer, NULL, 0);

	while (!fiber_done(f)) {
		fiber_resume(f);
		tell("main");
	}
	assert_string_equal(told, "x outer main y outer main z outer main main ");
	fiber_destroy(f);
}

/* Each fills its frame with its own number, and finds it unchanged after the others have run. */
static void keep_frame(void *argument)
{
	unsigned char frame[2048];
	int *mine = argument;

	memset(frame, *mine, sizeof(frame));
	for (unsigned turn = 0; turn < 5; turn++) {
		/* The compiler must not know what is in there. */
		__asm__ volatile("" ::"r"(frame) : "memory");
		fiber_yield();
		for (unsigned i = 0; i < sizeof(frame); i++)
			if (frame[i] != (unsigned char)*mine)
				*mine = -1;
	}
}

static void test_stacks_are_apart(void **state)
{
	struct fiber *fibers[20];
	int numbers[20];

	for (int i = 0; i < 20; i++) {
		numbers[i] = i + 1;
		fibers[i] = fiber_create(keep_frame, &numbers[i], 16384);
	}
	for (unsigned turn = 0; turn < 6; turn++)
		for (unsigned i = 0; i < 20; i++)
			fiber_resume(fibers[i]);
	for (int i = 0; i < 20; i++) {
		assert_true(fiber_done(fibers[i]));
		assert_int_equal(numbers[i], i + 1);
		fiber_destroy(fibers[i]);
	}
}

static void count_forever(void *argument)
{
	unsigned *count = argument;
	unsigned char frame[512];

	for (;;) {
		memset(frame, (int)*count, sizeof(frame));
		__asm__ volatile("" ::"r"(frame) : "memory");
		++*count;
		fiber_yield();
	}
}

static void count_once(void *argument)
{
	++*(unsigned *)argument;
}

/* Never started, dropped halfway and finished: each can be destroyed and each begun anew. */
static void test_destroy_in_every_state(void **state)
{
	for (unsigned resumes = 0; resumes < 4; resumes++) {
		unsigned count = 0;
		struct fiber *f = fiber_create(count_forever, &count, 0);

		for (unsigned i = 0; i < resumes; i++)
			fiber_resume(f);
		assert_int_equal(count, resumes);
		fiber_destroy(f);
		assert_int_equal(count, resumes);
	}
	fiber_destroy(NULL);
}

static void test_reset_in_every_state(void **state)
{
	unsigned forever = 0, once = 0;
	struct fiber *f = fiber_create(count_forever, &forever, 0);

	for (unsigned round = 0; round < 1000; round++) {
		for (unsigned i = 0; i < round % 4; i++)
			fiber_resume(f);
		fiber_reset(f, count_once, &once);
		assert_false(fiber_done(f));
		fiber_resume(f);
		assert_true(fiber_done(f));
		fiber_reset(f, count_forever, &forever);
	}
	assert_int_equal(once, 1000);
	assert_int_equal(forever, 250 * (0 + 1 + 2 + 3));
	fiber_destroy(f);
}

static __attribute__((noinline)) unsigned dive(unsigned depth)
{
	volatile unsigned char frame[1024];

	frame[0] = (unsigned char)depth;
	return depth == 0 ? frame[0] : dive(depth - 1) + frame[0];
}

static void overrun(void *argument)
{
	dive(100000);
	_exit(0);
}

/* A stack that overruns ends in the guard page, and the process with a signal. */
static void test_guard_page(void **state)
{
	int status;
	pid_t child;

#if ASAN_BUILD || TSAN_BUILD
	print_message("skipped: the sanitizers take the signal for themselves\n");
	skip();
#endif
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct fiber *f;

		/* Not cmocka's handler, which would report a failed test. */
		signal(SIGSEGV, SIG_DFL);
		f = fiber_create(overrun, NULL, 16384);
		fiber_resume(f);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* More than a process may have mappings for with a guard each, 65,530 by default. */
static void test_many(void **state)
{
	enum { COUNT = 40000 };
	static struct fiber *fibers[COUNT];
	unsigned count = 0;

#if !CONTEXT_BACKEND || ASAN_BUILD || TSAN_BUILD
	print_message("skipped: fibers are threads, or a sanitizer keeps each in mind\n");
	skip();
#endif
	for (unsigned i = 0; i < COUNT; i++) {
		fibers[i] = fiber_create(count_once, &count, 0);
		assert_non_null(fibers[i]);
	}
	for (unsigned i = 0; i < COUNT; i++)
		fiber_resume(fibers[i]);
	assert_int_equal(count, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		fiber_destroy(fibers[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_two_take_turns, start_telling),
	    cmocka_unit_test_setup(test_a_fiber_resumes_a_fiber, start_telling),
	    cmocka_unit_test(test_stacks_are_apart),
	    cmocka_unit_test(test_destroy_in_every_state),
	    cmocka_unit_test(test_reset_in_every_state),
	    cmocka_unit_test(test_guard_page),
	    cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests_name("fiber", tests, NULL, NULL);
}
