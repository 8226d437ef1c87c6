/*
 * tcp_dial_inside.h: what the two halves of dialling share: tcp_dial.c connects, tcp_hello.c says
 * hello.  Nobody else includes it.
 */
#ifndef FORGE_FABRIC_TCP_DIAL_INSIDE_H
#define FORGE_FABRIC_TCP_DIAL_INSIDE_H

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
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

/* Wait for the socket, until end_ms.  Is it ready? */
static inline int dial_wait_until(int fd, short events, uint64_t end_ms)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = dial_now_ms();
		int n = now < end_ms ? poll(&p, 1, (int)(end_ms - now)) : 0;

		if (n >= 0 || errno != EINTR)
			return n > 0;
	}
}

/*
 * From connected to welcome: TLS if the settings' pass has it, hello, and proofs.  host: whom one
 * dialled, NULL over a Unix socket.  As tcp_open().
 */
int tcp_hello(struct tcp_stream *, const struct tcp_settings *, enum wire_kind kind,
	      const char *host, struct wire_welcome *welcome, char *error_text, size_t error_bytes);

#endif
