/*
 * fabric_bench.c: verbs over TCP and Unix sockets beside a bare echo with the same framing.
 *
 *	fabric_bench [SLICE_MS [ROUNDS [ROWS]]]
 *
 * READs: the node's server over 64 MiB in a process of its own, and clients of the tcp provider in
 * this one, each a thread: 8-byte READs at random, `depth` of them out all the time.  The echo is a
 * process that sends back whatever it receives, and clients that send again what they have
 * received: 16 bytes for each READ both ways, as many as the subject's request and reply have.  It
 * parses nothing, checks nothing and touches no memory.  The rest is the same for both: what has
 * come is sent again, in groups of half the depth at most, so that both sides can work at once, but
 * as one while a side sleeps for want of a processor of its own; who waits does it by
 * fabric/wait.h.
 *
 * Gets: of 256-byte values, by a client of a memory node, beside one round trip of 16 bytes at a
 * time with the echo, and one READ of 8 bytes at a time.
 *
 * One client has the first of the processors that this process may use, who answers it the last, or
 * the scheduler would decide, differently for the echo and for the node, whether they share one;
 * taskset(1) lets them.  All are measured in turn, in slices.  A slice of Gets, READs or round
 *trips is a median; what is printed are quartiles over slices, and the best slice, the least
 *disturbed by what else runs on the machine.  A ratio is one of two slices that followed each
 *other.  Processor time is that of the node's process and of this one, per op, and the node's as a
 *share of what one processor had.
 *
 * Exit status 1 when a READ of one client at depth 64 over TCP takes more than 500 ns of the node's
 * processor, or of the client's, so that with one each there would be less than 2 M/s, or when its
 * rate is below 0.4 of the echo's.  Neither depends much on what else the machine does;
 * doc/benchmarks.md has the targets, this catches what makes it worse.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/prng.h"
#include "client/client.h"
#include "fabric/tcp.h"
#include "fabric/tcp_dial.h"
#include "fabric/tcp_place.h"
#include "fabric_server.h"
#include "load/key.h"
#include "run/run.h"

#define CLIENTS_MAX 4u
#define DEPTH_MAX   64u
#define ROUNDS_MAX  64u
#define FRAME_BYTES 16u
#define CPU_NS_MAX  500
#define RATIO_MIN   0.4

#define GET_KEYS    20000u
#define VALUE_BYTES 256u
#define STEPS_MAX   (1u << 16) /* of a slice, that are remembered */

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* ---- quartiles ---------------------------------------------------------------------------- */

struct spread {
	double quarter, median, three_quarters, most;
};

static int by_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct spread spread_of(const double *values, unsigned n)
{
	static double sorted[STEPS_MAX];

	memcpy(sorted, values, n * sizeof(*values));
	qsort(sorted, n, sizeof(*sorted), by_double);
	return (struct spread){sorted[n / 4], sorted[n / 2], sorted[n * 3 / 4], sorted[n - 1]};
}

/* ---- many at once ------------------------------------------------------------------------- */

struct load {
	const struct server *server;
	int is_echo;
	unsigned depth;
	uint64_t slice_ns;
	uint64_t seed;
	uint64_t ops, took_ns; /* results */
};

/* What is sent at once of `count` that have come. */
static unsigned group_of(unsigned count, unsigned depth, const struct fab_wait *wait)
{
	unsigned most = wait->sleeps || depth == 1 ? depth : depth / 2;

	return count < most ? count : most;
}

static int echo_open(const struct server *s)
{
	struct tcp_settings settings = {.where = s->seen->where};
	struct tcp_place place;
	char error[512];
	struct tcp_stream stream;

	if (tcp_dial_socket(&settings, &stream, &place, error, sizeof(error)))
		bench_die("connecting to the echo");
	int fd = dup(stream.fd); /* without what a stream brings */

	tcp_stream_close(&stream);
	return fd;
}

/* Whole frames, and what there is of the next with the last group. */
static void send_groups(int fd, const unsigned char *buf, size_t bytes, unsigned depth,
			const struct fab_wait *wait)
{
	while (bytes > 0) {
		size_t group = FRAME_BYTES * group_of((unsigned)(bytes / FRAME_BYTES), depth, wait);

		if (bytes - group < FRAME_BYTES)
			group = bytes;
		if (send(fd, buf, group, MSG_NOSIGNAL) != (ssize_t)group)
			bench_die("sending to the echo");
		buf += group;
		bytes -= group;
	}
}

