/*
 * lane.h: the chunks a worker writes into: its open groups and its reserve.
 *
 * A lane belongs to one thread and may be shared by the fibers of that thread.  For each queue
 * it fills one group at a time; groups that are full but still have Sets in flight wait in the
 * lane until the last of them lands, and the one that lands it seals.  Nobody else ever writes
 * into a lane's chunks: they are open or reserved in this CN's name.
 */
#ifndef FORGE_CACHE_LANE_H
#define FORGE_CACHE_LANE_H

#include <stdint.h>

#include "cache/cn.h"

#define LANE_GROUPS_MAX	 8u  /* open at once: two being filled, the rest closing */
#define LANE_RESERVE_MAX 16u /* chunks in hand */

enum open_state {
	OPEN_UNUSED,
	OPEN_FILLING,
	OPEN_CLOSING, /* full; sealed by whoever lands the last Set in flight */
};

struct open_group {
	enum open_state state;
	uint32_t ring; /* it is bound for */
	uint32_t chunk;
	uint32_t generation;
	uint32_t units_used;
	uint32_t object_count;
	uint32_t in_flight; /* Sets and regroup copies that have a place here and no result yet */
	uint64_t heat;	    /* sum of the counts its rescued members had */
	uint64_t word;	    /* the exact chunk word */
	uint64_t *twim;	    /* [group_objects] in SN order */
	uint8_t *carried;   /* [group_objects] counts the members start with once queued */
};

struct lane_chunk {
	uint32_t chunk;
	uint32_t generation;
};

struct lane {
	struct cn *cn;
	struct open_group groups[LANE_GROUPS_MAX];
	struct open_group *filling[RING_QUEUES]; /* NULL: none */
	struct lane_chunk reserve[LANE_RESERVE_MAX];
	uint32_t reserve_count;
	uint32_t reserve_cap; /* most the CN's share of chunks permits */
	void *memory;
};

/* 0 or FORGE_E_NO_MEMORY.  Borrows cn. */
int lane_init(struct lane *, struct cn *);
void lane_fini(struct lane *);

/* A place for one object: address, generation and SN are fixed by it. */
struct lane_place {
	struct open_group *group;
	uint64_t address;
	uint32_t sn;
	uint32_t units;
};

/* Does the group have room for one more object of that size? */
int open_group_fits(const struct plan *, const struct open_group *, uint32_t units);

/* Take room in a group that fits; the group now has one more in flight. */
struct lane_place open_group_take(const struct plan *, struct open_group *, uint32_t units);

/* The object at the place got (or did not get) a slot.  twim entry 0 units: as twim_pack says. */
void open_group_record(struct lane_place, uint64_t twim_entry, uint8_t carried);

/*
 * One in flight less.  Seals the group if it is closing and this was the last.
 * scratch: group_objects words.  Waits.  0, or FORGE_E_NODE.
 */
MAY_WAIT int lane_land(struct lane *, struct worker *, struct open_group *, uint64_t *scratch);

/* No more objects into the ring's filling group: seal it now, or when the last Set lands. */
MAY_WAIT int lane_close(struct lane *, struct worker *, uint32_t ring, uint64_t *scratch);

/* Start filling a chunk from the reserve (which is not empty) for a ring. */
MAY_WAIT int lane_open(struct lane *, struct worker *, uint32_t ring);

/* Put a chunk that is reserved in our name into the reserve, or into the free ring. */
MAY_WAIT int lane_give(struct lane *, struct worker *, struct lane_chunk);

/* Claim up to count chunks from the free ring into the reserve.  0 or FORGE_MISS if empty. */
MAY_WAIT int lane_claim_free(struct lane *, struct worker *, uint32_t count);

/* Seal what is open, give everything back.  No Set is in flight.  Waits. */
MAY_WAIT int lane_drain(struct lane *, struct worker *, uint64_t *scratch);

#endif
