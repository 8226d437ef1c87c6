/*
 * load_trace.c: the binary trace formats, compression, footprints and whole traces.
 *
 * Shows on small files made here that every record comes back as it was written, plain and in
 * each compression whatever the name says; that files cut at any byte, damaged, misnamed or
 * absent give an error with file, record and remedy; that a loaded trace is dense, complete
 * and shared with children.  With ../shared there, that one trace reads the same from
 * several formats.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/status.h"
#include "load/trace.h"
#include "load_file.h"
#include "load_shared.h"

#define COUNT 1000

struct oracle {
	uint32_t time;
	uint64_t id;
	uint32_t size;
	int64_t next;
} __attribute__((packed));

static void oracle_make(struct oracle records[COUNT])
{
	for (uint32_t i = 0; i < COUNT; i++)
		records[i] = (struct oracle){
		    .time = i / 3,
		    .id = UINT64_C(0x8000000000000001) * (i % 100 + 1),
		    .size = 10 + i % 100,
		    .next = i + 100 < COUNT ? (int64_t)i + 100 : -1,
		};
}

static struct trace *opened(const char *path, const struct trace_options *options)
{
	struct load_error error = {{0}};
	struct trace *t = NULL;

	if (trace_file_open(&t, path, options, &error) != 0)
		fail_msg("%s", error.text);
	return t;
}

static void check_oracle(struct trace *t, const struct oracle *records)
{
	struct load_error error = {{0}};
	struct trace_record r;

	for (uint32_t i = 0; i < COUNT; i++) {
		if (trace_file_next(t, &r, &error) != TRACE_RECORD)
			fail_msg("record %u: %s", i + 1, error.text);
		assert_true(r.time == records[i].time && r.id == records[i].id);
		assert_true(r.size == records[i].size && r.next_access == records[i].next);
		assert_true(r.op == LOAD_GET && r.check == 0);
	}
	assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
	assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
}

static void test_oracle_in_every_packing(void **state)
{
	/* Names that lie about the compression: the first bytes decide. */
	static const char *const names[FILE_PACKINGS] = {"a.oracleGeneral.zst", "b.oracleGeneral",
							 "c.oracleGeneral.gz",
							 "d.oracleGeneral.bin.xz"};
	static const char *const kinds[FILE_PACKINGS] = {"", "zstd", "xz", "gzip"};
	static unsigned char packed[FILE_PACKED_MAX];
	struct oracle records[COUNT];

	(void)state;
	oracle_make(records);
	for (unsigned p = 0; p < FILE_PACKINGS; p++) {
		size_t n = file_pack((enum file_packing)p, records, sizeof(records), packed);
		char path[FILE_PATH_MAX];
		struct load_error error;
		struct trace *t;

		file_make(path, names[p], packed, n);
		t = opened(path, NULL);
		assert_string_equal(trace_format(t), "oracleGeneral");
		assert_string_equal(trace_compression(t), kinds[p]);
		assert_true(trace_has_sizes(t) && !trace_has_ops(t));
		check_oracle(t, records);
		assert_int_equal(trace_file_rewind(t, &error), 0);
		check_oracle(t, records);
		trace_file_close(t);
		unlink(path);
	}
}

static void test_concatenated_packings(void **state)
{
	static unsigned char packed[FILE_PACKED_MAX];
	struct oracle records[COUNT];
	const size_t half = sizeof(records) / 2;

	(void)state;
	oracle_make(records);
	for (unsigned p = FILE_ZSTD; p < FILE_PACKINGS; p++) {
		size_t n = file_pack((enum file_packing)p, records, half, packed);
		char path[FILE_PATH_MAX];
		struct trace *t;

		n += file_pack((enum file_packing)p, (char *)records + half, half, packed + n);
		file_make(path, "two.oracleGeneral", packed, n);
		t = opened(path, NULL);
		check_oracle(t, records);
		trace_file_close(t);
		unlink(path);
	}
}

