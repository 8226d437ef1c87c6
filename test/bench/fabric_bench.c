/*
 * fabric_bench.c: verbs over TCP and Unix sockets beside a bare echo with the same framing.
 *
 *	fabric_bench [SLICE_MS [ROUNDS [ROWS]]]
 *
 * The subject is the node's server over 64 MiB in a process of its own, and clients of the tcp
 * provider in this one, each a thread: 8-byte READs at random, `depth` of them out all the time;
 * what has completed is posted again as one post.  The echo is a process that sends back whatever
 * it receives, and clients that send what they have received: 16 bytes for each READ both ways, as
 * many as the subject's request and reply have.  It parses nothing, checks nothing and touches no
 * memory, and looks for more as long as the subject does before it sleeps.
 *
 * Both are measured in turn, in slices; the figures are medians over rounds, and the best slice of
 * each, the least disturbed by what else runs on the machine, from which the ratio is made.
 *Processor time is that of the node's threads, per verb.
 *
 * Exit status 1 when one client at depth 64 does not reach 1 M READs a second over TCP in its best
 * slice, and 0.4 of the echo in its own: doc/benchmarks.md has the target, this catches what makes
 * it worse.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
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
#include "base/prng.h"
#include "fabric/tcp.h"
#include "fabric/tcp_dial.h"
#include "fabric/tcp_place.h"
#include "fabric/tcp_server_inside.h"
#include "run/run.h"

#define MEMORY_BYTES (64u << 20)
#define CLIENTS_MAX  4u
#define DEPTH_MAX    64u
#define GROUP_OPS    32u
#define ROUNDS_MAX   32u
#define FRAME_BYTES  16u
#define SPIN_US	     50u
#define LATENCIES    (1u << 16)
#define RATE_MIN     1e6
#define RATIO_MIN    0.4

static void die(const char *what)
{
	fprintf(stderr, "fabric_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- servers, each a child ---------------------------------------------------------------- */

struct server {
	pid_t pid;
	char where[280];
	struct seen *seen;
};

/* Of a child, as of its last look. */
struct seen {
	_Atomic uint64_t cpu_ns, receives;
	_Atomic int is_ready;
};

static void report(struct seen *seen, struct tcp_server *server)
{
	struct timespec nap = {.tv_nsec = 1000000};
	struct tcp_server_counts n = {0};

	for (atomic_store(&seen->is_ready, 1);;) {
		if (server)
			tcp_server_count(server, &n);
		atomic_store(&seen->receives, n.receives);
		atomic_store(&seen->cpu_ns, cpu_ns());
		nanosleep(&nap, NULL);
	}
}

struct echo {
	struct tcp_listener listener;
};

/* Receive, looking for a while before sleeping.  0 at the end. */
static ssize_t receive_hybrid(int fd, unsigned char *buf, size_t bytes, uint64_t spin_ns)
{
	uint64_t since_ns = 0;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		ssize_t n = recv(fd, buf, bytes, MSG_DONTWAIT);

		if (n >= 0 || errno != EAGAIN)
			return n;
		if (!since_ns)
			since_ns = now_ns();
		else if (now_ns() - since_ns > spin_ns)
			poll(&p, 1, -1);
	}
}

static void *echo_client(void *argument)
{
	int fd = (int)(intptr_t)argument;
	unsigned char buf[65536];
	ssize_t n;

	while ((n = receive_hybrid(fd, buf, sizeof(buf), SPIN_US * 1000)) > 0)
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
	struct echo *e = argument;
	struct pollfd p = {.fd = e->listener.fd, .events = POLLIN};

	for (;;) {
		int fd = tcp_listen_accept(&e->listener, 10000);
		pthread_t thread;

		if (fd < 0)
			poll(&p, 1, -1);
		else if (pthread_create(&thread, NULL, echo_client, (void *)(intptr_t)fd) == 0)
			pthread_detach(thread);
	}
	return NULL;
}

