/*
 * door.h: a memory node's side of access: its keys, its certificate, and the gate before them.
 *
 * Opened by the node before it listens, borrowed by the server of the tcp provider until that is
 * closed; any thread.  Files are read again by door_reload(), and only if all of them are good does
 * anything change: connections that come then are held to the new ones.
 *
 * A node without a door lets everybody do everything.
 */
#ifndef FORGE_ACCESS_DOOR_H
#define FORGE_ACCESS_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/gate.h"
#include "access/keys.h"
#include "access/proof.h"
#include "access/tls.h"

struct door;

/* Strings are copied. */
struct door_wish {
	const char *key_file;	/* NULL: nobody is asked for a key */
	struct tls_files files; /* of a server; without a certificate: no TLS */
	unsigned strangers_max; /* connections that are not welcome yet, see gate.h */
};

/* As keys_open() and tls_open(); FORGE_E_INVAL when a file is missing beside another. */
int door_open(const struct door_wish *, struct door **out, char *error_text, size_t error_bytes);
/* NULL is permitted. */
void door_close(struct door *);

/* Read all files again.  As door_open(); on an error the old ones stay in use. */
int door_reload(struct door *, char *error_text, size_t error_bytes);

struct gate *door_gate(const struct door *);
bool door_asks_keys(const struct door *);
bool door_has_tls(const struct door *);
/* Does it know who comes: by a key, or by a certificate of its authority? */
bool door_knows_who_comes(const struct door *);

/* The TLS of an accepted socket; NULL: no memory.  It has TLS. */
struct tls_conn *door_tls_conn(struct door *, int fd);

/*
 * Who answered?  As proof_node_check().  *out is a copy of the key, with which the caller makes the
 * confirmation, and which it then wipes; *mark is what door_still_knows() takes.  A caller whose
 * connections end when their key is withdrawn asks that once more when it has put this one where
 * it looks for them: the files may have been read anew in between.
 */
int door_check(struct door *, struct proof_node *, const void *answer, size_t bytes,
	       struct key *out, uint64_t *mark);

/* Is the very key of that mark, its role and secret included, still one of them?  0: no key. */
bool door_still_knows(struct door *, uint64_t mark);

#endif
