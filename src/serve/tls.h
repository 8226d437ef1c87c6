/*
 * tls.h: the encrypted side of a connection, over OpenSSL.
 *
 * One struct tls per server, made before there are connections and shared by its threads; one
 * struct tls_conn per connection, of the thread that owns it.  Sockets do not block: what has to
 * wait says EAGAIN, as recv() and send() do.  A client's certificate is asked for only when there
 * is an authority to check it by.
 *
 * OpenSSL writes to sockets without MSG_NOSIGNAL, so the process must ignore SIGPIPE.
 */
#ifndef FORGE_SERVE_TLS_H
#define FORGE_SERVE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tls;
struct tls_conn;

struct tls_files {
	const char *certificate; /* PEM, with the chain behind it */
	const char *key;	 /* PEM */
	const char *authority;	 /* PEM: clients must show a certificate of it; NULL: none asked */
};

/* 0, FORGE_E_FORMAT or FORGE_E_NO_MEMORY, with error_text that names the file. */
int tls_open(const struct tls_files *, struct tls **out, char *error_text, size_t error_bytes);
void tls_close(struct tls *);

/* For an accepted socket, which stays the caller's.  NULL: no memory. */
struct tls_conn *tls_conn_create(struct tls *, int fd);
/* Says goodbye if that is possible at once. */
void tls_conn_destroy(struct tls_conn *);

/*
 * As recv() and send(): bytes, 0 at the end, or -1 with errno: EAGAIN when it has to wait, EPROTO
 * when the client does not speak TLS, or not ours.  After EAGAIN the same bytes are sent again.
 */
ssize_t tls_recv(struct tls_conn *, void *data, size_t bytes);
ssize_t tls_send(struct tls_conn *, const void *data, size_t bytes);

/* Has something arrived that no event will tell of? */
bool tls_has_pending(const struct tls_conn *);

#endif