static void start(struct server *s, const char *where, unsigned threads)
{
	struct tcp_server_settings settings = {
	    .listen = &where, .listen_count = 1, .threads = threads, .spin_us = SPIN_US};
	const struct tcp_server_calls calls = {0};
	struct tcp_server *server = NULL;
	struct echo echo;
	char error[512];

	s->seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int failed = threads ? tcp_server_open(&settings, error, sizeof(error), &server)
			     : tcp_listen_open(where, &echo.listener, error, sizeof(error));

	if (failed || s->seen == MAP_FAILED)
		die(failed ? error : "mmap");
	snprintf(s->where, sizeof(s->where), "%s",
		 threads ? tcp_server_address(server, 0) : echo.listener.name);
	s->pid = fork();
	if (s->pid < 0)
		die("fork");
	if (s->pid == 0) {
		void *mem = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t thread;

		madvise(mem, MEMORY_BYTES, MADV_HUGEPAGE); /* as an export has */
		memset(mem, 0, MEMORY_BYTES);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (threads ? tcp_server_start(server, mem, MEMORY_BYTES, &calls)
			    : pthread_create(&thread, NULL, echo_main, &echo))
			die("starting a server");
		report(s->seen, server);
	}
	while (!atomic_load(&s->seen->is_ready))
		poll(NULL, 0, 1);
	/* The child has its copies of the sockets. */
	for (unsigned i = 0; threads && i < server->listener_count; i++)
		close(server->listeners[i].fd);
	if (!threads)
		close(echo.listener.fd);
}

static void stop(struct server *s)
{
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	if (strncmp(s->where, "unix:", 5) == 0)
		unlink(s->where + 5);
	munmap(s->seen, 4096);
}

/* ---- clients ------------------------------------------------------------------------------ */

struct load {
	const struct server *server;
	int is_echo;
	unsigned depth;
	uint64_t slice_ns;
	uint64_t seed;
	/* Results. */
	uint64_t ops, took_ns;
	uint32_t *latencies; /* at depth 1, of the first LATENCIES ops, in ns */
};

static void *run_echo(void *argument)
{
	struct load *l = argument;
	unsigned char buf[DEPTH_MAX * FRAME_BYTES] = {0};
	struct tcp_settings settings = {.where = l->server->where};
	char error[512];
	struct tcp_place place;
	int fd = tcp_dial_socket(&settings, &place, error, sizeof(error));
	uint64_t start_ns = now_ns(), end_ns = start_ns + l->slice_ns, bytes = 0,
		 last_ns = start_ns;

	if (fd < 0)
		die("connecting to the echo");
	if (send(fd, buf, l->depth * FRAME_BYTES, 0) < 0)
		die("send");
	while (last_ns < end_ns) {
		ssize_t n = receive_hybrid(fd, buf, sizeof(buf), FAB_SPIN_NS);

		if (n <= 0 || send(fd, buf, (size_t)n, 0) != n)
			die("echo");
		uint64_t now = now_ns();

		if (l->depth == 1 && bytes / FRAME_BYTES < LATENCIES)
			l->latencies[bytes / FRAME_BYTES] = (uint32_t)(now - last_ns);
		last_ns = now;
		bytes += (uint64_t)n;
	}
	l->ops = bytes / FRAME_BYTES;
	l->took_ns = last_ns - start_ns;
	close(fd);
	return NULL;
}

static struct fab *open_fab(const struct load *l)
{
	struct tcp_settings settings = {.where = l->server->where, .deadline_ms = 10000};
	struct wire_welcome welcome;
	struct fab *f;
	char error[512];

	tcp_instance(settings.instance);
	if (tcp_open(&settings, &welcome, error, sizeof(error), &f))
		die(error);
	return f;
}

/* One READ at a time, as a flow waits for it. */
static void run_single(struct load *l, struct fab *f)
{
	struct worker w;
	uint64_t word, start_ns = now_ns(), last_ns = start_ns, end_ns = start_ns + l->slice_ns;

	worker_init(&w, f, clock_monotonic(), l->seed);
	while (last_ns < end_ns) {
		struct fab_op op =
		    fab_read(FAB_DATA, prng_below(&w.prng, MEMORY_BYTES / 8) * 8, &word, 8);

		if (flow_run(&w, &op, 1))
			die("READ");
		uint64_t now = now_ns();

		if (l->ops < LATENCIES)
			l->latencies[l->ops] = (uint32_t)(now - last_ns);
		last_ns = now;
		l->ops++;
	}
	l->took_ns = last_ns - start_ns;
}

