/*
 * wrappers.c: what trace, count and fault do besides passing verbs on.
 *
 * Each test runs over loop, which completes at post, and over late, which completes one op per
 * poll; the outcome must be the same.  Traces and counts are compared with literals.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "fabric/count.h"
#include "fabric/fault.h"
#include "fabric/loop.h"
#include "fabric/trace.h"
#include "late.h"
#include "under_test.h"

#define EXPORT_BYTES 1024u

static uint64_t mem[EXPORT_BYTES / 8];

static struct fab *open_inner(void **state)
{
	struct fab *f = NULL;

	memset(mem, 0, sizeof(mem));
	assert_int_equal(loop_open(mem, sizeof(mem), &f), FORGE_OK);
	if (*state)
		assert_int_equal(late_open(f, &f), FORGE_OK);
	return f;
}

static void expect_count(struct fab_count c, uint64_t verbs, uint64_t bytes, uint64_t cas_failed,
			 uint64_t errors)
{
	assert_int_equal(c.verbs, verbs);
	assert_int_equal(c.bytes, bytes);
	assert_int_equal(c.cas_failed, cas_failed);
	assert_int_equal(c.errors, errors);
}

static void test_count(void **state)
{
	struct fab_counts counts = {0}, earlier, since;
	unsigned char buf[100] = {0};
	struct fab_op first[] = {
	    fab_read(FAB_INDEX, 0, buf, 100), fab_read(FAB_INDEX, 8, buf, 20),
	    fab_write(FAB_DATA, 0, buf, 40),  fab_cas(FAB_INDEX, 0, 0, 1),
	    fab_cas(FAB_INDEX, 0, 0, 1),      fab_faa(FAB_HOTNESS, 8, 1),
	    fab_faa(FAB_HOTNESS, 8, 1),
	};
	struct fab_op second[] = {
	    fab_cas(FAB_EVICTION, 0, 0, 5),
	    fab_read(FAB_SPACE, EXPORT_BYTES, buf, 1),
	    fab_cas(FAB_EVICTION, 0, 1, 5),
	};
	struct fab *f;

	assert_int_equal(count_open(open_inner(state), &counts, &f), FORGE_OK);
	first[6].flags = FAB_DETACHED;
	run_ops(f, first, ARRAY_COUNT(first));
	earlier = counts;
	run_ops(f, second, ARRAY_COUNT(second));
	fab_close(f);

	expect_count(counts.by[FAB_INDEX][FAB_READ], 2, 120, 0, 0);
	expect_count(counts.by[FAB_INDEX][FAB_CAS], 2, 16, 1, 0);
	expect_count(counts.by[FAB_DATA][FAB_WRITE], 1, 40, 0, 0);
	expect_count(counts.by[FAB_HOTNESS][FAB_FAA], 2, 16, 0, 0);
	expect_count(counts.by[FAB_EVICTION][FAB_CAS], 2, 16, 1, 1);
	expect_count(counts.by[FAB_SPACE][FAB_READ], 1, 1, 0, 1);
	expect_count(counts.by[FAB_CONTROL][FAB_READ], 0, 0, 0, 0);
	expect_count(fab_counts_total(&counts), 10, 209, 2, 2);
	expect_count(fab_counts_of_purpose(&counts, FAB_INDEX), 4, 136, 1, 0);
	expect_count(fab_counts_of_code(&counts, FAB_CAS), 4, 32, 2, 1);

	since = fab_counts_since(&counts, &earlier);
	expect_count(fab_counts_total(&since), 3, 17, 1, 2);
	fab_counts_merge(&earlier, &since);
	assert_memory_equal(&earlier, &counts, sizeof(counts));
}

struct transcript {
	char text[2048];
	size_t used;
};

static void take_line(void *context, const char *line)
{
	struct transcript *t = context;

	t->used += (size_t)snprintf(t->text + t->used, sizeof(t->text) - t->used, "%s\n", line);
	assert_true(t->used < sizeof(t->text));
}

static int name_first_half(void *context, uint64_t raddr, char *text, size_t text_bytes)
{
	if (raddr >= 512)
		return 0;
	snprintf(text, text_bytes, "%s[%u]", (const char *)context, (unsigned)raddr / 8);
	return 1;
}

static void test_trace(void **state)
{
	struct transcript t = {.used = 0};
	struct trace_settings settings = {
	    .connection = "cn1",
	    .name_region = name_first_half,
	    .name_context = (void *)(uintptr_t) "word",
	    .line = take_line,
	    .line_context = &t,
	};
	unsigned char buf[16] = {0};
	struct fab_op ops[] = {
	    fab_read(FAB_INDEX, 16, buf, 16),  fab_write(FAB_DATA, 512, buf, 5),
	    fab_cas(FAB_INDEX, 16, 0, 0x1f03), fab_cas(FAB_INDEX, 16, 0, 0x2a01),
	    fab_faa(FAB_HOTNESS, 16, 0x10),    fab_read(FAB_SPACE, 1020, buf, 8),
	    fab_write(FAB_CONTROL, 0, buf, 1),
	};
	struct fab_op detached = fab_faa(FAB_HOTNESS, 24, 1);
	struct fab *f;

	assert_int_equal(trace_open(open_inner(state), &settings, &f), FORGE_OK);
	detached.flags = FAB_DETACHED;
	run_ops(f, &detached, 1);
	run_ops(f, ops, ARRAY_COUNT(ops));
	fab_close(f);
	assert_string_equal(t.text, "cn1 hotness  FAA   word[3] + 0x1 = detached\n"
				    "cn1 index    READ  word[2] 16 = ok\n"
				    "cn1 data     WRITE 0x200 5 = ok\n"
				    "cn1 index    CAS   word[2] 0x0 -> 0x1f03 = won\n"
				    "cn1 index    CAS   word[2] 0x0 -> 0x2a01 = lost to 0x1f03\n"
				    "cn1 hotness  FAA   word[2] + 0x10 = was 0x1f03\n"
				    "cn1 space    READ  0x3fc 8 = FORGE_E_BOUNDS\n"
				    "cn1 control  WRITE word[0] 1 = FORGE_E_BOUNDS\n");
}

/* Both lines of a long name are cut, neither overruns. */
static int name_too_long(void *context, uint64_t raddr, char *text, size_t text_bytes)
{
	memset(text, 'x', text_bytes - 1);
	text[text_bytes - 1] = '\0';
	return 1;
}

