/*
 * share.c: how many threads serve: who looks, and at what.
 *
 * There is no thread for it.  A thread whose loop has turned looks whether it is time, which costs
 * a comparison; the one that then gets the lock adds up what all have done, and others go on
 * meanwhile.  While nobody has anything to do nobody looks.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/runqueue.h"
#include "serve/server_inside.h"

void share_open(struct server *s)
{
	const struct server_options *o = &s->options;
	struct share *h = &s->share;

	pthread_mutex_init(&h->lock, NULL);
	crew_init(&h->crew, o->thread_min ? o->thread_min : o->thread_count, o->thread_count,
		  clock_now_ns(clock_monotonic()));
	atomic_store(&h->serving, h->crew.serving);
	atomic_store(&h->next_ns, h->crew.min < h->crew.max ? 0 : UINT64_MAX);
	for (unsigned i = 0; i < o->thread_count; i++)
		atomic_store(&s->threads[i].runqueue, -1);
}

static void add_up(struct server *s, struct crew_work *work)
{
	for (unsigned i = 0; i < s->options.thread_count; i++) {
		struct server_thread *t = &s->threads[i];

		work[i].requests =
		    atomic_load_explicit(&t->conns.counts.requests, memory_order_relaxed);
		work[i].waited_ns = runqueue_waited_ns(atomic_load(&t->runqueue));
	}
}

void share_look(struct server_thread *t)
{
	struct server *s = t->server;
	struct share *h = &s->share;
	struct crew_work work[CREW_MAX];
	uint64_t now_ns = t->conns.turn_ns;

	if (likely(now_ns < atomic_load_explicit(&h->next_ns, memory_order_relaxed)))
		return;
	if (pthread_mutex_trylock(&h->lock))
		return; /* another does it */
	unsigned settled = h->crew.settled;

	add_up(s, work);
	atomic_store_explicit(&h->serving, crew_step(&h->crew, now_ns, work), memory_order_relaxed);
	if (h->crew.settled != settled)
		log_debug("%u of %u worker threads serve", h->crew.settled, h->crew.max);
	atomic_store_explicit(&h->next_ns, crew_next_ns(&h->crew), memory_order_relaxed);
	pthread_mutex_unlock(&h->lock);
}

void share_close(struct server *s)
{
	for (unsigned i = 0; i < s->options.thread_count; i++) {
		int fd = atomic_exchange(&s->threads[i].runqueue, -1);

		if (fd >= 0)
			close(fd);
	}
	pthread_mutex_destroy(&s->share.lock);
}
