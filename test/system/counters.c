/*
 * counters.c: conditional operations from several processes on one pool, held to exact sums.
 *
 *	system_counters [ROUNDS]	of each process, 100,000 by default
 *
 * In a pool that evicts nothing: two processes that get and compare-and-swap one counter make it
 * exactly as large as they had successes; increments and decrements of four processes add up; add
 * and delete-if make a lock that only one holds.  In a pool that evicts and compacts all the time,
 * with counters that are also deleted: each counter has many lives; in each the answers are 1, 2,
 * 3 and so on, each given once, none after the answer it was deleted at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "client/client.h"
#include "made_pool.h"

#define PROCESSES_MAX 4u
#define LIVES_MAX     (1u << 20)

static uint64_t rounds = 100000;
static char pool_name[MADE_POOL_NAME_BYTES];

/* What all processes share. */
static struct shared {
	_Atomic uint64_t successes, refusals, misses;
	_Atomic uint32_t holder; /* of the lock: process + 1 */
	uint64_t plain;		 /* counted under the lock, without an atomic */
	_Atomic uint64_t lives;
	struct life {
		_Atomic uint64_t answers, last;
		_Atomic uint64_t deleted_at; /* count + 1 */
	} life[LIVES_MAX];
	char why[256];
} * shared;

struct process {
	struct session *session;
	struct prng prng;
	uint32_t number;
};

#define FAIL(...)                                                        \
	do {                                                             \
		snprintf(shared->why, sizeof(shared->why), __VA_ARGS__); \
		_exit(1);                                                \
	} while (0)

static struct cache_key key_of(uint32_t i, char text[16])
{
	return (struct cache_key){text, (uint32_t)snprintf(text, 16, "counter-%u", i)};
}

static uint64_t number_in(const struct cache_value *v)
{
	char text[32] = "";

	if (v->bytes == 0 || v->bytes > 20)
		FAIL("a counter of %u bytes", v->bytes);
	memcpy(text, v->data, v->bytes);
	return strtoull(text, NULL, 10);
}

typedef void (*life_fn)(struct process *);

/* Each of n processes attaches and does it.  They begin together. */
static void run(unsigned n, life_fn what)
{
	_Atomic uint32_t *begun =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child[PROCESSES_MAX];

	assert_true(begun != MAP_FAILED);
	for (uint32_t i = 0; i < n; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i])
			continue;
		struct process p = {.number = i};
		struct client_options options = {.seed = i};
		struct client *client;
		char error[512];

		prng_seed(&p.prng, i + 1);
		if (client_open(pool_name, &options, &client, error, sizeof(error)) ||
		    session_open(client, &p.session, error, sizeof(error)))
			FAIL("%.200s", error);
		atomic_fetch_add(begun, 1);
		while (atomic_load(begun) < n)
			usleep(100);
		what(&p);
		session_close(p.session);
		client_close(client);
		_exit(0);
	}
	for (unsigned i = 0; i < n; i++) {
		int status;

		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		if (status)
			fail_msg("process %u: status %x: %s", i, status, shared->why);
	}
	munmap(begun, 4096);
}

/* From this process, at the end. */
static uint64_t counter(uint32_t i)
{
	struct client_options options = {0};
	struct client *client;
	struct session *session;
	struct cache_value v;
	char error[512], text[16];

	assert_int_equal(client_open(pool_name, &options, &client, error, sizeof(error)), 0);
	assert_int_equal(session_open(client, &session, error, sizeof(error)), 0);
	assert_int_equal(session_get(session, key_of(i, text), &v), 0);
	uint64_t value = number_in(&v);

	session_close(session);
	client_close(client);
	return value;
}

static void begin_pool(uint32_t chunks, uint32_t group_objects)
{
	struct plan_wish wish = {.chunk_count = chunks,
				 .group_objects = group_objects,
				 .object_bytes = 32,
				 .slot_words = 1,
				 .cn_max = 8,
				 .policy = "forge"};

	memset(shared, 0, sizeof(*shared));
	made_pool_create(&wish, pool_name);
}

/* So many objects that a pool for `stores` of them frees nothing. */
static void begin_roomy_pool(uint64_t stores)
{
	begin_pool((uint32_t)(2 * stores / 64) + 512, 64);
}

/* ---- compare and swap ---------------------------------------------------------------------- */

