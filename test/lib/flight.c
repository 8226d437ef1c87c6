/*
 * flight.c: many operations of one session at once, on memory, where each runs to its end in turn,
 * and on a slow fabric, where they overlap.
 *
 * Every answer is compared with what it must be; the small pools make fibers of one lane compete
 * for places, chunks and evictions; each pool is checked at the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rig.h"

static const char *const latencies[] = {NULL, "5us"};
#define BOTH(i) (unsigned i = 0; i < 2; i++)

#define MANY 500u

struct texts {
	char key[MANY][16], value[MANY][16];
};

static struct texts texts;
static struct forge_op ops[MANY];

static int make_texts(void **state)
{
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(texts.key[i], sizeof(texts.key[i]), "k%u", i);
		snprintf(texts.value[i], sizeof(texts.value[i]), "value %u", i);
	}
	return 0;
}

static struct forge_op op_on(enum forge_verb verb, unsigned i)
{
	return (struct forge_op){.verb = verb,
				 .key = forge_text(texts.key[i]),
				 .item.value = forge_text(texts.value[i]),
				 .user = (void *)(uintptr_t)i};
}

static void run_all(struct forge_session *s, enum forge_verb verb, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ops[i] = op_on(verb, i);
	OK(forge_run(s, ops, n));
	for (unsigned i = 0; i < n; i++)
		expect_ok(ops[i].status, texts.key[i]);
}

/* Poll until all n have come back; each once; check what it found. */
static void collect(struct forge_session *s, unsigned n, unsigned max, const char *expected)
{
	static uint8_t seen[MANY];
	unsigned count = 0;

	memset(seen, 0, sizeof(seen));
	while (count < n) {
		struct forge_op *done[MANY];

		assert_int_equal(forge_pending(s), n - count);
		int got = forge_poll(s, done, max, FORGE_WAIT_FOREVER);

		assert_in_range(got, 1, max);
		/* All of them at once: a value is there until the next poll. */
		for (int k = 0; k < got; k++) {
			unsigned i = (unsigned)(uintptr_t)done[k]->user;

			assert_ptr_equal(done[k], &ops[i]);
			assert_int_equal(seen[i]++, 0);
			expect_ok(done[k]->status, texts.key[i]);
			if (done[k]->verb == FORGE_GET)
				assert_true(value_is(&done[k]->found,
						     expected ? expected : texts.value[i]));
		}
		count += (unsigned)got;
	}
	assert_int_equal(forge_pending(s), 0);
}

static void submit_all(struct forge_session *s, enum forge_verb verb, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		ops[i] = op_on(verb, i);
	OK(forge_submit(s, ops, n));
}

static void test_submit(void **state)
{
	static const unsigned in_flight[] = {1, 3, 32, 1000};

	for
		BOTH(i)
		{
			for (unsigned k = 0; k < 4; k++) {
				struct lib_rig r;

				lib_rig_open(
				    &r, 256, latencies[i],
				    &(struct forge_options){.in_flight_max = in_flight[k]});
				submit_all(r.session, FORGE_SET, MANY);
				collect(r.session, MANY, MANY, NULL);
				submit_all(r.session, FORGE_GET, MANY);
				collect(r.session, MANY, 7, NULL);
				submit_all(r.session, FORGE_GET, 10);
				for (unsigned n = 10; n < MANY; n += 10) {
					collect(r.session, 10, 10, NULL);
					submit_all(r.session, FORGE_GET, 10);
				}
				collect(r.session, 10, 10, NULL);
				submit_all(r.session, FORGE_DELETE, MANY);
				collect(r.session, MANY, 100, NULL);
				lib_rig_close(&r);
			}
		}
}

