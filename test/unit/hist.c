/*
 * Percentiles of the histogram against exact order statistics.  Samples of several shapes are
 * recorded and sorted; every percentile read off the histogram must be at least the exact order
 * statistic, and above it by less than 1 %.  Also: bucket geometry by exhaustion at every edge,
 * merging equals recording everything in one place, and what happens beyond the range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hist.h"
#include "base/prng.h"

#define SAMPLES 20000

static struct hist hist;

static void every_bucket_follows_the_one_before(void **state)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		uint64_t upper = hist_bucket_upper_ns(i);

		assert_int_equal(hist_bucket_index(next), i);
		assert_int_equal(hist_bucket_index(upper), i);
		assert_true(upper >= next);
		/* The width, as a share of the smallest value in the bucket. */
		assert_true((upper - next) * 128 <= next);
		next = upper + 1;
	}
	assert_true(next == HIST_VALUE_MAX + 1);
	assert_true(next == UINT64_C(1) << 40);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void check_against_sorted(uint64_t *v, unsigned n)
{
	/* In ten-thousandths of a per cent, so that the rank is integer arithmetic. */
	static const unsigned parts[] = {1,	 10000,	 100000, 250000, 500000, 750000,
					 900000, 990000, 999000, 999900, 999990, 1000000};
	double sum = 0;

	hist_reset(&hist);
	for (unsigned i = 0; i < n; i++) {
		hist_record(&hist, v[i]);
		sum += (double)v[i];
	}
	qsort(v, n, sizeof(*v), compare_u64);
	for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		uint64_t rank = ((uint64_t)parts[i] * n + 999999) / 1000000;
		uint64_t exact = v[rank - 1];
		uint64_t got = hist_percentile_ns(&hist, parts[i] / 10000.0);

		assert_true(got >= exact);
		assert_true(got - exact <= exact / 128);
	}
	assert_int_equal(hist.count, n);
	assert_int_equal(hist_min_ns(&hist), v[0]);
	assert_int_equal(hist_max_ns(&hist), v[n - 1]);
	assert_int_equal(hist_percentile_ns(&hist, 0), v[0]);
	assert_int_equal(hist_percentile_ns(&hist, 100), v[n - 1]);
	assert_true(hist_mean_ns(&hist) > sum / n * (1 - 1e-9));
	assert_true(hist_mean_ns(&hist) < sum / n * (1 + 1e-9));
}

static void percentiles_bound_order_statistics(void **state)
{
	static uint64_t v[SAMPLES];
	struct prng p;

	prng_seed(&p, 42);
	for (unsigned i = 0; i < SAMPLES; i++) /* uniform */
		v[i] = prng_below(&p, 1000000);
	check_against_sorted(v, SAMPLES);
	for (unsigned i = 0; i < SAMPLES; i++) /* every magnitude up to minutes */
		v[i] = prng_u64(&p) >> (25 + prng_below(&p, 39));
	check_against_sorted(v, SAMPLES);
	for (unsigned i = 0; i < SAMPLES; i++) /* two humps far apart */
		v[i] = prng_below(&p, 100) ? 2000 + prng_below(&p, 50) : 7000000;
	check_against_sorted(v, SAMPLES);
	for (unsigned i = 0; i < 1000; i++) /* 1..1000, whose 99.9th is 999 */
		v[i] = i + 1;
	check_against_sorted(v, 1000);
	check_against_sorted(v, 1);
}

static void small_values_are_exact(void **state)
{
	hist_reset(&hist);
	for (unsigned i = 1; i <= 200; i++)
		hist_record(&hist, i);
	assert_int_equal(hist_percentile_ns(&hist, 50), 100);
	assert_int_equal(hist_percentile_ns(&hist, 99), 198);
	assert_int_equal(hist_percentile_ns(&hist, 99.5), 199);
	assert_int_equal(hist_percentile_ns(&hist, 99.6), 200);
}

static void merge_equals_one_recorder(void **state)
{
	static struct hist part[3], merged;
	struct prng p;

	prng_seed(&p, 7);
	hist_reset(&hist);
	memset(part, 0, sizeof(part));
	memset(&merged, 0, sizeof(merged));
	for (unsigned i = 0; i < 30000; i++) {
		uint64_t ns = prng_u64(&p) >> (20 + prng_below(&p, 44));

		hist_record(&hist, ns);
		/* Unequal shares, and the slow values all in one: averages would be far off. */
		hist_record(&part[ns > 1000000 ? 0 : 1 + (i % 7 == 0)], ns);
	}
	for (unsigned i = 0; i < 3; i++)
		hist_merge(&merged, &part[i]);
	assert_memory_equal(&merged, &hist, sizeof(hist));
	assert_true(hist.over > 0);
}

static void zeroed_memory_is_an_empty_histogram(void **state)
{
	memset(&hist, 0, sizeof(hist));
	assert_int_equal(hist_percentile_ns(&hist, 50), 0);
	assert_int_equal(hist_min_ns(&hist), 0);
	assert_int_equal(hist_max_ns(&hist), 0);
	assert_true(hist_mean_ns(&hist) == 0);
	hist_record(&hist, 5);
	assert_int_equal(hist_min_ns(&hist), 5);
	hist_record(&hist, 0);
	assert_int_equal(hist_min_ns(&hist), 0);
}

static void values_beyond_the_range_are_counted(void **state)
{
	hist_reset(&hist);
	hist_record_n(&hist, 1000, 98);
	hist_record(&hist, HIST_VALUE_MAX + 1);
	hist_record(&hist, UINT64_C(1) << 50);
	assert_int_equal(hist.over, 2);
	assert_int_equal(hist.count, 100);
	assert_true(hist_percentile_ns(&hist, 98) < 1008);
	assert_true(hist_percentile_ns(&hist, 99) == UINT64_C(1) << 50);
	assert_true(hist_max_ns(&hist) == UINT64_C(1) << 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_bucket_follows_the_one_before),
	    cmocka_unit_test(percentiles_bound_order_statistics),
	    cmocka_unit_test(small_values_are_exact),
	    cmocka_unit_test(merge_equals_one_recorder),
	    cmocka_unit_test(zeroed_memory_is_an_empty_histogram),
	    cmocka_unit_test(values_beyond_the_range_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
