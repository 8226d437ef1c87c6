/*
 * load_csv.c: the text trace reader.
 *
 * Shows on small texts that columns are found from the option, the header or by number; that
 * comments, quotes, CR LF, byte-order marks and missing last line ends are read; that text
 * ids become hashes with a check, and a forced collision is counted; that every malformed line is
 * named by its number with a remedy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "load/trace.h"
#include "load_file.h"

#define RECORDS_MAX 8

struct expected {
	uint64_t time, id, size;
	enum load_op_kind op;
};

static void check(const char *text, const struct trace_options *options, unsigned count,
		  const struct expected expected[])
{
	struct load_error error = {{0}};
	char path[FILE_PATH_MAX];
	struct trace *t;

	file_make(path, "t.csv", text, strlen(text));
	if (trace_file_open(&t, path, options, &error) != 0)
		fail_msg("%s", error.text);
	for (unsigned round = 0; round < 2; round++) {
		struct trace_record r;

		for (unsigned i = 0; i < count; i++) {
			if (trace_file_next(t, &r, &error) != TRACE_RECORD)
				fail_msg("record %u of '%s': %s", i, text, error.text);
			if (r.time != expected[i].time || r.id != expected[i].id ||
			    r.size != expected[i].size || r.op != expected[i].op)
				fail_msg("record %u of '%s' differs", i, text);
		}
		assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
		assert_int_equal(trace_file_rewind(t, &error), 0);
	}
	trace_file_close(t);
	unlink(path);
}

static uint64_t text_id(const char *text)
{
	return XXH3_128bits(text, strlen(text)).low64;
}

static void test_columns_by_number(void **state)
{
	(void)state;
	check("5\n6\n", NULL, 2, (struct expected[]){{0, 5, 0, 0}, {0, 6, 0, 0}});
	check("1,5\n", NULL, 1, (struct expected[]){{1, 5, 0, 0}});
	check("1,5,9\n", NULL, 1, (struct expected[]){{1, 5, 9, 0}});
	check("1,5,9,set\n2,5,9,GET\n", NULL, 2,
	      (struct expected[]){{1, 5, 9, LOAD_SET}, {2, 5, 9, LOAD_GET}});
}

static void test_columns_by_header(void **state)
{
	(void)state;
	check("version,time,op,size,lbn\n1,5633898,2a,512,42\n1,5633899,28,1024,43\n", NULL, 2,
	      (struct expected[]){{5633898, 42, 512, LOAD_SET}, {5633899, 43, 1024, LOAD_GET}});
	check("Key,SIZE\n7,8\n", NULL, 1, (struct expected[]){{0, 7, 8, 0}});
}

static void test_columns_by_option(void **state)
{
	struct trace_options o = {.csv_columns = "-,size,key,-,time"};

	(void)state;
	check("x,10,20,y,30,and,more\n", &o, 1, (struct expected[]){{30, 20, 10, 0}});
	/* A header is recognised by the names where numbers belong. */
	check("a,bytes,what,b,when\nx,10,20,y,30\n", &o, 1, (struct expected[]){{30, 20, 10, 0}});
}

static void test_header_override(void **state)
{
	struct trace_options yes = {.csv_columns = "key", .csv_header = TRACE_HEADER_YES};
	struct trace_options no = {.csv_columns = "key", .csv_header = TRACE_HEADER_NO};
	struct trace_options automatic = {.csv_columns = "key"};

	(void)state;
	check("1\n2\n", &yes, 1, (struct expected[]){{0, 2, 0, 0}});
	check("key\n2\n", &no, 2, (struct expected[]){{0, text_id("key"), 0, 0}, {0, 2, 0, 0}});
	check("key\n2\n", &automatic, 1, (struct expected[]){{0, 2, 0, 0}});
	check("alice\n2\n", &automatic, 2,
	      (struct expected[]){{0, text_id("alice"), 0, 0}, {0, 2, 0, 0}});
}

static void test_lines(void **state)
{
	(void)state;
	check("", NULL, 0, NULL);
	check("# only a comment\n\n", NULL, 0, NULL);
	check("# c\n\n1,5\r\n  # c\n2,6\n \n3,7", NULL, 3,
	      (struct expected[]){{1, 5, 0, 0}, {2, 6, 0, 0}, {3, 7, 0, 0}});
	check("\xef\xbb\xbftime,key\n1,5\n", NULL, 1, (struct expected[]){{1, 5, 0, 0}});
	check(" 1 ,\t5 , 9 \n", NULL, 1, (struct expected[]){{1, 5, 9, 0}});
	check("1633.75,5\n", NULL, 1, (struct expected[]){{1633, 5, 0, 0}});
}

