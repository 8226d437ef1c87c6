/* regions.c: the regions of a pool and their sizes. */
#include "layout/regions.h"

void plan_regions(const struct plan *p, struct plan_region out[PLAN_REGIONS])
{
	uint64_t twims = plan_capacity_objects(p) * TWIM_BYTES;
	uint64_t rings = p->index_offset - p->ring_offset[RING_SMALL];
	const struct plan_region regions[] = {
	    {"superblock", "magic, ids and the plan", p->cursors_offset},
	    {"cursors", "heads and tails of the rings", LAYOUT_CURSORS_BYTES},
	    {"ofm", "hits of the groups that are next to be evicted",
	     p->registry_offset - p->ofm_offset[RING_SMALL]},
	    {"registry", "a line for each compute node", p->stats_offset - p->registry_offset},
	    {"stats", "counters of the compute nodes", p->chunk_table_offset - p->stats_offset},
	    {"chunk_table", "a word for each chunk", p->dead_offset - p->chunk_table_offset},
	    {"dead_map", "which objects lost their slot, and in which life",
	     p->ring_offset[RING_SMALL] - p->dead_offset},
	    {"rings", "nodes of the three rings", rings},
	    {"index", "slots, in use or free or ghosts", p->chunks_offset - p->index_offset},
	    {"twims", "at the end of the chunks, as many entries as objects are expected", twims},
	    {"pad", "so that a READ rounded up stays inside", LAYOUT_PAD_BYTES},
	    {"objects", "the rest of the chunks",
	     (uint64_t)p->chunk_count * p->chunk_bytes - twims},
	};

	static_assert(sizeof(regions) / sizeof(regions[0]) == PLAN_REGIONS, "one row a region");
	for (unsigned i = 0; i < PLAN_REGIONS; i++)
		out[i] = regions[i];
}
