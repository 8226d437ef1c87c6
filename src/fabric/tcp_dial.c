/*
 * tcp_dial.c: name, address, socket, hello, welcome.
 *
 * The deadline is that of one op, for each address the host's name has and for the hello: a host
 * with a dead IPv6 address is reached by its other one.
 */
#include "fabric/tcp_dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_place.h"

#define REFUSE(e, status, ...) (snprintf((e).text, (e).bytes, __VA_ARGS__), (status))

/* Where an error sentence goes. */
struct error_out {
	char *text;
	size_t bytes;
};

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

static uint64_t now_ms(void)
{
	return clock_now_ns(clock_monotonic()) / 1000000;
}

/* Wait for the socket, until end_ms.  Is it ready? */
static int wait_until(int fd, short events, uint64_t end_ms)
{
	struct pollfd p = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = now_ms();
		int n = now < end_ms ? poll(&p, 1, (int)(end_ms - now)) : 0;

		if (n >= 0 || errno != EINTR)
			return n > 0;
	}
}

/* A connected socket, or -1 with errno. */
static int connect_to(const struct sockaddr *address, socklen_t bytes, uint32_t deadline_ms)
{
	int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error = 0;
	socklen_t error_bytes = sizeof(error);

	if (fd < 0)
		return -1;
	if (connect(fd, address, bytes) != 0)
		error = errno;
	/* EAGAIN: a Unix socket whose node has not accepted many others yet. */
	if (error == EINPROGRESS || error == EINTR) {
		if (!wait_until(fd, POLLOUT, now_ms() + deadline_ms))
			error = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0)
			error = errno;
	}
	if (!error)
		return fd;
	close(fd);
	errno = error;
	return -1;
}

static void set_options(int fd, uint32_t deadline_ms)
{
	const int on = 1;
	const unsigned timeout = deadline_ms;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
}

static int fail_connect(const char *where, uint32_t deadline_ms, struct error_out e)
{
	switch (errno) {
	case ECONNREFUSED:
	case ENOENT:
		return REFUSE(e, FORGE_E_NODE,
			      "no node listens on %s: start 'forge node --listen %s', or check the "
			      "name",
			      where, where);
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

static int dial_unix(const struct tcp_place *p, const struct tcp_settings *s, struct error_out e)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint32_t deadline_ms = tcp_deadline_ms(s);
	uint64_t end_ms = now_ms() + deadline_ms;
	int fd;

	strcpy(address.sun_path, p->path);
	do {
		fd = connect_to((struct sockaddr *)&address, sizeof(address), deadline_ms);
		if (fd >= 0)
			return fd;
		/* Its backlog is full, and there is nothing to wait on. */
		if (errno == EAGAIN)
			poll(NULL, 0, 1);
	} while (errno == EAGAIN && now_ms() < end_ms);
	return fail_connect(s->where, deadline_ms, e);
}

static int dial_tcp(const struct tcp_place *p, const struct tcp_settings *s, struct error_out e)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;
	int error = getaddrinfo(p->host, p->port, &hints, &found);
	int fd = -1;

	if (error)
		return REFUSE(e, FORGE_E_NODE, "%s: there is no host %s (%s): check its name",
			      s->where, p->host, gai_strerror(error));
	errno = ENOENT;
	for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
		fd = connect_to(a->ai_addr, a->ai_addrlen, tcp_deadline_ms(s));
	error = errno;
	freeaddrinfo(found);
	errno = error;
	if (fd < 0)
		return fail_connect(s->where, tcp_deadline_ms(s), e);
	set_options(fd, tcp_deadline_ms(s));
	return fd;
}

/* Receive exactly that many bytes.  0, or FORGE_E_NODE with errno, 0 for an end. */
static int receive_all(struct tcp_stream *s, void *buf, size_t bytes, uint64_t end_ms)
{
	unsigned char *at = buf;

	while (bytes > 0) {
		struct iovec iov = {at, bytes};
		ssize_t n;

		errno = 0;
		n = tcp_stream_receive(s, &iov, 1);
		if (n < 0)
			return FORGE_E_NODE;
		if (n == 0 && !wait_until(s->fd, POLLIN, end_ms)) {
			errno = ETIMEDOUT;
			return FORGE_E_NODE;
		}
		at += n;
		bytes -= (size_t)n;
	}
	return FORGE_OK;
}

