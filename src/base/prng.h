/*
 * prng.h: a small seeded generator (xoshiro256**, Blackman and Vigna 2018), one per worker.
 *
 * Everyone may include it.  Never cryptographic.  A prng belongs to one thread.
 */
#ifndef FORGE_BASE_PRNG_H
#define FORGE_BASE_PRNG_H

#include <stdint.h>

struct prng {
	uint64_t s[4];
};

/* One step of splitmix64 (Steele et al. 2014): also a good 64-bit mixing function. */
static inline uint64_t prng_splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void prng_seed(struct prng *p, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		p->s[i] = prng_splitmix64(&seed);
}

static inline uint64_t prng_rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t prng_u64(struct prng *p)
{
	uint64_t result = prng_rotl(p->s[1] * 5, 7) * 9;
	uint64_t t = p->s[1] << 17;

	p->s[2] ^= p->s[0];
	p->s[3] ^= p->s[1];
	p->s[1] ^= p->s[2];
	p->s[0] ^= p->s[3];
	p->s[2] ^= t;
	p->s[3] = prng_rotl(p->s[3], 45);
	return result;
}

/* Uniform in [0, n), n > 0; the bias of the multiply is below n / 2^64. */
static inline uint64_t prng_below(struct prng *p, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)prng_u64(p) * n) >> 64);
}

/* Uniform in [0, 1) with 53 bits. */
static inline double prng_double(struct prng *p)
{
	return (double)(prng_u64(p) >> 11) * 0x1.0p-53;
}

#endif
