/*
 * count.h: a provider that counts the verbs which pass through it, by purpose and code.
 *
 * Who may call: benchmarks, tools and tests, between a provider and a worker.  The counts belong
 * to the caller, outlive the connection, and are plain memory of the connection's thread: another
 * thread reads them after a join, or adds them up with fab_counts_merge.
 */
#ifndef FORGE_FABRIC_COUNT_H
#define FORGE_FABRIC_COUNT_H

#include "fabric/fabric.h"

struct fab_count {
	uint64_t verbs;	     /* completed or failed; detached ones when posted */
	uint64_t bytes;	     /* payload, 8 for CAS and FAA, also of verbs that failed */
	uint64_t cas_failed; /* a CAS that found another word: wasted, though no error */
	uint64_t errors;     /* verbs with a negative status */
};

struct fab_counts {
	struct fab_count by[FAB_PURPOSES][FAB_CODES];
};

/*
 * Wrap inner, which is owned from now on, also on failure, when it is closed.  counts is the
 * caller's, is added to and never cleared.  0 or FORGE_E_NO_MEMORY.
 */
int count_open(struct fab *inner, struct fab_counts *counts, struct fab **out);

/* Add from to into. */
void fab_counts_merge(struct fab_counts *into, const struct fab_counts *from);

/* later - earlier, for counts of one connection at two times. */
struct fab_counts fab_counts_since(const struct fab_counts *later,
				   const struct fab_counts *earlier);

/* Sums: of everything, of one purpose, of one code. */
struct fab_count fab_counts_total(const struct fab_counts *c);
struct fab_count fab_counts_of_purpose(const struct fab_counts *c, enum fab_purpose purpose);
struct fab_count fab_counts_of_code(const struct fab_counts *c, enum fab_code code);

#endif
