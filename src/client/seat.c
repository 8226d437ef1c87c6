/*
 * seat.c: a session's connection and lane at one member.
 *
 * A member that comes back brings a connection for every session that was open (settle.c), so that
 * none has to be made on the thread of one, whose other operations would wait for it.
 */
#include <stdlib.h>

#include "client/inside.h"

static struct fab *take_spare(struct client *c, struct attachment *a)
{
	struct fab *fab = NULL;

	pthread_mutex_lock(&c->lock);
	if (a->spare_count > 0)
		fab = a->spares[--a->spare_count];
	pthread_mutex_unlock(&c->lock);
	return fab;
}

static int connect(struct client *c, struct seat *s, int is_begun, struct fab_counts *verbs)
{
	s->fab = is_begun ? take_spare(c, s->of) : NULL;
	int status = s->fab ? 0 : attachment_connect(s->of, &s->fab);

	if (!status && c->options.count_verbs && verbs) {
		struct fab *inner = s->fab;

		s->fab = NULL;
		status = count_open(inner, verbs, &s->fab);
	}
	return status;
}

int seat_open(struct client *c, struct attachment *a, uint32_t index, int is_begun,
	      struct fab_counts *verbs, struct seat **out)
{
	struct seat *s = calloc(1, sizeof(*s));

	if (!s)
		return FORGE_E_NO_MEMORY;
	attachment_hold(a);
	s->client = c;
	s->of = a;
	s->users = 1;
	int status = connect(c, s, is_begun, verbs);

	if (!status) {
		worker_init(&s->worker, s->fab, clock_monotonic(), c->options.seed + index);
		s->worker.index = index;
		status = lane_init(&s->lane, &a->cn);
	}
	if (!status)
		status = cache_init(&s->cache, &s->worker, &a->cn, &s->lane);
	if (status) {
		seat_drop(s);
		return status;
	}
	cache_fetch_aside(&s->cache);
	*out = s;
	return 0;
}

void seat_drain(struct seat *s)
{
	s->worker.wait = &run_wait_poll;
	s->is_drained = 1;
	if (!forked_since(s->of->forked_mark) && !atomic_load(&s->of->is_lost))
		cache_drain(&s->cache);
}

/* Should the member be lost meanwhile, the next operation notices. */
void seat_rest(struct seat *s)
{
	if (forked_since(s->of->forked_mark) || atomic_load(&s->of->is_lost))
		return;
	/* The last operation may have been on a fiber. */
	s->worker.wait = &run_wait_poll;
	cache_ahead_end(&s->cache);
	tally_tell(&s->cache.tally, &s->worker);
}

/*
 * Of a member that has left.  Giving back what the seat holds there takes round trips, which are
 * not for the session's thread; but where its verbs are counted they are the session's.  Without a
 * cache it was never opened.
 */
static int leaves_in_order(struct seat *s)
{
	struct client *c = s->client;

	s->worker.wait = &run_wait_poll;
	if (s->is_drained || !s->cache.memory || forked_since(s->of->forked_mark) ||
	    atomic_load(&s->of->is_lost))
		return 0;
	/* Fibers stay on their thread. */
	cache_ahead_end(&s->cache);
	if (!c->options.count_verbs && mend_retire(c, s))
		return 1;
	seat_drain(s);
	return 0;
}

void seat_drop(struct seat *s)
{
	if (!s || --s->users > 0 || leaves_in_order(s))
		return;
	s->worker.wait = &run_wait_poll;
	/* What it has posted is completed or given up before the connection goes. */
	if (!forked_since(s->of->forked_mark))
		cache_ahead_end(&s->cache);
	cache_fini(&s->cache);
	lane_fini(&s->lane);
	fab_close(s->fab);
	attachment_drop(s->of);
	free(s);
}
