/* client.c: opening and closing a client and its sessions, and what they say of themselves. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/inside.h"

/* ---- clients ------------------------------------------------------------------------------ */

static struct client *create(const struct client_options *options)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->options = *options;
	c->forked_mark = forked_mark();
	prng_seed(&c->prng, options->seed);
	if (options->policy)
		c->options.policy = c->policy_name = strdup(options->policy);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

int client_open(const char *pool_name, const struct client_options *options, struct client **out,
		char *error_text, size_t error_bytes)
{
	struct client *c = create(options);

	if (!c || (options->policy && !c->policy_name)) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		client_close(c);
		return FORGE_E_NO_MEMORY;
	}
	int status = members_open(c, pool_name, error_text, error_bytes);

	/* Else there is no use for the thread until the node is lost. */
	if (!status && mend_watches_names(c) && mend_start(c)) {
		status = FORGE_E_SYSTEM;
		snprintf(error_text, error_bytes,
			 "starting the thread that reaches lost memory nodes: %m; raise the limit "
			 "(ulimit -n, ulimit -u)");
	}
	if (status) {
		client_close(c);
		return status;
	}
	*out = c;
	return 0;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	mend_stop(c);
	members_close(c);
	/* The parent's thread may wait by it, and in the child will never have done so. */
	if (!forked_since(c->forked_mark))
		pthread_mutex_destroy(&c->lock);
	free(c->policy_name);
	free(c);
}

const struct pool *client_pool(const struct client *c)
{
	return &c->pool;
}

const struct policy *client_policy(const struct client *c)
{
	return c->policy;
}

uint32_t client_cn(const struct client *c)
{
	return c->cn;
}

uint64_t client_memory_bytes(struct client *c)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		struct attachment *a = member_hold(c, &c->members[i]);

		sum += a ? cn_memory_bytes(&a->pool.plan) : 0;
		attachment_drop(a);
	}
	return sum;
}

uint32_t client_member_count(struct client *c)
{
	struct map *m = map_hold_newest(c);
	uint32_t count = m->member_count;

	map_drop(m);
	return count;
}

uint32_t client_member_end(struct client *c)
{
	struct map *m = map_hold_newest(c);
	uint32_t end = m->slot_end;

	map_drop(m);
	return end;
}

int client_is_member(struct client *c, uint32_t member)
{
	struct map *m = map_hold_newest(c);
	int is = member < SPREAD_NODES_MAX && map_has(m, member);

	map_drop(m);
	return is;
}

void client_member(struct client *c, uint32_t member, struct client_member *out)
{
	struct member *m = &c->members[member];
	struct map *map = map_hold_newest(c);

	*out = (struct client_member){0};
	client_lock(c);
	const struct attachment *a = member_now(m);

	out->name = m->name;
	out->is_up = a != NULL;
	if (a)
		out->pool = a->pool;
	client_unlock(c);
	for (uint32_t p = 0; p < SPREAD_PARTITIONS && map->member_count > 1; p++)
		out->partitions += map->table[p] == member;
	map_drop(map);
}

/* One that was never reached has the name it had in the record. */
static const char *name_in_list(const struct client *c, const struct map *map, uint32_t member)
{
	for (uint32_t m = 0; m < map->record.member_count; m++)
		for (uint32_t i = 0; i < c->name_count && map->slot[m] == member; i++)
			if (c->places[i] == map->record.member[m].name)
				return c->names[i];
	return NULL;
}

const char *client_member_name(struct client *c, uint32_t member)
{
	struct map *map = map_hold_newest(c);

	client_lock(c);
	const char *name = c->members[member].name;

	client_unlock(c);
	if (!name)
		name = map->epoch ? name_in_list(c, map, member) : c->names[0];
	map_drop(map);
	return name;
}

const char *client_owner_name(struct client *c, struct cache_key key)
{
	struct map *m = map_hold_newest(c);
	uint32_t member = map_slot_of(m, key);

	map_drop(m);
	return client_member_name(c, member);
}

void client_losses(const struct client *c, uint64_t *losses, uint64_t *returns)
{
	*losses = atomic_load(&c->losses);
	*returns = atomic_load(&c->returns);
}

int client_is_forked(const struct client *c)
{
	return forked_since(c->forked_mark);
}

/* ---- sessions ----------------------------------------------------------------------------- */

/*
 * Chunks in hand and claims at once are shared out among session_count sessions: with more of
 * them the node would hold more than its share.
 */
static int take_turn(struct client *c, char *error_text, size_t error_bytes)
{
	uint32_t limit = c->options.session_count ? c->options.session_count : 1;

	if (atomic_fetch_add(&c->sessions_live, 1) < limit)
		return 0;
	atomic_fetch_sub(&c->sessions_live, 1);
	snprintf(error_text, error_bytes,
		 "the client was opened for %u session%s at once, and all are open: close one, or "
		 "open the client with a larger session_count",
		 limit, limit == 1 ? "" : "s");
	return FORGE_E_INVAL;
}

/* A place on every member that is up. */
static int take_places(struct session *s)
{
	struct client *c = s->client;
	uint64_t since_ns = 0;
	int status = view_follow(&s->view);

	while (status == FORGE_E_SPREAD && view_again(&s->view, 0, &status, &since_ns))
		status = view_follow(&s->view);
	for (uint32_t i = 0; !status && i < s->view.map->slot_end; i++) {
		struct cache *cache;

		if (!map_has(s->view.map, i))
			continue;
		status = view_cache_of(&s->view, i, &cache);
		if (!status && !s->view.places[i]->counts) {
			view_lost(&s->view, i);
			status = FORGE_E_NODE;
		}
		if (status == FORGE_E_NODE &&
		    (s->view.map->member_count > 1 || !member_now(&c->members[i])))
			status = 0;
	}
	return status;
}

