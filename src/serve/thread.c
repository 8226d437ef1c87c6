/* thread.c: worker threads: an event loop each, connections in, figures out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "serve/server_inside.h"

/* No flow is free for a flush that is due: when to look again. */
#define FLUSH_AGAIN_MS 10

static void publish(struct server_thread *t)
{
	pthread_mutex_lock(&t->lock);
	t->cache = *session_counters(t->session);
	flows_count(&t->conns.overlap.flows, &t->cache);
	t->verbs = *session_verbs(t->session);
	t->batch_ns = t->conns.batch_ns;
	t->published++;
	pthread_cond_broadcast(&t->has_news);
	pthread_mutex_unlock(&t->lock);
}

static void on_tick(evutil_socket_t fd, short what, void *argument)
{
	struct server_thread *t = argument;

	struct flows *flows = &t->conns.overlap.flows;
	int status;

	if (overlap_is_on(&t->conns.overlap)) {
		status = flows->tend_status;
		flows_tend(flows);
	} else {
		status = session_tend(t->session);
	}
	/* The client says which memory node is lost, once and not for every thread. */
	if (status && status != FORGE_E_NODE && status != t->tend_status)
		log_error("%s: %s", t->server->options.pool_name, status_sentence(status));
	t->tend_status = status;
	conn_tick(&t->conns);
	publish(t);
	if (t->conns.is_draining && !t->conns.first)
		event_base_loopbreak(t->conns.base);
}

