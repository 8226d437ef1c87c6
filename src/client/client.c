/* client.c: attaching a process and its threads. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/host.h"
#include "client/link.h"
#include "pool/recover.h"

/*
 * While somebody recovers a dead node he holds the lock of its id, and for a moment also when he
 * only looks: an id that will be free soon cannot be told from one that is in use.  So a joiner
 * that finds none tries for half a second, many times what a recovery takes (doc/recovery.md).
 */
#define JOIN_NAP_NS 2000000
#define JOIN_NAPS   250u

struct client {
	struct link *link;
	struct pool pool;
	struct cn cn;
	struct client_options options;
	/* Joining and leaving are a worker's business too; this one is the client's own. */
	struct fab *fab;
	struct worker worker;
	_Atomic uint32_t sessions_opened, sessions_live;
};

struct session {
	struct client *client;
	struct fab *fab;
	struct fab_counts verbs;
	struct worker worker;
	struct lane lane;
	struct cache cache;
};

static int choose_policy(struct client *c, const struct policy **out, char *error_text,
			 size_t error_bytes)
{
	const char *name = c->options.policy ? c->options.policy : c->pool.plan.policy;
	const struct policy *policy = policy_find(name);

	if (!policy) {
		snprintf(error_text, error_bytes,
			 "there is no policy \"%s\" in this build; --help lists them", name);
		return FORGE_E_INVAL;
	}
	if (policy->slot_words != c->pool.plan.slot_words) {
		snprintf(error_text, error_bytes,
			 "policy %s needs slots of %u bytes, the pool was formatted for %s with "
			 "slots of %u: format a pool with --policy %s",
			 name, 8 * policy->slot_words, c->pool.plan.policy,
			 8 * c->pool.plan.slot_words, name);
		return FORGE_E_INVAL;
	}
	*out = policy;
	return 0;
}

/* Who died before us left chunks and ids behind; ours may be among them. */
static int client_try_to_join(struct client *c, const struct policy *policy,
			      struct layout_registry *lines)
{
	struct cn_options options = {
	    .worker_count = c->options.session_count,
	    .poll_interval_us = c->options.poll_interval_us,
	    .open_groups = c->options.open_groups,
	    .alive = link_liveness(c->link),
	};
	struct recover_report report = {0};
	uint32_t dead_count;
	int status = recover_dead_open(&c->pool, &c->worker, options.alive, &report, &dead_count);

	return status ? status
		      : cn_open(&c->cn, &c->pool, policy, &c->worker, &options, (uint32_t)getpid(),
				lines);
}

static int client_join(struct client *c, const struct policy *policy)
{
	struct layout_registry *lines = calloc(c->pool.plan.cn_max, sizeof(*lines));
	const struct timespec nap = {.tv_nsec = JOIN_NAP_NS};
	int status = lines ? client_try_to_join(c, policy, lines) : FORGE_E_NO_MEMORY;

	for (unsigned i = 0; i < JOIN_NAPS && status == FORGE_E_FULL_REGISTRY; i++) {
		nanosleep(&nap, NULL);
		status = client_try_to_join(c, policy, lines);
	}
	free(lines);
	return status;
}

static int client_attach(struct client *c, char *error_text, size_t error_bytes)
{
	const struct policy *policy;
	int status = link_connect(c->link, &c->fab);

	if (status) {
		snprintf(error_text, error_bytes, "connecting: %s", status_sentence(status));
		return status;
	}
	worker_init(&c->worker, c->fab, clock_monotonic(), c->options.seed);
	status = pool_open(&c->worker, &c->pool, error_text, error_bytes);
	c->pool.clock = link_clock(c->link);
	if (!status && link_base(c->link))
		status = host_check(&c->pool, error_text, error_bytes);
	if (!status)
		status = choose_policy(c, &policy, error_text, error_bytes);
	if (status)
		return status;
	status = client_join(c, policy);
	if (status == FORGE_E_FULL_REGISTRY)
		snprintf(error_text, error_bytes,
			 "all %u compute-node ids of the pool are taken: close a client, or format "
			 "the pool with a larger --cn-max",
			 c->pool.plan.cn_max);
	else if (status == FORGE_E_INVAL)
		snprintf(error_text, error_bytes,
			 "a compute node has at most %u sessions, not %u: use several processes",
			 CN_WORKERS_MAX, c->options.session_count);
	else if (status)
		snprintf(error_text, error_bytes, "joining the pool: %s", status_sentence(status));
	return status;
}

