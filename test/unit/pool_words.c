/*
 * pool_words.c: what of the pool is believed and what is not: objects, TWIMs, index, registry.
 *
 * Objects are built, moved and damaged: every changed bit, every cut and every claim of another
 * length must be refused, except bits of the padding.  TWIM entries of random bytes must never
 * yield a member outside the chunk or the index.  Homes must spread over all buckets, and a word
 * must come apart into what it was made of.  The registry must hand out each line once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "fabric/loop.h"
#include "pool/index.h"
#include "pool/object.h"
#include "pool/registry.h"
#include "pool/twim.h"

static struct prng prng;

static int setup(void **state)
{
	prng_seed(&prng, 9);
	return 0;
}

static uint32_t build(uint8_t *out, uint32_t key_bytes, uint32_t value_bytes,
		      struct object_place place)
{
	static uint8_t bytes[1 << 20];
	struct object_spec spec = {
	    .key = bytes,
	    .value = bytes + 300,
	    .key_bytes = key_bytes,
	    .value_bytes = value_bytes,
	    .flags = 0xdeadbeef,
	    .flush_generation = 3,
	    .expiry_ms = 4,
	    .cas_id = 5,
	};

	for (uint32_t i = 0; i < 300 + value_bytes; i++)
		bytes[i] = (uint8_t)prng_u64(&prng);
	object_build(out, &spec, place);
	assert_memory_equal(object_key(out), bytes, key_bytes);
	assert_memory_equal(object_value(out), bytes + 300, value_bytes);
	assert_true(object_key_is(out, bytes, key_bytes));
	bytes[key_bytes - 1] ^= 1;
	assert_false(object_key_is(out, bytes, key_bytes));
	bytes[key_bytes - 1] ^= 1;
	assert_false(object_key_is(out, bytes, key_bytes - 1));
	return layout_object_units(key_bytes, value_bytes) * LAYOUT_UNIT_BYTES;
}

static void test_object_sizes(void **state)
{
	static const uint32_t values[] = {0,  1,  14,	 15,	16,    17,    63,
					  64, 65, 16138, 16139, 16140, 65000, 900000};
	uint8_t *object = malloc(1 << 20);

	assert_non_null(object);
	for (uint32_t key = 1; key <= LAYOUT_KEY_BYTES_MAX; key++)
		for (unsigned v = 0; v < (key % 50 ? 9 : ARRAY_COUNT(values)); v++) {
			uint32_t bytes = build(object, key, values[v], (struct object_place){7, 9});

			assert_int_equal(object_units(object) * LAYOUT_UNIT_BYTES, bytes);
			assert_int_equal(object_header(object)->generation, 7);
			assert_int_equal(object_header(object)->sn, 9);
			assert_int_equal(object_check(object, bytes, 1), OBJECT_VALID);
			assert_int_equal(object_check(object, bytes + 48, 1), OBJECT_VALID);
			assert_int_equal(object_check(object, bytes - 1, 1), OBJECT_SHORT);
			assert_int_equal(object_check(object, 48, 1), OBJECT_SHORT);
			assert_int_equal(object_check(object, 47, 1), OBJECT_SHORT);
			assert_int_equal(object_check(object, 0, 1), OBJECT_SHORT);
			object_rebind(object, (struct object_place){8, 10});
			assert_int_equal(object_check(object, bytes, 1), OBJECT_VALID);
			assert_int_equal(object_header(object)->generation, 8);
			assert_int_equal(object_header(object)->sn, 10);
		}
	free(object);
}

static void test_object_every_bit(void **state)
{
	uint8_t object[256];
	uint32_t key = 21, value = 77;
	uint32_t bytes = build(object, key, value, (struct object_place){1, 2});

	for (uint32_t bit = 0; bit < 8 * (48 + key + value); bit++) {
		object[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(object_check(object, bytes, 1), OBJECT_VALID);
		object[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(object_check(object, bytes, 1), OBJECT_VALID);
}

/* Whoever can compute a checksum can still not make a generation or SN that no word holds. */
static void test_object_forged(void **state)
{
	uint8_t object[256];
	uint32_t bytes = build(object, 21, 77, (struct object_place){1, 2});

	object_rebind(object, (struct object_place){LAYOUT_GENERATION_COUNT - 1, 511});
	assert_int_equal(object_check(object, bytes, 1), OBJECT_VALID);
	object_rebind(object, (struct object_place){LAYOUT_GENERATION_COUNT, 2});
	assert_int_equal(object_check(object, bytes, 1), OBJECT_INVALID);
	object_rebind(object, (struct object_place){1, LAYOUT_GROUP_OBJECTS_MAX});
	assert_int_equal(object_check(object, bytes, 1), OBJECT_INVALID);
}