/* Copies where the caller wants them; what does not fit says so. */
static void test_buffers(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			static char buffers[MANY][16];
			struct forge_op *done[MANY];

			lib_rig_open(&r, 64, latencies[i], NULL);
			run_all(r.session, FORGE_SET, 100);
			for (unsigned n = 0; n < 100; n++) {
				ops[n] = op_on(FORGE_GET, n);
				ops[n].buffer = buffers[n];
				ops[n].buffer_bytes = n % 2 ? 16 : 3;
			}
			OK(forge_submit(r.session, ops, 100));
			for (unsigned n = 0; n < 100;)
				n += (unsigned)forge_poll(r.session, done, 10, FORGE_WAIT_FOREVER);
			for (unsigned n = 0; n < 100; n++) {
				assert_int_equal(ops[n].found.bytes, strlen(texts.value[n]));
				assert_int_equal(ops[n].status, n % 2 ? 0 : FORGE_E_BUFFER_SMALL);
				assert_true(!(n % 2) || value_is(&ops[n].found, texts.value[n]));
				assert_ptr_equal(ops[n].found.data, n % 2 ? buffers[n] : NULL);
			}
			lib_rig_close(&r);
		}
}

static void test_run(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;

			lib_rig_open(&r, 256, latencies[i], NULL);
			run_all(r.session, FORGE_SET, MANY);
			run_all(r.session, FORGE_GET, MANY);
			/* All at once: each is valid until the next call. */
			for (unsigned n = 0; n < MANY; n++)
				assert_true(value_is(&ops[n].found, texts.value[n]));
			OK(forge_run(r.session, NULL, 0));
			lib_rig_close(&r);
		}
}

static void test_get_many(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_bytes keys[MANY];
			struct forge_value values[MANY];
			char long_key[300] = "";
			size_t hits = 99;

			lib_rig_open(&r, 256, latencies[i], NULL);
			run_all(r.session, FORGE_SET, MANY / 2);
			for (unsigned n = 0; n < MANY; n++)
				keys[n] = forge_text(texts.key[n]);
			OK(forge_get_many(r.session, keys, MANY, values, &hits));
			assert_int_equal(hits, MANY / 2);
			for (unsigned n = 0; n < MANY; n++)
				assert_true(n < MANY / 2 ? value_is(&values[n], texts.value[n])
							 : !values[n].data);
			OK(forge_get_many(r.session, keys, 1, values, NULL));
			OK(forge_get_many(r.session, NULL, 0, NULL, &hits));
			assert_int_equal(hits, 0);
			/* A key that cannot be hides none of the others. */
			keys[1] = forge_bytes(long_key, sizeof(long_key));
			assert_int_equal(forge_get_many(r.session, keys, 3, values, &hits),
					 FORGE_E_KEY_LONG);
			assert_int_equal(hits, 2);
			assert_null(values[1].data);
			assert_true(value_is(&values[2], texts.value[2]));
			lib_rig_close(&r);
		}
}

/* Of many adds of one key one stores; of many increments none is lost. */
static void test_one_key(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			unsigned stored = 0, again = 0;

			lib_rig_open(&r, 64, latencies[i], NULL);
			for (unsigned n = 0; n < 32; n++) {
				ops[n] = op_on(FORGE_ADD, n);
				ops[n].key = forge_text("counter");
				ops[n].item.value = forge_text("0");
			}
			OK(forge_run(r.session, ops, 32));
			for (unsigned n = 0; n < 32; n++) {
				stored += ops[n].status == 0;
				again += ops[n].status == FORGE_E_AGAIN;
				assert_true(ops[n].status == 0 ||
					    ops[n].status == FORGE_NOT_STORED ||
					    ops[n].status == FORGE_E_AGAIN);
			}
			assert_int_equal(stored, 1);
			assert_int_equal(again, 0);
			for (unsigned n = 0; n < 100; n++)
				ops[n] = (struct forge_op){
				    .verb = FORGE_INCR, .key = forge_text("counter"), .delta = 1};
			OK(forge_run(r.session, ops, 100));
			stored = 0;
			uint64_t largest = 0;

			for (unsigned n = 0; n < 100; n++) {
				assert_true(ops[n].status == 0 || ops[n].status == FORGE_E_AGAIN);
				stored += ops[n].status == 0;
				if (ops[n].status == 0 && ops[n].number > largest)
					largest = ops[n].number;
			}
			assert_int_equal(largest, stored);
			lib_rig_close(&r);
		}
}

