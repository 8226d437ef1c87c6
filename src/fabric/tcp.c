/*
 * tcp.c: verbs as requests on a socket: a queue of bytes out, a queue of ops that wait for replies.
 *
 * Out: requests are encoded into `out`, one behind the other; the payload of a long WRITE stays
 * where it is, in op->buf, which is the connection's until the op completes.  `pieces` lists both
 * in their order, and is what sendmsg() takes.  When all has been sent both begin anew; when
 * either is full, room() sends, and reads replies meanwhile, for the node may be waiting for that
 * before it reads on.
 *
 * In: replies are read into `in` and taken apart there; what remains of a long READ is received
 * into op->buf directly.
 *
 * Time: an op is due `deadline` after the kick that sent it, and later by what is out before it at
 * TCP_BYTE_NS a byte, so that a slow link is no dead node.  The first op that is out is the first
 * due, but for that, so it alone is looked at.  When it is due and the node answers other
 * connections of the instance meanwhile, it is queued behind them, or behind other clients, and
 * waited for longer: TCP_BUSY_DEADLINES in all, so that a connection that is forgotten is an end,
 * too.  While this process is stopped, or does not poll for another reason, no time passes: the
 * reply may long have come, or the request not gone out.
 */
#include "fabric/tcp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_dial.h"

/* The slowest link that is not given up: 1 MB/s. */
#define TCP_BYTE_NS 1000u

/* A payload up to this is copied: a piece of its own costs as much as copying about that much. */
#define TCP_COPY_BYTES_MAX 2048u

#define TCP_PIECES_MAX 256u

/*
 * A send over TCP costs as much as some 50 small verbs.  64 Gets of 256 bytes in flight, each
 * fiber's post of its own: 1.66 us a Get with a send for 8 posts, 1.20 for 16, 1.03 for 32 and for
 * 64; over a Unix socket 0.81, 0.69, 0.68, 0.68.
 */
#define KICK_POSTS 32u

/* How often time is looked at while nothing happens. */
#define TCP_LOOK_NS 5000000u

/* What one request takes of `out` at most. */
#define TCP_REQUEST_ROOM (WIRE_REQUEST_BYTES_MAX + TCP_COPY_BYTES_MAX)

struct tcp_entry {
	struct fab_op *op;
	uint64_t due_ns; /* 0 before its kick */
	uint16_t tag;
};

struct tcp_fab {
	struct fab_base base;
	struct tcp_stream stream;
	uint64_t deadline_ns;
	uint64_t looked_ns; /* at the time, last */
	uint64_t away_ns;   /* that were no time to be waited for */
	uint64_t back_ns;   /* when this process was away last, its first look after that */
	int lost;
	_Atomic int *all_lost;	    /* of the instance; may be NULL */
	_Atomic uint64_t *heard_ns; /* likewise */
	uint16_t tag;		    /* of the next request */

	/* Ops whose replies have not come, a ring; due times are known up to kicked. */
	uint32_t posted, kicked, completed;
	uint64_t bytes_out; /* of requests and replies of these ops, about */
	uint64_t sent_ns;   /* when `out` moved last */

	unsigned pieces_first, pieces_count; /* [first, first + count) are not sent */
	size_t out_bytes;
	size_t in_at, in_bytes; /* [in_at, in_bytes) has been received */
	size_t rest;		/* of the oldest op's data, to come into op->buf */

	struct tcp_entry entries[TCP_OPS_OUT_MAX];
	struct iovec pieces[TCP_PIECES_MAX];
	unsigned char out[TCP_BUFFER_BYTES];
	unsigned char in[TCP_BUFFER_BYTES];
};

/* The time, less that in which nobody looked at it. */
static uint64_t look_at_clock(struct tcp_fab *t)
{
	uint64_t now_ns = clock_now_ns(clock_monotonic());

	if (now_ns - t->looked_ns > TCP_AWAY_NS) {
		t->away_ns += now_ns - t->looked_ns;
		t->back_ns = now_ns;
	}
	t->looked_ns = now_ns;
	return now_ns - t->away_ns;
}

static inline struct tcp_entry *entry_at(struct tcp_fab *t, uint32_t number)
{
	return &t->entries[number % TCP_OPS_OUT_MAX];
}

static inline uint64_t bytes_of(const struct fab_op *op)
{
	return op->len + sizeof(struct wire_request) + sizeof(struct wire_reply);
}

static void complete(struct tcp_fab *t, int status)
{
	struct fab_op *op = entry_at(t, t->completed++)->op;

	t->bytes_out -= bytes_of(op);
	op->status = status;
}

