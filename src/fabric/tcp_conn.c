/*
 * tcp_conn.c: one connection of the node: bytes in, verbs executed, bytes out.
 *
 * A turn receives once into the thread's buffer, executes what has come, each request's answer
 * going to the thread's other buffer, and sends that once.  What a client may make the node keep
 * beyond a turn is bounded: a piece of a head that is not all there; and, only while the client
 * takes no replies, the rest of both buffers, during which nothing more is received.
 *
 * Payload of a WRITE is stored as it arrives, and data of a READ loaded as there is room for it,
 * both cut at words, so that each word is still stored or loaded at once; a connection is never
 * asked for more memory than that of a turn, whatever lengths it names.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "fabric/tcp_server_inside.h"

/* What a turn sends at most before others have theirs. */
#define TURN_OUT_BYTES (4 * TCP_SERVER_OUT_BYTES)

/* Room that any answer but data of a READ has enough with. */
#define ANSWER_BYTES  (sizeof(struct wire_reply) + 8)
#define CONTROL_BYTES (sizeof(struct wire_reply) + WIRE_STAT_BYTES_MAX)

static_assert(CONTROL_BYTES <= TCP_SERVER_OUT_BYTES && HELLO_BYTES <= CONTROL_BYTES,
	      "any answer fits the empty buffer");

/* As many cache misses as a processor has under way at once, and some. */
#define PREFETCH_MAX 32u

static inline void put_reply(struct answers *out, const struct wire_request *r, int status,
			     uint32_t len)
{
	const struct wire_reply reply = {r->code, (int8_t)status, r->tag, len};

	put(out, &reply, sizeof(reply));
}

/* ---- verbs -------------------------------------------------------------------------------- */

/* May this client do this to these bytes?  0, FORGE_E_DENIED or FORGE_E_BOUNDS. */
static int check_verb(const struct tcp_conn *c, const struct wire_request *r)
{
	uint64_t bytes = c->thread->server->memory.bytes;

	if (unlikely(c->role != WIRE_FULL && !(c->role == WIRE_READ_ONLY && r->code == WIRE_READ)))
		return FORGE_E_DENIED;
	if (unlikely(r->len > bytes || r->raddr > bytes - r->len))
		return FORGE_E_BOUNDS;
	if (unlikely(r->code >= WIRE_CAS && (r->raddr & 7)))
		return FORGE_E_BOUNDS;
	return FORGE_OK;
}

/* A verb, or a piece of one, that has been checked. */
static uint64_t execute(struct tcp_conn *c, struct fab_op op)
{
	memory_post((struct fab *)&c->thread->server->memory, &op, 1);
	assert(op.status == FORGE_OK);
	return op.old;
}

/* How much of `left` bytes from raddr on to take when there is room for `most`: whole words. */
static uint32_t piece(uint64_t raddr, uint64_t left, size_t most)
{
	if (left <= most)
		return (uint32_t)left;
	uint64_t end = (raddr + most) & ~UINT64_C(7);

	return end > raddr ? (uint32_t)(end - raddr) : 0;
}

/* Go on with the READ; is it done? */
static int go_on_reading(struct tcp_conn *c, struct answers *out)
{
	uint64_t raddr = c->op.raddr + c->done;
	uint32_t bytes = piece(raddr, c->op.len - c->done, room(out));

	memory_read(&c->thread->server->memory, raddr, out->at + out->bytes, bytes);
	out->bytes += bytes;
	c->done += bytes;
	return c->done == c->op.len;
}

/* Go on with the WRITE; how much of its payload was used.  Check for its end. */
static size_t go_on_writing(struct tcp_conn *c, const unsigned char *in, size_t bytes)
{
	uint64_t raddr = c->op.raddr + c->done, left = c->op.len - c->done;
	uint32_t used = c->status ? (uint32_t)min_u64(left, bytes) : piece(raddr, left, bytes);

	if (!c->status)
		execute(c, fab_write(FAB_DATA, raddr, in, used));
	c->done += used;
	return used;
}

