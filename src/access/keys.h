/*
 * keys.h: pre-shared keys, each with a name and a role, from a file or a line of text.
 *
 * Both sides of a connection use it: a memory node for all keys that it accepts, a client for the
 * one it shows.  A line is
 *
 *	NAME ROLE SECRET
 *
 * with white space between; NAME is 1 to 63 of A-Z a-z 0-9 . _ -, ROLE is full, read-only or
 * metrics, SECRET is 32 to 128 hexadecimal digits (`openssl rand -hex 32`).  Empty lines, and lines
 * that begin with '#', count for nothing.  One name may have several lines: while a secret is
 * being replaced both the old and the new one open.
 *
 * A struct keys never changes, so any thread may read it; to reread a file is to open another.
 * Secrets are wiped when it is closed, and no error sentence holds a word of a line: it might be
 * the secret.
 */
#ifndef FORGE_ACCESS_KEYS_H
#define FORGE_ACCESS_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "access/role.h"

/* A name with its zero. */
#define KEY_NAME_BYTES	     64u
#define KEY_SECRET_BYTES_MIN 16u
#define KEY_SECRET_BYTES_MAX 64u

#define KEYS_MAX	1000u
#define KEYS_FILE_BYTES (256u << 10)

struct key {
	char name[KEY_NAME_BYTES]; /* zeroes behind it */
	uint8_t role;		   /* enum access_role */
	uint8_t secret_bytes;
	uint8_t secret[KEY_SECRET_BYTES_MAX];
};

struct keys;

/*
 * Read a file.  It must be a regular one of this user or root, that others can neither read nor
 * write and its group cannot write.  error_text (never NULL) names it and the remedy.
 * 0; FORGE_E_SYSTEM when it cannot be read; FORGE_E_DENIED for its owner or mode; FORGE_E_FORMAT
 * with the number of the line; FORGE_E_NO_MEMORY.
 */
int keys_open(const char *path, struct keys **out, char *error_text, size_t error_bytes);

/* The same from text that does not come from a file; `source` is what errors call it. */
int keys_open_text(const char *text, const char *source, struct keys **out, char *error_text,
		   size_t error_bytes);

/* NULL is permitted. */
void keys_close(struct keys *);

unsigned keys_count(const struct keys *);
const struct key *keys_at(const struct keys *, unsigned index);

/* The first key of that name, or NULL; any name: the first of all. */
const struct key *keys_find(const struct keys *, const char *name);

/* May that be a name?  1 or 0. */
int key_name_is_valid(const char *name, size_t bytes);

#endif
