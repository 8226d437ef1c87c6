/* conn.c: the life of a connection: reading, carrying out, answering, and what comes next. */
#include "serve/conn.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "serve/ahead.h"
#include "serve/idle.h"
#include "serve/linger.h"

static uint64_t now_ns(struct conn_worker *w)
{
	return glance_now_ns(&w->glance, clock_monotonic());
}

int conn_worker_init(struct conn_worker *w, uint32_t reply_value_bytes)
{
	w->out.room = CONN_SEND_BYTES + OUT_REPLY_BYTES_MAX + reply_value_bytes;
	w->out.data = malloc(w->out.room);
	w->in = malloc((size_t)CONN_GATHER * CONN_READ_BYTES);
	w->executor.out = &w->out;
	w->executor.counts = &w->counts;
	glance_init(&w->glance, clock_monotonic());
	w->now_ms = now_ns(w) / 1000000;
	if (w->out.data && w->in)
		return 0;
	conn_worker_fini(w);
	return FORGE_E_NO_MEMORY;
}

void conn_worker_fini(struct conn_worker *w)
{
	free(w->out.data);
	free(w->in);
	w->out.data = NULL;
	w->in = NULL;
}

struct conn *conn_create(int fd, const struct parser *fresh)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->socket.fd = fd;
	c->queued = -1;
	c->parser = *fresh;
	return c;
}

void conn_destroy(struct conn *c)
{
	tls_conn_destroy(c->tls);
	close(c->socket.fd);
	free(c->held);
	free(c->unsent);
	free(c);
}

static void join(struct conn *c, struct conn_worker *w)
{
	c->worker = w;
	c->prev = NULL;
	c->next = w->first;
	if (w->first)
		w->first->prev = c;
	w->first = c;
}

static void leave(struct conn *c)
{
	struct conn_worker *w = c->worker;

	if (c->prev)
		c->prev->next = c->next;
	else
		w->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	c->next = c->prev = NULL;
}

void conn_end(struct conn *c)
{
	struct conn_worker *w = c->worker;

	if (c->waits)
		watch_remove(&w->watch, &c->socket);
	overlap_leave(c);
	w->overlap.kept_bytes -= c->unsent_bytes;
	leave(c);
	counts_up(&w->counts.connections_closed);
	atomic_fetch_sub_explicit(w->open_count, 1, memory_order_relaxed);
	w->given_back += sizeof(*c) + c->held_room + c->unsent_at + c->unsent_bytes;
	conn_destroy(c);
}

/* ---- requests ----------------------------------------------------------------------------- */

/* Until then a value is a proof at most: a stranger cannot make us hold more. */
void conn_authorise(struct conn *c)
{
	c->is_authorised = c->worker->executor.is_authorised;
	if (c->is_authorised)
		c->parser.value_bytes_max = c->worker->executor.value_bytes_max;
}

/*
 * Carry out what is complete in data, until it ends, or the client does not read its replies, or
 * says goodbye, or enough is under way; keep the rest.  false: broken.
 */
static bool run_requests(struct conn *c, const char *data, size_t bytes)
{
	struct conn_worker *w = c->worker;
	struct input in = {.data = data, .bytes = bytes, .need = 1};
	int more;

	w->executor.is_authorised = c->is_authorised;
	more = overlap_is_on(&w->overlap) ? overlap_begin(c, &in) : ahead_execute(c, &in);
	if (more < 0)
		return false;
	c->held_need = in.need;
	if (c->is_ending)
		in.bytes = 0;
	bool blocked = !more && in.bytes > 0;

	if (blocked && !c->is_blocked)
		c->blocked_ns = now_ns(w);
	c->is_blocked = blocked;
	/* Sent first: the memory that replies take is not there to be held as well. */
	return conn_send_out(c) && conn_hold(c, in.data, in.bytes, in.need);
}

/* The same for one request that is all there is; the parser is as behind it.  false: broken. */
static bool run_one(struct conn *c, const struct gathered *one)
{
	c->worker->executor.is_authorised = c->is_authorised;
	c->parser = one->parser;
	return ahead_execute_one(c, &one->request) && conn_send_out(c);
}

static void on_ready(void *conn);

/* Let the event loop look for that, and nothing else.  false: it cannot. */
static bool wait_for(struct conn *c, enum conn_wait what)
{
	struct watch *w = &c->worker->watch;

	if (c->waits == what)
		return true;
	if (c->waits)
		watch_remove(w, &c->socket);
	c->waits = CONN_WAITS_NOT;
	if (what == CONN_WAITS_NOT)
		return true;
	if (what == CONN_WAITS_ROOM)
		counts_up(&c->worker->counts.reads_paused);
	if (watch_add(w, &c->socket, what == CONN_WAITS_ROOM ? EPOLLOUT : EPOLLIN))
		return false;
	c->waits = (uint8_t)what;
	return true;
}

