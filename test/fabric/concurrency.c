/*
 * concurrency.c: every provider keeps the promises of fabric.h that need company to break.
 *
 * Several threads, and for providers between processes several processes, each with a connection
 * of its own, hammer a few words; what must hold afterwards, or in every READ, follows from
 * fabric.h alone.  Each test is built so that losing the property shows as a wrong number: sums
 * that do not add up, words whose halves disagree, values that go backwards.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "under_test.h"

#define EXPORT_BYTES 8192u
#define PARTIES	     4
#define ROUNDS_MAX   20000u

/* Fewer where each verb is a round trip between threads. */
static uint64_t rounds_of(const struct under_test *u)
{
	return u->is_remote ? ROUNDS_MAX / 80 : ROUNDS_MAX;
}

/* One thread or process of a test. */
struct party {
	const struct under_test *u;
	void *world;
	unsigned index;
	uint64_t failures; /* what it saw that cannot be */
	struct fab *f;
	uint64_t *seen; /* store buffering: by round */
	atomic_uint *at_round;
};

static uint64_t run_one(struct fab *f, struct fab_op op)
{
	run_ops(f, &op, 1);
	if (op.status != FORGE_OK) {
		fprintf(stderr, "%s\n", status_sentence(op.status));
		abort();
	}
	return op.old;
}

static uint64_t peek(struct fab *f, uint64_t raddr)
{
	uint64_t word;

	run_one(f, fab_read(FAB_CONTROL, raddr, &word, 8));
	return word;
}

/*
 * Words 0 and 1 are sums that each party adds to, by FAA and by CAS with retry.  In word 2 each
 * party owns one byte, which it alone writes with 1-byte WRITEs and which must keep its value
 * while the neighbours change, and adds to a 32-bit half by FAA.
 */
static void *hammer(void *argument)
{
	struct party *p = argument;
	unsigned char mine = 0, got;

	p->f = p->u->connect(p->world);
	for (unsigned i = 0; i < rounds_of(p->u); i++) {
		uint64_t old = peek(p->f, 8), found;

		run_one(p->f, fab_faa(FAB_CONTROL, 0, p->index + 1));
		while ((found = run_one(p->f, fab_cas(FAB_CONTROL, 8, old, old + 1))) != old)
			old = found;
		run_one(p->f, fab_faa(FAB_CONTROL, 16, (uint64_t)1 << 32));
		mine++;
		run_one(p->f, fab_write(FAB_CONTROL, 16 + p->index, &mine, 1));
		run_one(p->f, fab_read(FAB_CONTROL, 16 + p->index, &got, 1));
		p->failures += got != mine;
	}
	fab_close(p->f);
	return NULL;
}

static void check_hammered(const struct under_test *u, void *world)
{
	struct fab *f = u->connect(world);
	uint64_t rounds = rounds_of(u);
	uint64_t bytes = (unsigned char)rounds * (uint64_t)0x01010101;

	assert_int_equal(peek(f, 0), rounds * PARTIES * (PARTIES + 1) / 2);
	assert_int_equal(peek(f, 8), rounds * PARTIES);
	assert_int_equal(peek(f, 16), (rounds * PARTIES << 32) + bytes);
	fab_close(f);
}

static uint64_t run_parties(const struct under_test *u, void *world, unsigned n,
			    void *(*const mains[])(void *), struct party *parties)
{
	pthread_t threads[PARTIES];
	uint64_t failures = 0;

	for (unsigned i = 0; i < n; i++) {
		parties[i].u = u;
		parties[i].world = world;
		parties[i].index = i;
		assert_int_equal(pthread_create(&threads[i], NULL, mains[i], &parties[i]), 0);
	}
	for (unsigned i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		failures += parties[i].failures;
	}
	return failures;
}

static void test_threads_hammer(void **state)
{
	void *(*const mains[PARTIES])(void *) = {hammer, hammer, hammer, hammer};
	const struct under_test *u = *state;
	struct party parties[PARTIES] = {0};
	void *world = u->open_world(EXPORT_BYTES);

	assert_non_null(world);
	assert_int_equal(run_parties(u, world, PARTIES, mains, parties), 0);
	check_hammered(u, world);
	u->close_world(world);
}