static void run_echo(struct load *l)
{
	unsigned char buf[DEPTH_MAX * FRAME_BYTES] = {0};
	struct fab_wait wait = {0};
	int fd = echo_open(l->server);
	uint64_t start_ns = now_ns(), end_ns = start_ns + l->slice_ns, bytes = 0, last_ns;

	send_groups(fd, buf, l->depth * FRAME_BYTES, l->depth, &wait);
	do {
		ssize_t n = receive_patiently(fd, buf, sizeof(buf), &wait);

		if (n <= 0)
			bench_die("receiving from the echo");
		send_groups(fd, buf, (size_t)n, l->depth, &wait);
		bytes += (uint64_t)n;
		last_ns = now_ns();
	} while (last_ns < end_ns);
	l->ops = bytes / FRAME_BYTES;
	l->took_ns = last_ns - start_ns;
	close(fd);
}

static struct fab *fab_open(const struct server *s)
{
	struct tcp_settings settings = {.where = s->seen->where, .deadline_ms = 10000};
	struct wire_welcome welcome;
	struct fab *f;
	char error[512];

	tcp_instance(settings.instance);
	if (tcp_open(&settings, &welcome, error, sizeof(error), &f))
		bench_die(error);
	return f;
}

static uint64_t some_word(struct fab *f, struct prng *p)
{
	return prng_below(p, fab_caps(f)->export_bytes / 8) * 8;
}

static void post_groups(struct fab *f, struct fab_op *ops, unsigned n, unsigned depth,
			const struct fab_wait *wait)
{
	while (n > 0) {
		unsigned group = group_of(n, depth, wait);

		fab_post(f, ops, group);
		fab_kick(f);
		ops += group;
		n -= group;
	}
}

static void run_reads(struct load *l)
{
	struct fab_op ops[DEPTH_MAX];
	uint64_t words[DEPTH_MAX], start_ns = now_ns(), end_ns = start_ns + l->slice_ns;
	uint64_t now = start_ns;
	unsigned next = 0; /* the oldest that is out */
	struct fab *f = fab_open(l->server);
	struct fab_wait wait = {0};
	struct prng p;

	prng_seed(&p, l->seed);
	for (unsigned i = 0; i < l->depth; i++)
		ops[i] = fab_read(FAB_DATA, some_word(f, &p), &words[i], 8);
	post_groups(f, ops, l->depth, l->depth, &wait);
	while (now < end_ns) {
		unsigned done = 0;

		fab_poll(f);
		now = now_ns();
		while (done < l->depth - next && ops[next + done].status != FAB_PENDING) {
			struct fab_op *op = &ops[next + done++];

			if (op->status)
				bench_die("READ");
			op->raddr = some_word(f, &p);
		}
		if (done) {
			fab_wait_found(&wait);
			post_groups(f, ops + next, done, l->depth, &wait);
			next = (next + done) % l->depth;
			l->ops += done;
			continue;
		}
		fab_wait_in_vain(&wait, now, FAB_SPIN_NS);
		if (wait.sleeps)
			run_wait_for(&f, 1, FAB_SLEEP_NS);
	}
	l->took_ns = now - start_ns;
	while (ops[(next + l->depth - 1) % l->depth].status == FAB_PENDING)
		fab_poll(f);
	fab_close(f);
}

static void *run_load(void *argument)
{
	struct load *l = argument;

	if (l->is_echo)
		run_echo(l);
	else
		run_reads(l);
	return NULL;
}

struct figures {
	double rate;	/* ops a second, of all clients */
	double node_ns; /* of processor, per op */
	double own_ns;
	double busy;  /* the node, in per cent of one processor */
	double batch; /* ops that arrived together at the node */
};

static struct figures measure(const struct server *s, const struct load *how, unsigned clients)
{
	struct server_seen *seen = s->seen;
	struct load loads[CLIENTS_MAX];
	pthread_t threads[CLIENTS_MAX];
	struct figures f = {0};
	uint64_t node_ns = atomic_load(&seen->cpu_ns), own_ns = bench_cpu_ns(), ops = 0;
	uint64_t receives = atomic_load(&seen->receives);
	struct timespec look = {.tv_nsec = 3000000}; /* until the child has looked again */

	for (unsigned i = 0; i < clients; i++) {
		loads[i] = *how;
		loads[i].server = s;
		loads[i].seed += i;
		if (pthread_create(&threads[i], NULL, run_load, &loads[i]))
			bench_die("pthread_create");
	}
	for (unsigned i = 0; i < clients; i++) {
		pthread_join(threads[i], NULL);
		f.rate += (double)loads[i].ops * 1e9 / (double)loads[i].took_ns;
		ops += loads[i].ops;
	}
	own_ns = bench_cpu_ns() - own_ns;
	nanosleep(&look, NULL);
	node_ns = atomic_load(&seen->cpu_ns) - node_ns;
	receives = atomic_load(&seen->receives) - receives;
	f.node_ns = (double)node_ns / (double)ops;
	f.own_ns = (double)own_ns / (double)ops;
	f.busy = 100.0 * (double)node_ns / (double)loads[0].took_ns;
	f.batch = (double)ops / (double)max_u64(1, receives);
	return f;
}

