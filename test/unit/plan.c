/*
 * plan.c: every plan that can be made holds together, and no damaged one is believed.
 *
 * Plans are made over a grid of wishes, extremes included.  Each must keep its regions in order,
 * aligned and disjoint, and survive plan_valid(); each wish out of range must be refused with a
 * sentence.  Then every byte of a valid plan is changed in turn: whatever plan_valid() lets pass
 * must still be a plan whose every address lies inside its pool.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "base/status.h"
#include "layout/plan.h"

static char error[512];

static int make(const struct plan_wish *wish, struct plan *p)
{
	error[0] = '\0';
	return plan_make(wish, p, error, sizeof(error));
}

/* [from, from + bytes) lies behind *at; moves *at to its end. */
static void region(uint64_t *at, uint64_t from, uint64_t bytes, uint64_t align)
{
	assert_true(from >= *at);
	assert_true(from - *at < 64);
	assert_int_equal(from % align, 0);
	*at = from + bytes;
}

/* A value of any size is cut into parts that hold it, and its head fits in a chunk. */
static void check_cut(const struct plan *p, uint64_t bytes)
{
	struct plan_cut cut = plan_cut(p, bytes);
	uint64_t parts = (uint64_t)cut.part_count * p->chunk_bytes;

	assert_true(cut.part_count >= 1 && cut.part_count <= p->part_count_max);
	assert_true(cut.rest_bytes <= p->chunk_bytes / 2);
	if (cut.rest_bytes)
		assert_true(parts + cut.rest_bytes == bytes);
	else
		assert_true(parts >= bytes && parts - bytes < p->chunk_bytes);
	assert_true(plan_is_whole(p, LAYOUT_KEY_BYTES_MAX,
				  LAYOUT_PARTS_BYTES + LAYOUT_PART_BYTES * cut.part_count +
				      cut.rest_bytes));
}

static void check_parts(const struct plan *p)
{
	uint64_t bytes = p->value_bytes_max;

	assert_false(plan_is_whole(p, 16, bytes));
	assert_int_equal(plan_cut(p, bytes).part_count, p->part_count_max);
	for (uint64_t chunks = 1; chunks * p->chunk_bytes < bytes; chunks += 1 + chunks / 4)
		for (uint64_t i = 0; i < 5; i++)
			check_cut(p, min_u64(bytes, chunks * p->chunk_bytes - 2 + i));
	check_cut(p, bytes);
	/* The least value with the longest key that has parts. */
	check_cut(p,
		  plan_object_bytes_max(p) - LAYOUT_OBJECT_HEADER_BYTES - LAYOUT_KEY_BYTES_MAX + 1);
}

static void check_regions(const struct plan *p)
{
	uint64_t at = LAYOUT_SUPERBLOCK_BYTES;

	region(&at, p->cursors_offset, 64, 64);
	region(&at, p->ofm_offset[0], (uint64_t)p->ofm_rows * p->ofm_row_bytes, 8);
	region(&at, p->ofm_offset[1], (uint64_t)p->ofm_rows * p->ofm_row_bytes, 8);
	region(&at, p->registry_offset, 64 * (uint64_t)p->cn_max, 64);
	region(&at, p->stats_offset, 256 * (uint64_t)p->cn_max, 8);
	region(&at, p->chunk_table_offset, 8 * (uint64_t)p->chunk_count, 64);
	region(&at, p->dead_offset, 8 * (uint64_t)plan_dead_words(p) * p->chunk_count, 64);
	for (unsigned r = 0; r < RING_COUNT; r++)
		region(&at, p->ring_offset[r], 8 * (uint64_t)p->ring_nodes, 8);
	region(&at, p->index_offset, ((uint64_t)p->bucket_count + 1) * p->bucket_bytes, 64);
	region(&at, p->chunks_offset, (uint64_t)p->chunk_count * p->chunk_bytes, 64);
	assert_true(at + LAYOUT_PAD_BYTES == p->pool_bytes);
	assert_int_equal(p->ring_nodes & (p->ring_nodes - 1), 0);
	assert_true(p->ring_nodes >= 2 * (uint64_t)p->chunk_count);
	assert_int_equal(p->ofm_rows & (p->ofm_rows - 1), 0);
	assert_true(p->ofm_rows <= p->ring_nodes);
	assert_true(p->ofm_row_bytes >= p->group_objects && p->ofm_row_bytes % 8 == 0);
	assert_int_equal(p->chunk_bytes % 64, 0);
	/* The expected objects fit, and the largest value does. */
	assert_in_range(plan_expected_objects(p), 2, p->group_objects);
	assert_true((uint64_t)plan_expected_objects(p) *
			(layout_object_units(0, p->object_bytes) * 16ull + 8) <=
		    p->chunk_bytes);
	/* As many of the smallest as there may be fit, too. */
	assert_true((uint64_t)p->group_objects * (48 + 16 + 8) <= p->chunk_bytes);
	if (p->part_count_max == 0)
		assert_true(plan_is_whole(p, 16, p->value_bytes_max));
	else
		check_parts(p);
	assert_true(plan_slot_count(p) < TWIM_SLOT_DEAD);
}