/* Calls that wait go on beside what was submitted, and leave its values alone. */
static void test_calls_between(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op *done[MANY];
			unsigned count = 0, polls = 0;

			lib_rig_open(&r, 256, latencies[i],
				     &(struct forge_options){.in_flight_max = 8});
			run_all(r.session, FORGE_SET, MANY);
			submit_all(r.session, FORGE_GET, MANY);
			while (count < MANY) {
				int got = forge_poll(r.session, done, 5, 0);

				assert_in_range(got, 0, 5);
				OK(put_text(r.session, "between", "v"));
				assert_true(says(r.session, "between", "v"));
				OK(forge_delete(r.session, forge_text("between")));
				for (int k = 0; k < got; k++)
					assert_true(
					    value_is(&done[k]->found,
						     texts.value[(uintptr_t)done[k]->user]));
				count += (unsigned)got;
				polls++;
			}
			assert_true(polls >= MANY / 5);
			lib_rig_close(&r);
		}
}

static void test_poll(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op *done[4];

			lib_rig_open(&r, 64, latencies[i], NULL);
			/* Nothing is out: nobody waits. */
			assert_int_equal(forge_poll(r.session, done, 4, FORGE_WAIT_FOREVER), 0);
			submit_all(r.session, FORGE_SET, 3);
			assert_int_equal(forge_poll(r.session, done, 0, FORGE_WAIT_FOREVER), 0);
			assert_int_equal(forge_poll(r.session, NULL, 0, 0), 0);
			assert_int_equal(forge_pending(r.session), 3);
			collect(r.session, 3, 1, NULL);
			/* The wait ends, whether or not something is done. */
			submit_all(r.session, FORGE_GET, 3);
			int got = forge_poll(r.session, done, 4, 1);

			assert_in_range(got, 0, 3);
			while (got < 3)
				got += forge_poll(r.session, done, 4, 1000);
			assert_int_equal(forge_pending(r.session), 0);
			/* An answer that is an error is an answer. */
			ops[0] = (struct forge_op){.verb = FORGE_GET};
			OK(forge_submit(r.session, ops, 1));
			assert_int_equal(forge_poll(r.session, done, 4, FORGE_WAIT_FOREVER), 1);
			assert_int_equal(done[0]->status, FORGE_E_KEY_EMPTY);
			lib_rig_close(&r);
		}
}

/* What was submitted has happened when the session is closed. */
static void test_close_in_flight(void **state)
{
	for
		BOTH(i)
		{
			for (int polled = 0; polled < 2; polled++) {
				struct lib_rig r;
				struct forge_op *done[1];

				lib_rig_open(&r, 256, latencies[i], NULL);
				submit_all(r.session, FORGE_SET, MANY);
				if (polled)
					forge_poll(r.session, done, 1, FORGE_WAIT_FOREVER);
				forge_session_close(r.session);
				OK(forge_session_open(r.client, &r.session));
				for (unsigned n = 0; n < MANY; n++)
					assert_true(says(r.session, texts.key[n], texts.value[n]));
				lib_rig_close(&r);
			}
		}
}

/* An operation that is out is not taken a second time, nor is anything with it. */
static void test_submitted_twice(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op copy;

			lib_rig_open(&r, 256, latencies[i],
				     &(struct forge_options){.in_flight_max = 2});
			submit_all(r.session, FORGE_SET, 10);
			ops[11] = ops[10] = op_on(FORGE_SET, 10);
			assert_int_equal(forge_submit(r.session, ops + 9, 2), FORGE_E_INVAL);
			assert_non_null(strstr(forge_detail(), "forge_poll()"));
			assert_int_equal(forge_run(r.session, ops, 1), FORGE_E_INVAL);
			assert_int_equal(forge_pending(r.session), 10);
			OK(forge_run(r.session, ops + 10, 1));
			copy = ops[0];
			OK(forge_run(r.session, &copy, 1));
			/* Done, but not given back, is still out. */
			forge_poll(r.session, NULL, 0, 0);
			assert_int_equal(forge_submit(r.session, ops, 1), FORGE_E_INVAL);
			collect(r.session, 10, 3, NULL);
			OK(forge_submit(r.session, ops, 10));
			collect(r.session, 10, 10, NULL);
			/* A session that closes gives back what it never reported. */
			OK(forge_submit(r.session, ops, 10));
			forge_session_close(r.session);
			OK(forge_session_open(r.client, &r.session));
			OK(forge_submit(r.session, ops, 10));
			collect(r.session, 10, 10, NULL);
			lib_rig_close(&r);
		}
}