/*
 * In halves, each kicked, so that the node works on the first while the next is being prepared;
 * otherwise all 64 would go to and fro as one, and one side always wait for the other.
 */
static void post_groups(struct fab *f, struct fab_op *ops, unsigned n)
{
	while (n > 0) {
		unsigned group = n < GROUP_OPS ? n : GROUP_OPS;

		fab_post(f, ops, group);
		fab_kick(f);
		ops += group;
		n -= group;
	}
}

static void run_pipelined(struct load *l, struct fab *f)
{
	struct fab_op ops[DEPTH_MAX];
	uint64_t words[DEPTH_MAX], start_ns = now_ns(), end_ns = start_ns + l->slice_ns;
	uint64_t waits_since_ns = 0, now = start_ns;
	unsigned next = 0; /* the oldest that is out */
	struct prng p;

	prng_seed(&p, l->seed);
	for (unsigned i = 0; i < l->depth; i++)
		ops[i] = fab_read(FAB_DATA, prng_below(&p, MEMORY_BYTES / 8) * 8, &words[i], 8);
	post_groups(f, ops, l->depth);
	while (now < end_ns) {
		unsigned done = 0;

		fab_poll(f);
		now = now_ns();
		while (done < l->depth - next && ops[next + done].status != FAB_PENDING) {
			struct fab_op *op = &ops[next + done++];

			if (op->status)
				die("READ");
			op->raddr = prng_below(&p, MEMORY_BYTES / 8) * 8;
		}
		if (done) {
			post_groups(f, ops + next, done);
			next = (next + done) % l->depth;
			l->ops += done;
			waits_since_ns = now;
		} else if (now - waits_since_ns > FAB_SPIN_NS) {
			run_wait_for(&f, 1, FAB_SLEEP_NS);
		}
	}
	l->took_ns = now - start_ns;
	while (ops[(next + l->depth - 1) % l->depth].status == FAB_PENDING)
		fab_poll(f);
}

static void *run_subject(void *argument)
{
	struct load *l = argument;
	struct fab *f = open_fab(l);

	if (l->depth == 1)
		run_single(l, f);
	else
		run_pipelined(l, f);
	fab_close(f);
	return NULL;
}

/* ---- measuring ---------------------------------------------------------------------------- */

struct figures {
	double rate;	    /* ops a second, of all clients */
	double node_cpu_ns; /* per op */
	double own_cpu_ns;
	double latency_ns; /* median, at depth 1 */
	double batch;	   /* ops that arrived together at the node */
};

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static struct figures measure(const struct server *s, const struct load *how, unsigned clients)
{
	static uint32_t latencies[CLIENTS_MAX][LATENCIES];
	struct load loads[CLIENTS_MAX];
	pthread_t threads[CLIENTS_MAX];
	struct figures f = {0};
	uint64_t cpu_before = atomic_load(&s->seen->cpu_ns), own_before = cpu_ns(), ops = 0;
	uint64_t receives_before = atomic_load(&s->seen->receives);
	struct timespec look = {.tv_nsec = 3000000}; /* until the child has looked again */

	for (unsigned i = 0; i < clients; i++) {
		loads[i] = *how;
		loads[i].server = s;
		loads[i].seed += i;
		loads[i].latencies = latencies[i];
		if (pthread_create(&threads[i], NULL, how->is_echo ? run_echo : run_subject,
				   &loads[i]))
			die("pthread_create");
	}
	for (unsigned i = 0; i < clients; i++) {
		pthread_join(threads[i], NULL);
		f.rate += (double)loads[i].ops * 1e9 / (double)loads[i].took_ns;
		ops += loads[i].ops;
	}
	f.own_cpu_ns = (double)(cpu_ns() - own_before) / (double)ops;
	nanosleep(&look, NULL);
	f.node_cpu_ns = (double)(atomic_load(&s->seen->cpu_ns) - cpu_before) / (double)ops;
	f.batch =
	    (double)ops / (double)max_u64(1, atomic_load(&s->seen->receives) - receives_before);
	if (how->depth == 1) {
		size_t n = (size_t)min_u64(loads[0].ops, LATENCIES);

		qsort(latencies[0], n, sizeof(latencies[0][0]), by_value);
		f.latency_ns = latencies[0][n / 2];
	}
	return f;
}

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), by_double);
	return values[n / 2];
}

