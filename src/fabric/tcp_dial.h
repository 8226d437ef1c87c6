/*
 * tcp_dial.h: connecting to a node, and the exchange before the first request.
 *
 * Used by the provider and the control connection, nobody else.
 */
#ifndef FORGE_FABRIC_TCP_DIAL_H
#define FORGE_FABRIC_TCP_DIAL_H

#include "fabric/tcp.h"
#include "fabric/tcp_stream.h"

/*
 * Fill in the defaults of settings, connect, say hello as one of kind, and be welcome.  On success
 * the stream is open, and in non-blocking mode.  As tcp_open().
 */
int tcp_dial(const struct tcp_settings *, enum wire_kind kind, struct tcp_stream *out,
	     struct wire_welcome *welcome, char *error_text, size_t error_bytes);

/* Only the connection, and its place.  As tcp_open(). */
struct tcp_place;
int tcp_dial_socket(const struct tcp_settings *, struct tcp_stream *out, struct tcp_place *,
		    char *error_text, size_t error_bytes);

static inline uint32_t tcp_deadline_ms(const struct tcp_settings *s)
{
	return s->deadline_ms ? s->deadline_ms : TCP_DEADLINE_MS;
}

#endif
