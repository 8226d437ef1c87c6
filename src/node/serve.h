/*
 * serve.h: a node's pool for compute nodes on other hosts: the tcp server over the node's memory.
 *
 * Who may call: `forge node` and tests, one thread at a time.  It borrows the node, and is closed
 * before it.  Locks of CN ids that clients ask for are the very ones that processes on this host
 * take (client/alive.h), in the name of the client's instance, so both kinds share a pool.
 */
#ifndef FORGE_NODE_SERVE_H
#define FORGE_NODE_SERVE_H

#include "base/compiler.h"
#include "fabric/tcp_server.h"
#include "node/node.h"

struct node_server;

/* How long a thread of the server looks for more before it sleeps, by default. */
#define NODE_SPIN_US 50u

/*
 * Take a list of addresses with commas between them (fabric/tcp_place.h).  Who connects is refused
 * until node_server_start().  settings need no listen.
 * 0, FORGE_E_INVAL, FORGE_E_SYSTEM or FORGE_E_NO_MEMORY, with the reason and the remedy.
 */
int node_server_open(const char *addresses, const struct tcp_server_settings *settings,
		     struct node_server **out, char *error_text, size_t error_bytes);

/* The index-th address, as it is listened on; NULL behind the last. */
const char *node_server_address(const struct node_server *, unsigned index);

/* The first address that other hosts can reach, as it is listened on; NULL: there is none. */
const char *node_server_address_of_network(const struct node_server *);

/* The door's files were read anew: end who came in by a key that is gone; how many. */
unsigned node_server_recheck(struct node_server *);

/* Serve the pool of a node that is ready.  0, FORGE_E_SYSTEM or FORGE_E_NO_MEMORY. */
int node_server_start(struct node_server *, struct node *);

/*
 * End every client: when it returns nothing of them can land, and their locks are given up.
 * NULL is permitted.
 */
void node_server_close(struct node_server *);

/* What it has done; any thread. */
void node_server_count(struct node_server *, struct tcp_server_counts *out);

#endif
