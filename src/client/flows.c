/* flows.c: taking, running and freeing the flows of a set. */
#include "client/flows.h"

#include <stdlib.h>

int flows_open(struct flows *s, struct session *session, unsigned flow_max, size_t flow_bytes)
{
	assert(flow_bytes >= sizeof(struct flow));
	*s = (struct flows){.session = session, .flow_max = flow_max, .flow_bytes = flow_bytes};
	if (fab_caps(session_worker(session)->fab)->completes_at_post)
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
	f->cache = &f->own_cache;
	if (session_cache_open(s->session, &f->own_worker, &f->own_cache)) {
		free(f);
		return NULL;
	}
	f->next_all = s->all;
	s->all = f;
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

/*
 * A view counts in the pool from its first operation on.  Should that fail, the node is lost and
 * the operation will say so.
 */
static MAY_WAIT void run(struct flow *f)
{
	if (unlikely(!f->counts))
		f->counts = cache_count_in_pool(f->cache) == 0;
	f->main(f);
}

static MAY_WAIT void fiber_main(struct worker *w, void *argument)
{
	struct flow *f = argument;
	struct flows *s = f->set;

	run(f);
	s->active--; /* of f nothing is known here: its function may have put it back */
}

int flows_start(struct flow *f, void (*main)(struct flow *))
{
	struct flows *s = f->set;

	f->main = main;
	if (!s->loop) {
		run(f);
		return 0;
	}
	int status = fiber_loop_spawn(s->loop, f->cache->worker, fiber_main, f);

	s->active += !status;
	return status;
}

int flows_turn(struct flows *s)
{
	return s->active > 0 && fiber_loop_turn(s->loop);
}

void flows_finish(struct flows *s)
{
	while (flows_turn(s))
		;
}

/* ---- on the side -------------------------------------------------------------------------- */

static MAY_WAIT void tend(struct flow *f)
{
	struct cache *c = f->cache;
	uint64_t now_ns;

	cache_begin(c);
	now_ns = c->moment.now_ns;
	tally_tell_old(&c->tally, c->worker, now_ns);
	/* One that is taken meanwhile tells for itself, and two may tell at once (tally.c). */
	for (struct flow *i = f->set->all; i; i = i->next_all)
		tally_tell_old(&i->own_cache.tally, c->worker, now_ns);
	flows_put(f);
}

void flows_tend(struct flows *s)
{
	struct flow *f = flows_take(s);

	if (f && flows_start(f, tend))
		flows_put(f);
}

void flows_count(const struct flows *s, struct cache_counters *into)
{
	for (const struct flow *f = s->all; f; f = f->next_all)
		cache_counters_merge(into, &f->own_cache.count);
}

/* ---- the end ------------------------------------------------------------------------------ */

static MAY_WAIT void close_tally(struct flow *f)
{
	tally_close(&f->own_cache.tally, f->own_cache.worker);
}

/* All at once: each is a wait or two. */
static MAY_WAIT void close_tallies(struct flows *s)
{
	flows_finish(s);
	for (struct flow *f = s->all; f; f = f->next_all)
		if (f->own_cache.tally.tells)
			flows_start(f, close_tally);
	flows_finish(s);
}

void flows_close(struct flows *s)
{
	if (s->all && !session_is_forked(s->session))
		close_tallies(s);
	while (s->all) {
		struct flow *f = s->all;

		s->all = f->next_all;
		f->own_worker.wait = &run_wait_poll;
		session_cache_close(s->session, &f->own_cache);
		free(f);
	}
	fiber_loop_destroy(s->loop);
	*s = (struct flows){0};
}
