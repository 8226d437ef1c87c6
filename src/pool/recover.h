/*
 * recover.h: taking back what a dead compute node owned, and chunks no ring can find.
 *
 * Called by any survivor, by the node and by `forge check --repair`; all run this code.  The
 * caller has proof that the compute node is dead and keeps its id from being joined meanwhile
 * (on one host: the kernel released the dead process's lock, and the caller holds it now).
 *
 * The argument.  Every word is changed by CAS from the exact value seen, so two recoverers at
 * once and live nodes beside them are safe: one wins a chunk, the others find another word.
 *
 *   reserved(dead)   no slot points there: into the free ring, one generation on, because the head
 *                    of a large object may name it (parts.h)
 *   open(dead)       freed, one generation on: its slots become stale, as if evicted.  (Sealing
 *                    it instead would take a sweep of the whole index, to save at most two
 *                    groups a worker of a cache.)
 *   evicting(dead)   freed, one generation on: it was about to be.  Members that had moved live
 *                    on in their new group.
 *   queued@p, p below head, its node still FULL: a dequeuer moved head and died before its claim:
 *                    a new ticket with what the node says
 *   queued@p otherwise not findable: its producer died between its last two CASes: freed, one
 *                    generation on
 *   free@p not findable: a new ticket
 *   nodes that are behind: EMPTY before tail (a producer died after its ticket), FULL below head
 *                    though the chunk is elsewhere (a dequeuer died before the reset): moved on,
 *                    so that nobody has to wait for them
 *
 * A chunk that is queued but not findable may also be in the hands of a live node between two of
 * its verbs.  So such words are acted on only if they stand unchanged, and their node too (up to
 * a limit), over RECOVER_LOOKS looks with a pause between; if the live node slept through even
 * that, its next CAS fails and it goes on as after any lost race.
 *
 * A crash after any verb leaves words of the same kinds: recovery simply runs again.
 * Time: two sweeps over chunk table and rings for each dead node; RECOVER_VERBS_OWNED verbs for a
 * chunk in its name, RECOVER_VERBS_ORPHAN for one that may be in live hands, RECOVER_VERBS_NODE for
 * a node left behind, RECOVER_VERBS_PART for a part of a large object; and no wait for anybody's
 * progress.  recover_verbs_max() is the sum.
 *
 * At the end of each recovery the parts of large objects that no head lists are freed, parts.h.
 */
#ifndef FORGE_POOL_RECOVER_H
#define FORGE_POOL_RECOVER_H

#include "pool/registry.h"

#define RECOVER_LOOKS		 32u
#define RECOVER_NODE_CHANGES_MAX 16u /* of an orphan's node: each starts the looks anew */

/* What was done; FIELD(name, sentence) */
#define RECOVER_FIELDS(FIELD)                                                         \
	FIELD(reserved_freed, "reserved chunks given to the free ring")               \
	FIELD(open_freed, "open chunks freed")                                        \
	FIELD(evicting_freed, "half-evicted chunks freed")                            \
	FIELD(queued_again, "groups no dequeuer would have found, with a new ticket") \
	FIELD(queued_freed, "groups that never got a node, freed")                    \
	FIELD(free_again, "free chunks no node pointed to, with a new ticket")        \
	FIELD(parts_freed, "parts of large objects that nothing pointed to, freed")   \
	FIELD(nodes_reset, "nodes left behind, reset")                                \
	FIELD(races_lost, "words that somebody else dealt with meanwhile")

struct recover_report {
#define FIELD(name, sentence) uint64_t name;
	RECOVER_FIELDS(FIELD)
#undef FIELD
	uint64_t parts_seen; /* parts of large objects that were looked at */
};

struct recover;

#define RECOVER_SWEEP_WORDS 4096u /* READ at once from chunk table and rings */
/* Clear the dead map, ticket, chunk word, node; and another ticket for each node left behind. */
#define RECOVER_VERBS_OWNED 4u
/* As many looks of three verbs, and the same. */
#define RECOVER_VERBS_ORPHAN (3 * RECOVER_LOOKS + RECOVER_VERBS_OWNED)
/* Two looks at its chunk, looks of two verbs, the CAS; and the ticket it cost a chunk. */
#define RECOVER_VERBS_NODE (2 + 2 * RECOVER_LOOKS + 1 + 3)

/* Slot and head twice, the head's CAS and its count; ticket, chunk word and node. */
#define RECOVER_VERBS_PART (2 * 4 + 2 + 3)

/*
 * The most verbs that a recovery takes which reports this, beside nobody else at work: who changes
 * words meanwhile can make it look RECOVER_NODE_CHANGES_MAX times as often at a node, and take as
 * many tickets as an enqueue ever does.  Any thread.
 */
uint64_t recover_verbs_max(const struct plan *, const struct recover_report *, uint32_t dead_count);

/*
 * Buffers for recoveries of one pool, registered with the worker's fabric.
 * 0, FORGE_E_NO_MEMORY, or what fab_reg() says.
 */
int recover_create(const struct pool *, struct worker *, struct recover **out);
void recover_destroy(struct recover *);

/*
 * Take back everything the dead CN owned and everything nobody can find, and free its registry
 * line if it still holds that id word.  Adds to *report.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int recover_cn(struct recover *, struct worker *, uint32_t dead, uint64_t id,
			struct recover_report *);

/*
 * Look at every line of the registry; of each compute node that is proven dead, take back all.
 * *dead_count receives how many.  Allocates.  Waits.  0, FORGE_E_NO_MEMORY or FORGE_E_NODE.
 */
MAY_WAIT int recover_dead_open(const struct pool *, struct worker *, const struct liveness *,
			       struct recover_report *, uint32_t *dead_count);

/*
 * All that can be proven to be nobody's: as recover_dead_open(), and chunks in the name of an id
 * that is not in use, and what no ring can find, even if nobody has died.
 */
MAY_WAIT int recover_repair(const struct pool *, struct worker *, const struct liveness *,
			    struct recover_report *, uint32_t *dead_count);

/*
 * Free the parts of large objects that no head lists: after a recovery, and now and then beside
 * live nodes, since a head that nobody could read leaves some.  Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int recover_parts(struct recover *, struct worker *, struct recover_report *);

/* The second part alone: make every queued and free chunk findable.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int recover_orphans(struct recover *, struct worker *, struct recover_report *);

/* How many words were mended. */
uint64_t recover_report_sum(const struct recover_report *);

/* In words: "open chunks freed: 2; nodes left behind, reset: 1", or "nothing". */
void recover_report_print(const struct recover_report *, char *text, size_t text_bytes);

/* Add up reports. */
void recover_report_merge(struct recover_report *into, const struct recover_report *from);

#endif
