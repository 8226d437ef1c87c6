/*
 * nic.h: the model of a card and its link, as arithmetic on points in virtual time.
 *
 * A server is anything that does one thing after the other: a link in one direction, the pipeline
 * of a card, its atomic unit.  Work is booked as soon as it is known, in the order in which verbs
 * arrive, so nothing here waits and nothing has to be undone.  Pure functions on the caller's
 * structs; one thread.
 *
 * Who may call: fab.c, and tests.
 */
#ifndef FORGE_VTIME_NIC_H
#define FORGE_VTIME_NIC_H

#include <stdbool.h>

#include "fabric/fabric.h"
#include "vtime/profile.h"

struct vt_server {
	uint64_t free_ps; /* when the work booked so far is done */
	uint64_t busy_ps; /* how long it has worked, in all */
};

/*
 * Book work that is there at ready_ps, by a server that may begin with it at from_ps, which is
 * earlier or the same.  When is it done?  Whoever books with one from_ps for many an order of
 * ready_ps never leaves the server idle while there is work.
 */
static inline uint64_t vt_server_book(struct vt_server *s, uint64_t from_ps, uint64_t ready_ps,
				      uint64_t work_ps)
{
	s->free_ps = max_u64(s->free_ps, from_ps) + work_ps;
	s->busy_ps += work_ps;
	return max_u64(ready_ps + work_ps, s->free_ps);
}

/* The same for work that goes on while it still comes in: the second link of two, cut through. */
static inline uint64_t vt_server_pass(struct vt_server *s, uint64_t from_ps, uint64_t ready_ps,
				      uint64_t work_ps)
{
	s->free_ps = max_u64(s->free_ps + work_ps, from_ps);
	s->busy_ps += work_ps;
	return max_u64(ready_ps, s->free_ps);
}

/* When the next atomic on a word may take effect. */
struct vt_word {
	uint64_t address; /* + 1; 0: never used */
	uint64_t free_ps;
};

#define VT_WORDS 4096u /* far more than have an atomic under way at once */

/* A machine's card and link. */
struct vt_port {
	struct vt_server out, in;
	struct vt_server card;
	struct vt_server atomic_unit;
	uint64_t held_up_ps;	 /* the card, by an atomic that waited for the unit */
	uint64_t word_waited_ps; /* atomics, for others on the same word; they add up */
	struct vt_word words[VT_WORDS];
};

/* A verb at the node. */
struct vt_visit {
	const struct fab_op *op;
	bool device; /* the word is in the memory of the card */
	bool first;  /* of its batch */
};

/*
 * What the node's card and link make of a verb that arrives now.  Calls come in the order of
 * now_ps.  after_ps: the connection's verb before is done.  *flow_ps: when the reply could leave if
 * it did not wait for others on its word or connection; *done_ps: when the verb is done.
 */
void vt_port_serve(struct vt_port *, const struct vt_profile *, uint64_t now_ps,
		   const struct vt_visit *, uint64_t after_ps, uint64_t *flow_ps,
		   uint64_t *done_ps);

/* Bytes on the link for a verb: to the node, and back. */
uint64_t vt_request_bytes(const struct vt_profile *, const struct fab_op *);
uint64_t vt_reply_bytes(const struct vt_profile *, const struct fab_op *);

/* How long a request or reply is under way beside all that is modelled. */
uint64_t vt_delay_ps(const struct vt_profile *);

#endif
