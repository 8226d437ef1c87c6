/*
 * cut.h: a fabric that can be cut and joined again while its memory lives: what a network does.
 *
 * For tests of clients on several memory nodes.  A struct cuts has a switch for each pool and goes
 * into client_options.  Connections are wrapped; a pool that is cut fails every verb with
 * FORGE_E_NODE, and every connection that somebody tries to make.  Any thread.
 */
#ifndef FORGE_TEST_SUPPORT_CUT_H
#define FORGE_TEST_SUPPORT_CUT_H

#include <pthread.h>
#include <stdatomic.h>

#include "client/client.h"

#define CUTS_MAX 8u

typedef void (*cut_interlude_fn)(void *context);

struct cut {
	_Atomic uint64_t pool_id; /* 0: not seen yet */
	_Atomic int is_down;
	_Atomic uint32_t times; /* that it went down; a connection of before stays dead */
	/* Cut at the n-th verb from now, counted down; 0: no. */
	_Atomic uint64_t verbs_left;
	_Atomic int last_lands; /* that verb takes effect, and fails all the same */
	/* So many more connections can be made, less one; 0: any number. */
	_Atomic uint32_t connects_left;
	/*
	 * Called once, before the next verb that the user's thread posts there, which waits for it;
	 * NULL: nothing is.  That thread's alone.
	 */
	cut_interlude_fn interlude;
	void *interlude_context;
	/*
	 * The same, before another thread's next connection is made, in that thread.  Set before it
	 * can be.
	 */
	_Atomic(cut_interlude_fn) connect_interlude;
};

struct cuts {
	struct cut cut[CUTS_MAX];
	pthread_t user;			   /* the thread that runs operations, */
	_Atomic uint32_t connects_by_user; /* and how often it had to connect */
	_Atomic uint32_t connects_by_others, connects_refused;
};

int cuts_wrap(void *cuts, uint64_t pool_id, struct fab *inner, struct fab **out);

/* The switch of a pool. */
struct cut *cuts_of(struct cuts *, uint64_t pool_id);

void cut_down(struct cut *);
void cut_up(struct cut *);

#endif
