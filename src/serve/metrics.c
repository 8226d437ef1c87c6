/*
 * metrics.c: the HTTP endpoint that Prometheus reads, on a thread of its own.
 *
 * A page waits for workers that are busy, and for the pool, whose memory node may not answer;
 * nobody who wants to connect, and no signal, waits with it.  The thread has the session of those
 * who look at the pool.
 *
 * Some 150 series whatever the number of connections, keys or threads: no label has values that
 * grow with use.
 */
#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/names.h"
#include "serve/server_inside.h"

/* A page is a few kilobytes, and a request for it a few hundred bytes. */
#define HTTP_BYTES_MAX 8192
#define HTTP_TIMEOUT_S 10
/* How often who has left the pool is let go of; and how long not to accept without descriptors. */
#define FOLLOW_S      1
#define HTTP_PAUSE_MS 100

static void put_head(struct evbuffer *b, const char *name, const char *kind, const char *sentence)
{
	evbuffer_add_printf(b, "# HELP %s %s\n# TYPE %s %s\n", name, sentence, name, kind);
}

static void put_total(struct evbuffer *b, const char *prefix, const char *name, uint64_t n,
		      const char *sentence)
{
	char full[128];

	snprintf(full, sizeof(full), "%s_%s_total", prefix, name);
	put_head(b, full, "counter", sentence);
	evbuffer_add_printf(b, "%s %" PRIu64 "\n", full, n);
}

static void put_gauge(struct evbuffer *b, const char *name, double n, const char *sentence)
{
	put_head(b, name, "gauge", sentence);
	evbuffer_add_printf(b, "%s %.15g\n", name, n);
}

static void put_requests(struct evbuffer *b, const struct server *s)
{
	struct serve_counts sum;

	server_sum_counts(s, &sum);
#define COUNT(name, sentence) put_total(b, "forge_serve", #name, atomic_load(&sum.name), sentence);
	SERVE_COUNTS(COUNT)
#undef COUNT
	put_total(b, "forge_serve", "connections_rejected", atomic_load(&s->rejected_count),
		  "connections beyond the limit");
	put_gauge(b, "forge_serve_connections", atomic_load(&s->open_count), "open connections");
	put_gauge(b, "forge_serve_threads", s->options.thread_count, "worker threads");
	put_gauge(b, "forge_serve_threads_serving", atomic_load(&s->share.serving),
		  "worker threads that new requests are given to");
}

static void put_latency(struct evbuffer *b, const struct hist *h)
{
	static const char name[] = "forge_serve_request_seconds";
	uint64_t below = 0;
	unsigned i = 0;

	put_head(b, name, "histogram",
		 "from reading a request until its reply is sent; of requests that came together, "
		 "until the last one's is");
	/* Powers of two from a microsecond to 16 seconds. */
	for (unsigned power = 10; power <= 34; power += 2) {
		uint64_t limit_ns = UINT64_C(1) << power;

		while (i < HIST_BUCKETS && hist_bucket_upper_ns(i) < limit_ns)
			below += h->bucket[i++];
		evbuffer_add_printf(b, "%s_bucket{le=\"%.9g\"} %" PRIu64 "\n", name,
				    (double)limit_ns / 1e9, below);
	}
	evbuffer_add_printf(b, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
	evbuffer_add_printf(b, "%s_sum %.9g\n%s_count %" PRIu64 "\n", name, (double)h->sum_ns / 1e9,
			    name, h->count);
}

static void put_verbs(struct evbuffer *b, const struct fab_counts *verbs)
{
	put_head(b, "forge_verbs_total", "counter", "verbs by what they are for and their code");
	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		for (unsigned c = 0; c < FAB_CODES; c++)
			evbuffer_add_printf(
			    b, "forge_verbs_total{purpose=\"%s\",verb=\"%s\"} %" PRIu64 "\n",
			    fab_purpose_name(p), fab_code_name(c), verbs->by[p][c].verbs);
}

static void put_cache(struct evbuffer *b, struct server *s)
{
	struct cache_counters cache = {0};
	struct fab_counts verbs = {0};
	struct hist batch_ns = {0};

	server_sum_published(s, &cache, &verbs, &batch_ns);
	put_latency(b, &batch_ns);
	put_verbs(b, &verbs);
#define COUNTER(name, sentence) put_total(b, "forge_cache", #name, cache.name, sentence);
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
}

static void put_pool(struct evbuffer *b, struct server *s)
{
	struct server_figures f;

	server_figures(s, session_view(s->session), &f);
	for (unsigned i = 0; i < STATS_COUNT; i++) {
		const struct stats_name *name = stats_name(i);

		put_total(b, "forge_pool", name->name, f.stats.count[i], name->sentence);
	}
	put_gauge(b, "forge_pool_items", (double)f.items, "live objects in the pool");
	put_gauge(b, "forge_pool_bytes", (double)f.bytes, "bytes of live objects");
	put_gauge(b, "forge_pool_live_share", f.live_share,
		  "share of chunk space that live objects take");
	put_gauge(b, "forge_pool_chunks", (double)f.chunks, "chunks of the pool");
	put_gauge(b, "forge_pool_chunks_free", (double)f.chunks_free, "chunks nobody uses");
	put_gauge(b, "forge_pool_window_margin_groups", (double)f.window_margin_groups,
		  "groups until one is evicted whose hits the latest node has not flushed");
	put_gauge(b, "forge_pool_flush_lag_groups", (double)f.flush_lag_groups,
		  "groups in the eviction window whose hits the latest node has not flushed");
	put_gauge(b, "forge_pool_nodes", f.nodes, "compute nodes attached");
	put_gauge(b, "forge_memory_nodes", client_member_count(s->options.client),
		  "memory nodes the cache lies on");
	put_gauge(b, "forge_memory_nodes_up", client_members_up(s->options.client),
		  "memory nodes that this server reaches");
}

static void on_metrics(struct evhttp_request *request, void *argument)
{
	struct server *s = argument;
	struct evbuffer *b = evhttp_request_get_output_buffer(request);

	evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type",
			  "text/plain; version=0.0.4; charset=utf-8");
	server_publish(s);
	put_requests(b, s);
	put_cache(b, s);
	put_pool(b, s);
	evhttp_send_reply(request, HTTP_OK, "OK", NULL);
}

