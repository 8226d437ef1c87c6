/* forked.c: a count of fork()s on the way to this process. */
#include "client/forked.h"

#include <pthread.h>

_Atomic unsigned forked_depth;

static void in_child(void)
{
	atomic_fetch_add_explicit(&forked_depth, 1, memory_order_relaxed);
}

static void watch(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

unsigned forked_mark(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch);
	return atomic_load_explicit(&forked_depth, memory_order_relaxed);
}
