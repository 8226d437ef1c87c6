/* view.c: leading operations to the members that have their keys. */
#include "client/view.h"

#include <stdlib.h>

#include "client/inside.h"

/* ---- places ------------------------------------------------------------------------------- */

void place_close(struct view *v, uint32_t i)
{
	struct place *p = v->places[i];

	if (!p)
		return;
	struct seat *seat = p->seat;

	cache_counters_merge(&v->count, &p->cache->count);
	if (p->cache == &p->own_cache)
		cache_fini(&p->own_cache);
	v->places[i] = NULL;
	*p = (struct place){.next = v->closed};
	v->closed = p;
	seat_drop(seat);
}

static struct place *place_new(struct view *v)
{
	struct place *p = v->closed;

	if (!p)
		return calloc(1, sizeof(*p));
	v->closed = p->next;
	p->next = NULL;
	return p;
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
	struct seat *seat;
	int status = seat_at(v->session, i, now, &seat);

	if (status)
		return status;
	struct place *p = place_new(v);

	if (!p)
		return FORGE_E_NO_MEMORY;
	if (v->is_own) {
		p->cache = &seat->cache;
	} else {
		worker_init(&p->own_worker, seat->fab, clock_monotonic(),
			    prng_u64(&seat->worker.prng));
		p->own_worker.index = seat->worker.index;
		status = cache_init_beside(&p->own_cache, &p->own_worker, &seat->cache);
		if (status) {
			*p = (struct place){.next = v->closed};
			v->closed = p;
			return status;
		}
		p->cache = &p->own_cache;
	}
	seat->users++;
	p->seat = seat;
	p->of = seat->of;
	v->places[i] = p;
	return 0;
}

/* The member was lost, or came back, since this place was used, if it ever was. */
static MAY_WAIT int place_renew(struct view *v, uint32_t i)
{
	struct client *c = v->session->client;
	struct member *m = &c->members[i];

	place_close(v, i);
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
	p->cache->spread_epoch = v->map->epoch;
	return p->cache;
}

/* For the first time, or the first since the member came back. */
static __attribute__((noinline)) MAY_WAIT int arrive(struct view *v, const struct worker *lead,
						     uint32_t i)
{
	int status = place_renew(v, i);

	/* Should that fail, the node is lost and the operation will say so. */
	if (!status && !v->places[i]->counts)
		v->places[i]->counts = cache_count_in_pool(led(v, lead, v->places[i])) == 0;
	return status;
}

static inline MAY_WAIT int go_to_as(struct view *v, const struct worker *lead, uint32_t i,
				    struct cache **out)
{
	struct place *p = v->places[i];

	if (unlikely(!p || p->of != member_now(&v->session->client->members[i]))) {
		int status = arrive(v, lead, i);

		if (status)
			return status;
		p = v->places[i];
	}
	*out = led(v, lead, p);
	return 0;
}

static inline MAY_WAIT int go_to(struct view *v, uint32_t i, struct cache **out)
{
	return go_to_as(v, &v->lead, i, out);
}

int view_cache_of(struct view *v, uint32_t member, struct cache **out)
{
	return go_to(v, member, out);
}

int view_cache(struct view *v, uint32_t member, struct cache **out)
{
	int status = view_follow(v);

	if (!status && !map_has(v->map, member))
		status = FORGE_E_NODE;
	return status ? status : go_to(v, member, out);
}

int view_cache_as(struct view *v, const struct worker *lead, uint32_t member, struct cache **out)
{
	return go_to_as(v, lead, member, out);
}

