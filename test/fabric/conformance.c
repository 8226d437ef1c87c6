/*
 * conformance.c: every provider keeps every promise of fabric.h that one thread can observe.
 *
 * Each test runs once per row of under_test.c on a fresh export.  It compares what the verbs did
 * with a plain model, or with literals, and looks at the memory through a second connection so
 * that a provider cannot answer from what it remembers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "under_test.h"

#define EXPORT_BYTES 8192u

struct bench {
	const struct under_test *u;
	void *world;
	struct fab *f;
};

static int open_bench(void **state)
{
	struct bench *b = malloc(sizeof(*b));

	b->u = *state;
	b->world = b->u->open_world(EXPORT_BYTES);
	if (!b->world)
		return -1;
	b->f = b->u->connect(b->world);
	*state = b;
	return b->f ? 0 : -1;
}

static int close_bench(void **state)
{
	struct bench *b = *state;

	fab_close(b->f);
	b->u->close_world(b->world);
	free(b);
	return 0;
}

static int run_one(struct fab *f, struct fab_op *op)
{
	run_ops(f, op, 1);
	return op->status;
}

/* The whole export through a connection of its own. */
static void look(const struct bench *b, void *out)
{
	struct fab *f = b->u->connect(b->world);
	struct fab_op op = fab_read(FAB_CONTROL, 0, out, EXPORT_BYTES);

	assert_non_null(f);
	assert_int_equal(fab_reg(f, out, EXPORT_BYTES), FORGE_OK);
	assert_int_equal(run_one(f, &op), FORGE_OK);
	fab_close(f);
}

static void fill_export(const struct bench *b, unsigned char *image, uint64_t seed)
{
	struct fab_op op = fab_write(FAB_CONTROL, 0, image, EXPORT_BYTES);
	struct prng p;

	prng_seed(&p, seed);
	for (unsigned i = 0; i < EXPORT_BYTES; i++)
		image[i] = (unsigned char)prng_u64(&p);
	assert_int_equal(run_one(b->f, &op), FORGE_OK);
}

static void test_caps(void **state)
{
	struct bench *b = *state;

	assert_int_equal(fab_caps(b->f)->export_bytes, EXPORT_BYTES);
	assert_true(fab_caps(b->f)->batch_ops_max >= 1);
	assert_non_null(fab_base(b->f)->provider->name);
}

static void test_fresh_export_is_zero(void **state)
{
	static unsigned char now[EXPORT_BYTES];
	struct bench *b = *state;

	memset(now, 0xff, sizeof(now));
	look(b, now);
	for (unsigned i = 0; i < EXPORT_BYTES; i++)
		assert_int_equal(now[i], 0);
}

/* Every start within a word and a half, every length up to five words and some beyond. */
static void test_read_and_write_any_alignment(void **state)
{
	static unsigned char model[EXPORT_BYTES], now[EXPORT_BYTES], buf[512], got[512];
	struct bench *b = *state;
	unsigned char stamp = 1;

	fill_export(b, model, 1);
	for (unsigned start = 1024; start < 1036; start++) {
		for (uint32_t len = 0; len <= 300; len += len < 41 ? 1 : 37) {
			struct fab_op write = fab_write(FAB_DATA, start, buf + start % 3, len);
			struct fab_op read =
			    fab_read(FAB_DATA, start - 3, got + start % 5, len + 6);

			for (unsigned i = 0; i < sizeof(buf); i++)
				buf[i] = stamp++;
			memset(got, 0xee, sizeof(got));
			assert_int_equal(run_one(b->f, &write), FORGE_OK);
			memcpy(model + start, buf + start % 3, len);
			assert_int_equal(run_one(b->f, &read), FORGE_OK);
			assert_memory_equal(got + start % 5, model + start - 3, len + 6);
			assert_int_equal(got[start % 5 + len + 6], 0xee);
			if (start % 5 > 0)
				assert_int_equal(got[start % 5 - 1], 0xee);
			look(b, now);
			assert_memory_equal(now, model, EXPORT_BYTES);
		}
	}
}

