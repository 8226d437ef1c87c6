/* stats.c: names and sums of the counters. */
#include "layout/stats.h"

const struct stats_name *stats_name(unsigned i)
{
	static const struct stats_name names[] = {
#define STORED(name, sentence) {STATS_IS_STORED, #name, sentence},
#define LEFT(name, sentence)   {STATS_IS_LEFT, #name, sentence},
#define ALSO(name, sentence)   {STATS_IS_ALSO, #name, sentence},
	    STATS_TABLE(STORED, LEFT, ALSO)
#undef STORED
#undef LEFT
#undef ALSO
	};

	assert(i < STATS_COUNT);
	return &names[i];
}

void stats_add(struct stats_sum *into, const struct layout_stats *line)
{
	for (unsigned i = 0; i < STATS_COUNT; i++) {
		enum stats_kind kind = stats_name(i)->kind;

		into->count[i] += line->count[i];
		if (kind == STATS_IS_STORED)
			into->stored += line->count[i];
		else if (kind == STATS_IS_LEFT)
			into->left += line->count[i];
	}
}

void stats_merge(struct stats_sum *into, const struct stats_sum *from)
{
	for (unsigned i = 0; i < STATS_COUNT; i++)
		into->count[i] += from->count[i];
	into->stored += from->stored;
	into->left += from->left;
}
