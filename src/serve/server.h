/*
 * server.h: a memcached server on one compute node: listeners, worker threads, statistics.
 *
 * For the program `forge serve`.  The thread that runs the server accepts connections, answers
 * the metrics endpoint and waits for signals; worker threads, each with a session and an event
 * loop, own the connections.  Nothing a worker does for a request takes a lock.
 */
#ifndef FORGE_SERVE_SERVER_H
#define FORGE_SERVE_SERVER_H

#include <stdbool.h>

#include "client/client.h"
#include "layout/stats.h"
#include "serve/auth.h"
#include "serve/request.h"
#include "access/tls.h"

/* What the pool holds, for statistics; 0 what is not known. */
struct server_figures {
	uint64_t items; /* live objects, roughly */
	uint64_t bytes; /* of them */
	uint64_t chunks, chunks_free;
	uint64_t chunk_bytes; /* of all chunks */
	uint64_t capacity;    /* objects of the expected size that fit */
	double live_share;    /* share of chunk space that live objects take */
	uint32_t nodes;	      /* compute nodes attached */
	/*
	 * Of the compute node that is latest with its hit counts: how many groups lie between the
	 * next one to be evicted and the first whose counts it has not flushed (0 or less:
	 * evictions have to do without), and how many it should have flushed by now and has not.
	 */
	int64_t window_margin_groups, flush_lag_groups;
	/* How values came and left, of all nodes, since the pool was made. */
	struct stats_sum stats;
};

struct server_options {
	struct client *client; /* borrowed; has a session for each thread, and one more */
	const char *pool_name; /* for messages */
	const char *version;   /* of the program */
	uint32_t thread_count; /* 1 to CREW_MAX */
	/* So many serve always, others while it helps (serve/crew.h); 0: all of them. */
	uint32_t thread_min;
	uint32_t connections_max;
	uint64_t idle_timeout_us;	/* 0: none */
	uint32_t value_bytes_max;	/* of what clients may store */
	uint32_t reply_value_bytes;	/* of what may be in the pool, whoever stored it */
	uint64_t limit_bytes;		/* the pool's, for statistics */
	enum request_protocol protocol; /* what clients may speak; UNKNOWN: they choose */
	bool flush_permitted;
	struct tls *tls;   /* of TCP connections; NULL: they are as they are; borrowed */
	struct auth *auth; /* NULL: everybody may do everything; borrowed */
	int backlog;
	/* Addresses separated by commas, each with or without :port; NULL or port 0: no TCP. */
	const char *listen;
	uint16_t port;
	const char *unix_path; /* NULL: none */
	unsigned unix_mode;    /* permission bits */
	const char *metrics;   /* address:port of the HTTP endpoint, or NULL */
	/* Count what the pool holds.  Any worker thread, one at a time.  0 or an error. */
	int (*figures)(void *context, struct view *, struct server_figures *);
	/* Called by the running thread every so often, e.g. to look for dead compute nodes. */
	void (*chore)(void *context);
	uint64_t chore_us; /* 0: never */
	/* SIGHUP was sent: files are to be read anew.  Called by the running thread.  NULL: it ends
	 * the server, unless whoever started it had it ignored. */
	void (*reopen)(void *context);
	void *context;
};

/*
 * The version a client is told.  Clients compare it to know what they may use, so it is that of
 * the memcached whose replies are given.
 */
#define SERVER_PROTOCOL_VERSION "1.6.18"

struct server;

/*
 * Bind everything and start the threads.  Copies what it keeps of options, strings excepted.
 * 0, FORGE_E_INVAL for an address that is none, FORGE_E_SYSTEM, FORGE_E_NO_MEMORY, or as
 * session_open(); error_text names what and the remedy.
 */
int server_open(const struct server_options *, struct server **out, char *error_text,
		size_t error_bytes);

/*
 * Where it listens, as one line of words separated by spaces: "127.0.0.1:11211 /run/x".  With
 * port 0 in an address the port is the one the kernel chose.
 */
void server_describe(const struct server *, char *text, size_t bytes);

/*
 * Serve until SIGTERM, SIGINT or a SIGHUP that is for that; then take no more connections, answer
 * what has been received, and return.  A second signal, or a few seconds, end the waiting.  Gives
 * the signal.
 */
int server_run(struct server *);

/* Close what is left, join the threads, close their sessions.  NULL is permitted. */
void server_close(struct server *);

#endif
