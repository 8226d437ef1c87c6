/*
 * members.c: threads of two clients while the members of their cache are changed under them, again
 * and again, at random: nodes that neither of them was opened with come, and others leave.
 *
 * Each key has one writer and readers of both clients.  A writer stores or deletes version after
 * version, and says before and after each what it does; a reader that finds a value holds it
 * against what had been acknowledged before it asked, and against what it found before.  So a value
 * that a new owner has replaced must never be found at the old one, whichever client goes by which
 * map, and whatever took the key back and forth.
 *
 * No memory node is lost, so an operation may end with an error only where what it waits for takes
 * more than a second, on a machine that is so busy.  Nobody else can tell how long the client had
 * no map, but each thread can say what would prove that it had one: FORGE_E_SPREAD is permitted
 * only to who has not done a whole operation in the second before; FORGE_E_NODE only to who waited
 * for a second himself, or where some node came more than a second ago and may not be reached yet.
 *
 *	mt_members [CHANGES]	60 by default
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/parse.h"
#include "base/prng.h"
#include "support/pools.h"
#include "support/respread.h"

#define NODES	4u
#define CLIENTS 2u
#define WRITERS 2u /* of each client, */
#define READERS 1u /* and readers of it */
#define THREADS (CLIENTS * (WRITERS + READERS))
#define KEYS	200u /* of a writer */

static uint64_t changes_wanted = 60;

/* What is known of a key: versions count up, those that delete it included. */
struct known {
	_Atomic uint32_t begun; /* the last one that was begun */
	_Atomic uint32_t least; /* nothing older may be found any more */
};

struct shared {
	struct pools pools;
	struct client *client[CLIENTS];
	struct known known[CLIENTS * WRITERS][KEYS];
	/* When the change began that made it a member; those at the beginning are there. */
	_Atomic uint64_t came_ns[NODES];
	_Atomic int stopping;
	_Atomic uint64_t operations, hits, late;
};

/* How long the client waits: FOLLOW_PATIENCE_NS (client/inside.h). */
#define PATIENCE_NS UINT64_C(1000000000)

struct thread {
	struct shared *shared;
	uint32_t index;
	int writer; /* whose keys it has; -1: a reader of all */
	pthread_t thread;
	uint64_t begun_ns; /* its operation */
	uint64_t done_ns;  /* and when the last one that was done had begun */
	uint64_t first_ns; /* when the first of the nodes had come that were there then */
	uint32_t seen[CLIENTS * WRITERS][KEYS];
	char failure[200];
};

static struct cache_key key_of(char *text, size_t bytes, uint32_t writer, uint32_t n)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, bytes, "%u.%u", writer, n)};
}

static int fail_thread(struct thread *t, const char *what, uint32_t writer, uint32_t n, int status)
{
	snprintf(t->failure, sizeof(t->failure), "thread %u, key %u.%u: %s: status %d", t->index,
		 writer, n, what, status);
	return -1;
}

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* What may be late then is looked at before, for it may have left afterwards. */
static void begin(struct thread *t)
{
	t->begun_ns = now_ns();
	t->first_ns = UINT64_MAX;
	for (unsigned i = 0; i < NODES; i++)
		t->first_ns = min_u64(t->first_ns, atomic_load(&t->shared->came_ns[i]));
}

/* Was it given up for a reason?  1: yes; 0: it was done; -1: for none. */
static int given_up(struct thread *t, int status)
{
	uint64_t now = now_ns();
	int is_permitted;

	if (status == FORGE_E_SPREAD)
		is_permitted = now - t->done_ns >= PATIENCE_NS;
	else if (status == FORGE_E_NODE)
		is_permitted = now - t->begun_ns >= PATIENCE_NS || now - PATIENCE_NS >= t->first_ns;
	else {
		t->done_ns = t->begun_ns;
		return 0;
	}
	atomic_fetch_add_explicit(&t->shared->late, 1, memory_order_relaxed);
	return is_permitted ? 1 : -1;
}

/* The reason is missing. */
static int fail_early(struct thread *t, const char *what, int status)
{
	snprintf(t->failure, sizeof(t->failure),
		 "thread %u: %s: status %d after %.1f ms, %.1f ms after the last one that was done "
		 "had begun",
		 t->index, what, status, (double)(now_ns() - t->begun_ns) / 1e6,
		 (double)(now_ns() - t->done_ns) / 1e6);
	return -1;
}

static int get(struct thread *t, struct session *s, uint32_t writer, uint32_t n)
{
	struct known *k = &t->shared->known[writer][n];
	uint32_t *seen = &t->seen[writer][n];
	uint32_t least = (uint32_t)max_u64(atomic_load(&k->least), *seen), version;
	struct cache_value v;
	char text[32];

	begin(t);
	int status = session_get(s, key_of(text, sizeof(text), writer, n), &v);
	int is_given_up = given_up(t, status);

	if (is_given_up)
		return is_given_up < 0 ? fail_early(t, "Get", status) : 0;
	if (status == FORGE_MISS)
		return 0;
	if (status || v.bytes != sizeof(version))
		return fail_thread(t, "Get", writer, n, status);
	memcpy(&version, v.data, sizeof(version));
	atomic_fetch_add_explicit(&t->shared->hits, 1, memory_order_relaxed);
	if (version < least || version > atomic_load(&k->begun)) {
		snprintf(t->failure, sizeof(t->failure),
			 "thread %u, key %u.%u: version %u, at least %u expected, at most %u",
			 t->index, writer, n, version, least, atomic_load(&k->begun));
		return -1;
	}
	*seen = version;
	return 0;
}