struct row {
	const char *where;
	unsigned depth, clients, threads;
};

#define OVER_TCP  "tcp://127.0.0.1:0"
#define OVER_UNIX "unix:/tmp/forge-fabric-bench"

static const struct row rows[] = {
    {OVER_TCP, 64, 1, 1}, {OVER_UNIX, 64, 1, 1}, {OVER_TCP, 16, 1, 1},
    {OVER_TCP, 64, 2, 1}, {OVER_TCP, 64, 4, 1},	 {OVER_TCP, 64, 4, 2},
};

static const char *via(const char *where)
{
	return strncmp(where, "unix:", 5) ? "tcp" : "unix";
}

/* The echo, then the others, at addresses of their own; apart: on a processor that is not ours. */
static void start_beside_echo(struct server servers[2], enum server_kind kind, const char *where,
			      unsigned threads, int apart)
{
	processor_choose(apart ? PROCESSOR_LAST : PROCESSOR_ANY);
	for (unsigned i = 0; i < 2; i++) {
		char own[280];

		snprintf(own, sizeof(own), *via(where) == 't' ? "%s" : "%s-%ld-%u", where,
			 (long)getpid(), i);
		server_start(&servers[i], i ? kind : SERVER_ECHO, own, threads);
	}
	processor_choose(apart ? PROCESSOR_FIRST : PROCESSOR_ANY);
}

/* Does it reach what it must? */
static int measure_row(const struct row *r, uint64_t slice_ns, unsigned rounds)
{
	double rate[2][ROUNDS_MAX], ratio[ROUNDS_MAX], node[ROUNDS_MAX], own[ROUNDS_MAX];
	double busy[ROUNDS_MAX], batch[ROUNDS_MAX];
	struct server servers[2];

	start_beside_echo(servers, SERVER_VERBS, r->where, r->threads, r->clients == 1);
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < 2; i++) {
			struct load how = {.is_echo = !i,
					   .depth = r->depth,
					   .slice_ns = slice_ns,
					   .seed = round * CLIENTS_MAX + 1};
			struct figures f = measure(&servers[i], &how, r->clients);

			rate[i][round] = f.rate / 1e6;
			node[round] = f.node_ns;
			own[round] = f.own_ns;
			busy[round] = f.busy;
			batch[round] = f.batch;
		}
		ratio[round] = rate[1][round] / rate[0][round];
	}
	for (unsigned i = 0; i < 2; i++)
		server_stop(&servers[i]);

	struct spread echo = spread_of(rate[0], rounds), reads = spread_of(rate[1], rounds);
	double halfway = spread_of(ratio, rounds).median;
	double node_ns = spread_of(node, rounds).median, own_ns = spread_of(own, rounds).median;

	printf("%-4s %5u %7u %7u  %5.2f %5.2f %5.2f %6.2f  %5.2f %5.2f %5.2f %6.2f  %5.2f %5.2f",
	       via(r->where), r->depth, r->clients, r->threads, echo.quarter, echo.median,
	       echo.three_quarters, echo.most, reads.quarter, reads.median, reads.three_quarters,
	       reads.most, halfway, reads.most / echo.most);
	printf("  %5.0f %5.0f %4.0f%% %5.1f\n", node_ns, own_ns, spread_of(busy, rounds).median,
	       spread_of(batch, rounds).median);
	fflush(stdout);
	return r != rows || (node_ns <= CPU_NS_MAX && own_ns <= CPU_NS_MAX && halfway >= RATIO_MIN);
}

/* ---- one at a time ------------------------------------------------------------------------ */

enum way { ROUND_TRIP, READ, GET, WAYS };

/* What the three ways need, once connected. */
struct single {
	int echo;
	struct fab_wait wait; /* the echo's */
	struct fab *fab;
	struct worker worker;
	struct client *client;
	struct session *session;
	struct prng prng;
};

static struct cache_key some_key(uint64_t id, char text[LOAD_KEY_TEXT_MAX])
{
	return (struct cache_key){text, (uint32_t)load_key_text(id, text)};
}

static void single_open(struct single *s, const struct server servers[2])
{
	const struct client_options options = {.session_count = 1, .seed = 1};
	static const char value[VALUE_BYTES] = {1};
	char text[LOAD_KEY_TEXT_MAX], error[512];

	*s = (struct single){.echo = echo_open(&servers[0]), .fab = fab_open(&servers[1])};
	worker_init(&s->worker, s->fab, clock_monotonic(), 1);
	prng_seed(&s->prng, 1);
	if (client_open(servers[1].seen->where, &options, &s->client, error, sizeof(error)) ||
	    session_open(s->client, &s->session, error, sizeof(error)))
		bench_die(error);
	for (uint64_t id = 0; id < GET_KEYS; id++) {
		const struct cache_item item = {.value = value, .bytes = sizeof(value)};

		if (session_set(s->session, some_key(id, text), &item))
			bench_die("Set");
	}
}

