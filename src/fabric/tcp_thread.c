/*
 * tcp_thread.c: a thread of the server: who waits for what, and who is accepted by whom.
 *
 * The first thread listens; a connection goes to the thread with the fewest.  A thread sleeps in
 * epoll, but looks for more for spin_us after the last time there was something, where that pays
 * (fabric/wait.h).  Connections have their turns in the order in which epoll names them, a bounded
 * one each, so none can keep the others waiting.
 *
 * Lock order: none is held while another is taken, but for what the owner's calls take under the
 * instances' lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/tcp_server_inside.h"
#include "fabric/wait.h"

#define EVENTS_MAX 64

/* How often those who say no hello are looked at. */
#define SWEEP_MS 500

/* Some fewer than there are in WIRE_HELLO_MS, since none comes a moment too early. */
#define SWEEPS_MIN (WIRE_HELLO_MS / SWEEP_MS - 2)

/* Turns of one connection in a row without asking epoll about the others. */
#define LATEST_MAX 8u

/*
 * After so many requests in a row that a look found, with none of anybody else in between, the
 * connection is taken out of epoll: two calls, for a part of each send to it, and for the looks at
 * epoll in between.  One READ at a time over a Unix socket took 3.95 us in place of 4.05, and the
 * node asked epoll 0.9 times for it in place of 4.9 (7 runs of 50 slices in turn).
 */
#define ALONE_REQUESTS 64u

/* Accepted in one go, so that connections go on meanwhile. */
#define ACCEPT_MAX 64

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
	if (t->latest == c) {
		t->latest = NULL;
		t->is_alone = 0;
	}
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

/* Epoll names the latest again, at once if something has come meanwhile. */
static void end_alone(struct tcp_thread *t)
{
	t->latest_found = 0;
	if (!t->is_alone)
		return;
	t->is_alone = 0;
	if (watch(t, t->latest, EPOLL_CTL_ADD))
		conn_close(t, t->latest);
}

static void take_turn(struct tcp_thread *t, struct tcp_conn *c)
{
	enum tcp_turn turn = tcp_conn_turn(c);

	if (turn == TCP_TURN_END) {
		conn_close(t, c);
		return;
	}
	if (unlikely(turn != TCP_TURN_DONE && t->is_alone && c == t->latest)) {
		end_alone(t);
		if (!t->latest)
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

void tcp_thread_wake(struct tcp_thread *t)
{
	const uint64_t one = 1;

	if (write(t->wake, &one, sizeof(one)) < 0)
		return; /* it is full: there is a wake-up on its way */
}

/*
 * Who has been silent since it came.  Time in which this thread did not run, because its host or
 * its process stood still, is none that anybody had to answer in; so it takes some sweeps, too, of
 * which there is one for all of such a time, however long.
 */
static void sweep(struct tcp_thread *t)
{
	uint64_t now_ns = tcp_now_ns();

	for (struct tcp_conn *c = t->conns, *next; c && t->greeting > 0; c = next) {
		next = c->next;
		if (c->state <= TCP_CONN_PROOF && c->sweeps++ >= SWEEPS_MIN &&
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
	c->born_ns = tcp_now_ns();
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
	tcp_thread_wake(t);
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
		if (t->latest != what)
			end_alone(t);
		t->latest = what;
		take_turn(t, what);
	}
}

void tcp_thread_close_all(struct tcp_thread *t)
{
	adopt_arrived(t);
	while (t->conns) {
		t->conns->is_orderly = 1;
		conn_close(t, t->conns);
	}
}

/* What came of a look. */
enum look {
	LOOK_ELSEWHERE, /* there was none, or others may wait: ask epoll */
	LOOK_IN_VAIN,
	LOOK_FOUND,
};

/*
 * While looking: who asked last is likely to ask next, and a look at its socket brings the request
 * along.  Not for ever, since it may keep asking while others wait.
 *
 * Who asks alone is taken out of epoll, where nobody has any use for it while it is looked at
 * anyway: LATEST_MAX looks, in vain or not, and then one at the others.  It is put back when the
 * thread does not look any more, when it is not the latest any more, and when its turn leaves
 * anything but a wait for requests.  So whoever is in no epoll is looked at, and nothing that comes
 * or ends there is missed; what came in between epoll names when it is put back, as it tells
 * levels, not edges.
 */
static enum look look_at_latest(struct tcp_thread *t)
{
	uint64_t before = atomic_load_explicit(&t->counts.receives, memory_order_relaxed);
	struct tcp_conn *c = t->latest;

	if (!c || c->is_ready || c->waits_out || ++t->latest_in_row > LATEST_MAX)
		return LOOK_ELSEWHERE;
	take_turn(t, c);
	if (atomic_load_explicit(&t->counts.receives, memory_order_relaxed) == before)
		return t->is_alone ? LOOK_IN_VAIN : LOOK_ELSEWHERE;
	if (t->latest && !t->is_alone && ++t->latest_found >= ALONE_REQUESTS && !c->is_ready &&
	    !c->waits_out)
		t->is_alone = !epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	return LOOK_FOUND;
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

void *tcp_thread_main(void *argument)
{
	struct tcp_thread *t = argument;
	struct tcp_server *s = t->server;
	struct fab_wait waits = {.sleeps = s->spin_ns == 0};
	uint64_t swept_ns = tcp_now_ns();

	while (!atomic_load_explicit(&s->is_stopping, memory_order_relaxed)) {
		if (waits.sleeps)
			end_alone(t);
		int may_sleep = !t->ready && waits.sleeps;
		int timeout_ms = !may_sleep ? 0 : t->greeting > 0 ? SWEEP_MS : -1;
		enum look look = waits.sleeps ? LOOK_ELSEWHERE : look_at_latest(t);
		int found =
		    look == LOOK_ELSEWHERE ? wait_and_handle(t, timeout_ms) : look == LOOK_FOUND;

		if (found && s->spin_ns > 0)
			fab_wait_found(&waits);
		else if (!found && !waits.sleeps)
			fab_wait_in_vain(&waits, tcp_now_ns(), s->spin_ns);
		if (t->ready)
			take_ready_turns(t);
		if (t->greeting == 0)
			continue;
		uint64_t now_ns = tcp_now_ns();

		if (now_ns - swept_ns > (uint64_t)SWEEP_MS * 1000000) {
			swept_ns = now_ns;
			sweep(t);
		}
	}
	tcp_thread_close_all(t);
	return NULL;
}

/* ---- beginning and end -------------------------------------------------------------------- */

void tcp_thread_destroy(struct tcp_thread *t)
{
	if (t->epoll >= 0)
		close(t->epoll);
	if (t->wake >= 0)
		close(t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

struct tcp_thread *tcp_thread_create(struct tcp_server *s)
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
	tcp_thread_destroy(t);
	return NULL;
}
