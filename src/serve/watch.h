/*
 * watch.h: a worker's event loop: sleeps until descriptors are ready, and calls their owners.
 *
 * Only what a worker needs, because it turns once for each request of a client that awaits every
 * reply: one epoll_wait(), and a call for each descriptor that is ready.  There are no timers (a
 * descriptor of timerfd_create() is one), so nothing is armed for a sleep and nothing looks at the
 * clock around it.  What is to follow when all that were ready have had their turn comes after
 * watch_turn().
 *
 * What is watched belongs to its owner and stays where it is until watch_remove(), which comes
 * before the descriptor is closed.  Who was ready in the same turn and has not been called yet is
 * not called after that, so that the one that is called may end any other, or itself.
 *
 * Everything belongs to one thread.
 */
#ifndef FORGE_SERVE_WATCH_H
#define FORGE_SERVE_WATCH_H

#include <stdint.h>
#include <sys/epoll.h>

/* So many are called in one turn; others that are ready come first in the next. */
#define WATCH_READY_MAX 128

#define WATCH_FOREVER (-1)

struct watched {
	int fd;
	/* It is ready, or broken, which reading or writing will tell. */
	void (*on_ready)(void *owner);
	void *owner;
};

struct watch {
	int epoll;
	int at, count; /* of ready: those behind at have not been called */
	struct epoll_event ready[WATCH_READY_MAX];
};

/* 0 or -1 with errno. */
int watch_open(struct watch *);
void watch_close(struct watch *);

/* Call it whenever its descriptor is EPOLLIN or EPOLLOUT.  Not watched yet.  0 or -1 with errno. */
int watch_add(struct watch *, struct watched *, uint32_t events);
/* Not any more. */
void watch_remove(struct watch *, struct watched *);

/* Sleep until something is ready, or so many ms, and call everything that is. */
void watch_turn(struct watch *, int patience_ms);

#endif
