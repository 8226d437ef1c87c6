/*
 * load_value.c: key texts and stamped values.
 *
 * Shows that a key text and only that text parses back; that a stamped value of any length up
 * to a few hundred bytes verifies, and that every single-bit flip, every cut between two
 * versions at any byte, every shift, another key and another length are found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "load/key.h"
#include "load/value.h"

#define BYTES_MAX 300

static void test_key_text_round_trip(void **state)
{
	static const uint64_t ids[] = {0,	  1, 999, 9999999999999999u, 10000000000000000u,
				       UINT64_MAX};
	static const size_t lengths[] = {20, 20, 20, 20, 21, 24};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(ids); i++) {
		char text[LOAD_KEY_TEXT_MAX];
		uint64_t id = 77;

		assert_int_equal(load_key_text(ids[i], text), lengths[i]);
		assert_true(load_key_parse(text, lengths[i], &id));
		assert_true(id == ids[i]);
	}
}

static void test_key_text_expected(void **state)
{
	char text[LOAD_KEY_TEXT_MAX];

	(void)state;
	load_key_text(1234567, text);
	assert_memory_equal(text, "user0000000001234567", 20);
	load_key_text(UINT64_MAX, text);
	assert_memory_equal(text, "user18446744073709551615", 24);
}

static void test_key_text_refused(void **state)
{
	static const char *const texts[] = {
	    "",
	    "user",
	    "user123",
	    "usex0000000001234567",
	    "user000000000123456x",
	    "user00000000001234567",	/* 17 digits with padding: not canonical */
	    "user18446744073709551616", /* 2^64 */
	    "user99999999999999999999",
	    "user000000000000000000001",
	    "user-000000000123456",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
		uint64_t id = 77;

		assert_false(load_key_parse(texts[i], strlen(texts[i]), &id));
		assert_true(id == 77);
	}
}

static void test_value_round_trip(void **state)
{
	(void)state;
	for (size_t bytes = 0; bytes <= BYTES_MAX; bytes++) {
		unsigned char buf[BYTES_MAX + 2];
		uint64_t version = 7;

		memset(buf, 0xee, sizeof(buf));
		value_fill(buf + 1, bytes, 42, 5, 9);
		/* Nothing outside is touched; unaligned buffers are allowed. */
		assert_true(buf[0] == 0xee && buf[bytes + 1] == 0xee);
		assert_int_equal(value_verify(buf + 1, bytes, 42, &version), VALUE_GOOD);
		assert_true(version == (bytes >= 8 ? 5 : 0));
		assert_int_equal(value_writer(buf + 1, bytes), bytes >= VALUE_STAMP_BYTES ? 9 : 0);
	}
}

static void test_every_bit_flip_is_found(void **state)
{
	(void)state;
	for (size_t bytes = 1; bytes <= BYTES_MAX; bytes += bytes < 40 ? 1 : 37) {
		unsigned char buf[BYTES_MAX];

		value_fill(buf, bytes, 1000, 77, 3);
		for (size_t bit = 0; bit < bytes * 8; bit++) {
			uint64_t version = 1;

			buf[bit / 8] ^= (unsigned char)(1 << bit % 8);
			assert_int_not_equal(value_verify(buf, bytes, 1000, &version), VALUE_GOOD);
			assert_true(version == 1);
			buf[bit / 8] ^= (unsigned char)(1 << bit % 8);
		}
		assert_int_equal(value_verify(buf, bytes, 1000, NULL), VALUE_GOOD);
	}
}

/* The first cut bytes of one version, then the other: torn unless the cut is at an end. */
static void check_mixtures(size_t bytes, uint64_t key, uint64_t other_key, uint64_t other_version)
{
	unsigned char one[BYTES_MAX];
	unsigned char other[BYTES_MAX];

	value_fill(one, bytes, key, 8, 1);
	value_fill(other, bytes, other_key, other_version, 1);
	for (size_t cut = 1; cut < bytes; cut++) {
		unsigned char mix[BYTES_MAX];
		bool differs;

		memcpy(mix, one, cut);
		memcpy(mix + cut, other + cut, bytes - cut);
		/* Equal bytes on one side of the cut make no mixture. */
		differs = memcmp(mix, one, bytes) != 0;
		assert_int_equal(value_verify(mix, bytes, key, NULL) != VALUE_GOOD,
				 differs && memcmp(mix, other, bytes) != 0);
	}
}

static void test_mixtures_are_found(void **state)
{
	(void)state;
	for (size_t bytes = 8; bytes <= 40; bytes++)
		check_mixtures(bytes, 5, 5, 9);
	check_mixtures(256, 5, 5, 9);
	check_mixtures(299, 5, 5, 9);
}

static void test_another_key_is_found(void **state)
{
	(void)state;
	for (size_t bytes = 4; bytes <= BYTES_MAX; bytes++) {
		unsigned char buf[BYTES_MAX];

		value_fill(buf, bytes, 5, 8, 1);
		assert_int_equal(value_verify(buf, bytes, 6, NULL),
				 bytes >= VALUE_STAMP_BYTES ? VALUE_OTHER_KEY : VALUE_TORN);
	}
}

static void test_another_length_is_found(void **state)
{
	unsigned char buf[BYTES_MAX];

	(void)state;
	value_fill(buf, 256, 5, 8, 1);
	assert_int_equal(value_verify(buf, 200, 5, NULL), VALUE_OTHER_LENGTH);
	assert_int_equal(value_verify(buf, 20, 5, NULL), VALUE_TORN);
	value_fill(buf, 200, 5, 8, 1);
	assert_int_equal(value_verify(buf, 256, 5, NULL), VALUE_OTHER_LENGTH);
}

static void test_shifted_body_is_found(void **state)
{
	unsigned char buf[BYTES_MAX];

	(void)state;
	for (size_t shift = 1; shift <= 64; shift++) {
		value_fill(buf, 256, 5, 8, 1);
		memmove(buf + VALUE_STAMP_BYTES, buf + VALUE_STAMP_BYTES + shift,
			256 - VALUE_STAMP_BYTES - shift);
		assert_int_equal(value_verify(buf, 256, 5, NULL), VALUE_TORN);
	}
}

static void test_description_names_the_place(void **state)
{
	unsigned char buf[256];
	char text[256];

	(void)state;
	value_fill(buf, sizeof(buf), 5, 8, 1);
	buf[100] ^= 1;
	value_describe(buf, sizeof(buf), 5, text, sizeof(text));
	assert_string_equal(text, "key 5, 256 bytes: torn or mixed, first wrong byte at 100; the "
				  "header says key 5, version 8, writer 1, 256 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_key_text_round_trip),
	    cmocka_unit_test(test_key_text_expected),
	    cmocka_unit_test(test_key_text_refused),
	    cmocka_unit_test(test_value_round_trip),
	    cmocka_unit_test(test_every_bit_flip_is_found),
	    cmocka_unit_test(test_mixtures_are_found),
	    cmocka_unit_test(test_another_key_is_found),
	    cmocka_unit_test(test_another_length_is_found),
	    cmocka_unit_test(test_shifted_body_is_found),
	    cmocka_unit_test(test_description_names_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