static void test_trace_long_names(void **state)
{
	struct transcript t = {.used = 0};
	char connection[512];
	struct trace_settings settings = {
	    .connection = connection,
	    .name_region = name_too_long,
	    .line = take_line,
	    .line_context = &t,
	};
	struct fab_op op = fab_cas(FAB_EVICTION, 0, UINT64_MAX, UINT64_MAX);
	struct fab *f;

	memset(connection, 'c', sizeof(connection) - 1);
	connection[sizeof(connection) - 1] = '\0';
	assert_int_equal(trace_open(open_inner(state), &settings, &f), FORGE_OK);
	run_ops(f, &op, 1);
	fab_close(f);
	assert_true(t.used <= TRACE_LINE_BYTES);
	assert_non_null(strstr(t.text, "0xffffffffffffffff -> 0xffffffffffffffff = lost to 0x0"));
}

static void test_trace_to_file(void **state)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *file = open_memstream(&text, &bytes);
	struct trace_settings settings = {
	    .connection = "c", .line = trace_line_to_file, .line_context = file};
	struct fab_op op = fab_faa(FAB_SPACE, 8, 2);
	struct fab *f;

	assert_int_equal(trace_open(open_inner(state), &settings, &f), FORGE_OK);
	run_ops(f, &op, 1);
	fab_close(f);
	fclose(file);
	assert_string_equal(text, "c space    FAA   0x8 + 0x2 = was 0x0\n");
	free(text);
}

/* Lose the node at every verb of two posts in turn: what came before landed, nothing after. */
static void test_fault_at_every_verb(void **state)
{
	for (uint64_t lose_at = 1; lose_at <= 7; lose_at++) {
		struct fault_plan plan = {.lose_at = lose_at};
		struct fab_op ops[6];
		struct fab *f;

		assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
		for (unsigned i = 0; i < 6; i++)
			ops[i] = fab_faa(FAB_SPACE, i * 8, i + 1);
		run_ops(f, ops, 4);
		run_ops(f, ops + 4, 2);
		for (unsigned i = 0; i < 6; i++) {
			int lives = i + 1 < lose_at;

			assert_int_equal(ops[i].status, lives ? FORGE_OK : FORGE_E_NODE);
			assert_int_equal(mem[i], lives ? i + 1 : 0);
		}
		assert_int_equal(plan.verbs, 6);
		assert_int_equal(plan.lost, lose_at <= 6);
		assert_int_equal(fab_reg(f, mem, 8), plan.lost ? FORGE_E_NODE : FORGE_OK);
		fab_close(f);
	}
}

