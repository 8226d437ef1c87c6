/* idle.c: what came, what is under way, what was taken. */
#include "serve/idle.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "serve/conn.h"
#include "serve/linger.h"

/*
 * Has it taken nothing since that was last looked at?  The kernel has room for megabytes, and says
 * that there is room only after a good part of them has gone: a slow reader is seen by what is
 * left.  That it is as much as at an earlier look says nothing if there was a send in between.
 */
static bool takes_nothing(struct conn *c)
{
	int left, before = c->queued;

	if (ioctl(c->socket.fd, SIOCOUTQ, &left))
		return true;
	c->queued = left;
	return left == before;
}

bool idle_is(struct conn *c)
{
	const struct conn_worker *w = c->worker;

	/* The worker that it was with may have been ahead of this one. */
	if (c->errands || c->is_waiting || w->now_ms < c->active_ms + w->idle_timeout_ms)
		return false;
	if (c->waits == CONN_WAITS_ROOM ? takes_nothing(c) : !linger_input_bytes(c))
		return true;
	c->active_ms = w->now_ms;
	return false;
}