static void get_and_swap(struct process *p)
{
	char text[16], number[24];
	struct cache_key key = key_of(0, text);
	struct cache_item item = {.value = "0", .bytes = 1};
	struct cache_value v;
	int status = session_store(p->session, key, CACHE_ADD, &item, NULL);

	if (status && status != FORGE_NOT_STORED)
		FAIL("add: %s", status_name(status));
	for (uint64_t i = 0; i < rounds; i++) {
		status = session_get(p->session, key, &v);
		if (status)
			FAIL("get: %s", status_name(status));
		item.value = number;
		item.bytes =
		    (uint32_t)snprintf(number, sizeof(number), "%" PRIu64, number_in(&v) + 1);
		item.cas_id = v.cas_id;
		status = session_store(p->session, key, CACHE_CAS, &item, NULL);
		if (status && status != FORGE_EXISTS)
			FAIL("cas: %s", status_name(status));
		atomic_fetch_add(status ? &shared->refusals : &shared->successes, 1);
	}
}

static void test_swaps_are_counted(void **state)
{
	begin_roomy_pool(2 * rounds);
	run(2, get_and_swap);
	print_message("%" PRIu64 " swaps, %" PRIu64 " refused\n", shared->successes,
		      shared->refusals);
	assert_int_equal(counter(0), shared->successes);
	assert_int_equal(shared->successes + shared->refusals, 2 * rounds);
	made_pool_unlink(pool_name);
}

/* ---- increments ---------------------------------------------------------------------------- */

#define COUNTERS 3u

static void count_up(struct process *p)
{
	char text[16];
	uint64_t value;

	for (uint64_t i = 0; i < rounds; i++) {
		/* Twice up and once down; never below what it began with. */
		struct cache_arith a = {.delta = i % 3 ? 2 : 1,
					.decrement = i % 3 == 0,
					.create = 1,
					.initial = UINT64_C(1) << 40};
		struct cache_key key = key_of((uint32_t)(i % COUNTERS), text);
		int status = session_arithmetic(p->session, key, &a, &value, NULL);

		if (status)
			FAIL("arithmetic: %s", status_name(status));
	}
}

static void test_increments_add_up(void **state)
{
	/* Whoever creates a counter does not count. */
	uint64_t each = (rounds + COUNTERS - 1) / COUNTERS * PROCESSES_MAX - 1;

	rounds -= rounds % COUNTERS;
	each = rounds / COUNTERS * PROCESSES_MAX - 1;
	begin_roomy_pool(PROCESSES_MAX * rounds);
	run(PROCESSES_MAX, count_up);
	/* Counter 0 is only decremented, the others by 2 up: i % 3 is the counter's number. */
	assert_int_equal(counter(0), (UINT64_C(1) << 40) - each);
	assert_int_equal(counter(1), (UINT64_C(1) << 40) + 2 * each);
	assert_int_equal(counter(2), (UINT64_C(1) << 40) + 2 * each);
	made_pool_unlink(pool_name);
}

/* ---- a lock -------------------------------------------------------------------------------- */

static void hold_the_lock(struct process *p)
{
	char text[16];
	struct cache_key key = key_of(0, text);
	struct cache_item item = {.value = &p->number, .bytes = sizeof(p->number)};
	uint32_t nobody = 0;
	uint64_t id;

	for (uint64_t held = 0; held < rounds / 10;) {
		int status = session_store(p->session, key, CACHE_ADD, &item, &id);

		if (status == FORGE_NOT_STORED || status == FORGE_E_AGAIN)
			continue;
		if (status)
			FAIL("add: %s", status_name(status));
		held++;
		nobody = 0;
		if (!atomic_compare_exchange_strong(&shared->holder, &nobody, p->number + 1))
			FAIL("%u took the lock while %u held it", p->number, nobody - 1);
		shared->plain++;
		atomic_store(&shared->holder, 0);
		status = session_delete_if(p->session, key, id);
		if (status)
			FAIL("delete-if: %s", status_name(status));
	}
}

static void test_add_is_a_lock(void **state)
{
	/* Whoever loses the two-phase insert has used up room as well. */
	begin_roomy_pool(PROCESSES_MAX * rounds);
	run(PROCESSES_MAX, hold_the_lock);
	assert_int_equal(shared->plain, PROCESSES_MAX * (rounds / 10));
	made_pool_unlink(pool_name);
}

/* ---- many lives ---------------------------------------------------------------------------- */

#define LIVING 24u /* counters */

