/*
 * cpu_cost.c: what the processor of a compute node does for a verb and for an operation.
 *
 * The cpu_ constants of the simulator's profiles (src/vtime/profile.c) are from this program,
 * rounded. The flows run on memory of this process, small enough to stay in its caches, so that
 * what is measured is the code and not the memory; what posting to a card costs is not in it.
 *
 *   verb       one more READ of 8 bytes in a batch (of 16 instead of 1)
 *   wait       a batch of one READ of 8 bytes, less the verb, and parking and resuming a fiber
 *   kib        1024 bytes of a value more in a Get: copied, and their checksum
 *   operation  the mean of a Get that hits and a Set that updates, less their batches, verbs and
 * bytes message    half of what both ends of a TCP connection on this host do for a request of 64
 * bytes and a reply of 256, in one thread: system calls and the kernel's work tcp        the round
 * trip of the same between two threads that wait for each other
 *
 * Each is the least of many rounds, which is what others on the machine disturb least, by the
 * processor's time (tcp: by the clock, and the median).
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "fabric/count.h"
#include "fabric/loop.h"
#include "run/fiber_loop.h"

#define ROUNDS 40u
#define TURNS  2000u
#define KEYS   64u

struct subject {
	void *memory;
	struct fab *fab;
	struct fab_counts counts;
	struct worker worker;
	struct pool pool;
	struct cn cn;
	struct lane lane;
	struct cache cache;
	uint32_t value_bytes;
	struct fab_op ops[16];
	uint64_t words[16];
	unsigned n;
};

static void die(const char *what)
{
	fprintf(stderr, "cpu_cost: %s\n", what);
	exit(1);
}

static double now_ns(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The least time of a turn. */
static double least_ns(void (*turn)(struct subject *, uint32_t), struct subject *s)
{
	double least = 1e18;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		double start = now_ns(CLOCK_THREAD_CPUTIME_ID);

		for (uint32_t k = 0; k < TURNS; k++)
			turn(s, k);
		double ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / TURNS;

		least = ns < least ? ns : least;
	}
	return least;
}

static void turn_batch(struct subject *s, uint32_t turn)
{
	if (flow_run(&s->worker, s->ops, s->n))
		die("a READ failed");
}

static struct cache_key key_of(char *text, uint32_t turn)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, 24, "user%016u", turn % KEYS)};
}

static char keys[KEYS][24];

static void turn_get(struct subject *s, uint32_t turn)
{
	struct cache_value value;

	if (cache_get(&s->cache, (struct cache_key){keys[turn % KEYS], 20}, &value))
		die("a Get missed");
}

static void turn_set(struct subject *s, uint32_t turn)
{
	static const uint8_t value[8192];

	if (cache_set(&s->cache, (struct cache_key){keys[turn % KEYS], 20},
		      &(struct cache_item){.value = value, .bytes = s->value_bytes}))
		die("a Set failed");
}

/* A pool on which one node is alone, and that no Get or Set has to evict from for long. */
static void open_subject(struct subject *s, uint32_t value_bytes)
{
	struct plan_wish wish = {.chunk_count = 64,
				 .object_bytes = 20 + value_bytes,
				 .slot_words = 1,
				 .cn_max = 2,
				 .policy = "forge"};
	struct cn_options options = {.poll_interval_us = 10000};
	struct layout_registry lines[2];
	struct fab *inner;
	struct plan plan;
	char text[256];

	memset(s, 0, sizeof(*s));
	s->value_bytes = value_bytes;
	if (plan_make(&wish, &plan, text, sizeof(text)))
		die(text);
	s->memory = calloc(1, round_up_u64(plan.pool_bytes, 64));
	if (!s->memory || loop_open(s->memory, round_up_u64(plan.pool_bytes, 8), &inner) ||
	    count_open(inner, &s->counts, &s->fab))
		die("no memory");
	worker_init(&s->worker, s->fab, clock_monotonic(), 1);
	if (pool_format(&s->worker, &plan, 7) ||
	    pool_open(&s->worker, &s->pool, text, sizeof(text)) ||
	    cn_open(&s->cn, &s->pool, policy_find("forge"), &s->worker, &options, 1, lines) ||
	    lane_init(&s->lane, &s->cn) || cache_init(&s->cache, &s->worker, &s->cn, &s->lane))
		die("cannot attach");
	for (uint32_t i = 0; i < KEYS; i++) {
		key_of(keys[i], i);
		turn_set(s, i);
	}
}

static void close_subject(struct subject *s)
{
	cache_fini(&s->cache);
	lane_fini(&s->lane);
	cn_memory_destroy(&s->cn);
	fab_close(s->fab);
	free(s->memory);
}

static double batch_ns(struct subject *s, unsigned n)
{
	s->n = n;
	for (unsigned i = 0; i < n; i++)
		s->ops[i] = fab_read(FAB_INDEX, s->pool.plan.index_offset + 8 * i, &s->words[i], 8);
	return least_ns(turn_batch, s);
}