static void lose(struct tcp_fab *t)
{
	t->lost = 1;
	if (t->all_lost)
		atomic_store_explicit(t->all_lost, 1, memory_order_relaxed);
	tcp_stream_close(&t->stream);
	while (t->completed != t->posted)
		complete(t, FORGE_E_NODE);
	t->kicked = t->posted;
	t->pieces_count = 0;
	t->rest = 0;
}

/* Has another connection of the instance lost the node?  A hint that all look at. */
static inline int instance_is_lost(const struct tcp_fab *t)
{
	return t->all_lost && atomic_load_explicit(t->all_lost, memory_order_relaxed);
}

/* ---- replies ------------------------------------------------------------------------------ */

/* The code, tag and length that the reply to this op must have. */
static int is_reply_to(const struct wire_reply *r, const struct tcp_entry *e)
{
	static const uint8_t with_word[FAB_CODES] = {0, 0, 8, 8};
	uint32_t len = e->op->code == FAB_READ ? e->op->len : with_word[e->op->code];

	return r->code == e->op->code + WIRE_READ && r->tag == e->tag && r->status <= 0 &&
	       r->len == (r->status ? 0 : len);
}

/* Take one reply from [at, at + bytes).  How much of it was used: 0, when it is not all there;
 * -1: that is no reply. */
static ssize_t take_reply(struct tcp_fab *t, const unsigned char *at, size_t bytes)
{
	struct tcp_entry *e = entry_at(t, t->completed);
	struct wire_reply r;

	if (bytes < sizeof(r))
		return 0;
	memcpy(&r, at, sizeof(r));
	if (unlikely(t->completed == t->kicked || !is_reply_to(&r, e)))
		return -1;
	if (e->op->code == FAB_READ) {
		size_t there = (size_t)min_u64(bytes - sizeof(r), r.len);

		memcpy(e->op->buf, at + sizeof(r), there);
		t->rest = r.len - there;
		if (t->rest == 0)
			complete(t, r.status);
		return (ssize_t)(sizeof(r) + there);
	}
	if (bytes < sizeof(r) + r.len)
		return 0;
	if (r.len)
		memcpy(&e->op->old, at + sizeof(r), 8);
	complete(t, r.status);
	return (ssize_t)(sizeof(r) + r.len);
}

static void take_replies(struct tcp_fab *t)
{
	while (t->in_at < t->in_bytes && t->rest == 0) {
		ssize_t used = take_reply(t, t->in + t->in_at, t->in_bytes - t->in_at);

		if (used == 0)
			break;
		if (unlikely(used < 0)) {
			lose(t);
			return;
		}
		t->in_at += (size_t)used;
	}
	/* What is left is less than a reply's head and a word. */
	memmove(t->in, t->in + t->in_at, t->in_bytes - t->in_at);
	t->in_bytes -= t->in_at;
	t->in_at = 0;
}

/* Receive once.  Did anything come? */
static int receive(struct tcp_fab *t)
{
	struct iovec iov[2];
	unsigned count = 0;
	size_t rest = t->rest;

	if (rest > 0) {
		struct fab_op *op = entry_at(t, t->completed)->op;

		iov[count++] = (struct iovec){(unsigned char *)op->buf + (op->len - rest), rest};
	}
	iov[count++] = (struct iovec){t->in + t->in_bytes, sizeof(t->in) - t->in_bytes};
	ssize_t n = tcp_stream_receive(&t->stream, iov, count);

	if (n == 0)
		return 0;
	if (unlikely(n < 0)) {
		lose(t);
		return 1;
	}
	tcp_hear(t->heard_ns, t->looked_ns);
	if (rest > 0) {
		size_t direct = (size_t)min_u64((uint64_t)n, rest);

		t->rest -= direct;
		n -= (ssize_t)direct;
		if (t->rest > 0)
			return 1;
		complete(t, FORGE_OK);
	}
	t->in_bytes += (size_t)n;
	take_replies(t);
	return 1;
}

/* ---- sending ------------------------------------------------------------------------------ */

/* Send what can be sent at once. */
static void send_out(struct tcp_fab *t)
{
	while (t->pieces_count > 0) {
		struct iovec *piece = &t->pieces[t->pieces_first];
		ssize_t n = tcp_stream_send(&t->stream, piece, t->pieces_count);

		if (unlikely(n < 0)) {
			lose(t);
			return;
		}
		if (n == 0)
			return;
		t->sent_ns = 0;
		for (; n > 0 && (size_t)n >= piece->iov_len; piece++) {
			n -= (ssize_t)piece->iov_len;
			t->pieces_first++;
			t->pieces_count--;
		}
		if (n > 0) {
			piece->iov_base = (unsigned char *)piece->iov_base + n;
			piece->iov_len -= (size_t)n;
		}
	}
	t->pieces_first = 0;
	t->out_bytes = 0;
}