static int fail_hello(const char *where, struct error_out e)
{
	if (errno == ETIMEDOUT)
		return REFUSE(e, FORGE_E_NODE,
			      "%s accepted the connection and then said nothing: is it a memory "
			      "node, and does it run?",
			      where);
	return REFUSE(e, FORGE_E_NODE,
		      "%s closed the connection at once: it is no memory node, is ending, or wants "
		      "an encrypted connection",
		      where);
}

/* The node's reason, with what is not for a terminal taken out. */
static int refused(const char *where, const unsigned char *bytes, size_t count, struct error_out e)
{
	struct wire_refusal r;
	char sentence[256];
	size_t n = 0;

	if (count < sizeof(r))
		return REFUSE(e, FORGE_E_NODE, "%s refused without a reason", where);
	memcpy(&r, bytes, sizeof(r));
	for (size_t i = sizeof(r); i < count && n < sizeof(sentence) - 1; i++)
		sentence[n++] = bytes[i] >= ' ' && bytes[i] < 127 ? (char)bytes[i] : '?';
	sentence[n] = '\0';
	/* Only what a refusal can be; anything else is as good as no node. */
	int status =
	    r.status == FORGE_E_LAYOUT || r.status == FORGE_E_DENIED || r.status == FORGE_E_AGAIN
		? r.status
		: FORGE_E_NODE;

	return REFUSE(e, status, "%s: %s", where, sentence);
}

static int check_welcome(const char *where, const struct wire_hello *hello,
			 const struct wire_welcome *w, struct error_out e)
{
	if (w->version == 0 || w->version > WIRE_VERSION || w->kind != hello->kind ||
	    w->role == 0 || w->role > hello->role || (w->features & ~hello->features))
		return REFUSE(e, FORGE_E_NODE,
			      "%s speaks another protocol than this build: use the same version of "
			      "forge on both sides",
			      where);
	return FORGE_OK;
}

static int greet(struct tcp_stream *s, const struct tcp_settings *settings, enum wire_kind kind,
		 struct wire_welcome *welcome, struct error_out e)
{
	struct wire_hello hello = {
	    .magic = WIRE_MAGIC,
	    .version = WIRE_VERSION,
	    .kind = (uint8_t)kind,
	    .role = settings->role ? settings->role : WIRE_FULL,
	    .features = WIRE_FEATURES_KNOWN,
	    .fingerprint = settings->fingerprint,
	};
	uint64_t end_ms = now_ms() + tcp_deadline_ms(settings);
	unsigned char bytes[WIRE_STEP_BYTES_MAX];
	struct iovec iov = {&hello, sizeof(hello)};
	struct wire_step step;

	memcpy(hello.instance, settings->instance, sizeof(hello.instance));
	/* 64 bytes fit an empty socket. */
	errno = 0;
	if (tcp_stream_send(s, &iov, 1) != (ssize_t)sizeof(hello) ||
	    receive_all(s, &step, sizeof(step), end_ms))
		return fail_hello(settings->where, e);
	if (step.bytes > sizeof(bytes))
		return REFUSE(e, FORGE_E_NODE, "%s is no memory node", settings->where);
	if (receive_all(s, bytes, step.bytes, end_ms))
		return fail_hello(settings->where, e);
	if (step.step == WIRE_STEP_REFUSAL)
		return refused(settings->where, bytes, step.bytes, e);
	if (step.step == WIRE_STEP_CHALLENGE)
		return REFUSE(e, FORGE_E_DENIED,
			      "%s wants to know who the client is, and this client has no key",
			      settings->where);
	if (step.step != WIRE_STEP_WELCOME || step.bytes != sizeof(*welcome))
		return REFUSE(e, FORGE_E_NODE, "%s is no memory node", settings->where);
	memcpy(welcome, bytes, sizeof(*welcome));
	return check_welcome(settings->where, &hello, welcome, e);
}

int tcp_dial(const struct tcp_settings *s, enum wire_kind kind, struct tcp_stream *out,
	     struct wire_welcome *welcome, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct tcp_place place;
	int status = tcp_place_parse(s->where, &place, error_text, error_bytes);

	if (status)
		return status;
	int fd = place.is_unix ? dial_unix(&place, s, e) : dial_tcp(&place, s, e);

	if (fd < 0)
		return fd;
	tcp_stream_open(out, fd);
	status = greet(out, s, kind, welcome, e);
	if (status)
		tcp_stream_close(out);
	return status;
}
