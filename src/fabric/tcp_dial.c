/*
 * tcp_dial.c: name, address, socket.
 *
 * All of it together, the hello included, has the deadline of one op.  Each of several addresses of
 * a host has its share of what is left of that, so a host with a dead IPv6 address is reached by
 * its other one.
 */
#include "fabric/tcp_dial.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_dial_inside.h"
#include "fabric/tcp_place.h"
#include "fabric/tcp_resolve.h"

int tcp_is_where(const char *where)
{
	return tcp_place_is(where);
}

void tcp_instance(uint8_t out[WIRE_INSTANCE_BYTES])
{
	size_t n = 0;

	while (n < WIRE_INSTANCE_BYTES) {
		ssize_t got = getrandom(out + n, WIRE_INSTANCE_BYTES - n, 0);

		if (got > 0)
			n += (size_t)got;
	}
}

/* Connect a new socket, as dial_wait() waits.  0, or -1 with errno. */
static int connect_to(const struct tcp_settings *s, struct tcp_stream *out,
		      const struct sockaddr *address, socklen_t bytes, uint64_t *left_ns)
{
	int fd = tcp_stream_open(out, address->sa_family);
	int error = 0;
	socklen_t error_bytes = sizeof(error);

	if (fd < 0)
		return -1;
	if (connect(fd, address, bytes) != 0)
		error = errno;
	/* EAGAIN: a Unix socket whose node has not accepted many others yet. */
	if (error == EINPROGRESS || error == EINTR) {
		if (!dial_wait(s, fd, POLLOUT, left_ns))
			error = errno;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
			error = errno;
	}
	if (!error)
		return 0;
	tcp_stream_close(out);
	errno = error;
	return -1;
}

static void set_options(int fd, uint32_t deadline_ms)
{
	const int on = 1;
	/* A busy node that does not read yet closes the window, which to the kernel is silence. */
	const unsigned timeout =
	    (unsigned)min_u64((uint64_t)deadline_ms * TCP_BUSY_DEADLINES, INT_MAX);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

/* Is it the path of something that no node listens on, ever? */
static int is_other_file(const char *where)
{
	struct stat st;

	return strncmp(where, "unix:", 5) == 0 && stat(where + 5, &st) == 0 &&
	       !S_ISSOCK(st.st_mode);
}

static int fail_connect(const char *where, uint32_t deadline_ms, struct error_out e)
{
	switch (errno) {
	case ECONNREFUSED:
	case ENOENT:
		if (is_other_file(where))
			return REFUSE(e, FORGE_E_NODE,
				      "%s: something that is no socket has this name: check it",
				      where);
		if (strncmp(where, "tls:", 4) == 0)
			return REFUSE(
			    e, FORGE_E_NODE,
			    "no node listens on %s: start 'forge node --listen tcp%s' with "
			    "its --tls-cert, wait until it is ready, or check the name",
			    where, where + 3);
		return REFUSE(e, FORGE_E_NODE,
			      "no node listens on %s: start 'forge node --listen %s', wait until "
			      "it is ready, or check the name",
			      where, where);
	case ECANCELED:
		return REFUSE(e, FORGE_E_NODE, "connecting to %s was given up", where);
	case ETIMEDOUT:
		return REFUSE(e, FORGE_E_NODE,
			      "%s did not answer within %u ms: is its host up, and does a firewall "
			      "let one through?",
			      where, deadline_ms);
	case EMFILE:
	case ENFILE:
		return REFUSE(e, FORGE_E_SYSTEM,
			      "connecting to %s: %m; raise the limit (ulimit -n)", where);
	case EACCES:
	case EPERM:
		return REFUSE(e, FORGE_E_SYSTEM,
			      "no permission to connect to %s: run as its owner or change its mode",
			      where);
	default:
		return REFUSE(e, FORGE_E_NODE, "connecting to %s: %m", where);
	}
}

static int dial_unix(const struct tcp_place *p, const struct tcp_settings *s, uint64_t *left_ns,
		     struct tcp_stream *out, struct error_out e)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	strcpy(address.sun_path, p->path);
	do {
		if (connect_to(s, out, (struct sockaddr *)&address, sizeof(address), left_ns) == 0)
			return FORGE_OK;
		/* Its backlog is full, and there is nothing to wait on. */
		if (errno != EAGAIN)
			break;
		uint64_t nap_ns = min_u64(*left_ns, 1000000);

		*left_ns -= nap_ns;
		dial_wait(s, -1, 0, &nap_ns);
		if (*left_ns > 0 && errno != ECANCELED)
			errno = EAGAIN;
	} while (errno == EAGAIN);
	return fail_connect(s->where, tcp_deadline_ms(s), e);
}

