/*
 * fiber_loop.c: round-robin over the fibers of one thread.
 *
 * A fiber is runnable when the part of the batch it waits for has completed.  The loop polls the
 * connections of fibers that wait once a turn; fibers that finished are kept for the next spawn.
 *
 * What several fibers post is kicked together: one doorbell, and on most fabrics one message, for
 * KICK_POSTS of them, or more where the fabric asks for it, and at the latest at the end of the
 * turn.
 */
#include "run/fiber_loop.h"

#include <poll.h>
#include <stdlib.h>

/*
 * Few, so that the first of them does not wait long; with 8 the gain is seven eighths of all. Where
 * a kick costs next to nothing and a verb 2 us, 32 in flight took 337 ns a Get with 8, 430 with 32.
 */
#define KICK_POSTS 8u

struct fiber_task {
	struct fiber_loop *loop;
	struct fiber_task *next;
	struct fiber *fiber;
	struct worker *worker;
	void (*fn)(struct worker *, void *argument);
	void *argument;
	const struct fab_op *ops; /* what it waits for; NULL: for its turn only */
	unsigned ops_count;
	const struct run_waited *followed; /* or what another waits for, NULL: that is not it */
	uint32_t followed_turns;	   /* when it began to */
};

struct fiber_loop {
	struct fiber_task *first; /* in the order of their turns */
	struct fiber_task **end;  /* where the next one is linked in */
	struct fiber_task *idle;  /* finished, for another spawn */
	size_t stack_bytes;
	struct fab *posted; /* has posts that were not kicked; NULL: none has */
	unsigned posted_count;
	int resumed; /* a fiber went on in the last turn */
	struct fab_wait waits;
};

static void kick(struct fiber_loop *loop)
{
	if (loop->posted)
		fab_kick(loop->posted);
	loop->posted = NULL;
	loop->posted_count = 0;
}

static void kick_soon(struct fiber_loop *loop, struct fab *fab)
{
	if (loop->posted != fab)
		kick(loop);
	loop->posted = fab;
	if (++loop->posted_count >= max_u64(KICK_POSTS, fab_caps(fab)->kick_posts))
		kick(loop);
}

static void task_main(void *argument)
{
	struct fiber_task *t = argument;

	t->fn(t->worker, t->argument);
}

static void park(struct fiber_task *t, const struct fab_op *ops, unsigned n)
{
	assert(fiber_current() == t->fiber);
	t->ops = ops;
	t->ops_count = n;
	fiber_yield();
	t->ops = NULL;
}

/* Until that has completed or is gone: another task may have let its flow go on. */
static void fiber_follow(struct worker *w, const struct run_waited *v)
{
	struct fiber_task *t = w->wait_context;

	t->worker = w;
	kick_soon(t->loop, w->fab);
	t->followed = v;
	t->followed_turns = v->turns;
	park(t, NULL, 0);
	t->followed = NULL;
}

static void step_park(struct worker *w, const struct fab_op *ops, unsigned n)
{
	struct fiber_task *t = w->wait_context;

	t->worker = w; /* of several with one context: whose connection to poll */
	kick_soon(t->loop, w->fab);
	park(t, ops, n);
}

/*
 * A batch that is one post, which nearly all are, parks from here: what a fiber returns through
 * after it was resumed the processor has not foreseen, so few frames are better.
 */
static int fiber_run(struct worker *w, struct fab_op *ops, unsigned n)
{
	if (unlikely(n > fab_caps(w->fab)->batch_ops_max))
		return run_batch(w, ops, n, step_park);
	fab_post(w->fab, ops, n);
	if (run_all_complete(ops, n))
		fab_kick(w->fab);
	while (!run_all_complete(ops, n))
		step_park(w, ops, n);
	return run_first_error(ops, n);
}

static void fiber_pause(struct worker *w)
{
	park(w->wait_context, NULL, 0);
}

const struct run_wait run_wait_fiber = {
    .run = fiber_run,
    .pause = fiber_pause,
    .follow = fiber_follow,
    .kicks = 1,
};

struct fiber_loop *fiber_loop_create(size_t stack_bytes)
{
	struct fiber_loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return NULL;
	loop->end = &loop->first;
	loop->stack_bytes = stack_bytes;
	return loop;
}

static struct fiber_task *task_get(struct fiber_loop *loop)
{
	struct fiber_task *t = loop->idle;

