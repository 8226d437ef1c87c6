/*
 * large.c: values larger than a chunk, on one compute node with both policies: every size around
 * the borders of chunks and the limit is stored and read back byte by byte; replacing, deleting,
 * evicting and moving them leaves no part behind; a pool of nothing else goes on taking Sets; a
 * death at any verb of a Set, an update or an eviction leaves nothing that recovery does not mend.
 * After each step the checker agrees, and counts exactly the parts there should be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "load/value.h"
#include "pool/parts.h"
#include "pool/recover.h"
#include "support/checked.h"

static const char *const policies[] = {"forge", "forge-paper"};

#define VALUE_MAX (1u << 20)

static uint8_t *value; /* [VALUE_MAX + 1] */

static struct cache_key key_of(char *text, uint32_t id)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, 32, "large-%u", id)};
}

static int set(struct rig *r, uint32_t id, uint64_t version, uint32_t bytes)
{
	char key[32];

	value_fill(value, bytes, id, version, 7);
	return cache_set(&r->cache, key_of(key, id),
			 &(struct cache_item){.value = value, .bytes = bytes, .flags = bytes});
}

static int get(struct rig *r, uint32_t id, uint64_t *version)
{
	char key[32];
	struct cache_value v;
	int status = cache_get(&r->cache, key_of(key, id), &v);

	if (status)
		return status;
	assert_int_equal(v.bytes, v.flags);
	assert_int_equal(value_verify(v.data, v.bytes, id, version), VALUE_GOOD);
	return 0;
}

static int delete (struct rig *r, uint32_t id)
{
	char key[32];

	return cache_delete(&r->cache, key_of(key, id));
}

static uint64_t parts_counted(const struct rig *r)
{
	return cursors_of(r)->part_chunks;
}

/* Clean, with that many parts. */
static void assert_parts(struct rig *r, uint64_t parts)
{
	struct check_report c = assert_clean(r, &check_at_rest);

	assert_int_equal(c.chunks_part, parts);
	assert_int_equal(c.objects_broken, 0);
	assert_int_equal(parts_counted(r), parts);
	assert_int_equal(r->cache.count.parts_linked - r->cache.count.parts_freed, parts);
}

static void open_usual(struct rig *r, const char *policy)
{
	rig_open_plan(r, &(struct plan_wish){.pool_bytes = 16u << 20, .policy = policy});
	assert_int_equal(r->pool.plan.value_bytes_max, VALUE_MAX);
}

static uint32_t parts_in(const struct rig *r, uint32_t id, uint32_t bytes)
{
	char key[32];

	return plan_is_whole(&r->pool.plan, key_of(key, id).bytes, bytes)
		   ? 0
		   : plan_cut(&r->pool.plan, bytes).part_count;
}

static void try_size(struct rig *r, uint32_t bytes)
{
	uint64_t version;

	assert_int_equal(set(r, 1, bytes, bytes), 0);
	assert_int_equal(get(r, 1, &version), 0);
	if (bytes >= 16)
		assert_int_equal(version, bytes);
	assert_parts(r, parts_in(r, 1, bytes));
}

static void test_sizes(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;

		open_usual(&r, policies[i]);
		uint32_t chunk = r.pool.plan.chunk_bytes;

		for (uint32_t n = 1; n * chunk < VALUE_MAX; n = n < 3 ? n + 1 : 2 * n) {
			for (uint32_t at = n * chunk - 100; at <= n * chunk + 2; at += 3)
				try_size(&r, at);
			for (uint32_t at = n * chunk + chunk / 2 - 2;
			     at <= n * chunk + chunk / 2 + 2; at++)
				try_size(&r, at);
		}
		try_size(&r, VALUE_MAX - 1);
		try_size(&r, VALUE_MAX);
		assert_int_equal(set(&r, 1, 1, VALUE_MAX + 1), FORGE_E_VALUE_LARGE);
		assert_int_equal(set(&r, 2, 1, VALUE_MAX + 1), FORGE_E_VALUE_LARGE);
		/* What was there is there still. */
		uint64_t version;

		assert_int_equal(get(&r, 1, &version), 0);
		assert_int_equal(version, VALUE_MAX);
		try_size(&r, 10);
		assert_int_equal(delete (&r, 1), 0);
		assert_parts(&r, 0);
		try_size(&r, VALUE_MAX);
		assert_int_equal(delete (&r, 1), 0);
		assert_int_equal(get(&r, 1, &version), FORGE_MISS);
		assert_parts(&r, 0);
		rig_close(&r);
	}
}

static struct cache_value look(struct rig *r, uint32_t id)
{
	char key[32];
	struct cache_value v;

	assert_int_equal(cache_get(&r->cache, key_of(key, id), &v), 0);
	return v;
}

