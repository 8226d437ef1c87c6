/*
 * spread.h: reading, forming and changing the spread of one cache's keys over memory nodes, as far
 * as one node is concerned; layout/spread.h has the words, doc/nodes.md the reasons.
 *
 * Called by clients when they attach and by `forge spread`.  All functions wait; a worker is one
 * node's connection.
 *
 * The argument.  Who works by a record works by the epoch it is of: an operation starts with a
 * sample of the node's fence and ends at once when the epoch in it is another (cache_begin()).  The
 * sample is at most flush_trust_us old, as for a flush.  So, once the fences of all members have a
 * new epoch, and twice that time has passed, no operation starts by the old record any more; until
 * then the claim stands, and nobody attaches by the new one.  What began before may still end
 * later: it overlaps with all that follows, and takes its place before.
 *
 * What it leaves, it leaves on a node that had the key's partition, with the generation of its own
 * sample.  It must not be found if the partition ever comes back.  So a node remembers of which
 * partitions it may have values (`owned`, a bit once set stays), and if one of them comes back to
 * it, the CAS that raises its epoch raises its flush generation, too.  A partition that a node
 * never had brings nothing along, and nothing is flushed: who adds a node loses what moves there,
 * and no more.
 */
#ifndef FORGE_POOL_SPREAD_H
#define FORGE_POOL_SPREAD_H

#include "layout/spread.h"
#include "pool/pool.h"

/* What one node says about the spread. */
struct spread_view {
	struct spread_page page;
	uint64_t fence;
	uint64_t epoch;			    /* 0: it is a cache of its own */
	uint64_t member;		    /* its id; 0 if it is no member of the present record */
	uint64_t claim;			    /* somebody is changing it */
	uint8_t was_used;		    /* a compute node attached to it, ever */
	uint8_t is_damaged;		    /* its fence names a record that is not whole */
	const struct spread_record *record; /* in page; NULL without epoch, or damaged */
};

/* READ it, so that page and fence belong together.  0, FORGE_E_AGAIN or FORGE_E_NODE. */
MAY_WAIT int spread_read(struct worker *, const struct pool *, struct spread_view *out);

/*
 * Make a node that nobody ever used a member.  Others may do the same at the same time, also with
 * another record: one of them wins whole, or all see it.
 * *after is what it says then.  0; FORGE_E_AGAIN when that is something else; FORGE_E_NODE.
 */
MAY_WAIT int spread_join(struct worker *, const struct pool *, const struct spread_record *,
			 uint64_t member, struct spread_view *after);

/* ---- changing it, a step at a time on every node ------------------------------------------ */

/* Claim it; over somebody else's claim only if `over` is that.  0, FORGE_E_AGAIN, FORGE_E_NODE. */
MAY_WAIT int spread_claim(struct worker *, uint64_t token, uint64_t over);
MAY_WAIT int spread_unclaim(struct worker *, uint64_t token);

/* What a node that was READ has to do when `next` comes into force. */
struct spread_step {
	uint64_t member;
	uint64_t owned[SPREAD_OWNED_WORDS]; /* from then on */
	uint8_t must_flush;
};

/*
 * before: the record in force, NULL for none.  member: the node's id; one that is not in next
 * leaves. keeps: the node, a cache of its own so far, goes on as a member with what it holds; any
 * other that was no member is flushed.
 */
void spread_plan(const struct spread_view *, const struct spread_record *before,
		 const struct spread_record *next, uint64_t member, int keeps,
		 struct spread_step *out);

/* Prepare and commit it; the node is claimed.  0 or FORGE_E_NODE. */
MAY_WAIT int spread_prepare(struct worker *, const struct spread_view *,
			    const struct spread_record *next, const struct spread_step *);
MAY_WAIT int spread_commit(struct worker *, const struct pool *, uint64_t epoch,
			   const struct spread_step *);

#endif
