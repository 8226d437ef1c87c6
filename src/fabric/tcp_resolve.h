/*
 * tcp_resolve.h: the addresses of a host, for who does not wait for a name server that is silent.
 *
 * Used by dialling, nobody else; any thread.  An address in digits is parsed and that is all.  A
 * name is looked up by a thread of its own, since getaddrinfo() can neither be given a deadline
 * nor be cut off; who waits leaves when his deadline has passed or he is cancelled, and the thread
 * goes on by itself.  At most RESOLVE_HOSTS_MAX are under way, one for each name.
 *
 * The thread is the process's, not any client's: it touches nothing but the table in tcp_resolve.c
 * and what getaddrinfo() allocates, so a client may be closed meanwhile and its memory freed.
 */
#ifndef FORGE_FABRIC_TCP_RESOLVE_H
#define FORGE_FABRIC_TCP_RESOLVE_H

#include <netinet/in.h>
#include <stdint.h>

/* As many names as a list of memory nodes may have. */
#define RESOLVE_HOSTS_MAX 64u

/* Of one host; more are left out. */
#define RESOLVE_ADDRESSES_MAX 8u

/* What nobody waited for any more is good for so long. */
#define RESOLVE_KEPT_MS 30000u

struct cancel;

struct resolved {
	unsigned count;
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} address[RESOLVE_ADDRESSES_MAX];
};

/*
 * The addresses of that host, with the port, in the resolver's order.  Waits, for
 * *left_ns at most, which becomes less by that, or until cancel (NULL: never) is fired.
 * 0, or EAI_... as getaddrinfo(); EAI_SYSTEM has errno: ETIMEDOUT, ECANCELED; EMFILE, ENFILE;
 * EAGAIN when no thread can be started; EBUSY when too many hosts are being looked up.
 */
int tcp_resolve(const char *host, uint16_t port, uint64_t *left_ns, const struct cancel *,
		struct resolved *out);

#endif
