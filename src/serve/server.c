/* server.c: accepting connections, signals, the end. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/server_inside.h"

/* Connections accepted before anything else gets a turn. */
#define ACCEPTS_MAX 64
/* How long not to accept when there are no descriptors: they must come from somebody's end. */
#define ACCEPT_PAUSE_MS 100
/*
 * How long clients have to read their last replies; and how long requests that have arrived are
 * still carried out, so that the replies of those who do read have ended, and arrived, by then.
 */
#define GRACE_S	 5
#define ANSWER_S 4
/* How often to see whether they have. */
#define DRAIN_LOOK_MS 10

static const int stop_signals[] = {SIGTERM, SIGINT, SIGHUP};

/* ---- accepting ---------------------------------------------------------------------------- */

static void accept_enable(struct server *s, bool enable)
{
	for (unsigned i = 0; i < s->listener_count; i++) {
		if (enable)
			event_add(&s->accept_events[i], NULL);
		else
			event_del(&s->accept_events[i]);
	}
}

/* Nothing can be accepted now, and the listener would report so without end. */
static void pause_accepting(struct server *s)
{
	const struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};

	if (atomic_fetch_add(&s->accept_failures, 1) == 0)
		log_warn("cannot accept a connection: %m; raise the limit of open files "
			 "(ulimit -n), or lower --conn-limit");
	accept_enable(s, false);
	event_add(&s->timer_event, &pause);
}

