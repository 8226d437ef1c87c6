/*
 * conn.h: the connections of one worker thread.
 *
 * A connection is read into its worker's buffer, everything complete in it is carried out, and
 * the replies go out in one write.  Only a connection with half a request or with replies that
 * its client does not read keeps memory of its own, and none grows beyond one request and one
 * buffer of replies: while replies wait, nothing more is read.  Where the fabric makes requests
 * wait, overlap.h carries them out beside each other.
 *
 * How many workers serve may change at any time (crew.h), and with it whose a connection is.  Its
 * worker looks after each answer, and hands it over if nothing of it is held, unsent or under way:
 * what has been sent meanwhile lies in the socket, and the other worker's event loop, which looks
 * for what is there and not for what comes, finds it.  So a connection has one worker at any time,
 * and its requests are carried out in their order.
 *
 * All functions belong to the worker's thread, but for those that say otherwise.
 */
#ifndef FORGE_SERVE_CONN_H
#define FORGE_SERVE_CONN_H

#include "base/glance.h"
#include "base/hist.h"
#include "serve/execute.h"
#include "serve/gather.h"
#include "serve/watch.h"
#include "serve/overlap.h"
#include "serve/parse.h"
#include "access/tls.h"

/* Read at once; a request that is longer is collected in a buffer of its own. */
#define CONN_READ_BYTES (64u << 10)
/* Replies are sent when so many bytes of them have come together. */
#define CONN_SEND_BYTES (64u << 10)

/*
 * So much given back by connections is returned to the system at the next tick: what lies between
 * the allocations of others the allocator would keep.
 */
#define CONN_TRIM_BYTES (256u << 10)

/* Requests parsed before the first of them is carried out. */
#define CONN_AHEAD 16u

struct conn_worker;

/* What the event loop looks for on a connection's socket. */
enum conn_wait { CONN_WAITS_NOT, CONN_WAITS_INPUT, CONN_WAITS_ROOM };

struct conn {
	struct conn_worker *worker;
	struct conn *next, *prev; /* of the worker's */
	struct watched socket;
	uint8_t waits;	/* enum conn_wait */
	bool is_ending; /* close once the replies are sent */
	bool is_eof;	/* the client sends no more */
	bool is_broken; /* nothing can be sent any more */
	bool is_authorised;
	bool is_lingering;   /* nothing more is read or sent (linger.h) */
	bool has_begun;	     /* with a worker, whichever */
	uint32_t number;     /* of the server's connections: says whose it is */
	uint32_t serving;    /* workers, when that was last looked at */
	bool is_blocked;     /* what is held must wait; nothing is read */
	uint64_t blocked_ns; /* since when */
	/* overlap.c's */
	bool is_alone; /* the one errand bears no other beside it */
	bool is_ready, is_waiting;
	TAILQ_ENTRY(conn) ready_link, waiting_link;
	struct errand *errands; /* in the order of the requests */
	struct errand **errands_end;
	unsigned errand_count;

	struct tls_conn *tls; /* NULL: as it is */
	uint64_t active_ms;   /* when something came or was answered; when it began to linger */
	size_t due; /* while draining: what had come by then and has not been read, at most */
	struct parser parser;
	char *held; /* input that is no whole request, or must wait: held_bytes from held_at on */
	size_t held_at, held_bytes, held_room, held_need;
	char *unsent;
	size_t unsent_at, unsent_bytes;
	/* In the kernel, when last asked for fear of being idle; -1: not since something was sent.
	 */
	int queued;
};

/* A request that was parsed ahead, and where: to go back there if it has to wait. */
struct conn_ahead {
	struct parser parser; /* before it */
	const char *data;     /* where it begins */
	struct request request;
};

/* What the connections of a worker share. */
struct conn_worker {
	struct watch watch;
	struct executor executor;
	struct out out;
	struct overlap overlap;
	struct serve_counts counts;
	struct hist batch_ns; /* time from a read to the last byte sent or kept, per request */
	struct conn_ahead ahead[CONN_AHEAD];
	char *in; /* [CONN_GATHER * CONN_READ_BYTES] */
	struct gather gather;
	struct glance glance; /* the time, once or twice for each request */
	struct conn *first;
	uint32_t number;	   /* of the worker */
	_Atomic uint32_t *serving; /* how many workers serve; the server's */
	/* Give it to that worker.  false: not now.  context: the executor's. */
	bool (*hand_over)(void *context, struct conn *, uint32_t to);
	uint64_t turn_ns;	      /* when something was last ready */
	uint64_t given_back;	      /* bytes of connections freed since the last trim */
	uint64_t now_ms;	      /* as of the last tick or event */
	uint64_t idle_timeout_ms;     /* 0 none */
	_Atomic uint32_t *open_count; /* the server's */
	bool is_draining;
};

/*
 * Buffers of a worker, for replies with values of at most reply_value_bytes, whoever stored them;
 * base and executor's own fields are the caller's, before.  0 or FORGE_E_NO_MEMORY.
 */
int conn_worker_init(struct conn_worker *, uint32_t reply_value_bytes);
void conn_worker_fini(struct conn_worker *);

/*
 * A connection for a non-blocking socket, which it owns, with a copy of that parser.  Any thread.
 * NULL: no memory.
 */
struct conn *conn_create(int fd, const struct parser *fresh);
/* Of one that no worker has yet. */
void conn_destroy(struct conn *);

/* Begin to serve it, or go on where another worker left it. */
void conn_start(struct conn *, struct conn_worker *);

/* Once a second: close idle connections, give back memory of those that are at rest. */
void conn_tick(struct conn_worker *);

/*
 * Read no new requests: serve what has been sent, and close connections as soon as nothing is
 * under way and their replies have arrived, which linger_look_all() is called for every so often.
 * conn_close_all() closes them whatever they are at.
 */
void conn_drain(struct conn_worker *);
/* Draining takes long: carry out nothing more, so that replies end with a whole one. */
void conn_answer_no_more(struct conn_worker *);
void conn_close_all(struct conn_worker *);

/* ---- conn_kept.c; false: no memory, or broken ---------------------------------------------- */

/* Keep what was not used, which is in the worker's buffer or further on in the held input. */
bool conn_hold(struct conn *, const char *data, size_t bytes, size_t need);
/* Room for what comes behind the held input, up to what is needed. */
bool conn_hold_more(struct conn *);

/* Send what the worker's out has for it, as far as the client reads; the rest waits. */
bool conn_send_out(struct conn *);
/* The same; that it is broken is noted in it. */
void conn_flush(struct conn *);
/* Send what waits, as far as the client reads now. */
bool conn_send_unsent(struct conn *);

/* ---- between conn.c and overlap.c, gather.c, linger.c -------------------------------------- */

/* Read once.  How many bytes; 0: nothing now, or never again (is_eof); -1: it is broken. */
ssize_t conn_read(struct conn *, char *to, size_t room);
/*
 * Carry out what has been read at start_ns and answer; if one is given, it is all of that, parsed.
 * The connection, of which nothing was held or unsent, may be gone afterwards.
 */
void conn_serve(struct conn *, const char *data, size_t bytes, const struct gathered *one,
		uint64_t start_ns);

/* Close it, whatever it is at. */
void conn_end(struct conn *);

/* It may do what it may do now. */
void conn_authorise(struct conn *);
/* Replies have been put into out, or there is something to go on with: do so, send, and look what
 * comes next.  The connection may be gone afterwards. */
void conn_resume(struct conn *);

#endif
