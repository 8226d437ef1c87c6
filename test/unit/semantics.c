/*
 * semantics.c: the conditional operations of one compute node on the loop fabric: what each
 * answers and stores, that flags, marks and expiry are kept or replaced as promised, and that
 * lengths and numbers at and beyond their limits give their errors and change nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/rig.h"

static struct rig rig;
static const struct cache_key key = {"counter", 7};

static int store(enum cache_store mode, const char *text, uint64_t cas_id)
{
	struct cache_item item = {.value = text,
				  .bytes = (uint32_t)strlen(text),
				  .flags = 7,
				  .marks = 9,
				  .cas_id = cas_id};
	uint64_t id = 0;
	int status = cache_store(&rig.cache, key, mode, &item, &id);

	assert_int_equal(id != 0, status == 0);
	return status;
}

static struct cache_value get(void)
{
	struct cache_value v;

	assert_int_equal(cache_get(&rig.cache, key, &v), 0);
	return v;
}

static void expect(const char *text)
{
	struct cache_value v = get();

	assert_int_equal(v.bytes, strlen(text));
	assert_memory_equal(v.data, text, v.bytes);
}

static void expect_absent(void)
{
	struct cache_value v;

	assert_int_equal(cache_get(&rig.cache, key, &v), FORGE_MISS);
}

static void test_stores(void **state)
{
	uint64_t id, other;

	assert_int_equal(store(CACHE_REPLACE, "x", 0), FORGE_MISS);
	assert_int_equal(store(CACHE_CAS, "x", 1), FORGE_MISS);
	assert_int_equal(store(CACHE_APPEND, "x", 0), FORGE_MISS);
	assert_int_equal(store(CACHE_PREPEND, "x", 0), FORGE_MISS);
	expect_absent();
	assert_int_equal(store(CACHE_ADD, "one", 0), 0);
	expect("one");
	assert_int_equal(store(CACHE_ADD, "two", 0), FORGE_NOT_STORED);
	expect("one");
	id = get().cas_id;
	assert_true(id != 0);
	assert_int_equal(store(CACHE_REPLACE, "three", 0), 0);
	other = get().cas_id;
	assert_true(other != id);
	assert_int_equal(store(CACHE_CAS, "four", id), FORGE_EXISTS);
	assert_int_equal(store(CACHE_CAS, "four", 0), FORGE_EXISTS);
	expect("three");
	assert_int_equal(store(CACHE_CAS, "four", other), 0);
	expect("four");
	assert_int_equal(store(CACHE_APPEND, "teen", 0), 0);
	assert_int_equal(store(CACHE_PREPEND, "not ", 0), 0);
	expect("not fourteen");
	assert_int_equal(store(CACHE_APPEND, "", 0), 0);
	expect("not fourteen");
	assert_int_equal(store(CACHE_SET, "", 0), 0);
	assert_int_equal(store(CACHE_APPEND, "a", 0), 0);
	expect("a");
}

/* The id that a store gives is the one the next Get sees. */
static void test_cas_ids(void **state)
{
	static const enum cache_store modes[] = {CACHE_SET, CACHE_REPLACE, CACHE_APPEND,
						 CACHE_PREPEND, CACHE_CAS};
	struct cache_item item = {.value = "5", .bytes = 1};
	struct cache_arith one = {.delta = 1};
	uint64_t value, id = 0, last = 0;

	assert_int_equal(cache_store(&rig.cache, key, CACHE_ADD, &item, &last), 0);
	for (unsigned i = 0; i < ARRAY_COUNT(modes); i++) {
		item.cas_id = last;
		assert_int_equal(cache_store(&rig.cache, key, modes[i], &item, &id), 0);
		assert_true(id != last && id == get().cas_id);
		last = id;
	}
	assert_int_equal(cache_arithmetic(&rig.cache, key, &one, &value, &id), 0);
	assert_true(id != last && id == get().cas_id);
	assert_int_equal(cache_store(&rig.cache, key, CACHE_SET, &item, NULL), 0);
	assert_int_equal(cache_arithmetic(&rig.cache, key, &one, &value, NULL), 0);
}