void view_lost(struct view *v, uint32_t i)
{
	struct client *c = v->session->client;

	if (v->places[i])
		member_lose(c, &c->members[i], v->places[i]->of);
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
	return unlikely(expiry_ms != 0) &&
	       atomic_load_explicit(&v->session->client->is_shifting, memory_order_relaxed);
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

uint32_t view_member_of(const struct view *v, struct cache_key key)
{
	return map_slot_of(v->map, key);
}

/* To the member that has the key by the present map; *i is which, as far as that is known. */
static inline MAY_WAIT int lead_to(struct view *v, struct cache_key key, uint32_t *i,
				   struct cache **out)
{
	struct client *c = v->session->client;

	*i = 0;
	if (unlikely(!v->map || v->map != map_present(c))) {
		int status = view_follow(v);

		if (status)
			return status;
	}
	*i = map_slot_of(v->map, key);
	return go_to(v, *i, out);
}

/* A Get found no node to ask.  One that is new has nothing that it could have found. */
static int miss_lost(struct view *v, uint32_t i)
{
	struct client *c = v->session->client;
	int is_new = atomic_load(&c->members[i].is_arriving);

	view_lost(v, i);
	v->count.gets_lost++;
	return is_new || atomic_load(&c->up_count) > 0 ? FORGE_MISS : FORGE_E_NODE;
}

/* Delete the key whatever the time, at whoever has it now; *i is who. */
static MAY_WAIT int delete_anyhow(struct view *v, uint32_t *i, struct cache_key key)
{
	uint64_t deadline_ns = v->deadline_ns, since_ns = 0;
	struct cache *cache;
	int status;

	v->deadline_ns = 0;
	do {
		status = lead_to(v, key, i, &cache);
		if (!status)
			status = cache_delete(cache, key);
	} while (status == FORGE_E_SPREAD && view_again(v, *i, &status, &since_ns));
	v->deadline_ns = deadline_ns;
	return status;
}

/*
 * A change found no node, or lost it half-way.  If that loss was mended already, the key is deleted
 * here and now, so that an old value is not found by who was told of the failure.  If it is not
 * known where it is, the node counts as lost once more, so that it is deleted before that is used.
 */
static MAY_WAIT int refuse(struct view *v, uint32_t i, struct cache_key key)
{
	struct client *c = v->session->client;

	view_lost(v, i);
	v->count.changes_refused++;
	while (!member_refuse(c, &c->members[i], key)) {
		int status = delete_anyhow(v, &i, key);

		if (status == FORGE_E_NODE || status == FORGE_E_SPREAD)
			view_lost(v, i);
		else if (status != FORGE_E_AGAIN)
			break;
		if (!v->places[i] && member_now(&c->members[i]))
			break; /* never was there, so nothing of it is */
	}
	return FORGE_E_NODE;
}

/* What came of a change. */
static inline MAY_WAIT int changed(struct view *v, uint32_t i, struct cache_key key, int status)
{
	return unlikely(status == FORGE_E_NODE) ? refuse(v, i, key) : status;
}

/* Is it to be done again?  See view_again(). */
static inline MAY_WAIT int is_again(struct view *v, uint32_t i, int *status, uint64_t *since_ns)
{
	return unlikely(*status < 0) && view_again(v, i, status, since_ns);
}

/* Nothing is sought in vain at a member that is not there yet: it is a miss at once. */
static int is_new_there(const struct view *v, uint32_t i, int status)
{
	return status == FORGE_E_NODE && atomic_load(&v->session->client->members[i].is_arriving);
}

int view_get(struct view *v, struct cache_key key, struct cache_value *out)
{
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status))
			status = cache_get(c, key, out);
	} while (unlikely(status < 0) && !is_new_there(v, i, status) &&
		 view_again(v, i, &status, &since_ns));
	if (likely(status == 0))
		expiry_here(v, c, out);
	else if (status == FORGE_E_NODE)
		return miss_lost(v, i);
	return status;
}

int view_set(struct view *v, struct cache_key key, const struct cache_item *item)
{
	return view_store(v, key, CACHE_SET, item, NULL);
}

int view_store(struct view *v, struct cache_key key, enum cache_store mode,
	       const struct cache_item *item, uint64_t *cas_id)
{
	struct cache_item there;
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		const struct cache_item *stored = item;

		status = lead_to(v, key, &i, &c);
		if (!status && needs_shift(v, item->expiry_ms)) {
			there = *item;
			there.expiry_ms = expiry_there(v, c, item->expiry_ms);
			stored = &there;
		}
		if (likely(!status))
			status = cache_store(c, key, mode, stored, cas_id);
	} while (is_again(v, i, &status, &since_ns));
	return changed(v, i, key, status);
}

int view_delete(struct view *v, struct cache_key key)
{
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status))
			status = cache_delete(c, key);
	} while (is_again(v, i, &status, &since_ns));
	return changed(v, i, key, status);
}

int view_delete_if(struct view *v, struct cache_key key, uint64_t cas_id)
{
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status))
			status = cache_delete_if(c, key, cas_id);
	} while (is_again(v, i, &status, &since_ns));
	return changed(v, i, key, status);
}

int view_arithmetic(struct view *v, struct cache_key key, const struct cache_arith *arith,
		    uint64_t *value, uint64_t *cas_id)
{
	struct cache_arith there = *arith;
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status)) {
			there.expiry_ms = expiry_there(v, c, arith->expiry_ms);
			status = cache_arithmetic(c, key, &there, value, cas_id);
		}
	} while (is_again(v, i, &status, &since_ns));
	return changed(v, i, key, status);
}

