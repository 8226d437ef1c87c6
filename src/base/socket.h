/*
 * socket.h: what everybody who listens wants to know of a socket.
 *
 * For the layers that listen: fabric for verbs, serve for requests.  Nothing here waits or keeps
 * anything; any thread.
 */
#ifndef FORGE_BASE_SOCKET_H
#define FORGE_BASE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

/* The port that an IPv4 or IPv6 socket is bound to, in host order; 0 if none can be told. */
uint16_t socket_port(int fd);

/* Is at that path a Unix socket whose server is gone?  Keeps errno.  Who has it and does not listen
 * yet is not.
 */
bool socket_is_left_behind(const struct sockaddr_un *);

#endif
