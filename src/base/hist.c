/* hist.c: merging histograms and reading percentiles off them. */
#include "base/hist.h"

#include <math.h>
#include <string.h>

/* Percentiles are integers in these units per cent, so that 99.9 % of 1000 is rank 999, not 1000.
 */
#define PARTS_PER_PERCENT 10000
#define PARTS_ALL	  (100 * (uint64_t)PARTS_PER_PERCENT)

void hist_reset(struct hist *h)
{
	memset(h, 0, sizeof(*h));
}

void hist_merge(struct hist *into, const struct hist *from)
{
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		into->bucket[i] += from->bucket[i];
	into->count += from->count;
	into->sum_ns += from->sum_ns;
	into->over += from->over;
	into->max_ns = max_u64(into->max_ns, from->max_ns);
	into->min_inverted = max_u64(into->min_inverted, from->min_inverted);
}

uint64_t hist_percentile_ns(const struct hist *h, double percent)
{
	uint64_t parts, rank, seen = 0;

	if (h->count == 0)
		return 0;
	if (!(percent > 0))
		return hist_min_ns(h);
	parts = (uint64_t)llround(fmin(percent, 100) * PARTS_PER_PERCENT);
	rank = (uint64_t)(((unsigned __int128)parts * h->count + PARTS_ALL - 1) / PARTS_ALL);
	rank = max_u64(rank, 1);
	if (rank > h->count - h->over)
		return h->max_ns;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return min_u64(hist_bucket_upper_ns(i), h->max_ns);
	}
	return h->max_ns;
}
