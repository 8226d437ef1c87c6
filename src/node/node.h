/*
 * node.h: a memory node on shared memory: it makes or finds a pool, and holds it while it serves.
 *
 * Who may call: the program `forge node`, and tools that ask whether a pool is served.  A node
 * owns the hold on the export, its mapping and one connection; one thread at a time.  No
 * processor of a node works for a Get or a Set: what it does is to reserve and pre-fault the
 * memory, format it, raise the epoch when it takes a pool over, keep a second node away, and take
 * back what dead compute nodes held.
 *
 * Every error text names the pool and the remedy.
 */
#ifndef FORGE_NODE_NODE_H
#define FORGE_NODE_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "check/mend.h"
#include "pool/recover.h"

struct node;
struct shm_map;

/* What to do with a pool that is there but damaged. */
enum node_on_damage {
	NODE_DAMAGE_REFUSE, /* say why, and leave it as it is */
	NODE_DAMAGE_EMPTY,  /* replace it by an empty one of the same plan, or of the wish's */
	NODE_DAMAGE_REPAIR, /* take out what is damaged; if that cannot be told, as
			       NODE_DAMAGE_EMPTY */
};

/* So many starts that did not get ready, and the next one does not try the same again. */
#define NODE_STARTS_MAX 2u

struct node_wish {
	const char *where; /* shm:/name, file:/path, /path */
	struct plan_wish plan;
	bool plan_given; /* a pool that is there must have exactly this plan */
	bool force;	 /* replace a pool that is there, whatever it holds */
	enum node_on_damage on_damage;
};

/*
 * Take over the pool of that name, with all that is cached in it, or create it.  Copies what it
 * keeps of wish.  A file that never was a pool is not replaced, by force or otherwise.
 *
 * If NODE_STARTS_MAX nodes in a row ended between here and node_ready(), and not by node_close(),
 * another try might end like them: unless damage is refused, the pool is replaced by an empty one.
 * Waits.  0; FORGE_E_AGAIN when another node serves it; FORGE_E_POOL_EXISTS when it has another
 * plan; FORGE_E_NOT_A_POOL, _LAYOUT, _CORRUPT, _POOL_TRUNCATED; FORGE_E_INVAL for a plan that
 * cannot be; FORGE_E_POOL_SPACE, _NO_MEMORY, _SYSTEM.
 */
MAY_WAIT int node_open(const struct node_wish *wish, struct node **out, char *error_text,
		       size_t error_bytes);

/*
 * Stop serving.  keep leaves the pool for the next node to take over; otherwise its name is
 * removed, and the memory goes with the last compute node.  NULL is permitted.
 * 0, or FORGE_E_POOL_ABSENT or FORGE_E_SYSTEM when the name could not be removed.
 */
int node_close(struct node *, bool keep, char *error_text, size_t error_bytes);

/* The pool as it is served; valid until close. */
const struct pool *node_pool(const struct node *);

/* Its memory and its name, for who serves it to others; valid until close, or node_settle(). */
const struct shm_map *node_map(const struct node *);
const char *node_where(const struct node *);

/* Was the pool there already? */
bool node_is_warm(const struct node *);

/* Why and how what was there was replaced or mended, as a sentence; empty if it was not. */
const char *node_story(const struct node *);

/*
 * Before recovery, and before anybody may attach: look whether the metadata of a warm pool holds
 * together, and do what wish->on_damage says.  While compute nodes are attached nothing is looked
 * at, for they are at work.
 * Waits.  0; FORGE_E_CORRUPT with the reason and the remedy; as node_open().
 */
MAY_WAIT int node_settle(struct node *, const struct node_wish *, char *error_text,
			 size_t error_bytes);

/* The pool is in order and served from now on.  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int node_ready(struct node *);

/*
 * Take back what compute nodes left behind that are proven dead; *dead_count of them.  Beside
 * their living fellows, at any time.  Waits.  0, FORGE_E_NO_MEMORY or FORGE_E_NODE.
 */
MAY_WAIT int node_recover(struct node *, struct recover_report *, uint32_t *dead_count);

/* The same, and all else that is nobody's; for a pool that was there.  See recover_repair(). */
MAY_WAIT int node_repair(struct node *, struct recover_report *, uint32_t *dead_count);

/*
 * Free parts of large objects that nothing points to, if there are parts at all; live compute nodes
 * leave some when a head could not be read any more.  *freed of them.  Beside anybody.
 * Waits.  0, FORGE_E_NO_MEMORY or FORGE_E_NODE.
 */
MAY_WAIT int node_sweep_parts(struct node *, uint64_t *freed);

/*
 * Write pool time down, at least every POOL_TIME_STAMP_MS (pool/time.h) while serving.
 * Waits.  0 or FORGE_E_NODE.
 */
MAY_WAIT int node_stamp_time(struct node *);

/* How many compute nodes are alive and attached. */
uint32_t node_attached_count(struct node *);

/*
 * Could a node serve what has this name?  Only looks.
 * 0, or why not, with the remedy: as node_open().
 */
MAY_WAIT int node_inspect(const char *where, struct pool *out, char *error_text,
			  size_t error_bytes);

#endif