/* Is nothing under way, but for half a request? */
static bool is_done(const struct conn *c)
{
	return !c->unsent && !c->errands && !c->is_blocked;
}

/* ---- whose it is -------------------------------------------------------------------------- */

static uint32_t workers_serving(const struct conn_worker *w)
{
	return atomic_load_explicit(w->serving, memory_order_relaxed);
}

/* Is all that there is of it in its socket? */
static bool is_at_rest(const struct conn *c)
{
	return c->waits == CONN_WAITS_INPUT && !c->is_lingering && !c->held_bytes && !c->errands &&
	       !c->is_ready && !c->is_waiting && !c->worker->is_draining &&
	       !(c->tls && tls_has_pending(c->tls));
}

/* How many workers serve has changed.  It may be another's, or gone, afterwards. */
static void find_worker(struct conn *c)
{
	struct conn_worker *w = c->worker;
	uint32_t serving = workers_serving(w), to = c->number % serving;

	if (to == w->number) {
		c->serving = serving;
		return;
	}
	if (!is_at_rest(c))
		return; /* later, then */
	wait_for(c, CONN_WAITS_NOT);
	leave(c);
	c->serving = serving;
	if (w->hand_over(w->executor.context, c, to)) {
		counts_up(&w->counts.handed_over);
		return;
	}
	join(c, w);
	if (!wait_for(c, CONN_WAITS_INPUT))
		conn_end(c);
}

/* Has all been answered that had come when the server was told to end? */
static bool is_drained(struct conn *c)
{
	if (!c->worker->is_draining || !is_done(c) || c->held_bytes)
		return false;
	/* What TLS wraps it in has been read with it. */
	if (c->due)
		c->due = min_u64(c->due, linger_input_bytes(c));
	return !c->due;
}

/* Nothing more of it is to be carried out or sent? */
static bool is_over(struct conn *c)
{
	return (c->is_ending && !c->unsent && !c->errands) || is_drained(c);
}

/* Can nothing be read of it until TLS has sent something of its own, such as a new key? */
static bool has_to_write(const struct conn *c)
{
	return c->tls && tls_wants_out(c->tls);
}

/* After anything has happened: what comes next? */
static void go_on(struct conn *c, bool alive)
{
	bool lives = alive && !c->is_broken && !(c->is_eof && is_done(c));
	enum conn_wait what = c->unsent || has_to_write(c) ? CONN_WAITS_ROOM
			      : c->is_blocked || c->is_eof ? CONN_WAITS_NOT
							   : CONN_WAITS_INPUT;

	if (lives && is_over(c)) {
		what = CONN_WAITS_INPUT;
		lives = linger_begin(c);
	}
	if (!lives || !wait_for(c, what))
		conn_end(c);
	else if (unlikely(c->serving != workers_serving(c->worker)))
		find_worker(c);
}

/* What had come, and then what is missing of its last request, but nothing behind that. */
static size_t room_to_drain(const struct conn *c)
{
	if (c->due)
		return c->due;
	return c->held_need > c->held_bytes ? c->held_need - c->held_bytes : 1;
}

