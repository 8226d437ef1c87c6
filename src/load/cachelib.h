/*
 * cachelib.h: reads the distribution files that CacheLib publishes for its workloads (JSON).
 *
 *	PREFIX.sizes.json	valSizeRange: sizes in bytes; valSizeRangeProbability: their
 *				weights.  With one size more than weights, weight i spreads
 *				evenly over [size i, size i + 1).
 *	PREFIX.pop.json		popularityBuckets: how many keys bucket i has;
 *				popularityWeights: the weight of the whole bucket; oneHits: the
 *				share of requests for keys that are asked for only once
 *	PREFIX.config.json	test_config: getRatio, setRatio, delRatio (optional file)
 *
 * Called while a workload is being parsed.  Results belong to the caller.
 */
#ifndef FORGE_LOAD_CACHELIB_H
#define FORGE_LOAD_CACHELIB_H

#include <stdint.h>

#include "load/alias.h"
#include "load/load_error.h"

struct cachelib_sizes {
	struct alias choice;
	uint32_t *low; /* choice i has the sizes low[i] .. high[i], evenly */
	uint32_t *high;
};

struct cachelib_popularity {
	struct alias choice;
	double *first; /* choice i has the keys [first[i], first[i + 1]) of key_count */
	double key_count;
	double one_hit_share;
};

/* Relative weights; 0 where the file names none. */
struct cachelib_mix {
	double get;
	double set;
	double del;
};

/* 0, FORGE_E_SYSTEM, FORGE_E_FORMAT or FORGE_E_NO_MEMORY; the error names file and field. */
int cachelib_sizes_read(struct cachelib_sizes *, const char *path, struct load_error *);
int cachelib_popularity_read(struct cachelib_popularity *, const char *path, struct load_error *);

/* The same; a file that does not exist gives a mix of Gets only. */
int cachelib_mix_read(struct cachelib_mix *, const char *path, struct load_error *);

void cachelib_sizes_free(struct cachelib_sizes *);
void cachelib_popularity_free(struct cachelib_popularity *);

#endif