static void test_what_stays(void **state)
{
	struct cache_item item = {
	    .value = "10", .bytes = 2, .flags = 1, .marks = 2, .expiry_ms = UINT64_MAX};
	struct cache_item other = {.value = "1", .bytes = 1, .flags = 3, .marks = 4};
	struct cache_arith down = {.delta = 1, .decrement = 1, .flags = 9, .expiry_ms = 1};
	struct cache_value v;
	uint64_t value, id;

	assert_int_equal(cache_store(&rig.cache, key, CACHE_ADD, &item, NULL), 0);
	assert_int_equal(cache_store(&rig.cache, key, CACHE_APPEND, &other, NULL), 0);
	assert_int_equal(cache_store(&rig.cache, key, CACHE_PREPEND, &other, NULL), 0);
	assert_int_equal(cache_arithmetic(&rig.cache, key, &down, &value, NULL), 0);
	assert_int_equal(value, 1100);
	v = get(); /* what is joined to it makes it another value, and only that */
	assert_true(v.flags == 1 && v.marks == 4 && v.expiry_ms == UINT64_MAX);
	id = v.cas_id;
	assert_int_equal(cache_touch(&rig.cache, key, UINT64_MAX - 1, &v), 0);
	assert_true(v.flags == 1 && v.marks == 4 && v.expiry_ms == UINT64_MAX - 1);
	assert_int_equal(v.bytes, 4);
	assert_memory_equal(v.data, "1100", 4);
	assert_true(v.cas_id == id);
	v = get();
	assert_true(v.expiry_ms == UINT64_MAX - 1 && v.cas_id == id);
	assert_int_equal(cache_touch(&rig.cache, key, 0, NULL), 0);
	assert_true(get().expiry_ms == 0);
	other.cas_id = id;
	assert_int_equal(cache_store(&rig.cache, key, CACHE_CAS, &other, NULL), 0);
	v = get();
	assert_true(v.flags == 3 && v.marks == 4);
}

static void test_touch_and_delete_of_nothing(void **state)
{
	struct cache_value v;
	uint64_t id;

	assert_int_equal(cache_touch(&rig.cache, key, 0, &v), FORGE_MISS);
	assert_int_equal(cache_delete_if(&rig.cache, key, 1), FORGE_MISS);
	assert_int_equal(store(CACHE_ADD, "one", 0), 0);
	id = get().cas_id;
	assert_int_equal(cache_delete_if(&rig.cache, key, id + 1), FORGE_EXISTS);
	expect("one");
	assert_int_equal(cache_delete_if(&rig.cache, key, id), 0);
	expect_absent();
	assert_int_equal(store(CACHE_ADD, "two", 0), 0);
	assert_int_equal(cache_delete_if(&rig.cache, key, id), FORGE_EXISTS);
}

static int count(const char *from, uint64_t delta, int decrement, const char *to)
{
	struct cache_arith a = {.delta = delta, .decrement = (uint8_t)decrement};
	uint64_t value;

	assert_int_equal(store(CACHE_SET, from, 0), 0);
	int status = cache_arithmetic(&rig.cache, key, &a, &value, NULL);

	expect(to);
	if (!status)
		assert_true(value == strtoull(to, NULL, 10));
	return status;
}