ssize_t conn_read(struct conn *c, char *to, size_t room)
{
	if (unlikely(c->worker->is_draining))
		room = min_u64(room, room_to_drain(c));
	ssize_t n = c->tls ? tls_recv(c->tls, to, room) : recv(c->socket.fd, to, room, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
	c->is_eof = n == 0;
	c->due -= min_u64(c->due, (uint64_t)n);
	counts_add(&c->worker->counts.bytes_read, (uint64_t)n);
	return n;
}

/* Read once and run.  false: the connection is over. */
static bool serve_input(struct conn *c)
{
	struct conn_worker *w = c->worker;
	bool into_held = c->held_bytes > 0;

	if (into_held && !conn_hold_more(c))
		return false;
	size_t at = c->held_at + c->held_bytes;
	char *free_input = w->in + (size_t)w->gather.count * CONN_READ_BYTES;
	ssize_t n = conn_read(c, into_held ? c->held + at : free_input,
			      into_held ? c->held_room - at : CONN_READ_BYTES);

	/* Half a request is none, but what is under way will be answered. */
	if (n <= 0)
		return n == 0 && !(c->is_eof && is_done(c));
	if (!into_held)
		return run_requests(c, free_input, (size_t)n);
	c->held_bytes += (size_t)n;
	return c->held_bytes < c->held_need || run_requests(c, c->held + c->held_at, c->held_bytes);
}

/* What had to wait need not any more.  false: broken. */
static bool serve_held(struct conn *c)
{
	if (c->is_blocked && !c->unsent && !c->is_ending)
		return run_requests(c, c->held + c->held_at, c->held_bytes);
	return conn_send_out(c);
}

/* What TLS has taken from the socket already, no event will tell of.  false: over. */
static bool serve_pending(struct conn *c)
{
	bool alive = true;

	while (unlikely(c->tls) && alive && !c->unsent && !c->is_ending && !c->is_blocked &&
	       tls_has_pending(c->tls) && !is_drained(c))
		alive = serve_input(c);
	return alive;
}

static uint64_t requests_so_far(const struct conn_worker *w)
{
	return atomic_load_explicit(&w->counts.requests, memory_order_relaxed);
}

/*
 * Of requests that were carried out since, without a flow of their own; they came at start_ns.  Who
 * had to wait for the answer was not idle meanwhile.
 */
static void record_latency(struct conn *c, uint64_t requests_before, uint64_t start_ns)
{
	struct conn_worker *w = c->worker;
	uint64_t done = requests_so_far(w) - requests_before, end_ns;

	if (!done)
		return;
	end_ns = now_ns(w);
	c->active_ms = end_ns / 1000000;
	int64_t took_ns = (int64_t)(end_ns - start_ns);

	/* A glance may be behind the one before. */
	hist_record_n(&w->batch_ns, took_ns > 0 ? (uint64_t)took_ns : 0, done);
}

void conn_resume(struct conn *c)
{
	uint64_t before = requests_so_far(c->worker), start_ns = c->blocked_ns;
	bool alive = serve_held(c) && serve_pending(c);

	record_latency(c, before, start_ns);
	go_on(c, alive);
}

static void begin_replies(struct conn_worker *w)
{
	w->out.used = 0;
	w->executor.keys_start = KEYS_ARE_SENT;
}

void conn_serve(struct conn *c, const char *data, size_t bytes, const struct gathered *one,
		uint64_t start_ns)
{
	struct conn_worker *w = c->worker;
	uint64_t before = requests_so_far(w);

	begin_replies(w);
	bool alive = one ? run_one(c, one) : run_requests(c, data, bytes);

	record_latency(c, before, start_ns);
	go_on(c, alive);
}

static void on_ready(void *conn)
{
	struct conn *c = conn;
	struct conn_worker *w = c->worker;
	uint64_t before = requests_so_far(w), start_ns = now_ns(w);

	w->turn_ns = start_ns;
	w->now_ms = start_ns / 1000000;
	c->active_ms = w->now_ms;
	counts_up(&w->counts.wakeups);
	if (c->waits == CONN_WAITS_INPUT && !c->held_bytes && !c->tls &&
	    !overlap_is_on(&w->overlap)) {
		if (!gather_read(c, start_ns))
			conn_end(c);
		return;
	}
	begin_replies(w);
	bool alive = c->unsent ? conn_send_unsent(c) && serve_held(c) : serve_input(c);

	alive = alive && serve_pending(c);
	record_latency(c, before, start_ns);
	go_on(c, alive);
}

/* ---- the life of connections -------------------------------------------------------------- */

void conn_start(struct conn *c, struct conn_worker *w)
{
	join(c, w);
	if (!c->has_begun) {
		c->has_begun = true;
		c->socket.on_ready = on_ready;
		c->socket.owner = c;
		c->active_ms = w->now_ms;
		counts_up(&w->counts.connections_opened);
	}
	go_on(c, true);
}

void conn_tick(struct conn_worker *w)
{
	struct conn *next;

	gather_serve(w);
	w->now_ms = now_ns(w) / 1000000;
	for (struct conn *c = w->first; c; c = next) {
		next = c->next;
		if (c->is_lingering) {
			linger_look(c);
		} else if (w->idle_timeout_ms && idle_is(c)) {
			counts_up(&w->counts.connections_idle_closed);
			conn_end(c);
		} else if (c->held && c->held_bytes == 0) {
			w->given_back += c->held_room;
			free(c->held);
			c->held = NULL;
			c->held_room = 0;
		}
	}
	if (w->given_back >= CONN_TRIM_BYTES) {
		malloc_trim(0);
		w->given_back = 0;
	}
}

void conn_drain(struct conn_worker *w)
{
	struct conn *next;

	gather_serve(w);
	w->is_draining = true;
	for (struct conn *c = w->first; c; c = next) {
		next = c->next;
		if (c->is_lingering)
			continue;
		/* What has arrived counts as received. */
		c->due = linger_input_bytes(c);
		go_on(c, true);
	}
}

void conn_answer_no_more(struct conn_worker *w)
{
	struct conn *next;

	gather_serve(w);
	for (struct conn *c = w->first; c; c = next) {
		next = c->next;
		if (c->is_lingering || c->is_ending)
			continue;
		c->is_ending = true;
		c->is_blocked = false;
		c->held_bytes = 0;
		go_on(c, true);
	}
}

void conn_close_all(struct conn_worker *w)
{
	gather_serve(w);
	while (w->first)
		conn_end(w->first);
}