static void tcp_kick(struct fab *f)
{
	struct tcp_fab *t = (struct tcp_fab *)f;

	if (t->kicked != t->posted) {
		uint64_t due_ns = look_at_clock(t) + t->deadline_ns + t->bytes_out * TCP_BYTE_NS;

		while (t->kicked != t->posted)
			entry_at(t, t->kicked++)->due_ns = due_ns;
	}
	send_out(t);
}

/*
 * Has the node had its time, which ended at end_ns?  Longer if it is busy with our others.  While
 * this process was away they heard nothing either, which says nothing of the node.
 */
static int had_its_time(const struct tcp_fab *t, uint64_t now_ns, uint64_t end_ns)
{
	int is_busy = tcp_was_heard(t->heard_ns, t->looked_ns, t->deadline_ns) ||
		      (t->heard_ns && t->looked_ns < t->back_ns + t->deadline_ns);

	return now_ns >= end_ns &&
	       (!is_busy || now_ns - end_ns >= (TCP_BUSY_DEADLINES - 1) * t->deadline_ns);
}

/* If it has, it is lost. */
static void look_at_time(struct tcp_fab *t, uint64_t now_ns)
{
	if (t->completed != t->kicked && had_its_time(t, now_ns, entry_at(t, t->completed)->due_ns))
		lose(t);
	/* What nobody waits for has the same time to leave. */
	if (t->pieces_count == 0)
		return;
	if (t->sent_ns == 0)
		t->sent_ns = now_ns;
	else if (had_its_time(t, now_ns, t->sent_ns + t->deadline_ns))
		lose(t);
}

static int has_room(const struct tcp_fab *t)
{
	return t->posted - t->completed < TCP_OPS_OUT_MAX &&
	       t->out_bytes + TCP_REQUEST_ROOM <= sizeof(t->out) &&
	       t->pieces_first + t->pieces_count + 2 <= TCP_PIECES_MAX;
}

/* Make room for one more request, or lose the node. */
static void __attribute__((noinline)) make_room(struct tcp_fab *t)
{
	tcp_kick((struct fab *)t);
	while (!t->lost && !has_room(t)) {
		if (!receive(t)) {
			look_at_time(t, look_at_clock(t));
			if (!t->lost)
				tcp_stream_wait(&t->stream, t->pieces_count > 0, TCP_LOOK_NS);
		}
		if (!t->lost)
			send_out(t);
	}
}

static void put_piece(struct tcp_fab *t, const void *bytes, size_t count)
{
	unsigned end = t->pieces_first + t->pieces_count;

	if (t->pieces_count > 0) {
		struct iovec *last = &t->pieces[end - 1];

		if ((unsigned char *)last->iov_base + last->iov_len == bytes) {
			last->iov_len += count;
			return;
		}
	}
	t->pieces[end] = (struct iovec){(void *)(uintptr_t)bytes, count};
	t->pieces_count++;
}

static void put_request(struct tcp_fab *t, const struct fab_op *op, unsigned flags)
{
	unsigned char *at = t->out + t->out_bytes;
	size_t bytes = sizeof(struct wire_request);
	const struct wire_request head = {
	    .code = (uint8_t)(op->code + WIRE_READ),
	    .flags = (uint8_t)flags,
	    .tag = t->tag++,
	    .len = op->len,
	    .raddr = op->raddr,
	};
	const struct wire_words words = {op->arg, op->swap};
	int is_long = op->code == FAB_WRITE && op->len > TCP_COPY_BYTES_MAX;

	memcpy(at, &head, sizeof(head));
	if (op->code >= FAB_CAS) {
		size_t size = op->code == FAB_CAS ? sizeof(words) : sizeof(words.arg);

		memcpy(at + bytes, &words, size);
		bytes += size;
	} else if (op->code == FAB_WRITE && !is_long) {
		memcpy(at + bytes, op->buf, op->len);
		bytes += op->len;
	}
	t->out_bytes += bytes;
	put_piece(t, at, bytes);
	if (is_long)
		put_piece(t, op->buf, op->len);
}