static void test_quotes(void **state)
{
	(void)state;
	check("1,\"a,b\",9\n2,\"say \"\"x\"\"\",\"10\"\n3,\"\"\"\",11\n4,\"#5\",12\n", NULL, 4,
	      (struct expected[]){{1, text_id("a,b"), 9, 0},
				  {2, text_id("say \"x\""), 10, 0},
				  {3, text_id("\""), 11, 0},
				  {4, text_id("#5"), 12, 0}});
}

static void test_delimiters(void **state)
{
	struct trace_options tab = {.csv_delimiter = '\t'};
	struct trace_options blank = {.csv_delimiter = ' '};

	(void)state;
	check("1\t5,5\t9\n", &tab, 1, (struct expected[]){{1, text_id("5,5"), 9, 0}});
	check("  1   5 9  \n2 6 10\n", &blank, 2, (struct expected[]){{1, 5, 9, 0}, {2, 6, 10, 0}});
}

static void test_ids(void **state)
{
	struct trace_options key = {.csv_columns = "key", .csv_header = TRACE_HEADER_NO};

	(void)state;
	check("18446744073709551615\n18446744073709551616\n007\n0\n-1\n0x10\n", &key, 6,
	      (struct expected[]){{0, UINT64_MAX, 0, 0},
				  {0, text_id("18446744073709551616"), 0, 0},
				  {0, text_id("007"), 0, 0},
				  {0, 0, 0, 0},
				  {0, text_id("-1"), 0, 0},
				  {0, text_id("0x10"), 0, 0}});
}

static void test_collisions_are_counted(void **state)
{
	/* A number that is the hash of the text beside it collides with it by construction. */
	struct trace_options key = {.csv_columns = "key"};
	struct trace_footprint f;
	struct load_error error = {{0}};
	char path[FILE_PATH_MAX];
	char text[256];

	(void)state;
	snprintf(text, sizeof(text), "alice\nalice\n%llu\nbob\nalice\n",
		 (unsigned long long)text_id("alice"));
	file_make(path, "c.csv", text, strlen(text));
	assert_int_equal(trace_footprint(path, &key, &f, &error), 0);
	assert_true(f.requests == 5 && f.distinct == 2 && f.collisions == 1);
	unlink(path);
}

static void test_operations(void **state)
{
	struct trace_options o = {.csv_columns = "key,op"};

	(void)state;
	check("1,get\n2,ADD\n3,replace\n4,incr\n5,Delete\n6,getChunkData.Permanent\n7,putChunk.x\n",
	      &o, 7,
	      (struct expected[]){{0, 1, 0, LOAD_GET},
				  {0, 2, 0, LOAD_INSERT},
				  {0, 3, 0, LOAD_UPDATE},
				  {0, 4, 0, LOAD_RMW},
				  {0, 5, 0, LOAD_DELETE},
				  {0, 6, 0, LOAD_GET},
				  {0, 7, 0, LOAD_SET}});
}

/* Open and read to the end; it must fail with this status and a sentence that holds names. */
static void check_refused(const char *text, size_t bytes, const struct trace_options *options,
			  int expected, const char *names)
{
	struct load_error error = {{0}};
	struct trace_record r;
	char path[FILE_PATH_MAX];
	struct trace *t;
	int status;

	file_make(path, "bad.csv", text, bytes);
	status = trace_file_open(&t, path, options, &error);
	if (status == 0) {
		while ((status = trace_file_next(t, &r, &error)) == TRACE_RECORD)
			;
		trace_file_close(t);
	}
	if (status != expected || strstr(error.text, names) == NULL)
		fail_msg("'%s' gave %d '%s', not '%s'", text, status, error.text, names);
	if (expected != FORGE_E_INVAL)
		assert_non_null(strstr(error.text, path));
	unlink(path);
}

