/*
 * tcp_control.c: requests on a control connection, one at a time, under a lock.
 *
 * But for a question for the time that nobody waits for.  Its reply is received by whoever comes
 * next: replies come in the order of requests, so a call receives it before its own.
 */
#include "fabric/tcp_control.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_dial.h"

struct tcp_control {
	struct tcp_stream stream;
	pthread_mutex_t lock; /* of all below, and of the stream */
	uint64_t deadline_ns;
	uint16_t tag;
	int lost;
	_Atomic int *all_lost;	    /* of the instance; may be NULL */
	_Atomic uint64_t *heard_ns; /* likewise */

	/* A question for the time is out until all of its reply is in. */
	int is_asked;
	uint16_t time_tag;
	size_t time_bytes; /* received */
	struct time_reply {
		struct wire_reply head;
		uint64_t node_ns;
	} time;
};

static_assert(sizeof(struct time_reply) == 16, "as it lies on the wire");

int tcp_control_open(const struct tcp_settings *settings, struct wire_welcome *welcome,
		     char *error_text, size_t error_bytes, struct tcp_control **out)
{
	struct tcp_control *c = calloc(1, sizeof(*c));

	if (!c) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	int status = tcp_dial(settings, WIRE_CONTROL, &c->stream, welcome, error_text, error_bytes);

	if (status) {
		free(c);
		return status;
	}
	pthread_mutex_init(&c->lock, NULL);
	c->deadline_ns = (uint64_t)tcp_deadline_ms(settings) * 1000000;
	c->all_lost = settings->lost;
	c->heard_ns = settings->heard_ns;
	*out = c;
	return FORGE_OK;
}