static void single_close(struct single *s)
{
	session_close(s->session);
	client_close(s->client);
	fab_close(s->fab);
	close(s->echo);
}

static void step(struct single *s, enum way way)
{
	unsigned char frame[FRAME_BYTES] = {0};
	char text[LOAD_KEY_TEXT_MAX];
	struct cache_value value;
	struct fab_op op;
	uint64_t word;

	switch (way) {
	case ROUND_TRIP:
		if (send(s->echo, frame, sizeof(frame), MSG_NOSIGNAL) != sizeof(frame) ||
		    receive_patiently(s->echo, frame, sizeof(frame), &s->wait) != sizeof(frame))
			bench_die("a round trip");
		return;
	case READ:
		op = fab_read(FAB_DATA, some_word(s->fab, &s->prng), &word, 8);
		int status = flow_run(&s->worker, &op, 1);

		if (status)
			bench_die(status_sentence(status));
		return;
	default:
		if (session_get(s->session, some_key(prng_below(&s->prng, GET_KEYS), text), &value))
			bench_die("Get");
	}
}

/* The median of a slice, in us. */
static double slice(struct single *s, enum way way, uint64_t slice_ns)
{
	static double took[STEPS_MAX];
	uint64_t last_ns = now_ns(), end_ns = last_ns + slice_ns;
	unsigned n = 0;

	while (last_ns < end_ns && n < STEPS_MAX) {
		step(s, way);
		uint64_t now = now_ns();

		took[n++] = (double)(now - last_ns) / 1e3;
		last_ns = now;
	}
	return spread_of(took, n).median;
}

static void print_spread(const char *format, const double *values, unsigned n)
{
	struct spread s = spread_of(values, n);

	printf(format, s.quarter, s.median, s.three_quarters);
}

static void measure_single(const char *where, uint64_t slice_ns, unsigned rounds)
{
	double us[WAYS][ROUNDS_MAX], read_ratio[ROUNDS_MAX], get_ratio[ROUNDS_MAX];
	struct server servers[2];
	struct single s;

	start_beside_echo(servers, SERVER_NODE, where, 1, 1);
	single_open(&s, servers);
	for (unsigned round = 0; round < rounds; round++) {
		for (enum way way = 0; way < WAYS; way++)
			us[way][round] = slice(&s, way, slice_ns);
		read_ratio[round] = us[READ][round] / us[ROUND_TRIP][round];
		get_ratio[round] = us[GET][round] / us[ROUND_TRIP][round];
	}
	single_close(&s);
	for (unsigned i = 0; i < 2; i++)
		server_stop(&servers[i]);
	printf("%-4s", via(where));
	for (enum way way = 0; way < WAYS; way++)
		print_spread("  %6.2f %6.2f %6.2f", us[way], rounds);
	print_spread("  %5.2f %5.2f %5.2f", read_ratio, rounds);
	print_spread("  %5.2f %5.2f %5.2f\n", get_ratio, rounds);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t slice_ms = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
	unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 15;
	unsigned count = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : ARRAY_COUNT(rows);
	int good = 1;

	if (slice_ms == 0 || rounds == 0 || rounds > ROUNDS_MAX || count > ARRAY_COUNT(rows)) {
		fprintf(stderr,
			"usage: fabric_bench [SLICE_MS [ROUNDS [ROWS]]], at most %u rounds\n",
			ROUNDS_MAX);
		return 2;
	}
	printf(
	    "8-byte READs beside a bare echo, and Gets of %u bytes beside a round trip: quartiles "
	    "of %u slices of %llu ms\n\n",
	    VALUE_BYTES, rounds, (unsigned long long)slice_ms);
	puts(
	    "                           echo, M/s                READs, M/s              ratio    "
	    "       cpu, ns  node   per\n"
	    "via  depth clients threads   1/4  half   3/4   best    1/4  half   3/4   best   half  "
	    "best   node   own  busy  recv");
	for (unsigned i = 0; i < count; i++)
		good &= measure_row(&rows[i], slice_ms * 1000000, rounds);
	puts(
	    "\n      round trip, us        READ, us              Get, us               "
	    "READ/round trip    Get/round trip\n"
	    "via      1/4   half    3/4     1/4   half    3/4     1/4   half    3/4    1/4  half   "
	    "3/4    1/4  half   3/4");
	measure_single(OVER_TCP, slice_ms * 1000000 / 10, rounds);
	measure_single(OVER_UNIX, slice_ms * 1000000 / 10, rounds);
	return good ? 0 : 1;
}
