/*
 * tcp_server_inside.h: what the files of the tcp server share: server, threads, connections,
 * instances.
 *
 * Who touches what: a connection belongs to the thread whose epoll it is in, from when it is
 * accepted.  Instances, and each connection's link to its own, belong to the server's lock; only
 * `ended` is read without it.  Counters are written by one thread and read by any.
 */
#ifndef FORGE_FABRIC_TCP_SERVER_INSIDE_H
#define FORGE_FABRIC_TCP_SERVER_INSIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "access/door.h"
#include "base/clock.h"
#include "fabric/memory.h"
#include "fabric/tcp_server.h"

/*
 * A process that lives and dies as one (doc/wire.md).  Its connections are linked under the lock;
 * who unlinks the last one frees it.
 */
struct tcp_instance {
	struct tcp_instance *next; /* in the server's list */
	uint8_t id[WIRE_INSTANCE_BYTES];
	uint64_t mark; /* of the key it came in by (access/door.h) */
	struct tcp_conn *first;
	struct tcp_conn *control; /* the one, or NULL */
	_Atomic int ended;	  /* nothing more is read from its connections */
	void *holder; /* the owner's, see struct tcp_server_calls; the control's thread */
};

enum tcp_conn_state {
	TCP_CONN_HELLO,	  /* a hello is to come */
	TCP_CONN_PROOF,	  /* the answer to a challenge is to come */
	TCP_CONN_REQUEST, /* the head of a request is to come */
	TCP_CONN_WRITE,	  /* payload is to come */
	TCP_CONN_READ,	  /* data is to go */
	TCP_CONN_LAST,	  /* what is in out is to go, then it is closed */
};

struct tcp_conn {
	struct tcp_thread *thread;
	struct tcp_conn *next, *previous; /* of the thread */
	struct tcp_conn *ready_next;	  /* of those the thread goes on with by itself */
	int is_ready;
	struct tcp_instance *instance;
	struct tcp_conn *instance_next; /* under the server's lock */
	struct tcp_guest *guest;	/* until it is welcome; NULL: nobody watches the door */
	struct tls_conn *tls;		/* NULL: in clear */
	int fd;
	int is_orderly; /* its end, if it comes now, is not a fault */
	int waits_out;	/* for EPOLLOUT, and for nothing else */
	enum tcp_conn_state state;
	uint8_t kind, role;
	int8_t failed; /* status of the request before, for those chained to it */
	uint16_t tag;  /* of the next request */
	uint64_t born_ns;
	unsigned sweeps; /* that found it not welcome */

	struct wire_request op; /* in the states WRITE and READ */
	uint32_t done;		/* bytes of it that have been dealt with */
	int8_t status;		/* of it */

	/* What could not be dealt with yet; the buffers are there only while there is something. */
	unsigned char *in, *out;
	size_t in_bytes, out_bytes;
	unsigned char head_bytes; /* less than a whole one: */
	unsigned char head[sizeof(struct wire_hello)];
};

struct tcp_thread_counts {
	_Atomic uint64_t connections, connections_total, refused;
	_Atomic uint64_t ops[FAB_CODES], ops_failed, control, receives, bytes_in, bytes_out;
};

struct tcp_thread {
	struct tcp_server *server;
	pthread_t id;
	int is_started;
	clockid_t cpu_clock;
	int epoll, wake; /* wake is an eventfd */
	struct tcp_conn *conns, *ready;
	struct tcp_conn **ready_end;
	struct tcp_conn *latest; /* had a request last; NULL: it is gone */
	unsigned latest_in_row;	 /* turns of it since epoll was asked */
	unsigned latest_found;	 /* requests of it alone that looks found */
	int is_alone;		 /* latest is looked at, and in no epoll */
	unsigned greeting;	 /* connections that are not welcome yet */
	struct tcp_thread_counts counts;

	pthread_mutex_t lock;	  /* of arrived, alone */
	struct tcp_conn *arrived; /* accepted for it by another thread */

	unsigned char in[TCP_SERVER_IN_BYTES];
	unsigned char out[TCP_SERVER_OUT_BYTES];
};

struct tcp_listener {
	int fd;
	int is_unix;
	int is_local; /* nobody on another host can reach it */
	char name[280];
	char path[108]; /* to be removed, of a Unix socket */
};

/* Instances are found by the first byte of their ids, which are random. */
#define TCP_INSTANCE_LISTS 256u

struct tcp_server {
	struct memory_fab memory;
	struct tcp_server_calls calls;
	struct door *door;	 /* borrowed, or NULL */
	_Atomic int told_kernel; /* whether the kernel encrypts was logged */
	unsigned connections_max;
	int spare; /* a descriptor to give up when there is none for who comes */
	uint64_t spin_ns;
	uint32_t timeout_ms;
	uint64_t boot;
	_Atomic int is_stopping;

	struct tcp_listener listeners[TCP_SERVER_LISTEN_MAX];
	unsigned listener_count;

