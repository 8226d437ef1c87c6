/* watch.c: epoll, and who is called for what it says. */
#include "serve/watch.h"

#include <errno.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"

int watch_open(struct watch *w)
{
	w->at = w->count = 0;
	w->epoll = epoll_create1(EPOLL_CLOEXEC);
	return w->epoll < 0 ? -1 : 0;
}

void watch_close(struct watch *w)
{
	if (w->epoll >= 0)
		close(w->epoll);
	w->epoll = -1;
}

int watch_add(struct watch *w, struct watched *s, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};

	return epoll_ctl(w->epoll, EPOLL_CTL_ADD, s->fd, &e);
}

void watch_remove(struct watch *w, struct watched *s)
{
	if (epoll_ctl(w->epoll, EPOLL_CTL_DEL, s->fd, NULL))
		log_error("descriptor %d cannot be taken out of the event loop: %m", s->fd);
	for (int i = w->at; i < w->count; i++)
		if (w->ready[i].data.ptr == s)
			w->ready[i].data.ptr = NULL;
}

void watch_turn(struct watch *w, int patience_ms)
{
	int n = epoll_wait(w->epoll, w->ready, WATCH_READY_MAX, patience_ms);

	assert(n >= 0 || errno == EINTR);
	w->count = n;
	for (w->at = 0; w->at < w->count;) {
		struct watched *s = w->ready[w->at++].data.ptr;

		if (s)
			s->on_ready(s->owner);
	}
}
