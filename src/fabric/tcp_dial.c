/*
 * tcp_dial.c: name, address, socket.
 *
 * The deadline is that of one op, for each address the host's name has and for the hello: a host
 * with a dead IPv6 address is reached by its other one.
 */
#include "fabric/tcp_dial.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
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

/* Connect a new socket.  0, or -1 with errno. */
static int connect_to(const struct tcp_settings *s, struct tcp_stream *out,
		      const struct sockaddr *address, socklen_t bytes)
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
		if (!dial_wait_until(s, fd, POLLOUT, dial_now_ms() + tcp_deadline_ms(s)))
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
		return REFUSE(e, FORGE_E_NODE,
			      "no node listens on %s: start 'forge node --listen %s', or check the "
			      "name",
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

static int dial_unix(const struct tcp_place *p, const struct tcp_settings *s,
		     struct tcp_stream *out, struct error_out e)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint32_t deadline_ms = tcp_deadline_ms(s);
	uint64_t end_ms = dial_now_ms() + deadline_ms;

	strcpy(address.sun_path, p->path);
	do {
		if (connect_to(s, out, (struct sockaddr *)&address, sizeof(address)) == 0)
			return FORGE_OK;
		/* Its backlog is full, and there is nothing to wait on. */
		if (errno != EAGAIN)
			break;
		dial_wait_until(s, -1, 0, dial_now_ms() + 1);
		if (dial_now_ms() < end_ms && errno != ECANCELED)
			errno = EAGAIN;
	} while (errno == EAGAIN);
	return fail_connect(s->where, deadline_ms, e);
}

static int dial_tcp(const struct tcp_place *p, const struct tcp_settings *s, struct tcp_stream *out,
		    struct error_out e)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;

	errno = 0;
	int error = getaddrinfo(p->host, p->port, &hints, &found);
	int status = -1;

	/* That has nothing to do with the name. */
	if (error && (errno == EMFILE || errno == ENFILE))
		return fail_connect(s->where, 0, e);
	if (error)
		return REFUSE(e, FORGE_E_NODE, "%s: there is no host %s (%s): check its name",
			      s->where, p->host, gai_strerror(error));
	errno = ENOENT;
	for (struct addrinfo *a = found; a && status && errno != ECANCELED; a = a->ai_next)
		status = connect_to(s, out, a->ai_addr, a->ai_addrlen);
	error = errno;
	freeaddrinfo(found);
	errno = error;
	if (status)
		return fail_connect(s->where, tcp_deadline_ms(s), e);
	set_options(out->fd, tcp_deadline_ms(s));
	return FORGE_OK;
}

int tcp_dial_socket(const struct tcp_settings *s, struct tcp_stream *out, struct tcp_place *place,
		    char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	int status = tcp_place_parse(s->where, place, error_text, error_bytes);

	if (status)
		return status;
	return place->is_unix ? dial_unix(place, s, out, e) : dial_tcp(place, s, out, e);
}

int tcp_dial(const struct tcp_settings *s, enum wire_kind kind, struct tcp_stream *out,
	     struct wire_welcome *welcome, char *error_text, size_t error_bytes)
{
	struct tcp_place place;
	int status = tcp_dial_socket(s, out, &place, error_text, error_bytes);

	if (status)
		return status;
	status = tcp_hello(out, s, kind, place.is_unix ? NULL : place.host, welcome, error_text,
			   error_bytes);

	if (status)
		tcp_stream_close(out);
	return status;
}
