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
 *   Who competes: a dequeuer that got tired of waiting skips p (node EMPTY(c) -> EMPTY(c+1)).
 *   Then 3 fails and we take a new ticket p', CAS queued@p -> queued@p', and go on; if that CAS
 *   fails someone has found the chunk by its word (recovery) and it is no longer our concern.
 *   We never wait: after RING_TICKETS_MAX tickets the chunk stays queued@p for a recoverer.
 *   Crash after 1: p is skipped by a dequeuer.  After 2: the chunk word names p, a recoverer
 *   fills or re-tickets it.  After 3: done.
 *
 * Dequeue:
 *   1 READ cursors and the nodes at head
 *   2 CAS head forward over the leading nodes that are FULL (or were passed); while the ring is
 *     amply filled FAA head instead, which cannot fail.  The positions are now ours to look at.
 *     (Who sleeps before the FAA may find that it went beyond tail; it skips those positions.)
 *   3 for each: CAS chunk word queued@p -> evicting(cn, p).  Only the winner owns the chunk: a
 *     compactor or a recoverer may have taken it meanwhile.  The position is compared too, so a
 *     chunk that went round and is queued again at p' is not taken by a sleeper that saw p.
 *   4 CAS node FULL -> EMPTY(c+1), from the exact value, so that the next trip can use it.
 *   An EMPTY node at head belongs to a producer between its steps 1 and 3; after
 *   RING_SKIP_PAUSES it is skipped.
 *   A dequeuer leaves the node of each of its positions in a later trip, whatever it found there.
 *   One of an earlier trip belongs to a dequeuer that died or is late with its steps 3 and 4; if
 *   it were left to that one alone, it would at last be EMPTY for a trip that has passed, and no
 *   producer could ever fill it again.  After RING_SKIP_PAUSES an EMPTY one is moved on, and the
 *   chunk of a FULL one is claimed under the position it stands for: the late CASes then fail.
 *   Crash after 2: the chunks are queued@p with p below head: a recoverer claims them like 3.
 *   After 3: evicting(dead cn): a recoverer requeues them.  Before 4: the node stays FULL(c); a
 *   producer of the next trip fails its step 3 there and takes another ticket, and the dequeuer
 *   of the next trip tidies up.
 *
 * The free ring works the same way with the words free@p and reserved(cn).
 */
#ifndef FORGE_POOL_RING_H
#define FORGE_POOL_RING_H

#include <stdint.h>

#include "pool/pool.h"

#define RING_TICKETS_MAX 64u /* tickets an enqueue takes before it leaves the chunk to recovery */
#define RING_SKIP_PAUSES 32u /* looks at an EMPTY node at head before it is skipped */
#define RING_CLAIM_MAX	 16u /* most positions claimed at once */
#define RING_CLAIM_TRIES 16u /* lost races for head before a claim gives up */

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

/* A chunk the caller has come to own. */
struct ring_claimed {
	uint64_t position;
	uint64_t word; /* the exact chunk word: evicting(owner) or, from free, reserved(owner) */
	uint32_t chunk;
	uint32_t generation;
	uint32_t object_count;
	uint32_t segment;
};

/* What ring_claim() should do. */
struct ring_claim_wish {
	uint32_t ring;
	uint32_t count;	   /* wanted, at most RING_CLAIM_MAX */
	uint32_t evictors; /* workers that may claim at the same time, all CNs together */
	uint32_t owner;	   /* CN id */
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

/* Sanity of one node as READ: can it be acted on at all? */
static inline int ring_node_valid(const struct plan *p, uint64_t node)
{
	return node_state(node) == NODE_FULL && node_chunk(node) < p->chunk_count &&
	       node_object_count(node) <= p->group_objects;
}

#endif