static void client_destroy(struct client *c)
{
	fab_close(c->fab);
	link_close(c->link);
	free(c);
}

int client_open(const char *pool_name, const struct client_options *options, struct client **out,
		char *error_text, size_t error_bytes)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	c->options = *options;
	int status = link_open(pool_name, 0, &c->link, error_text, error_bytes);

	if (!status)
		status = client_attach(c, error_text, error_bytes);
	if (status) {
		client_destroy(c);
		return status;
	}
	*out = c;
	return 0;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	if (link_is_forked(c->link))
		cn_memory_destroy(&c->cn); /* the compute node is the parent's */
	else
		cn_close(&c->cn, &c->worker);
	client_destroy(c);
}

const struct pool *client_pool(const struct client *c)
{
	return &c->pool;
}

const struct policy *client_policy(const struct client *c)
{
	return c->cn.policy;
}

uint32_t client_cn(const struct client *c)
{
	return c->cn.member.cn;
}

uint64_t client_memory_bytes(const struct client *c)
{
	return cn_memory_bytes(&c->pool.plan);
}

static int session_attach(struct session *s)
{
	struct client *c = s->client;
	int status = link_connect(c->link, &s->fab);

	if (!status && c->options.count_verbs) {
		struct fab *inner = s->fab;

		s->fab = NULL;
		status = count_open(inner, &s->verbs, &s->fab);
	}
	if (status)
		return status;
	uint32_t index = atomic_fetch_add(&c->sessions_opened, 1);

	worker_init(&s->worker, s->fab, clock_monotonic(), c->options.seed + index);
	s->worker.index = index;
	status = lane_init(&s->lane, &c->cn);
	if (status)
		return status;
	status = cache_init(&s->cache, &s->worker, &c->cn, &s->lane);
	if (status) {
		lane_fini(&s->lane);
		return status;
	}
	status = cache_count_in_pool(&s->cache);
	if (status) {
		cache_fini(&s->cache);
		lane_fini(&s->lane);
	}
	return status;
}

/*
 * Chunks in hand and claims at once are shared out among session_count sessions: with more of
 * them the node would hold more than its share.
 */
static int take_seat(struct client *c, char *error_text, size_t error_bytes)
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

int session_open(struct client *c, struct session **out, char *error_text, size_t error_bytes)
{
	if (take_seat(c, error_text, error_bytes))
		return FORGE_E_INVAL;
	struct session *s = calloc(1, sizeof(*s));

	if (!s) {
		atomic_fetch_sub(&c->sessions_live, 1);
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	s->client = c;
	int status = session_attach(s);

	if (status) {
		snprintf(error_text, error_bytes, "opening a session: %s", status_sentence(status));
		atomic_fetch_sub(&c->sessions_live, 1);
		fab_close(s->fab);
		free(s);
		return status;
	}
	*out = s;
	return 0;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	if (!link_is_forked(s->client->link))
		cache_drain(&s->cache); /* in a child: the parent's to give back */
	cache_fini(&s->cache);
	lane_fini(&s->lane);
	fab_close(s->fab);
	atomic_fetch_sub(&s->client->sessions_live, 1);
	free(s);
}

int session_get(struct session *s, struct cache_key key, struct cache_value *out)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_get(&s->cache, key, out);
}

int session_set(struct session *s, struct cache_key key, const struct cache_item *item)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_set(&s->cache, key, item);
}

int session_delete(struct session *s, struct cache_key key)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_delete(&s->cache, key);
}

int session_store(struct session *s, struct cache_key key, enum cache_store mode,
		  const struct cache_item *item, uint64_t *cas_id)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_store(&s->cache, key, mode, item, cas_id);
}

