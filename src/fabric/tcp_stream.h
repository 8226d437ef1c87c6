/*
 * tcp_stream.h: the client's end of a connected socket: bytes out, bytes in, and fork().
 *
 * Used by the provider and the control connection, nobody else.  A stream belongs to one thread;
 * opening, closing and fork() may happen on any.  Nothing here blocks but tcp_stream_wait().
 *
 * In a child made by fork() every stream is closed at once: a copy of the descriptor would keep
 * the parent's instance alive after the parent died (doc/wire.md).
 */
#ifndef FORGE_FABRIC_TCP_STREAM_H
#define FORGE_FABRIC_TCP_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct tls_conn;

struct tcp_stream {
	int fd;		       /* -1: not open, or lost */
	struct tls_conn *tls;  /* NULL: in clear */
	unsigned char *gather; /* small pieces on their way into one record of TLS */
	struct tcp_stream *next;
};

/*
 * A new, non-blocking socket of that family, to be connected.  s stays where it is until
 * tcp_stream_close().  The descriptor, or -1 with errno.
 */
int tcp_stream_open(struct tcp_stream *s, int family);
void tcp_stream_close(struct tcp_stream *s);

/* From now on everything goes through tls, which is the stream's.  0 or FORGE_E_NO_MEMORY. */
int tcp_stream_encrypt_open(struct tcp_stream *s, struct tls_conn *tls);

/* Is there something to receive that waiting for the socket would not notice? */
int tcp_stream_has_pending(const struct tcp_stream *s);

/*
 * Send or receive as much as is possible at once.  How many bytes; 0: nothing now; -1: the
 * connection is lost.  What could not be sent comes again at the next call, with more behind it or
 * not.
 */
ssize_t tcp_stream_send(struct tcp_stream *s, struct iovec *iov, unsigned count);
ssize_t tcp_stream_receive(struct tcp_stream *s, struct iovec *iov, unsigned count);

/* Sleep until there is something to receive, or, with `out`, room to send; at most ns. */
void tcp_stream_wait(struct tcp_stream *s, int out, uint64_t ns);

#endif