static void on_other(struct evhttp_request *request, void *argument)
{
	(void)argument;
	evhttp_send_error(request, HTTP_NOTFOUND, "only /metrics is here");
}

/* ---- the thread --------------------------------------------------------------------------- */

static void on_follow(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;

	view_follow(session_view(s->session));
}

static void on_stop(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;

	event_base_loopbreak(s->http_base);
}

static void *run(void *argument)
{
	struct server *s = argument;

	event_base_dispatch(s->http_base);
	return NULL;
}

static void on_pause_over(evutil_socket_t fd, short what, void *listener)
{
	evconnlistener_enable(listener);
}

/* There are no descriptors, and the listener would say so without end.  (What it passes is not
 * ours.) */
static void on_accept_failed(struct evconnlistener *listener, void *of_libevent)
{
	const struct timeval pause = {.tv_usec = HTTP_PAUSE_MS * 1000};
	static atomic_bool is_told;

	if (!atomic_exchange(&is_told, true))
		log_warn("cannot accept who asks for metrics: %m; raise the limit of open files "
			 "(ulimit -n)");
	if (event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, on_pause_over,
			    listener, &pause) == 0)
		evconnlistener_disable(listener);
}

/* The listener becomes the endpoint's.  0 or -1 with errno. */
static int open_endpoint(struct server *s, struct listener *l)
{
	const struct timeval second = {.tv_sec = FOLLOW_S};
	struct evhttp_bound_socket *bound;

	s->http_base = event_base_new();
	s->http = s->http_base ? evhttp_new(s->http_base) : NULL;
	bound = s->http ? evhttp_accept_socket_with_handle(s->http, l->fd) : NULL;
	if (!bound)
		return -1;
	l->fd = -1;
	evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(bound), on_accept_failed);
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
	evhttp_set_max_headers_size(s->http, HTTP_BYTES_MAX);
	evhttp_set_max_body_size(s->http, HTTP_BYTES_MAX);
	evhttp_set_timeout(s->http, HTTP_TIMEOUT_S);
	evhttp_set_gencb(s->http, on_other, s);
	s->http_stop = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	event_assign(&s->http_stop_event, s->http_base, s->http_stop, EV_READ, on_stop, s);
	event_assign(&s->http_follow_event, s->http_base, -1, EV_PERSIST, on_follow, s);
	return s->http_stop < 0 || evhttp_set_cb(s->http, "/metrics", on_metrics, s) ||
		       event_add(&s->http_stop_event, NULL) ||
		       event_add(&s->http_follow_event, &second)
		   ? -1
		   : 0;
}

int metrics_open(struct server *s, char *error_text, size_t error_bytes)
{
	struct listener l[LISTENERS_MAX];
	unsigned count = 0;
	char reason[400];
	int status = listen_tcp(s->options.metrics, 9150, 16, l, &count, reason, sizeof(reason));

	if (status) {
		snprintf(error_text, error_bytes, "--metrics: %s", reason);
		return status;
	}
	for (unsigned i = 1; i < count; i++)
		listen_close(&l[i]);
	snprintf(s->metrics_name, sizeof(s->metrics_name), "%s", l[0].name);
	if (open_endpoint(s, &l[0])) {
		listen_close(&l[0]);
		snprintf(error_text, error_bytes, "the metrics endpoint cannot be made: %m");
		return FORGE_E_SYSTEM;
	}
	return 0;
}

int metrics_start(struct server *s)
{
	s->http_runs = pthread_create(&s->http_thread, NULL, run, s) == 0;
	return s->http_runs ? 0 : FORGE_E_SYSTEM;
}

void metrics_close(struct server *s)
{
	const uint64_t one = 1;

	if (s->http_runs) {
		if (write(s->http_stop, &one, sizeof(one)) < 0)
			log_error("the metrics endpoint cannot be ended: %m");
		pthread_join(s->http_thread, NULL);
		s->http_runs = false;
	}
	if (s->http)
		evhttp_free(s->http);
	if (s->http_base) {
		event_base_free(s->http_base);
		if (s->http_stop >= 0)
			close(s->http_stop);
	}
	s->http = NULL;
	s->http_base = NULL;
}