/* Two versions of an object, mixed at every 8-byte word as a READ beside a WRITE may show. */
static void test_object_torn(void **state)
{
	uint8_t a[256], b[256], mixed[256];
	uint32_t bytes = build(a, 20, 100, (struct object_place){1, 2});

	build(b, 20, 100, (struct object_place){2, 2});
	for (uint32_t cut = 8; cut < 48 + 120; cut += 8) {
		memcpy(mixed, a, bytes);
		memcpy(mixed + cut, b + cut, bytes - cut);
		assert_int_equal(object_check(mixed, bytes, 1), OBJECT_INVALID);
		memcpy(mixed, a, bytes);
		memcpy(mixed + cut, b + cut, 8);
		if (memcmp(a + cut, b + cut, 8) == 0)
			continue; /* the same word in both */
		assert_int_equal(object_check(mixed, bytes, 1), OBJECT_INVALID);
	}
}

static void test_object_foreign_bytes(void **state)
{
	uint64_t words[64];

	memset(words, 0, sizeof(words));
	assert_int_not_equal(object_check(words, sizeof(words), 1), OBJECT_VALID);
	memset(words, 0xff, sizeof(words));
	assert_int_not_equal(object_check(words, sizeof(words), 1), OBJECT_VALID);
	for (int i = 0; i < 200000; i++) {
		for (unsigned k = 0; k < 64; k++)
			words[k] = prng_u64(&prng);
		struct layout_object *h = (struct layout_object *)words;

		/* Lengths that make sense and lengths that must not overflow. */
		if (i % 3)
			h->key_bytes = (uint16_t)prng_below(&prng, 260);
		if (i % 2)
			h->value_bytes = i % 4 ? (uint32_t)prng_below(&prng, 600)
					       : UINT32_MAX - (uint32_t)prng_below(&prng, 64);
		assert_int_not_equal(object_check(words, sizeof(words), 1), OBJECT_VALID);
	}
}

static struct plan make_plan(uint32_t group_objects, uint32_t slot_words)
{
	struct plan_wish wish = {.chunk_count = 16,
				 .group_objects = group_objects,
				 .slot_words = slot_words,
				 .object_bytes = 200};
	struct plan p;
	char error[256];

	assert_int_equal(plan_make(&wish, &p, error, sizeof(error)), 0);
	return p;
}

/* Damaged entries: no member leaves its chunk or the index, and lengths before it shift it. */
static void test_twim_damaged(void **state)
{
	static const uint32_t groups[] = {2, 64, 512};
	static uint64_t entries[512];
	static struct twim_member members[512];

	for (unsigned i = 0; i < 3000; i++) {
		struct plan p = make_plan(groups[i % 3], 1 + i % 2);
		uint32_t n = 1 + (uint32_t)prng_below(&prng, p.group_objects), usable = 0;
		uint32_t chunk = (uint32_t)prng_below(&prng, p.chunk_count);
		uint32_t generation = (uint32_t)prng_below(&prng, 16384);
		uint64_t at = plan_chunk_address(&p, chunk);

		for (uint32_t k = 0; k < n; k++) {
			uint64_t slot = prng_below(&prng, 2 * plan_slot_count(&p));

			entries[k] =
			    prng_below(&prng, 10)
				? twim_pack((uint32_t)prng_below(&prng, 24), k % 256, k % 16, slot)
				: prng_u64(&prng);
		}
		uint32_t said = twim_decode(&p, chunk, generation, entries, n, members);

		for (uint32_t sn = 0; sn < n; sn++) {
			const struct twim_member *m = &members[sn];
			uint64_t entry = entries[n - 1 - sn];

			assert_int_equal(m->sn, sn);
			if (m->units) {
				usable++;
				assert_int_equal(m->units, twim_units(entry));
				assert_true(m->address == at);
				assert_true(m->slot < plan_slot_count(&p));
				assert_true(at + m->units * 16 <= plan_twim_address(&p, chunk, n));
				assert_true(index_object_address(m->word) == at);
				assert_int_equal(index_generations_behind(&p, m->word, generation),
						 0);
				assert_int_equal(index_fingerprint(m->word),
						 twim_fingerprint(entry));
			}
			at += twim_units(entry) * 16;
		}
		assert_int_equal(said, usable);
	}
}

