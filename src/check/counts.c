/*
 * counts.c: do the counters of the compute nodes add up to what the index holds?
 *
 * layout/stats.h has the argument: stored - left = words of objects in the index.  The lines are
 * READ before and after the scan of the index.  What may be missing is known:
 *  - STATS_UNTOLD_MAX changes for each worker that counts, or died counting;
 *  - as many changes as were told between the two READs, for the scan met some of them and not
 *    others;
 *  - a word that breaks a rule of its own: nobody can say what it was.
 * So, when nobody is attached and nobody was killed, nothing is.
 */
#include <inttypes.h>

#include "check/inside.h"
#include "layout/stats.h"

static uint64_t distance(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0 ? b - a : a - b;
}

static MAY_WAIT int read_line(struct check *c, uint64_t cn, struct layout_stats *line)
{
	return check_read(c, plan_stats_address(c->plan, (uint32_t)cn), line, sizeof(*line));
}

static MAY_WAIT int look_line(struct check *c, uint64_t cn, int fresh, struct check_verdict *v)
{
	uint64_t address = plan_stats_address(c->plan, (uint32_t)cn);
	struct layout_stats line;
	int status = read_line(c, cn, &line);

	for (unsigned i = 0; i < ARRAY_COUNT(line.zero) && !status; i++)
		if (line.zero[i] != 0)
			VERDICT(v, STATS_LINE, address, line.zero[i],
				"the counters of node %u have %016" PRIx64 " where zero is",
				(unsigned)cn, line.zero[i]);
	return status;
}

int check_counts_read(struct check *c, struct check_counts *out)
{
	int status = 0;

	*out = (struct check_counts){.workers = 0};
	for (uint32_t cn = 0; cn < c->plan->cn_max && !status; cn++) {
		struct layout_stats line;

		status = read_line(c, cn, &line);
		stats_add(&out->sum, &line);
		out->workers += stats_life_dead(line.life) + stats_life_counting(line.life);
	}
	return status;
}

int check_counts(struct check *c, const struct check_counts *before)
{
	struct check_report *o = c->out;
	struct check_counts after;
	struct check_verdict v;
	int status = 0;

	for (uint32_t cn = 0; cn < c->plan->cn_max && !status; cn++)
		status = check_judge(c, look_line, cn);
	if (!status)
		status = check_counts_read(c, &after);
	if (status)
		return status;
	o->words_stored = after.sum.stored;
	o->words_left = after.sum.left;
	o->words_unaccounted = distance(stats_present(&after.sum), o->words);
	o->words_tolerated = STATS_UNTOLD_MAX * max_u64(before->workers, after.workers) +
			     distance(after.sum.stored, before->sum.stored) +
			     distance(after.sum.left, before->sum.left) + o->slots_invalid +
			     o->unstable;
	if (c->options->uncounted || o->words_unaccounted <= o->words_tolerated)
		return 0;
	VERDICT(&v, STATS_SUM, c->plan->stats_offset, stats_present(&after.sum),
		"stored %" PRIu64 ", left %" PRIu64 ", but %" PRIu64
		" words of objects are there; %" PRIu64 " may be missing",
		o->words_stored, o->words_left, o->words, o->words_tolerated);
	check_report_verdict(c, &v);
	return 0;
}
