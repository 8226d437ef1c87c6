/*
 * crew.h: how many of a server's worker threads serve.
 *
 * Where there is a processor for every thread that wants one, all workers serve, and each has its
 * share of the connections.  Where there is not, because the clients run on the same host, say, a
 * worker waits its turn for a processor while requests lie in its connections' sockets: they wait
 * a millisecond or more, while another worker, on its processor, has nothing to do and sleeps.
 * Fewer workers then answer sooner, and often answer more: they are woken less often, and find
 * more when they are.  Two workers and one client on two processors, 50 connections with a request
 * each, are the plainest case (doc/benchmarks.md).
 *
 * No figure tells beforehand which number is best, so it is tried.  While everybody gets a
 * processor nothing happens.  When workers wait for one, half as many serve for a moment, then as
 * many as before, each twice, and what was answered is compared:
 *  - more workers win when they answer at least a tenth more than half as many, as they do when
 *    requests come in pipelines and a worker is what lacks;
 *  - or when they answer as much, and do not wait for a processor: there are enough, and a
 *    connection is sooner served by a worker that has fewer;
 *  - else fewer win.
 * When more seem to win by little the trial goes on for some rounds.  The next one comes after a
 * while, which doubles with each, and sooner when the number or the load has changed.  Where fewer
 * serve than could, it is of twice as many, in turn with half as many if they still wait.  So
 * trials cost a few hundredths of the time at first and a few thousandths later, and a wrong
 * verdict is not for ever.
 *
 * How many serve is all that this decides.  A connection has a number, and belongs to the worker
 * number modulo workers that serve; a worker that finds, when it has answered, that a connection
 * belongs to another hands it over (conn.h).
 *
 * Nothing here reads a clock or waits; one thread at a time.
 */
#ifndef FORGE_SERVE_CREW_H
#define FORGE_SERVE_CREW_H

#include <stdbool.h>
#include <stdint.h>

#define CREW_MAX 1024u

/* Each look at how things go, and each of a trial's four parts; of which the beginning, in which
 * connections are handed over, is not counted. */
#define CREW_LOOK_NS   UINT64_C(8000000)
#define CREW_SETTLE_NS UINT64_C(1000000)
/* Nobody had anything to do for so long: what is counted begins anew. */
#define CREW_IDLE_NS (UINT64_C(8) * CREW_LOOK_NS)
/* So many looks in turn must find twice or half the rate, until the load is another one. */
#define CREW_LOOKS_CHANGED 4u
/* From the end of a trial to the next one, at first and at most. */
#define CREW_HOLD_MIN_NS UINT64_C(100000000)
#define CREW_HOLD_MAX_NS UINT64_C(12800000000)
/* Waiting for a processor counts from so many hundredths of the time of those that serve on. */
#define CREW_WAITED_PERCENT 10u
/* More workers must answer so many hundredths more. */
#define CREW_GAIN_PERCENT 10u
/*
 * If it is by less than so many hundredths above that, it must be so in this many rounds of a
 * trial's parts together, and so a number that only seems better is not taken, or not for long.
 */
#define CREW_DOUBT_PERCENT 8u
#define CREW_ROUNDS_MAX	   4u
/* A trial in which fewer requests were answered says nothing of how many can be. */
#define CREW_REQUESTS_MIN 400u

/* Of one worker, since it began. */
struct crew_work {
	uint64_t requests, waited_ns;
};

struct crew_sum {
	uint64_t requests, waited_ns, ns;
};

struct crew {
	unsigned min, max; /* workers that may serve */
	unsigned serving;  /* now */
	unsigned settled;  /* when there is no trial */
	unsigned tried;	   /* in a trial */
	unsigned part;	   /* of the trial, from 1 on, four to a round; 0: there is none */
	bool prefers_more; /* where both may be tried next */
	bool is_settling;  /* the beginning of a part */
	uint64_t since_ns; /* of what is counted */
	uint64_t due_ns;   /* not before that the next trial */
	uint64_t hold_ns;
	uint64_t rate; /* requests a second when the last verdict was given */
	unsigned looks_changed;
	uint64_t trials;
	struct crew_sum sums[2]; /* of the trial: as settled, as tried */
	struct crew_work begun[CREW_MAX];
};

/* All of max workers serve; at least min always will. */
void crew_init(struct crew *, unsigned min, unsigned max, uint64_t now_ns);

/* When crew_step() has something to do next. */
uint64_t crew_next_ns(const struct crew *);

/* That is how things stand, with what each of max workers has done: how many are to serve? */
unsigned crew_step(struct crew *, uint64_t now_ns, const struct crew_work *);

#endif
