/*
 * view.h: one flow's way to all of a cache: the operations of cache.h, each led to the memory node
 * that has its key.
 *
 * Who may call: the thread of the session, or the fiber that the view is for.  A session has a view
 * of its own; further ones share its connections and lanes, for fibers that run operations beside
 * others (client/flows.h).  A view has a *place* for each memory node, made when it is first needed
 * and anew when the node was lost and came back.  It works by the client's map of keys to memory
 * nodes, which it takes anew at the beginning of an operation when it is another one (follow.c).
 *
 * Results are those of cache.h, and besides, when the key's memory node is lost: of a Get
 * FORGE_MISS if another node is up, else FORGE_E_NODE; of everything else FORGE_E_NODE, and nothing
 * is known of what became of the change (doc/nodes.md).  FORGE_E_SPREAD when the nodes of the cache
 * are being changed for longer than a second, or are another cache's: then open another client.
 * Times are session time (client.h).
 */
#ifndef FORGE_CLIENT_VIEW_H
#define FORGE_CLIENT_VIEW_H

#include "cache/cache.h"
#include "layout/spread.h"

struct attachment;
struct map;
struct seat;
struct session;

struct place {
	struct place *next;    /* among those that are closed */
	struct attachment *of; /* whose; held by the seat */
	struct seat *seat;     /* counted */
	struct cache *cache;   /* the seat's, or the one below */
	uint8_t counts;	       /* in the pool */
	struct cache own_cache;
	struct worker own_worker;
};

struct view {
	struct session *session;
	struct worker lead; /* how its operations wait; it has no connection */
	/*
	 * On the worker's clock; 0: none.  See struct cache.
	 */
	uint64_t deadline_ns;
	struct cache_counters count; /* of places that are gone, and of what no node did */
	uint8_t is_own;		     /* the session's: it has the caches of the seats */
	uint8_t is_busy;	     /* a flow of its set runs on a fiber (flows.c) */
	struct map *map;	     /* counted; NULL: none yet */
	struct place *places[SPREAD_NODES_MAX]; /* by member; NULL: none */
	/*
	 * Those that were closed, for the next ones: whoever was about to tell what one had counted
	 * (view_tell_old()) finds memory there.
	 */
	struct place *closed;
};

/* A further view of the session. */
void view_open(struct view *, struct session *);

/* Free it; what it counted has been told (view_tell_all()), or is lost. */
void view_close(struct view *);

MAY_WAIT int view_get(struct view *, struct cache_key key, struct cache_value *out);
MAY_WAIT int view_set(struct view *, struct cache_key key, const struct cache_item *);
MAY_WAIT int view_delete(struct view *, struct cache_key key);
MAY_WAIT int view_store(struct view *, struct cache_key key, enum cache_store mode,
			const struct cache_item *, uint64_t *cas_id);
MAY_WAIT int view_arithmetic(struct view *, struct cache_key key, const struct cache_arith *,
			     uint64_t *value, uint64_t *cas_id);
MAY_WAIT int view_touch(struct view *, struct cache_key key, uint64_t expiry_ms,
			struct cache_value *out);
MAY_WAIT int view_delete_if(struct view *, struct cache_key key, uint64_t cas_id);
MAY_WAIT int view_change(struct view *, struct cache_key key, const struct cache_change *,
			 uint64_t *cas_id);

/* Of all nodes at once; FORGE_E_NODE if one is lost, and then the rest is done. */
MAY_WAIT int view_flush(struct view *);

/*
 * Take the client's present map if the view has another one, and let go of what it has at members
 * that are gone; nothing of it is under way.  0, or FORGE_E_SPREAD: there is none at the moment.
 */
MAY_WAIT int view_follow(struct view *);

/*
 * Let go of what the view and its session have at members that are gone or lost, for a view of
 * which nothing is under way; it waits as lead does.
 */
MAY_WAIT void view_let_go(struct view *, const struct worker *lead);

/* Does the view have something at such a member? */
int view_holds_on(const struct view *);

/*
 * An operation at that member gave *status, and nothing was done.  1: it was FORGE_E_SPREAD, or
 * FORGE_E_NODE of a new member that was waited for, and what it waited for is there: do it again,
 * led anew.  0: that is what it came to; *status may be FORGE_E_DEADLINE now.  *since_ns is 0
 * before the first time.
 */
MAY_WAIT int view_again(struct view *, uint32_t member, int *status, uint64_t *since_ns);

/*
 * The view's cache at a member, made if need be, for who runs flows of his own there; valid until
 * the view's next call.  Tell view_lost() if they give FORGE_E_NODE.
 * 0; FORGE_E_NODE when the member is lost, or is none; FORGE_E_SPREAD; FORGE_E_NO_MEMORY.
 */
MAY_WAIT int view_cache(struct view *, uint32_t member, struct cache **out);
void view_lost(struct view *, uint32_t member);

/* The same by the map that the view has, whatever the client's is. */
MAY_WAIT int view_cache_of(struct view *, uint32_t member, struct cache **out);

/* As view_cache_of() for a fiber that works for the view at one member, beside others at other
 * members. */
MAY_WAIT int view_cache_as(struct view *, const struct worker *lead, uint32_t member,
			   struct cache **out);

/* Is the time of the operation up? */
static inline int view_is_late(const struct view *v)
{
	return unlikely(v->deadline_ns) && clock_now_ns(v->lead.clock) >= v->deadline_ns;
}

/* The member that has the key: a scan may find others there, which were its before. */
uint32_t view_member_of(const struct view *, struct cache_key key);

/* What operations do on the side, at every member.  0, or FORGE_E_NODE when none is up. */
MAY_WAIT int view_tend(struct view *);

/*
 * Would an operation at a member where the view has been have to poll first?  See cache_is_due().
 * No wait.
 */
int view_is_due(const struct view *);

/* Add what it did. */
void view_count(const struct view *, struct cache_counters *into);

/*
 * Tell the pools what was counted in it: when it is old, by another view; all, for now, waiting as
 * lead does; or all, at the end.
 */
MAY_WAIT void view_tell_old(const struct view *, struct view *teller);
MAY_WAIT void view_tell_now(struct view *, const struct worker *lead);
MAY_WAIT void view_tell_all(struct view *);

#endif
