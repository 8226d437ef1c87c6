/*
 * secure.h: a door for a node and a pass for its clients, with files of their own, for tests.
 *
 * Called by cmocka tests on one thread: whatever fails, fails the test.  Door and pass may be used
 * by any thread until secure_close().
 */
#ifndef FORGE_TEST_SUPPORT_SECURE_H
#define FORGE_TEST_SUPPORT_SECURE_H

#include "access/door.h"
#include "access/pass.h"
#include "support/certs.h"
#include "support/tempdir.h"

/* Flags. */
#define SECURE_KEYS 0x1
#define SECURE_TLS  0x2 /* of 127.0.0.1 and ::1 */

#define SECURE_STRANGERS_MAX 64u

/* Lines of the node's file, each a key for pass_wish.key_line. */
#define SECURE_FULL	 "web full 00112233445566778899aabbccddeeff"
#define SECURE_READ_ONLY "reports read-only ffeeddccbbaa99887766554433221100"
#define SECURE_METRICS	 "grafana metrics 0123456789abcdef0123456789abcdef"

struct secure {
	struct tempdir directory;
	char key_path[96];
	struct cert authority, node;
	struct door *door;
	struct pass *pass; /* for SECURE_FULL, as far as there are keys */
};

void secure_open(struct secure *, int flags);
void secure_close(struct secure *);

/* Another pass to the same door; line NULL: no key.  tls: does it speak TLS?  Close it. */
struct pass *secure_pass(const struct secure *, const char *line, int tls);

/* Write the node's file anew. */
void secure_write_keys(const struct secure *, const char *text);

#endif
