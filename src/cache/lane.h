/*
 * lane.h: the chunks a worker writes into: its open groups and its reserve.
 *
 * A lane belongs to one thread and may be shared by the fibers of that thread.  For each queue
 * it fills up to filling_max groups at a time, oldest first: an object goes into the first that
 * has room for it (first fit), so that the gap a large object leaves is filled by small ones.
 * When none has room the fullest is closed.  Groups that are closed but still have Sets in flight
 * wait in the lane until the last of them lands, and the one that lands it seals.  Nobody else
 * ever writes into a lane's chunks: they are open or reserved in this CN's name.
 */
#ifndef FORGE_CACHE_LANE_H
#define FORGE_CACHE_LANE_H

#include <stdint.h>

#include "cache/cn.h"

#define LANE_RESERVE_MAX 16u /* chunks in hand */
/*
 * The next chunk is fetched when this share of the open group is left: so long one more lies idle.
 * An eviction has some 8 round trips, a Set 2, and what comes between Sets some more.
 */
#define LANE_LOW_SHARE 8u
/*
 * Groups filled at once for one ring.  Sealed groups of Meta's size mixes are full to
 * (doc/benchmarks.md): with 1 .89 to .98, with 2 .991 to .996, with 4 .995 to .998.
 */
#define LANE_FILLING_MAX 4u
/*
 * One of them for so many chunks of the lane's share: all that are open then hold at most an
 * eighth of it, and of a pool with few compute nodes far less.  A share below 32 has one.
 */
#define LANE_SHARE_PER_FILLING 16u
/* Closed groups that wait for Sets in flight, beside those being filled. */
#define LANE_CLOSING_MAX 6u
#define LANE_GROUPS_MAX	 (LANE_STREAMS * LANE_FILLING_MAX + LANE_CLOSING_MAX)
/*
 * A group that owns this share of the pool, divided among all groups that may be open or in one
 * claim, is sealed: all open groups, or one claim, own an eighth of the pool or little more.
 */
#define LANE_PARTS_SHARE 8u

/*
 * What a lane fills groups for: the rings' own numbers, and two more for objects bound for main
 * whose last place was short-lived, by how old the group they were in had become.  Members that
 * die soon and members that stay make half-dead groups together, which are dear to compact.  A
 * model of Zipf 0.99 updates in a log of which a fifth is dead moves 1.2 members for an update when
 * updates go to one stream and what is moved to another, 0.88 with these three, 0.85 with four.
 */
#define LANE_WARM    RING_QUEUES
#define LANE_HOT     (RING_QUEUES + 1)
#define LANE_STREAMS (RING_QUEUES + 2)
/*
 * Tickets of main after which a group is not hot any more: a share of the pool's chunks; it is
 * warm until all of them.  An eighth and twice as many cost 2 % more copies on YCSB-A at 10 %.
 */
#define LANE_HOT_SHARE 16u
/* A lane whose share of the pool is less does without them: it would be mostly open groups. */
#define LANE_SHARE_FOR_STREAMS 16u
/*
 * A lane keeps a chunk to spare, where what is moved goes when no other is at hand (regroup.c), if
 * the pool has so many for each worker.  In smaller ones, down to LANE_SPARE_LEAST, only while
 * nobody leaves for want of room, since then capacity costs no hit: so says a lane that got
 * LANE_SPARE_CALM chunks one after another without an eviction.  A spare at all times costs 0.06
 * points of arc_oltp on 146 chunks, 0.13 of cphy_small on 153, 0.02 of arc_oltp on 292.
 */
#define LANE_SPARE_SHARE 256u
#define LANE_SPARE_LEAST 16u
#define LANE_SPARE_CALM	 16u

enum open_state {
	OPEN_UNUSED,
	OPEN_FILLING,
	OPEN_CLOSING, /* full; sealed by whoever lands the last Set in flight */
};

struct open_group {
	enum open_state state;
	uint32_t ring;	 /* it is bound for */
	uint32_t stream; /* of the lane, whose filling[] it is in */
	uint32_t chunk;
	uint32_t generation;
	uint32_t units_used;
	uint32_t object_count;
	uint32_t part_count; /* chunks its heads of large objects own */
	uint32_t in_flight;  /* Sets and regroup copies that have a place here and no result yet */
	uint64_t heat;	     /* sum of the counts its rescued members had */
	uint64_t word;	     /* the exact chunk word */
	uint64_t *twim;	     /* [group_objects] in SN order */
	uint8_t *carried;    /* [group_objects] counts the members start with once queued */
};

struct lane_chunk {
	uint32_t chunk;
	uint32_t generation;
};

/* What a lane sealed, in all. */
struct lane_sealed {
	uint64_t groups;
	uint64_t objects; /* members, dead ones included */
	uint64_t bytes;	  /* of their objects and TWIMs: what was filled of their chunks */
};

/*
 * Chunks on their way to one owner: while it is in the lane's list, what lane_give() and
 * lane_claim_free() bring goes there, but for one in the reserve, which evictions need.
 */
struct lane_gather {
	struct lane_chunk *chunks; /* [want] the caller's */
	uint32_t count, want;
	struct lane_gather *next;
};

struct side;