/* Read to the end; gives the records read, and the status that ended it. */
static uint64_t drain(struct trace *t, int *status, struct load_error *error)
{
	struct trace_record r;
	uint64_t n = 0;

	while ((*status = trace_file_next(t, &r, error)) == TRACE_RECORD)
		n++;
	return n;
}

static void test_cut_at_every_byte(void **state)
{
	static unsigned char packed[FILE_PACKED_MAX];
	struct oracle records[COUNT];
	const size_t bytes = 20 * sizeof(records[0]);

	(void)state;
	oracle_make(records);
	for (unsigned p = 0; p < FILE_PACKINGS; p++) {
		size_t n = file_pack((enum file_packing)p, records, bytes, packed);

		for (size_t keep = p == FILE_PLAIN ? 0 : 6; keep < n; keep++) {
			char path[FILE_PATH_MAX];
			struct load_error error = {{0}};
			struct trace *t;
			int status;

			file_make(path, "cut.oracleGeneral", packed, keep);
			status = trace_file_open(&t, path, NULL, &error);
			if (p == FILE_PLAIN && keep % 24 == 0) {
				assert_int_equal(status, 0);
				assert_true(drain(t, &status, &error) == keep / 24 && status == 0);
				trace_file_close(t);
			} else {
				if (status == 0) {
					assert_true(drain(t, &status, &error) <= 20);
					trace_file_close(t);
				}
				if (status != FORGE_E_TRUNCATED || strstr(error.text, path) == NULL)
					fail_msg("packing %u, %zu of %zu bytes: %d %s", p, keep, n,
						 status, error.text);
			}
			unlink(path);
		}
	}
}

static void test_cut_inside_a_packed_record(void **state)
{
	static unsigned char packed[FILE_PACKED_MAX];
	struct oracle records[COUNT];
	char path[FILE_PATH_MAX];
	struct load_error error = {{0}};
	struct trace *t;
	int status;
	size_t n;

	(void)state;
	oracle_make(records);
	n = file_pack(FILE_ZSTD, records, 10 * sizeof(records[0]) + 7, packed);
	file_make(path, "cut.oracleGeneral.zst", packed, n);
	t = opened(path, NULL);
	assert_int_equal(drain(t, &status, &error), 10);
	assert_int_equal(status, FORGE_E_TRUNCATED);
	assert_non_null(strstr(error.text, path));
	assert_non_null(strstr(error.text, "record 11 is cut: 7 of the 24 bytes"));
	/* The error stays, and goes with a rewind. */
	assert_int_equal(drain(t, &status, &error), 0);
	assert_int_equal(status, FORGE_E_TRUNCATED);
	assert_int_equal(trace_file_rewind(t, &error), 0);
	assert_int_equal(drain(t, &status, &error), 10);
	trace_file_close(t);
	unlink(path);
}

static void test_damaged_packings(void **state)
{
	static unsigned char packed[FILE_PACKED_MAX];
	struct oracle records[COUNT];

	(void)state;
	oracle_make(records);
	for (unsigned p = FILE_XZ; p <= FILE_GZIP; p++) {
		size_t n = file_pack((enum file_packing)p, records, sizeof(records), packed);
		char path[FILE_PATH_MAX];
		struct load_error error = {{0}};
		struct trace *t;
		int status;

		packed[n / 2] ^= 0x55;
		file_make(path, "bad.oracleGeneral", packed, n);
		status = trace_file_open(&t, path, NULL, &error);
		if (status == 0) {
			drain(t, &status, &error);
			trace_file_close(t);
		}
		assert_true(status == FORGE_E_FORMAT || status == FORGE_E_TRUNCATED);
		assert_non_null(strstr(error.text, path));
		unlink(path);
	}
}