static void test_processes_hammer(void **state)
{
	const struct under_test *u = *state;
	void *world = u->open_world(EXPORT_BYTES);
	pid_t children[PARTIES];

	assert_non_null(world);
	for (unsigned i = 0; i < PARTIES; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			struct party p = {.u = u, .world = world, .index = i};

			hammer(&p);
			_exit(p.failures ? 1 : 0);
		}
	}
	for (unsigned i = 0; i < PARTIES; i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	check_hammered(u, world);
	u->close_world(world);
}

/* A block of words, and one that a WRITE covers from the middle of a word to another's. */
#define TORN_AT	   1024u
#define TORN_WORDS 24u

/*
 * Every word of the block always holds eight equal bytes, so a reader that sees two different
 * ones saw a torn word.  The parties write whole words, and alternate between all of the block
 * and ranges within it; the READs alternate between all of it and a range that cuts words.
 */
static void *tear(void *argument)
{
	struct party *p = argument;
	unsigned char block[TORN_WORDS * 8];
	struct prng prng;

	p->f = p->u->connect(p->world);
	prng_seed(&prng, p->index);
	for (unsigned i = 0; i < rounds_of(p->u); i++) {
		uint32_t from = (uint32_t)prng_below(&prng, TORN_WORDS) * 8;
		uint32_t bytes = (uint32_t)(1 + prng_below(&prng, TORN_WORDS - from / 8)) * 8;
		uint32_t cut = i % 2 ? 3 : 0;

		memset(block, (int)prng_below(&prng, 256), sizeof(block));
		run_one(p->f, fab_write(FAB_DATA, TORN_AT + from, block, bytes));
		run_one(p->f, fab_read(FAB_DATA, TORN_AT + cut, block + cut,
				       (uint32_t)sizeof(block) - 2 * cut));
		for (unsigned at = cut + 1; at < sizeof(block) - cut; at++)
			p->failures += at % 8 != 0 && block[at] != block[at - 1];
	}
	fab_close(p->f);
	return NULL;
}

static void test_words_are_never_torn(void **state)
{
	void *(*const mains[PARTIES])(void *) = {tear, tear, tear, tear};
	const struct under_test *u = *state;
	struct party parties[PARTIES] = {0};
	void *world = u->open_world(EXPORT_BYTES);

	assert_non_null(world);
	assert_int_equal(run_parties(u, world, PARTIES, mains, parties), 0);
	u->close_world(world);
}

/* The part of a word that an unaligned WRITE covers changes at once, too. */
static void *tear_parts(void *argument)
{
	struct party *p = argument;
	unsigned char part[6], word[8];

	p->f = p->u->connect(p->world);
	for (unsigned i = 0; i < rounds_of(p->u); i++) {
		memset(part, (int)(i * PARTIES + p->index) & 0xff, sizeof(part));
		run_one(p->f, fab_write(FAB_DATA, TORN_AT + 1, part, sizeof(part)));
		run_one(p->f, fab_read(FAB_DATA, TORN_AT, word, 8));
		for (unsigned at = 2; at < 7; at++)
			p->failures += word[at] != word[1];
		p->failures += word[0] != 0 || word[7] != 0;
	}
	fab_close(p->f);
	return NULL;
}

static void test_parts_of_words_are_never_torn(void **state)
{
	void *(*const mains[PARTIES])(void *) = {tear_parts, tear_parts, tear_parts, tear_parts};
	const struct under_test *u = *state;
	struct party parties[PARTIES] = {0};
	void *world = u->open_world(EXPORT_BYTES);

	assert_non_null(world);
	assert_int_equal(run_parties(u, world, PARTIES, mains, parties), 0);
	u->close_world(world);
}

/* Message passing: x is written before y, so who reads y first may not find x older. */
#define X_AT 2048u
#define Y_AT 4096u

static void *pass_messages(void *argument)
{
	struct party *p = argument;

	p->f = p->u->connect(p->world);
	for (uint64_t i = 1; i <= rounds_of(p->u); i++) {
		struct fab_op ops[2] = {fab_write(FAB_DATA, X_AT, &i, 8),
					fab_write(FAB_DATA, Y_AT, &i, 8)};

		run_ops(p->f, ops, 2);
	}
	fab_close(p->f);
	return NULL;
}

