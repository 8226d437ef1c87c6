/*
 * stats.h: what happened to the words of the index, counted on the memory node.
 *
 * One line of LAYOUT_STATS_WORDS words per compute node, in the region `stats`.  Part of the
 * layout, as plan.h is; anyone above base may include it.  Pure.
 *
 *   WORD   WHO WRITES IT                                   WHAT A READER MAY CONCLUDE
 *   life   FAA by each worker that starts and ends to       how many workers owe the line something
 *          count; WRITE by the node that joins with the id
 *   others FAA by the workers of the compute node, by       at most STATS_UNTOLD_MAX changes for
 *each whoever recovers it, by whoever repairs          worker of `life` are missing
 *
 * The argument.  An index word changes by CAS alone, each CAS has one winner, and the winner knows
 * what the old word was to it: so every change is counted once, by him.  A slot that holds a word
 * of an object, live or stale, was filled by one `stored` more than was removed from it; so, over
 * the whole index, at any time,
 *
 *	stored - (sum of all ways to leave) = words of objects in the index
 *
 * whatever the reasons were taken for.  (A regroup changes a word for another: neither.)  A worker
 * counts locally and adds what is new to its line by FAA, at the latest when STATS_UNTOLD_MAX
 * changes are: sums that only grow, that several workers add to without a lock, and that survive
 * the node, because whoever joins with the id goes on adding.  A WRITE of absolute values would
 * need a lock among the workers, a READ at the start, and could be overtaken by an older one.
 *
 * Who is killed takes what it has not told with it: at most STATS_UNTOLD_MAX changes for each
 * worker, the CAS in flight included.  `life` keeps how many workers died so: those that were
 * counting when the id was joined anew, and those counting now if their node is dead.
 */
#ifndef FORGE_LAYOUT_STATS_H
#define FORGE_LAYOUT_STATS_H

#include "layout/layout.h"

/*
 * Changes of index words a worker may keep to itself.  Telling takes a verb for each count that
 * changed, two or three: 2,048 changes are some 1,500 Sets, which cost 4 verbs each and more, so it
 * is less than one verb in two thousand.
 */
#define STATS_UNTOLD_MAX 2048u

/*
 * The table that all names come from: what a worker counts, what `forge stat` prints and what
 * `forge check` adds up.
 *
 * STORED(name, sentence) puts a word into the index; LEFT(name, sentence) is a way to leave it;
 * ALSO(name, sentence) changes none.  The order is the order in the line; new ones at the end.
 */
#define STATS_TABLE(STORED, LEFT, ALSO)                                                           \
	STORED(stored, "values stored, new keys and new values of old ones")                      \
	LEFT(replaced, "values replaced by a newer one of their key")                             \
	LEFT(deleted, "values deleted")                                                           \
	LEFT(expired, "values whose time was over")                                               \
	LEFT(flushed, "values dropped by a flush of everything")                                  \
	LEFT(evicted, "values evicted, as far as their slots have been used again or cleared")    \
	LEFT(superseded, "values that lost to another one stored under their key at that moment") \
	LEFT(invalid, "values found overwritten, by an eviction not yet heard of, or damaged")    \
	LEFT(lost, "values that a repair had to drop")                                            \
	ALSO(gets, "keys looked up")                                                              \
	ALSO(hits, "keys looked up and found")                                                    \
	ALSO(groups_lost, "groups that nodes were filling when they died; recovery freed them")

enum stats_word {
#define WORD(name, sentence) STATS_##name,
	STATS_TABLE(WORD, WORD, WORD)
#undef WORD
	    STATS_COUNT
};

/* What a counter is. */
enum stats_kind { STATS_IS_STORED, STATS_IS_LEFT, STATS_IS_ALSO };

struct stats_name {
	enum stats_kind kind;
	const char *name, *sentence;
};

/* Of counter number i, below STATS_COUNT.  Static memory. */
const struct stats_name *stats_name(unsigned i);

/*
 * The first word of a line.
 *   BITS   FIELD
 *   0-47   dead     workers that ended without telling, in nodes that had this id before
 *   48-63  counting workers that count now (of a dead node: when it died)
 */
#define STATS_LIFE_COUNTING (UINT64_C(1) << 48)

static inline uint64_t stats_life_dead(uint64_t life)
{
	return layout_bits(life, 0, 48);
}

static inline uint64_t stats_life_counting(uint64_t life)
{
	return layout_bits(life, 48, 16);
}

/* What a node makes of the line that it joins with: who counted in it is dead. */
static inline uint64_t stats_life_joined(uint64_t life)
{
	return (stats_life_dead(life) + stats_life_counting(life)) & (STATS_LIFE_COUNTING - 1);
}

struct layout_stats {
	uint64_t life;
	uint64_t count[STATS_COUNT];
	uint64_t zero[LAYOUT_STATS_WORDS - 1 - STATS_COUNT];
};
static_assert(sizeof(struct layout_stats) == LAYOUT_STATS_BYTES, "one line per CN");
static_assert(offsetof(struct layout_stats, count) == 8, "layout");

/* The sums of lines, modulo 2^64. */
struct stats_sum {
	uint64_t count[STATS_COUNT];
	uint64_t stored, left; /* of the index */
};

void stats_add(struct stats_sum *into, const struct layout_stats *line);

/* Add the sums of another pool. */
void stats_merge(struct stats_sum *into, const struct stats_sum *from);

/* Words of objects that the index must hold, if everything has been told. */
static inline uint64_t stats_present(const struct stats_sum *s)
{
	return s->stored - s->left;
}

#endif