/* Sets and Gets by far more keys than fit: fibers compete for chunks and evictions of one lane. */
static void test_small_pool(void **state)
{
	for
		BOTH(i)
		{
			for (unsigned sessions = 1; sessions <= 2; sessions++) {
				struct lib_rig r;
				unsigned hits = 0, stored = 0;

				lib_rig_open(&r, 40, latencies[i],
					     &(struct forge_options){.sessions_max = sessions,
								     .in_flight_max = 64});
				for (unsigned round = 0; round < 20; round++) {
					for (unsigned n = 0; n < MANY; n++)
						ops[n] = op_on(
						    (n + round) % 3 ? FORGE_SET : FORGE_GET, n);
					OK(forge_run(r.session, ops, MANY));
					for (unsigned n = 0; n < MANY; n++) {
						if (ops[n].verb == FORGE_SET)
							expect_ok(ops[n].status, "set");
						stored += ops[n].verb == FORGE_SET;
						if (ops[n].verb == FORGE_SET || ops[n].status)
							continue;
						assert_true(
						    value_is(&ops[n].found, texts.value[n]));
						hits++;
					}
				}
				assert_true(hits > 100);
				print_message("%u sets, %u hits\n", stored, hits);
				lib_rig_close(&r);
			}
		}
}

#define LARGE_BYTES 6000u /* several chunks */

static void fill_large(char *value, unsigned i)
{
	memset(value, 'a' + (int)(i % 26), LARGE_BYTES);
	memcpy(value, &i, sizeof(i));
}

/*
 * Values larger than a chunk beside small ones, in pools with room and without.  How much hits
 * where there is none depends on who is faster.
 */
static void test_large_values(void **state)
{
	static char large[40][LARGE_BYTES], expected[LARGE_BYTES];

	for
		BOTH(i)
		{
			for (unsigned chunks = 96; chunks <= 1000; chunks += 904) {
				struct lib_rig r;
				struct forge_limits limits;
				unsigned hits = 0, no_space = 0;

				lib_rig_open(&r, chunks, latencies[i],
					     &(struct forge_options){.in_flight_max = 16});
				OK(forge_get_limits(r.client, &limits));
				assert_true(limits.value_bytes >= LARGE_BYTES);
				for (unsigned round = 0; round < 6; round++) {
					for (unsigned n = 0; n < MANY; n++) {
						int is_set = (n + round) % 2;

						ops[n] = op_on(is_set ? FORGE_SET : FORGE_GET, n);
						if (n >= 40)
							continue;
						fill_large(large[n], n);
						ops[n].item.value =
						    forge_bytes(large[n], LARGE_BYTES);
					}
					OK(forge_run(r.session, ops, MANY));
					for (unsigned n = 0; n < MANY; n++) {
						no_space += ops[n].status == FORGE_E_NO_SPACE;
						assert_true(ops[n].status >= 0 ||
							    ops[n].status == FORGE_E_NO_SPACE);
						if (ops[n].verb == FORGE_SET || ops[n].status)
							continue;
						hits++;
						fill_large(expected, n);
						assert_true(
						    n < 40
							? ops[n].found.bytes == LARGE_BYTES &&
							      memcmp(ops[n].found.data, expected,
								     LARGE_BYTES) == 0
							: value_is(&ops[n].found, texts.value[n]));
					}
				}
				print_message("%u chunks: %u hits, %u found no space\n", chunks,
					      hits, no_space);
				assert_true(hits > (chunks > 500 ? 1000u : 0u));
				assert_true(chunks < 500 || no_space == 0);
				lib_rig_close(&r);
			}
		}
}