static int change(struct thread *t, struct session *s, uint32_t n, int is_delete)
{
	uint32_t writer = (uint32_t)t->writer;
	struct known *k = &t->shared->known[writer][n];
	uint32_t version = atomic_load(&k->begun) + 1;
	char text[32];
	struct cache_key key = key_of(text, sizeof(text), writer, n);

	atomic_store(&k->begun, version);
	begin(t);
	int status =
	    is_delete
		? session_delete(s, key)
		: session_set(s, key,
			      &(struct cache_item){.value = &version, .bytes = sizeof(version)});

	int is_given_up = given_up(t, status);

	if (is_given_up)
		return is_given_up < 0 ? fail_early(t, is_delete ? "Delete" : "Set", status) : 0;
	if (status && !(is_delete && status == FORGE_MISS))
		return fail_thread(t, is_delete ? "Delete" : "Set", writer, n, status);
	atomic_store(&k->least, version + (is_delete != 0));
	return 0;
}

static void *work(void *argument)
{
	struct thread *t = argument;
	struct shared *shared = t->shared;
	struct session *s;
	struct prng prng;
	int status = 0;

	prng_seed(&prng, t->index);
	t->done_ns = now_ns();
	if (session_open(shared->client[t->index % CLIENTS], &s, t->failure, sizeof(t->failure)))
		return NULL;
	while (!status && !atomic_load(&shared->stopping)) {
		uint64_t draw = prng_u64(&prng);
		uint32_t n = (uint32_t)(draw >> 8) % KEYS;

		if (t->writer >= 0 && draw % 8 < 4)
			status = change(t, s, n, draw % 8 == 0);
		else
			status = get(t, s, (uint32_t)(draw >> 32) % (CLIENTS * WRITERS), n);
		atomic_fetch_add_explicit(&shared->operations, 1, memory_order_relaxed);
	}
	session_close(s);
	return NULL;
}

/* Up to 3 ms, in which threads go on with what the step before has left. */
static void nap(void *prng)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)(prng_u64(prng) % 3000000)}, NULL);
}

/* Who leaves may be sought by the map of before until that change is over. */
static void change_to(struct shared *s, struct respread *r, unsigned *before)
{
	for (unsigned i = 0; i < NODES; i++)
		if ((r->which & ~*before) >> i & 1)
			atomic_store(&s->came_ns[i], now_ns());
		else if (!((r->which | *before) >> i & 1))
			atomic_store(&s->came_ns[i], UINT64_MAX); /* it has left before */
	*before = r->which;
	respread(r);
}

/* Every fourth change is cut off, and followed by one that ends it. */
static void change_members(struct shared *s)
{
	struct prng prng;
	unsigned before = 3;

	prng_seed(&prng, 7);
	for (uint64_t i = 0; i < changes_wanted; i++) {
		struct respread r = {.names = s->pools.names,
				     .count = NODES,
				     .which = 1 + (unsigned)(prng_u64(&prng) % ((1 << NODES) - 1)),
				     .pause = nap,
				     .context = &prng};

		if (i % 4 == 3) {
			r.is_cut_off = 1;
			change_to(s, &r, &before);
			nap(&prng);
			r.is_cut_off = 0;
			r.is_forced = 1;
			r.which = 1 + (unsigned)(prng_u64(&prng) % ((1 << NODES) - 1));
		}
		change_to(s, &r, &before);
		for (unsigned n = 0; n < 5; n++)
			nap(&prng);
	}
}

static void open_all(struct shared *s, struct thread *threads)
{
	struct client_options options = {.session_count = WRITERS + READERS, .seed = 3};
	char error[512], list[POOLS_LIST_BYTES];

	pools_make_alike(
	    &s->pools, NODES,
	    &(struct plan_wish){
		.pool_bytes = 8u << 20, .object_bytes = 40, .cn_max = 16, .policy = "forge"});
	/* Of the first two alone: how to reach the others they learn from the record. */
	pools_list(&s->pools, 3, list);
	for (unsigned i = 0; i < NODES; i++)
		atomic_store(&s->came_ns[i], UINT64_MAX);
	for (unsigned i = 0; i < CLIENTS; i++)
		if (client_open(list, &options, &s->client[i], error, sizeof(error)))
			fail_msg("%s", error);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){.shared = s, .index = i, .writer = -1};
		if (i < CLIENTS * WRITERS)
			threads[i].writer = (int)i;
	}
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i].thread, NULL, work, &threads[i]), 0);
}

static void test_changes(void **state)
{
	static struct shared s;
	static struct thread threads[THREADS];
	int failed = 0;

	open_all(&s, threads);
	change_members(&s);
	atomic_store(&s.stopping, 1);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i].thread, NULL);
		failed |= threads[i].failure[0];
		if (threads[i].failure[0])
			print_error("%s\n", threads[i].failure);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		uint64_t lost, back;

		client_losses(s.client[i], &lost, &back);
		assert_int_equal(lost, 0);
		client_close(s.client[i]);
	}
	print_message("%llu operations, %llu hits, %llu too late, %llu changes of the members\n",
		      (unsigned long long)s.operations, (unsigned long long)s.hits,
		      (unsigned long long)s.late, (unsigned long long)changes_wanted);
	pools_end(&s.pools);
	assert_int_equal(failed, 0);
	assert_true(s.hits > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_changes),
	};

	if (argc > 1 && (parse_u64(argv[1], &changes_wanted) || changes_wanted == 0)) {
		fprintf(stderr, "usage: %s [CHANGES]\n", argv[0]);
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
