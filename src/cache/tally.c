/*
 * tally.c: telling the pool, by one FAA for each count that changed.
 *
 * Crash: between two FAAs, some counts of the changes that were not told have been, others not;
 * the sums are off by no more changes than those.
 */
#include "cache/tally.h"

static uint64_t word_address(const struct tally *t, unsigned i)
{
	return t->line + offsetof(struct layout_stats, count) + 8 * (uint64_t)i;
}

static MAY_WAIT int add_life(struct tally *t, struct worker *w, uint64_t addend)
{
	struct fab_op op =
	    fab_faa(FAB_CONTROL, t->line + offsetof(struct layout_stats, life), addend);

	return flow_run(w, &op, 1);
}

int tally_join(const struct pool *pool, struct worker *w, uint32_t cn)
{
	uint64_t address =
	    plan_stats_address(&pool->plan, cn) + offsetof(struct layout_stats, life);
	uint64_t life, joined;
	struct fab_op op = fab_read(FAB_CONTROL, address, &life, sizeof(life));
	int status = flow_run(w, &op, 1);

	if (status || !stats_life_counting(life))
		return status;
	/* Nobody else writes it: the id is ours, and the dead ones' verbs have landed or never
	 * will. */
	joined = stats_life_joined(life);
	op = fab_write(FAB_CONTROL, address, &joined, sizeof(joined));
	return flow_run(w, &op, 1);
}

int tally_open(struct tally *t, const struct pool *pool, struct worker *w, uint32_t cn)
{
	t->line = plan_stats_address(&pool->plan, cn);
	int status = add_life(t, w, STATS_LIFE_COUNTING);

	t->tells = !status;
	return status;
}

/* Those that changed; without `also`, only those that must add up. */
static MAY_WAIT int tell(struct tally *t, struct worker *w, int also)
{
	struct fab_op ops[STATS_COUNT];
	unsigned n = 0;

	t->untold = 0;
	if (!t->tells)
		return 0;
	t->count[STATS_gets] = *t->gets;
	t->count[STATS_hits] = *t->hits;
	for (unsigned i = 0; i < STATS_COUNT; i++) {
		uint64_t change = t->count[i] - t->told[i];

		if (!change || (!also && stats_name(i)->kind == STATS_IS_ALSO))
			continue;
		ops[n++] = fab_faa(FAB_HOTNESS, word_address(t, i), change);
		t->told[i] = t->count[i];
	}
	return n ? flow_run(w, ops, n) : 0;
}

int tally_tell(struct tally *t, struct worker *w)
{
	return tell(t, w, 1);
}

int tally_tell_changes(struct tally *t, struct worker *w)
{
	return tell(t, w, 0);
}

int tally_tell_old(struct tally *t, struct worker *w, uint64_t now_ns)
{
	if (!t->tells || now_ns - t->told_ns < UINT64_C(1000) * TALLY_TELL_US)
		return 0;
	t->told_ns = now_ns;
	return tally_tell(t, w);
}

int tally_close(struct tally *t, struct worker *w)
{
	if (!t->tells)
		return 0;
	int status = tally_tell(t, w);

	/* After the counts, on the same connection: a line that nobody counts in is complete. */
	if (!status)
		status = add_life(t, w, UINT64_C(0) - STATS_LIFE_COUNTING);
	t->tells = 0;
	return status;
}