static int fail_resolve(const struct tcp_place *p, const struct tcp_settings *s, int error,
			struct error_out e)
{
	/* That has nothing to do with the name. */
	if (errno == EMFILE || errno == ENFILE)
		return fail_connect(s->where, 0, e);
	if (error != EAI_SYSTEM)
		return REFUSE(e, FORGE_E_NODE, "%s: there is no host %s (%s): check its name",
			      s->where, p->host, gai_strerror(error));
	switch (errno) {
	case ECANCELED:
		return fail_connect(s->where, 0, e);
	case ETIMEDOUT:
		return REFUSE(e, FORGE_E_NODE,
			      "%s: no name server said within %u ms what the address of %s is: "
			      "write its address, or give it longer with timeout=",
			      s->where, tcp_deadline_ms(s), p->host);
	case EBUSY:
		return REFUSE(e, FORGE_E_NODE,
			      "%s: %u other names of hosts are being looked up: write its address",
			      s->where, RESOLVE_HOSTS_MAX);
	case EAGAIN:
		return REFUSE(
		    e, FORGE_E_SYSTEM,
		    "%s: no thread can be started to look up its address: raise the limit "
		    "(ulimit -u)",
		    s->where);
	default:
		return REFUSE(e, FORGE_E_NODE, "%s: looking up %s: %m", s->where, p->host);
	}
}

static int dial_tcp(const struct tcp_place *p, const struct tcp_settings *s, uint64_t *left_ns,
		    struct tcp_stream *out, struct error_out e)
{
	struct resolved found;
	int error = tcp_resolve(p->host, (uint16_t)atoi(p->port), left_ns, s->cancel, &found);
	int status = -1;

	if (error)
		return fail_resolve(p, s, error, e);
	errno = ENOENT;
	for (unsigned i = 0; i < found.count && status && errno != ECANCELED; i++) {
		const struct sockaddr *a = &found.address[i].any;
		uint64_t share_ns = *left_ns / (found.count - i);

		*left_ns -= share_ns;
		status = connect_to(s, out, a,
				    a->sa_family == AF_INET6 ? sizeof(found.address[i].in6)
							     : sizeof(found.address[i].in),
				    &share_ns);
		*left_ns += share_ns;
	}
	if (status)
		return fail_connect(s->where, tcp_deadline_ms(s), e);
	set_options(out->fd, tcp_deadline_ms(s));
	return FORGE_OK;
}

static int dial_socket(const struct tcp_settings *s, uint64_t *left_ns, struct tcp_stream *out,
		       struct tcp_place *place, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	int status = tcp_place_parse(s->where, place, error_text, error_bytes);

	if (status)
		return status;
	return place->is_unix ? dial_unix(place, s, left_ns, out, e)
			      : dial_tcp(place, s, left_ns, out, e);
}

int tcp_dial_socket(const struct tcp_settings *s, struct tcp_stream *out, struct tcp_place *place,
		    char *error_text, size_t error_bytes)
{
	uint64_t left_ns = dial_patience_ns(tcp_deadline_ms(s));

	return dial_socket(s, &left_ns, out, place, error_text, error_bytes);
}

int tcp_dial(const struct tcp_settings *s, enum wire_kind kind, struct tcp_stream *out,
	     struct wire_welcome *welcome, char *error_text, size_t error_bytes)
{
	uint64_t left_ns = dial_patience_ns(tcp_deadline_ms(s));
	struct tcp_place place;
	int status = dial_socket(s, &left_ns, out, &place, error_text, error_bytes);

	if (status)
		return status;
	status = tcp_hello(out, s, kind, place.is_unix ? NULL : place.host, left_ns, welcome,
			   error_text, error_bytes);
	if (status)
		tcp_stream_close(out);
	return status;
}