static void on_wake(evutil_socket_t fd, short what, void *argument)
{
	struct server_thread *t = argument;
	uint64_t times;

	if (read(t->wake_fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
		log_warn("an event descriptor cannot be read: %m");
	pthread_mutex_lock(&t->lock);
	struct conn *inbox = t->inbox, *next;
	enum thread_order order = t->order;
	bool is_asked = t->published < t->published_wanted;

	t->inbox = NULL;
	pthread_mutex_unlock(&t->lock);
	if (is_asked)
		publish(t);
	for (struct conn *c = inbox; c; c = next) {
		next = c->next;
		c->next = NULL;
		conn_start(c, &t->conns);
	}
	if (order == ORDER_DRAIN && !t->conns.is_draining)
		conn_drain(&t->conns);
	if (order == ORDER_END)
		conn_close_all(&t->conns);
	if (order != ORDER_NONE && !t->conns.first)
		event_base_loopbreak(t->conns.base);
}

/* ---- delayed flush ------------------------------------------------------------------------ */

static void tell_flush(const struct server_thread *t, int status)
{
	if (status)
		log_error("%s: the flush that was due: %s", t->server->options.pool_name,
			  status_sentence(status));
}

/* A flush takes milliseconds, in which others go on. */
static MAY_WAIT void flush_on_flow(struct flow *f)
{
	tell_flush(f->set->context, view_flush(f->view));
	flows_put(f);
}

static void on_flush(evutil_socket_t fd, short what, void *argument)
{
	const struct timeval again = {.tv_usec = FLUSH_AGAIN_MS * 1000};
	struct server_thread *t = argument;
	struct flows *flows = &t->conns.overlap.flows;
	struct flow *f;

	/* A later order, given to whichever thread, has taken its place. */
	if (atomic_load(&t->server->flush_ticket) != t->flush_ticket)
		return;
	if (!overlap_is_on(&t->conns.overlap)) {
		tell_flush(t, session_flush(t->session));
		return;
	}
	f = flows_take(flows);
	if (f && flows_start(f, flush_on_flow) == 0)
		return;
	if (f)
		flows_put(f);
	event_add(&t->flush_event, &again);
}

static void flush_later(void *context, uint64_t seconds)
{
	struct server_thread *t = context;
	/* A hundred years at most: a timer takes no more. */
	struct timeval delay = {.tv_sec = (time_t)min_u64(seconds, UINT64_C(3155760000))};

	t->flush_ticket = atomic_fetch_add(&t->server->flush_ticket, 1) + 1;
	event_add(&t->flush_event, &delay);
}

/* ---- the thread --------------------------------------------------------------------------- */

static void on_fabric(evutil_socket_t fd, short what, void *argument)
{
	/* The next turn will see. */
}

/*
 * Sleep until a client or the fabric has something.  The fabric's descriptors are the loop's for no
 * longer than that: when a node is lost they close, and a client's may get the same number.
 */
static void sleep_on(struct server_thread *t, const struct pollfd *fds, unsigned n)
{
	const struct timeval patience = {.tv_usec = FAB_SLEEP_NS / 1000};
	struct event events[RUN_WAIT_FABS_MAX];

	for (unsigned i = 0; i < n; i++) {
		short what = (short)((fds[i].events & POLLIN ? EV_READ : 0) |
				     (fds[i].events & POLLOUT ? EV_WRITE : 0));

		event_assign(&events[i], t->conns.base, fds[i].fd, what, on_fabric, t);
		event_add(&events[i], &patience);
	}
	event_base_loop(t->conns.base, EVLOOP_ONCE);
	for (unsigned i = 0; i < n; i++)
		event_del(&events[i]);
}

/*
 * Where requests wait for the fabric the loop sleeps while there are none, and on the fabric when
 * looking has been in vain for a while; otherwise it looks at fabric and sockets in turn.
 */
static void dispatch(struct server_thread *t)
{
	struct pollfd fds[RUN_WAIT_FABS_MAX];
	struct conn_worker *w = &t->conns;
	struct flows *flows = &w->overlap.flows;
	unsigned n;

	if (!overlap_is_on(&w->overlap)) {
		event_base_dispatch(w->base);
		return;
	}
	do {
		if (!overlap_turn(w))
			event_base_loop(w->base, EVLOOP_ONCE);
		else if ((n = fiber_loop_sleep_on(flows->loop, fds)) > 0)
			sleep_on(t, fds, n);
		else
			event_base_loop(w->base, EVLOOP_NONBLOCK);
	} while (!event_base_got_break(w->base));
}

static void *run(void *argument)
{
	struct server_thread *t = argument;
	const struct timeval second = {.tv_sec = 1};

	event_assign(&t->wake_event, t->conns.base, t->wake_fd, EV_READ | EV_PERSIST, on_wake, t);
	event_assign(&t->tick_event, t->conns.base, -1, EV_PERSIST, on_tick, t);
	event_assign(&t->flush_event, t->conns.base, -1, 0, on_flush, t);
	event_add(&t->wake_event, NULL);
	event_add(&t->tick_event, &second);
	dispatch(t);
	conn_close_all(&t->conns);
	publish(t);
	/* The last flows end on the thread that they began on. */
	overlap_close(&t->conns.overlap);
	event_del(&t->wake_event);
	event_del(&t->tick_event);
	event_del(&t->flush_event);
	return NULL;
}

int server_thread_open(struct server_thread *t, struct server *s, char *error_text,
		       size_t error_bytes)
{
	const struct server_options *o = &s->options;
	int status = session_open(o->client, &t->session, error_text, error_bytes);

	t->server = s;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->has_news, NULL);
	t->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (status)
		return status;
	t->conns.executor = (struct executor){
	    .session = t->session,
	    .view = session_view(t->session),
	    .value_bytes_max = o->value_bytes_max,
	    .flush_permitted = o->flush_permitted,
	    .auth = o->auth,
	    .context = t,
	    .flush_later = flush_later,
	    .stats = server_stats,
	};
	if (overlap_open(&t->conns.overlap, t->session)) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	t->conns.overlap.flows.context = t;
	t->conns.open_count = &s->open_count;
	t->conns.idle_timeout_ms = o->idle_timeout_us / 1000;
	t->conns.base = event_base_new();
	if (conn_worker_init(&t->conns, o->reply_value_bytes) || !t->conns.base || t->wake_fd < 0 ||
	    pthread_create(&t->thread, NULL, run, t)) {
		snprintf(error_text, error_bytes, "a worker thread cannot be started: %m");
		return FORGE_E_SYSTEM;
	}
	t->is_running = true;
	return 0;
}

static void wake(struct server_thread *t)
{
	const uint64_t one = 1;

	/* It fails only when it is full, and then the thread is awake already. */
	if (write(t->wake_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		log_error("a worker thread cannot be woken: %m");
}

void server_thread_command(struct server_thread *t, enum thread_order order)
{
	pthread_mutex_lock(&t->lock);
	if (order > t->order)
		t->order = order;
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

void server_thread_ask(struct server_thread *t)
{
	pthread_mutex_lock(&t->lock);
	if (t->order == ORDER_NONE)
		t->published_wanted = t->published + 1;
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

void server_thread_wait(struct server_thread *t, const struct timespec *deadline)
{
	int error = 0;

	pthread_mutex_lock(&t->lock);
	while (t->published < t->published_wanted && !error)
		error = pthread_cond_clockwait(&t->has_news, &t->lock, CLOCK_MONOTONIC, deadline);
	pthread_mutex_unlock(&t->lock);
}

void server_thread_take(struct server_thread *t, struct conn *c)
{
	pthread_mutex_lock(&t->lock);
	c->next = t->inbox;
	t->inbox = c;
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

void server_thread_close(struct server_thread *t)
{
	struct conn *next;

	if (!t->server)
		return;
	if (t->is_running) {
		server_thread_command(t, ORDER_END);
		pthread_join(t->thread, NULL);
	}
	/* Connections that came too late for the thread. */
	for (struct conn *c = t->inbox; c; c = next) {
		next = c->next;
		conn_destroy(c);
	}
	if (t->conns.base)
		event_base_free(t->conns.base);
	overlap_close(&t->conns.overlap);
	conn_worker_fini(&t->conns);
	if (t->wake_fd >= 0)
		close(t->wake_fd);
	session_close(t->session);
	pthread_cond_destroy(&t->has_news);
	pthread_mutex_destroy(&t->lock);
}
