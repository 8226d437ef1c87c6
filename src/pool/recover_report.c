/* recover_report.c: what recoveries did, summed up, in words, and as a bound in verbs. */
#include "pool/recover.h"

#include <stdio.h>

#include "base/text.h"

void recover_report_merge(struct recover_report *into, const struct recover_report *from)
{
#define FIELD(name, sentence) into->name += from->name;
	RECOVER_FIELDS(FIELD)
#undef FIELD
	into->parts_seen += from->parts_seen;
}

uint64_t recover_report_sum(const struct recover_report *r)
{
	uint64_t sum = 0;

#define FIELD(name, sentence) sum += r->name;
	RECOVER_FIELDS(FIELD)
#undef FIELD
	return sum - r->races_lost;
}

static uint64_t sweep_reads(uint64_t words)
{
	return (words + RECOVER_SWEEP_WORDS - 1) / RECOVER_SWEEP_WORDS;
}

uint64_t recover_verbs_max(const struct plan *p, const struct recover_report *r,
			   uint32_t dead_count)
{
	/*
	 * Chunk table, rings and cursors twice; its line, the count of groups, the line's CAS; the
	 * chunk table for the parts, and their count twice.
	 */
	uint64_t sweeps =
	    3 * sweep_reads(p->chunk_count) + 2 * RING_COUNT * sweep_reads(p->ring_nodes) + 2 + 3;

	return 1 + dead_count * (sweeps + 2) + RECOVER_VERBS_PART * r->parts_seen +
	       RECOVER_VERBS_OWNED * (r->reserved_freed + r->open_freed + r->evicting_freed) +
	       RECOVER_VERBS_ORPHAN * (r->queued_again + r->queued_freed + r->free_again) +
	       RECOVER_VERBS_NODE * r->nodes_reset;
}

void recover_report_print(const struct recover_report *r, char *text, size_t text_bytes)
{
	size_t used = 0;

	snprintf(text, text_bytes, "nothing");
#define FIELD(name, sentence) used = text_list(text, text_bytes, used, sentence, r->name);
	RECOVER_FIELDS(FIELD)
#undef FIELD
}