static void check_addresses(const struct plan *p)
{
	for (int i = 0; i < 2; i++) {
		uint32_t chunk = i ? p->chunk_count - 1 : 0;
		uint64_t address = plan_chunk_address(p, chunk);

		assert_int_equal(plan_chunk_of_pointer(p, address / 16), chunk);
		assert_int_equal(plan_chunk_of_pointer(p, (address + p->chunk_bytes) / 16 - 1),
				 chunk);
	}
	assert_int_equal(plan_chunk_of_pointer(p, p->chunks_offset / 16 - 1), UINT32_MAX);
	assert_int_equal(plan_chunk_of_pointer(p, 0), UINT32_MAX);
	assert_int_equal(plan_chunk_of_pointer(p, plan_chunk_address(p, p->chunk_count - 1) / 16 +
						      p->chunk_bytes / 16),
			 UINT32_MAX);
	assert_int_equal(plan_chunk_of_pointer(p, (UINT64_C(1) << 34) - 1), UINT32_MAX);
}

static void test_grid(void **state)
{
	static const uint32_t chunks[] = {2, 3, 4, 7, 8, 100, 1000, 4097, 65536};
	static const uint32_t objects[] = {1, 16, 100, 272, 4096, 100000};
	static const uint32_t groups[] = {2, 3, 8, 64, 65, 511, 512};
	static const double slots[] = {0, 1, 1.7, 3, 16};
	static const uint32_t medians[] = {0, 1, 20, 100, 5000};
	unsigned made = 0, refused = 0;

	for (unsigned i = 0; i < ARRAY_COUNT(chunks) * ARRAY_COUNT(objects); i++)
		for (unsigned k = 0; k < ARRAY_COUNT(groups) * ARRAY_COUNT(slots) * 2; k++) {
			struct plan_wish wish = {
			    .chunk_count = chunks[i % ARRAY_COUNT(chunks)],
			    .object_bytes = objects[i / ARRAY_COUNT(chunks)],
			    .group_objects = groups[k / 2 % ARRAY_COUNT(groups)],
			    .slots_per_object = slots[k / 2 / ARRAY_COUNT(groups)],
			    .slot_words = 1 + k % 2,
			    .cn_max = i % 3 ? 0 : 1 + i,
			    .object_bytes_median = medians[(i + k) % ARRAY_COUNT(medians)],
			};
			struct plan p;

			if (make(&wish, &p)) {
				assert_string_not_equal(error, "");
				refused++;
				continue;
			}
			made++;
			assert_int_equal(p.chunk_count, wish.chunk_count);
			assert_int_equal(plan_expected_objects(&p), wish.group_objects);
			if (!wish.object_bytes_median)
				assert_int_equal(p.group_objects, wish.group_objects);
			check_regions(&p);
			check_addresses(&p);
			if (plan_valid(&p, error, sizeof(error)))
				fail_msg("%s: %u chunks of %u x %u, %f slots", error,
					 wish.chunk_count, wish.group_objects, wish.object_bytes,
					 wish.slots_per_object);
		}
	print_message("%u plans made, %u wishes refused\n", made, refused);
	assert_true(made > 2000 && refused > 10);
}

