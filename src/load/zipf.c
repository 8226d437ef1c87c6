/* zipf.c: the Zipf samplers and the scrambling bijection. */
#include "load/zipf.h"

#include <assert.h>
#include <math.h>

/*
 * Terms summed one by one before the Euler-Maclaurin formula takes over; the first neglected
 * term is below theta^3 / 720 * 256^-(theta + 3), about 1e-11 at theta = 1.
 */
#define HEAD_TERMS 256

/* expm1(x) / x and log1p(x) / x, continuous at 0. */
static double expm1_over(double x)
{
	return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2 * (1 + x / 3);
}

static double log1p_over(double x)
{
	return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x * (0.5 - x / 3);
}

/* The integral of t^-theta from 1 to x; for theta = 1 it is log x, without a special case. */
static double integral(double x, double theta)
{
	double log_x = log(x);

	return expm1_over((1 - theta) * log_x) * log_x;
}

static double integral_inverse(double y, double theta)
{
	double t = y * (1 - theta);

	if (t < -1)
		t = -1; /* rounding only; log1p has its pole here */
	return exp(log1p_over(t) * y);
}

static double head_sum(uint64_t n, double theta)
{
	double sum = 0;

	/* Smallest terms first, so that they are not lost against the large ones. */
	for (uint64_t i = n < HEAD_TERMS ? n : HEAD_TERMS; i >= 1; i--)
		sum += pow((double)i, -theta);
	return sum;
}

/* Euler-Maclaurin from the last summed term to n. */
static double zeta_from_head(double head, uint64_t n, double theta)
{
	double m = HEAD_TERMS;
	double x = (double)n;

	if (n <= HEAD_TERMS)
		return head;
	return head + integral(x, theta) - integral(m, theta) +
	       (pow(x, -theta) - pow(m, -theta)) / 2 +
	       theta / 12 * (pow(m, -theta - 1) - pow(x, -theta - 1));
}

double zipf_zeta(uint64_t n, double theta)
{
	return zeta_from_head(head_sum(n, theta), n, theta);
}

void zipf_gray_init(struct zipf_gray *z, uint64_t n, double theta)
{
	assert(n >= 1 && theta > 0 && theta < 1);
	*z = (struct zipf_gray){.theta = theta, .alpha = 1 / (1 - theta)};
	z->zeta_two = 1 + pow(2, -theta);
	zipf_gray_resize(z, n);
}

void zipf_gray_resize(struct zipf_gray *z, uint64_t n)
{
	assert(n >= 1);
	if (z->n == n)
		return;
	if (z->n == 0 || z->n < HEAD_TERMS || n < HEAD_TERMS)
		z->zeta_head = head_sum(n, z->theta);
	z->n = n;
	z->zeta = zeta_from_head(z->zeta_head, n, z->theta);
	/* With one or two ranks the two first branches of the sampler decide alone. */
	z->eta = n > 2 ? (1 - pow(2.0 / (double)n, 1 - z->theta)) / (1 - z->zeta_two / z->zeta) : 0;
}

uint64_t zipf_gray_rank(const struct zipf_gray *z, struct prng *p)
{
	double u = prng_double(p);
	double uz = u * z->zeta;
	uint64_t rank;

	if (uz < 1 || z->n == 1)
		return 0;
	if (uz < z->zeta_two || z->n == 2)
		return 1;
	rank = (uint64_t)((double)z->n * pow(z->eta * u - z->eta + 1, z->alpha));
	return rank < z->n ? rank : z->n - 1;
}

void zipf_exact_init(struct zipf_exact *z, uint64_t n, double theta)
{
	assert(n >= 1 && theta >= 0);
	*z = (struct zipf_exact){.n = n, .theta = theta};
	z->integral_first = integral(1.5, theta) - 1;
	z->integral_last = integral((double)n + 0.5, theta);
	z->accept = 2 - integral_inverse(integral(2.5, theta) - pow(2, -theta), theta);
}

uint64_t zipf_exact_rank(const struct zipf_exact *z, struct prng *p)
{
	/* Accepts at least two of three draws whatever n and theta, so the loop is short. */
	for (;;) {
		double u =
		    z->integral_last + prng_double(p) * (z->integral_first - z->integral_last);
		double x = integral_inverse(u, z->theta);
		double k = floor(x + 0.5);

		if (k < 1)
			k = 1;
		else if (k > (double)z->n)
			k = (double)z->n;
		if (k - x <= z->accept || u >= integral(k + 0.5, z->theta) - pow(k, -z->theta))
			return (uint64_t)k - 1;
	}
}

uint64_t zipf_scramble(uint64_t rank, uint64_t n)
{
	unsigned bits = n <= 2 ? 2 : 64 - (unsigned)__builtin_clzll(n - 1);
	uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
	unsigned half = bits / 2;
	uint64_t x = rank;

	assert(rank < n);
	/*
	 * Multiplication by an odd number and x ^= x >> half are bijections of 2^bits numbers;
	 * walking the cycle until it re-enters [0, n) makes one of n numbers from it, in fewer
	 * than two steps on average since n > 2^bits / 2.
	 */
	do {
		x = (x + 0x632be59bd9b4e019u) & mask;
		x = x * 0xbf58476d1ce4e5b9u & mask;
		x ^= x >> half;
		x = x * 0x94d049bb133111ebu & mask;
		x ^= x >> half;
		x = x * 0x9e3779b97f4a7c15u & mask;
		x ^= x >> half;
	} while (x >= n);
	return x;
}
