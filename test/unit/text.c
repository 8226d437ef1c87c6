/*
 * What people read: numbers with units at every change of unit, wrapped sentences, aligned
 * tables, and number parsing with its refusals.  Each case states the exact text expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/parse.h"
#include "base/status.h"
#include "base/text.h"

static void numbers_have_three_digits_and_a_unit(void **state)
{
	struct text t;

	assert_string_equal(text_bytes(&t, 0), "0 B");
	assert_string_equal(text_bytes(&t, 1023), "1023 B");
	assert_string_equal(text_bytes(&t, 1024), "1.00 KiB");
	assert_string_equal(text_bytes(&t, 1536), "1.50 KiB");
	assert_string_equal(text_bytes(&t, UINT64_C(128) << 20), "128 MiB");
	assert_string_equal(text_bytes(&t, (UINT64_C(1) << 30) - 1), "1.00 GiB");
	assert_string_equal(text_count(&t, 999), "999");
	assert_string_equal(text_count(&t, 1234567), "1.23 M");
	assert_string_equal(text_count(&t, 999700), "1.00 M");
	assert_string_equal(text_rate(&t, 45600), "45.6 k/s");
	assert_string_equal(text_rate(&t, 0.25), "0.25/s");
	assert_string_equal(text_percent(&t, 0.1234), "12.3 %");
	assert_string_equal(text_percent(&t, 0.001234), "0.12 %");
	assert_string_equal(text_percent(&t, 0), "0.0 %");
	assert_string_equal(text_percent(&t, 1), "100.0 %");
	assert_string_equal(text_duration(&t, 850), "850 ns");
	assert_string_equal(text_duration(&t, 1234), "1.23 us");
	assert_string_equal(text_duration(&t, 61000000000), "61.0 s");
	assert_string_equal(text_grouped(&t, 0), "0");
	assert_string_equal(text_grouped(&t, 999), "999");
	assert_string_equal(text_grouped(&t, 1234567), "1,234,567");
	assert_string_equal(text_grouped(&t, UINT64_MAX), "18,446,744,073,709,551,615");
}

static void a_table_is_aligned(void **state)
{
	char *got = NULL;
	size_t bytes;
	FILE *out = open_memstream(&got, &bytes);
	struct text_table *t = text_table_open("lr");

	assert_non_null(out);
	text_table_cell(t, "policy");
	text_table_cell(t, "hits");
	text_table_rule(t);
	text_table_cell(t, "lru");
	text_table_cell(t, "%d", 7);
	text_table_cell(t, "m\xc3\xa4\xc3\x9fig");
	text_table_cell(t, "%d", 12345);
	assert_int_equal(text_table_print(t, out), 0);
	text_table_close(t);
	fclose(out);
	assert_string_equal(got, "policy   hits\n"
				 "------  -----\n"
				 "lru         7\n"
				 "m\xc3\xa4\xc3\x9fig   12345\n");
	free(got);
}

static void a_table_that_cannot_be_written_says_so(void **state)
{
	FILE *out = fopen("/dev/full", "w");
	struct text_table *t = text_table_open("l");

	if (!out) {
		print_message("skipped: there is no /dev/full here\n");
		text_table_close(t);
		skip();
	}
	setvbuf(out, NULL, _IONBF, 0);
	text_table_cell(t, "x");
	assert_int_equal(text_table_print(t, out), FORGE_E_SYSTEM);
	text_table_close(t);
	fclose(out);
}

static void sentences_wrap_at_spaces(void **state)
{
	char *got = NULL;
	size_t bytes;
	FILE *out = open_memstream(&got, &bytes);

	assert_non_null(out);
	text_wrap(out, "one two  three four overlongwordhere", 2, 12);
	fclose(out);
	assert_string_equal(got, "one two\n  three four\n  overlongwordhere\n");
	free(got);
}

static void integers_are_whole_strings(void **state)
{
	uint64_t v = 77;

	assert_int_equal(parse_u64("18446744073709551615", &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(parse_u64("0xDEADbeef", &v), 0);
	assert_int_equal(v, 0xdeadbeef);
	assert_int_equal(parse_u64("007", &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(parse_u64("18446744073709551616", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_u64("0x10000000000000000", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_u64("", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64("0x", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64("-1", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64("+1", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64(" 1", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64("1 ", &v), FORGE_E_INVAL);
	assert_int_equal(parse_u64("1k", &v), FORGE_E_INVAL);
	/* Written only on success. */
	assert_int_equal(v, 7);
}

