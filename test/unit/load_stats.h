/*
 * load_stats.h: the statistics that the load tests judge distributions by.
 *
 * For tests in this folder.  Seeds are fixed, so a test passes or fails for ever; the limits
 * are where one seed in some ten thousand would fail if the generator were right.
 */
#ifndef FORGE_TEST_LOAD_STATS_H
#define FORGE_TEST_LOAD_STATS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* About the 1 - 3e-5 quantile of chi-square (Wilson and Hilferty 1931). */
static inline double chi_square_limit(size_t degrees)
{
	double k = (double)degrees;
	double t = 1 - 2 / (9 * k) + 4 * sqrt(2 / (9 * k));

	return k * t * t * t;
}

static inline double chi_square(const uint64_t *seen, const double *expected, size_t cells)
{
	double sum = 0;

	for (size_t i = 0; i < cells; i++)
		sum +=
		    ((double)seen[i] - expected[i]) * ((double)seen[i] - expected[i]) / expected[i];
	return sum;
}

/* How many standard deviations a binomial count is away from draws * p. */
static inline double sigmas(uint64_t seen, double draws, double p)
{
	return fabs((double)seen - draws * p) / sqrt(draws * p * (1 - p));
}

#endif