static void note_answer(uint64_t value)
{
	struct life *life = &shared->life[value >> 32];
	uint64_t count = value & UINT32_MAX, last = atomic_load(&life->last);

	atomic_fetch_add(&life->answers, 1);
	while (last < count && !atomic_compare_exchange_weak(&life->last, &last, count))
		;
}

static void live_increment(struct process *p, struct cache_key key)
{
	uint64_t life = 1 + atomic_fetch_add(&shared->lives, 1), value;
	struct cache_arith a = {.delta = 1, .create = 1, .initial = life << 32};

	if (life >= LIVES_MAX)
		FAIL("too many lives");
	int status = session_arithmetic(p->session, key, &a, &value, NULL);

	if (status && status != FORGE_E_AGAIN)
		FAIL("arithmetic: %s", status_name(status));
	if (!status && value != life << 32)
		note_answer(value);
}

static void live_swap(struct process *p, struct cache_key key)
{
	char number[24];
	struct cache_value v;

	if (session_get(p->session, key, &v)) {
		atomic_fetch_add(&shared->misses, 1);
		return;
	}
	uint64_t next = number_in(&v) + 1;
	struct cache_item item = {
	    .value = number,
	    .bytes = (uint32_t)snprintf(number, sizeof(number), "%" PRIu64, next),
	    .cas_id = v.cas_id,
	};
	int status = session_store(p->session, key, CACHE_CAS, &item, NULL);

	if (status < 0 && status != FORGE_E_AGAIN)
		FAIL("cas: %s", status_name(status));
	if (!status)
		note_answer(next);
}

static void live_delete(struct process *p, struct cache_key key)
{
	struct cache_value v;

	if (session_get(p->session, key, &v))
		return;
	uint64_t value = number_in(&v);
	int status = session_delete_if(p->session, key, v.cas_id);

	if (status < 0 && status != FORGE_E_AGAIN)
		FAIL("delete-if: %s", status_name(status));
	if (status)
		return;
	if (atomic_exchange(&shared->life[value >> 32].deleted_at, (value & UINT32_MAX) + 1))
		FAIL("life %" PRIu64 " was deleted twice", value >> 32);
}

/* Sets of other keys, so that groups are evicted, and touches, which move values. */
static void live_crowd(struct process *p, struct cache_key key)
{
	char text[24];
	struct cache_item item = {.value = text, .bytes = sizeof(text)};
	struct cache_key other = {text, (uint32_t)snprintf(text, sizeof(text), "other-%u",
							   (unsigned)prng_below(&p->prng, 4000))};

	if (session_touch(p->session, key, 0, NULL) < 0 ||
	    session_store(p->session, other, CACHE_SET, &item, NULL) < 0)
		FAIL("touch or set");
}

static void live(struct process *p)
{
	char text[16];

	for (uint64_t i = 0; i < rounds; i++) {
		struct cache_key key = key_of((uint32_t)prng_below(&p->prng, LIVING), text);
		uint64_t dice = prng_below(&p->prng, 100);

		if (dice < 60)
			live_increment(p, key);
		else if (dice < 75)
			live_swap(p, key);
		else if (dice < 80)
			live_delete(p, key);
		else
			live_crowd(p, key);
	}
}

static void test_every_life_counts(void **state)
{
	uint64_t lived = 0, deleted = 0;

	begin_pool(40, 16);
	run(PROCESSES_MAX, live);
	for (uint64_t i = 1; i <= shared->lives; i++) {
		const struct life *life = &shared->life[i];

		/* As many answers as the last one says: none twice, none left out. */
		if (life->answers != life->last)
			fail_msg("life %" PRIu64 ": %" PRIu64 " answers up to %" PRIu64, i,
				 life->answers, life->last);
		if (life->deleted_at && life->deleted_at - 1 != life->last)
			fail_msg("life %" PRIu64 " was deleted at %" PRIu64
				 " and went on to %" PRIu64,
				 i, life->deleted_at - 1, life->last);
		lived += life->answers > 0;
		deleted += life->deleted_at != 0;
	}
	print_message("%" PRIu64 " lives, %" PRIu64 " of them deleted, the others evicted\n", lived,
		      deleted);
	assert_true(deleted > 100 && lived > deleted);
	made_pool_unlink(pool_name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_swaps_are_counted),
	    cmocka_unit_test(test_increments_add_up),
	    cmocka_unit_test(test_add_is_a_lock),
	    cmocka_unit_test(test_every_life_counts),
	};

	if (argc > 1 && parse_u64(argv[1], &rounds))
		return 2;
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