static int session_attach(struct session *s)
{
	s->index = atomic_fetch_add(&s->client->sessions_opened, 1);
	view_open(&s->view, s);
	s->view.is_own = 1;
	s->view.lead.index = s->index;
	int status = take_places(s);

	s->is_begun = 1;
	return status;
}

int session_open(struct client *c, struct session **out, char *error_text, size_t error_bytes)
{
	if (take_turn(c, error_text, error_bytes))
		return FORGE_E_INVAL;
	struct session *s = calloc(1, sizeof(*s));
	int status = FORGE_E_NO_MEMORY;

	if (s) {
		s->client = c;
		status = session_attach(s);
	}
	if (status) {
		snprintf(error_text, error_bytes, "opening a session: %s", attachment_why(status));
		if (s)
			session_close(s);
		else
			atomic_fetch_sub(&c->sessions_live, 1);
		return status;
	}
	*out = s;
	return 0;
}

void session_rest(struct session *s)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		if (s->seats[i])
			seat_rest(s->seats[i]);
}

void session_close(struct session *s)
{
	if (!s)
		return;
	struct client *c = s->client;

	view_close(&s->view);
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++) {
		if (s->seats[i])
			seat_drain(s->seats[i]);
		seat_drop(s->seats[i]);
	}
	atomic_fetch_sub(&c->sessions_live, 1);
	free(s);
}

uint32_t client_members_up(const struct client *c)
{
	return (uint32_t)atomic_load(&c->up_count);
}

struct client *session_client(const struct session *s)
{
	return s->client;
}

struct view *session_view(struct session *s)
{
	return &s->view;
}

int session_is_forked(const struct session *s)
{
	return client_is_forked(s->client);
}

int session_get(struct session *s, struct cache_key key, struct cache_value *out)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_get(&s->view, key, out);
}

int session_set(struct session *s, struct cache_key key, const struct cache_item *item)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_set(&s->view, key, item);
}

int session_delete(struct session *s, struct cache_key key)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_delete(&s->view, key);
}

int session_store(struct session *s, struct cache_key key, enum cache_store mode,
		  const struct cache_item *item, uint64_t *cas_id)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_store(&s->view, key, mode, item, cas_id);
}

int session_arithmetic(struct session *s, struct cache_key key, const struct cache_arith *arith,
		       uint64_t *value, uint64_t *cas_id)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_arithmetic(&s->view, key, arith, value, cas_id);
}

int session_touch(struct session *s, struct cache_key key, uint64_t expiry_ms,
		  struct cache_value *out)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_touch(&s->view, key, expiry_ms, out);
}

int session_delete_if(struct session *s, struct cache_key key, uint64_t cas_id)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_delete_if(&s->view, key, cas_id);
}

int session_flush(struct session *s)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_flush(&s->view);
}

int session_change(struct session *s, struct cache_key key, const struct cache_change *change,
		   uint64_t *cas_id)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	return view_change(&s->view, key, change, cas_id);
}

int session_tend(struct session *s)
{
	if (unlikely(session_is_forked(s)))
		return FORGE_E_FORKED;
	int status = view_tend(&s->view);

	session_rest(s);
	return status;
}

/* A member that is lost now may come back over any fabric. */
int session_completes_at_post(struct session *s)
{
	struct map *m = map_hold_newest(s->client);
	int all = 1;

	for (uint32_t i = 0; i < m->slot_end; i++)
		all &= !map_has(m, i) ||
		       (s->seats[i] && fab_caps(s->seats[i]->fab)->completes_at_post);
	map_drop(m);
	return all;
}

/* ---- time --------------------------------------------------------------------------------- */

uint64_t session_now_ms(const struct session *s)
{
	const struct client *c = s->client;
	const struct place *p = s->view.places[0];

	/* Of one node its own, which may be known more closely by now. */
	if (p && !atomic_load_explicit(&c->is_shifting, memory_order_relaxed))
		return cache_pool_ms(p->cache);
	return c->time_base_ms + clock_now_ns(s->view.lead.clock) / 1000000u;
}

uint64_t session_expiry_in(const struct session *s, uint64_t ttl_ms)
{
	uint64_t now_ms = session_now_ms(s);

	return ttl_ms < UINT64_MAX - now_ms ? now_ms + ttl_ms : UINT64_MAX;
}

uint64_t session_expiry_at(const struct session *s, uint64_t unix_ms)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	uint64_t wall_ms = (uint64_t)wall.tv_sec * 1000 + (uint64_t)wall.tv_nsec / 1000000;

	return unix_ms > wall_ms ? session_expiry_in(s, unix_ms - wall_ms) : 1;
}

/* ---- reports ------------------------------------------------------------------------------ */

const struct cache_counters *session_counters(struct session *s)
{
	s->sum = (struct cache_counters){0};
	view_count(&s->view, &s->sum);
	return &s->sum;
}

const struct fab_counts *session_verbs(const struct session *s)
{
	return &s->verbs;
}

struct worker *session_worker(struct session *s)
{
	for (uint32_t i = 0; i < SPREAD_NODES_MAX; i++)
		if (s->view.places[i])
			return s->view.places[i]->cache->worker;
	return NULL;
}

void cache_counters_merge(struct cache_counters *into, const struct cache_counters *from)
{
#define COUNTER(name, sentence) into->name += from->name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
}