static void test_cas(void **state)
{
	struct bench *b = *state;
	struct fab_op ops[4] = {
	    fab_cas(FAB_INDEX, 64, 0, 7),
	    fab_cas(FAB_INDEX, 64, 0, 9),
	    fab_cas(FAB_INDEX, 64, 7, UINT64_MAX),
	    fab_cas(FAB_INDEX, 64, UINT64_MAX, 5),
	};
	uint64_t words[3];
	struct fab_op read = fab_read(FAB_INDEX, 56, words, 24);

	for (unsigned i = 0; i < 4; i++)
		run_ops(b->f, &ops[i], 1);
	assert_int_equal(ops[0].old, 0);
	assert_true(fab_cas_won(&ops[0]));
	assert_int_equal(ops[1].status, FORGE_OK);
	assert_int_equal(ops[1].old, 7);
	assert_false(fab_cas_won(&ops[1]));
	assert_true(fab_cas_won(&ops[2]));
	assert_true(fab_cas_won(&ops[3]));
	assert_int_equal(run_one(b->f, &read), FORGE_OK);
	assert_int_equal(words[0], 0);
	assert_int_equal(words[1], 5);
	assert_int_equal(words[2], 0);
}

static void test_faa_wraps(void **state)
{
	struct bench *b = *state;
	struct fab_op ops[3] = {
	    fab_faa(FAB_HOTNESS, EXPORT_BYTES - 8, UINT64_MAX),
	    fab_faa(FAB_HOTNESS, EXPORT_BYTES - 8, 3),
	    fab_faa(FAB_HOTNESS, EXPORT_BYTES - 8, 0),
	};

	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(run_one(b->f, &ops[i]), FORGE_OK);
	assert_true(ops[0].old == 0);
	assert_true(ops[1].old == UINT64_MAX);
	assert_true(ops[2].old == 2);
}

/* Each op of the batch sees exactly what the ops before it did. */
static void test_batch_takes_effect_in_order(void **state)
{
	struct bench *b = *state;
	uint64_t one = 1, ten = 10, seen[5] = {99, 99, 99, 99, 99};
	struct fab_op ops[] = {
	    fab_read(FAB_INDEX, 128, &seen[0], 8), fab_write(FAB_INDEX, 128, &one, 8),
	    fab_read(FAB_INDEX, 128, &seen[1], 8), fab_faa(FAB_INDEX, 128, 4),
	    fab_read(FAB_INDEX, 128, &seen[2], 8), fab_cas(FAB_INDEX, 128, 5, 6),
	    fab_read(FAB_INDEX, 128, &seen[3], 8), fab_write(FAB_INDEX, 128, &ten, 8),
	    fab_cas(FAB_INDEX, 128, 6, 7),	   fab_read(FAB_INDEX, 128, &seen[4], 8),
	};

	if (fab_caps(b->f)->batch_ops_max < ARRAY_COUNT(ops)) {
		print_message("skipped: the provider takes fewer than 10 ops at once\n");
		skip();
	}
	run_ops(b->f, ops, ARRAY_COUNT(ops));
	for (unsigned i = 0; i < ARRAY_COUNT(ops); i++)
		assert_int_equal(ops[i].status, FORGE_OK);
	assert_int_equal(seen[0], 0);
	assert_int_equal(seen[1], 1);
	assert_int_equal(ops[3].old, 1);
	assert_int_equal(seen[2], 5);
	assert_true(fab_cas_won(&ops[5]));
	assert_int_equal(seen[3], 6);
	assert_int_equal(ops[8].old, 10);
	assert_int_equal(seen[4], 10);
}

/* Posts follow each other without a wait between them, as long as the ops live. */
static void test_posts_take_effect_in_order(void **state)
{
	struct bench *b = *state;
	uint64_t values[8], seen[8];
	struct fab_op writes[8], reads[8];

	for (unsigned i = 0; i < 8; i++) {
		values[i] = i + 1;
		writes[i] = fab_write(FAB_DATA, 256, &values[i], 8);
		reads[i] = fab_read(FAB_DATA, 256, &seen[i], 8);
		fab_post(b->f, &writes[i], 1);
		fab_post(b->f, &reads[i], 1);
	}
	fab_kick(b->f);
	for (unsigned i = 0; i < 8; i++) {
		while (writes[i].status == FAB_PENDING || reads[i].status == FAB_PENDING)
			fab_poll(b->f);
		assert_int_equal(reads[i].status, FORGE_OK);
		assert_int_equal(seen[i], i + 1);
	}
}

static void test_big_batch(void **state)
{
	static struct fab_op ops[3000];
	struct bench *b = *state;
	unsigned n = (unsigned)min_u64(ARRAY_COUNT(ops), fab_caps(b->f)->batch_ops_max);
	uint64_t total = 0;

	for (unsigned i = 0; i < n; i++)
		ops[i] = fab_faa(FAB_HOTNESS, 512, i);
	run_ops(b->f, ops, n);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(ops[i].status, FORGE_OK);
		assert_int_equal(ops[i].old, total);
		total += i;
	}
}