	pthread_mutex_t lock; /* of the instances */
	struct tcp_instance *instances[TCP_INSTANCE_LISTS];
	_Atomic uint64_t instance_count, fenced;

	unsigned thread_count;
	struct tcp_thread *threads[TCP_SERVER_THREADS_MAX];
};

static inline void tcp_count(_Atomic uint64_t *counter, uint64_t n)
{
	/* One writer: no locked instruction. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline uint64_t tcp_now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* ---- tcp_thread.c ------------------------------------------------------------------------- */

/* NULL: no descriptors, or no memory. */
struct tcp_thread *tcp_thread_create(struct tcp_server *);
void tcp_thread_destroy(struct tcp_thread *);

/* What it does until the server stops; of pthread_create(). */
void *tcp_thread_main(void *thread);
/* Let it look at what has changed; any thread. */
void tcp_thread_wake(struct tcp_thread *);
/* End its connections, those accepted for it included; on its thread, or when that has ended. */
void tcp_thread_close_all(struct tcp_thread *);

/* ---- tcp_listen.c ------------------------------------------------------------------------- */

/* Bind, so that nobody else can.  0, FORGE_E_INVAL or FORGE_E_SYSTEM with a sentence. */
int tcp_listen_open(const char *where, struct tcp_listener *out, char *error_text,
		    size_t error_bytes);
/* Who connects is refused until then.  0, or FORGE_E_SYSTEM, which is logged. */
int tcp_listen_begin(const struct tcp_listener *);
void tcp_listen_close(struct tcp_listener *);

/* Accept one and set its options; the descriptor, or -1 with errno. */
int tcp_listen_accept(const struct tcp_listener *, uint32_t timeout_ms);

/* ---- tcp_instance.c ----------------------------------------------------------------------- */

/*
 * Make c, whose kind is set, one of the instance's connections, which is created if need be; mark:
 * of the key it came in by.
 * 0; FORGE_E_AGAIN when it has ended or has a control connection already; FORGE_E_DENIED when the
 * instance came in by another key, or this one has been withdrawn; FORGE_E_NO_MEMORY.
 */
int tcp_instance_attach(struct tcp_server *, const struct wire_hello *, uint64_t mark,
			struct tcp_conn *c);

/* End every instance whose key the door does not know any more.  How many. */
unsigned tcp_instance_recheck(struct tcp_server *);

/* End the instance: its other connections will be closed by their threads. */
void tcp_instance_end(struct tcp_server *, struct tcp_instance *);

/*
 * The connection's thread is done with it and will execute nothing more of it.  The last one gives
 * up what the instance held.  The descriptor is still open.
 */
void tcp_instance_detach(struct tcp_server *, struct tcp_conn *c);

/* ---- tcp_greet.c -------------------------------------------------------------------------- */

/* What a connection is told to have sent is not what it promised: close it. */
#define BROKEN (-1)

/* Bytes to be sent, in the thread's buffer. */
struct answers {
	unsigned char *at;
	size_t bytes;
};

static inline size_t room(const struct answers *out)
{
	return TCP_SERVER_OUT_BYTES - out->bytes;
}

static inline void put(struct answers *out, const void *bytes, size_t count)
{
	memcpy(out->at + out->bytes, bytes, count);
	out->bytes += count;
}

/* What tcp_greet() puts at most at once. */
#define HELLO_BYTES                                                    \
	(2 * sizeof(struct wire_step) + sizeof(struct proof_confirm) + \
	 sizeof(struct wire_welcome) + 256)

/*
 * May c, which has just been accepted, come to the door?  0; or no, and it has been told why, as
 * far as that is possible at once.
 */
int tcp_guest_open(struct tcp_server *, struct tcp_conn *c);
/* It is welcome, or is closed. */
void tcp_guest_close(struct tcp_conn *c, enum gate_end);

/* Before its first bytes are received: do they begin TLS?  0, or BROKEN. */
int tcp_greet_first(struct tcp_conn *c);

/* Take what a client says before it is welcome.  How much was used, or BROKEN. */
ssize_t tcp_greet(struct tcp_conn *c, const unsigned char *in, size_t bytes, struct answers *out);

/* ---- tcp_conn.c --------------------------------------------------------------------------- */

enum tcp_turn {
	TCP_TURN_DONE,	/* nothing to do until something arrives */
	TCP_TURN_AGAIN, /* there may be more: go on when others had their turn */
	TCP_TURN_OUT,	/* it must take its replies first */
	TCP_TURN_END,	/* close it */
};

/* Receive, execute, reply, once. */
enum tcp_turn tcp_conn_turn(struct tcp_conn *c);

/* ---- tcp_control_serve.c ------------------------------------------------------------------ */

/* What the server is, now. */
void tcp_describe(struct tcp_server *, struct tcp_conn *c, struct wire_welcome *out);

/* Execute a control request; the reply's bytes go to out, at most WIRE_STAT_BYTES_MAX. */
int tcp_control_execute(struct tcp_conn *c, const struct wire_request *, unsigned char *out,
			uint32_t *bytes);

#endif