static int op_in_bounds(const struct tcp_fab *t, const struct fab_op *op)
{
	uint64_t bytes = t->base.caps.export_bytes;

	if (op->len > bytes || op->raddr > bytes - op->len)
		return 0;
	return op->code < FAB_CAS || ((op->raddr & 7) == 0 && op->len == 8);
}

static void tcp_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct tcp_fab *t = (struct tcp_fab *)f;
	int status = FORGE_E_NODE;
	unsigned i;

	assert(n <= TCP_BATCH_OPS_MAX);
	if (unlikely(instance_is_lost(t)) && !t->lost)
		lose(t);
	for (i = 0; i < n; i++) {
		struct fab_op *op = &ops[i];
		unsigned detached = op->flags & FAB_DETACHED;

		if (unlikely(!has_room(t)))
			make_room(t);
		if (unlikely(t->lost))
			break;
		if (unlikely(!op_in_bounds(t, op))) {
			status = FORGE_E_BOUNDS;
			break;
		}
		put_request(t, op, (i > 0 ? WIRE_CHAINED : 0) | (detached ? WIRE_DETACHED : 0));
		if (detached) {
			assert(op->len <= FAB_DETACHED_BYTES_MAX && op->code != FAB_READ);
			continue;
		}
		op->status = FAB_PENDING;
		*entry_at(t, t->posted++) = (struct tcp_entry){op, 0, (uint16_t)(t->tag - 1)};
		t->bytes_out += bytes_of(op);
	}
	for (; i < n; i++)
		if (!(ops[i].flags & FAB_DETACHED))
			ops[i].status = status;
}

static void tcp_poll(struct fab *f)
{
	struct tcp_fab *t = (struct tcp_fab *)f;

	/* In a child of fork() the stream is closed. */
	if (unlikely(t->stream.fd < 0 || instance_is_lost(t))) {
		if (!t->lost)
			lose(t);
		return;
	}
	/* What is sent is kicked, or its reply would be one to nothing. */
	if (unlikely(t->pieces_count > 0))
		tcp_kick(f);
	if (t->lost || (t->completed == t->kicked && t->pieces_count == 0))
		return;
	/* Data that comes in drops is no excuse. */
	if ((!receive(t) || t->rest > 0) && !t->lost)
		look_at_time(t, look_at_clock(t));
}

static int tcp_sleep_on(struct fab *f, struct pollfd *out)
{
	const struct tcp_fab *t = (const struct tcp_fab *)f;

	if (t->lost || t->stream.fd < 0 || tcp_stream_has_pending(&t->stream))
		return 0;
	*out = (struct pollfd){
	    .fd = t->stream.fd,
	    .events = t->pieces_count > 0 ? POLLIN | POLLOUT : POLLIN,
	};
	return 1;
}

static int tcp_reg(struct fab *f, void *buf, size_t bytes)
{
	return FORGE_OK;
}

static void tcp_close(struct fab *f)
{
	struct tcp_fab *t = (struct tcp_fab *)f;

	/* Detached ops that did not fit the socket yet. */
	while (!t->lost && t->pieces_count > 0) {
		tcp_kick(f);
		look_at_time(t, look_at_clock(t));
		if (!t->lost && t->pieces_count > 0)
			tcp_stream_wait(&t->stream, 1, TCP_LOOK_NS);
	}
	if (!t->lost)
		tcp_stream_close(&t->stream);
	free(t);
}

static const struct fab_provider tcp_provider = {
    .name = "tcp",
    .close = tcp_close,
    .reg = tcp_reg,
    .post = tcp_post,
    .kick = tcp_kick,
    .poll = tcp_poll,
    .sleep_on = tcp_sleep_on,
};

int tcp_open(const struct tcp_settings *settings, struct wire_welcome *welcome, char *error_text,
	     size_t error_bytes, struct fab **out)
{
	struct tcp_fab *t = calloc(1, sizeof(*t));

	if (!t) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	int status = tcp_dial(settings, WIRE_DATA, &t->stream, welcome, error_text, error_bytes);

	if (status) {
		free(t);
		return status;
	}
	t->base = (struct fab_base){
	    .provider = &tcp_provider,
	    .caps = {.export_bytes = welcome->export_bytes,
		     .batch_ops_max = TCP_BATCH_OPS_MAX,
		     .kick_posts = KICK_POSTS},
	};
	t->deadline_ns = (uint64_t)tcp_deadline_ms(settings) * 1000000;
	t->all_lost = settings->lost;
	t->heard_ns = settings->heard_ns;
	t->looked_ns = clock_now_ns(clock_monotonic());
	*out = (struct fab *)t;
	return FORGE_OK;
}
