/*
 * tcp_server.c: the server's threads: who waits for what, and who is accepted by whom.
 *
 * The first thread listens; a connection goes to the thread with the fewest.  A thread sleeps in
 * epoll, but looks for more for spin_us after the last time there was something, where that pays
 * (fabric/wait.h).  Connections have their turns in the order in which epoll names them, a bounded
 * one each, so none can keep the others waiting.
 *
 * Lock order: none is held while another is taken, but for what the owner's calls take under the
 * instances' lock.
 */
#include "fabric/tcp_server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_server_inside.h"
#include "fabric/wait.h"

#define EVENTS_MAX 64

/* How often those who say no hello are looked at. */
#define SWEEP_MS 500

#define TIMEOUT_MS_DEFAULT 10000u

/* Turns of one connection in a row without asking epoll about the others. */
#define LATEST_MAX 8u

/* Accepted in one go, so that connections go on meanwhile. */
#define ACCEPT_MAX 64

static inline uint64_t server_now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* ---- connections -------------------------------------------------------------------------- */

static void unready(struct tcp_thread *t, struct tcp_conn *c)
{
	struct tcp_conn **p = &t->ready;

	while (*p != c)
		p = &(*p)->ready_next;
	*p = c->ready_next;
	if (t->ready_end == &c->ready_next)
		t->ready_end = p;
}

static void conn_close(struct tcp_thread *t, struct tcp_conn *c)
{
	if (c->is_ready)
		unready(t, c);
	if (t->latest == c)
		t->latest = NULL;
	if (c->state <= TCP_CONN_PROOF)
		t->greeting--;
	if (c->guest)
		tcp_guest_close(c, c->is_orderly ? GATE_LEFT : GATE_FAILED);
	tcp_instance_detach(t->server, c);
	tls_conn_destroy(c->tls);
	/* A child that somebody forked may have a copy, which would keep both of them going. */
	epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	shutdown(c->fd, SHUT_RDWR);
	close(c->fd);
	if (c->previous)
		c->previous->next = c->next;
	else
		t->conns = c->next;
	if (c->next)
		c->next->previous = c->previous;
	atomic_fetch_sub(&t->counts.connections, 1);
	free(c->in);
	free(c->out);
	free(c);
}

static int watch(struct tcp_thread *t, struct tcp_conn *c, int how)
{
	struct epoll_event event = {.events = c->waits_out ? EPOLLOUT : EPOLLIN, .data.ptr = c};

	return epoll_ctl(t->epoll, how, c->fd, &event);
}

static void take_turn(struct tcp_thread *t, struct tcp_conn *c)
{
	enum tcp_turn turn = tcp_conn_turn(c);

	if (turn == TCP_TURN_END) {
		conn_close(t, c);
		return;
	}
	if (unlikely(c->waits_out != (turn == TCP_TURN_OUT))) {
		c->waits_out = !c->waits_out;
		if (watch(t, c, EPOLL_CTL_MOD)) {
			conn_close(t, c);
			return;
		}
	}
	if (turn == TCP_TURN_AGAIN && !c->is_ready) {
		c->is_ready = 1;
		c->ready_next = NULL;
		*t->ready_end = c;
		t->ready_end = &c->ready_next;
	}
}

/* Those who had more to do when their turn was over; each once. */
static void take_ready_turns(struct tcp_thread *t)
{
	struct tcp_conn *last = t->ready, *c;

	while (last && last->ready_next)
		last = last->ready_next;
	for (int more = t->ready != NULL; more;) {
		c = t->ready;
		more = c != last;
		unready(t, c);
		c->is_ready = 0;
		take_turn(t, c);
	}
}

/* Put c, which has just been accepted, among this thread's. */
static void adopt(struct tcp_thread *t, struct tcp_conn *c)
{
	c->thread = t;
	c->next = t->conns;
	c->previous = NULL;
	if (t->conns)
		t->conns->previous = c;
	t->conns = c;
	t->greeting++;
	if (watch(t, c, EPOLL_CTL_ADD))
		conn_close(t, c);
}