struct row {
	const char *where;
	unsigned depth, clients, threads;
};

static const struct row rows[] = {
    {"tcp://127.0.0.1:0", 64, 1, 1}, {"unix:/tmp/forge-fabric-bench", 64, 1, 1},
    {"tcp://127.0.0.1:0", 1, 1, 1},  {"unix:/tmp/forge-fabric-bench", 1, 1, 1},
    {"tcp://127.0.0.1:0", 16, 1, 1}, {"tcp://127.0.0.1:0", 64, 2, 1},
    {"tcp://127.0.0.1:0", 64, 4, 1}, {"tcp://127.0.0.1:0", 64, 4, 2},
};

/* Does it reach what it must? */
static int measure_row(const struct row *r, uint64_t slice_ns, unsigned rounds)
{
	double rate[2][ROUNDS_MAX], node[2][ROUNDS_MAX], own[ROUNDS_MAX], latency[2][ROUNDS_MAX];
	double batch[ROUNDS_MAX];
	struct server servers[2];
	char where[2][280];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(where[i], sizeof(where[i]),
			 strncmp(r->where, "unix:", 5) ? "%s" : "%s-%ld-%u", r->where,
			 (long)getpid(), i);
		start(&servers[i], where[i], i ? r->threads : 0);
	}
	for (unsigned round = 0; round < rounds; round++)
		for (unsigned i = 0; i < 2; i++) {
			struct load how = {.is_echo = !i,
					   .depth = r->depth,
					   .slice_ns = slice_ns,
					   .seed = round * CLIENTS_MAX + 1};
			struct figures f = measure(&servers[i], &how, r->clients);

			rate[i][round] = f.rate;
			node[i][round] = f.node_cpu_ns;
			latency[i][round] = f.latency_ns;
			if (!i)
				continue;
			own[round] = f.own_cpu_ns;
			batch[round] = f.batch;
		}
	for (unsigned i = 0; i < 2; i++)
		stop(&servers[i]);
	double echo = median(rate[0], rounds), subject = median(rate[1], rounds);
	double best = rate[1][rounds - 1], ratio = best / rate[0][rounds - 1];

	printf("%-5s %5u %7u %7u  %8.3f %8.3f  %5.2f", strncmp(r->where, "tcp", 3) ? "unix" : "tcp",
	       r->depth, r->clients, r->threads, echo / 1e6, subject / 1e6, ratio);
	printf("  %5.0f %5.0f %5.0f  %5.1f  %6.3f %6.3f", median(node[0], rounds),
	       median(node[1], rounds), median(own, rounds), median(batch, rounds),
	       rate[0][rounds - 1] / 1e6, best / 1e6);
	if (r->depth == 1)
		printf("  %6.1f %6.1f", median(latency[0], rounds) / 1e3,
		       median(latency[1], rounds) / 1e3);
	puts("");
	fflush(stdout);
	return r != rows || (best >= RATE_MIN && ratio >= RATIO_MIN);
}

int main(int argc, char **argv)
{
	uint64_t slice_ms = argc > 1 ? strtoul(argv[1], NULL, 10) : 200;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 9;
	unsigned count = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : ARRAY_COUNT(rows);
	int good = 1;

	if (slice_ms == 0 || rounds == 0 || rounds > ROUNDS_MAX || count > ARRAY_COUNT(rows)) {
		fprintf(stderr,
			"usage: fabric_bench [SLICE_MS [ROUNDS [ROWS]]], at most %u rounds\n",
			ROUNDS_MAX);
		return 2;
	}
	printf("8-byte READs beside a bare echo: medians of %u slices of %llu ms\n", rounds,
	       (unsigned long long)slice_ms);
	puts("                       node  medians,      M/s   best    cpu    ns   per     at   "
	     "best,    M/s  median     us");
	puts("via   depth clients threads      echo    READs  ratio   echo  node   own   once    "
	     "echo  READs    echo   READ");
	for (unsigned i = 0; i < count; i++)
		good &= measure_row(&rows[i], slice_ms * 1000000, rounds);
	return good ? 0 : 1;
}
