/*
 * view_flush.c: a flush of every member, all at once.
 *
 * A flush is a verb and then a wait of a fixed time (cache/flush.c), the same at each member, so
 * one after the other they would take as many times as long; and a member that is frozen would keep
 * the others from being flushed until it is given up.  Each has a fiber of its own: beside the
 * view's, if that is on one, else in a loop for this call.  They work at different places of the
 * view, which share nothing but counters.
 */
#include <stdlib.h>

#include "client/inside.h"
#include "run/fiber_loop.h"

struct flushing {
	struct view *view;
	struct worker lead; /* how it waits; it has no connection */
	uint32_t member;
	int status;
	uint32_t *left; /* that have not ended */
};

static MAY_WAIT int flush_once(struct flushing *f)
{
	struct cache *c;
	int status = view_cache_as(f->view, &f->lead, f->member, &c); /* by the view's map */

	return status ? status : cache_flush(c);
}

static MAY_WAIT void flush_member(struct flushing *f)
{
	struct client *client = f->view->session->client;

	f->status = flush_once(f);
	/* Others may have stored something at one that is new here. */
	while (f->status == FORGE_E_NODE && atomic_load(&client->members[f->member].is_arriving) &&
	       f->view->map == map_present(client)) {
		flow_pause(&f->lead);
		f->status = flush_once(f);
	}
	f->view->count.changes_refused += f->status == FORGE_E_NODE;
	while (f->status == FORGE_E_NODE) {
		view_lost(f->view, f->member);
		if (member_refuse_all(client, &client->members[f->member]))
			return;
		/* It came back meanwhile: flush it after all. */
		f->status = flush_once(f);
	}
}

static MAY_WAIT void fiber_main(struct worker *w, void *argument)
{
	struct flushing *f = argument;

	flush_member(f);
	--*f->left;
}

/* Those that no fiber is found for are flushed here, in turn. */
static MAY_WAIT void flush_beside(struct view *v, struct fiber_loop *loop, struct flushing *f,
				  uint32_t n)
{
	uint32_t left = n, begun = 0;

	for (; begun < n; begun++) {
		f[begun].left = &left;
		if (fiber_loop_spawn(loop, &f[begun].lead, fiber_main, &f[begun]))
			break;
	}
	for (uint32_t i = begun; i < n; i++, left--) {
		f[i].lead.wait = v->lead.wait;
		f[i].lead.wait_context = v->lead.wait_context;
		flush_member(&f[i]);
	}
	while (left > 0 && fiber_loop_of(&v->lead))
		flow_pause(&v->lead);
	if (left > 0)
		fiber_loop_run(loop);
}

static MAY_WAIT int flush_all(struct view *v, struct flushing *f, uint32_t n)
{
	struct fiber_loop *own = NULL, *loop = fiber_loop_of(&v->lead);

	for (uint32_t i = 0; i < n; i++) {
		f[i].view = v;
		worker_init(&f[i].lead, NULL, v->lead.clock, prng_u64(&v->lead.prng));
	}
	if (!loop)
		loop = own = fiber_loop_create(0);
	if (!loop)
		return FORGE_E_NO_MEMORY;
	flush_beside(v, loop, f, n);
	fiber_loop_destroy(own);
	/* Its fibers are gone, and may not be what the next verb waits by. */
	for (uint32_t i = 0; i < n; i++)
		if (v->places[f[i].member]) {
			struct worker *w = v->places[f[i].member]->cache->worker;

			w->wait = v->lead.wait;
			w->wait_context = v->lead.wait_context;
		}
	int first = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (f[i].status == FORGE_E_SPREAD)
			return FORGE_E_SPREAD;
		if (!first)
			first = f[i].status;
	}
	return first;
}

static MAY_WAIT int flush_by_map(struct view *v)
{
	int status = view_follow(v);

	if (status)
		return status;
	struct flushing *f = calloc(v->map->member_count, sizeof(*f));
	uint32_t n = 0;

	if (!f)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < v->map->slot_end; i++)
		if (map_has(v->map, i))
			f[n++].member = i;
	status = flush_all(v, f, n);
	free(f);
	return status;
}

/* What was flushed by an old map is flushed once more by the new one: who came has to be, too. */
int view_flush(struct view *v)
{
	uint64_t since_ns = 0;
	int status;

	do {
		status = flush_by_map(v);
	} while (status == FORGE_E_SPREAD && view_again(v, 0, &status, &since_ns));
	return status;
}