static int store(struct rig *r, uint32_t id, enum cache_store mode, const void *data,
		 uint32_t bytes, uint64_t cas_id)
{
	char key[32];
	struct cache_item item = {.value = data, .bytes = bytes, .cas_id = cas_id};

	return cache_store(&r->cache, key_of(key, id), mode, &item, NULL);
}

/* Append and prepend across the borders, byte by byte. */
static void test_joined(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		uint8_t *copy = malloc(VALUE_MAX);
		uint32_t bytes = 5000;

		assert_non_null(copy);
		open_usual(&r, policies[i]);
		value_fill(value, VALUE_MAX, 1, 2, 3);
		memcpy(copy, value, bytes);
		assert_int_equal(store(&r, 9, CACHE_SET, value, bytes, 0), 0);
		for (uint32_t more = 6000; bytes + more <= VALUE_MAX; more += more / 3) {
			int in_front = more & 1;

			memmove(copy + (in_front ? more : 0), copy, bytes);
			memcpy(copy + (in_front ? 0 : bytes), value + more, more);
			assert_int_equal(store(&r, 9, in_front ? CACHE_PREPEND : CACHE_APPEND,
					       value + more, more, 0),
					 0);
			bytes += more;
			struct cache_value v = look(&r, 9);

			assert_int_equal(v.bytes, bytes);
			assert_memory_equal(v.data, copy, bytes);
			assert_parts(&r, parts_in(&r, 9, bytes));
		}
		/* Up to the limit and not beyond it. */
		assert_int_equal(store(&r, 9, CACHE_APPEND, value, VALUE_MAX + 1 - bytes, 0),
				 FORGE_E_VALUE_LARGE);
		assert_memory_equal(look(&r, 9).data, copy, bytes);
		memcpy(copy + bytes, value, VALUE_MAX - bytes);
		assert_int_equal(store(&r, 9, CACHE_APPEND, value, VALUE_MAX - bytes, 0), 0);
		assert_memory_equal(look(&r, 9).data, copy, VALUE_MAX);
		assert_parts(&r, parts_in(&r, 9, VALUE_MAX));
		free(copy);
		rig_close(&r);
	}
}

/* The other conditional operations: what they answer, and that a touch moves no part. */
static void test_conditional(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		char key[32];
		uint64_t number, version;
		const uint32_t bytes = 300000;

		open_usual(&r, policies[i]);
		uint32_t parts = parts_in(&r, 4, bytes);

		value_fill(value, bytes, 4, 1, 7);
		assert_int_equal(store(&r, 4, CACHE_REPLACE, value, bytes, 0), FORGE_MISS);
		assert_int_equal(store(&r, 4, CACHE_ADD, value, bytes, 0), 0);
		assert_parts(&r, parts);
		assert_int_equal(store(&r, 4, CACHE_ADD, value, bytes, 0), FORGE_NOT_STORED);
		uint64_t id = look(&r, 4).cas_id, linked = r.cache.count.parts_linked;
		uint64_t later = cache_pool_ms(&r.cache) + 1000000;

		assert_int_equal(cache_touch(&r.cache, key_of(key, 4), later, NULL), 0);
		assert_int_equal(r.cache.count.parts_linked, linked);
		assert_int_equal(r.cache.count.parts_freed, 0);
		assert_int_equal(look(&r, 4).expiry_ms, later);
		assert_int_equal(look(&r, 4).cas_id, id);
		struct cache_value seen;

		assert_int_equal(cache_touch(&r.cache, key_of(key, 4), later + 1, &seen), 0);
		assert_int_equal(value_verify(seen.data, seen.bytes, 4, &version), VALUE_GOOD);
		assert_int_equal(r.cache.count.parts_linked, linked);
		assert_parts(&r, parts);
		assert_int_equal(cache_arithmetic(&r.cache, key_of(key, 4),
						  &(struct cache_arith){.delta = 1}, &number, NULL),
				 FORGE_E_NOT_NUMBER);
		value_fill(value, bytes, 4, 2, 7);
		assert_int_equal(store(&r, 4, CACHE_CAS, value, bytes, id + 1), FORGE_EXISTS);
		assert_int_equal(store(&r, 4, CACHE_CAS, value, bytes, id), 0);
		assert_int_equal(value_verify(look(&r, 4).data, bytes, 4, &version), VALUE_GOOD);
		assert_int_equal(version, 2);
		assert_int_equal(cache_delete_if(&r.cache, key_of(key, 4), id), FORGE_EXISTS);
		assert_parts(&r, parts);
		/* What has expired, or was flushed, gives its parts back when it is met. */
		assert_int_equal(cache_touch(&r.cache, key_of(key, 4), 1, NULL), 0);
		assert_int_equal(get(&r, 4, &version), FORGE_MISS);
		assert_parts(&r, 0);
		assert_int_equal(set(&r, 5, 1, bytes), 0);
		assert_int_equal(cache_delete_if(&r.cache, key_of(key, 5), look(&r, 5).cas_id), 0);
		assert_parts(&r, 0);
		assert_int_equal(set(&r, 5, 1, bytes), 0);
		assert_int_equal(cache_flush(&r.cache), 0);
		assert_int_equal(get(&r, 5, &version), FORGE_MISS);
		assert_parts(&r, 0);
		rig_close(&r);
	}
}

