/*
 * settle.c: what is done before a member is used again: deleting what was refused, and connecting.
 *
 * Over a network many deletes are under way at once, each on a fiber: there may be tens of
 * thousands of keys, and until all are gone the member's other keys are missed.
 *
 * Every session that is open gets a connection ahead, lest its thread, and whatever else runs on
 * it, waits while one is made.  The argument: a session counts itself in sessions_live before it
 * looks, under the lock, whether the member is up; the member comes up under the lock only when
 * there are as many connections as sessions_live says.  So whoever found it down is in that count.
 * Who opens a session later connects by himself, and leaves those to others.
 *
 * The members may be changed meanwhile.  Whoever reached this one did so by a record that was the
 * client's (recognise_member()); so a delete that is refused as one of another epoch was overtaken
 * by the next record, and is told of it before any operation: those of the lost member's keys go
 * nowhere.  So it makes the map an old one, as an operation does, or such keys would be refused
 * until the member is tried once more, though others have them by now.
 */
#include <stdlib.h>
#include <string.h>

#include "client/inside.h"
#include "run/fiber_loop.h"

#define FIBERS 32u

struct settling {
	struct client *client;
	struct member *member;
	uint32_t at; /* in the set */
	int status;  /* the first error */
};

struct settler {
	struct settling *of;
	struct worker worker;
	struct cache cache;
};

/* Another key, copied to bytes[LAYOUT_KEY_BYTES_MAX]; 0: none is left, or it is too much. */
static int take(struct settling *s, uint8_t *bytes, struct cache_key *out)
{
	pthread_mutex_lock(&s->client->lock);
	const struct refused *r = &s->member->refused;
	int there = !r->is_too_much && refused_next(r, &s->at, out);

	if (there)
		memcpy(bytes, out->data, out->bytes);
	pthread_mutex_unlock(&s->client->lock);
	out->data = bytes;
	return there;
}

static MAY_WAIT void delete_in_turn(struct settling *s, struct cache *cache)
{
	uint8_t bytes[LAYOUT_KEY_BYTES_MAX];
	struct cache_key key;

	while (!s->status && take(s, bytes, &key)) {
		int status = cache_delete(cache, key);

		if (status < 0 && !s->status)
			s->status = status;
	}
}

static MAY_WAIT void fiber_main(struct worker *w, void *argument)
{
	struct settler *s = argument;

	s->cache.worker = w;
	if (cache_count_in_pool(&s->cache) == 0) {
		delete_in_turn(s->of, &s->cache);
		tally_close(&s->cache.tally, w);
	} else {
		s->of->status = FORGE_E_NODE;
	}
}

static void delete_beside(struct settling *s, struct seat *seat)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	struct settler *settlers = calloc(FIBERS, sizeof(*settlers));
	unsigned n = 0;

	for (; loop && settlers && n < FIBERS; n++) {
		struct settler *t = &settlers[n];

		t->of = s;
		worker_init(&t->worker, seat->fab, clock_monotonic(), prng_u64(&seat->worker.prng));
		if (cache_init_beside(&t->cache, &t->worker, &seat->cache))
			break;
		if (fiber_loop_spawn(loop, &t->worker, fiber_main, t)) {
			cache_fini(&t->cache);
			break;
		}
	}
	if (n > 0)
		fiber_loop_run(loop);
	else
		s->status = FORGE_E_NO_MEMORY;
	while (n > 0)
		cache_fini(&settlers[--n].cache);
	free(settlers);
	fiber_loop_destroy(loop);
}

/* A connection for each session that is open. */
static int connect_ahead(struct client *c, struct attachment *a)
{
	uint32_t n = atomic_load(&c->sessions_live);
	int status = 0;

	if (n <= a->spare_count)
		return 0;
	struct fab **spares = realloc(a->spares, n * sizeof(struct fab *));

	if (!spares)
		return FORGE_E_NO_MEMORY;
	a->spares = spares;
	while (!status && a->spare_count < n) {
		status = attachment_connect(a, &spares[a->spare_count]);
		a->spare_count += !status;
	}
	return status;
}

/* Published under the lock: what is refused from then on is somebody else's to see to. */
static int publish_if_done(struct settling *s, struct attachment *a)
{
	struct refused *r = &s->member->refused;
	int done;

	pthread_mutex_lock(&s->client->lock);
	if (!map_present(s->client))
		s->status = FORGE_E_SPREAD;
	else if (s->client->is_closing)
		s->status = FORGE_E_AGAIN;
	done = !s->status && !r->is_too_much && s->at == r->used &&
	       a->spare_count >= atomic_load(&s->client->sessions_live);
	if (done) {
		link_keep(a->link);
		member_came(s->client, s->member, a);
	}
	pthread_mutex_unlock(&s->client->lock);
	return done;
}

/* Too many to know them: all that was there is over. */
static MAY_WAIT void flush(struct settling *s, struct seat *seat)
{
	pthread_mutex_lock(&s->client->lock);
	int is_too_much = s->member->refused.is_too_much;

	if (is_too_much)
		refused_clear(&s->member->refused);
	pthread_mutex_unlock(&s->client->lock);
	if (!is_too_much)
		return;
	s->at = 0;
	s->status = cache_flush(&seat->cache);
	if (s->status)
		member_refuse_all(s->client, s->member);
}

int settle(struct client *c, struct member *m, struct seat *seat)
{
	struct settling s = {.client = c, .member = m};

	while (!s.status && !publish_if_done(&s, seat->of)) {
		flush(&s, seat);
		if (!s.status)
			s.status = connect_ahead(c, seat->of);
		if (s.status)
			break;
		if (fab_caps(seat->fab)->completes_at_post)
			delete_in_turn(&s, &seat->cache);
		else
			delete_beside(&s, seat);
	}
	if (s.status == FORGE_E_SPREAD)
		client_outdate(c, c->newest, (uint32_t)(m - c->members));
	return s.status;
}
