/*
 * pool.h: a memory node's export as a compute node sees it: the plan, and how to format it.
 *
 * Called by the node (format), by every compute node (open) and by tools.  A struct pool is
 * filled once and read only afterwards; any thread may read it.
 */
#ifndef FORGE_POOL_POOL_H
#define FORGE_POOL_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "layout/plan.h"
#include "pool/rules.h"
#include "run/run.h"

struct pool_clock;

struct pool {
	struct plan plan;
	uint64_t pool_id;
	uint64_t epoch;
	uint64_t boot;	       /* of the host whose node served it last; 0: not known */
	uint64_t time_base_ms; /* pool time less the clock of the node's host */
	/* What is known of that clock; NULL: it is this host's (pool/time.h).  Borrowed. */
	struct pool_clock *clock;
	rule_set rules_off; /* bits of enum rule; only tests set any */
	uint8_t impatient;  /* a late producer is skipped at once; only tests set it */
};

static inline int pool_rule(const struct pool *p, enum rule rule)
{
	return likely(!(p->rules_off >> rule & 1));
}

/*
 * What an export begins with from its first byte until pool_format() is done: no READY and no
 * pool id yet.  So one whose maker was killed is known, and has nothing in it that could be lost.
 */
struct layout_superblock pool_unmade(void);
bool pool_is_unmade(const struct layout_superblock *);

/*
 * Format the export: every chunk free, rings and index empty.  Nothing that was stored survives.
 * The superblock says READY last, so a half-formatted pool is never taken for one.
 * Waits.  0, FORGE_E_BOUNDS when the export is smaller than the plan, or FORGE_E_NODE.
 */
MAY_WAIT int pool_format(struct worker *, const struct plan *, uint64_t pool_id);

/* The same, with a time of its own (pool/time.h); otherwise pool time is the worker's clock. */
MAY_WAIT int pool_format_timed(struct worker *, const struct plan *, uint64_t pool_id,
			       const struct layout_time *);

/*
 * READ and check the superblock; fill in *out on success.  error_text names what was found,
 * what was expected and the remedy.
 * Waits.  0, FORGE_E_NOT_A_POOL, _LAYOUT, _CORRUPT, _POOL_TRUNCATED or _NODE.
 */
MAY_WAIT int pool_open(struct worker *, struct pool *out, char *error_text, size_t error_bytes);

#endif
