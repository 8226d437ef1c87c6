/*
 * conn_kept.c: what a connection keeps: input that is no whole request yet or must wait, and
 * replies that its client does not read.  Both are a piece of memory that is there only meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "serve/conn.h"

/* ---- input -------------------------------------------------------------------------------- */

/* Make room for so many bytes of held input.  false: no memory. */
static bool hold_room(struct conn *c, size_t bytes)
{
	if (bytes <= c->held_room)
		return true;
	/* Room for a little of the next request too, so that it needs no read of its own. */
	size_t room = round_up_u64(bytes + PARSE_OVERHEAD_BYTES, 4096);
	char *held = realloc(c->held, room);

	if (!held)
		return false;
	c->held = held;
	c->held_room = room;
	return true;
}

bool conn_hold(struct conn *c, const char *data, size_t bytes, size_t need)
{
	bool is_held = c->held_bytes > 0;

	c->held_at = is_held && bytes > 0 ? (size_t)(data - c->held) : 0;
	c->held_bytes = bytes;
	if (is_held || bytes == 0)
		return true;
	if (!hold_room(c, max_u64(need, bytes)))
		return false;
	memcpy(c->held, data, bytes);
	return true;
}

bool conn_hold_more(struct conn *c)
{
	size_t bytes = max_u64(c->held_need, c->held_bytes + 1);

	if (c->held_at + bytes > c->held_room) {
		memmove(c->held, c->held + c->held_at, c->held_bytes);
		c->held_at = 0;
	}
	return hold_room(c, bytes);
}

/* ---- output ------------------------------------------------------------------------------- */

/* As much as the socket takes.  How much, or -1 when the connection is broken. */
static ssize_t send_some(struct conn *c, const char *data, size_t bytes)
{
	size_t sent = 0;

	while (sent < bytes) {
		ssize_t n = c->tls ? tls_send(c->tls, data + sent, bytes - sent)
				   : send(c->socket.fd, data + sent, bytes - sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n <= 0)
			return -1;
		sent += (size_t)n;
	}
	counts_add(&c->worker->counts.bytes_written, sent);
	return (ssize_t)sent;
}

/* Replies that do not go out now wait.  false: no memory. */
static bool keep_unsent(struct conn *c, const char *data, size_t bytes)
{
	char *unsent = realloc(c->unsent, c->unsent_at + c->unsent_bytes + bytes);

	if (!unsent)
		return false;
	c->unsent = unsent;
	memcpy(unsent + c->unsent_at + c->unsent_bytes, data, bytes);
	c->unsent_bytes += bytes;
	c->worker->overlap.kept_bytes += bytes;
	return true;
}

bool conn_send_out(struct conn *c)
{
	struct conn_worker *w = c->worker;
	struct out *o = &w->out;
	size_t bytes = o->used;
	ssize_t sent = 0;

	w->executor.keys_start = KEYS_ARE_SENT;
	o->used = 0;
	if (bytes == 0)
		return true;
	/* Behind what waits already. */
	if (!c->unsent)
		sent = send_some(c, o->data, bytes);
	if (sent < 0)
		return false;
	return (size_t)sent == bytes || keep_unsent(c, o->data + sent, bytes - (size_t)sent);
}

bool conn_send_unsent(struct conn *c)
{
	ssize_t sent = send_some(c, c->unsent + c->unsent_at, c->unsent_bytes);

	if (sent < 0)
		return false;
	c->queued = -1;
	c->unsent_at += (size_t)sent;
	c->unsent_bytes -= (size_t)sent;
	c->worker->overlap.kept_bytes -= (size_t)sent;
	if (c->unsent_bytes == 0) {
		c->worker->given_back += c->unsent_at;
		free(c->unsent);
		c->unsent = NULL;
		c->unsent_at = 0;
	}
	return true;
}

void conn_flush(struct conn *c)
{
	if (!conn_send_out(c))
		c->is_broken = true;
}
