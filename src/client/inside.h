/*
 * inside.h: what the files of src/client share: a client, its members, a session and its seats.
 *
 * Internal to src/client.  A client's cache lies on one memory node or several, its *members*.  Of
 * each it has an attachment while the member is up, and none while it is lost.  A session has a
 * *seat* at each member: a connection and a lane; its views have a *place* on each of its seats.
 *
 * A member has a *slot* of the client as long as it is one, whoever else comes and goes; then the
 * slot is somebody else's.  A *map* says, for one epoch of the spread, which slot has which key.
 * Each view holds the map it works by, and takes the client's at its next operation (follow.c).
 *
 * Who may change what: `now` of a member is written under the client's lock and read without it,
 * and so is the present map.  Seats and places belong to their session's thread, and hold the
 * attachment they are of by a count, so that one is taken for another only if it is the same.  The
 * lock is held for a few instructions, and never on the way of an operation unless its member is
 * lost or came back, or the map is another one.
 */
#ifndef FORGE_CLIENT_INSIDE_H
#define FORGE_CLIENT_INSIDE_H

#include <pthread.h>

#include "base/cancel.h"
#include "base/hash.h"
#include "client/attachment.h"
#include "client/forked.h"
#include "client/name.h"
#include "client/refused.h"
#include "client/view.h"
#include "client/wake.h"
#include "pool/spread.h"

/*
 * How long an operation waits until it is known who the members are, or a new one is reached, all
 * operations together from when it began: many times what either takes.
 */
#define FOLLOW_PATIENCE_NS UINT64_C(1000000000)

struct member {
	_Atomic(struct attachment *) now; /* NULL: lost */
	/* It is a new member that was not reached yet: changes wait for it (follow.c). */
	_Atomic uint8_t is_arriving;
	/* Under the client's lock, or the mender's alone: */
	const char *name; /* NULL: not known which of the names it is */
	struct refused refused;
	uint64_t arriving_until_ns;
	uint64_t pool_id; /* of the memory it had when it was lost */
	uint32_t line;	  /* of the registry there, and the word that was ours; 0: none */
	uint64_t line_id;
	uint64_t due_ns;   /* when to try again */
	uint64_t pause_ns; /* between the last try and that one */
};

#define MAP_NOWHERE SPREAD_NODES_MAX

struct map {
	_Atomic uint32_t counts;
	uint32_t epoch; /* 0: the cache is on one node, which is no member of anything */
	uint32_t member_count;
	uint32_t slot_end;		  /* all slots are below */
	uint64_t slots;			  /* a bit for each */
	uint8_t only;			  /* the slot, if there is one */
	uint8_t slot[SPREAD_NODES_MAX];	  /* of each member in the record */
	uint8_t table[SPREAD_PARTITIONS]; /* with several: the slot that has a partition */
	struct spread_record record;	  /* zeroes in epoch 0 */
};

/* A name that was made for a member the client's list did not have; lives as long as the client. */
struct dialled {
	struct dialled *next;
	char name[];
};

struct client {
	struct client_options options;
	char *policy_name; /* what options.policy points to */
	unsigned forked_mark;
	struct member members[SPREAD_NODES_MAX]; /* by slot */
	/*
	 * What operations are begun by; NULL: a member said that it is not the present one, and
	 * none is begun until it is known what is (follow.c).
	 */
	_Atomic(struct map *) present;
	struct map *newest;	      /* counted; changed by the mender alone, under the lock */
	_Atomic uint64_t outdated_ns; /* when present became NULL last */
	_Atomic uint8_t is_shifting;  /* members have times of their own: view.c */
	struct dialled *dialled;
	char **names;
	uint64_t *places; /* [name_count] hashes of them, without options */
	/* [name_count] what a record has of them; empty where it is too long for one */
	char (*texts)[SPREAD_NAME_BYTES_MAX + 1];
	uint32_t name_count;
	/* While it is opened, behind those: names that were given, and nobody was reached by. */
	uint32_t names_left;
	_Atomic uint32_t up_count;

	/* Of the first member that was reached, but the plan with the smallest limit for values. */
	struct pool pool;
	const struct policy *policy;
	uint32_t cn;
	uint64_t time_base_ms; /* session time less the clock */

	_Atomic uint32_t sessions_opened, sessions_live;
	_Atomic uint64_t losses, returns;

	pthread_mutex_t lock;
	pthread_t mender;
	uint8_t is_mending; /* the mender was started */
	uint8_t is_trying;  /* it tries to reach a member */
	uint8_t is_closing;
	_Atomic uint32_t told;	/* the slot that said the map is not the present one */
	uint64_t look_pause_ns; /* between its last look at the record and the next */
	struct seat *retired;	/* seats that it is to leave in order */
	struct cancel cancel;	/* of what the mender waits for; there while it is_mending */
	struct wake wake;	/* of the mender; the same */
	struct prng prng;	/* the mender's */
	char said[160];		/* the last reason it logged */
};

