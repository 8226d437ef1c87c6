/* flows.c: taking, running and freeing the flows of a set. */
#include "client/flows.h"

#include <stdlib.h>

int flows_open(struct flows *s, struct session *session, unsigned flow_max, size_t flow_bytes)
{
	assert(flow_bytes >= sizeof(struct flow));
	*s = (struct flows){.session = session, .flow_max = flow_max, .flow_bytes = flow_bytes};
	if (session_completes_at_post(session))
		return 0;
	s->loop = fiber_loop_create(0);
	return s->loop ? 0 : FORGE_E_NO_MEMORY;
}

static struct flow *create(struct flows *s)
{
	struct flow *f = calloc(1, s->flow_bytes);

	if (!f)
		return NULL;
	f->set = s;
	f->view = &f->own_view;
	view_open(&f->own_view, s->session);
	f->next_all = s->all;
	s->all = f;
	if (!s->first)
		s->first = f;
	s->flow_count++;
	return f;
}

struct flow *flows_take_new(struct flows *s)
{
	struct flow *f = s->flow_count < s->flow_max ? create(s) : NULL;

	if (!f)
		s->flow_max = s->flow_count; /* what there is will have to do */
	return f;
}

static MAY_WAIT void fiber_main(struct worker *w, void *argument)
{
	struct flow *f = argument;
	struct flows *s = f->set;
	struct view *v = f->view;

	v->is_busy = 1;
	f->main(f);
	v->is_busy = 0;
	s->active--; /* of f nothing is known here: its function may have put it back */
}

static int start(struct flow *f, void (*main)(struct flow *))
{
	struct flows *s = f->set;

	f->main = main;
	if (!s->loop) {
		f->main(f);
		return 0;
	}
	int status = fiber_loop_spawn(s->loop, &f->view->lead, fiber_main, f);

	s->active += !status;
	return status;
}

/* ---- on the side -------------------------------------------------------------------------- */

/* Nobody else may take it meanwhile.  Was it idle? */
static int take_out(struct flow *f)
{
	struct flow **at = &f->set->idle;

	while (*at && *at != f)
		at = &(*at)->next;
	if (!*at)
		return 0;
	*at = f->next;
	return 1;
}

/* Those that have nothing to do would hold on to a member that has left. */
static MAY_WAIT void let_go(struct flows *s, const struct worker *lead)
{
	struct view *own = session_view(s->session);

	for (struct flow *i = s->all; i; i = i->next_all)
		if (view_holds_on(&i->own_view) && take_out(i)) {
			view_let_go(&i->own_view, lead);
			flows_put(i);
		}
	if (!own->is_busy)
		view_let_go(own, lead);
}

static MAY_WAIT void tend(struct flow *f)
{
	struct flows *s = f->set;
	int status = view_tend(f->view);
	uint64_t now_ns = clock_now_ns(f->view->lead.clock);

	let_go(s, &f->view->lead);

	if (now_ns - s->told_ns >= UINT64_C(1000) * TALLY_TELL_US) {
		s->told_ns = now_ns;
		for (struct flow *i = s->all; i; i = i->next_all)
			view_tell_old(&i->own_view, f->view);
	}
	s->tend_status = status;
	s->tending = 0;
	flows_put(f);
}

void flows_tend(struct flows *s)
{
	struct flow *f = s->tending ? NULL : flows_take(s);

	if (!f)
		return;
	s->tending = 1;
	if (start(f, tend)) {
		s->tending = 0;
		flows_put(f);
	}
}

/* The first flow of all is the one that works most, and has been everywhere. */
static void tend_if_due(struct flows *s)
{
	if (!s->tending && s->first && view_is_due(&s->first->own_view))
		flows_tend(s);
}

/*
 * Whoever comes first polls, so the flow that does so is started before others: with the first of
 * them, and then in time by the turns, which look at the clock for all.
 */
int flows_start(struct flow *f, void (*main)(struct flow *))
{
	struct flows *s = f->set;

	if (s->loop && s->active == 0)
		tend_if_due(s);
	return start(f, main);
}

int flows_turn(struct flows *s)
{
	if (s->active == 0)
		return 0;
	fiber_loop_turn(s->loop);
	if (s->active > 0)
		tend_if_due(s);
	return s->active > 0;
}

void flows_finish(struct flows *s)
{
	while (s->active > 0) {
		fiber_loop_turn(s->loop);
		fiber_loop_wait(s->loop, FAB_SLEEP_NS);
	}
}

void flows_rest(struct flows *s)
{
	const struct worker *lead = &session_view(s->session)->lead;

	flows_finish(s);
	let_go(s, lead);
	for (struct flow *f = s->all; f; f = f->next_all)
		view_tell_now(&f->own_view, lead);
}

void flows_count(const struct flows *s, struct cache_counters *into)
{
	for (const struct flow *f = s->all; f; f = f->next_all)
		view_count(&f->own_view, into);
}

/* ---- the end ------------------------------------------------------------------------------ */

static MAY_WAIT void tell_all(struct flow *f)
{
	view_tell_all(&f->own_view);
}

/* All at once: each is a wait or two. */
static MAY_WAIT void close_tallies(struct flows *s)
{
	flows_finish(s);
	for (struct flow *f = s->all; f; f = f->next_all)
		start(f, tell_all); /* by all flows, so that none is there for a poll */
	flows_finish(s);
}

void flows_close(struct flows *s)
{
	if (s->all && !session_is_forked(s->session))
		close_tallies(s);
	while (s->all) {
		struct flow *f = s->all;

		s->all = f->next_all;
		f->own_view.lead.wait = &run_wait_poll;
		view_close(&f->own_view);
		free(f);
	}
	fiber_loop_destroy(s->loop);
	*s = (struct flows){0};
}
