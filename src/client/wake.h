/*
 * wake.h: what a client's thread sleeps by: a bell that others ring, and what the system has to
 * tell of the names of its pools.
 *
 * Internal to src/client.  Waited on by one thread, rung by any, also by several at once.  What is
 * waited for is a condition under the client's lock, changed before the bell is rung: who looks at
 * it, gives the lock back and then waits finds the bell rung already, so nothing is missed.
 */
#ifndef FORGE_CLIENT_WAKE_H
#define FORGE_CLIENT_WAKE_H

#include <stdint.h>

struct wake {
	int bell;
	int names; /* -1: the system had nothing to tell by */
};

/* 0 or FORGE_E_SYSTEM: no descriptor is left. */
int wake_open(struct wake *);

/* Nobody waits any more.  Also in a child of fork(), which has copies. */
void wake_close(struct wake *);

void wake_ring(const struct wake *);

/*
 * For link_watch(), and for it alone.  -1: the system has nothing to tell by (fabric/shm.h); the
 * next call asks it again, for what others had may be free by then.  By who waits.
 */
int wake_names(struct wake *);

/* Sleep until it is rung, was rung since the last wait, or a name may have gone; max_ns at most. */
void wake_wait(const struct wake *, uint64_t max_ns);

#endif
