/*
 * forked.h: is this process a child of the one that opened something?
 *
 * Called by client/.  A child that fork() made has copies of its parent's connections and locks,
 * and may use none of them.  Any thread; the first call of forked_mark() in a process makes it
 * watch.
 */
#ifndef FORGE_CLIENT_FORKED_H
#define FORGE_CLIENT_FORKED_H

#include <stdatomic.h>

extern _Atomic unsigned forked_depth;

/* What to keep with what was opened. */
unsigned forked_mark(void);

/* Since then, is this a child of the process that called it? */
static inline int forked_since(unsigned mark)
{
	return atomic_load_explicit(&forked_depth, memory_order_relaxed) != mark;
}

#endif
