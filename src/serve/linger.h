/*
 * linger.h: closing a connection so that its last replies arrive.
 *
 * Who closes a TCP socket while something that the client has sent lies unread in it, or comes
 * afterwards, has the kernel send a reset, and drop what the client's kernel has not acknowledged:
 * replies of a pipeline end in the middle of one.  So a connection that the server ends (it is told
 * to end itself, or the client has said something after which nothing can be understood) is shut
 * down for sending first, and lingers: what comes is read and dropped until the client has closed
 * too, or until all that was sent has been acknowledged and nothing lies unread, or for
 * LINGER_MS.  When it is closed then, a reset can only follow what the client's kernel has.
 *
 * Where nothing is on its way when the server is told to end there is nothing to linger for; nor
 * on a Unix socket, where what has been sent lies with the client already.
 */
#ifndef FORGE_SERVE_LINGER_H
#define FORGE_SERVE_LINGER_H

#include <stdbool.h>
#include <stddef.h>

/* As long as clients have to read their last replies when the server ends. */
#define LINGER_MS 5000u

struct conn;
struct conn_worker;

/* What lies in its socket, and in TLS, unread; what TLS needs for it counts, too. */
size_t linger_input_bytes(const struct conn *);

/*
 * All is answered and sent as far as this process is concerned.  true: wait for input, which is
 * dropped; false: it may be closed now.
 */
bool linger_begin(struct conn *);

/* Every so often, of one that lingers: close it if its time has come. */
void linger_look(struct conn *);
void linger_look_all(struct conn_worker *);

#endif
