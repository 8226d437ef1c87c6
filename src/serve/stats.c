/*
 * stats.c: the statistics of the memcached protocol, by memcached's names.
 *
 * What memcached has and a pool has not (slab classes, an LRU per class) is left out, or shown
 * as the one class that every size shares, so that tools which add the classes up stay right.
 * Counters of requests are this server's; what lies in the pool, and how it left, is the pool's,
 * whoever stored it.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/server_inside.h"

/* For threads that are asked for their figures; then those of their last tick are told. */
#define PUBLISH_WAIT_S 1
/* How old what the pool holds may be when it is asked for. */
#define FIGURES_MS 1000
/* Far more than the first look takes; then there is nothing to tell. */
#define FIGURES_PAUSES_MAX (1u << 20)

void server_sum_counts(const struct server *s, struct serve_counts *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (unsigned i = 0; i < s->options.thread_count; i++) {
		const struct serve_counts *from = &s->threads[i].conns.counts;
#define COUNT(name, sentence) \
	counts_add(&sum->name, atomic_load_explicit(&from->name, memory_order_relaxed));
		SERVE_COUNTS(COUNT)
#undef COUNT
	}
}

void server_publish(struct server *s)
{
	struct timespec deadline;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += PUBLISH_WAIT_S;
	for (unsigned i = 0; i < s->options.thread_count; i++)
		server_thread_ask(&s->threads[i]);
	for (unsigned i = 0; i < s->options.thread_count; i++)
		server_thread_wait(&s->threads[i], &deadline);
}

void server_sum_published(struct server *s, struct cache_counters *cache, struct fab_counts *verbs,
			  struct hist *batch_ns)
{
	for (unsigned i = 0; i < s->options.thread_count; i++) {
		struct server_thread *t = &s->threads[i];

		pthread_mutex_lock(&t->lock);
		cache_counters_merge(cache, &t->cache);
		fab_counts_merge(verbs, &t->verbs);
		hist_merge(batch_ns, &t->batch_ns);
		pthread_mutex_unlock(&t->lock);
	}
}

/* Is it the caller's to count anew?  A copy of the last figures; *known: there are any. */
static bool figures_claim(struct server *s, uint64_t now_ms, struct server_figures *out,
			  bool *known)
{
	pthread_mutex_lock(&s->figures_lock);
	*known = s->figures_ms != 0;
	bool claimed = s->options.figures && !s->figures_busy &&
		       (!*known || now_ms - s->figures_ms >= FIGURES_MS);

	s->figures_busy |= claimed;
	*out = s->figures;
	pthread_mutex_unlock(&s->figures_lock);
	return claimed;
}

/* fresh: NULL if they could not be counted. */
static void figures_settle(struct server *s, uint64_t now_ms, const struct server_figures *fresh)
{
	pthread_mutex_lock(&s->figures_lock);
	s->figures_busy = false;
	if (fresh) {
		s->figures = *fresh;
		s->figures_ms = now_ms;
	}
	pthread_mutex_unlock(&s->figures_lock);
}

/*
 * Counting waits for the fabric, and so no lock is held meanwhile.  Who comes while somebody else
 * counts for the first time waits for that.
 */
void server_figures(struct server *s, struct view *v, struct server_figures *out)
{
	uint64_t now_ms = clock_now_ns(clock_monotonic()) / 1000000;
	struct server_figures fresh = {0};
	bool known;

	for (unsigned i = 0; i < FIGURES_PAUSES_MAX; i++) {
		if (figures_claim(s, now_ms, out, &known)) {
			int status = s->options.figures(s->options.context, v, &fresh);

			figures_settle(s, now_ms, status ? NULL : &fresh);
			if (!status)
				*out = fresh;
			return;
		}
		if (known || !s->options.figures)
			return;
		flow_pause(&v->lead);
	}
}

/* ---- writing ------------------------------------------------------------------------------ */

struct stats_out {
	struct server *server;
	struct executor *executor;
	const struct request *request;
};

static void PRINTF_LIKE(3, 4)
    put(const struct stats_out *o, const char *name, const char *format, ...)
{
	char value[256];
	va_list args;

	va_start(args, format);
	vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	stat_write(o->executor, o->request, name, value);
}