/* A session's connection and lane at a member. */
struct seat {
	struct client *client;
	struct attachment *of; /* counted */
	struct fab *fab;
	uint32_t users;	    /* its session, and places */
	uint8_t is_own;	    /* the session's own view is there */
	uint8_t is_drained; /* it gave back what it held */
	struct seat *next;  /* among the retired */
	struct worker worker;
	struct lane lane;
	struct cache cache;
};

struct session {
	struct client *client;
	struct seat *seats[SPREAD_NODES_MAX]; /* by slot; NULL: none */
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

/* ---- map.c ---------------------------------------------------------------------------------- */

/* Zeroes, with one count.  NULL: no memory. */
struct map *map_create(void);

/* What follows from its record and slots. */
void map_fill(struct map *);

/* One count less; NULL is permitted. */
void map_drop(struct map *);

/* The client's, with a count on it; the present one may be NULL.  Any thread. */
struct map *map_hold_newest(struct client *);
struct map *map_hold_present(struct client *);

/* The slot of the member with that id, or MAP_NOWHERE. */
uint32_t map_id_slot(const struct map *, uint64_t id);

static inline int map_has(const struct map *m, uint32_t slot)
{
	return m->slots >> slot & 1;
}

/* The slot that has the key. */
static inline uint32_t map_slot_of(const struct map *m, struct cache_key key)
{
	if (likely(m->member_count == 1))
		return m->only;
	return m->table[spread_partition(hash_key(key.data, key.bytes))];
}

static inline struct map *map_present(struct client *c)
{
	return atomic_load_explicit(&c->present, memory_order_acquire);
}

/* ---- dial.c ------------------------------------------------------------------------------- */

/*
 * The name that a record has of a member, with this client's options, or NULL if it has none that
 * may be used.  It lives as long as the client.  By who opens the client, then by the mender.
 */
const char *dial_name(struct client *, const struct spread_record *, uint32_t member);

/* ---- members.c ---------------------------------------------------------------------------- */

/* Reach the nodes of the list, and find or form the spread.  As client_open(). */
int members_open(struct client *, const char *list, char *error_text, size_t error_bytes);

/* Drop every attachment, and free. */
void members_close(struct client *);

/* The member is up: from now on sessions use that attachment, whose count the member takes. */
void member_came(struct client *, struct member *, struct attachment *);

/* ---- recognise.c -------------------------------------------------------------------------- */

/*
 * Which lost member is it that was found under that name, and said that of itself?  A new pool
 * becomes the member it stands for.  0, or why it is none, with the reason.
 */
int recognise_member(struct client *, const char *name, struct attachment *,
		     const struct spread_view *, struct member **out, char *error_text,
		     size_t error_bytes);

/* Is it known which member has that name? */
int recognise_is_known(const struct client *, const char *name);

/* ---- follow.c ----------------------------------------------------------------------------- */

/*
 * The member in that slot is of another epoch than the map, by which an operation was led there:
 * none begins by it any more, and the mender finds out what the present one is.  Any thread.
 */
void client_outdate(struct client *, const struct map *, uint32_t slot);

/* How long is it that operations wait for a present map?  Any thread. */
int client_is_patient(const struct client *);

/* Is the record of the cache that this client is of?  By the mender. */
int follow_is_ours(const struct client *, const struct spread_record *);

/*
 * Look at the record once; by the mender.  0: the map is the present one again;
 * FORGE_E_AGAIN: the change is under way; what else went wrong is said.
 */
int follow(struct client *);

/* ---- mend.c ------------------------------------------------------------------------------- */

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

/* There is something to do for it, if it is there; under the lock, after what that is. */
void mend_wake(struct client *);

/* Say it, unless it is what was said last. */
void mend_say(struct client *, const char *name, const char *text);

/*
 * A seat that nobody uses any more, at a member that works: the mender leaves it in order.  0:
 * there is none.
 */
int mend_retire(struct client *, struct seat *);

/*
 * Does the thread look whether names stand for what they stood for?  Before it is started, or by
 * itself.
 */
int mend_watches_names(const struct client *);

/* Start and end the thread that looks after lost members.  0 or FORGE_E_SYSTEM. */
int mend_start(struct client *);
void mend_stop(struct client *);

/* ---- view.c, view_follow.c ----------------------------------------------------------------- */

/* The view has none there any more. */
void place_close(struct view *, uint32_t slot);

/* Tell its pool what was counted, unless that is lost; it waits as lead does. */
MAY_WAIT void place_tell_all(struct place *, const struct worker *lead);

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

/* One user less; the last one of a member that is up leaves it in order, or has the mender do so.
 */
void seat_drop(struct seat *);

#endif