static void adopt_arrived(struct tcp_thread *t)
{
	struct tcp_conn *c;
	uint64_t ignored;

	if (read(t->wake, &ignored, sizeof(ignored)) < 0)
		ignored = 0;
	pthread_mutex_lock(&t->lock);
	c = t->arrived;
	t->arrived = NULL;
	pthread_mutex_unlock(&t->lock);
	while (c) {
		struct tcp_conn *next = c->next;

		adopt(t, c);
		c = next;
	}
}

static void wake(struct tcp_thread *t)
{
	const uint64_t one = 1;

	if (write(t->wake, &one, sizeof(one)) < 0)
		return; /* it is full: there is a wake-up on its way */
}

/* Who has been silent since it came. */
static void sweep(struct tcp_thread *t)
{
	uint64_t now_ns = server_now_ns();

	for (struct tcp_conn *c = t->conns, *next; c && t->greeting > 0; c = next) {
		next = c->next;
		if (c->state <= TCP_CONN_PROOF &&
		    now_ns - c->born_ns > (uint64_t)WIRE_HELLO_MS * 1000000) {
			tcp_count(&t->counts.refused, 1);
			conn_close(t, c);
		}
	}
}

/* ---- accepting ---------------------------------------------------------------------------- */

static struct tcp_thread *least_busy(struct tcp_server *s, uint64_t *sum)
{
	struct tcp_thread *best = s->threads[0];
	uint64_t least = UINT64_MAX;

	*sum = 0;
	for (unsigned i = 0; i < s->thread_count; i++) {
		uint64_t n = atomic_load(&s->threads[i]->counts.connections);

		*sum += n;
		if (n < least) {
			least = n;
			best = s->threads[i];
		}
	}
	return best;
}

static void conn_open(struct tcp_thread *accepting, int fd)
{
	struct tcp_server *s = accepting->server;
	uint64_t sum;
	struct tcp_thread *t = least_busy(s, &sum);
	struct tcp_conn *c = sum < s->connections_max ? calloc(1, sizeof(*c)) : NULL;

	atomic_fetch_add(&accepting->counts.connections_total, 1);
	if (!c) {
		tcp_count(&accepting->counts.refused, 1);
		close(fd);
		return;
	}
	c->fd = fd;
	c->born_ns = server_now_ns();
	if (s->door && tcp_guest_open(s, c)) {
		tcp_count(&accepting->counts.refused, 1);
		close(fd);
		free(c);
		return;
	}
	atomic_fetch_add(&t->counts.connections, 1);
	if (t == accepting) {
		adopt(t, c);
		return;
	}
	pthread_mutex_lock(&t->lock);
	c->next = t->arrived;
	t->arrived = c;
	pthread_mutex_unlock(&t->lock);
	wake(t);
}

/* No descriptor is left: take the spare one to turn who comes away, lest we are told for ever. */
static void turn_away(struct tcp_thread *t, const struct tcp_listener *l)
{
	struct tcp_server *s = t->server;

	if (s->spare >= 0)
		close(s->spare);
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC);

	if (fd >= 0)
		close(fd);
	s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	tcp_count(&t->counts.refused, 1);
}

