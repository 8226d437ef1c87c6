/*
 * hist.h: a latency histogram with a bounded relative error and a fixed size.
 *
 * Log-linear, in the manner of HDR histograms: values below 256 ns have a bucket each, every
 * power of two above is cut into 128 buckets, so a bucket is narrower than 1/128 (0.78 %) of any
 * value in it.  The range ends at 2^40 ns (18 minutes); longer values share the last bucket, are
 * counted in over, and keep max exact.
 *
 * Percentiles of several threads or processes come from merging their histograms, never from
 * averaging percentiles.  A struct hist is flat: it holds no pointer, all-zero bytes are an
 * empty one, and it may live in shared memory.  It has one writer; others may read or merge it
 * when the writer has finished.  The caller owns the memory.
 */
#ifndef FORGE_BASE_HIST_H
#define FORGE_BASE_HIST_H

#include <assert.h>
#include <stdint.h>

#include "base/compiler.h"

#define HIST_SUB_BITS  7
#define HIST_MAX_BITS  40
#define HIST_VALUE_MAX ((UINT64_C(1) << HIST_MAX_BITS) - 1)
#define HIST_BUCKETS   ((HIST_MAX_BITS - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

struct hist {
	uint64_t count;
	uint64_t sum_ns;
	uint64_t max_ns;
	uint64_t min_inverted; /* ~minimum, so that zero means "nothing recorded" */
	uint64_t over;	       /* values above HIST_VALUE_MAX */
	uint64_t reserved;
	uint64_t bucket[HIST_BUCKETS];
};
static_assert(sizeof(struct hist) == 8 * (6 + 34 * 128), "a histogram has no padding");

/* The bucket of a value that is at most HIST_VALUE_MAX. */
static inline unsigned hist_bucket_index(uint64_t ns)
{
	unsigned msb = 63 - (unsigned)__builtin_clzll(ns | (1u << HIST_SUB_BITS));
	unsigned shift = msb - HIST_SUB_BITS;

	return (shift << HIST_SUB_BITS) + (unsigned)(ns >> shift);
}

/* The largest value that falls into the bucket. */
static inline uint64_t hist_bucket_upper_ns(unsigned index)
{
	unsigned shift = index >> HIST_SUB_BITS;
	uint64_t lead;

	if (index < 2u << HIST_SUB_BITS)
		return index;
	shift -= 1;
	lead = index - (shift << HIST_SUB_BITS);
	return ((lead + 1) << shift) - 1;
}

/* Record n values of ns each. */
static inline void hist_record_n(struct hist *h, uint64_t ns, uint64_t n)
{
	uint64_t clamped = min_u64(ns, HIST_VALUE_MAX);

	h->bucket[hist_bucket_index(clamped)] += n;
	h->count += n;
	h->sum_ns += ns * n;
	h->max_ns = max_u64(h->max_ns, ns);
	h->min_inverted = max_u64(h->min_inverted, ~ns);
	if (unlikely(ns > HIST_VALUE_MAX))
		h->over += n;
}

static inline void hist_record(struct hist *h, uint64_t ns)
{
	hist_record_n(h, ns, 1);
}

/* Empty h. */
void hist_reset(struct hist *h);

/* Add everything recorded in from to into; the result is as if into had recorded it all. */
void hist_merge(struct hist *into, const struct hist *from);

/*
 * The percentile as an order statistic: with n values, an upper bound of the value of rank
 * ceil(percent / 100 * n), by less than 1/128 of it; never above max.  percent is rounded to
 * four decimal places and clamped to [0, 100]; 0 gives the minimum.  0 if h is empty.
 */
uint64_t hist_percentile_ns(const struct hist *h, double percent);

/* Exact; 0 if h is empty. */
static inline uint64_t hist_min_ns(const struct hist *h)
{
	return h->count ? ~h->min_inverted : 0;
}

static inline uint64_t hist_max_ns(const struct hist *h)
{
	return h->max_ns;
}

/* Exact while the sum stays below 2^64 ns (584 years); 0 if h is empty. */
static inline double hist_mean_ns(const struct hist *h)
{
	return h->count ? (double)h->sum_ns / (double)h->count : 0;
}

#endif