static void end_verb(struct tcp_conn *c, const struct wire_request *r, int status)
{
	struct tcp_thread_counts *counts = &c->thread->counts;

	c->failed = (int8_t)status;
	c->state = TCP_CONN_REQUEST;
	if (likely(!status))
		tcp_count(&counts->ops[r->code - WIRE_READ], 1);
	else
		tcp_count(&counts->ops_failed, 1);
}

/* Its payload may have come, or is to come. */
static void begin_writing(struct tcp_conn *c, const struct wire_request *r, int status)
{
	c->op = *r;
	c->done = 0;
	c->status = (int8_t)status;
	c->state = TCP_CONN_WRITE;
}

/* In one piece if there is room for it. */
static void begin_reading(struct tcp_conn *c, const struct wire_request *r, int status,
			  struct answers *out)
{
	put_reply(out, r, status, status ? 0 : r->len);
	if (likely(!status && r->len <= room(out))) {
		memory_read(&c->thread->server->memory, r->raddr, out->at + out->bytes, r->len);
		out->bytes += r->len;
	} else if (!status) {
		c->op = *r;
		c->done = 0;
		c->state = TCP_CONN_READ;
		if (!go_on_reading(c, out))
			return;
	}
	end_verb(c, r, status);
}

static void do_atomic(struct tcp_conn *c, const struct wire_request *r, const unsigned char *words,
		      int status, struct answers *out)
{
	struct wire_words w = {0};
	uint64_t old = 0;

	memcpy(&w, words, r->code == WIRE_CAS ? sizeof(w) : sizeof(w.arg));
	if (!status)
		old = execute(c, r->code == WIRE_CAS ? fab_cas(FAB_DATA, r->raddr, w.arg, w.swap)
						     : fab_faa(FAB_DATA, r->raddr, w.arg));
	if (!(r->flags & WIRE_DETACHED)) {
		put_reply(out, r, status, status ? 0 : 8);
		if (!status)
			put(out, &old, 8);
	}
	end_verb(c, r, status);
}

/* A verb, whose head is at in.  How much was used; 0: it is not all there; BROKEN. */
static ssize_t begin_verb(struct tcp_conn *c, const struct wire_request *r, const unsigned char *in,
			  size_t bytes, struct answers *out)
{
	static const uint8_t words[] = {[WIRE_CAS] = 16, [WIRE_FAA] = 8};
	size_t size = sizeof(*r) + (r->code >= WIRE_CAS ? words[r->code] : 0);

	if (unlikely(c->kind != WIRE_DATA || (r->code >= WIRE_CAS && r->len != 8) ||
		     (r->code == WIRE_READ && (r->flags & WIRE_DETACHED))))
		return BROKEN;
	if (bytes < size)
		return 0;
	c->tag++;
	int status = (r->flags & WIRE_CHAINED) && c->failed ? c->failed : check_verb(c, r);

	if (likely(r->code == WIRE_READ))
		begin_reading(c, r, status, out);
	else if (r->code == WIRE_WRITE)
		begin_writing(c, r, status);
	else
		do_atomic(c, r, in + sizeof(*r), status, out);
	return (ssize_t)size;
}

/* ---- requests ----------------------------------------------------------------------------- */

static ssize_t begin_request(struct tcp_conn *c, const unsigned char *in, size_t bytes,
			     struct answers *out)
{
	struct wire_request r;
	uint32_t len = 0;

	if (bytes < sizeof(r))
		return 0;
	memcpy(&r, in, sizeof(r));
	if (unlikely(r.tag != c->tag || (r.flags & ~WIRE_FLAGS)))
		return BROKEN;
	if (likely(r.code >= WIRE_READ && r.code <= WIRE_FAA))
		return begin_verb(c, &r, in, bytes, out);
	if (r.flags || r.len ||
	    (c->kind != WIRE_CONTROL && r.code != WIRE_TIME && r.code != WIRE_PING))
		return BROKEN;
	int status =
	    tcp_control_execute(c, &r, out->at + out->bytes + sizeof(struct wire_reply), &len);

	if (status == FORGE_E_FORMAT)
		return BROKEN;
	c->tag++;
	put_reply(out, &r, status, len);
	out->bytes += len;
	tcp_count(&c->thread->counts.control, 1);
	return sizeof(r);
}

/*
 * The memory of the requests that have come: their cache misses overlap, instead of one following
 * the other.  A hint, so lengths are believed as far as they lie within what has come.
 */