int session_arithmetic(struct session *s, struct cache_key key, const struct cache_arith *arith,
		       uint64_t *value, uint64_t *cas_id)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_arithmetic(&s->cache, key, arith, value, cas_id);
}

int session_touch(struct session *s, struct cache_key key, uint64_t expiry_ms,
		  struct cache_value *out)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_touch(&s->cache, key, expiry_ms, out);
}

int session_delete_if(struct session *s, struct cache_key key, uint64_t cas_id)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_delete_if(&s->cache, key, cas_id);
}

int session_flush(struct session *s)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_flush(&s->cache);
}

int session_change(struct session *s, struct cache_key key, const struct cache_change *change,
		   uint64_t *cas_id)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	return cache_change(&s->cache, key, change, cas_id);
}

uint64_t session_now_ms(const struct session *s)
{
	return cache_pool_ms(&s->cache);
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

/* More keys than this at once would push each other out again. */
#define EXPECT_KEYS_MAX 32u
/* Of an object: header, key and the beginning of the value. */
#define EXPECT_OBJECT_BYTES 256u

static void prefetch(const char *from, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += 64)
		__builtin_prefetch(from + at);
}

/* A glance at words that may change under us: all that comes of it is a prefetch. */
static void expect_objects(const struct plan *p, const char *base, const struct index_home *home)
{
	const _Atomic uint64_t *words =
	    (const _Atomic uint64_t *)(base + plan_bucket_address(p, home->bucket));

	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++) {
		uint64_t word =
		    atomic_load_explicit(&words[slot * p->slot_words], memory_order_relaxed);
		uint64_t address = index_object_address(word), bytes = index_object_bytes(word);

		if (index_fingerprint(word) == home->fingerprint && bytes > 0 &&
		    address < p->pool_bytes)
			prefetch(base + address, min_u64(bytes, EXPECT_OBJECT_BYTES));
	}
}

void session_expect(struct session *s, const struct cache_key *keys, unsigned n)
{
	const struct plan *p = &s->client->pool.plan;
	const char *base = link_base(s->client->link);
	struct index_home homes[EXPECT_KEYS_MAX];

	if (!base)
		return;
	n = (unsigned)min_u64(n, EXPECT_KEYS_MAX);
	for (unsigned i = 0; i < n; i++) {
		homes[i] = index_locate(p, keys[i].data, keys[i].bytes);
		prefetch(base + plan_bucket_address(p, homes[i].bucket), index_view_bytes(p));
	}
	for (unsigned i = 0; i < n; i++)
		expect_objects(p, base, &homes[i]);
}

int session_tend(struct session *s)
{
	if (unlikely(link_is_forked(s->client->link)))
		return FORGE_E_FORKED;
	int status = cache_begin(&s->cache);

	return status ? status
		      : tally_tell_old(&s->cache.tally, &s->worker, s->cache.moment.now_ns);
}

struct cache *session_cache(struct session *s)
{
	return &s->cache;
}

int session_cache_open(struct session *s, struct worker *w, struct cache *out)
{
	worker_init(w, s->fab, clock_monotonic(), prng_u64(&s->worker.prng));
	w->index = s->worker.index;
	return cache_init_beside(out, w, &s->cache);
}

void session_cache_close(struct session *s, struct cache *c)
{
	if (!link_is_forked(s->client->link))
		tally_close(&c->tally, c->worker);
	cache_fini(c);
}

int client_is_forked(const struct client *c)
{
	return link_is_forked(c->link);
}

int session_is_forked(const struct session *s)
{
	return client_is_forked(s->client);
}

const struct cache_counters *session_counters(const struct session *s)
{
	return &s->cache.count;
}

const struct fab_counts *session_verbs(const struct session *s)
{
	return &s->verbs;
}

struct worker *session_worker(struct session *s)
{
	return &s->worker;
}

void cache_counters_merge(struct cache_counters *into, const struct cache_counters *from)
{
#define COUNTER(name, sentence) into->name += from->name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
}
