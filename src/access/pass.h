/*
 * pass.h: what a client has to show at a memory node: a key, a certificate, and whom it expects.
 *
 * Made by the client layer from names, options and environment, before there are connections, and
 * borrowed by the provider that dials; any thread may use it, it does not change.
 */
#ifndef FORGE_ACCESS_PASS_H
#define FORGE_ACCESS_PASS_H

#include <stdbool.h>
#include <stddef.h>

#include "access/keys.h"
#include "access/tls.h"

struct pass;

/* All NULL and false: nothing to show, nothing asked. */
struct pass_wish {
	const char *key_file; /* see keys.h */
	const char *key_line; /* a key itself, of the environment; key_file goes before it */
	const char *key_name; /* which of the file's; NULL: its first */
	bool tls;
	struct tls_files files; /* of a client; naming one of them without tls is an error */
	const char *host;	/* whose certificate is expected; NULL: that of whom one dials */
};

/*
 * *out is NULL if nothing is wished.  As keys_open() and tls_open(); FORGE_E_INVAL when wishes
 * contradict each other.
 */
int pass_open(const struct pass_wish *, struct pass **out, char *error_text, size_t error_bytes);
/* NULL is permitted. */
void pass_close(struct pass *);

/* The key to prove, or NULL. */
const struct key *pass_key(const struct pass *);

bool pass_has_tls(const struct pass *);

/* The TLS of a connected socket, see tls_conn_create(); it has TLS. */
struct tls_conn *pass_tls_conn(const struct pass *, int fd, const char *host);

#endif
