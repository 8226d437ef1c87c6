/*
 * cancel.h: giving up, from another thread, what one waits for.
 *
 * For a thread that waits for somebody who may never answer, and whose owner will not wait for it.
 * What waits polls cancel_fd() beside what it waits for, or names a word that is set with it.
 * Owned by who fires it; any thread.  Firing is undone only when nothing waits by it.
 */
#ifndef FORGE_BASE_CANCEL_H
#define FORGE_BASE_CANCEL_H

#include <pthread.h>
#include <stdatomic.h>

struct cancel {
	int fd; /* an eventfd, which nobody reads */
	_Atomic int is_fired;
	pthread_mutex_t lock; /* of word; nothing is locked under it */
	_Atomic int *word;
};

/* 0 or FORGE_E_SYSTEM with errno: no descriptor is left. */
int cancel_open(struct cancel *);
void cancel_close(struct cancel *);
/* In a child of fork(), where others may have been in the midst of it. */
void cancel_forget(struct cancel *);

void cancel_fire(struct cancel *);

/* As if it had never been fired; nothing waits by it, and nobody fires it meanwhile. */
void cancel_reset(struct cancel *);

/*
 * Set that word, too, when it is fired, or at once if it was; NULL: none any more.  One at a time;
 * who names it takes it back before it is gone.  A cancel of NULL is never fired.
 */
void cancel_watch(struct cancel *, _Atomic int *word);

/* Becomes readable; -1, which poll() ignores, of NULL. */
static inline int cancel_fd(const struct cancel *c)
{
	return c ? c->fd : -1;
}

static inline int cancel_is_fired(const struct cancel *c)
{
	return c && atomic_load_explicit(&c->is_fired, memory_order_acquire);
}

#endif