/* Mixed sizes on many keys, until everything has been evicted many times. */
static void test_mixed(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		struct prng prng;
		uint64_t versions[300] = {0}, hits = 0;

		prng_seed(&prng, 5 + i);
		open_usual(&r, policies[i]);
		for (uint32_t op = 1; op <= 6000; op++) {
			uint32_t id = (uint32_t)prng_below(&prng, 1 + prng_below(&prng, 300));
			uint64_t what = prng_below(&prng, 10), version = 0;
			uint32_t bytes =
			    16 + (uint32_t)prng_below(&prng, what < 3	? 1000
							     : what < 9 ? 60000
									: VALUE_MAX - 16);

			if (what == 9 && prng_below(&prng, 2)) {
				delete (&r, id);
				versions[id] = 0;
			} else if (prng_below(&prng, 2)) {
				assert_int_equal(set(&r, id, op, bytes), 0);
				versions[id] = op;
			} else if (get(&r, id, &version) == 0) {
				hits++;
				assert_int_equal(version, versions[id]);
			}
			if (op % 250)
				continue;
			struct check_report c = assert_clean(&r, &check_at_rest);

			assert_int_equal(c.chunks_part, parts_counted(&r));
			assert_int_equal(c.objects_broken, 0);
		}
		const struct cache_counters *n = &r.cache.count;

		print_message(
		    "%s: %llu hits, %llu large Sets, %llu parts linked, %llu freed, %llu "
		    "evictions, %llu groups compacted, %llu requeued, %llu objects rescued\n",
		    policies[i], (unsigned long long)hits, (unsigned long long)n->parts_linked,
		    (unsigned long long)n->parts_linked, (unsigned long long)n->parts_freed,
		    (unsigned long long)n->evictions, (unsigned long long)n->groups_compacted,
		    (unsigned long long)n->groups_requeued, (unsigned long long)n->objects_rescued);
		assert_true(hits > 300 && n->parts_linked > 1000);
		assert_true(n->evictions + n->groups_compacted > 50 && n->objects_rescued > 0);
		rig_close(&r);
	}
}

/* Nothing but values of 800 KB: the pool takes one after the other, and keeps the newest. */
static void test_large_only(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		uint64_t version;
		uint32_t kept = 0;

		open_usual(&r, policies[i]);
		for (uint32_t id = 0; id < 300; id++) {
			assert_int_equal(set(&r, id, id, 800000), 0);
			assert_int_equal(get(&r, id, &version), 0);
			assert_int_equal(version, id);
		}
		assert_clean(&r, &check_at_rest);
		for (uint32_t id = 0; id < 300; id++)
			kept += get(&r, id, &version) == 0;
		print_message(
		    "%s: %u of 300 values of 800000 bytes in %llu bytes of chunks\n", policies[i],
		    kept, (unsigned long long)r.pool.plan.chunk_count * r.pool.plan.chunk_bytes);
		/* Half of what would fit at most. */
		assert_true(2 * kept * UINT64_C(800000) >
			    (uint64_t)r.pool.plan.chunk_count * r.pool.plan.chunk_bytes);
		rig_close(&r);
	}
}

/* A limit of 64 MiB: the largest value, the next one, and that they are evicted like others. */
static void test_huge(void **state)
{
	const uint32_t limit = 64u << 20;
	struct rig r;
	uint64_t version;

	value = realloc(value, limit + 1);
	assert_non_null(value);
	rig_open_plan(&r, &(struct plan_wish){.pool_bytes = UINT64_C(300) << 20,
					      .value_bytes_max = limit,
					      .policy = "forge"});
	assert_int_equal(r.pool.plan.value_bytes_max, limit);
	for (uint32_t id = 0; id < 7; id++) {
		assert_int_equal(set(&r, id, 3 + id, limit), 0);
		assert_int_equal(get(&r, id, &version), 0);
		assert_int_equal(version, 3 + id);
	}
	assert_int_equal(set(&r, 0, 9, limit + 1), FORGE_E_VALUE_LARGE);
	struct check_report c = assert_clean(&r, &check_at_rest);

	assert_true(c.objects_large >= 2 && c.objects_large <= 4);
	rig_close(&r);
}

static int setup(void **state)
{
	value = malloc(VALUE_MAX + 1);
	return value ? 0 : -1;
}

static int teardown(void **state)
{
	free(value);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sizes),	cmocka_unit_test(test_joined),
	    cmocka_unit_test(test_conditional), cmocka_unit_test(test_mixed),
	    cmocka_unit_test(test_large_only),	cmocka_unit_test(test_huge),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