/* A pool of given size is filled: one more chunk would not fit. */
static void test_sizes(void **state)
{
	struct prng prng;

	prng_seed(&prng, 3);
	for (int i = 0; i < 2000; i++) {
		struct plan_wish wish = {
		    .pool_bytes = 1 + prng_below(&prng, UINT64_C(1) << prng_below(&prng, 37)),
		    .group_objects = 2 + (uint32_t)prng_below(&prng, 511),
		    .object_bytes = 1 + (uint32_t)prng_below(&prng, 2000),
		    .slot_words = 1 + (uint32_t)prng_below(&prng, 2),
		    .object_bytes_median = (uint32_t)prng_below(&prng, 3000),
		    .group_objects_max =
			prng_below(&prng, 4) ? 0 : (uint32_t)prng_below(&prng, 513),
		};
		struct plan p, more;

		if (make(&wish, &p)) {
			assert_string_not_equal(error, "");
			continue;
		}
		assert_true(p.pool_bytes <= wish.pool_bytes);
		check_regions(&p);
		assert_int_equal(plan_valid(&p, error, sizeof(error)), 0);
		struct plan_wish one_more = wish;

		one_more.pool_bytes = 0;
		one_more.chunk_count = p.chunk_count + 1;
		one_more.cn_max = LAYOUT_CN_MAX;
		if (p.chunk_count < LAYOUT_CHUNK_COUNT_MAX && !make(&one_more, &more))
			assert_true(more.pool_bytes > wish.pool_bytes);
	}
}

static void expect_refused(struct plan_wish wish, const char *word)
{
	struct plan p, before;

	memset(&p, 0x5a, sizeof(p));
	before = p;
	assert_int_equal(make(&wish, &p), FORGE_E_INVAL);
	if (!strstr(error, word))
		fail_msg("\"%s\" does not say \"%s\"", error, word);
	assert_memory_equal(&p, &before, sizeof(p));
}

static uint32_t limit_of(uint32_t mean, uint32_t median, uint32_t expected, uint32_t most)
{
	struct plan_wish wish = {.chunk_count = 1000,
				 .object_bytes = mean,
				 .object_bytes_median = median,
				 .group_objects = expected,
				 .group_objects_max = most};
	struct plan p;

	assert_int_equal(make(&wish, &p), 0);
	assert_int_equal(plan_expected_objects(&p), expected);
	check_regions(&p);
	return p.group_objects;
}

/*
 * How many objects a group may have follows from mean and median, with headers (48 bytes) and in
 * units of 16; and what it costs stays in bounds.
 */
static void test_spread(void **state)
{
	assert_int_equal(limit_of(272, 0, 64, 0), 64);
	/* 320 to 320 stored, 2.5 times 64: 160, and then whole words of the dead map. */
	assert_int_equal(limit_of(272, 272, 64, 0), 192);
	assert_int_equal(limit_of(272, 1000, 64, 0), 192);
	assert_int_equal(limit_of(272, 170, 64, 0), 256); /* 320 / 224: 228 */
	assert_int_equal(limit_of(355, 179, 64, 0), 320); /* 416 / 240: 277 */
	assert_int_equal(limit_of(1443, 83, 64, 0), 512); /* 1504 / 144: 1671 */
	assert_int_equal(limit_of(272, 1, 8, 0), 36);	  /* as many as a chunk of 8 x 328 holds */
	assert_int_equal(limit_of(272, 0, 64, 100), 100);
	assert_int_equal(limit_of(272, 170, 64, 100), 100);
	assert_int_equal(limit_of(272, 170, 64, 10), 64); /* never fewer than expected */
	expect_refused((struct plan_wish){.chunk_count = 8, .group_objects_max = 513},
		       "at most 512");

	struct plan even, wild;
	struct plan_wish wish = {.chunk_count = 1u << 16, .object_bytes = 1443};

	assert_int_equal(make(&wish, &even), 0);
	wish.object_bytes_median = 83;
	assert_int_equal(make(&wish, &wild), 0);
	assert_int_equal(even.bucket_count, wild.bucket_count);
	assert_int_equal(plan_capacity_objects(&even), plan_capacity_objects(&wild));
	assert_int_equal(even.ofm_rows, 16 * even.window_groups);
	assert_int_equal(wild.ofm_rows, 4 * wild.window_groups);
	assert_true(2ull * wild.ofm_rows * wild.ofm_row_bytes <= PLAN_HOT_BYTES_MAX);
	/* 14 words of dead map a chunk of 64 objects, and no more. */
	assert_true(plan_metadata_bytes(&wild) - plan_metadata_bytes(&even) <=
		    14 * 8ull * even.chunk_count + PLAN_HOT_BYTES_MAX);
}

