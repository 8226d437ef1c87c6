/*
 * rebuild.h: making rings and cursors anew from the chunk table, when nobody else is there.
 *
 * For a pool whose metadata is damaged: torn cursors, nodes or chunk words of nonsense, slots that
 * point nowhere.  Called by check/mend.c.  The caller holds the locks of all compute nodes, so
 * that no word changes meanwhile.  What dead ones held is freed on the way, as recovery would.
 *
 * What is believed: a group, if chunk word and ring node name each other with one generation; a
 * free chunk, likewise.  Two words that fit were not both hit by chance.  A part of a large object
 * by its word alone, for its head vouches for it, which the checker looks at.  Every other chunk is
 * emptied: it is freed, and, since its generation may be of nobody's making, every slot that
 * points into it is cleared, lest a slot of long ago fits the new generation.  The groups keep
 * their order and get new tickets, above every ticket a word names.  Counts of hits and dead
 * members, which are hints, are cleared.
 *
 * The flush generation is the highest that the cursors or any registry line names: a flush is
 * acknowledged only when the nodes have published it, so none is undone.
 *
 * A crash on the way leaves damage of the same kinds: who rebuilds next loses the groups whose
 * chunk word and node were not both written, and nothing else.
 */
#ifndef FORGE_POOL_REBUILD_H
#define FORGE_POOL_REBUILD_H

#include "pool/pool.h"

/* FIELD(name, sentence) */
#define REBUILD_FIELDS(FIELD)                                                      \
	FIELD(groups_kept, "groups whose chunk word and node agree, queued anew")  \
	FIELD(chunks_emptied, "chunks that nothing proves to hold a group, freed") \
	FIELD(slots_cleared, "slots that pointed into those or nowhere, cleared")  \
	FIELD(values_lost, "values that were in them")                             \
	FIELD(cursors_rebuilt, "rings whose cursors contradicted the chunks")      \
	FIELD(lines_reset, "lines of the registry or of the counters put right")   \
	FIELD(sums_corrected, "changes that nobody counted, taken for lost or stored")

struct rebuild_report {
#define FIELD(name, sentence) uint64_t name;
	REBUILD_FIELDS(FIELD)
#undef FIELD
};

/*
 * Rebuild.  condemned: [chunk_count], chunks to be emptied whatever their words say, or NULL.
 * Adds to *report.  Allocates 40 bytes for each chunk and more.  Waits.
 * 0, FORGE_E_NO_MEMORY or FORGE_E_NODE.
 */
MAY_WAIT int rebuild_pool(const struct pool *, struct worker *, const uint8_t *condemned,
			  struct rebuild_report *report);

/* Clear the slot at that address, and count what was in it as lost.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int rebuild_clear_slot(const struct pool *, struct worker *, uint64_t address,
				struct rebuild_report *report);

/* Add to a counter of line 0 that a node cannot have counted any more.  Waits. */
MAY_WAIT int rebuild_count(const struct pool *, struct worker *, unsigned counter, uint64_t n);

/* How many things were put right; groups kept are none. */
uint64_t rebuild_report_sum(const struct rebuild_report *);

/* In words, or "nothing". */
void rebuild_report_print(const struct rebuild_report *, char *text, size_t text_bytes);

#endif