static void test_deadline(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;
			struct forge_op *done[MANY];
			unsigned late = 0;

			lib_rig_open(&r, 64, i ? "5ms" : NULL,
				     &(struct forge_options){.in_flight_max = 2});
			run_all(r.session, FORGE_SET, 10);
			for (unsigned n = 0; n < 10; n++) {
				ops[n] = op_on(FORGE_SET, n);
				ops[n].item.value = forge_text("late");
				ops[n].timeout_us = 1;
			}
			OK(forge_submit(r.session, ops, 10));
			struct timespec ms = {.tv_nsec = 1000000};

			nanosleep(&ms, NULL);
			for (unsigned n = 0; n < 10;)
				n += (unsigned)forge_poll(r.session, done, 10, FORGE_WAIT_FOREVER);
			for (unsigned n = 0; n < 10; n++) {
				assert_int_equal(ops[n].status, FORGE_E_DEADLINE);
				late += says(r.session, texts.key[n], "late");
			}
			assert_int_equal(late, 0);
			lib_rig_close(&r);
		}
}

static void test_flush_in_flight(void **state)
{
	for
		BOTH(i)
		{
			struct lib_rig r;

			lib_rig_open(&r, 64, latencies[i], NULL);
			run_all(r.session, FORGE_SET, 20);
			for (unsigned n = 0; n < 20; n++)
				ops[n] = op_on(n == 10 ? FORGE_FLUSH : FORGE_GET, n);
			OK(forge_run(r.session, ops, 20));
			OK(ops[10].status);
			for (unsigned n = 0; n < 20; n++) {
				struct forge_value v;

				assert_true(n == 10 || ops[n].status == FORGE_MISS ||
					    value_is(&ops[n].found, texts.value[n]));
				assert_int_equal(forge_get(r.session, forge_text(texts.key[n]), &v),
						 FORGE_MISS);
			}
			lib_rig_close(&r);
		}
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Round trips of 5 ms: 16 Gets in turn take at least 160 ms, however fast the machine. */
static void test_overlap(void **state)
{
	struct lib_rig r;
	struct forge_bytes keys[16];
	struct forge_value values[16];
	uint64_t start, one_by_one, at_once = UINT64_MAX;

	lib_rig_open(&r, 64, "5ms", NULL);
	run_all(r.session, FORGE_SET, 16);
	start = now_ms();
	for (unsigned n = 0; n < 16; n++) {
		keys[n] = forge_text(texts.key[n]);
		assert_true(says(r.session, texts.key[n], texts.value[n]));
	}
	one_by_one = now_ms() - start;
	assert_true(one_by_one >= 160);
	/* The best of some, for a moment without the processor is no round trip. */
	for (unsigned try = 0; try < 5; try++) {
		start = now_ms();
		OK(forge_get_many(r.session, keys, 16, values, NULL));
		if (now_ms() - start < at_once)
			at_once = now_ms() - start;
	}
	assert_true(at_once >= 10);
	assert_true(at_once < one_by_one * 60 / 100);
	lib_rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_submit),
	    cmocka_unit_test(test_buffers),
	    cmocka_unit_test(test_run),
	    cmocka_unit_test(test_get_many),
	    cmocka_unit_test(test_one_key),
	    cmocka_unit_test(test_calls_between),
	    cmocka_unit_test(test_poll),
	    cmocka_unit_test(test_close_in_flight),
	    cmocka_unit_test(test_small_pool),
	    cmocka_unit_test(test_large_values),
	    cmocka_unit_test(test_deadline),
	    cmocka_unit_test(test_flush_in_flight),
	    cmocka_unit_test(test_submitted_twice),
	    cmocka_unit_test(test_overlap),
	};

	return cmocka_run_group_tests_name("operations in flight", tests, make_texts, NULL);
}
