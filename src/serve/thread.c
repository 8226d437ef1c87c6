/* thread.c: worker threads: an event loop each, connections in, figures out. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/runqueue.h"
#include "serve/linger.h"
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

static void on_tick(void *thread)
{
	struct server_thread *t = thread;
	struct flows *flows = &t->conns.overlap.flows;
	uint64_t times;
	int status;

	if (read(t->tick.fd, &times, sizeof(times)) < 0)
		return; /* not yet */
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
		t->is_over = true;
}

static void on_wake(void *thread)
{
	struct server_thread *t = thread;
	uint64_t times;

	if (read(t->wake.fd, &times, sizeof(times)) < 0 && errno != EAGAIN)
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
	if (t->conns.is_draining)
		linger_look_all(&t->conns);
	else if (order == ORDER_DRAIN || order == ORDER_LAST)
		conn_drain(&t->conns);
	if (order == ORDER_LAST)
		conn_answer_no_more(&t->conns);
	if (order == ORDER_END)
		conn_close_all(&t->conns);
	if (order != ORDER_NONE && !t->conns.first)
		t->is_over = true;
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

static void flush_in(struct server_thread *t, struct timespec delay)
{
	const struct itimerspec once = {.it_value = delay};

	if (timerfd_settime(t->flush.fd, 0, &once, NULL))
		log_error("the time of a flush cannot be set: %m");
}

static void on_flush(void *thread)
{
	const struct timespec again = {.tv_nsec = FLUSH_AGAIN_MS * 1000000};
	struct server_thread *t = thread;
	struct flows *flows = &t->conns.overlap.flows;
	struct flow *f;
	uint64_t times;

	if (read(t->flush.fd, &times, sizeof(times)) < 0)
		return; /* it has been put off */
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
	flush_in(t, again);
}

static void flush_later(void *context, uint64_t seconds)
{
	struct server_thread *t = context;
	/* A hundred years at most: a timer takes no more. */
	struct timespec delay = {.tv_sec = (time_t)min_u64(seconds, UINT64_C(3155760000))};

	t->flush_ticket = atomic_fetch_add(&t->server->flush_ticket, 1) + 1;
	flush_in(t, delay);
}

static bool hand_over(void *thread, struct conn *c, uint32_t to)
{
	struct server_thread *t = thread;

	return server_thread_take(&t->server->threads[to], c);
}

/* ---- the thread --------------------------------------------------------------------------- */

/*
 * Sleep until a client or the fabric has something.  The fabric's descriptors are not among those
 * that are watched: when a node is lost they close, and a client's may get the same number.
 */
static void sleep_on(struct watch *w, struct pollfd *fds, unsigned n)
{
	fds[n] = (struct pollfd){.fd = w->epoll, .events = POLLIN};
	poll(fds, n + 1, (int)(FAB_SLEEP_NS / 1000000));
	watch_turn(w, 0);
}

/*
 * Where requests wait for the fabric the loop sleeps while there are none, and on the fabric when
 * looking has been in vain for a while; otherwise it looks at fabric and sockets in turn.
 */
static void turn_with_fabric(struct server_thread *t)
{
	struct pollfd fds[RUN_WAIT_FABS_MAX + 1];
	struct conn_worker *w = &t->conns;
	unsigned n;

	if (!overlap_turn(w))
		watch_turn(&w->watch, WATCH_FOREVER);
	else if ((n = fiber_loop_sleep_on(w->overlap.flows.loop, fds)) > 0)
		sleep_on(&w->watch, fds, n);
	else
		watch_turn(&w->watch, 0);
}

static void *run(void *argument)
{
	struct server_thread *t = argument;

	atomic_store(&t->runqueue, runqueue_open(gettid()));
	while (!t->is_over) {
		if (overlap_is_on(&t->conns.overlap)) {
			turn_with_fabric(t);
		} else {
			watch_turn(&t->conns.watch, WATCH_FOREVER);
			gather_serve(&t->conns);
		}
		share_look(t);
	}
	conn_close_all(&t->conns);
	publish(t);
	/* The last flows end on the thread that they began on. */
	overlap_close(&t->conns.overlap);
	return NULL;
}

/* fd, or -1 with errno, which is the thread's from here on. */
static int watch_own(struct server_thread *t, struct watched *s, int fd, void (*on_ready)(void *))
{
	*s = (struct watched){.fd = fd, .on_ready = on_ready, .owner = t};
	return fd < 0 ? -1 : watch_add(&t->conns.watch, s, EPOLLIN);
}

/* The loop, and what wakes it beside connections.  0 or -1 with errno. */
static int open_loop(struct server_thread *t)
{
	const struct itimerspec second = {{.tv_sec = 1}, {.tv_sec = 1}};
	const int flags = TFD_NONBLOCK | TFD_CLOEXEC;

	if (watch_open(&t->conns.watch) ||
	    watch_own(t, &t->wake, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), on_wake) ||
	    watch_own(t, &t->tick, timerfd_create(CLOCK_MONOTONIC, flags), on_tick) ||
	    watch_own(t, &t->flush, timerfd_create(CLOCK_MONOTONIC, flags), on_flush))
		return -1;
	return timerfd_settime(t->tick.fd, 0, &second, NULL);
}

static void close_loop(struct server_thread *t)
{
	const int fds[] = {t->wake.fd, t->tick.fd, t->flush.fd};

	for (unsigned i = 0; i < ARRAY_COUNT(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	watch_close(&t->conns.watch);
}

int server_thread_open(struct server_thread *t, struct server *s, char *error_text,
		       size_t error_bytes)
{
	const struct server_options *o = &s->options;
	int status = session_open(o->client, &t->session, error_text, error_bytes);

	t->server = s;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->has_news, NULL);
	t->conns.watch.epoll = t->wake.fd = t->tick.fd = t->flush.fd = -1;
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
	t->conns.overlap.expected_bytes = o->reply_value_bytes;
	t->conns.open_count = &s->open_count;
	t->conns.number = (uint32_t)(t - s->threads);
	t->conns.serving = &s->share.serving;
	t->conns.hand_over = hand_over;
	t->conns.idle_timeout_ms = o->idle_timeout_us / 1000;
	if (conn_worker_init(&t->conns, o->reply_value_bytes) || open_loop(t) ||
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
	if (write(t->wake.fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
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

bool server_thread_take(struct server_thread *t, struct conn *c)
{
	pthread_mutex_lock(&t->lock);
	bool is_taken = t->order == ORDER_NONE, is_first = !t->inbox;

	if (is_taken) {
		c->next = t->inbox;
		t->inbox = c;
	}
	pthread_mutex_unlock(&t->lock);
	/* Behind another it is found with that one, for which the thread has been woken. */
	if (is_taken && is_first)
		wake(t);
	return is_taken;
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
	overlap_close(&t->conns.overlap);
	conn_worker_fini(&t->conns);
	close_loop(t);
	session_close(t->session);
	pthread_cond_destroy(&t->has_news);
	pthread_mutex_destroy(&t->lock);
}