struct lane {
	struct cn *cn;
	struct open_group groups[LANE_GROUPS_MAX];
	struct open_group *filling[LANE_STREAMS][LANE_FILLING_MAX]; /* oldest first */
	uint32_t filling_count[LANE_STREAMS];
	uint32_t filling_max; /* for each stream */
	uint32_t streams;     /* LANE_STREAMS, or RING_QUEUES without LANE_WARM and LANE_HOT */
	/*
	 * A fiber is closing a group, reserving a chunk or opening a group; the others that find no
	 * room wait for it, or each of them would do all that for itself.
	 */
	uint8_t refilling;
	/*
	 * A flow is in cache_reserve_try(): of those of a lane one evicts, with the scratch they
	 * share, and who needs a chunk meanwhile waits for it, or brings on the side that does it.
	 */
	uint8_t reserving;
	uint32_t starved;  /* looks that found the rings empty, since there last was a chunk */
	uint8_t is_low;	   /* a chunk will soon be needed, and nobody has begun to see to it */
	struct side *side; /* which may be what is reserving */
	struct lane_sealed sealed;
	struct lane_chunk reserve[LANE_RESERVE_MAX];
	uint32_t reserve_count;
	uint32_t reserve_cap; /* most the CN's share of chunks permits */
	/*
	 * In hand for what is moved alone.  What comes to the lane fills it before anything else,
	 * so a move that used it up and freed its source has it back.  It is beyond the share:
	 * those of all workers are a sixteenth of the chunks at most.
	 */
	struct lane_chunk spare;
	uint8_t has_spare, wants_spare;
	uint32_t calm; /* chunks that came without an eviction, one after another */
	struct lane_gather *gathers;
	void *memory;
};

/* Bytes a lane allocates, for reports. */
uint64_t lane_memory_bytes(const struct plan *);

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

/* The group of this lane in which the chunk lives that generation; NULL: none, or it is sealed. */
const struct open_group *lane_find(const struct lane *, uint32_t chunk, uint32_t generation);

/*
 * The stream for objects bound for main that lived in that group, as the map shows it, until they
 * were updated or their group compacted.
 */
uint32_t lane_stream_after(const struct lane *, uint64_t seen);

static inline uint32_t lane_stream_ring(uint32_t stream)
{
	return stream >= RING_QUEUES ? RING_MAIN : stream;
}

/* The oldest group the lane fills for a stream that has room for the object; NULL: none has. */
struct open_group *lane_fit(const struct lane *, uint32_t stream, uint32_t units);

/* Does no filling group have room, and may and can another one be opened? */
int lane_may_open(const struct lane *, uint32_t stream, uint32_t units);

/*
 * Nothing fitted: should a group be closed before the next is opened?  Yes while the stream has as
 * many as it may have, or one without room for an object of the expected size.
 */
int lane_is_crowded(const struct lane *, uint32_t stream);

/*
 * Will a chunk be needed soon, and none is at hand?  The group is the one that an object has just
 * got a place in.
 */
int lane_is_low(const struct lane *, const struct open_group *);

/* Take room in a group that fits; the group now has one more in flight. */
struct lane_place open_group_take(const struct plan *, struct open_group *, uint32_t units);

/* The object at the place got (or did not get) a slot.  twim entry 0 units: as twim_pack says. */
void open_group_record(struct lane_place, uint64_t twim_entry, uint8_t carried);

/*
 * One in flight less.  Seals the group if it is closing and this was the last.
 * scratch: group_objects words.  Waits.  0, or FORGE_E_NODE.
 */
MAY_WAIT int lane_land(struct lane *, struct worker *, struct open_group *, uint64_t *scratch);

/*
 * No more objects into the fullest group the stream fills (the oldest of several): seal it now, or
 * when the last Set lands.  Nothing to do if there is none.
 */
MAY_WAIT int lane_close(struct lane *, struct worker *, uint32_t stream, uint64_t *scratch);

/*
 * Start filling a chunk from the reserve (which is not empty) for a stream that may have one
 * more.
 * 0, FORGE_E_AGAIN while too many closed ones wait for Sets in flight, or FORGE_E_NODE.
 */
MAY_WAIT int lane_open(struct lane *, struct worker *, uint32_t stream);

/*
 * Does the lane keep a chunk to spare where so many chunks are there for groups?  Asked by each
 * eviction, since nodes come and go and large objects take chunks.
 */
void lane_judge_spare(struct lane *, uint64_t group_chunks);

/* The spare becomes the reserve, if that is empty.  Was there one? */
int lane_use_spare(struct lane *);

/* Put a chunk that is reserved in our name into the reserve, or into the free ring. */
MAY_WAIT int lane_give(struct lane *, struct worker *, struct lane_chunk);

/* Claim up to count chunks from the free ring into the reserve.  0 or FORGE_MISS if empty. */
MAY_WAIT int lane_claim_free(struct lane *, struct worker *, uint32_t count);

/* Who is in the list between the two gets chunks; several fibers of a lane may be. */
void lane_gather_begin(struct lane *, struct lane_gather *);
void lane_gather_end(struct lane *, struct lane_gather *);

/*
 * Do the heads in the group own so many parts that it should be sealed?  What they own cannot be
 * evicted before, and all of it goes with the group.
 */
int lane_group_is_heavy(const struct lane *, const struct open_group *);

/* Close the group that is heavy, if it is still being filled.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int lane_close_heavy(struct lane *, struct worker *, struct open_group *,
			      uint64_t *scratch);

/*
 * Seal what is open, give everything back.  No Set is in flight.  Waits.  0; FORGE_E_AGAIN if
 * some chunk was not ours any more, after all others were given back; or FORGE_E_NODE.
 */
MAY_WAIT int lane_drain(struct lane *, struct worker *, uint64_t *scratch);

#endif
