/*
 * tls.h: the encrypted side of a connection, over OpenSSL, for who accepts and who connects.
 *
 * One struct tls per server or per client, made before there are connections and shared by threads;
 * one struct tls_conn per connection, of the thread that owns it.  Sockets do not block: what has
 * to wait says EAGAIN, as recv() and send() do.  The handshake goes on by itself with the first
 * bytes that are sent or received; who wants to know when it is done calls tls_handshake().
 *
 * A process that uses TLS_KERNEL, or TLS_SERVER without it, must ignore SIGPIPE; a client's sockets
 * never raise it, because programs that link libforge have not asked for that.
 */
#ifndef FORGE_ACCESS_TLS_H
#define FORGE_ACCESS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct tls;
struct tls_conn;

struct tls_files {
	const char *certificate; /* PEM, with the chain behind it; a client may have none */
	const char *key;	 /* PEM */
	/*
	 * PEM: the others must show a certificate of it.  NULL: a server asks clients for none, a
	 * client accepts a server whom an authority of its system vouches for.
	 */
	const char *authority;
};

/* Flags of tls_open(). */
#define TLS_SERVER   0x01 /* accepts; without it: connects */
#define TLS_ONLY_1_3 0x02 /* without it: 1.2, too */
#define TLS_KERNEL   0x04 /* let the kernel encrypt where it can (Linux, module tls) */

#define TLS_BINDING_BYTES 32u

/*
 * 0, FORGE_E_FORMAT, FORGE_E_DENIED (a private key that others can read, TLS_ONLY_1_3 alone) or
 * FORGE_E_NO_MEMORY, with error_text that names the file.
 */
int tls_open(const struct tls_files *, int flags, struct tls **out, char *error_text,
	     size_t error_bytes);
void tls_close(struct tls *);

/*
 * For an accepted or connected socket, which stays the caller's.  host: whom a client wants to
 * reach, a name or a number; the certificate must be of it.  A server gives NULL.  NULL: no memory.
 */
struct tls_conn *tls_conn_create(struct tls *, int fd, const char *host);
/* Says goodbye if that is possible at once.  NULL is permitted. */
void tls_conn_destroy(struct tls_conn *);
/* The same without a word, for a socket that is not its own any more. */
void tls_conn_forget(struct tls_conn *);

/*
 * Go on with the handshake.  0: it is done; -1 with errno: EAGAIN when it has to wait
 * (tls_wants_out()), EPROTO when it failed (tls_reason()), others as of the socket.
 */
int tls_handshake(struct tls_conn *);

/* Does what waits wait for room to send, rather than for something to receive? */
bool tls_wants_out(const struct tls_conn *);

/*
 * As recv() and send(): bytes, 0 at the end, or -1 with errno: EAGAIN when it has to wait, EPROTO
 * when the peer does not speak TLS, or not ours.  After EAGAIN the same bytes are sent again,
 * with more behind them or not.
 */
ssize_t tls_recv(struct tls_conn *, void *data, size_t bytes);
ssize_t tls_send(struct tls_conn *, const void *data, size_t bytes);

/* Has something arrived that no event will tell of?  How much? */
bool tls_has_pending(const struct tls_conn *);
size_t tls_pending_bytes(const struct tls_conn *);

/*
 * Why the last call said EPROTO, for people: what is wrong with whose certificate, or with the
 * protocol.  Any length is cut.
 */
void tls_reason(const struct tls_conn *, char *text, size_t text_bytes);
/* What helps against that, where it was the other side's certificate.  Static. */
const char *tls_remedy(const struct tls_conn *);

/* What both ends of this very connection know and nobody else (RFC 9266).  After the handshake. */
int tls_binding(struct tls_conn *, uint8_t out[TLS_BINDING_BYTES]);

/* Does the kernel encrypt what is sent, and decrypt what is received?  After the handshake. */
bool tls_kernel_sends(const struct tls_conn *);
bool tls_kernel_receives(const struct tls_conn *);

#endif