static void accept_some(struct tcp_thread *t, const struct tcp_listener *l)
{
	for (unsigned i = 0; i < ACCEPT_MAX; i++) {
		int fd = tcp_listen_accept(l, t->server->timeout_ms);

		if (fd >= 0) {
			conn_open(t, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE)
			turn_away(t, l);
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

/* ---- a thread ----------------------------------------------------------------------------- */

static void handle(struct tcp_thread *t, void *what)
{
	struct tcp_server *s = t->server;
	struct tcp_listener *l = what;

	if (what == t)
		adopt_arrived(t);
	else if (l >= s->listeners && l < s->listeners + s->listener_count)
		accept_some(t, l);
	else if (!((struct tcp_conn *)what)->is_ready) {
		t->latest = what;
		take_turn(t, what);
	}
}

static void close_all(struct tcp_thread *t)
{
	adopt_arrived(t);
	while (t->conns) {
		t->conns->is_orderly = 1;
		conn_close(t, t->conns);
	}
}

/*
 * While looking: who asked last is likely to ask next, and a look at its socket brings the request
 * along.  Not for ever, since it may keep asking while others wait.  Did it?
 */
static int look_at_latest(struct tcp_thread *t)
{
	uint64_t before = atomic_load_explicit(&t->counts.receives, memory_order_relaxed);

	if (!t->latest || t->latest->is_ready || t->latest->waits_out ||
	    ++t->latest_in_row > LATEST_MAX)
		return 0;
	take_turn(t, t->latest);
	return atomic_load_explicit(&t->counts.receives, memory_order_relaxed) != before;
}

/* Sleep, if that is permitted, until there is something, and deal with it.  Was there any? */
static int wait_and_handle(struct tcp_thread *t, int timeout_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(t->epoll, events, EVENTS_MAX, timeout_ms);

	t->latest_in_row = 0;
	for (int i = 0; i < n; i++)
		handle(t, events[i].data.ptr);
	return n > 0;
}

static void *thread_main(void *argument)
{
	struct tcp_thread *t = argument;
	struct tcp_server *s = t->server;
	struct fab_wait waits = {.sleeps = s->spin_ns == 0};
	uint64_t swept_ns = server_now_ns();

	while (!atomic_load_explicit(&s->is_stopping, memory_order_relaxed)) {
		int may_sleep = !t->ready && waits.sleeps;
		int timeout_ms = !may_sleep ? 0 : t->greeting > 0 ? SWEEP_MS : -1;
		int found = (!waits.sleeps && look_at_latest(t)) || wait_and_handle(t, timeout_ms);

		if (found && s->spin_ns > 0)
			fab_wait_found(&waits);
		else if (!found && !waits.sleeps)
			fab_wait_in_vain(&waits, server_now_ns(), s->spin_ns);
		if (t->ready)
			take_ready_turns(t);
		if (t->greeting == 0)
			continue;
		uint64_t now_ns = server_now_ns();

		if (now_ns - swept_ns > (uint64_t)SWEEP_MS * 1000000) {
			swept_ns = now_ns;
			sweep(t);
		}
	}
	close_all(t);
	return NULL;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static void thread_destroy(struct tcp_thread *t)
{
	if (t->epoll >= 0)
		close(t->epoll);
	if (t->wake >= 0)
		close(t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static struct tcp_thread *thread_create(struct tcp_server *s)
{
	struct tcp_thread *t = calloc(1, sizeof(*t));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = t};

	if (!t)
		return NULL;
	t->server = s;
	t->ready_end = &t->ready;
	pthread_mutex_init(&t->lock, NULL);
	t->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	t->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (t->wake >= 0 && t->epoll >= 0 &&
	    epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->wake, &event) == 0)
		return t;
	thread_destroy(t);
	return NULL;
}

static int listen_all_open(struct tcp_server *s, const struct tcp_server_settings *settings,
			   char *error_text, size_t error_bytes)
{
	if (settings->listen_count > TCP_SERVER_LISTEN_MAX) {
		snprintf(error_text, error_bytes, "more than %u addresses to listen on",
			 TCP_SERVER_LISTEN_MAX);
		return FORGE_E_INVAL;
	}
	for (unsigned i = 0; i < settings->listen_count; i++) {
		int status =
		    tcp_listen_open(settings->listen[i], &s->listeners[i], error_text, error_bytes);

		if (status)
			return status;
		s->listener_count++;
	}
	return FORGE_OK;
}

static int threads_open(struct tcp_server *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct tcp_thread *t = thread_create(s);

		if (!t)
			return FORGE_E_SYSTEM;
		s->threads[s->thread_count++] = t;
	}
	return FORGE_OK;
}

int tcp_server_open(const struct tcp_server_settings *settings, char *error_text,
		    size_t error_bytes, struct tcp_server **out)
{
	struct tcp_server *s = calloc(1, sizeof(*s));
	unsigned threads = settings->threads ? settings->threads : 1;

	if (!s) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	s->connections_max =
	    settings->connections_max ? settings->connections_max : TCP_SERVER_CONNECTIONS_MAX;
	s->spin_ns = (uint64_t)settings->spin_us * 1000;
	s->door = settings->door;
	s->timeout_ms = settings->timeout_ms ? settings->timeout_ms : TIMEOUT_MS_DEFAULT;
	s->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pthread_mutex_init(&s->lock, NULL);
	if (getrandom(&s->boot, sizeof(s->boot), 0) != sizeof(s->boot))
		s->boot = server_now_ns();
	int status = listen_all_open(s, settings, error_text, error_bytes);

	if (!status) {
		status = threads_open(s, threads < TCP_SERVER_THREADS_MAX ? threads
									  : TCP_SERVER_THREADS_MAX);
		if (status)
			snprintf(error_text, error_bytes,
				 "no descriptors for %u threads: raise the limit (ulimit -n)",
				 threads);
	}
	if (status) {
		tcp_server_close(s);
		return status;
	}
	*out = s;
	return FORGE_OK;
}

const char *tcp_server_address(const struct tcp_server *s, unsigned index)
{
	return index < s->listener_count ? s->listeners[index].name : NULL;
}

const char *tcp_server_address_of_network(const struct tcp_server *s)
{
	for (unsigned i = 0; i < s->listener_count; i++)
		if (!s->listeners[i].is_local)
			return s->listeners[i].name;
	return NULL;
}

static int listen_in_epoll(struct tcp_server *s)
{
	for (unsigned i = 0; i < s->listener_count; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

		if (epoll_ctl(s->threads[0]->epoll, EPOLL_CTL_ADD, s->listeners[i].fd, &event))
			return FORGE_E_SYSTEM;
	}
	return FORGE_OK;
}

/* Signals are the business of the owner's threads. */
static int threads_start(struct tcp_server *s)
{
	sigset_t all, before;
	int error = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < s->thread_count && !error; i++) {
		struct tcp_thread *t = s->threads[i];

		error = pthread_create(&t->id, NULL, thread_main, t);
		t->is_started = !error;
		if (error || pthread_getcpuclockid(t->id, &t->cpu_clock))
			t->cpu_clock = CLOCK_THREAD_CPUTIME_ID;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error ? FORGE_E_SYSTEM : FORGE_OK;
}

int tcp_server_start(struct tcp_server *s, void *mem, uint64_t bytes,
		     const struct tcp_server_calls *calls)
{
	memory_init(&s->memory, NULL, mem, bytes);
	s->calls = *calls;
	int status = listen_in_epoll(s);

	return status ? status : threads_start(s);
}

void tcp_server_close(struct tcp_server *s)
{
	if (!s)
		return;
	atomic_store(&s->is_stopping, 1);
	for (unsigned i = 0; i < s->thread_count; i++)
		if (s->threads[i]->is_started)
			wake(s->threads[i]);
	for (unsigned i = 0; i < s->thread_count; i++)
		if (s->threads[i]->is_started)
			pthread_join(s->threads[i]->id, NULL);
	for (unsigned i = 0; i < s->listener_count; i++)
		tcp_listen_close(&s->listeners[i]);
	for (unsigned i = 0; i < s->thread_count; i++) {
		/* Accepted for it after it had looked for the last time. */
		close_all(s->threads[i]);
		thread_destroy(s->threads[i]);
	}
	if (s->spare >= 0)
		close(s->spare);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

unsigned tcp_server_recheck(struct tcp_server *s)
{
	return s->door ? tcp_instance_recheck(s) : 0;
}

static uint64_t cpu_ns(const struct tcp_thread *t)
{
	struct timespec ts;

	if (!t->is_started || clock_gettime(t->cpu_clock, &ts))
		return 0;
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void tcp_server_count(struct tcp_server *s, struct tcp_server_counts *out)
{
	*out = (struct tcp_server_counts){
	    .instances = atomic_load(&s->instance_count),
	    .fenced = atomic_load(&s->fenced),
	};
	for (unsigned i = 0; i < s->thread_count; i++) {
		const struct tcp_thread_counts *n = &s->threads[i]->counts;

		out->connections += atomic_load(&n->connections);
		out->connections_total += atomic_load(&n->connections_total);
		out->refused += atomic_load(&n->refused);
		for (unsigned code = 0; code < FAB_CODES; code++)
			out->ops[code] += atomic_load(&n->ops[code]);
		out->ops_failed += atomic_load(&n->ops_failed);
		out->control += atomic_load(&n->control);
		out->receives += atomic_load(&n->receives);
		out->bytes_in += atomic_load(&n->bytes_in);
		out->bytes_out += atomic_load(&n->bytes_out);
		out->cpu_ns += cpu_ns(s->threads[i]);
	}
}
