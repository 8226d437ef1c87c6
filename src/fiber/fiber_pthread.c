/*
 * fiber_pthread.c: fibers as threads of which one runs at a time, for debugging.
 *
 * Control is a baton per fiber: `running` says who of the fiber and its resumer holds it, and
 * each waits on the condition until it does.  The thread starts at the first resume.  A fiber
 * dropped unfinished is woken with `dropped` set and leaves by pthread_exit from fiber_yield.
 */
#include "fiber/fiber.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"

/* The thread's own data and first frames are on the stack too. */
#define STACK_BYTES_EXTRA (64u * 1024u)

struct fiber {
	fiber_fn fn;
	void *argument;
	size_t stack_bytes;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int started, running, done, dropped;
};

static _Thread_local struct fiber *current;

static void pass_baton(struct fiber *f, int running)
{
	pthread_mutex_lock(&f->mutex);
	f->running = running;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->mutex);
}

static void await_baton(struct fiber *f, int running)
{
	pthread_mutex_lock(&f->mutex);
	while (f->running != running)
		pthread_cond_wait(&f->changed, &f->mutex);
	pthread_mutex_unlock(&f->mutex);
}

static void *thread_main(void *argument)
{
	struct fiber *f = argument;

	current = f;
	await_baton(f, 1);
	f->fn(f->argument);
	f->done = 1;
	pass_baton(f, 0);
	return NULL;
}

static void prepare(struct fiber *f, fiber_fn fn, void *argument)
{
	f->fn = fn;
	f->argument = argument;
	f->started = f->running = f->done = f->dropped = 0;
}

static void drop(struct fiber *f)
{
	assert(!f->running);
	if (!f->started)
		return;
	if (!f->done) {
		f->dropped = 1;
		pass_baton(f, 1);
	}
	pthread_join(f->thread, NULL);
}

static void start(struct fiber *f)
{
	pthread_attr_t attributes;
	int failed;

	pthread_attr_init(&attributes);
	failed = pthread_attr_setstacksize(&attributes, f->stack_bytes);
	assert(!failed);
	failed = pthread_create(&f->thread, &attributes, thread_main, f);
	/* A debugging backend: there is no way to report this from a resume. */
	if (failed)
		abort();
	pthread_attr_destroy(&attributes);
	f->started = 1;
}

struct fiber *fiber_create(fiber_fn fn, void *argument, size_t stack_bytes)
{
	struct fiber *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (stack_bytes == 0)
		stack_bytes = FIBER_STACK_BYTES_DEFAULT;
	f->stack_bytes = round_up_u64(
	    max_u64(stack_bytes + STACK_BYTES_EXTRA, (uint64_t)PTHREAD_STACK_MIN), 65536);
	pthread_mutex_init(&f->mutex, NULL);
	pthread_cond_init(&f->changed, NULL);
	prepare(f, fn, argument);
	return f;
}

void fiber_reset(struct fiber *f, fiber_fn fn, void *argument)
{
	drop(f);
	prepare(f, fn, argument);
}

void fiber_resume(struct fiber *f)
{
	assert(!f->running && !f->done);
	if (!f->started)
		start(f);
	pass_baton(f, 1);
	await_baton(f, 0);
}

void fiber_yield(void)
{
	struct fiber *f = current;

	assert(f && f->running);
	pass_baton(f, 0);
	await_baton(f, 1);
	if (f->dropped)
		pthread_exit(NULL);
}

int fiber_done(const struct fiber *f)
{
	return f->done;
}

struct fiber *fiber_current(void)
{
	return current;
}

void fiber_destroy(struct fiber *f)
{
	if (!f)
		return;
	drop(f);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->mutex);
	free(f);
}