static void counts_take_powers_of_1000(void **state)
{
	uint64_t v = 77;

	assert_int_equal(parse_count("4096", &v), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(parse_count("0x10", &v), 0);
	assert_int_equal(v, 16);
	assert_int_equal(parse_count("64k", &v), 0);
	assert_int_equal(v, 64000);
	assert_int_equal(parse_count("1.5M", &v), 0);
	assert_int_equal(v, 1500000);
	assert_int_equal(parse_count("18G", &v), 0);
	assert_true(v == UINT64_C(18000000000));
	assert_int_equal(parse_count("18446744074G", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_count("99999999999999999999", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_count("1e6", &v), FORGE_E_INVAL);
	assert_int_equal(parse_count("1KiB", &v), FORGE_E_INVAL);
	assert_int_equal(parse_count("k", &v), FORGE_E_INVAL);
	assert_int_equal(parse_count("-1k", &v), FORGE_E_INVAL);
	assert_true(v == UINT64_C(18000000000));
}

static void sizes_and_durations_take_suffixes(void **state)
{
	uint64_t v = 77;

	assert_int_equal(parse_bytes("4096", &v), 0);
	assert_int_equal(v, 4096);
	assert_int_equal(parse_bytes("64K", &v), 0);
	assert_int_equal(v, 65536);
	assert_int_equal(parse_bytes("1.5GiB", &v), 0);
	assert_true(v == UINT64_C(3) << 29);
	assert_int_equal(parse_bytes("0.1k", &v), 0);
	assert_int_equal(v, 102);
	assert_int_equal(parse_bytes("16777215T", &v), 0);
	assert_true(v == UINT64_C(16777215) << 40);
	assert_int_equal(parse_bytes("16777216T", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_bytes("1X", &v), FORGE_E_INVAL);
	assert_int_equal(parse_bytes("1.", &v), FORGE_E_INVAL);
	assert_int_equal(parse_bytes(".5K", &v), FORGE_E_INVAL);
	assert_int_equal(parse_bytes("K", &v), FORGE_E_INVAL);
	assert_int_equal(parse_bytes("1KK", &v), FORGE_E_INVAL);
	assert_int_equal(parse_duration_us("100us", &v), 0);
	assert_int_equal(v, 100);
	/* Without a unit nobody knows what is meant, except for nothing at all. */
	assert_int_equal(parse_duration_us("100", &v), FORGE_E_INVAL);
	assert_int_equal(v, 100);
	assert_int_equal(parse_duration_us("0", &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(parse_duration_us("5ms", &v), 0);
	assert_int_equal(v, 5000);
	assert_int_equal(parse_duration_us("0.25s", &v), 0);
	assert_int_equal(v, 250000);
	assert_int_equal(parse_duration_us("2m", &v), 0);
	assert_int_equal(v, 120000000);
	assert_int_equal(parse_duration_us("5 ms", &v), FORGE_E_INVAL);
}

static void decimals_are_finite(void **state)
{
	double v = 77;

	assert_int_equal(parse_double("-0.99", &v), 0);
	assert_true(v == -0.99);
	assert_int_equal(parse_double("1e3", &v), 0);
	assert_true(v == 1000);
	assert_int_equal(parse_double("1e999", &v), FORGE_E_NO_SPACE);
	assert_int_equal(parse_double("nan", &v), FORGE_E_INVAL);
	assert_int_equal(parse_double("0x10", &v), FORGE_E_INVAL);
	assert_int_equal(parse_double("1.2.3", &v), FORGE_E_INVAL);
	assert_int_equal(parse_double("", &v), FORGE_E_INVAL);
	assert_true(v == 1000);
}

static void a_list_of_counts_is_cut_where_it_is_full(void **state)
{
	char text[24] = "";
	size_t used = text_list(text, sizeof(text), 0, "lost", 0);

	assert_int_equal(used, 0);
	used = text_list(text, sizeof(text), used, "freed", 3);
	used = text_list(text, sizeof(text), used, "reset", 12);
	assert_string_equal(text, "freed: 3; reset: 12");
	used = text_list(text, sizeof(text), used, "queued again", 1);
	assert_string_equal(text, "freed: 3; reset: 12; qu");
	assert_true(text_list(text, sizeof(text), used, "more", 1) == used);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(numbers_have_three_digits_and_a_unit),
	    cmocka_unit_test(a_table_is_aligned),
	    cmocka_unit_test(a_table_that_cannot_be_written_says_so),
	    cmocka_unit_test(a_list_of_counts_is_cut_where_it_is_full),
	    cmocka_unit_test(sentences_wrap_at_spaces),
	    cmocka_unit_test(integers_are_whole_strings),
	    cmocka_unit_test(counts_take_powers_of_1000),
	    cmocka_unit_test(sizes_and_durations_take_suffixes),
	    cmocka_unit_test(decimals_are_finite),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
