/* view.c: leading operations to the members that have their keys. */
#include "client/view.h"

#include <stdlib.h>

#include "base/hash.h"
#include "client/inside.h"

/* ---- places ------------------------------------------------------------------------------- */

static void place_close(struct view *v, struct place *p)
{
	if (!p->seat)
		return;
	cache_counters_merge(&v->count, &p->cache->count);
	if (p->cache == &p->own_cache)
		cache_fini(&p->own_cache);
	seat_drop(p->seat);
	*p = (struct place){0};
}

/* The session's seat at a member that is up, anew if it came back. */
static MAY_WAIT int seat_at(struct session *s, uint32_t i, struct attachment *now,
			    struct seat **out)
{
	struct seat *old = s->seats[i];
	int status = 0;

	if (!old || old->of != now) {
		s->seats[i] = NULL;
		seat_drop(old);
		status = seat_open(s->client, now, s->index, s->is_begun, &s->verbs, &s->seats[i]);
	}
	*out = s->seats[i];
	return status;
}

static MAY_WAIT int place_open(struct view *v, uint32_t i, struct attachment *now)
{
	struct place *p = &v->places[i];
	struct seat *seat;
	int status = seat_at(v->session, i, now, &seat);

	if (status)
		return status;
	if (v->is_own) {
		p->cache = &seat->cache;
	} else {
		worker_init(&p->own_worker, seat->fab, clock_monotonic(),
			    prng_u64(&seat->worker.prng));
		p->own_worker.index = seat->worker.index;
		status = cache_init_beside(&p->own_cache, &p->own_worker, &seat->cache);
		if (status)
			return status;
		p->cache = &p->own_cache;
	}
	seat->users++;
	p->seat = seat;
	p->of = seat->of;
	return 0;
}

/* The member was lost, or came back, since this place was used, if it ever was. */
static MAY_WAIT int place_renew(struct view *v, uint32_t i)
{
	struct client *c = v->session->client;
	struct member *m = &c->members[i];
	struct place *p = &v->places[i];

	/* Its places are kept: they have something to give back. */
	if (atomic_load(&c->is_outdated))
		return FORGE_E_SPREAD;
	place_close(v, p);
	struct attachment *now = member_hold(c, m);

	if (!now) {
		/* Let go of the old one: who wants to recover it waits for that. */
		seat_drop(v->session->seats[i]);
		v->session->seats[i] = NULL;
		return FORGE_E_NODE;
	}
	int status = place_open(v, i, now);

	if (status == FORGE_E_NODE)
		member_lose(c, m, now);
	attachment_drop(now);
	return status;
}

/* Its flows wait as that worker does, and give up when the view does. */
static inline struct cache *led(const struct view *v, const struct worker *lead,
				const struct place *p)
{
	p->cache->worker->wait = lead->wait;
	p->cache->worker->wait_context = lead->wait_context;
	p->cache->deadline_ns = v->deadline_ns;
	return p->cache;
}

/* For the first time, or the first since the member came back. */
static __attribute__((noinline)) MAY_WAIT int arrive(struct view *v, const struct worker *lead,
						     uint32_t i)
{
	struct place *p = &v->places[i];
	int status = place_renew(v, i);

	/* Should that fail, the node is lost and the operation will say so. */
	if (!status && !p->counts)
		p->counts = cache_count_in_pool(led(v, lead, p)) == 0;
	return status;
}

static inline MAY_WAIT int go_to_as(struct view *v, const struct worker *lead, uint32_t i,
				    struct cache **out)
{
	struct place *p = &v->places[i];

	if (unlikely(!p->of || p->of != member_now(&v->session->client->members[i]))) {
		int status = arrive(v, lead, i);

		if (status)
			return status;
	}
	*out = led(v, lead, p);
	return 0;
}

static inline MAY_WAIT int go_to(struct view *v, uint32_t i, struct cache **out)
{
	return go_to_as(v, &v->lead, i, out);
}

int view_cache(struct view *v, uint32_t member, struct cache **out)
{
	return go_to(v, member, out);
}

int view_cache_as(struct view *v, const struct worker *lead, uint32_t member, struct cache **out)
{
	return go_to_as(v, lead, member, out);
}

void view_lost(struct view *v, uint32_t i)
{
	struct client *c = v->session->client;

	if (v->places[i].of)
		member_lose(c, &c->members[i], v->places[i].of);
}

/* ---- time --------------------------------------------------------------------------------- */

/*
 * Session time is that of the first member; the others have a time of their own.  By how much is it
 * later there?
 */
static int64_t lead_of(const struct view *v, const struct cache *c)
{
	uint64_t now_ns = clock_now_ns(v->lead.clock);

	return (int64_t)(cn_pool_ms(c->cn, now_ns) -
			 (v->session->client->time_base_ms + now_ns / 1000000u));
}