static void test_zero_length(void **state)
{
	static unsigned char before[EXPORT_BYTES], after[EXPORT_BYTES];
	struct bench *b = *state;
	unsigned char byte = 0x5a;

	fill_export(b, before, 2);
	for (unsigned where = 0; where < 4; where++) {
		static const uint64_t raddr[4] = {0, 5, EXPORT_BYTES - 1, EXPORT_BYTES};
		struct fab_op read = fab_read(FAB_DATA, raddr[where], &byte, 0);
		struct fab_op write = fab_write(FAB_DATA, raddr[where], &byte, 0);

		assert_int_equal(run_one(b->f, &read), FORGE_OK);
		assert_int_equal(run_one(b->f, &write), FORGE_OK);
		assert_int_equal(byte, 0x5a);
	}
	look(b, after);
	assert_memory_equal(before, after, EXPORT_BYTES);
}

/* The last byte and the last word are inside. */
static void test_edge_is_inside(void **state)
{
	struct bench *b = *state;
	unsigned char byte = 0x77, got = 0;
	struct fab_op ops[] = {
	    fab_write(FAB_DATA, EXPORT_BYTES - 1, &byte, 1),
	    fab_read(FAB_DATA, EXPORT_BYTES - 1, &got, 1),
	    fab_cas(FAB_DATA, EXPORT_BYTES - 8, 0x77ull << 56, 1),
	};

	for (unsigned i = 0; i < ARRAY_COUNT(ops); i++)
		assert_int_equal(run_one(b->f, &ops[i]), FORGE_OK);
	assert_int_equal(got, 0x77);
	assert_true(fab_cas_won(&ops[2]));
}

/*
 * bad is the middle op of a batch: the one before takes effect, it and the ones after fail with
 * FORGE_E_BOUNDS and change neither the export nor their buffers.  A session may not survive
 * such an error, so each case has its own connection.
 */
static void expect_bounds(const struct bench *b, struct fab_op bad)
{
	static unsigned char before[EXPORT_BYTES], after[EXPORT_BYTES], buf[EXPORT_BYTES];
	static unsigned char untouched[EXPORT_BYTES];
	uint64_t first = 0x1111, late = 0x2222, got = 0x3333;
	struct fab *f = b->u->connect(b->world);
	struct fab_op ops[5] = {
	    fab_write(FAB_DATA, 8, &first, 8), bad,
	    fab_write(FAB_DATA, 16, &late, 8), fab_read(FAB_DATA, 24, &got, 8),
	    fab_faa(FAB_DATA, 32, 1),
	};
	unsigned n = (unsigned)min_u64(5, fab_caps(f)->batch_ops_max);

	memset(untouched, 0xa5, sizeof(untouched));
	memset(buf, 0xa5, sizeof(buf));
	fill_export(b, before, bad.raddr ^ bad.len);
	if (bad.code <= FAB_WRITE)
		ops[1].buf = buf;
	run_ops(f, ops, n);
	assert_int_equal(ops[0].status, FORGE_OK);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(ops[i].status, FORGE_E_BOUNDS);
	assert_int_equal(got, 0x3333);
	assert_memory_equal(buf, untouched, sizeof(buf));
	fab_close(f);
	look(b, after);
	memcpy(before + 8, &first, 8);
	assert_memory_equal(before, after, EXPORT_BYTES);
}

static void test_bounds(void **state)
{
	static const struct {
		uint64_t raddr;
		uint32_t len;
	} outside[] = {
	    {EXPORT_BYTES, 1},
	    {EXPORT_BYTES - 1, 2},
	    {EXPORT_BYTES - 8, 9},
	    {EXPORT_BYTES + 1, 0},
	    {0, EXPORT_BYTES + 1},
	    {0, UINT32_MAX},
	    {EXPORT_BYTES - 8, UINT32_MAX},
	    {UINT64_MAX, 0},
	    {UINT64_MAX, 1},
	    {UINT64_MAX - 7, 8},
	    {UINT64_MAX - 7, 16},
	    {UINT64_MAX - 63, 4096},
	    {(uint64_t)INT64_MAX + 1, 8},
	    {0x100000000u, 8},
	};
	struct bench *b = *state;

	for (unsigned i = 0; i < ARRAY_COUNT(outside); i++) {
		expect_bounds(b, fab_read(FAB_DATA, outside[i].raddr, NULL, outside[i].len));
		expect_bounds(b, fab_write(FAB_DATA, outside[i].raddr, NULL, outside[i].len));
	}
}