int view_touch(struct view *v, struct cache_key key, uint64_t expiry_ms, struct cache_value *out)
{
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status))
			status = cache_touch(c, key, expiry_there(v, c, expiry_ms), out);
	} while (is_again(v, i, &status, &since_ns));
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

static MAY_WAIT int change_there(struct view *v, struct cache *c, struct cache_key key,
				 const struct cache_change *change, uint64_t *cas_id)
{
	if (likely(!atomic_load_explicit(&v->session->client->is_shifting, memory_order_relaxed)))
		return cache_change(c, key, change, cas_id);
	struct shifted s = {change, lead_of(v, c)};
	struct cache_change shifted = {.decide = decide_shifted, .context = &s};

	return cache_change(c, key, &shifted, cas_id);
}

int view_change(struct view *v, struct cache_key key, const struct cache_change *change,
		uint64_t *cas_id)
{
	uint64_t since_ns = 0;
	struct cache *c = NULL;
	uint32_t i;
	int status;

	do {
		status = lead_to(v, key, &i, &c);
		if (likely(!status))
			status = change_there(v, c, key, change, cas_id);
	} while (is_again(v, i, &status, &since_ns));
	return changed(v, i, key, status);
}

/* At one member. */
static MAY_WAIT int tend_at(struct view *v, uint32_t i)
{
	struct cache *c = NULL;
	int status = go_to(v, i, &c);

	if (!status)
		status = cache_begin(c);
	if (!status)
		status = tally_tell_old(&c->tally, c->worker, c->moment.now_ns);
	if (!status)
		status = cache_ahead(c);
	if (status == FORGE_E_NODE) {
		view_lost(v, i);
		return 0;
	}
	if (status == FORGE_E_SPREAD)
		client_outdate(v->session->client, v->map, i);
	return status;
}

/* That the members are being changed is seen to already, and nothing to tell for a while. */
int view_tend(struct view *v)
{
	struct client *client = v->session->client;
	int status = view_follow(v);

	for (uint32_t i = 0; !status && i < v->map->slot_end; i++)
		if (map_has(v->map, i))
			status = tend_at(v, i);
	if (status == FORGE_E_SPREAD)
		return client_is_patient(client) ? 0 : status;
	return status ? status : atomic_load(&client->up_count) > 0 ? 0 : FORGE_E_NODE;
}

int view_is_due(const struct view *v)
{
	struct client *client = v->session->client;

	for (uint32_t i = 0; v->map && i < v->map->slot_end; i++) {
		const struct place *p = v->places[i];

		if (p && p->of == member_now(&client->members[i]) && cache_is_due(p->cache))
			return 1;
	}
	return 0;
}

/* ---- counting ----------------------------------------------------------------------------- */

void view_count(const struct view *v, struct cache_counters *into)
{
	cache_counters_merge(into, &v->count);
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		if (v->places[i])
			cache_counters_merge(into, &v->places[i]->cache->count);
}

void view_tell_old(const struct view *v, struct view *teller)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		struct place *p = v->places[i], *t = teller->places[i];

		/* One that is taken meanwhile tells for itself, and two may tell at once (tally.c).
		 */
		if (!p || !t || p->of != t->of)
			continue;
		/* It may not have got that far in its own tending. */
		t->cache->worker->wait = teller->lead.wait;
		t->cache->worker->wait_context = teller->lead.wait_context;
		if (tally_tell_old(&p->cache->tally, t->cache->worker, t->cache->moment.now_ns) ==
		    FORGE_E_NODE)
			view_lost(teller, i);
	}
}

void view_tell_now(struct view *v, const struct worker *lead)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		struct place *p = v->places[i];

		if (!p || atomic_load(&p->of->is_lost))
			continue;
		p->cache->worker->wait = lead->wait;
		p->cache->worker->wait_context = lead->wait_context;
		if (tally_tell(&p->cache->tally, p->cache->worker) == FORGE_E_NODE)
			view_lost(v, i);
	}
}

void view_tell_all(struct view *v)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		if (v->places[i])
			place_tell_all(v->places[i], &v->lead);
}

/* ---- beginning and end -------------------------------------------------------------------- */

void view_open(struct view *v, struct session *s)
{
	*v = (struct view){.session = s};
	worker_init(&v->lead, NULL, clock_monotonic(), s->client->options.seed ^ (uintptr_t)v);
}

void view_close(struct view *v)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		place_close(v, i);
	while (v->closed) {
		struct place *p = v->closed;

		v->closed = p->next;
		free(p);
	}
	map_drop(v->map);
	v->map = NULL;
}
