/*
 * tcp_dial_inside.h: what the two halves of dialling share: tcp_dial.c connects, tcp_hello.c says
 * hello.  Nobody else includes it.
 */
#ifndef FORGE_FABRIC_TCP_DIAL_INSIDE_H
#define FORGE_FABRIC_TCP_DIAL_INSIDE_H

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_dial.h"

#define REFUSE(e, status, ...) (snprintf((e).text, (e).bytes, __VA_ARGS__), (status))

/* Where an error sentence goes. */
struct error_out {
	char *text;
	size_t bytes;
};

static inline uint64_t dial_now_ms(void)
{
	return clock_now_ns(clock_monotonic()) / 1000000;
}

/* As a deadline in ms, to be used up. */
static inline uint64_t dial_patience_ns(uint32_t deadline_ms)
{
	return (uint64_t)deadline_ms * 1000000;
}

/*
 * Wait for the socket, for *left_ns at most, which becomes less by the time that took.  1: it is
 * ready; 0 with errno: ETIMEDOUT, or ECANCELED.  With no socket (-1) only for the time to pass, or
 * that.
 *
 * Time in which this process did not run is none that the node had, for it may have stood still,
 * too, as on a host that was paused.  So one waits in pieces, and a piece costs no more than it was
 * to last, however late one comes back from it.
 */
static inline int dial_wait(const struct tcp_settings *s, int fd, short events, uint64_t *left_ns)
{
	struct pollfd p[2] = {{.fd = fd, .events = events},
			      {.fd = cancel_fd(s->cancel), .events = POLLIN}};

	for (;;) {
		uint64_t piece_ms = (min_u64(*left_ns, TCP_AWAY_NS) + 999999) / 1000000;
		uint64_t began_ns = clock_now_ns(clock_monotonic());
		int n = poll(p, 2, (int)piece_ms), error = errno;
		uint64_t took_ns = clock_now_ns(clock_monotonic()) - began_ns;

		*left_ns -= min_u64(*left_ns, min_u64(took_ns, piece_ms * 1000000));
		if ((n < 0 && error == EINTR) || (n == 0 && *left_ns > 0))
			continue;
		errno = p[1].revents ? ECANCELED : ETIMEDOUT;
		return n > 0 && !p[1].revents;
	}
}

/*
 * From connected to welcome, as dial_wait() waits: TLS if the settings' pass has it, hello, and
 * proofs. host: whom one dialled, NULL over a Unix socket.  As tcp_open().
 */
int tcp_hello(struct tcp_stream *, const struct tcp_settings *, enum wire_kind kind,
	      const char *host, uint64_t left_ns, struct wire_welcome *welcome, char *error_text,
	      size_t error_bytes);

#endif
