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

/* Who came in, for as long as its connection lasts. */
struct door_guest {
	uint64_t mark; /* of the very key, its role and secret included; 0: none was asked */
	uint8_t role;  /* the most it may */
	char name[KEY_NAME_BYTES];
};

/*
 * As proof_node_check() and proof_node_confirm() in one, with the key of that moment: the guest,
 * and whatever else depends on who it is, is known when the welcome is written by `write_welcome`,
 * which fills in PROOF_WELCOME_BYTES, or gives an error to refuse with.
 */
typedef int (*door_welcome_fn)(void *context, const struct door_guest *, void *welcome);
int door_admit(struct door *, struct proof_node *, const void *answer, size_t bytes,
	       struct door_guest *out, door_welcome_fn write_welcome, void *context, void *welcome,
	       struct proof_confirm *confirm);

/* Is the guest's key still one of them?  After a reload; 1 for who was not asked for one. */
bool door_still_knows(struct door *, uint64_t mark);

#endif