static void prefetch(const struct tcp_conn *c, const unsigned char *in, size_t bytes)
{
	const struct memory_fab *m = &c->thread->server->memory;
	struct wire_request r;

	for (size_t at = 0, n = 0; n < PREFETCH_MAX && at + sizeof(r) <= bytes; n++) {
		memcpy(&r, in + at, sizeof(r));
		if (r.raddr < m->bytes)
			fetch_ahead(m->mem + r.raddr);
		at += sizeof(r) + (r.code == WIRE_WRITE ? r.len
				   : r.code == WIRE_CAS ? sizeof(struct wire_words)
				   : r.code == WIRE_FAA ? 8
							: 0);
	}
}

/* ---- a turn ------------------------------------------------------------------------------- */

/*
 * Execute what is in [in, in + bytes), until it is used up, there is no more room for answers
 * (*full), or it is BROKEN.  How much was used.
 */
static ssize_t execute_all(struct tcp_conn *c, const unsigned char *in, size_t bytes,
			   struct answers *out, int *full)
{
	size_t at = 0;

	*full = 0;
	for (;;) {
		size_t needed = c->state == TCP_CONN_HELLO ? HELLO_BYTES
				: c->kind == WIRE_CONTROL  ? CONTROL_BYTES
							   : ANSWER_BYTES;
		ssize_t used = 0;

		if (unlikely(room(out) < needed)) {
			*full = 1;
			return (ssize_t)at;
		}
		switch (c->state) {
		case TCP_CONN_HELLO:
		case TCP_CONN_PROOF:
			used = tcp_greet(c, in + at, bytes - at, out);
			break;
		case TCP_CONN_REQUEST:
			used = begin_request(c, in + at, bytes - at, out);
			break;
		case TCP_CONN_WRITE:
			used = (ssize_t)go_on_writing(c, in + at, bytes - at);
			if (c->done == c->op.len) {
				if (!(c->op.flags & WIRE_DETACHED))
					put_reply(out, &c->op, c->status, 0);
				end_verb(c, &c->op, c->status);
				at += (size_t)used;
				continue;
			}
			break;
		case TCP_CONN_READ:
			if (go_on_reading(c, out))
				end_verb(c, &c->op, FORGE_OK);
			continue;
		case TCP_CONN_LAST:
			return (ssize_t)bytes;
		}
		if (used < 0)
			return BROKEN;
		if (used == 0)
			return (ssize_t)at;
		at += (size_t)used;
	}
}

/* As send() and recv(), as far as they go at once. */
static ssize_t send_records(struct tcp_conn *c, const unsigned char *at, size_t bytes)
{
	size_t sum = 0;
	ssize_t n = 0;

	while (sum < bytes && (n = tls_send(c->tls, at + sum, bytes - sum)) > 0)
		sum += (size_t)n;
	return sum ? (ssize_t)sum : n;
}

static ssize_t receive_records(struct tcp_conn *c, unsigned char *at, size_t bytes)
{
	size_t sum = 0;
	ssize_t n = 0;

	/* What ended or failed does so again at the next call. */
	while (sum < bytes && (n = tls_recv(c->tls, at + sum, bytes - sum)) > 0)
		sum += (size_t)n;
	return sum ? (ssize_t)sum : n;
}