static void test_refused(void **state)
{
	expect_refused((struct plan_wish){.chunk_count = 8, .group_objects = 1}, "2 to 512");
	expect_refused((struct plan_wish){.chunk_count = 8, .group_objects = 513}, "2 to 512");
	expect_refused((struct plan_wish){.chunk_count = 8, .slot_words = 3}, "1 or 2");
	expect_refused((struct plan_wish){.chunk_count = 8, .cn_max = 86}, "1 to 85");
	expect_refused((struct plan_wish){.chunk_count = 8, .slots_per_object = 0.5}, "1 to 16");
	expect_refused((struct plan_wish){.chunk_count = 8, .slots_per_object = 17}, "1 to 16");
	expect_refused((struct plan_wish){.chunk_count = 8, .policy = "sixteen-letters-"},
		       "policy");
	expect_refused((struct plan_wish){.chunk_count = 1}, "chunk_count");
	expect_refused((struct plan_wish){.chunk_count = (1u << 23) + 1,
					  .object_bytes = 1,
					  .group_objects = 2},
		       "chunk_count");
	expect_refused((struct plan_wish){.pool_bytes = 0}, "at least");
	expect_refused((struct plan_wish){.pool_bytes = 5000}, "at least");
	expect_refused((struct plan_wish){.chunk_count = 8, .object_bytes = UINT32_MAX}, "smaller");
	expect_refused((struct plan_wish){.chunk_count = 8, .object_bytes = 1u << 20}, "smaller");
	expect_refused((struct plan_wish){.chunk_count = 1u << 23, .object_bytes = 100000},
		       "256 GiB");
	expect_refused((struct plan_wish){.pool_bytes = 8u << 20, .value_bytes_max = 4u << 20},
		       "--value-max");
	expect_refused((struct plan_wish){.pool_bytes = 8u << 20, .value_bytes_max = UINT32_MAX},
		       "1073741824");
}

/* A limit of the user's: the chunk is as wide as the list of parts needs, and the pool as large. */
static void test_value_limits(void **state)
{
	static const uint32_t limits[] = {1, 1000, 21000, 1u << 20, 3000000, 64u << 20, 1u << 30};
	static const uint32_t objects[] = {1, 60, 272, 4000};

	for (unsigned i = 0; i < ARRAY_COUNT(limits) * ARRAY_COUNT(objects); i++) {
		uint32_t limit = limits[i / ARRAY_COUNT(objects)];
		struct plan_wish wish = {
		    .pool_bytes = UINT64_C(12) << 30,
		    .object_bytes = objects[i % ARRAY_COUNT(objects)],
		    .value_bytes_max = limit,
		};
		struct plan p;

		if (make(&wish, &p))
			fail_msg("%s", error);
		check_regions(&p);
		assert_int_equal(plan_valid(&p, error, sizeof(error)), 0);
		assert_true(p.value_bytes_max >= limit);
		if (p.part_count_max)
			assert_int_equal(p.value_bytes_max, limit);
		assert_true(PLAN_LARGE_VALUES_MIN * (p.part_count_max + 1) <= p.chunk_count);
		print_message("%u bytes of %u: chunks of %u, groups of %u, %u parts\n", limit,
			      wish.object_bytes, p.chunk_bytes, p.group_objects, p.part_count_max);
		/* The remedy is one. */
		wish.pool_bytes = 8u << 20;
		if (make(&wish, &p)) {
			const char *at = strstr(error, "at least ");
			unsigned long long least;

			assert_non_null(at);
			assert_int_equal(sscanf(at, "at least %llu", &least), 1);
			wish.pool_bytes = least;
			assert_int_equal(make(&wish, &p), 0);
			assert_int_equal(p.value_bytes_max, limit);
		} else if (p.part_count_max) {
			assert_int_equal(p.value_bytes_max, limit);
		}
	}
	/* The usual pool. */
	struct plan p;

	assert_int_equal(make(&(struct plan_wish){.pool_bytes = 64u << 20}, &p), 0);
	assert_int_equal(p.value_bytes_max, 1u << 20);
	/* A small one takes what it can. */
	assert_int_equal(make(&(struct plan_wish){.chunk_count = 16}, &p), 0);
	assert_int_equal(p.part_count_max, 3);
	assert_int_equal(p.value_bytes_max, 3 * p.chunk_bytes);
}