static int needs_shift(const struct view *v, uint64_t expiry_ms)
{
	return unlikely(expiry_ms != 0) && v->session->client->member_count > 1;
}

/* Never becomes 0, nor does a time in the past become one to come. */
static uint64_t shift(uint64_t ms, int64_t by)
{
	if (ms <= 1 || ms > (UINT64_MAX >> 1))
		return ms;
	return by < 0 && (uint64_t)-by >= ms ? 1 : ms + (uint64_t)by;
}

static uint64_t expiry_there(const struct view *v, const struct cache *c, uint64_t expiry_ms)
{
	return needs_shift(v, expiry_ms) ? shift(expiry_ms, lead_of(v, c)) : expiry_ms;
}

static void expiry_here(const struct view *v, const struct cache *c, struct cache_value *value)
{
	if (value && needs_shift(v, value->expiry_ms))
		value->expiry_ms = shift(value->expiry_ms, -lead_of(v, c));
}

/* ---- operations --------------------------------------------------------------------------- */

static inline uint32_t member_of(const struct client *c, struct cache_key key)
{
	if (likely(c->member_count == 1))
		return 0;
	return c->table[spread_partition(hash_key(key.data, key.bytes))];
}

uint32_t view_member_of(const struct view *v, struct cache_key key)
{
	return member_of(v->session->client, key);
}

/* A Get found no node to ask. */
static int miss_lost(struct view *v, uint32_t i)
{
	view_lost(v, i);
	v->count.gets_lost++;
	return atomic_load(&v->session->client->up_count) > 0 ? FORGE_MISS : FORGE_E_NODE;
}

/*
 * A change found no node, or lost it half-way.  If that loss was mended already, the key is deleted
 * here and now, so that an old value is not found by who was told of the failure.
 */
static MAY_WAIT int refuse(struct view *v, uint32_t i, struct cache_key key)
{
	struct client *c = v->session->client;
	struct cache *cache;

	view_lost(v, i);
	v->count.changes_refused++;
	while (!member_refuse(c, &c->members[i], key)) {
		int status = go_to(v, i, &cache);

		if (!status) {
			cache->deadline_ns = 0;
			status = cache_delete(cache, key);
		}
		if (status == FORGE_E_NODE)
			view_lost(v, i);
		else if (status != FORGE_E_AGAIN)
			break;
	}
	return FORGE_E_NODE;
}

static int outdate(struct view *v)
{
	client_outdate(v->session->client);
	return FORGE_E_SPREAD;
}

/* What came of a change. */
static inline MAY_WAIT int changed(struct view *v, uint32_t i, struct cache_key key, int status)
{
	if (unlikely(status == FORGE_E_NODE))
		return refuse(v, i, key);
	return unlikely(status == FORGE_E_SPREAD) ? outdate(v) : status;
}

int view_get(struct view *v, struct cache_key key, struct cache_value *out)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache *c;
	int status = go_to(v, i, &c);

	if (likely(!status))
		status = cache_get(c, key, out);
	if (likely(status == 0))
		expiry_here(v, c, out);
	else if (status == FORGE_E_NODE)
		return miss_lost(v, i);
	else if (status == FORGE_E_SPREAD)
		return outdate(v);
	return status;
}

int view_set(struct view *v, struct cache_key key, const struct cache_item *item)
{
	return view_store(v, key, CACHE_SET, item, NULL);
}

int view_store(struct view *v, struct cache_key key, enum cache_store mode,
	       const struct cache_item *item, uint64_t *cas_id)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache_item there;
	struct cache *c;
	int status = go_to(v, i, &c);

	if (!status && needs_shift(v, item->expiry_ms)) {
		there = *item;
		there.expiry_ms = expiry_there(v, c, item->expiry_ms);
		item = &there;
	}
	if (likely(!status))
		status = cache_store(c, key, mode, item, cas_id);
	return changed(v, i, key, status);
}

int view_delete(struct view *v, struct cache_key key)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache *c;
	int status = go_to(v, i, &c);

	return changed(v, i, key, status ? status : cache_delete(c, key));
}

int view_delete_if(struct view *v, struct cache_key key, uint64_t cas_id)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache *c;
	int status = go_to(v, i, &c);

	return changed(v, i, key, status ? status : cache_delete_if(c, key, cas_id));
}

int view_arithmetic(struct view *v, struct cache_key key, const struct cache_arith *arith,
		    uint64_t *value, uint64_t *cas_id)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache_arith there = *arith;
	struct cache *c;
	int status = go_to(v, i, &c);

	if (likely(!status)) {
		there.expiry_ms = expiry_there(v, c, arith->expiry_ms);
		status = cache_arithmetic(c, key, &there, value, cas_id);
	}
	return changed(v, i, key, status);
}

