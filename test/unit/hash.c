/*
 * The hash is part of the remote format.  Shows that hash_key is XXH3-64 by the test vectors of
 * its author, and pins the mix and the chained checksum, whose values a pool's contents carry,
 * to literals; shows that the checksum sees every byte, the order of pieces and their cut.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

/* The buffer of the xxHash self test. */
static void fill_vector(unsigned char *b, size_t bytes)
{
	uint64_t g = 2654435761u;

	for (size_t i = 0; i < bytes; i++) {
		b[i] = (unsigned char)(g >> 56);
		g *= 11400714785074694797u;
	}
}

static void key_hash_is_xxh3(void **state)
{
	static const struct {
		size_t bytes;
		uint64_t hash;
	} vector[] = {
	    {0, 0x2d06800538d394c2},	{1, 0xc44bdff4074eecdb},   {6, 0x27b56a84cd2d7325},
	    {12, 0xa713daf0dfbb77e7},	{24, 0xa3fe70bf9d3510eb},  {48, 0x397da259ecba1f11},
	    {80, 0xbcdefbbb2c47c90a},	{195, 0xcd94217ee362ec3a}, {403, 0xcdeb804d65c6dea4},
	    {2048, 0xdd59e2c3a5f038e0},
	};
	unsigned char b[2048];

	fill_vector(b, sizeof(b));
	for (size_t i = 0; i < sizeof(vector) / sizeof(*vector); i++)
		assert_true(hash_key(b, vector[i].bytes) == vector[i].hash);
}

/* Outputs of splitmix64 seeded with 1234567, which are mixes of multiples of the increment. */
static void mix_is_splitmix64(void **state)
{
	assert_true(hash_mix(1234567 + 1 * 0x9e3779b97f4a7c15u) == 6457827717110365317u);
	assert_true(hash_mix(1234567 + 2 * 0x9e3779b97f4a7c15u) == 3203168211198807973u);
	assert_true(hash_mix(1234567 + 3 * 0x9e3779b97f4a7c15u) == 9817491932198370423u);
}

static void checksum_is_pinned(void **state)
{
	uint64_t one = hash_checksum(0, "forge", 5);

	assert_true(one == UINT64_C(0x99bcd98c768a1650));
	assert_true(hash_checksum(one, "forge", 5) == UINT64_C(0x9a74b71687c7af5));
	assert_true(hash_checksum(0, "", 0) == UINT64_C(0x955be52865bcb81b));
	assert_int_equal(hash_fold32(0x1234567800000001), 0x12345679);
}

static void checksum_sees_every_bit_and_the_order(void **state)
{
	unsigned char b[300];
	uint64_t whole;

	fill_vector(b, sizeof(b));
	whole = hash_checksum(0, b, sizeof(b));
	for (size_t bit = 0; bit < 8 * sizeof(b); bit++) {
		b[bit / 8] ^= (unsigned char)(1 << bit % 8);
		assert_true(hash_checksum(0, b, sizeof(b)) != whole);
		b[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	assert_true(hash_checksum(0, b, sizeof(b)) == whole);
	assert_true(hash_checksum(hash_checksum(0, b, 10), b + 10, 20) !=
		    hash_checksum(hash_checksum(0, b + 10, 20), b, 10));
	assert_true(hash_checksum(hash_checksum(0, b, 10), b + 10, 20) !=
		    hash_checksum(hash_checksum(0, b, 11), b + 11, 19));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(key_hash_is_xxh3),
	    cmocka_unit_test(mix_is_splitmix64),
	    cmocka_unit_test(checksum_is_pinned),
	    cmocka_unit_test(checksum_sees_every_bit_and_the_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
