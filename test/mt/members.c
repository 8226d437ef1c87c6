/*
 * members.c: threads of two clients while the members of their cache are changed under them, again
 * and again, at random: nodes that neither of them was opened with come, and others leave.
 *
 * Each key has one writer and readers of both clients.  A writer stores or deletes version after
 * version, and says before and after each what it does; a reader that finds a value holds it
 * against what had been acknowledged before it asked, and against what it found before.  So a value
 * that a new owner has replaced must never be found at the old one, whichever client goes by which
 * map, and whatever took the key back and forth.  No memory node is lost, so errors are only those
 * of a machine so busy that what an operation waits for takes more than a second; they are counted.
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
	_Atomic int stopping;
	_Atomic uint64_t operations, hits, late;
};

static int is_late(struct shared *s, int status)
{
	int is = status == FORGE_E_SPREAD || status == FORGE_E_NODE;

	atomic_fetch_add_explicit(&s->late, (uint64_t)is, memory_order_relaxed);
	return is;
}

struct thread {
	struct shared *shared;
	uint32_t index;
	int writer; /* whose keys it has; -1: a reader of all */
	pthread_t thread;
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

static int get(struct thread *t, struct session *s, uint32_t writer, uint32_t n)
{
	struct known *k = &t->shared->known[writer][n];
	uint32_t *seen = &t->seen[writer][n];
	uint32_t least = (uint32_t)max_u64(atomic_load(&k->least), *seen), version;
	struct cache_value v;
	char text[32];
	int status = session_get(s, key_of(text, sizeof(text), writer, n), &v);

	if (status == FORGE_MISS || is_late(t->shared, status))
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
	int status =
	    is_delete
		? session_delete(s, key)
		: session_set(s, key,
			      &(struct cache_item){.value = &version, .bytes = sizeof(version)});

	if (is_late(t->shared, status))
		return 0;
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

/* Every fourth change is cut off, and followed by one that ends it. */
static void change_members(struct shared *s)
{
	struct prng prng;

	prng_seed(&prng, 7);
	for (uint64_t i = 0; i < changes_wanted; i++) {
		struct respread r = {.names = s->pools.names,
				     .count = NODES,
				     .which = 1 + (unsigned)(prng_u64(&prng) % ((1 << NODES) - 1)),
				     .pause = nap,
				     .context = &prng};

		if (i % 4 == 3) {
			r.is_cut_off = 1;
			respread(&r);
			nap(&prng);
			r.is_cut_off = 0;
			r.is_forced = 1;
			r.which = 1 + (unsigned)(prng_u64(&prng) % ((1 << NODES) - 1));
		}
		respread(&r);
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
	const struct check_options at_rest = {0};
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
	pools_check(&s.pools, &at_rest, NULL);
	pools_forget(&s.pools);
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