static void test_garbage_behind_gzip(void **state)
{
	static unsigned char packed[FILE_PACKED_MAX];
	uint32_t ids[4] = {1, 2, 3, 4};
	size_t n = file_pack(FILE_GZIP, ids, sizeof(ids), packed);
	char path[FILE_PATH_MAX];
	struct load_error error = {{0}};
	struct trace *t;
	int status;

	(void)state;
	/* Zero padding is what tapes leave; it is no garbage. */
	memset(packed + n, 0, 100);
	file_make(path, "pad.u32.gz", packed, n + 100);
	t = opened(path, NULL);
	assert_int_equal(drain(t, &status, &error), 4);
	assert_int_equal(status, TRACE_END);
	trace_file_close(t);
	unlink(path);

	packed[n] = 'x';
	file_make(path, "junk.u32.gz", packed, n + 1);
	status = trace_file_open(&t, path, NULL, &error);
	if (status == 0) {
		drain(t, &status, &error);
		trace_file_close(t);
	}
	assert_int_equal(status, FORGE_E_FORMAT);
	assert_non_null(strstr(error.text, "gzip"));
	unlink(path);
}

static void test_bare_ids(void **state)
{
	static const unsigned char bytes[16] = {1,    2, 3, 4, 5, 6, 7, 8,
						0xff, 0, 0, 0, 0, 0, 0, 0x80};
	static const struct {
		const char *name;
		uint64_t ids[4];
		unsigned count;
	} cases[] = {
	    {"x.u32", {0x04030201, 0x08070605, 0xff, 0x80000000}, 4},
	    {"x.be32", {0x01020304, 0x05060708, 0xff000000, 0x80}, 4},
	    {"x.u64", {0x0807060504030201, 0x80000000000000ff}, 2},
	    {"x.be64", {0x0102030405060708, 0xff00000000000080}, 2},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		char path[FILE_PATH_MAX];
		struct load_error error = {{0}};
		struct trace_record r;
		struct trace *t;

		file_make(path, cases[i].name, bytes, sizeof(bytes));
		t = opened(path, NULL);
		for (unsigned k = 0; k < cases[i].count; k++) {
			assert_int_equal(trace_file_next(t, &r, &error), TRACE_RECORD);
			assert_true(r.id == cases[i].ids[k] && r.size == 0);
			assert_true(r.next_access == TRACE_NEXT_UNKNOWN);
		}
		assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
		assert_false(trace_has_sizes(t));
		trace_file_close(t);
		unlink(path);
	}
}

static void test_sizes_file(void **state)
{
	uint32_t ids[5] = {7, 8, 7, 9, 8};
	uint32_t sizes[6] = {100, 0, 300, UINT32_MAX, 500, 600};
	static unsigned char packed[FILE_PACKED_MAX];
	char path[FILE_PATH_MAX], sizes_path[FILE_PATH_MAX], found[FILE_PATH_MAX];
	struct load_error error = {{0}};
	struct trace_options options = {.sizes_path = sizes_path};
	struct trace_record r;
	struct trace *t;
	int status;
	size_t n;

	(void)state;
	file_make(path, "s.u32", ids, sizeof(ids));
	assert_false(trace_sizes_beside(path, found, sizeof(found)));
	n = file_pack(FILE_XZ, sizes, sizeof(ids), packed);
	file_make(sizes_path, "s.sz.xz", packed, n);
	assert_true(trace_sizes_beside(path, found, sizeof(found)));
	assert_string_equal(found, sizes_path);
	t = opened(path, &options);
	assert_true(trace_has_sizes(t));
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 5; i++) {
			assert_int_equal(trace_file_next(t, &r, &error), TRACE_RECORD);
			assert_true(r.id == ids[i] && r.size == sizes[i]);
		}
		assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
		assert_int_equal(trace_file_rewind(t, &error), 0);
	}
	trace_file_close(t);

	/* One size too few, one and a half too few, one too many. */
	for (unsigned i = 0; i < 3; i++) {
		static const size_t lengths[] = {16, 14, 24};
		static const char *const names[] = {"record 5", "record 4", "after size 5"};

		unlink(sizes_path);
		file_make(sizes_path, "s.sz", sizes, lengths[i]);
		t = opened(path, &options);
		drain(t, &status, &error);
		assert_int_equal(status, i < 2 ? FORGE_E_TRUNCATED : FORGE_E_FORMAT);
		assert_non_null(strstr(error.text, names[i]));
		assert_non_null(strstr(error.text, sizes_path));
		trace_file_close(t);
	}
	unlink(sizes_path);
	unlink(path);
}