static void yields(struct worker *w, void *argument)
{
	for (uint32_t i = 0; i < TURNS; i++)
		flow_pause(w);
}

static double park_ns(void)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	struct worker w = {0};
	double least = 1e18;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		if (!loop || fiber_loop_spawn(loop, &w, yields, NULL))
			die("no memory");
		double start = now_ns(CLOCK_THREAD_CPUTIME_ID);

		fiber_loop_run(loop);
		double ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / TURNS;

		least = ns < least ? ns : least;
	}
	fiber_loop_destroy(loop);
	return least;
}

/* What an operation takes beside its verbs, which the count provider has counted. */
static double beside_ns(struct subject *s, void (*turn)(struct subject *, uint32_t), double batches,
			double wait, double verb, double kib)
{
	struct fab_counts before = s->counts;
	double ns = least_ns(turn, s);
	struct fab_counts during = fab_counts_since(&s->counts, &before);
	struct fab_count sum = fab_counts_total(&during);
	double turns = (double)ROUNDS * TURNS;

	return ns - batches * wait - (double)sum.verbs / turns * verb -
	       (double)sum.bytes / turns / 1024 * kib;
}

/* --- TCP ------------------------------------------------------------------------------------ */

#define REQUEST_BYTES 64
#define REPLY_BYTES   256

static void connect_pair(int pair[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	pair[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, bytes) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes) ||
	    connect(pair[0], (struct sockaddr *)&address, bytes) ||
	    (pair[1] = accept(listener, NULL, NULL)) < 0)
		die("cannot connect on 127.0.0.1");
	for (unsigned i = 0; i < 2; i++)
		setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(listener);
}

static void move(int from, int to, size_t bytes)
{
	char buf[REPLY_BYTES] = {0};

	if (from >= 0 && recv(from, buf, bytes, MSG_WAITALL) != (ssize_t)bytes)
		die("recv");
	if (to >= 0 && send(to, buf, bytes, 0) != (ssize_t)bytes)
		die("send");
}

static void exchange(const int pair[2])
{
	move(-1, pair[0], REQUEST_BYTES);
	move(pair[1], -1, REQUEST_BYTES);
	move(-1, pair[1], REPLY_BYTES);
	move(pair[0], -1, REPLY_BYTES);
}

static double message_ns(void)
{
	double least = 1e18;
	int pair[2];

	connect_pair(pair);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		double start = now_ns(CLOCK_THREAD_CPUTIME_ID);

		for (uint32_t k = 0; k < TURNS / 10; k++)
			exchange(pair);
		double ns = (now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (TURNS / 10);

		least = ns < least ? ns : least;
	}
	close(pair[0]);
	close(pair[1]);
	return least / 2;
}

static void *answer(void *argument)
{
	int fd = *(int *)argument;
	char buf[REPLY_BYTES] = {0};

	while (recv(fd, buf, REQUEST_BYTES, MSG_WAITALL) == REQUEST_BYTES)
		move(-1, fd, REPLY_BYTES);
	return NULL;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double tcp_ns(void)
{
	static double ns[4 * TURNS];
	pthread_t thread;
	int pair[2];

	connect_pair(pair);
	if (pthread_create(&thread, NULL, answer, &pair[1]))
		die("cannot start a thread");
	for (uint32_t i = 0; i < ARRAY_COUNT(ns); i++) {
		double start = now_ns(CLOCK_MONOTONIC);

		move(-1, pair[0], REQUEST_BYTES);
		move(pair[0], -1, REPLY_BYTES);
		ns[i] = now_ns(CLOCK_MONOTONIC) - start;
	}
	shutdown(pair[0], SHUT_RDWR);
	pthread_join(thread, NULL);
	close(pair[0]);
	close(pair[1]);
	qsort(ns, ARRAY_COUNT(ns), sizeof(ns[0]), by_value);
	return ns[ARRAY_COUNT(ns) / 2];
}

int main(void)
{
	static struct subject s;

	open_subject(&s, 256);
	double one = batch_ns(&s, 1), sixteen = batch_ns(&s, 16);
	double verb = (sixteen - one) / 15, wait = one - verb + park_ns();
	double small = least_ns(turn_get, &s);

	close_subject(&s);
	open_subject(&s, 4096 + 256);
	double kib = (least_ns(turn_get, &s) - small) / 4;

	close_subject(&s);
	open_subject(&s, 256);
	/* On this fabric no fiber parks: what a batch takes here is less than wait. */
	double batch = one - verb;
	double get = beside_ns(&s, turn_get, 2, batch, verb, kib);
	double set = beside_ns(&s, turn_set, 3, batch, verb, kib);

	close_subject(&s);
	printf("verb       %6.1f ns\nwait       %6.1f ns\nkib        %6.1f ns\n", verb, wait, kib);
	printf("operation  %6.1f ns  (Get %.1f, Set %.1f)\n", (get + set) / 2, get, set);
	printf("message    %6.0f ns\n", message_ns());
	printf("tcp        %6.0f ns\n", tcp_ns());
	return 0;
}