static void test_arithmetic(void **state)
{
	static const char *const wrong[] = {"",
					    "-5",
					    "+5",
					    "5 ",
					    " 5",
					    "0x10",
					    "1.0",
					    "5\n",
					    "18446744073709551616",
					    "x",
					    "/",
					    ":",
					    "000000000000000000001"};
	struct cache_arith create = {.delta = 5, .create = 1, .initial = 42, .flags = 6};
	uint64_t value = 77;

	assert_int_equal(
	    cache_arithmetic(&rig.cache, key, &(struct cache_arith){.delta = 1}, &value, NULL),
	    FORGE_MISS);
	assert_int_equal(value, 77);
	assert_int_equal(cache_arithmetic(&rig.cache, key, &create, &value, NULL), 0);
	assert_int_equal(value, 42);
	assert_int_equal(get().flags, 6);
	expect("42");
	assert_int_equal(cache_arithmetic(&rig.cache, key, &create, &value, NULL), 0);
	assert_int_equal(value, 47);
	assert_int_equal(count("0", 0, 0, "0"), 0);
	assert_int_equal(count("99", 1, 0, "100"), 0);
	assert_int_equal(count("100", 1, 1, "99"), 0);
	assert_int_equal(count("5", 7, 1, "0"), 0);
	assert_int_equal(count("007", 1, 0, "8"), 0);
	assert_int_equal(count("00000000000000000009", 1, 0, "10"), 0);
	assert_int_equal(count("18446744073709551615", 1, 0, "0"), 0);
	assert_int_equal(count("18446744073709551615", UINT64_MAX, 0, "18446744073709551614"), 0);
	assert_int_equal(count("18446744073709551615", UINT64_MAX, 1, "0"), 0);
	for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++)
		for (int down = 0; down < 2; down++)
			assert_int_equal(count(wrong[i], 1, down, wrong[i]), FORGE_E_NOT_NUMBER);
}

/* What append makes may be as large as a Set may be, and no larger; that is more than a chunk. */
static void test_lengths(void **state)
{
	static char big[1 << 20];
	uint32_t most = rig.pool.plan.value_bytes_max;
	struct cache_item item = {.value = big};

	memset(big, 'b', sizeof(big));
	for (uint32_t half = 0; half <= 32; half += 8) {
		item.bytes = most - 16 - half;
		assert_int_equal(cache_store(&rig.cache, key, CACHE_SET, &item, NULL), 0);
		item.bytes = 16 + half;
		assert_int_equal(cache_store(&rig.cache, key, CACHE_APPEND, &item, NULL), 0);
		assert_int_equal(get().bytes, most);
	}
	for (uint32_t over = 16; over < sizeof(big); over = 2 * over + 1)
		for (enum cache_store mode = CACHE_APPEND; mode <= CACHE_PREPEND; mode++) {
			item.bytes = over;
			assert_int_equal(cache_store(&rig.cache, key, mode, &item, NULL),
					 FORGE_E_VALUE_LARGE);
			assert_int_equal(get().bytes, most);
		}
	item.bytes = UINT32_MAX; /* no such bytes are there: nobody may touch them */
	assert_int_equal(cache_store(&rig.cache, key, CACHE_PREPEND, &item, NULL),
			 FORGE_E_VALUE_LARGE);
	assert_int_equal(cache_store(&rig.cache, key, CACHE_REPLACE, &item, NULL),
			 FORGE_E_VALUE_LARGE);
	assert_int_equal(get().bytes, most);
	assert_int_equal(
	    cache_store(&rig.cache, (struct cache_key){big, 0}, CACHE_ADD, &item, NULL),
	    FORGE_E_KEY_EMPTY);
	assert_int_equal(
	    cache_store(&rig.cache, (struct cache_key){big, 251}, CACHE_ADD, &item, NULL),
	    FORGE_E_KEY_LONG);
}

/* Far more keys than fit: what the operations say and what Gets find stays one story. */
static void test_evicting(void **state)
{
	static uint64_t latest[512];
	struct cache_arith one = {.delta = 1, .create = 1, .initial = 1};
	uint64_t misses = 0, value;
	char text[32];

	memset(latest, 0, sizeof(latest));
	for (uint32_t i = 0; i < 60000; i++) {
		uint32_t id = (uint32_t)prng_below(&rig.worker.prng, ARRAY_COUNT(latest));
		struct cache_key k = {text, (uint32_t)snprintf(text, sizeof(text), "n%u", id)};

		assert_int_equal(cache_arithmetic(&rig.cache, k, &one, &value, NULL), 0);
		if (value == latest[id] + 1) {
			latest[id] = value;
			continue;
		}
		assert_int_equal(value, 1); /* evicted, and created again */
		latest[id] = 1;
		misses++;
	}
	assert_true(misses > 1000 && misses < 59000);
	assert_true(rig.cache.count.evictions > 100);
	assert_int_equal(rig.cache.count.changes, 60000);
	assert_int_equal(rig.cache.count.changes_inserted + rig.cache.count.changes_updated, 60000);
}