/* Send; how much went, or -1 when nothing ever will. */
static ssize_t send_some(struct tcp_conn *c, const unsigned char *at, size_t bytes)
{
	ssize_t n = likely(!c->tls) ? send(c->fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
				    : send_records(c, at, bytes);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	if (n > 0)
		tcp_count(&c->thread->counts.bytes_out, (uint64_t)n);
	return n;
}

static int keep_open(unsigned char **to, size_t *to_bytes, const unsigned char *from, size_t bytes)
{
	if (bytes == 0)
		return 0;
	*to = malloc(bytes);
	if (!*to)
		return -1;
	memcpy(*to, from, bytes);
	*to_bytes = bytes;
	return 0;
}

static void kept_close(unsigned char **kept)
{
	free(*kept);
	*kept = NULL;
}

/* Answers of an earlier turn first. */
static enum tcp_turn send_kept(struct tcp_conn *c)
{
	ssize_t n = send_some(c, c->out, c->out_bytes);

	if (n < 0)
		return TCP_TURN_END;
	c->out_bytes -= (size_t)n;
	memmove(c->out, c->out + n, c->out_bytes);
	if (c->out_bytes > 0)
		return TCP_TURN_OUT;
	kept_close(&c->out);
	return TCP_TURN_DONE;
}

/* Fill the thread's buffer: what was kept, or what has come; how much; -1 at an end, 0: nothing. */
static ssize_t fill(struct tcp_conn *c)
{
	unsigned char *in = c->thread->in;
	size_t kept = c->head_bytes;
	ssize_t n;

	if (c->in) {
		memcpy(in, c->in, c->in_bytes);
		kept_close(&c->in);
		return (ssize_t)c->in_bytes;
	}
	memcpy(in, c->head, kept);
	if (unlikely(c->guest) && tcp_greet_first(c))
		return -1;
	n = likely(!c->tls) ? recv(c->fd, in + kept, TCP_SERVER_IN_BYTES - kept, MSG_DONTWAIT)
			    : receive_records(c, in + kept, TCP_SERVER_IN_BYTES - kept);
	if (n == 0) {
		c->is_orderly = kept == 0 && c->state <= TCP_CONN_REQUEST;
		return -1;
	}
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
	c->head_bytes = 0;
	tcp_count(&c->thread->counts.receives, 1);
	tcp_count(&c->thread->counts.bytes_in, (uint64_t)n);
	return (ssize_t)kept + n;
}

enum tcp_turn tcp_conn_turn(struct tcp_conn *c)
{
	struct tcp_thread *t = c->thread;
	ssize_t bytes = 0, at = 0, sent = 0;
	int full;

	/* E1: nothing of an instance that has ended. */
	if (c->instance && atomic_load(&c->instance->ended))
		return TCP_TURN_END;
	if (unlikely(c->out)) {
		enum tcp_turn turn = send_kept(c);

		if (turn != TCP_TURN_DONE)
			return turn;
		if (c->state == TCP_CONN_LAST)
			return TCP_TURN_END;
	}
	if (likely(c->state != TCP_CONN_READ || c->in)) {
		bytes = fill(c);
		if (bytes < 0)
			return TCP_TURN_END;
		if (bytes == 0)
			return unlikely(c->tls) && tls_wants_out(c->tls) ? TCP_TURN_OUT
									 : TCP_TURN_DONE;
		if (c->state == TCP_CONN_REQUEST &&
		    (size_t)bytes >= 2 * sizeof(struct wire_request))
			prefetch(c, t->in, (size_t)bytes);
	}
	do {
		struct answers out = {t->out, 0};
		ssize_t used = execute_all(c, t->in + at, (size_t)(bytes - at), &out, &full);

		if (unlikely(used < 0))
			return TCP_TURN_END;
		at += used;
		ssize_t n = out.bytes > 0 ? send_some(c, out.at, out.bytes) : 0;

		if (unlikely(n < 0))
			return TCP_TURN_END;
		sent += n;
		if (unlikely((size_t)n < out.bytes)) {
			if (keep_open(&c->out, &c->out_bytes, out.at + n, out.bytes - (size_t)n) ||
			    keep_open(&c->in, &c->in_bytes, t->in + at, (size_t)(bytes - at)))
				return TCP_TURN_END;
			return TCP_TURN_OUT;
		}
	} while (full && sent < (ssize_t)TURN_OUT_BYTES);
	if (unlikely(full)) {
		if (keep_open(&c->in, &c->in_bytes, t->in + at, (size_t)(bytes - at)))
			return TCP_TURN_END;
		return TCP_TURN_AGAIN;
	}
	if (c->state == TCP_CONN_LAST)
		return TCP_TURN_END;
	/* Less than a head, or than a word. */
	c->head_bytes = (unsigned char)(bytes - at);
	assert((size_t)(bytes - at) <= sizeof(c->head));
	memcpy(c->head, t->in + at, c->head_bytes);
	return unlikely(c->tls) && tls_has_pending(c->tls) ? TCP_TURN_AGAIN : TCP_TURN_DONE;
}
