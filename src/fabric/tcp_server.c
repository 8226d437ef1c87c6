/*
 * tcp_server.c: the server's beginning and end, and what it counts.  Its threads are tcp_thread.c.
 */
#include "fabric/tcp_server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "fabric/tcp_server_inside.h"

#define TIMEOUT_MS_DEFAULT 10000u

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
		struct tcp_thread *t = tcp_thread_create(s);

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
		s->boot = tcp_now_ns();
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

static int listen_all_begin(struct tcp_server *s)
{
	for (unsigned i = 0; i < s->listener_count; i++) {
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = &s->listeners[i]};

		if (tcp_listen_begin(&s->listeners[i]) ||
		    epoll_ctl(s->threads[0]->epoll, EPOLL_CTL_ADD, s->listeners[i].fd, &event))
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

		error = pthread_create(&t->id, NULL, tcp_thread_main, t);
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
	int status = listen_all_begin(s);

	return status ? status : threads_start(s);
}

void tcp_server_close(struct tcp_server *s)
{
	if (!s)
		return;
	atomic_store(&s->is_stopping, 1);
	for (unsigned i = 0; i < s->thread_count; i++)
		if (s->threads[i]->is_started)
			tcp_thread_wake(s->threads[i]);
	for (unsigned i = 0; i < s->thread_count; i++)
		if (s->threads[i]->is_started)
			pthread_join(s->threads[i]->id, NULL);
	for (unsigned i = 0; i < s->listener_count; i++)
		tcp_listen_close(&s->listeners[i]);
	for (unsigned i = 0; i < s->thread_count; i++) {
		/* Accepted for it after it had looked for the last time. */
		tcp_thread_close_all(s->threads[i]);
		tcp_thread_destroy(s->threads[i]);
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