/* The rig's clock, stopped. */
static struct {
	struct clock clock;
	uint64_t now_ns;
} stopped;

static uint64_t stopped_now(const struct clock *clock)
{
	return stopped.now_ns;
}

static void stop_clock(void)
{
	stopped.now_ns = clock_now_ns(rig.worker.clock);
	stopped.now_ns += 1000000 - stopped.now_ns % 1000000;
	stopped.clock = (struct clock){stopped_now};
	rig.worker.clock = &stopped.clock;
}

/* An object is there until the millisecond its expiry names, for every operation. */
static void test_expiry(void **state)
{
	struct cache_item item = {.value = "1", .bytes = 1};
	struct cache_arith one = {.delta = 1};
	struct cache_value v;
	uint64_t value;

	stop_clock();
	for (unsigned op = 0; op < 8; op++) {
		item.expiry_ms = cache_pool_ms(&rig.cache) + 5;
		assert_int_equal(cache_store(&rig.cache, key, CACHE_SET, &item, NULL), 0);
		stopped.now_ns += 4999999;
		assert_true(get().expiry_ms == item.expiry_ms);
		stopped.now_ns += 1;
		switch (op) {
		case 0:
			expect_absent();
			break;
		case 1:
			assert_int_equal(store(CACHE_REPLACE, "2", 0), FORGE_MISS);
			break;
		case 2:
			assert_int_equal(store(CACHE_ADD, "2", 0), 0);
			expect("2");
			break;
		case 3:
			assert_int_equal(store(CACHE_APPEND, "2", 0), FORGE_MISS);
			break;
		case 4:
			assert_int_equal(cache_arithmetic(&rig.cache, key, &one, &value, NULL),
					 FORGE_MISS);
			break;
		case 5:
			assert_int_equal(cache_touch(&rig.cache, key, 0, &v), FORGE_MISS);
			break;
		case 6:
			assert_int_equal(cache_delete(&rig.cache, key), FORGE_MISS);
			break;
		default:
			assert_int_equal(store(CACHE_SET, "3", 0), 0);
			stopped.now_ns += 5000000;
			expect("3");
		}
		if (op != 2 && op != 7)
			expect_absent();
	}
	/* Its slot is gone with it. */
	item.expiry_ms = 1;
	assert_int_equal(cache_store(&rig.cache, key, CACHE_SET, &item, NULL), 0);
	uint64_t removed = rig.cache.count.over_removed;

	expect_absent();
	assert_int_equal(rig.cache.count.over_removed, removed + 1);
	expect_absent();
	assert_int_equal(rig.cache.count.over_removed, removed + 1);
}

static void test_touch_prolongs(void **state)
{
	struct cache_item item = {.value = "1", .bytes = 1};

	stop_clock();
	item.expiry_ms = cache_pool_ms(&rig.cache) + 1000;
	assert_int_equal(cache_store(&rig.cache, key, CACHE_ADD, &item, NULL), 0);
	assert_int_equal(cache_touch(&rig.cache, key, item.expiry_ms + 1000, NULL), 0);
	stopped.now_ns += UINT64_C(1999000000);
	expect("1");
	assert_int_equal(cache_touch(&rig.cache, key, item.expiry_ms + 1000, NULL), 0);
	stopped.now_ns += UINT64_C(1000000);
	expect_absent();
}

