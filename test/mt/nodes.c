/*
 * nodes.c: threads of one client while memory nodes are lost and come back under them, again and
 * again, each with its memory (support/cut.h).
 *
 * Each thread has keys of its own and knows what it was told: after an acknowledged Set or Delete a
 * Get gives just that or, since values may be evicted or their node lost, nothing; after a refused
 * one, nothing, until the next is acknowledged.  So a value that a refused change was to replace
 * must never be seen again, whichever thread noticed the loss and whenever the node came back.
 *
 *	mt_nodes [LOSSES]	30 by default
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/parse.h"
#include "support/pools.h"

#define NODES	3u
#define THREADS 4u
#define KEYS	500u /* of a thread */

static uint64_t losses_wanted = 30;

struct shared {
	struct pools pools;
	struct client *client;
	_Atomic int stopping;
	_Atomic uint64_t operations, refused, hits;
};

struct thread {
	struct shared *shared;
	uint32_t index;
	pthread_t thread;
	uint32_t told[KEYS]; /* the version acknowledged last; 0: none may be seen */
	char failure[160];
};

static struct cache_key key_of(char *text, size_t bytes, const struct thread *t, uint32_t n)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, bytes, "%u.%u", t->index, n)};
}

static int fail_thread(struct thread *t, const char *what, uint32_t n, int status, uint32_t version)
{
	snprintf(t->failure, sizeof(t->failure),
		 "thread %u, key %u: %s: status %d, version %u, told %u", t->index, n, what, status,
		 version, t->told[n]);
	return -1;
}

static int get(struct thread *t, struct session *s, uint32_t n)
{
	char text[32];
	struct cache_value v;
	uint32_t version = 0;
	int status = session_get(s, key_of(text, sizeof(text), t, n), &v);

	if (status == FORGE_MISS || status == FORGE_E_NODE)
		return 0;
	if (status || v.bytes != sizeof(version))
		return fail_thread(t, "Get", n, status, 0);
	memcpy(&version, v.data, sizeof(version));
	atomic_fetch_add_explicit(&t->shared->hits, 1, memory_order_relaxed);
	return version == t->told[n] ? 0 : fail_thread(t, "wrong value", n, status, version);
}

/* A Set of that version, or a Delete for 0. */
static int change(struct thread *t, struct session *s, uint32_t n, uint32_t version)
{
	char text[32];
	struct cache_key key = key_of(text, sizeof(text), t, n);
	int status =
	    version ? session_set(s, key,
				  &(struct cache_item){.value = &version, .bytes = sizeof(version)})
		    : session_delete(s, key);

	if (status == FORGE_E_NODE)
		atomic_fetch_add_explicit(&t->shared->refused, 1, memory_order_relaxed);
	else if (status && !(status == FORGE_MISS && !version))
		return fail_thread(t, version ? "Set" : "Delete", n, status, version);
	t->told[n] = status ? 0 : version;
	return 0;
}

static void *work(void *argument)
{
	struct thread *t = argument;
	struct session *s;
	struct prng prng;

	prng_seed(&prng, t->index);
	if (session_open(t->shared->client, &s, t->failure, sizeof(t->failure)))
		return NULL;
	for (uint32_t i = 1; !atomic_load(&t->shared->stopping); i++) {
		uint64_t draw = prng_u64(&prng);
		uint32_t n = (uint32_t)(draw >> 8) % KEYS;
		int status = 0;

		if (draw % 8 < 5)
			status = get(t, s, n);
		else
			status = change(t, s, n, draw % 8 == 5 ? 0 : i);
		if (!status && i % 1024 == 0)
			session_tend(s);
		atomic_fetch_add_explicit(&t->shared->operations, 1, memory_order_relaxed);
		if (status)
			break;
	}
	session_close(s);
	return NULL;
}

static void nap(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Cut one node after the other; each is back before the next is cut, or not. */
static int cut_and_join(struct shared *s)
{
	uint64_t lost = 0, back = 0;
	struct prng prng;

	prng_seed(&prng, 99);
	/* Some are cut again before anybody noticed, or while they are lost. */
	for (uint64_t i = 0; lost < losses_wanted && i < 100 * losses_wanted; i++) {
		struct cut *cut = &s->pools.cuts.cut[prng_u64(&prng) % NODES];

		cut_down(cut);
		nap((long)(prng_u64(&prng) % 20000));
		cut_up(cut);
		nap((long)(prng_u64(&prng) % 20000));
		client_losses(s->client, &lost, &back);
	}
	/* All come back in the end: in 60 s. */
	for (unsigned i = 0; i < 60000; i++) {
		client_losses(s->client, &lost, &back);
		if (lost == back && lost >= losses_wanted)
			return 0;
		nap(1000);
	}
	print_error("%llu losses, %llu returns\n", (unsigned long long)lost,
		    (unsigned long long)back);
	return -1;
}

static void test_losses(void **state)
{
	/* Attachments that were lost did not leave. */
	const struct check_options crashed = {.crashed = 1};
	static struct shared s;
	static struct thread threads[THREADS];
	char error[512];

	pools_make_alike(
	    &s.pools, NODES,
	    &(struct plan_wish){
		.pool_bytes = 8u << 20, .object_bytes = 40, .cn_max = 16, .policy = "forge"});
	struct client_options options = pools_options(&s.pools);

	options.session_count = THREADS;
	options.seed = 3;
	if (client_open(s.pools.list, &options, &s.client, error, sizeof(error)))
		fail_msg("%s", error);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i] = (struct thread){.shared = &s, .index = i};
		assert_int_equal(pthread_create(&threads[i].thread, NULL, work, &threads[i]), 0);
	}
	int status = cut_and_join(&s);

	atomic_store(&s.stopping, 1);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		if (threads[i].failure[0])
			print_error("%s\n", threads[i].failure);
	client_close(s.client);
	pools_check(&s.pools, &crashed, NULL);
	pools_forget(&s.pools);
	print_message("%llu operations, %llu hits, %llu refused changes\n",
		      (unsigned long long)s.operations, (unsigned long long)s.hits,
		      (unsigned long long)s.refused);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(threads[i].failure[0], 0);
	assert_int_equal(status, 0);
	assert_true(s.hits > 0 && s.refused > 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_losses),
	};

	if (argc > 1 && (parse_u64(argv[1], &losses_wanted) || losses_wanted == 0)) {
		fprintf(stderr, "usage: %s [LOSSES]\n", argv[0]);
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