static void test_index(void **state)
{
	for (unsigned slot_words = 1; slot_words <= 2; slot_words++) {
		struct plan p = make_plan(64, slot_words);
		uint32_t range = slot_words == 1 ? 16384 : 1024;
		uint64_t seen[2] = {UINT64_MAX, 0};

		assert_int_equal(index_generation_range(&p), range);
		for (uint64_t i = 0; i < 200000; i++) {
			struct index_home home = index_locate(&p, &i, sizeof(i));
			uint32_t generation = (uint32_t)prng_below(&prng, 16384);
			struct index_target target = {
			    .fingerprint = home.fingerprint,
			    .units = 1 + (uint32_t)prng_below(&prng, 65535),
			    .generation = generation,
			    .version = (uint32_t)i,
			    .address = plan_chunk_address(&p, (uint32_t)i % 16) + 16 * (i % 50),
			};
			uint64_t word = index_word(&p, &target);
			uint32_t later = (uint32_t)prng_below(&prng, range);

			assert_true(home.bucket < p.bucket_count && home.fingerprint < 256);
			assert_true(plan_bucket_address(&p, home.bucket) + index_view_bytes(&p) <=
				    p.chunks_offset);
			seen[0] = min_u64(seen[0], home.bucket);
			seen[1] = max_u64(seen[1], home.bucket);
			assert_true(index_is_object(word));
			assert_true(index_object_address(word) == target.address);
			assert_int_equal(index_word_generation(&p, word), generation % range);
			assert_int_equal(index_word_version(&p, word),
					 slot_words == 1 ? 0 : i % 16);
			assert_int_equal(
			    index_generations_behind(&p, word, (generation + later) % 16384),
			    later);
			assert_true(index_blocks(word) == INDEX_BLOCKS_HEADER ||
				    index_object_bytes(word) >= target.units * 16);
		}
		assert_int_equal(seen[0], 0);
		assert_int_equal(seen[1], p.bucket_count - 1);
	}
}

static void test_registry(void **state)
{
	struct plan plan = make_plan(8, 1);
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct registry_member members[LAYOUT_CN_MAX + 1];
	struct worker w;
	struct fab *fab;
	struct pool pool;
	char error[256];

	assert_int_equal(loop_open(NULL, round_up_u64(plan.pool_bytes, 8), &fab), 0);
	worker_init(&w, fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&w, &plan, 1), 0);
	assert_int_equal(pool_open(&w, &pool, error, sizeof(error)), 0);
	for (uint32_t round = 1; round < 4; round++) {
		for (uint32_t i = 0; i < plan.cn_max; i++) {
			assert_int_equal(registry_join(&pool, &w, 77, lines, NULL, &members[i]), 0);
			assert_int_equal(members[i].cn, i);
			assert_int_equal(registry_state(members[i].id), REGISTRY_LIVE);
			assert_int_equal(registry_incarnation(members[i].id), round);
			assert_int_equal(registry_pid(members[i].id), 77);
		}
		assert_int_equal(registry_join(&pool, &w, 1, lines, NULL, &members[plan.cn_max]),
				 FORGE_E_FULL_REGISTRY);
		struct registry_news news = {{3, 4}, 5, 6, 7};

		assert_int_equal(registry_publish(&pool, &w, &members[0], &news), 0);
		assert_int_equal(registry_read(&pool, &w, FAB_CONTROL, lines), 0);
		assert_true(lines[0].id == members[0].id);
		assert_memory_equal(lines[0].flushed, &news, sizeof(news));
		assert_int_equal(lines[0].lease_us, 0);
		for (uint32_t i = 0; i < plan.cn_max; i++)
			assert_int_equal(registry_leave(&pool, &w, &members[i]), 0);
		/* A member that left cannot leave for its successor. */
		struct registry_member next;

		assert_int_equal(registry_join(&pool, &w, 78, lines, NULL, &next), 0);
		registry_leave(&pool, &w, &members[next.cn]);
		assert_int_equal(registry_read(&pool, &w, FAB_CONTROL, lines), 0);
		assert_int_equal(registry_state(lines[next.cn].id), REGISTRY_LIVE);
		assert_int_equal(registry_leave(&pool, &w, &next), 0);
		/* The next round counts on from here on every line. */
		for (uint32_t i = 1; i < plan.cn_max; i++)
			assert_int_equal(registry_incarnation(lines[i].id), round);
		uint64_t *id =
		    (uint64_t *)((uint8_t *)loop_base(fab) + plan_registry_address(&plan, next.cn));

		*id = registry_pack(REGISTRY_FREE, round, 0);
	}
	fab_close(fab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_object_sizes),
	    cmocka_unit_test(test_object_every_bit),
	    cmocka_unit_test(test_object_torn),
	    cmocka_unit_test(test_object_forged),
	    cmocka_unit_test(test_object_foreign_bytes),
	    cmocka_unit_test(test_twim_damaged),
	    cmocka_unit_test(test_index),
	    cmocka_unit_test(test_registry),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