/* Another node that has just looked goes on for a while; not after the flush has returned. */
static void test_flush(void **state)
{
	struct rig other;
	struct cache_value v;
	uint64_t start_ns = clock_now_ns(rig.worker.clock);

	rig_attach(&other, &rig, 2);
	for (uint32_t id = 0; id < 100; id++)
		assert_int_equal(rig_set(&rig, id, 1, 40), 0);
	assert_int_equal(store(CACHE_SET, "old", 0), 0);
	assert_int_equal(cache_get(&other.cache, key, &v), 0);
	assert_int_equal(cache_flush(&rig.cache), 0);
	assert_true(clock_now_ns(rig.worker.clock) - start_ns >= 2000000);
	assert_int_equal(cache_get(&other.cache, key, &v), FORGE_MISS);
	expect_absent();
	for (uint32_t id = 0; id < 100; id++) {
		uint32_t version;

		assert_int_equal(rig_get(id % 2 ? &rig : &other, id, &version), FORGE_MISS);
	}
	assert_int_equal(store(CACHE_ADD, "new", 0), 0);
	assert_int_equal(cache_get(&other.cache, key, &v), 0);
	assert_memory_equal(v.data, "new", 3);
	rig_close(&other);
}

/* What the wait is for: without it another node finds flushed values as long as its look holds. */
static void test_flush_waits(void **state)
{
	struct rig other;
	uint32_t version;

	rig_attach(&other, &rig, 2);
	stop_clock();
	other.worker.clock = &stopped.clock;
	assert_int_equal(rig_set(&rig, 1, 1, 40), 0);
	stopped.now_ns += UINT64_C(10000000);
	assert_int_equal(rig_get(&other, 1, &version), 0);
	rig.pool.rules_off = rule_bit(RULE_FLUSH_WAITS);
	assert_int_equal(cache_flush(&rig.cache), 0);
	/* A poll is due after 100 us, and the look is good for a millisecond anyway. */
	assert_int_equal(rig_get(&other, 1, &version), 0);
	stopped.now_ns += UINT64_C(1000) * CN_FLUSH_TRUST_US_DEFAULT;
	assert_int_equal(rig_get(&other, 1, &version), FORGE_MISS);
	rig_close(&other);
}

/* Whoever polls seldom, or whose fellow is at it and sleeps, looks at the flush word alone. */
static void test_flush_without_polls(void **state)
{
	struct rig other;
	uint32_t version;

	rig_attach(&other, &rig, 2);
	cn_poll_every(&other.cn, 100000000);
	assert_int_equal(rig_set(&rig, 1, 1, 40), 0);
	assert_int_equal(rig_get(&other, 1, &version), 0);
	uint64_t polls = other.cache.count.polls;

	assert_int_equal(cache_flush(&rig.cache), 0);
	assert_int_equal(rig_get(&other, 1, &version), FORGE_MISS);
	assert_int_equal(other.cache.count.polls, polls);
	cn_poll_every(&other.cn, 100);
	assert_int_equal(rig_set(&rig, 1, 2, 40), 0);
	assert_int_equal(rig_get(&other, 1, &version), 0);
	assert_false(atomic_flag_test_and_set(&other.cn.polling));
	assert_int_equal(cache_flush(&rig.cache), 0);
	assert_int_equal(rig_get(&other, 1, &version), FORGE_MISS);
	atomic_flag_clear(&other.cn.polling);
	rig_close(&other);
}

static int open_forge(void **state)
{
	rig_open(&rig, "forge", 32, 8);
	return 0;
}

static int open_paper(void **state)
{
	rig_open(&rig, "forge-paper", 32, 8);
	return 0;
}

static int close_rig(void **state)
{
	rig_close(&rig);
	return 0;
}

#define WITH_BOTH(test)                                               \
	cmocka_unit_test_setup_teardown(test, open_forge, close_rig), \
	    cmocka_unit_test_setup_teardown(test, open_paper, close_rig)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_BOTH(test_stores),	    WITH_BOTH(test_cas_ids),
	    WITH_BOTH(test_what_stays),	    WITH_BOTH(test_touch_and_delete_of_nothing),
	    WITH_BOTH(test_arithmetic),	    WITH_BOTH(test_lengths),
	    WITH_BOTH(test_evicting),	    WITH_BOTH(test_expiry),
	    WITH_BOTH(test_touch_prolongs), WITH_BOTH(test_flush),
	    WITH_BOTH(test_flush_waits),    WITH_BOTH(test_flush_without_polls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
