/*
 * node.h: a memory node on shared memory: it makes or finds a pool, and holds it while it serves.
 *
 * Who may call: the program `forge node`, and tools that ask whether a pool is served.  A node
 * owns the hold on the export, its mapping and one connection; one thread at a time.  No
 * processor of a node works for a Get or a Set: what it does is to reserve and pre-fault the
 * memory, format it, raise the epoch when it takes a pool over, and keep a second node away.
 *
 * Every error text names the pool and the remedy.
 */
#ifndef FORGE_NODE_NODE_H
#define FORGE_NODE_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/pool.h"

/* The byte of the export that a node holds (fabric/shm.h); compute nodes have other ones. */
#define NODE_HOLD_BYTE 0u

struct node;

struct node_wish {
	const char *where; /* shm:/name, file:/path, /path */
	struct plan_wish plan;
	bool plan_given; /* a pool that is there must have exactly this plan */
	bool force;	 /* replace a pool that is there, whatever it holds */
};

/*
 * Take over the pool of that name, with all that is cached in it, or create it.  Copies what it
 * keeps of wish.  A file that never was a pool is not replaced even by force.
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

/* Was the pool there already? */
bool node_is_warm(const struct node *);

/* READ the registry into lines (cn_max of them).  Waits.  0 or FORGE_E_NODE. */
MAY_WAIT int node_registry(struct node *, struct layout_registry *lines);

/* Is the process that holds the registry line with this id word there, on this host? */
bool node_cn_is_alive(uint64_t registry_id);

/*
 * Does a node serve this pool?  1 or 0 (the pool is there but cold: no node holds it), or
 * FORGE_E_POOL_ABSENT, FORGE_E_INVAL, FORGE_E_SYSTEM.
 */
int node_is_serving(const char *where, char *error_text, size_t error_bytes);

#endif