static void put_u64(const struct stats_out *o, const char *name, uint64_t n)
{
	put(o, name, "%" PRIu64, n);
}

static void put_time(const struct stats_out *o, const char *name, const struct timeval *t)
{
	put(o, name, "%ld.%06ld", (long)t->tv_sec, (long)t->tv_usec);
}

/* ---- groups ------------------------------------------------------------------------------- */

static void put_process(const struct stats_out *o)
{
	const struct server *s = o->server;
	uint64_t now_ms = clock_now_ns(clock_monotonic()) / 1000000;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	put_u64(o, "pid", (uint64_t)getpid());
	put_u64(o, "uptime", (now_ms - s->start_ms) / 1000);
	put_u64(o, "time", (uint64_t)time(NULL));
	put(o, "version", "%s", SERVER_PROTOCOL_VERSION);
	put(o, "forge_version", "%s", s->options.version);
	put(o, "libevent", "%s", event_get_version());
	put_u64(o, "pointer_size", 8 * sizeof(void *));
	put_time(o, "rusage_user", &usage.ru_utime);
	put_time(o, "rusage_system", &usage.ru_stime);
	put_u64(o, "max_connections", s->options.connections_max);
	put_u64(o, "curr_connections", atomic_load(&s->open_count));
	put_u64(o, "rejected_connections", atomic_load(&s->rejected_count));
	put_u64(o, "listen_disabled_num", atomic_load(&s->accept_failures));
	put_u64(o, "accepting_conns", s->signal == 0);
	put_u64(o, "threads", s->options.thread_count);
	put_u64(o, "threads_serving", atomic_load(&s->share.serving));
}

static void put_pool(const struct stats_out *o)
{
	const uint64_t *count;
	struct server_figures f;

	server_figures(o->server, o->executor->view, &f);
	count = f.stats.count;
	put_u64(o, "limit_maxbytes", o->server->options.limit_bytes);
	put_u64(o, "bytes", f.bytes);
	put_u64(o, "curr_items", f.items);
	put_u64(o, "total_items", f.stats.stored);
	put_u64(o, "evictions", count[STATS_evicted]);
	put_u64(o, "reclaimed", count[STATS_expired]);
	for (unsigned i = 0; i < STATS_COUNT; i++) {
		char name[64];

		snprintf(name, sizeof(name), "pool_%s", stats_name(i)->name);
		put_u64(o, name, count[i]);
	}
	put_u64(o, "pool_nodes", f.nodes);
	put_u64(o, "memory_nodes", client_member_count(o->server->options.client));
	put_u64(o, "memory_nodes_up", client_members_up(o->server->options.client));
	put_u64(o, "pool_chunks", f.chunks);
	put_u64(o, "pool_chunks_free", f.chunks_free);
}

static void put_general(const struct stats_out *o)
{
	struct serve_counts sum;

	put_process(o);
	server_sum_counts(o->server, &sum);
#define COUNT(name, sentence) put_u64(o, #name, atomic_load(&sum.name));
	SERVE_COUNTS(COUNT)
#undef COUNT
	put_u64(o, "total_connections", atomic_load(&sum.connections_opened));
	/* A connection is served as far as it was read, and none is made to wait for others. */
	put_u64(o, "conn_yields", 0);
	put_pool(o);
}

static void put_settings(const struct stats_out *o)
{
	const struct server_options *s = &o->server->options;

	put_u64(o, "maxbytes", s->limit_bytes);
	put_u64(o, "maxconns", s->connections_max);
	put_u64(o, "tcpport", s->listen ? s->port : 0);
	put_u64(o, "udpport", 0);
	put(o, "inter", "%s", s->listen ? s->listen : "NULL");
	put(o, "evictions", "on");
	put(o, "domain_socket", "%s", s->unix_path ? s->unix_path : "NULL");
	put(o, "umask", "%o", s->unix_mode);
	put_u64(o, "num_threads", s->thread_count);
	put(o, "cas_enabled", "yes");
	put_u64(o, "tcp_backlog", (uint64_t)s->backlog);
	put(o, "binding_protocol", "auto-negotiate");
	put_u64(o, "item_size_max", s->value_bytes_max);
	put(o, "maxconns_fast", "yes");
	put(o, "auth_enabled_sasl", "%s", s->auth ? "yes" : "no");
	put(o, "auth_enabled_ascii", "%s", s->auth ? "yes" : "no");
	put(o, "flush_enabled", "%s", s->flush_permitted ? "yes" : "no");
	put_u64(o, "idle_timeout", s->idle_timeout_us / 1000000);
	put(o, "pool", "%s", s->pool_name);
	put(o, "policy", "%s", client_policy(s->client)->name);
}

