/*
 * tcp_dial_inside.h: what the two halves of dialling share: tcp_dial.c connects, tcp_hello.c says
 * hello.  Nobody else includes it.
 */
#ifndef FORGE_FABRIC_TCP_DIAL_INSIDE_H
#define FORGE_FABRIC_TCP_DIAL_INSIDE_H

#include <errno.h>
#include <limits.h>
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

/*
 * Wait for the socket, until end_ms.  1: it is ready; 0 with errno: ETIMEDOUT, or ECANCELED.  With
 * no socket (-1) only for the time to pass, or that.
 */
static inline int dial_wait_until(const struct tcp_settings *s, int fd, short events,
				  uint64_t end_ms)
{
	struct pollfd p[2] = {{.fd = fd, .events = events},
			      {.fd = cancel_fd(s->cancel), .events = POLLIN}};

	for (;;) {
		uint64_t now = dial_now_ms();
		int n = poll(p, 2, now < end_ms ? (int)min_u64(end_ms - now, INT_MAX) : 0);

		if (n < 0 && errno == EINTR)
			continue;
		errno = p[1].revents ? ECANCELED : ETIMEDOUT;
		return n > 0 && !p[1].revents;
	}
}

/*
 * From connected to welcome, until end_ms: TLS if the settings' pass has it, hello, and proofs.
 * host: whom one dialled, NULL over a Unix socket.  As tcp_open().
 */
int tcp_hello(struct tcp_stream *, const struct tcp_settings *, enum wire_kind kind,
	      const char *host, uint64_t end_ms, struct wire_welcome *welcome, char *error_text,
	      size_t error_bytes);

#endif
