/*
 * ring.h: tickets, nodes and chunk words: how a chunk gets into a ring and out of it.
 *
 * Called by the flows in cache/.  Everything here is remote state changed by CAS or FAA; local
 * memory belongs to the caller.
 *
 * The argument.  The chunk word is the point of truth; a node only says where to look.
 *
 * Enqueue, by the owner of the chunk (its word is open, evicting or reserved in our name):
 *   1 FAA tail                      the ticket p is ours alone
 *   2 CAS chunk word -> queued@p    from here anyone may claim the chunk, by position p only
 *   3 CAS node EMPTY(c) -> FULL     c = p / ring_nodes; makes the chunk findable
 *   Who competes for the node: a dequeuer that got tired of waiting skips p (node EMPTY(c) ->
 *   EMPTY(c+1)).  Then 3 fails and we take a new ticket p', CAS queued@p -> queued@p', and go on;
 *   if that CAS fails someone has found the chunk by its word (recovery) and it is no longer our
 *   concern.  We never wait: after RING_TICKETS_MAX tickets the chunk stays queued@p for a
 *   recoverer.
 *   3 also fails where the node is still of an earlier trip, because the dequeuer of position
 *   q = p - ring_nodes is late, or dead.  Were p just given up, the node would become EMPTY(c)
 *   as soon as that dequeuer resets it, and nobody would ever fill it: a hole, for which every
 *   scanner waits.  So whoever has a ticket settles its node:
 *   4 EMPTY of an earlier trip: CAS it to our FULL.  The late dequeuer finds q passed, and q's
 *     producer, if there still is one, takes a new ticket.
 *     FULL of an earlier trip, chunk k: READ k's word.  Once it is not queued@q it never is again,
 *     and the node is rubbish: CAS it to our FULL.  The late dequeuer's reset, from the exact
 *     value, then fails, as it may.
 *   5 If k is queued@q still, neither of us may touch the node: whoever READs it later has to find
 *     k by it.  Our chunk goes on to a new ticket p', and when its word says so k gets p:
 *     CAS k queued@q -> queued@p, CAS node FULL(k, earlier) -> FULL(k, c).  The late dequeuer loses
 *     k by the position, and k goes round once more.  If k's CAS fails k is out of the way, and p
 *   is passed (CAS node -> EMPTY(c+1)); if the node's fails, because p was skipped meanwhile, k
 *   takes a new ticket as any skipped chunk does, for which we care.
 *   So whoever took a ticket and lives leaves its node FULL in the ticket's trip, or of a later
 *   one, unless RING_TICKETS_MAX dequeuers in a row skip it between its steps 1 and 3.  (Random
 *   schedules find 64 in a row, where nobody looks twice before it skips.)
 *   Crash after 1: p is skipped by a dequeuer.  After 2: the chunk word names p, a recoverer
 *   fills or re-tickets it.  After 3 and 4: done.  In 5, after the CAS of k's word: k is queued@p
 *   and its node says q: a recoverer frees it.
 *
 * Dequeue:
 *   1 READ cursors and the nodes at head
 *   2 CAS head forward over the leading nodes that are FULL (or were passed); while the ring is
 *     amply filled FAA head instead, which cannot fail.  The positions are now ours to look at.
 *     (Who sleeps before the FAA may find that it went beyond tail; it skips those positions.)
 *   3 for each, in one batch: CAS chunk word queued@p -> evicting(cn, p).  Only the winner owns the
 *     chunk: a compactor or a recoverer may have taken it meanwhile.  The position is compared too,
 * so a chunk that went round and is queued again at p' is not taken by a sleeper that saw p. 4 CAS
 * node FULL -> EMPTY(c+1), from the exact value, so that the next trip can use it. An EMPTY node at
 * head belongs to a producer between its steps 1 and 3; after RING_SKIP_PAUSES it is skipped. A
 * dequeuer leaves the node of each of its positions in a later trip, whatever it found there. One
 * of an earlier trip belongs to a dequeuer that died or is late with its steps 3 and 4; if it were
 * left to that one alone, it would at last be EMPTY for a trip that has passed, and no producer
 * could ever fill it again.  After RING_SKIP_PAUSES an EMPTY one is moved on, and the chunk of a
 * FULL one is claimed under the position it stands for: the late CASes then fail. Crash after 2:
 * the chunks are queued@p with p below head: a recoverer claims them like 3. After 3: evicting(dead
 * cn): a recoverer requeues them.  Before 4: the node stays FULL(c); the producer of the next trip
 * takes it over, or the dequeuer of the next trip tidies up.
 *
 * The free ring works the same way with the words free@p and reserved(cn).
 */
#ifndef FORGE_POOL_RING_H
#define FORGE_POOL_RING_H

#include <stdint.h>

#include "pool/pool.h"

#define RING_TICKETS_MAX  512u /* an enqueue takes, before it leaves the chunk to recovery */
#define RING_SETTLE_TRIES 16u  /* changes of a node that its ticket's owner follows */
#define RING_HELPED_MAX	  4u   /* groups helped along, each because of the last, in one enqueue */
#define RING_SKIP_PAUSES  32u  /* looks at an EMPTY node at head before it is skipped */
#define RING_CLAIM_MAX	  16u  /* most positions claimed at once */
#define RING_CLAIM_TRIES  16u  /* lost races for head before a claim gives up */