/* One class: every size shares every chunk. */
static void put_items(const struct stats_out *o)
{
	struct server_figures f;

	server_figures(o->server, o->executor->view, &f);
	if (f.items == 0)
		return;
	put_u64(o, "items:1:number", f.items);
	put_u64(o, "items:1:mem_requested", f.bytes);
	put_u64(o, "items:1:evicted", f.stats.count[STATS_evicted]);
	put_u64(o, "items:1:reclaimed", f.stats.count[STATS_expired]);
}

static void put_slabs(const struct stats_out *o)
{
	const struct plan *p = &client_pool(o->server->options.client)->plan;
	struct serve_counts sum;
	struct server_figures f;

	server_figures(o->server, o->executor->view, &f);
	server_sum_counts(o->server, &sum);
	put_u64(o, "1:chunk_size", p->object_bytes);
	put_u64(o, "1:chunks_per_page", p->group_objects);
	put_u64(o, "1:total_pages", f.chunks);
	put_u64(o, "1:total_chunks", f.capacity);
	put_u64(o, "1:used_chunks", f.items);
	put_u64(o, "1:free_chunks", f.capacity - min_u64(f.capacity, f.items));
	put_u64(o, "1:mem_requested", f.bytes);
	put_u64(o, "1:get_hits", atomic_load(&sum.get_hits));
	put_u64(o, "1:cmd_set", atomic_load(&sum.cmd_set));
	put_u64(o, "1:delete_hits", atomic_load(&sum.delete_hits));
	put_u64(o, "1:incr_hits", atomic_load(&sum.incr_hits));
	put_u64(o, "1:decr_hits", atomic_load(&sum.decr_hits));
	put_u64(o, "1:cas_hits", atomic_load(&sum.cas_hits));
	put_u64(o, "1:cas_badval", atomic_load(&sum.cas_badval));
	put_u64(o, "1:touch_hits", atomic_load(&sum.touch_hits));
	put_u64(o, "active_slabs", 1);
	put_u64(o, "total_malloced", f.chunk_bytes);
}

/* What memcached says unless it was told to count sizes. */
static void put_sizes(const struct stats_out *o)
{
	put(o, "sizes_status", "disabled");
}

/* Where the server listens; connections belong to their threads and are not looked into. */
static void put_conns(const struct stats_out *o)
{
	const struct server *s = o->server;

	for (unsigned i = 0; i < s->listener_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%d:addr", s->listeners[i].fd);
		put(o, name, "%s%s",
		    s->listeners[i].name[0] == '/' ? "unix:" : "tcp:", s->listeners[i].name);
		snprintf(name, sizeof(name), "%d:state", s->listeners[i].fd);
		put(o, name, "conn_listening");
	}
	for (unsigned i = 0; i < s->options.thread_count; i++) {
		const struct serve_counts *c = &s->threads[i].conns.counts;
		char name[32];

		snprintf(name, sizeof(name), "thread:%u:connections", i);
		put_u64(o, name,
			atomic_load(&c->connections_opened) - atomic_load(&c->connections_closed));
	}
}

bool server_stats(void *context, struct executor *e, const struct request *r)
{
	static const struct {
		const char *name;
		void (*put)(const struct stats_out *);
	} groups[] = {
	    {"", put_general},	  {"settings", put_settings}, {"items", put_items},
	    {"slabs", put_slabs}, {"sizes", put_sizes},	      {"conns", put_conns},
	};
	struct server_thread *t = context;
	struct stats_out o = {t->server, e, r};

	for (unsigned i = 0; i < ARRAY_COUNT(groups); i++) {
		if (strlen(groups[i].name) == r->key_bytes &&
		    memcmp(groups[i].name, r->key, r->key_bytes) == 0) {
			groups[i].put(&o);
			return true;
		}
	}
	return false;
}
