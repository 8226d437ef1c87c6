/*
 * inside.h: what the files of src/client share: a client, its members, a session and its seats.
 *
 * Internal to src/client.  A client's cache lies on one memory node or several, its *members*.  Of
 * each it has an attachment while the member is up, and none while it is lost.  A session has a
 * *seat* at each member: a connection and a lane; its views have a *place* on each of its seats.
 *
 * Who may change what: `now` of a member is written under the client's lock and read without it.
 * Seats and places belong to their session's thread, and hold the attachment they are of by a
 * count, so that one is taken for another only if it is the same.  The lock is held for a few
 * instructions, and never on the way of an operation unless its member is lost, or came back.
 */
#ifndef FORGE_CLIENT_INSIDE_H
#define FORGE_CLIENT_INSIDE_H

#include <pthread.h>

#include "base/cancel.h"
#include "client/attachment.h"
#include "client/forked.h"
#include "client/name.h"
#include "client/refused.h"
#include "client/view.h"
#include "pool/spread.h"

struct member {
	_Atomic(struct attachment *) now; /* NULL: lost */
	uint64_t id;			  /* in the record; 0 for a cache on one node */
	/* Under the client's lock, or the mender's alone: */
	const char *name;	   /* NULL: not known which of the names it is */
	struct attachment *parked; /* what it had when the client became outdated */
	struct refused refused;
	uint64_t pool_id; /* of the memory it had when it was lost */
	uint32_t line;	  /* of the registry there, and the word that was ours; 0: none */
	uint64_t line_id;
	uint64_t due_ns;   /* when to try again */
	uint64_t pause_ns; /* between the last try and that one */
};

struct client {
	struct client_options options;
	char *policy_name; /* what options.policy points to */
	unsigned forked_mark;
	uint32_t member_count;
	struct member *members;
	uint8_t table[SPREAD_PARTITIONS]; /* with several members: who has a partition */
	struct spread_record record;
	uint32_t spread_epoch;
	char **names;
	uint64_t *places; /* [name_count] hashes of them, without options */
	uint32_t name_count;
	_Atomic uint32_t up_count;
	/* A member said that the record is not the present one: no operation is begun any more. */
	_Atomic uint8_t is_outdated;

	/* Of the first member that was reached, but the plan with the smallest limit for values. */
	struct pool pool;
	const struct policy *policy;
	uint32_t cn;
	uint64_t time_base_ms; /* session time less the clock */

	_Atomic uint32_t sessions_opened, sessions_live;
	_Atomic uint64_t losses, returns;

	pthread_mutex_t lock;
	pthread_cond_t wake; /* for the mender; CLOCK_MONOTONIC */
	pthread_t mender;
	uint8_t is_mending; /* the mender was started */
	uint8_t is_closing;
	struct cancel cancel; /* of what the mender waits for; there while it is_mending */
	struct prng prng;     /* the mender's */
	char told[160];	      /* the last reason it logged */
};

/* A session's connection and lane at a member. */
struct seat {
	struct attachment *of; /* counted */
	struct fab *fab;
	uint32_t users; /* its session, and places */
	uint8_t is_own; /* the session's own view is there */
	struct worker worker;
	struct lane lane;
	struct cache cache;
};

struct session {
	struct client *client;
	struct seat **seats; /* [member_count]; NULL: none */
	struct fab_counts verbs;
	uint32_t index;
	uint8_t is_begun; /* session_open() has been to all members that were up */
	struct view view;
	struct cache_counters sum; /* of session_counters() */
};

static inline struct attachment *member_now(const struct member *m)
{
	return atomic_load_explicit(&m->now, memory_order_acquire);
}

/*
 * In a child of fork() there is no thread of the client's, and it may have held the lock when the
 * child was made: nobody would ever give it back.
 */
static inline void client_lock(struct client *c)
{
	if (!forked_since(c->forked_mark))
		pthread_mutex_lock(&c->lock);
}

static inline void client_unlock(struct client *c)
{
	if (!forked_since(c->forked_mark))
		pthread_mutex_unlock(&c->lock);
}

/* ---- members.c ---------------------------------------------------------------------------- */

/*
 * Which lost member is it that was found under that name, and said that of itself?  A new pool
 * becomes the member it stands for.  0, or why it is none, with the reason.
 */
int members_recognise(struct client *, const char *name, struct attachment *,
		      const struct spread_view *, struct member **out, char *error_text,
		      size_t error_bytes);

/* Is it known which member has that name? */
int members_name_is_known(const struct client *, const char *name);

/* Reach the nodes of the list, and find or form the spread.  As client_open(). */
int members_open(struct client *, const char *list, char *error_text, size_t error_bytes);

/* Drop every attachment, and free. */
void members_close(struct client *);

/* The member is up: from now on sessions use that attachment, whose count the member takes. */
void member_came(struct client *, struct member *, struct attachment *);

/* ---- mend.c ------------------------------------------------------------------------------- */

/* An operation ended with FORGE_E_SPREAD: so do all from now on, at whichever member. */
void client_outdate(struct client *);

/* The member's attachment with a count on it, or NULL while it is lost. */
struct attachment *member_hold(struct client *, const struct member *);

/* The attachment does not work any more; it is somebody's seat's. */
void member_lose(struct client *, struct member *, struct attachment *);

/*
 * A change of the key was refused.  1 if it was noted; 0: the member is up again, and the caller
 * has to see to it.
 */
int member_refuse(struct client *, struct member *, struct cache_key);
int member_refuse_all(struct client *, struct member *);

/*
 * Delete at a member that is back what was refused meanwhile, and publish it when nothing is left
 * and there is a connection for every session; by the mender, with a seat of its own.  0;
 * FORGE_E_NODE, FORGE_E_AGAIN, FORGE_E_NO_MEMORY, and then the member is lost as before and knows
 * what is left.
 */
int settle(struct client *, struct member *, struct seat *);

/* Start and end the thread that looks after lost members.  0 or FORGE_E_SYSTEM. */
int mend_start(struct client *);
void mend_stop(struct client *);

/* ---- seat.c ------------------------------------------------------------------------------- */

/*
 * Seat numbered `index` in the process.  Holds the attachment.  Of a session that has begun its
 * connection was made ahead, and nothing is waited for; else it connects.  Its cache counts in the
 * pool only when it is told to.  0, FORGE_E_NODE, FORGE_E_NO_MEMORY.
 */
int seat_open(struct client *, struct attachment *, uint32_t index, int is_begun,
	      struct fab_counts *verbs, struct seat **out);

/* Give back what it holds of the pool, unless that is the parent's or lost.  Waits. */
void seat_drain(struct seat *);

/* See session_rest(). */
void seat_rest(struct seat *);

/* One user less. */
void seat_drop(struct seat *);

#endif