/* What a refusal names as enough is enough. */
static void test_remedy_works(void **state)
{
	struct plan_wish wish = {.pool_bytes = 1};
	struct plan p;
	const char *at;
	unsigned long long least;

	assert_int_equal(make(&wish, &p), FORGE_E_INVAL);
	at = strstr(error, "at least ");
	assert_non_null(at);
	assert_int_equal(sscanf(at, "at least %llu", &least), 1);
	wish.pool_bytes = least;
	assert_int_equal(make(&wish, &p), 0);
	wish.pool_bytes = least - 1;
	assert_int_equal(make(&wish, &p), FORGE_E_INVAL);
}

/* Whatever passes must be safe to use. */
static void damaged(const struct plan *p)
{
	if (plan_valid(p, error, sizeof(error)))
		assert_string_not_equal(error, "");
	else
		check_regions(p);
}

static void test_damage(void **state)
{
	struct prng prng;
	unsigned passed = 0;

	prng_seed(&prng, 4);
	for (unsigned slot_words = 1; slot_words <= 2; slot_words++) {
		struct plan_wish wish = {.chunk_count = 50, .slot_words = slot_words};
		struct plan good, p;

		assert_int_equal(make(&wish, &good), 0);
		for (size_t at = 0; at < sizeof(p); at++)
			for (unsigned value = 0; value < 256; value++) {
				p = good;
				((uint8_t *)&p)[at] = (uint8_t)value;
				damaged(&p);
				passed += !plan_valid(&p, error, sizeof(error)) &&
					  memcmp(&p, &good, sizeof(p)) != 0;
			}
		for (unsigned i = 0; i < 100000; i++) {
			p = good;
			uint32_t word = (uint32_t)prng_below(&prng, sizeof(p) / 4);

			((uint32_t *)&p)[word] = (uint32_t)prng_u64(&prng);
			damaged(&p);
		}
		memset(&p, 0, sizeof(p));
		assert_int_equal(plan_valid(&p, error, sizeof(error)), FORGE_E_CORRUPT);
		memset(&p, 0xff, sizeof(p));
		assert_int_equal(plan_valid(&p, error, sizeof(error)), FORGE_E_CORRUPT);
	}
	/* One whose chunks lie beyond what a pointer reaches, and which is sound otherwise. */
	struct plan far;

	assert_int_equal(make(&(struct plan_wish){.chunk_count = 1u << 20}, &far), 0);
	far.chunk_bytes = 1u << 18;
	far.part_count_max = 0;
	far.value_bytes_max = 1000;
	far.pool_bytes =
	    far.chunks_offset + LAYOUT_PAD_BYTES + (uint64_t)far.chunk_count * far.chunk_bytes;
	assert_int_equal(plan_valid(&far, error, sizeof(error)), FORGE_E_CORRUPT);
	assert_non_null(strstr(error, "pool_bytes"));
	print_message("%u damaged plans are plans all the same\n", passed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_grid),	 cmocka_unit_test(test_sizes),
	    cmocka_unit_test(test_refused),	 cmocka_unit_test(test_remedy_works),
	    cmocka_unit_test(test_value_limits), cmocka_unit_test(test_damage),
	    cmocka_unit_test(test_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
