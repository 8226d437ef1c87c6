/*
 * zipf.h: Zipf-distributed ranks, rank r (from 0) with probability 1 / ((r + 1)^theta * zeta).
 *
 * Two samplers of the same law.  zipf_gray is the one every YCSB uses: Gray et al., "Quickly
 * generating billion-record synthetic databases" (SIGMOD 1994), section 3.2; 0 < theta < 1;
 * exact for the two first ranks, a smooth approximation for the others (at theta 0.99 ranks 2
 * to 9 come up to a quarter less or more often than the law says).  zipf_exact is Hoermann and
 * Derflinger's rejection-inversion (1996), exact for any theta >= 0.  The structs hold only
 * constants: the caller owns them, and threads may share one as long as nobody resizes it.
 */
#ifndef FORGE_LOAD_ZIPF_H
#define FORGE_LOAD_ZIPF_H

#include <stdint.h>

#include "base/prng.h"

/* Sum of i^-theta for i = 1 .. n, to about 1e-12 of its value, in bounded time. */
double zipf_zeta(uint64_t n, double theta);

struct zipf_gray {
	uint64_t n;
	double theta;
	double alpha;
	double zeta;
	double zeta_two;  /* zeta of two ranks: 1 + 2^-theta */
	double zeta_head; /* zeta of the ranks summed one by one, kept for resizing */
	double eta;
};

/* n >= 1, 0 < theta < 1. */
void zipf_gray_init(struct zipf_gray *, uint64_t n, double theta);

/* Change n only; cheap enough for every insert of YCSB D. */
void zipf_gray_resize(struct zipf_gray *, uint64_t n);

uint64_t zipf_gray_rank(const struct zipf_gray *, struct prng *);

struct zipf_exact {
	uint64_t n;
	double theta;
	double integral_first;
	double integral_last;
	double accept;
};

/* n >= 1, theta >= 0. */
void zipf_exact_init(struct zipf_exact *, uint64_t n, double theta);

uint64_t zipf_exact_rank(const struct zipf_exact *, struct prng *);

/*
 * A bijection of [0, n) without visible order: spreads the popular ranks over the key space as
 * YCSB's scrambled zipfian does, but without folding ranks together (a hash modulo n leaves
 * 37 % of the keys unused), so that the law of the ranks stays the law of the keys.
 */
uint64_t zipf_scramble(uint64_t rank, uint64_t n);

#endif