/* A chunk to enqueue, owned by the caller through the exact word. */
struct ring_entry {
	uint32_t chunk;
	uint32_t generation;
	uint32_t object_count; /* 1 for the free ring */
	uint32_t segment;
	uint64_t owned_word;
};

/*
 * Put the chunk into the ring.  *position receives the ticket.
 * Waits.  0; FORGE_E_AGAIN when the chunk was not ours any more (nothing was changed but a node
 * that the next dequeuer resets); or FORGE_E_NODE.
 */
MAY_WAIT int ring_enqueue(const struct pool *, struct worker *, enum fab_purpose, uint32_t ring,
			  const struct ring_entry *, uint64_t *position);

/* The same behind an op of the caller's, posted with step 1: it lands before the chunk is found. */
MAY_WAIT int ring_enqueue_behind(const struct pool *, struct worker *, enum fab_purpose,
				 uint32_t ring, const struct fab_op *before,
				 const struct ring_entry *, uint64_t *position);

/* A chunk the caller has come to own. */
struct ring_claimed {
	uint64_t position;
	uint64_t word; /* the exact chunk word: evicting(owner) or, from free, reserved(owner) */
	uint32_t chunk;
	uint32_t generation;
	uint32_t object_count;
	uint32_t segment;
};

/*
 * Step 1 of a claim, done with something else: the cursors of the ring, and nodes from where its
 * head was thought to be.  All of it is a hint, and what does not serve is READ again.
 */
struct ring_view {
	uint64_t nodes[RING_CLAIM_MAX];
	uint64_t head, tail;
	uint64_t from; /* position of the first node */
	uint32_t count;
};

/* The READ of nodes from a position on; head and tail are the caller's to fill in. */
struct fab_op ring_view_nodes(const struct pool *, enum fab_purpose, uint32_t ring, uint64_t from,
			      struct ring_view *);

/*
 * READs of what the claimed groups have, posted with step 3 and behind it.  What lies in a group
 * was in place before it was queued, so a READ behind the CAS that won it is as good as a later
 * one.
 */
struct ring_company {
	/* Append at most 5 ops a group and two more for n groups; how many? */
	uint32_t (*append)(void *context, const struct ring_claimed *, uint32_t n, struct fab_op *);
	void *context;
	struct fab_op *ops; /* room for them, and for two ops a group before them */
	uint8_t complete;   /* out: all groups they were for are ours */
};

/* What ring_claim() should do. */
struct ring_claim_wish {
	uint32_t ring;
	uint32_t count;	   /* wanted, at most RING_CLAIM_MAX */
	uint32_t evictors; /* workers that may claim at the same time, all CNs together */
	uint32_t owner;	   /* CN id */
	const struct ring_view *view; /* or NULL */
	struct ring_company *company; /* or NULL */
};

/*
 * Claim up to wish->count chunks at the head of a ring into out[].  *count receives how many
 * were won; it can be 0 although positions were consumed (others took the chunks).
 * Waits.  0, FORGE_MISS when the ring is empty, FORGE_E_AGAIN when others won every race for
 * head, or FORGE_E_NODE.
 */
MAY_WAIT int ring_claim(const struct pool *, struct worker *, enum fab_purpose,
			const struct ring_claim_wish *, struct ring_claimed *out, uint32_t *count);

/*
 * Claim one queued chunk from the middle of its ring, wherever head is.  known names chunk,
 * generation and position as last seen queued; the rest is filled in from the node, which is
 * reset, so that the dequeuer that gets there just passes it.
 * Waits.  0, FORGE_MISS when it is no longer there, or FORGE_E_NODE.
 */
MAY_WAIT int ring_claim_middle(const struct pool *, struct worker *, enum fab_purpose,
			       uint32_t ring, uint32_t owner, struct ring_claimed *known);

/* Is the node of a later trip than position p, so that p was dealt with by somebody? */
static inline int ring_node_passed(const struct plan *p, uint64_t node, uint64_t position)
{
	uint32_t ahead =
	    (node_cycle(node) - (uint32_t)plan_ring_cycle(p, position)) & (NODE_CYCLE_COUNT - 1);

	return ahead != 0 && ahead < NODE_CYCLE_COUNT / 2;
}

/* Is it FULL, of position p? */
static inline int ring_node_filled(const struct plan *p, uint64_t node, uint64_t position)
{
	return node_state(node) == NODE_FULL &&
	       node_cycle(node) == (plan_ring_cycle(p, position) & (NODE_CYCLE_COUNT - 1));
}

/* Has nobody filled or passed the node of position p yet, or an earlier one in its place? */
static inline int ring_node_waits(const struct plan *p, uint64_t node, uint64_t position)
{
	return !ring_node_passed(p, node, position) && !ring_node_filled(p, node, position);
}

/* Sanity of one node as READ: can it be acted on at all? */
static inline int ring_node_valid(const struct plan *p, uint64_t node)
{
	return node_state(node) == NODE_FULL && node_chunk(node) < p->chunk_count &&
	       node_object_count(node) <= p->group_objects;
}

#endif