static void test_atomics_bounds_and_alignment(void **state)
{
	static const uint64_t outside[] = {EXPORT_BYTES,
					   EXPORT_BYTES - 4,
					   EXPORT_BYTES - 7,
					   UINT64_MAX - 7,
					   UINT64_MAX - 15,
					   UINT64_MAX,
					   1,
					   2,
					   4,
					   7,
					   1025,
					   4095};
	struct bench *b = *state;

	for (unsigned i = 0; i < ARRAY_COUNT(outside); i++) {
		expect_bounds(b, fab_cas(FAB_INDEX, outside[i], 0, 1));
		expect_bounds(b, fab_faa(FAB_INDEX, outside[i], 1));
	}
}

/* A detached op takes effect in its place, from a copy of its buffer, and never reports. */
static void test_detached(void **state)
{
	struct bench *b = *state;
	unsigned char buf[FAB_DETACHED_BYTES_MAX], got[FAB_DETACHED_BYTES_MAX];
	uint64_t word = 0;
	struct fab_op ops[3] = {
	    fab_write(FAB_HOTNESS, 1024, buf, sizeof(buf)),
	    fab_faa(FAB_HOTNESS, 2048, 5),
	    fab_cas(FAB_HOTNESS, 2048, 5, 50),
	};
	struct fab_op reads[2] = {
	    fab_read(FAB_HOTNESS, 1024, got, sizeof(got)),
	    fab_read(FAB_HOTNESS, 2048, &word, 8),
	};

	memset(buf, 0x42, sizeof(buf));
	for (unsigned i = 0; i < 3; i++) {
		ops[i].flags = FAB_DETACHED;
		ops[i].status = 1234;
		ops[i].old = 4321;
		fab_post(b->f, &ops[i], 1);
		memset(buf, 0, sizeof(buf));
	}
	run_ops(b->f, &reads[0], 1);
	run_ops(b->f, &reads[1], 1);
	for (unsigned i = 0; i < sizeof(got); i++)
		assert_int_equal(got[i], 0x42);
	assert_int_equal(word, 50);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(ops[i].status, 1234);
		assert_int_equal(ops[i].old, 4321);
	}
}

/* A detached op out of bounds is lost with all that follows it in its post. */
static void test_detached_out_of_bounds(void **state)
{
	struct bench *b = *state;
	struct fab *f = b->u->connect(b->world);
	uint64_t word = 7, now = 1;
	struct fab_op ops[2] = {
	    fab_write(FAB_HOTNESS, EXPORT_BYTES - 4, &word, 8),
	    fab_write(FAB_HOTNESS, 0, &word, 8),
	};
	struct fab_op read = fab_read(FAB_HOTNESS, 0, &now, 8);

	ops[0].flags = FAB_DETACHED;
	if (fab_caps(f)->batch_ops_max >= 2) {
		run_ops(f, ops, 2);
		assert_int_equal(ops[1].status, FORGE_E_BOUNDS);
	}
	fab_close(f);
	assert_int_equal(run_one(b->f, &read), FORGE_OK);
	assert_int_equal(now, 0);
}

static const struct {
	const char *name;
	CMUnitTestFunction run;
} tests[] = {
    {"caps", test_caps},
    {"fresh export is zero", test_fresh_export_is_zero},
    {"read and write at any alignment", test_read_and_write_any_alignment},
    {"cas", test_cas},
    {"faa wraps", test_faa_wraps},
    {"a batch takes effect in order", test_batch_takes_effect_in_order},
    {"posts take effect in order", test_posts_take_effect_in_order},
    {"big batch", test_big_batch},
    {"zero length", test_zero_length},
    {"the edge is inside", test_edge_is_inside},
    {"bounds", test_bounds},
    {"bounds and alignment of atomics", test_atomics_bounds_and_alignment},
    {"detached", test_detached},
    {"detached out of bounds", test_detached_out_of_bounds},
};

int main(void)
{
	int failed = 0;

	for (unsigned p = 0; p < providers_under_test_count; p++) {
		struct CMUnitTest group[ARRAY_COUNT(tests)];

		for (unsigned i = 0; i < ARRAY_COUNT(tests); i++)
			group[i] = (struct CMUnitTest){
			    .name = tests[i].name,
			    .test_func = tests[i].run,
			    .setup_func = open_bench,
			    .teardown_func = close_bench,
			    .initial_state = (void *)(uintptr_t)&providers_under_test[p],
			};
		failed +=
		    cmocka_run_group_tests_name(providers_under_test[p].name, group, NULL, NULL);
	}
	return failed ? 1 : 0;
}
