/*
 * tcp.h: a provider for compute nodes without RDMA: verbs over TCP or a Unix socket.
 *
 * Who may call: set-up code of clients, tools and tests, on any thread; a connection then belongs
 * to one thread.  What passes over the socket is tcp_wire.h and doc/wire.md; the node's side is
 * tcp_server.h.  post encodes, kick sends once, poll reads what has come and completes ops in the
 * order of their posts.  Nothing waits except a post that finds TCP_OPS_OUT_MAX ops out, or the
 * socket and the connection's own buffer full; it then reads replies until there is room.  What
 * every op promises: it completes within its deadline (struct tcp_settings), or TCP_BUSY_DEADLINES
 * of them while the node answers other connections of the instance, with FORGE_E_NODE if it did not
 * answer this; from then on all ops of the connection do at once.
 *
 * A connection takes TCP_BUFFER_BYTES each way and 24 bytes for each op that may be out.
 *
 * In a child made by fork() the sockets are closed, without a word to the node, and every op is
 * FORGE_E_NODE.
 */
#ifndef FORGE_FABRIC_TCP_H
#define FORGE_FABRIC_TCP_H

#include <stdatomic.h>

#include "fabric/fabric.h"
#include "fabric/tcp_wire.h"

/* How long a node may be silent. */
#define TCP_DEADLINE_MS 1000u

/* Ops that may be out at once on a connection, and of one post. */
#define TCP_OPS_OUT_MAX	  4096u
#define TCP_BATCH_OPS_MAX 1024u

#define TCP_BUFFER_BYTES 65536u

struct cancel;
struct pass;

/* Where the node is, and as whom to come; 0 in any number means its default. */
struct tcp_settings {
	const char *where; /* tcp://host:port, tcp://[address]:port, tls:// likewise, unix:/path */
	uint8_t instance[WIRE_INSTANCE_BYTES]; /* tcp_instance(); the same for all of a client */
	uint8_t role;			       /* enum wire_role, the least needed; 0: full */
	uint8_t joins;		 /* data connections: the instance has a control connection */
	uint64_t fingerprint;	 /* of the layout one was built with; 0: any */
	uint32_t deadline_ms;	 /* of an op, and of connecting */
	const struct pass *pass; /* key and TLS, borrowed while one dials; NULL: none */
	/* Dialling ends when it is fired; borrowed likewise, NULL: nobody ends it. */
	const struct cancel *cancel;
	/*
	 * NULL, or shared by all connections of the instance, 0 at first, and borrowed by them: the
	 * one that loses the node sets it, and then all have lost it (doc/wire.md).
	 */
	_Atomic int *lost;
	/*
	 * NULL, or shared likewise: when any of them last heard from the node, CLOCK_MONOTONIC in
	 * ns, to within TCP_HEARD_NS.  A node that answers one of them is not dead, only busy.
	 */
	_Atomic uint64_t *heard_ns;
};

#define TCP_HEARD_NS UINT64_C(20000000)

/* A node that answers others of the instance has so many deadlines for an op. */
#define TCP_BUSY_DEADLINES 10u

/* Something came from the node, at about now_ns. */
static inline void tcp_hear(_Atomic uint64_t *heard_ns, uint64_t now_ns)
{
	/* Looked at first, lest threads that answers keep coming to contend for the line. */
	if (heard_ns &&
	    now_ns > atomic_load_explicit(heard_ns, memory_order_relaxed) + TCP_HEARD_NS)
		atomic_store_explicit(heard_ns, now_ns, memory_order_relaxed);
}

/* Has any connection of the instance heard from the node within a deadline? */
static inline int tcp_was_heard(const _Atomic uint64_t *heard_ns, uint64_t now_ns,
				uint64_t deadline_ns)
{
	return heard_ns &&
	       now_ns < atomic_load_explicit(heard_ns, memory_order_relaxed) + deadline_ns;
}

/* Whoever has not looked for so long was not running: that is no time the node had. */
#define TCP_AWAY_NS UINT64_C(100000000)

/* Is that the name of something this provider reaches?  Pure. */
int tcp_is_where(const char *where);

/* A name for a new instance, random. */
void tcp_instance(uint8_t out[WIRE_INSTANCE_BYTES]);

/*
 * Connect, and say hello.  *welcome is what the node is.  Waits, at most deadline_ms, in which the
 * host's name is looked up, too (tcp_resolve.h).  error_text (never NULL) names the node and the
 * remedy.
 * 0; FORGE_E_NODE when nobody answers there, or not in time, or it was cancelled; FORGE_E_INVAL for
 * a name that cannot be; FORGE_E_LAYOUT, FORGE_E_DENIED, FORGE_E_AGAIN when the node refuses;
 * FORGE_E_NO_MEMORY; FORGE_E_SYSTEM.
 */
int tcp_open(const struct tcp_settings *, struct wire_welcome *welcome, char *error_text,
	     size_t error_bytes, struct fab **out);

#endif