	if (t) {
		loop->idle = t->next;
		fiber_reset(t->fiber, task_main, t);
		return t;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->fiber = fiber_create(task_main, t, loop->stack_bytes);
	if (!t->fiber) {
		free(t);
		return NULL;
	}
	return t;
}

int fiber_loop_spawn(struct fiber_loop *loop, struct worker *w,
		     void (*fn)(struct worker *, void *argument), void *argument)
{
	struct fiber_task *t = task_get(loop);

	if (!t)
		return FORGE_E_NO_MEMORY;
	t->loop = loop;
	t->worker = w;
	t->fn = fn;
	t->argument = argument;
	t->ops = NULL;
	t->followed = NULL;
	t->next = NULL;
	*loop->end = t;
	loop->end = &t->next;
	loop->resumed = 1; /* there is one that can go on */
	w->wait = &run_wait_fiber;
	w->wait_context = t;
	return FORGE_OK;
}

struct fiber_loop *fiber_loop_of(const struct worker *w)
{
	const struct fiber_task *t = w->wait_context;

	return w->wait == &run_wait_fiber ? t->loop : NULL;
}

/* Poll a connection once a turn, not once for each of the fibers that share it. */
static int task_runnable(struct fiber_task *t, struct fab **polled)
{
	const struct run_waited *v = t->followed;
	const struct fab_op *ops = v && v->turns == t->followed_turns ? v->ops : t->ops;
	unsigned n = v ? v->count : t->ops_count;

	if (!ops)
		return 1;
	if (*polled != t->worker->fab && !run_all_complete(ops, n)) {
		*polled = t->worker->fab;
		fab_poll(*polled);
	}
	return run_all_complete(ops, n);
}

int fiber_loop_turn(struct fiber_loop *loop)
{
	struct fiber_task **link = &loop->first;
	struct fab *polled = NULL;

	loop->resumed = 0;
	while (*link) {
		struct fiber_task *t = *link;

		if (task_runnable(t, &polled)) {
			loop->resumed = 1;
			fiber_resume(t->fiber);
		}
		if (!fiber_done(t->fiber)) {
			link = &t->next;
			continue;
		}
		*link = t->next;
		if (loop->end == &t->next)
			loop->end = link;
		t->next = loop->idle;
		loop->idle = t;
	}
	kick(loop);
	return loop->first != NULL;
}

/* The connections that parked fibers wait for, each once; more than the maximum if there are. */
static unsigned waited_for(const struct fiber_loop *loop, struct fab *fabs[RUN_WAIT_FABS_MAX])
{
	unsigned n = 0;

	for (const struct fiber_task *t = loop->first; t; t = t->next) {
		unsigned i = 0;

		while (i < n && fabs[i] != t->worker->fab)
			i++;
		if (i < n)
			continue;
		if (n == RUN_WAIT_FABS_MAX)
			return n + 1;
		fabs[n++] = t->worker->fab;
	}
	return n;
}

/* Which connections to sleep on; 0: not now. */
static unsigned to_sleep_on(struct fiber_loop *loop, struct fab *fabs[RUN_WAIT_FABS_MAX])
{
	if (loop->resumed || !loop->first) {
		fab_wait_found(&loop->waits);
		return 0;
	}
	/* Whether a loop sleeps is decided by its first fiber's connection, without a clock. */
	const struct worker *w = loop->first->worker;

	if (!fab_base(w->fab)->provider->sleep_on)
		return 0;
	fab_wait_in_vain(&loop->waits, clock_now_ns(w->clock), FAB_SPIN_NS);
	return loop->waits.sleeps ? waited_for(loop, fabs) : 0;
}

void fiber_loop_wait(struct fiber_loop *loop, uint64_t max_ns)
{
	struct fab *fabs[RUN_WAIT_FABS_MAX];
	unsigned n = to_sleep_on(loop, fabs);

	if (n)
		run_wait_for(fabs, n, max_ns);
}

unsigned fiber_loop_sleep_on(struct fiber_loop *loop, struct pollfd *fds)
{
	struct fab *fabs[RUN_WAIT_FABS_MAX];
	unsigned n = to_sleep_on(loop, fabs);

	if (n > RUN_WAIT_FABS_MAX)
		return 0;
	for (unsigned i = 0; i < n; i++)
		if (!fab_sleep_on(fabs[i], &fds[i]))
			return 0;
	return n;
}

void fiber_loop_run(struct fiber_loop *loop)
{
	while (fiber_loop_turn(loop))
		fiber_loop_wait(loop, FAB_SLEEP_NS);
}

static void free_tasks(struct fiber_task *t)
{
	while (t) {
		struct fiber_task *next = t->next;

		fiber_destroy(t->fiber);
		free(t);
		t = next;
	}
}

void fiber_loop_destroy(struct fiber_loop *loop)
{
	if (!loop)
		return;
	free_tasks(loop->first);
	free_tasks(loop->idle);
	free(loop);
}
