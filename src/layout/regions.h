/*
 * regions.h: what the bytes of a pool are for, region by region, for reports.
 *
 * Pure; any thread.  A region that somebody adds to plan.h belongs into the table of regions.c,
 * whose sum a test compares with the size of the pool.
 */
#ifndef FORGE_LAYOUT_REGIONS_H
#define FORGE_LAYOUT_REGIONS_H

#include "layout/plan.h"

/* One of them.  name and sentence are static memory. */
struct plan_region {
	const char *name;
	const char *sentence;
	uint64_t bytes;
};

#define PLAN_REGIONS 12u

/*
 * Fill in all regions; those of metadata first, objects last.  TWIMs are counted as if every
 * chunk held as many objects as expected.  They sum to pool_bytes.
 */
void plan_regions(const struct plan *, struct plan_region out[PLAN_REGIONS]);

#endif
