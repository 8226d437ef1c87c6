/*
 * server_inside.h: what the files of the server share: its threads and what they publish.
 *
 * A worker thread owns its conn_worker.  Others reach it by its inbox and by its published
 * figures, both under its lock, which the thread takes when it is woken and once a second, never
 * for a request.  Who wants figures of this moment asks for them and waits until they are there.
 */
#ifndef FORGE_SERVE_SERVER_INSIDE_H
#define FORGE_SERVE_SERVER_INSIDE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <pthread.h>

#include "serve/conn.h"
#include "serve/crew.h"
#include "serve/listen.h"
#include "serve/server.h"

struct evhttp;

/* Each follows those before it: go on; answer what has come; carry out nothing more; close all. */
enum thread_order { ORDER_NONE, ORDER_DRAIN, ORDER_LAST, ORDER_END };

struct server_thread {
	struct server *server;
	pthread_t thread;
	bool is_running;
	struct session *session;
	struct conn_worker conns;
	struct watched wake, tick, flush; /* by others, once a second, when one is due */
	bool is_over;
	_Atomic int runqueue; /* a descriptor of how long it has waited for a processor, or -1 */
	uint64_t flush_ticket;
	int tend_status; /* of the last tick, so that a failure is told once */

	pthread_mutex_t lock;	 /* of what follows */
	pthread_cond_t has_news; /* published */
	struct conn *inbox;	 /* linked by next */
	enum thread_order order;
	uint64_t published, published_wanted; /* how often; the last that somebody waits for */
	struct cache_counters cache;
	struct fab_counts verbs;
	struct hist batch_ns;
};

/* How many threads serve.  Read by all; changed by whichever thread finds that a look is due. */
struct share {
	_Atomic uint32_t serving;
	_Atomic uint64_t next_ns; /* when to look */
	pthread_mutex_t lock;	  /* of the crew */
	struct crew crew;
};

struct server {
	struct server_options options;
	struct parser parser; /* of a connection that has received nothing */
	struct listener listeners[LISTENERS_MAX];
	struct event accept_events[LISTENERS_MAX];
	unsigned listener_count;
	struct event_base *base; /* of the running thread */
	struct event *signal_events[3];
	struct event chore_event, timer_event, grace_event;
	/* To look at the pool: of the metrics' thread if there is one, else of the running thread.
	 */
	struct session *session;
	struct event_base *http_base; /* of the metrics' thread; NULL: there are none */
	struct evhttp *http;
	struct event http_stop_event, http_follow_event;
	int http_stop; /* wakes the thread for its end */
	pthread_t http_thread;
	bool http_runs;
	char metrics_name[112];
	uint32_t next_number; /* of a connection */
	struct share share;
	_Atomic int signal; /* that asked for the end, 0 none */
	uint64_t signal_ns; /* when */
	uint64_t start_ms;
	_Atomic uint32_t open_count;	  /* connections */
	_Atomic uint64_t rejected_count;  /* beyond the limit */
	_Atomic uint64_t accept_failures; /* no descriptors, no memory */
	_Atomic uint64_t flush_ticket;	  /* of the last delayed flush asked for */

	pthread_mutex_t figures_lock; /* of what follows */
	struct server_figures figures;
	uint64_t figures_ms; /* when; 0 never */
	bool figures_busy;   /* somebody counts them anew */

	struct server_thread threads[]; /* [options.thread_count] */
};

/* Start and end threads.  session_open() happens on the caller's thread. */
int server_thread_open(struct server_thread *, struct server *, char *error_text,
		       size_t error_bytes);
void server_thread_close(struct server_thread *);
/* Hand a connection over, which the thread then owns.  false: it is about to end.  Any thread. */
bool server_thread_take(struct server_thread *, struct conn *);
void server_thread_command(struct server_thread *, enum thread_order);
/*
 * Ask for its figures, unless it is about to end; wait for them, or until the deadline on the
 * monotonic clock.
 */
void server_thread_ask(struct server_thread *);
void server_thread_wait(struct server_thread *, const struct timespec *deadline);

/*
 * How many threads serve: share_look() after each turn of a thread's loop.  share_close() when no
 * thread runs any more.
 */
void share_open(struct server *);
void share_look(struct server_thread *);
void share_close(struct server *);

/* Sums over the threads.  Any thread. */
void server_sum_counts(const struct server *, struct serve_counts *);
void server_sum_published(struct server *, struct cache_counters *, struct fab_counts *,
			  struct hist *);
/* Have all threads publish, for a while at most.  Not on one of them.  Waits. */
void server_publish(struct server *);
/* What the pool holds, at most a second old; on a worker thread counted anew if need be. */
MAY_WAIT void server_figures(struct server *, struct view *, struct server_figures *);

/* The statistics of the protocol; a struct executor's stats, with a server_thread as context. */
bool server_stats(void *thread, struct executor *, const struct request *);

/* The HTTP endpoint for Prometheus.  0 or FORGE_E_INVAL, FORGE_E_SYSTEM with error_text. */
int metrics_open(struct server *, char *error_text, size_t error_bytes);
/* Once there are the threads that it asks.  0 or FORGE_E_SYSTEM with errno. */
int metrics_start(struct server *);
/* Before they are gone. */
void metrics_close(struct server *);

#endif