static void test_fault_lands_whole(void **state)
{
	struct fault_plan plan = {.lose_at = 2, .landing = FAULT_LANDS_WHOLE};
	struct fab_op ops[3] = {fab_faa(FAB_SPACE, 0, 1), fab_cas(FAB_SPACE, 8, 0, 9),
				fab_faa(FAB_SPACE, 16, 1)};
	struct fab *f;

	assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
	run_ops(f, ops, 3);
	fab_close(f);
	assert_int_equal(ops[0].status, FORGE_OK);
	assert_int_equal(ops[1].status, FORGE_E_NODE);
	assert_int_equal(ops[2].status, FORGE_E_NODE);
	assert_int_equal(mem[0], 1);
	assert_int_equal(mem[1], 9);
	assert_int_equal(mem[2], 0);
}

/* A WRITE from 3 bytes into a word is cut at each word boundary in turn. */
static void test_fault_lands_part(void **state)
{
	for (uint32_t words = 0; words <= 5; words++) {
		struct fault_plan plan = {
		    .lose_at = 1, .landing = FAULT_LANDS_PART, .part_words = words};
		unsigned char buf[30], expected[EXPORT_BYTES] = {0};
		struct fab_op op = fab_write(FAB_DATA, 67, buf, sizeof(buf));
		unsigned bytes = words == 0 ? 0 : words * 8 - 3;
		struct fab *f;

		memset(buf, 0xcd, sizeof(buf));
		assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
		run_ops(f, &op, 1);
		fab_close(f);
		assert_int_equal(op.status, FORGE_E_NODE);
		memset(expected + 67, 0xcd, bytes < 30 ? bytes : 30);
		assert_memory_equal(mem, expected, EXPORT_BYTES);
	}
}

/* Only a WRITE lands in part: an atomic verb is whole or nothing. */
static void test_fault_never_splits_an_atomic(void **state)
{
	struct fault_plan plan = {.lose_at = 1, .landing = FAULT_LANDS_PART, .part_words = 1};
	struct fab_op op = fab_faa(FAB_SPACE, 0, 1);
	struct fab *f;

	assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
	run_ops(f, &op, 1);
	fab_close(f);
	assert_int_equal(op.status, FORGE_E_NODE);
	assert_int_equal(mem[0], 0);
}

static void test_fault_drops_detached(void **state)
{
	struct fault_plan plan = {.drop_detached_at = 2};
	struct fab_op ops[5];
	uint64_t value = 7;
	struct fab *f;

	assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
	for (unsigned i = 0; i < 5; i++) {
		ops[i] = fab_write(FAB_HOTNESS, i * 8, &value, 8);
		ops[i].flags = i % 2 == 0 ? 0 : FAB_DETACHED;
	}
	run_ops(f, ops, 5);
	fab_close(f);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(ops[i].status, FORGE_OK);
		assert_int_equal(mem[i], i == 3 ? 0 : 7);
	}
	assert_int_equal(plan.detached, 2);
	assert_int_equal(plan.verbs, 5);
	assert_false(plan.lost);
}

/* The failed verbs of a lost node are counted, too. */
static void test_count_over_fault(void **state)
{
	struct fault_plan plan = {.lose_at = 3, .landing = FAULT_LANDS_WHOLE};
	struct fab_counts counts = {0};
	struct fab_op ops[4];
	struct fab *f;

	assert_int_equal(fault_open(open_inner(state), &plan, &f), FORGE_OK);
	assert_int_equal(count_open(f, &counts, &f), FORGE_OK);
	for (unsigned i = 0; i < 4; i++)
		ops[i] = fab_faa(FAB_SPACE, 0, 1);
	run_ops(f, ops, 4);
	fab_close(f);
	expect_count(fab_counts_total(&counts), 4, 32, 0, 2);
}

static const struct {
	const char *name;
	CMUnitTestFunction run;
} tests[] = {
    {"count", test_count},
    {"trace", test_trace},
    {"trace with long names", test_trace_long_names},
    {"trace to a file", test_trace_to_file},
    {"fault at every verb", test_fault_at_every_verb},
    {"fault lands whole", test_fault_lands_whole},
    {"fault lands in part", test_fault_lands_part},
    {"fault never splits an atomic", test_fault_never_splits_an_atomic},
    {"fault drops a detached op", test_fault_drops_detached},
    {"count over fault", test_count_over_fault},
};

int main(void)
{
	static char late[] = "late";
	int failed = 0;

	for (int is_late = 0; is_late <= 1; is_late++) {
		struct CMUnitTest group[ARRAY_COUNT(tests)];

		for (unsigned i = 0; i < ARRAY_COUNT(tests); i++)
			group[i] = (struct CMUnitTest){
			    .name = tests[i].name,
			    .test_func = tests[i].run,
			    .initial_state = is_late ? late : NULL,
			};
		failed += cmocka_run_group_tests_name(is_late ? "over late" : "over loop", group,
						      NULL, NULL);
	}
	return failed ? 1 : 0;
}
