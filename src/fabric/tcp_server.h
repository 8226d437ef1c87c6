/*
 * tcp_server.h: the node's side of the tcp provider: serves a region of memory to clients.
 *
 * Who may call: the node, one thread at a time; the server's own threads do the rest, each with an
 * epoll and the connections that fell to it.  What it says is tcp_wire.h and doc/wire.md.  It
 * borrows the memory and the calls until tcp_server_close().  Verbs of clients are executed by the
 * provider of mapped memory (memory.h), so they are atomic against processes that map it too.
 *
 * A client costs a descriptor, some 300 bytes, and, only while it does not read its replies,
 * at most TCP_SERVER_IN_BYTES + TCP_SERVER_OUT_BYTES.  Whatever it sends, it can only lose its own
 * instance's connections.
 */
#ifndef FORGE_FABRIC_TCP_SERVER_H
#define FORGE_FABRIC_TCP_SERVER_H

#include "fabric/fabric.h"
#include "fabric/tcp_wire.h"

#define TCP_SERVER_IN_BYTES  32768u
#define TCP_SERVER_OUT_BYTES 65536u

#define TCP_SERVER_LISTEN_MAX	   16u
#define TCP_SERVER_THREADS_MAX	   64u
#define TCP_SERVER_CONNECTIONS_MAX 16384u

struct tcp_server;
struct door;

/*
 * What the server asks of its owner, from any of its threads, several at once; none may wait for
 * the server.  *holder belongs to one instance, starts as NULL, and is passed to one call at a
 * time.
 */
struct tcp_server_calls {
	void *context;
	/* WIRE_HOLD, _RELEASE, _HOLD_ALL, _RELEASE_ALL: 0 or a FORGE_E_... to answer with. */
	int (*hold)(void *context, void **holder, uint64_t cn);
	int (*release)(void *context, void **holder, uint64_t cn);
	int (*hold_all)(void *context, void **holder, uint64_t count);
	int (*release_all)(void *context, void **holder, uint64_t count);
	/* 1, 0 or FORGE_E_... */
	int (*is_held)(void *context, uint64_t cn);
	/* Nothing of the instance can land any more: give up what it held, and free *holder. */
	void (*ended)(void *context, void **holder);
	/* Fill in what the pool is: pool_id, epoch, fingerprint, plan_checksum, host, cn_max. */
	void (*describe)(void *context, struct wire_welcome *);
};

struct tcp_server_settings {
	const char *const *listen; /* as tcp_settings.where; port 0: any that is free */
	unsigned listen_count;
	unsigned threads;	  /* 0: 1 */
	unsigned connections_max; /* 0: TCP_SERVER_CONNECTIONS_MAX */
	uint32_t spin_us;	  /* how long a thread looks for more before it sleeps */
	uint32_t timeout_ms;	  /* a client's host that is silent for so long is gone; 0: 10 s */
	struct door *door;	  /* who may come in; NULL: everybody, as what they like */
};

/* What happened since the start; sums over all threads, read while they go on. */
struct tcp_server_counts {
	uint64_t connections, connections_total, refused; /* now; ever; of these, not welcome */
	uint64_t instances, fenced; /* now; ever ended otherwise than by an orderly close */
	uint64_t ops[FAB_CODES];    /* executed */
	uint64_t ops_failed;	    /* out of bounds, or not permitted */
	uint64_t control;	    /* requests */
	uint64_t receives;	    /* that brought something: ops in one are a batch */
	uint64_t bytes_in, bytes_out;
	uint64_t cpu_ns; /* of the server's threads */
};

/*
 * Take all addresses, so that nobody else can.  Who connects is refused until tcp_server_start().
 * 0, FORGE_E_INVAL, FORGE_E_SYSTEM, FORGE_E_NO_MEMORY, with a sentence that names the address.
 */
int tcp_server_open(const struct tcp_server_settings *, char *error_text, size_t error_bytes,
		    struct tcp_server **out);

/* The index-th address as it is listened on, e.g. with the port that was free; NULL behind. */
const char *tcp_server_address(const struct tcp_server *, unsigned index);

/* The first of them that other hosts can reach: neither of a Unix socket nor loopback; or NULL. */
const char *tcp_server_address_of_network(const struct tcp_server *);

/*
 * Listen, and start the threads, over [mem, mem + bytes), 8-aligned and whole words.  calls is
 * copied. 0 or FORGE_E_SYSTEM, _NO_MEMORY.
 */
int tcp_server_start(struct tcp_server *, void *mem, uint64_t bytes,
		     const struct tcp_server_calls *calls);

/*
 * Stop listening, end every instance and the threads.  When it returns no verb can land and every
 * lock is given up.  NULL is permitted.
 */
void tcp_server_close(struct tcp_server *);

/* The door's files were read anew: end every client whose key is gone.  How many; any thread. */
unsigned tcp_server_recheck(struct tcp_server *);

/* Any thread. */
void tcp_server_count(struct tcp_server *, struct tcp_server_counts *out);

/* The counts as WIRE_STAT answers them: a line "name value" each.  How many bytes. */
size_t tcp_server_print(struct tcp_server *, char *text, size_t text_bytes);

#endif
