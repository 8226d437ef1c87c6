/*
 * tally.h: counting what this worker does to index words, and telling the pool.
 *
 * layout/stats.h says why the counts add up.  Every CAS of an index word that was won is passed
 * to tally_swap(), whatever it was for; a regroup, which moves a word's object, is not.  A tally
 * belongs to one worker, as its cache does.  Internal to cache/, but for opening and closing.
 */
#ifndef FORGE_CACHE_TALLY_H
#define FORGE_CACHE_TALLY_H

#include "layout/stats.h"
#include "pool/pool.h"

/* One operation changes no more words than this before it looks whether to tell. */
#define TALLY_BATCH_MAX LAYOUT_NEIGHBOURHOOD
static_assert(STATS_UNTOLD_MAX > 2 * TALLY_BATCH_MAX, "told before the bound");

/* A count is told so long after it was made, if the worker does anything at all. */
#define TALLY_TELL_US 100000u

struct tally {
	/*
	 * All that this worker did; but how often it looked, and found, its cache counts itself, on
	 * the way of each Get, and the tally takes it from there when it tells.
	 */
	uint64_t count[STATS_COUNT];
	const uint64_t *gets, *hits;
	uint64_t told[STATS_COUNT]; /* of it, what is in the line */
	uint32_t untold;	    /* CASes of index words since */
	uint8_t tells;		    /* opened: the pool is told */
	uint64_t line;		    /* address of the compute node's line */
	uint64_t told_ns;	    /* when */
};

/*
 * The CAS of an index word from one word to another was won.  left: how the old word left, if it
 * was one of an object.  An empty or tentative word is none.
 */
static inline void tally_swap(struct tally *t, uint64_t from, uint64_t to, enum stats_word left)
{
	t->count[STATS_stored] += (uint64_t)index_is_object(to);
	t->count[left] += (uint64_t)index_is_object(from);
	t->untold++;
}

/*
 * The node has joined with that id: whoever counted in its line is dead.  Before any worker of it
 * counts.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int tally_join(const struct pool *, struct worker *, uint32_t cn);

/*
 * Begin to tell the pool what is counted from now on: one FAA.  Before the worker's first
 * operation.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int tally_open(struct tally *, const struct pool *, struct worker *, uint32_t cn);

/* Tell everything.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int tally_tell(struct tally *, struct worker *);

/* Tell everything and say that this worker counts no more.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int tally_close(struct tally *, struct worker *);

/* Tell the changes of index words alone.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int tally_tell_changes(struct tally *, struct worker *);

/* After changes: tell when the bound is near. */
static inline MAY_WAIT int tally_tell_in_time(struct tally *t, struct worker *w)
{
	return unlikely(t->untold >= STATS_UNTOLD_MAX - TALLY_BATCH_MAX) ? tally_tell_changes(t, w)
									 : 0;
}

/* Beside a poll: tell when the last time is long ago.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int tally_tell_old(struct tally *, struct worker *, uint64_t now_ns);

#endif