void tcp_control_close(struct tcp_control *c)
{
	if (!c)
		return;
	tcp_stream_close(&c->stream);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Without the lock, whose holder may be waiting for the node: the descriptor is open until close.
 */
void tcp_control_end(struct tcp_control *c)
{
	if (c->stream.fd >= 0)
		(void)shutdown(c->stream.fd, SHUT_RDWR);
}

static void lose(struct tcp_control *c)
{
	c->lost = 1;
	if (c->all_lost)
		atomic_store_explicit(c->all_lost, 1, memory_order_relaxed);
}

static int is_time_out(const struct tcp_control *c)
{
	return c->is_asked && c->time_bytes < sizeof(c->time);
}

/* Receive what has come of the reply to a question that is out. */
static void take_time(struct tcp_control *c)
{
	struct iovec iov = {(unsigned char *)&c->time + c->time_bytes,
			    sizeof(c->time) - c->time_bytes};
	ssize_t n = tcp_stream_receive(&c->stream, &iov, 1);

	if (n < 0) {
		lose(c);
		return;
	}
	c->time_bytes += (size_t)n;
	if (c->time_bytes >= sizeof(c->time.head) &&
	    (c->time.head.code != WIRE_TIME || c->time.head.tag != c->time_tag ||
	     c->time.head.status != 0 || c->time.head.len != sizeof(c->time.node_ns)))
		lose(c);
}

/* But for that, nothing is to be received between two calls, so whatever can be is the end. */
static int has_ended(struct tcp_control *c)
{
	unsigned char byte;
	struct iovec iov = {&byte, 1};

	if (c->all_lost && atomic_load_explicit(c->all_lost, memory_order_relaxed))
		c->lost = 1;
	if (!c->lost && is_time_out(c))
		take_time(c);
	if (!c->lost && !is_time_out(c) && tcp_stream_receive(&c->stream, &iov, 1) != 0)
		lose(c);
	return c->lost;
}

int tcp_control_is_lost(struct tcp_control *c)
{
	pthread_mutex_lock(&c->lock);
	int lost = has_ended(c);

	pthread_mutex_unlock(&c->lock);
	return lost;
}

/* As for verbs: time in which this process did not run is none that the node had. */
static int receive_all(struct tcp_control *c, void *buf, size_t bytes, uint64_t end_ns)
{
	uint64_t looked_ns = clock_now_ns(clock_monotonic()), back_ns = 0;
	unsigned char *at = buf;

	while (bytes > 0) {
		struct iovec iov = {at, bytes};
		ssize_t n = tcp_stream_receive(&c->stream, &iov, 1);

		if (n < 0)
			return FORGE_E_NODE;
		at += n;
		bytes -= (size_t)n;
		if (n > 0) {
			tcp_hear(c->heard_ns, looked_ns);
			continue;
		}
		if (c->all_lost && atomic_load_explicit(c->all_lost, memory_order_relaxed))
			return FORGE_E_NODE;
		uint64_t now_ns = clock_now_ns(clock_monotonic());

		if (now_ns - looked_ns > TCP_AWAY_NS) {
			end_ns += now_ns - looked_ns;
			back_ns = now_ns;
		}
		looked_ns = now_ns;
		int is_busy = tcp_was_heard(c->heard_ns, now_ns, c->deadline_ns) ||
			      (c->heard_ns && now_ns < back_ns + c->deadline_ns);

		if (now_ns >= end_ns &&
		    !(is_busy && now_ns - end_ns < (TCP_BUSY_DEADLINES - 1) * c->deadline_ns))
			return FORGE_E_NODE;
		tcp_stream_wait(&c->stream, 0,
				now_ns < end_ns ? min_u64(end_ns - now_ns, TCP_AWAY_NS / 2)
						: TCP_AWAY_NS / 2);
	}
	return FORGE_OK;
}

/* What does not fit the caller's room is received all the same. */
static int receive_reply(struct tcp_control *c, const struct wire_request *r, void *reply,
			 size_t room, size_t *bytes)
{
	uint64_t end_ns = clock_now_ns(clock_monotonic()) + c->deadline_ns;
	unsigned char rest[256];
	struct wire_reply head;

	if (is_time_out(c)) {
		if (receive_all(c, (unsigned char *)&c->time + c->time_bytes,
				sizeof(c->time) - c->time_bytes, end_ns))
			return FORGE_E_NODE;
		c->time_bytes = sizeof(c->time);
	}
	if (receive_all(c, &head, sizeof(head), end_ns) || head.code != r->code ||
	    head.tag != r->tag || head.len > WIRE_STAT_BYTES_MAX || head.status > 0)
		return FORGE_E_NODE;
	size_t wanted = (size_t)min_u64(head.len, room);

	if (receive_all(c, reply, wanted, end_ns))
		return FORGE_E_NODE;
	for (size_t left = head.len - wanted; left > 0;) {
		size_t n = (size_t)min_u64(left, sizeof(rest));

		if (receive_all(c, rest, n, end_ns))
			return FORGE_E_NODE;
		left -= n;
	}
	if (bytes)
		*bytes = head.len;
	return head.status;
}

int tcp_control_call(struct tcp_control *c, enum wire_code code, uint64_t argument, void *reply,
		     size_t room, size_t *bytes)
{
	struct wire_request r = {.code = (uint8_t)code, .raddr = argument};
	struct iovec iov = {&r, sizeof(r)};
	int status = FORGE_E_NODE;

	pthread_mutex_lock(&c->lock);
	r.tag = c->tag++;
	/* The socket is empty between two calls, so all of it goes at once. */
	if (!has_ended(c) && tcp_stream_send(&c->stream, &iov, 1) == (ssize_t)sizeof(r))
		status = receive_reply(c, &r, reply, room, bytes);
	if (status == FORGE_E_NODE) {
		lose(c);
		tcp_stream_close(&c->stream);
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

int tcp_control_ask_time(struct tcp_control *c)
{
	struct wire_request r = {.code = WIRE_TIME};
	struct iovec iov = {&r, sizeof(r)};
	int status = FORGE_E_NODE;

	if (pthread_mutex_trylock(&c->lock))
		return FORGE_E_AGAIN;
	if (!has_ended(c) && is_time_out(c)) {
		status = FORGE_E_AGAIN;
	} else if (!c->lost) {
		c->is_asked = 1;
		c->time_bytes = 0;
		r.tag = c->time_tag = c->tag++;
		if (tcp_stream_send(&c->stream, &iov, 1) == (ssize_t)sizeof(r))
			status = FORGE_OK;
		else
			lose(c);
	}
	pthread_mutex_unlock(&c->lock);
	return status;
}

int tcp_control_time_answer(struct tcp_control *c, uint64_t *node_ns)
{
	int found = FORGE_E_NODE;

	if (pthread_mutex_trylock(&c->lock))
		return 0;
	if (!has_ended(c)) {
		found = c->is_asked && !is_time_out(c);
		if (found) {
			*node_ns = c->time.node_ns;
			c->is_asked = 0;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}
