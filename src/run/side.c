/* side.c: one more fiber for a thread that waits. */
#include "run/side.h"

#include "fiber/fiber.h"

static void wait_for(struct worker *w, const struct fab_op *ops, unsigned n)
{
	struct side *s = w->wait_context;

	s->waited.ops = ops;
	s->waited.count = n;
	fiber_yield();
	s->waited.ops = NULL;
	s->waited.turns++;
}

static int side_run(struct worker *w, struct fab_op *ops, unsigned n)
{
	const struct side *s = w->wait_context;

	if (s->lead->wait->work)
		s->lead->wait->work(s->lead, ops, n);
	return run_batch(w, ops, n, wait_for);
}

static void side_pause(struct worker *w)
{
	wait_for(w, NULL, 0);
}

static const struct run_wait run_wait_side = {.run = side_run, .pause = side_pause};

static void side_main(void *argument)
{
	struct side *s = argument;

	s->fn(s->argument);
}

int side_init(struct side *s, struct worker *lead)
{
	*s = (struct side){.lead = lead, .fiber = fiber_create(side_main, s, 0)};
	if (!s->fiber)
		return FORGE_E_NO_MEMORY;
	worker_init(&s->worker, lead->fab, lead->clock, prng_u64(&lead->prng));
	s->worker.wait = &run_wait_side;
	s->worker.wait_context = s;
	s->worker.index = lead->index;
	return 0;
}

void side_fini(struct side *s)
{
	if (side_is_busy(s))
		s->lead->side = NULL;
	fiber_destroy(s->fiber);
	s->fiber = NULL;
}

void side_start(struct side *s, void (*fn)(void *argument), void *argument)
{
	assert(!side_is_busy(s) && !s->lead->side);
	s->fn = fn;
	s->argument = argument;
	s->waited.ops = NULL;
	fiber_reset(s->fiber, side_main, s);
	s->lead->side = s;
}

void side_turn(struct side *s)
{
	if (s->waited.ops) {
		/* A wrapper has to look at its verbs, too, before they are gone. */
		fab_poll(s->worker.fab);
		if (!run_all_complete(s->waited.ops, s->waited.count))
			return;
	}
	fiber_resume(s->fiber);
	if (fiber_done(s->fiber))
		s->lead->side = NULL;
}

void side_help(struct side *s, struct worker *w)
{
	const struct run_waited *v = &s->waited;

	if (v->ops && !run_all_complete(v->ops, v->count) && w->wait->follow)
		w->wait->follow(w, v);
	else
		w->wait->pause(w);
	/* Another flow of the thread may have brought it to its end meanwhile. */
	if (side_is_busy(s))
		side_turn(s);
}