static void test_malformed_lines(void **state)
{
	static const struct {
		const char *text;
		const char *names;
	} cases[] = {
	    {"1,5,9\n2,6\n", "line 2 has 2 of the 3 columns"},
	    {"1,5,9\n# c\n\nx,6,9\n", "line 4: time 'x'"},
	    {"1,5,9\n-2,6,9\n", "line 2: time '-2'"},
	    {"1,5,9\n2.x,6,9\n", "line 2: time '2.x'"},
	    {"1,5,9\n2,6,nine\n", "line 2: size 'nine'"},
	    {"1,5,9\n2,6,-9\n", "line 2: size '-9'"},
	    {"1,5,9\n2,6,\n", "line 2: size ''"},
	    {"1,5,9\n2,6,18446744073709551616\n", "line 2: size '18446744073709551616'"},
	    {"1,5,9\n2,,9\n", "line 2: key '' is empty"},
	    {"1,5,9,get\n2,6,9,jump\n", "line 2: operation 'jump'"},
	    {"1,5,9\n2,\"6,9\n", "line 2 has a quote that is not closed"},
	    {"1,5,9\n2,\"6\"7,9\n", "line 2 has characters behind a closing quote"},
	    {"time,colour,size\n1,5,9\n", "line 1 is known to be the key"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
		check_refused(cases[i].text, strlen(cases[i].text), NULL, FORGE_E_FORMAT,
			      cases[i].names);
	check_refused("1,5\n2,6\0,7\n", 11, &(struct trace_options){.format = "csv"},
		      FORGE_E_FORMAT, "line 2 holds a NUL byte");
}

static void test_long_lines(void **state)
{
	size_t bytes = 70000;
	char *text = malloc(bytes + 2);
	struct trace_options key = {.csv_columns = "key"};

	(void)state;
	assert_non_null(text);
	text[0] = '7';
	text[1] = '\n';
	memset(text + 2, 'k', bytes);
	text[bytes - 1] = '\n';
	check_refused(text, bytes, &key, FORGE_E_FORMAT, "line 2 is longer than 65535 bytes");
	/* The longest that is allowed, across the reader's window. */
	text[65537] = '\0';
	check(text, &key, 2, (struct expected[]){{0, 7, 0, 0}, {0, text_id(text + 2), 0, 0}});
	free(text);
}

static void test_options_refused(void **state)
{
	static const struct {
		const char *columns;
		const char *names;
	} cases[] = {
	    {"", "'' is not known"},
	    {"time,size", "must name the key"},
	    {"key,key", "'key' is there twice"},
	    {"key,colour", "'colour' is not known"},
	    {"key,", "'' is not known"},
	    {"ke", "'ke' is not known"},
	    {"id", "'id' is not known"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
		check_refused("1\n", 2, &(struct trace_options){.csv_columns = cases[i].columns},
			      FORGE_E_INVAL, cases[i].names);
	check_refused("1\n", 2, &(struct trace_options){.csv_delimiter = '"'}, FORGE_E_INVAL,
		      "delimiter");
}

/* Enough lines that the window slides many times, with each line's place checked. */
static void test_many_lines(void **state)
{
	const unsigned n = 30000;
	size_t room = n * 24;
	char *text = malloc(room);
	struct load_error error = {{0}};
	struct trace_record r;
	char path[FILE_PATH_MAX];
	struct trace *t;
	size_t at = 0;

	(void)state;
	assert_non_null(text);
	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(text + at, room - at, "%u,%u,%u\n", i, i * 7, i % 1000);
	file_make(path, "many.csv", text, at);
	assert_int_equal(trace_file_open(&t, path, NULL, &error), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(trace_file_next(t, &r, &error), TRACE_RECORD);
		assert_true(r.time == i && r.id == i * 7 && r.size == i % 1000);
	}
	assert_int_equal(trace_file_next(t, &r, &error), TRACE_END);
	trace_file_close(t);
	unlink(path);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_columns_by_number),
	    cmocka_unit_test(test_columns_by_header),
	    cmocka_unit_test(test_columns_by_option),
	    cmocka_unit_test(test_header_override),
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_quotes),
	    cmocka_unit_test(test_delimiters),
	    cmocka_unit_test(test_ids),
	    cmocka_unit_test(test_collisions_are_counted),
	    cmocka_unit_test(test_operations),
	    cmocka_unit_test(test_malformed_lines),
	    cmocka_unit_test(test_long_lines),
	    cmocka_unit_test(test_options_refused),
	    cmocka_unit_test(test_many_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
