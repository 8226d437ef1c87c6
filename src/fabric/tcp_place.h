/*
 * tcp_place.h: tcp://host:port, tcp://[address]:port and unix:/path, taken apart.
 *
 * tls:// is the same place as tcp://, under the name that who dials it has been given: errors tell
 * people what they wrote.  That a connection is encrypted is said elsewhere.
 *
 * Without a host, as in tcp://:7411, it is 127.0.0.1: nobody listens beyond this host by accident.
 * Shared by the client's and the node's side of the tcp provider; pure functions, any thread.
 */
#ifndef FORGE_FABRIC_TCP_PLACE_H
#define FORGE_FABRIC_TCP_PLACE_H

#include <stddef.h>
#include <stdint.h>

/* As long as struct sockaddr_un permits, with the zero behind it. */
#define TCP_PATH_BYTES 108u
#define TCP_HOST_BYTES 256u

struct tcp_place {
	int is_unix, is_tls;
	char path[TCP_PATH_BYTES]; /* of a Unix socket */
	char host[TCP_HOST_BYTES]; /* a name or number, without brackets */
	char port[8];
};

/* Does it begin like one? */
int tcp_place_is(const char *where);

/* 0, or FORGE_E_INVAL with a sentence that says what can be written. */
int tcp_place_parse(const char *where, struct tcp_place *out, char *error_text, size_t error_bytes);

#endif
