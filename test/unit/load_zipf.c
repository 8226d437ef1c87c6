/*
 * load_zipf.c: the Zipf samplers against theory.
 *
 * Shows that zipf_zeta() equals the plain sum; that zipf_exact follows 1 / (i^theta * zeta) for
 * thetas on both sides of 1 (each head rank within 4.5 sigmas, chi-square over all ranks in
 * bins); that zipf_gray is exact where Gray et al. promise it (the two first ranks) and
 * within a stated distance elsewhere, also after resizing; that zipf_scramble() is a bijection.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "load/zipf.h"
#include "load_stats.h"

#define DRAWS 1000000

static double plain_zeta(uint64_t n, double theta)
{
	double sum = 0;

	for (uint64_t i = n; i >= 1; i--)
		sum += pow((double)i, -theta);
	return sum;
}

static void test_zeta_equals_the_sum(void **state)
{
	static const double thetas[] = {0, 0.5, 0.9, 0.99, 1, 1.2, 2, 5};
	static const uint64_t ns[] = {1, 2, 255, 256, 257, 1000, 200000};

	(void)state;
	for (size_t t = 0; t < ARRAY_COUNT(thetas); t++) {
		for (size_t i = 0; i < ARRAY_COUNT(ns); i++) {
			double plain = plain_zeta(ns[i], thetas[t]);

			assert_true(fabs(zipf_zeta(ns[i], thetas[t]) - plain) < 1e-10 * plain);
		}
	}
}

/* Ranks in bins [2^i, 2^(i+1)), in 1-based ranks, as their share of the mass. */
static void check_law(uint64_t n, double theta, uint64_t seed)
{
	uint64_t bins[64] = {0};
	double expected[64] = {0};
	uint64_t head[10] = {0};
	double zeta = plain_zeta(n, theta);
	struct zipf_exact z;
	struct prng p;
	size_t cells = 0;

	zipf_exact_init(&z, n, theta);
	prng_seed(&p, seed);
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t rank = zipf_exact_rank(&z, &p);

		assert_true(rank < n);
		if (rank < 10)
			head[rank]++;
		bins[63 - __builtin_clzll(rank + 1)]++;
	}
	for (uint64_t i = 1; i <= n; i++)
		expected[63 - __builtin_clzll(i)] += pow((double)i, -theta) / zeta * DRAWS;
	for (unsigned rank = 0; rank < 10 && rank < n; rank++) {
		double share = pow(rank + 1, -theta) / zeta;

		if (share < 1)
			assert_true(sigmas(head[rank], DRAWS, share) < 4.5);
	}
	/* Chi-square wants some draws in each cell: fold a thin tail into its neighbour. */
	while (cells < 64 && expected[cells] >= 20)
		cells++;
	for (size_t i = cells; i < 64 && cells > 0; i++) {
		expected[cells - 1] += expected[i];
		bins[cells - 1] += bins[i];
	}
	if (cells > 1)
		assert_true(chi_square(bins, expected, cells) < chi_square_limit(cells - 1));
}

static void test_exact_follows_the_law(void **state)
{
	static const double thetas[] = {0, 0.5, 0.9, 0.99, 1, 1.2, 2, 8};

	(void)state;
	for (size_t t = 0; t < ARRAY_COUNT(thetas); t++)
		check_law(100000, thetas[t], 11 + t);
	check_law(1, 0.99, 5);
	check_law(2, 0.99, 6);
	check_law(3, 1.3, 7);
}

static void test_gray_head(void **state)
{
	const uint64_t n = 1000000;
	double zeta = plain_zeta(n, 0.99);
	uint64_t head[10] = {0};
	uint64_t decades[7] = {0};
	struct zipf_gray z;
	struct prng p;

	(void)state;
	zipf_gray_init(&z, n, 0.99);
	prng_seed(&p, 3);
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t rank = zipf_gray_rank(&z, &p);

		assert_true(rank < n);
		if (rank < 10)
			head[rank]++;
		for (unsigned d = 0; d < 7; d++)
			decades[d] += (double)rank < pow(10, d);
	}
	assert_true(sigmas(head[0], DRAWS, 1 / zeta) < 4.5);
	assert_true(sigmas(head[1], DRAWS, pow(2, -0.99) / zeta) < 4.5);
	for (unsigned rank = 2; rank < 10; rank++) {
		double law = pow(rank + 1, -0.99) / zeta * DRAWS;

		assert_true(fabs((double)head[rank] / law - 1) < 0.27);
	}
	/* The mass of the first 10^d ranks is within 2 points of the law. */
	for (unsigned d = 1; d < 7; d++)
		assert_true(fabs(decades[d] / (double)DRAWS -
				 zipf_zeta((uint64_t)pow(10, d), 0.99) / zeta) < 0.02);
}

static void test_gray_resize_equals_init(void **state)
{
	static const uint64_t ns[] = {1, 2, 3, 100, 256, 300, 1000, 100000, 100001, 50};
	struct zipf_gray resized;

	(void)state;
	zipf_gray_init(&resized, 10, 0.99);
	for (size_t i = 0; i < ARRAY_COUNT(ns); i++) {
		struct zipf_gray fresh;

		zipf_gray_resize(&resized, ns[i]);
		zipf_gray_init(&fresh, ns[i], 0.99);
		assert_true(resized.n == fresh.n && resized.zeta == fresh.zeta);
		assert_true(resized.eta == fresh.eta && isfinite(fresh.eta));
	}
}

static void test_gray_of_few_ranks(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 3; n++) {
		double zeta = plain_zeta(n, 0.7);
		uint64_t seen[3] = {0};
		struct zipf_gray z;
		struct prng p;

		zipf_gray_init(&z, n, 0.7);
		prng_seed(&p, n);
		for (unsigned i = 0; i < 100000; i++)
			seen[zipf_gray_rank(&z, &p)]++;
		for (uint64_t r = 0; r < n && n > 1; r++)
			assert_true(sigmas(seen[r], 100000, pow((double)r + 1, -0.7) / zeta) < 4.5);
		assert_true(n > 1 || seen[0] == 100000);
	}
}

static void check_bijection(uint64_t n)
{
	unsigned char *taken = calloc(n, 1);
	uint64_t neighbours = 0;

	assert_non_null(taken);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t key = zipf_scramble(i, n);

		assert_true(key < n && !taken[key]);
		taken[key] = 1;
		if (i > 0 && zipf_scramble(i - 1, n) + 1 == key)
			neighbours++;
	}
	/* A random order leaves about one pair of neighbours standing. */
	assert_true(n < 1000 || neighbours <= 12);
	free(taken);
}

static void test_scramble_is_a_bijection(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 300; n++)
		check_bijection(n);
	check_bijection(1023);
	check_bijection(4096);
	check_bijection(4097);
	check_bijection(1000000);
}

static void test_scramble_spreads_the_head(void **state)
{
	uint64_t cells[64] = {0};
	double expected[64];

	(void)state;
	for (uint64_t i = 0; i < 6400; i++)
		cells[zipf_scramble(i, 1000000) * 64 / 1000000]++;
	for (unsigned i = 0; i < 64; i++)
		expected[i] = 100;
	assert_true(chi_square(cells, expected, 64) < chi_square_limit(63));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_zeta_equals_the_sum),
	    cmocka_unit_test(test_exact_follows_the_law),
	    cmocka_unit_test(test_gray_head),
	    cmocka_unit_test(test_gray_resize_equals_init),
	    cmocka_unit_test(test_gray_of_few_ranks),
	    cmocka_unit_test(test_scramble_is_a_bijection),
	    cmocka_unit_test(test_scramble_spreads_the_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