static void *receive_messages(void *argument)
{
	struct party *p = argument;
	uint64_t x = 0, y = 0, y_before = 0;

	p->f = p->u->connect(p->world);
	while (y < rounds_of(p->u)) {
		struct fab_op ops[2] = {fab_read(FAB_DATA, Y_AT, &y, 8),
					fab_read(FAB_DATA, X_AT, &x, 8)};

		run_ops(p->f, ops, 2);
		p->failures += x < y || y < y_before;
		y_before = y;
		sched_yield();
	}
	fab_close(p->f);
	return NULL;
}

static void test_message_passing(void **state)
{
	void *(*const mains[])(void *) = {pass_messages, receive_messages};
	const struct under_test *u = *state;
	struct party parties[2] = {0};
	void *world = u->open_world(EXPORT_BYTES);

	assert_non_null(world);
	assert_int_equal(run_parties(u, world, 2, mains, parties), 0);
	u->close_world(world);
}

/*
 * Store buffering: each of two parties writes its own word and then reads the other's.  Verbs
 * take effect in order, so in no round may both miss the other's WRITE.  The parties meet before
 * each round, since a round in which they do not overlap shows nothing.  In even rounds both ops
 * are one batch, in odd ones two posts.
 */
static void *buffer_stores(void *argument)
{
	struct party *p = argument;
	uint64_t mine = p->index ? Y_AT : X_AT, other = p->index ? X_AT : Y_AT;

	p->f = p->u->connect(p->world);
	for (uint64_t i = 1; i <= rounds_of(p->u); i++) {
		struct fab_op ops[2] = {fab_write(FAB_DATA, mine, &i, 8),
					fab_read(FAB_DATA, other, &p->seen[i], 8)};
		unsigned spins = 0;

		atomic_fetch_add(p->at_round, 1);
		while (atomic_load(p->at_round) < 2 * i)
			if (++spins % 1000 == 0)
				sched_yield();
		if (i % 2 == 0) {
			run_ops(p->f, ops, 2);
		} else {
			run_ops(p->f, &ops[0], 1);
			run_ops(p->f, &ops[1], 1);
		}
	}
	fab_close(p->f);
	return NULL;
}

static void test_store_buffering(void **state)
{
	void *(*const mains[])(void *) = {buffer_stores, buffer_stores};
	static uint64_t seen[2][ROUNDS_MAX + 1];
	const struct under_test *u = *state;
	void *world = u->open_world(EXPORT_BYTES);
	atomic_uint at_round = 0;
	struct party parties[2] = {
	    {.seen = seen[0], .at_round = &at_round},
	    {.seen = seen[1], .at_round = &at_round},
	};
	uint64_t both_missed = 0;

	assert_non_null(world);
	run_parties(u, world, 2, mains, parties);
	for (uint64_t i = 1; i <= rounds_of(u); i++)
		both_missed += seen[0][i] < i && seen[1][i] < i;
	assert_int_equal(both_missed, 0);
	u->close_world(world);
}

static const struct {
	const char *name;
	CMUnitTestFunction run;
	int forks; /* only for providers between processes */
} tests[] = {
    {"threads hammer", test_threads_hammer, 0},
    {"processes hammer", test_processes_hammer, 1},
    {"words are never torn", test_words_are_never_torn, 0},
    {"parts of words are never torn", test_parts_of_words_are_never_torn, 0},
    {"message passing", test_message_passing, 0},
    {"store buffering", test_store_buffering, 0},
};

int main(void)
{
	int failed = 0;

	for (unsigned p = 0; p < providers_under_test_count; p++) {
		struct CMUnitTest group[ARRAY_COUNT(tests)];
		unsigned n = 0;

		if (providers_under_test[p].alone)
			continue;
		for (unsigned i = 0; i < ARRAY_COUNT(tests); i++) {
			if (tests[i].forks && !providers_under_test[p].forks)
				continue;
			group[n++] = (struct CMUnitTest){
			    .name = tests[i].name,
			    .test_func = tests[i].run,
			    .initial_state = (void *)(uintptr_t)&providers_under_test[p],
			};
		}
		failed +=
		    _cmocka_run_group_tests(providers_under_test[p].name, group, n, NULL, NULL);
	}
	return failed ? 1 : 0;
}
