/*
 * auth.h: who may use a server, from a file of user:password lines as memcached's -Y takes it.
 *
 * Read before there are connections, and again when somebody says so; any thread may check.
 */
#ifndef FORGE_SERVE_AUTH_H
#define FORGE_SERVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct auth;

/* The longest user or password. */
#define AUTH_WORD_BYTES_MAX 255u
/* The longest proof of a client: both, and what separates them. */
#define AUTH_PROOF_BYTES_MAX (2 * AUTH_WORD_BYTES_MAX + 2)

/* 0, FORGE_E_SYSTEM, FORGE_E_FORMAT or FORGE_E_NO_MEMORY, with error_text. */
int auth_open(const char *path, struct auth **out, char *error_text, size_t error_bytes);
/* The same file anew: who is in it may come in from now on.  An error leaves all as it is. */
int auth_reopen(struct auth *, const char *path, char *error_text, size_t error_bytes);
void auth_close(struct auth *);

/*
 * Is it one of the users with its password?  Takes the same time for a right and a wrong
 * password of the same length.
 */
bool auth_check(struct auth *, const char *user, size_t user_bytes, const char *password,
		size_t password_bytes);

/* "user password", as the text protocol sends it. */
bool auth_check_text(struct auth *, const char *proof, size_t bytes);

/* "[identity] NUL user NUL password", as SASL PLAIN (RFC 4616) does. */
bool auth_check_plain(struct auth *, const char *proof, size_t bytes);

#endif