static void reject(struct server *s, int fd)
{
	static const char line[] = "ERROR Too many open connections\r\n";

	atomic_fetch_add(&s->rejected_count, 1);
	if (send(fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("a client beyond the limit went away by itself: %m");
	close(fd);
}

static void take(struct server *s, int fd, bool encrypted)
{
	if (atomic_load_explicit(&s->open_count, memory_order_relaxed) >=
	    s->options.connections_max) {
		reject(s, fd);
		return;
	}
	struct conn *c = conn_create(fd, &s->parser);

	if (c && encrypted)
		c->tls = tls_conn_create(s->options.tls, fd, NULL);
	if (c && encrypted && !c->tls) {
		conn_destroy(c);
		return;
	}
	if (!c) {
		close(fd);
		return;
	}
	atomic_fetch_add_explicit(&s->open_count, 1, memory_order_relaxed);
	c->number = s->next_number++;
	c->serving = atomic_load_explicit(&s->share.serving, memory_order_relaxed);
	if (server_thread_take(&s->threads[c->number % c->serving], c))
		return;
	atomic_fetch_sub_explicit(&s->open_count, 1, memory_order_relaxed);
	conn_destroy(c);
}

static bool is_tcp(const struct server *s, int fd)
{
	for (unsigned i = 0; i < s->listener_count; i++)
		if (s->listeners[i].fd == fd)
			return s->listeners[i].is_tcp;
	return false;
}

static void on_accept(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;
	bool encrypted = s->options.tls && is_tcp(s, fd);

	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (client >= 0) {
			take(s, client, encrypted);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			pause_accepting(s);
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* ---- the end ------------------------------------------------------------------------------ */

static void command_all(struct server *s, enum thread_order order)
{
	for (unsigned i = 0; i < s->options.thread_count; i++)
		server_thread_command(&s->threads[i], order);
}

static void on_grace_over(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;

	event_base_loopbreak(s->base);
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
	struct server *s = argument;
	const struct timeval look = {.tv_usec = DRAIN_LOOK_MS * 1000}, grace = {.tv_sec = GRACE_S};

	if (number == SIGHUP && s->options.reopen) {
		s->options.reopen(s->options.context);
		return;
	}
	if (s->signal) {
		event_base_loopbreak(s->base);
		return;
	}
	s->signal = (int)number;
	s->signal_ns = clock_now_ns(clock_monotonic());
	accept_enable(s, false);
	for (unsigned i = 0; i < s->listener_count; i++)
		listen_close(&s->listeners[i]);
	command_all(s, ORDER_DRAIN);
	event_add(&s->timer_event, &look);
	event_add(&s->grace_event, &grace);
}

/* After a pause in accepting; while draining: is all done? */
static void on_timer(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;
	const struct timeval look = {.tv_usec = DRAIN_LOOK_MS * 1000};

	if (!s->signal) {
		accept_enable(s, true);
		return;
	}
	if (atomic_load(&s->open_count) == 0) {
		event_base_loopbreak(s->base);
		return;
	}
	uint64_t passed_ns = clock_now_ns(clock_monotonic()) - s->signal_ns;

	command_all(s, passed_ns < ANSWER_S * UINT64_C(1000000000) ? ORDER_DRAIN : ORDER_LAST);
	event_add(&s->timer_event, &look);
}

static void on_chore(evutil_socket_t fd, short what, void *argument)
{
	struct server *s = argument;

	s->options.chore(s->options.context);
	/* The session that looks at the pool may do nothing for days: it lets go of who has left.
	 */
	if (!s->http)
		view_follow(session_view(s->session));
}

int server_run(struct server *s)
{
	const struct timeval chore = {
	    .tv_sec = (time_t)(s->options.chore_us / 1000000),
	    .tv_usec = (suseconds_t)(s->options.chore_us % 1000000),
	};

	if (s->options.chore && s->options.chore_us)
		event_add(&s->chore_event, &chore);
	accept_enable(s, true);
	event_base_dispatch(s->base);
	return s->signal;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static int open_listeners(struct server *s, char *error_text, size_t error_bytes)
{
	const struct server_options *o = &s->options;
	int status = 0;

	if (o->listen)
		status = listen_tcp(o->listen, o->port, o->backlog, s->listeners,
				    &s->listener_count, error_text, error_bytes);
	if (!status && o->unix_path)
		status = listen_unix(o->unix_path, o->unix_mode, o->backlog, s->listeners,
				     &s->listener_count, error_text, error_bytes);
	return status;
}

/* As nohup has it: who began us will be gone when it comes, and that is nothing to us. */
static bool is_ignored(int number)
{
	struct sigaction now;

	return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static int open_loop(struct server *s, char *error_text, size_t error_bytes)
{
	s->base = event_base_new();
	if (!s->base) {
		snprintf(error_text, error_bytes, "an event loop cannot be made: %m");
		return FORGE_E_SYSTEM;
	}
	for (unsigned i = 0; i < ARRAY_COUNT(stop_signals); i++) {
		if (stop_signals[i] == SIGHUP && is_ignored(SIGHUP) && !s->options.reopen)
			continue;
		s->signal_events[i] = evsignal_new(s->base, stop_signals[i], on_signal, s);
		if (!s->signal_events[i] || event_add(s->signal_events[i], NULL)) {
			snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
			return FORGE_E_NO_MEMORY;
		}
	}
	for (unsigned i = 0; i < s->listener_count; i++)
		event_assign(&s->accept_events[i], s->base, s->listeners[i].fd,
			     EV_READ | EV_PERSIST, on_accept, s);
	event_assign(&s->timer_event, s->base, -1, 0, on_timer, s);
	event_assign(&s->grace_event, s->base, -1, 0, on_grace_over, s);
	event_assign(&s->chore_event, s->base, -1, EV_PERSIST, on_chore, s);
	return 0;
}

int server_open(const struct server_options *options, struct server **out, char *error_text,
		size_t error_bytes)
{
	struct server *s = calloc(1, sizeof(*s) + options->thread_count * sizeof(s->threads[0]));
	int status;

	if (!s) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	s->options = *options;
	parser_init(&s->parser, options->value_bytes_max, options->protocol);
	if (options->auth)
		s->parser.value_bytes_max =
		    (uint32_t)min_u64(options->value_bytes_max, AUTH_PROOF_BYTES_MAX);
	s->start_ms = clock_now_ns(clock_monotonic()) / 1000000;
	pthread_mutex_init(&s->figures_lock, NULL);
	share_open(s);
	status = session_open(s->options.client, &s->session, error_text, error_bytes);
	if (!status)
		status = open_listeners(s, error_text, error_bytes);
	if (!status)
		status = open_loop(s, error_text, error_bytes);
	if (!status && options->metrics)
		status = metrics_open(s, error_text, error_bytes);
	for (unsigned i = 0; i < options->thread_count && !status; i++)
		status = server_thread_open(&s->threads[i], s, error_text, error_bytes);
	if (!status && s->http && (status = metrics_start(s)))
		snprintf(error_text, error_bytes, "the metrics' thread cannot be started: %m");
	if (status) {
		server_close(s);
		return status;
	}
	*out = s;
	return 0;
}

void server_describe(const struct server *s, char *text, size_t bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < s->listener_count && used < bytes; i++) {
		/* "*" is a socket for each family. */
		if (i > 0 && strcmp(s->listeners[i].name, s->listeners[i - 1].name) == 0)
			continue;
		used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? " " : "",
					 s->listeners[i].name);
	}
	if (s->http && used < bytes)
		snprintf(text + used, bytes - used, " metrics http://%s/metrics", s->metrics_name);
}

/*
 * Their events bring back what was before them, which is the end.  Who has been told to end does
 * so, and leaves nothing behind, however often it is told again.
 */
static void close_signals(struct server *s)
{
	sigset_t stop, before;

	sigemptyset(&stop);
	for (unsigned i = 0; i < ARRAY_COUNT(stop_signals); i++)
		sigaddset(&stop, stop_signals[i]);
	pthread_sigmask(SIG_BLOCK, &stop, &before);
	for (unsigned i = 0; i < ARRAY_COUNT(stop_signals); i++) {
		if (!s->signal_events[i])
			continue;
		event_free(s->signal_events[i]);
		if (s->signal)
			signal(stop_signals[i], SIG_IGN);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void server_close(struct server *s)
{
	if (!s)
		return;
	metrics_close(s);
	for (unsigned i = 0; i < s->options.thread_count; i++)
		server_thread_close(&s->threads[i]);
	share_close(s);
	for (unsigned i = 0; i < s->listener_count; i++)
		listen_close(&s->listeners[i]);
	close_signals(s);
	if (s->base)
		event_base_free(s->base);
	session_close(s->session);
	pthread_mutex_destroy(&s->figures_lock);
	free(s);
}