static void test_refused_at_open(void **state)
{
	static const char text[] = "time,key,size\n1,2,3\n4,5,6\n7,8,9\n10,11,12\n13,14\n";
	static const struct {
		const char *name;
		const char *format;
		const void *bytes;
		size_t count;
		int status;
		const char *names;
	} cases[] = {
	    {"a.dat", NULL, "\0\0\0\0", 4, FORGE_E_INVAL, "no trace format; give --format"},
	    {"noextension", NULL, "\0\0\0\0", 4, FORGE_E_INVAL, "one of oracleGeneral u32"},
	    {"a.u32", "u33", "\0\0\0\0", 4, FORGE_E_INVAL, "--format=u33 is not known"},
	    {"a.u32", NULL, "\0\0\0\0\0", 5, FORGE_E_TRUNCATED, "record 2 is cut: 5 bytes"},
	    {"a.oracleGeneral", NULL, "\0\0\0\0\0\0\0", 7, FORGE_E_TRUNCATED, "24-byte"},
	    {"a.u32", NULL, text, 44, FORGE_E_FORMAT, "looks like text"},
	    {"a.csv", NULL, "\1\0\0\0\2\0\0\0", 8, FORGE_E_FORMAT, "looks like binary data"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct trace_options options = {.format = cases[i].format};
		struct load_error error = {{0}};
		char path[FILE_PATH_MAX];
		struct trace *t;

		file_make(path, cases[i].name, cases[i].bytes, cases[i].count);
		assert_int_equal(trace_file_open(&t, path, &options, &error), cases[i].status);
		if (strstr(error.text, cases[i].names) == NULL)
			fail_msg("'%s' does not say '%s'", error.text, cases[i].names);
		unlink(path);
	}
}

static void test_absent_and_directory(void **state)
{
	struct trace_options sizes = {.sizes_path = "/nonexistent.sz"};
	struct trace_options sizes_csv = {.sizes_path = "x.sz", .format = "csv"};
	struct load_error error = {{0}};
	char path[FILE_PATH_MAX];
	struct trace *t;

	(void)state;
	assert_int_equal(trace_file_open(&t, "/nonexistent.u32", NULL, &error), FORGE_E_SYSTEM);
	assert_non_null(strstr(error.text, "/nonexistent.u32: No such file"));
	assert_int_equal(trace_file_open(&t, ".", &(struct trace_options){.format = "u32"}, &error),
			 FORGE_E_SYSTEM);
	assert_non_null(strstr(error.text, "directory"));
	file_make(path, "a.u32", "\0\0\0\0", 4);
	assert_int_equal(trace_file_open(&t, path, &sizes, &error), FORGE_E_SYSTEM);
	assert_non_null(strstr(error.text, "/nonexistent.sz"));
	assert_int_equal(trace_file_open(&t, path, &sizes_csv, &error), FORGE_E_INVAL);
	unlink(path);
}

static void test_as_it_is(void **state)
{
	/* Ids that happen to begin like a gzip file. */
	static const unsigned char bytes[8] = {0x1f, 0x8b, 0x08, 0, 1, 0, 0, 0};
	struct trace_options options = {.as_it_is = true};
	struct load_error error = {{0}};
	struct trace_record r;
	char path[FILE_PATH_MAX];
	struct trace *t;

	(void)state;
	file_make(path, "a.u32", bytes, sizeof(bytes));
	t = opened(path, &options);
	assert_int_equal(trace_file_next(t, &r, &error), TRACE_RECORD);
	assert_true(r.id == 0x00088b1f);
	trace_file_close(t);
	unlink(path);
}

static void test_footprint(void **state)
{
	struct oracle records[COUNT];
	struct trace_footprint f;
	struct load_error error = {{0}};
	char path[FILE_PATH_MAX];

	(void)state;
	oracle_make(records);
	file_make(path, "f.oracleGeneral", records, sizeof(records));
	assert_int_equal(trace_footprint(path, NULL, &f, &error), 0);
	assert_true(f.requests == 1000 && f.distinct == 100 && f.collisions == 0);
	assert_true(f.bytes == 100 * 10 + 99 * 100 / 2 && f.request_bytes == 10 * f.bytes);
	assert_true(f.size_max == 109 && f.ops[LOAD_GET] == 1000);
	assert_int_equal(
	    trace_footprint(path, &(struct trace_options){.requests_max = 150}, &f, &error), 0);
	assert_true(f.requests == 150 && f.distinct == 100);
	unlink(path);

	file_make(path, "empty.u32", "", 0);
	assert_int_equal(trace_footprint(path, NULL, &f, &error), 0);
	assert_true(f.requests == 0 && f.distinct == 0);
	unlink(path);
}

static void test_loaded_trace_is_dense_and_shared(void **state)
{
	struct oracle records[COUNT];
	struct load_error error = {{0}};
	struct trace_data d;
	char path[FILE_PATH_MAX];
	int wait_status;
	pid_t child;

	(void)state;
	oracle_make(records);
	file_make(path, "l.oracleGeneral", records, sizeof(records));
	assert_int_equal(trace_load(&d, path, NULL, &error), 0);
	unlink(path);
	assert_true(d.count == COUNT && d.distinct == 100 && d.ops == NULL);
	assert_true(d.footprint.requests == COUNT);
	for (uint32_t i = 0; i < COUNT; i++) {
		assert_true(d.ids[i] == i % 100 && d.sizes[i] == records[i].size);
		assert_true(d.keys[d.ids[i]] == records[i].id);
	}
	child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(d.keys[d.ids[999]] == records[999].id ? 0 : 1);
	assert_true(waitpid(child, &wait_status, 0) == child);
	assert_true(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
	trace_unload(&d);

	file_make(path, "empty.u32", "", 0);
	assert_int_equal(trace_load(&d, path, NULL, &error), FORGE_E_FORMAT);
	assert_non_null(strstr(error.text, "no request"));
	unlink(path);
}

/* Many distinct ids: the tables grow several times. */
static void test_load_grows(void **state)
{
	const uint32_t n = 200000;
	uint32_t *ids = calloc(n, sizeof(*ids));
	struct load_error error = {{0}};
	struct trace_data d;
	char path[FILE_PATH_MAX];

	(void)state;
	assert_non_null(ids);
	for (uint32_t i = 0; i < n; i++)
		ids[i] = i * 2654435761u;
	file_make(path, "g.u32", ids, n * sizeof(*ids));
	assert_int_equal(trace_load(&d, path, NULL, &error), 0);
	assert_true(d.count == n && d.distinct == n && d.sizes == NULL);
	for (uint32_t i = 0; i < n; i++)
		assert_true(d.ids[i] == i && d.keys[i] == ids[i]);
	trace_unload(&d);
	unlink(path);
	free(ids);
}

/* The dense ids of a shared trace. */
static void shared_load(struct trace_data *d, const char *name, const struct trace_options *options)
{
	struct load_error error = {{0}};
	char path[SHARED_PATH_MAX];

	shared_path(path, name);
	if (trace_load(d, path, options, &error) != 0)
		fail_msg("%s", error.text);
}

static void check_equal(const struct trace_data *a, const struct trace_data *b, bool sizes)
{
	assert_true(a->count == b->count && a->distinct == b->distinct);
	assert_memory_equal(a->ids, b->ids, a->count * sizeof(*a->ids));
	if (sizes)
		assert_memory_equal(a->sizes, b->sizes, a->count * sizeof(*a->sizes));
}

static void test_one_trace_in_several_formats(void **state)
{
	struct trace_data ids, oracle, csv;
	char sizes[SHARED_PATH_MAX];
	struct trace_options with_sizes = {.sizes_path = sizes};

	(void)state;
	shared_path(sizes, "traces/ids/cphy_small.sz.zst");
	shared_load(&ids, "traces/ids/cphy_small.u32.zst", &with_sizes);
	shared_load(&oracle, "traces/original/cphy_small.oracleGeneral.zst", NULL);
	shared_load(&csv, "traces/original/cphy_small.csv.zst", NULL);
	check_equal(&ids, &oracle, true);
	/* The bare sizes are each id's first one; the csv has those of the requests. */
	check_equal(&ids, &csv, false);
	assert_true(csv.sizes[0] == ids.sizes[0] && csv.footprint.bytes == ids.footprint.bytes);
	assert_non_null(csv.ops);
	assert_true(csv.footprint.ops[LOAD_GET] > 0 && csv.footprint.ops[LOAD_SET] > 0);
	assert_true(csv.footprint.ops[LOAD_GET] + csv.footprint.ops[LOAD_SET] == csv.count);
	trace_unload(&ids);
	trace_unload(&oracle);
	trace_unload(&csv);
}

static void test_be32_in_xz_equals_ids(void **state)
{
	struct trace_data ids, original;

	(void)state;
	shared_load(&ids, "traces/ids/c2k_web12.u32.zst", NULL);
	shared_load(&original, "traces/original/c2k_web12.be32.xz", NULL);
	check_equal(&ids, &original, false);
	trace_unload(&ids);
	trace_unload(&original);
}

static void test_text_in_xz_equals_ids(void **state)
{
	struct trace_options text = {
	    .format = "csv", .csv_columns = "time,key,size", .csv_delimiter = ' '};
	struct trace_data ids, original;
	char sizes[SHARED_PATH_MAX];
	struct trace_options with_sizes = {.sizes_path = sizes};

	(void)state;
	shared_path(sizes, "traces/ids/adaptsize.sz.zst");
	shared_load(&ids, "traces/ids/adaptsize.u32.zst", &with_sizes);
	shared_load(&original, "traces/original/adaptsize.txt.xz", &text);
	check_equal(&ids, &original, true);
	trace_unload(&ids);
	trace_unload(&original);
}

static void test_text_in_gzip_equals_ids(void **state)
{
	struct trace_options text = {.format = "csv", .csv_columns = "key"};
	struct trace_data ids, original;

	(void)state;
	shared_load(&ids, "traces/ids/lirs_ps.u32.zst", NULL);
	shared_load(&original, "traces/original/lirs_ps.txt.gz", &text);
	check_equal(&ids, &original, false);
	trace_unload(&ids);
	trace_unload(&original);
}

static void test_text_ids_of_a_published_trace(void **state)
{
	struct trace_options columns = {.csv_columns = "time,key,-,size,-,-,-,op"};
	struct trace_data d;

	(void)state;
	shared_load(&d, "traces/original/meta_block_1k.csv", &columns);
	assert_true(d.count > 900 && d.distinct > 10 && d.footprint.collisions == 0);
	assert_true(d.footprint.ops[LOAD_GET] > 0);
	trace_unload(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_oracle_in_every_packing),
	    cmocka_unit_test(test_concatenated_packings),
	    cmocka_unit_test(test_cut_at_every_byte),
	    cmocka_unit_test(test_cut_inside_a_packed_record),
	    cmocka_unit_test(test_damaged_packings),
	    cmocka_unit_test(test_garbage_behind_gzip),
	    cmocka_unit_test(test_bare_ids),
	    cmocka_unit_test(test_sizes_file),
	    cmocka_unit_test(test_refused_at_open),
	    cmocka_unit_test(test_absent_and_directory),
	    cmocka_unit_test(test_as_it_is),
	    cmocka_unit_test(test_footprint),
	    cmocka_unit_test(test_loaded_trace_is_dense_and_shared),
	    cmocka_unit_test(test_load_grows),
	    cmocka_unit_test(test_one_trace_in_several_formats),
	    cmocka_unit_test(test_be32_in_xz_equals_ids),
	    cmocka_unit_test(test_text_in_xz_equals_ids),
	    cmocka_unit_test(test_text_in_gzip_equals_ids),
	    cmocka_unit_test(test_text_ids_of_a_published_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
