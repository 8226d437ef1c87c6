/*
 * listen.h: sockets that accept: TCP on a list of addresses, and Unix sockets.
 *
 * For the server, while it is set up and torn down; one thread.
 */
#ifndef FORGE_SERVE_LISTEN_H
#define FORGE_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LISTENERS_MAX 32u

struct listener {
	int fd;
	bool is_tcp;
	char name[112]; /* "127.0.0.1:11211", "[::1]:11211", "/run/x.sock" */
};

/*
 * Listen on each of the addresses in list, separated by commas: a name or number, with the port
 * behind a colon (and then an IPv6 number in brackets) or the port given.  Adds to listeners and
 * *count.  0, FORGE_E_INVAL or FORGE_E_SYSTEM with error_text.
 */
int listen_tcp(const char *list, uint16_t port, int backlog, struct listener *listeners,
	       unsigned *count, char *error_text, size_t error_bytes);

/*
 * Listen on a Unix socket with these permission bits.  A socket of that name that nobody listens
 * on is replaced, anything else is not.  As listen_tcp().
 */
int listen_unix(const char *path, unsigned mode, int backlog, struct listener *listeners,
		unsigned *count, char *error_text, size_t error_bytes);

/* Close it; a Unix socket's name is removed. */
void listen_close(struct listener *);

/* Split "address:port".  0 or FORGE_E_INVAL with error_text. */
int listen_split(const char *text, uint16_t port_default, char *host, size_t host_bytes,
		 uint16_t *port, char *error_text, size_t error_bytes);

#endif
