/* fabric_server.c: children of fabric_bench that answer. */
#include "fabric_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/tcp_server_inside.h"
#include "node/serve.h"

#define ECHO_BYTES 65536u

void bench_die(const char *what)
{
	fprintf(stderr, "fabric_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t bench_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void processor_choose(enum processor which)
{
	static cpu_set_t all;
	cpu_set_t chosen;
	int one = -1;

	if (CPU_COUNT(&all) == 0 && sched_getaffinity(0, sizeof(all), &all))
		return;
	for (int i = 0; i < CPU_SETSIZE && (one < 0 || which == PROCESSOR_LAST); i++)
		if (CPU_ISSET(i, &all))
			one = i;
	CPU_ZERO(&chosen);
	CPU_SET(one, &chosen);
	sched_setaffinity(0, sizeof(all), which == PROCESSOR_ANY ? &all : &chosen);
}

static _Noreturn void report(struct server_seen *seen, const char *where, struct tcp_server *verbs,
			     struct node_server *node)
{
	struct timespec nap = {.tv_nsec = 1000000};
	struct tcp_server_counts n = {0};

	snprintf(seen->where, sizeof(seen->where), "%s", where);
	for (atomic_store(&seen->is_ready, 1);;) {
		if (verbs)
			tcp_server_count(verbs, &n);
		if (node)
			node_server_count(node, &n);
		atomic_store(&seen->receives, n.receives);
		atomic_store(&seen->cpu_ns, bench_cpu_ns());
		nanosleep(&nap, NULL);
	}
}

/* ---- echo --------------------------------------------------------------------------------- */

ssize_t receive_patiently(int fd, unsigned char *buf, size_t bytes, struct fab_wait *wait)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		ssize_t n = recv(fd, buf, bytes, MSG_DONTWAIT);

		if (n >= 0 || errno != EAGAIN) {
			fab_wait_found(wait);
			return n;
		}
		fab_wait_in_vain(wait, clock_now_ns(clock_monotonic()), SERVER_SPIN_US * 1000);
		if (wait->sleeps)
			poll(&p, 1, -1);
	}
}

static void *echo_client(void *argument)
{
	int fd = (int)(intptr_t)argument;
	struct fab_wait wait = {0};
	unsigned char buf[ECHO_BYTES];
	ssize_t n;

	while ((n = receive_patiently(fd, buf, sizeof(buf), &wait)) > 0)
		for (ssize_t at = 0; at < n;) {
			ssize_t sent = send(fd, buf + at, (size_t)(n - at), MSG_NOSIGNAL);

			if (sent <= 0)
				break;
			at += sent;
		}
	close(fd);
	return NULL;
}

static void *echo_main(void *argument)
{
	struct tcp_listener *l = argument;
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	for (;;) {
		int fd = tcp_listen_accept(l, 10000);
		pthread_t thread;

		if (fd < 0)
			poll(&p, 1, -1);
		else if (pthread_create(&thread, NULL, echo_client, (void *)(intptr_t)fd) == 0)
			pthread_detach(thread);
	}
	return NULL;
}

static _Noreturn void be_echo(struct server_seen *seen, const char *where)
{
	struct tcp_listener listener;
	pthread_t thread;
	char error[512];

	if (tcp_listen_open(where, &listener, error, sizeof(error)))
		bench_die(error);
	if (tcp_listen_begin(&listener))
		bench_die("listen");
	if (pthread_create(&thread, NULL, echo_main, &listener))
		bench_die("pthread_create");
	report(seen, listener.name, NULL, NULL);
}

/* ---- nodes -------------------------------------------------------------------------------- */

static _Noreturn void be_verbs(struct server_seen *seen, const struct tcp_server_settings *settings)
{
	const struct tcp_server_calls calls = {0};
	struct tcp_server *server;
	char error[512];
	void *mem = mmap(NULL, SERVER_MEMORY_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		bench_die("mmap");
	madvise(mem, SERVER_MEMORY_BYTES, MADV_HUGEPAGE); /* as an export has */
	memset(mem, 0, SERVER_MEMORY_BYTES);
	if (tcp_server_open(settings, error, sizeof(error), &server))
		bench_die(error);
	if (tcp_server_start(server, mem, SERVER_MEMORY_BYTES, &calls))
		bench_die("starting a server");
	report(seen, tcp_server_address(server, 0), server, NULL);
}

static void pool_name(char name[64], pid_t node)
{
	snprintf(name, 64, "shm:/forge-fabric-bench-%ld", (long)node);
}

static _Noreturn void be_node(struct server_seen *seen, const struct tcp_server_settings *settings)
{
	char name[64], error[1024];
	struct node_server *server;
	struct node *node;
	const struct node_wish wish = {
	    .where = name,
	    .plan = {.pool_bytes = SERVER_MEMORY_BYTES,
		     .object_bytes = 320,
		     .slot_words = 1,
		     .policy = "forge"},
	    .plan_given = true,
	    .force = true,
	};

	pool_name(name, getpid());
	if (node_server_open(settings->listen[0], settings, &server, error, sizeof(error)) ||
	    node_open(&wish, &node, error, sizeof(error)))
		bench_die(error);
	if (node_ready(node) || node_server_start(server, node))
		bench_die("starting a node");
	report(seen, node_server_address(server, 0), NULL, server);
}

void server_start(struct server *s, enum server_kind kind, const char *where, unsigned threads)
{
	const struct tcp_server_settings settings = {
	    .listen = &where, .listen_count = 1, .threads = threads, .spin_us = SERVER_SPIN_US};

	s->seen =
	    mmap(NULL, sizeof(*s->seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->seen == MAP_FAILED)
		bench_die("mmap");
	s->pid = fork();
	if (s->pid < 0)
		bench_die("fork");
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (kind == SERVER_ECHO)
			be_echo(s->seen, where);
		if (kind == SERVER_VERBS)
			be_verbs(s->seen, &settings);
		be_node(s->seen, &settings);
	}
	while (!atomic_load(&s->seen->is_ready)) {
		poll(NULL, 0, 1);
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
			exit(1);
	}
}

void server_stop(struct server *s)
{
	char name[64];

	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	if (strncmp(s->seen->where, "unix:", 5) == 0)
		unlink(s->seen->where + 5);
	pool_name(name, s->pid);
	shm_unlink(name + 4); /* of a node */
	munmap(s->seen, sizeof(*s->seen));
}