int view_touch(struct view *v, struct cache_key key, uint64_t expiry_ms, struct cache_value *out)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache *c;
	int status = go_to(v, i, &c);

	if (likely(!status))
		status = cache_touch(c, key, expiry_there(v, c, expiry_ms), out);
	if (status == 0)
		expiry_here(v, c, out);
	return changed(v, i, key, status);
}

/* A decision in session time on a value in another. */
struct shifted {
	const struct cache_change *change;
	int64_t lead_ms;
};

static void decide_shifted(void *context, const struct cache_value *old, struct cache_decision *out)
{
	const struct shifted *s = context;
	struct cache_value here;

	if (old) {
		here = *old;
		here.expiry_ms = shift(old->expiry_ms, -s->lead_ms);
	}
	s->change->decide(s->change->context, old ? &here : NULL, out);
	out->item.expiry_ms = shift(out->item.expiry_ms, s->lead_ms);
}

int view_change(struct view *v, struct cache_key key, const struct cache_change *change,
		uint64_t *cas_id)
{
	uint32_t i = member_of(v->session->client, key);
	struct cache *c;
	int status = go_to(v, i, &c);

	if (likely(!status) && likely(v->session->client->member_count == 1)) {
		status = cache_change(c, key, change, cas_id);
	} else if (!status) {
		struct shifted s = {change, lead_of(v, c)};
		struct cache_change shifted = {.decide = decide_shifted, .context = &s};

		status = cache_change(c, key, &shifted, cas_id);
	}
	return changed(v, i, key, status);
}

int view_tend(struct view *v)
{
	struct client *client = v->session->client;

	for (uint32_t i = 0; i < client->member_count; i++) {
		struct cache *c;
		int status = go_to(v, i, &c);

		if (!status)
			status = cache_begin(c);
		if (!status)
			status = tally_tell_old(&c->tally, c->worker, c->moment.now_ns);
		if (!status)
			status = cache_ahead(c);
		if (status == FORGE_E_NODE)
			view_lost(v, i);
		else if (status)
			return status == FORGE_E_SPREAD ? outdate(v) : status;
	}
	return atomic_load(&client->up_count) > 0 ? 0 : FORGE_E_NODE;
}

int view_is_due(const struct view *v)
{
	struct client *client = v->session->client;

	for (uint32_t i = 0; i < client->member_count; i++) {
		const struct place *p = &v->places[i];

		if (p->of && p->of == member_now(&client->members[i]) && cache_is_due(p->cache))
			return 1;
	}
	return 0;
}

/* ---- counting ----------------------------------------------------------------------------- */

void view_count(const struct view *v, struct cache_counters *into)
{
	cache_counters_merge(into, &v->count);
	for (uint32_t i = 0; i < v->session->client->member_count; i++)
		if (v->places[i].of)
			cache_counters_merge(into, &v->places[i].cache->count);
}

void view_tell_old(const struct view *v, struct view *teller)
{
	for (uint32_t i = 0; i < v->session->client->member_count; i++) {
		struct place *p = &v->places[i], *t = &teller->places[i];

		/* One that is taken meanwhile tells for itself, and two may tell at once (tally.c).
		 */
		if (p->of && p->of == t->of &&
		    tally_tell_old(&p->cache->tally, t->cache->worker, t->cache->moment.now_ns) ==
			FORGE_E_NODE)
			view_lost(teller, i);
	}
}

void view_tell_all(struct view *v)
{
	for (uint32_t i = 0; i < v->session->client->member_count; i++) {
		struct place *p = &v->places[i];

		if (!p->of || !p->cache->tally.tells || atomic_load(&p->of->is_lost))
			continue;
		p->cache->worker->wait = v->lead.wait;
		p->cache->worker->wait_context = v->lead.wait_context;
		tally_close(&p->cache->tally, p->cache->worker);
	}
}

/* ---- beginning and end -------------------------------------------------------------------- */

int view_open(struct view *v, struct session *s)
{
	*v = (struct view){.session = s};
	v->places = calloc(s->client->member_count, sizeof(*v->places));
	worker_init(&v->lead, NULL, clock_monotonic(), s->client->options.seed ^ (uintptr_t)v);
	return v->places ? 0 : FORGE_E_NO_MEMORY;
}

void view_close(struct view *v)
{
	if (!v->places)
		return;
	for (uint32_t i = 0; i < v->session->client->member_count; i++)
		place_close(v, &v->places[i]);
	free(v->places);
	v->places = NULL;
}
