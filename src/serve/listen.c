/* listen.c: finding addresses, binding, listening. */
#include "serve/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/socket.h"
#include "base/status.h"

#define REFUSE(status, ...) (snprintf(error_text, error_bytes, __VA_ARGS__), (status))

int listen_split(const char *text, uint16_t port_default, char *host, size_t host_bytes,
		 uint16_t *port, char *error_text, size_t error_bytes)
{
	const char *colon = strrchr(text, ':'), *from = text, *to = text + strlen(text);
	uint64_t number = port_default;

	if (*text == '[') {
		from = text + 1;
		to = strchr(text, ']');
		if (!to || (to[1] && to[1] != ':'))
			return REFUSE(FORGE_E_INVAL,
				      "%s is no address: write [ADDRESS] or [ADDRESS]:PORT", text);
		colon = to[1] ? to + 1 : NULL;
	} else if (colon && strchr(text, ':') == colon) {
		to = colon;
	} else {
		colon = NULL; /* an IPv6 number has several */
	}
	if (colon && (parse_u64(colon + 1, &number) || number > UINT16_MAX))
		return REFUSE(FORGE_E_INVAL, "%s: the port is not a number up to 65535", text);
	if (to == from || (size_t)(to - from) >= host_bytes)
		return REFUSE(FORGE_E_INVAL,
			      "'%s' names no address: write one before the port, such as "
			      "127.0.0.1, or * for all of this host",
			      text);
	memcpy(host, from, (size_t)(to - from));
	host[to - from] = '\0';
	*port = (uint16_t)number;
	return 0;
}

static void name_socket(struct listener *l, const char *host)
{
	snprintf(l->name, sizeof(l->name), strchr(host, ':') ? "[%.90s]:%u" : "%.90s:%u", host,
		 socket_port(l->fd));
}

static int open_address(const struct addrinfo *a, const char *host, int backlog, struct listener *l)
{
	const int on = 1;

	l->is_tcp = true;
	l->fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return -1;
	setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->ai_family == AF_INET6)
		setsockopt(l->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	/* Inherited by what is accepted: a reply never waits for the next one. */
	setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (bind(l->fd, a->ai_addr, a->ai_addrlen) == 0 && listen(l->fd, backlog) == 0) {
		name_socket(l, host);
		return 0;
	}
	int error = errno;

	close(l->fd);
	errno = error;
	return -1;
}

/* What to do about the errno of a listening socket. */
static const char *remedy(int error, bool is_tcp)
{
	switch (error) {
	case ENOENT:
	case ENOTDIR:
		return "make its directory first, or choose another path";
	case EACCES:
	case EPERM:
		return is_tcp ? "ports below 1024 are root's: choose another --port"
			      : "you may not make files there: choose another path";
	case EADDRNOTAVAIL:
		return "this host has no such address: see 'ip address'";
	default:
		return is_tcp ? "is another server there?  Choose another --port or --listen"
			      : "is another server there?  Choose another path";
	}
}

static int listen_one(const char *text, uint16_t port_default, int backlog,
		      struct listener *listeners, unsigned *count, char *error_text,
		      size_t error_bytes)
{
	struct addrinfo hints = {
	    .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found;
	char host[256], service[8];
	uint16_t port;
	int status =
	    listen_split(text, port_default, host, sizeof(host), &port, error_text, error_bytes);

	if (status)
		return status;
	snprintf(service, sizeof(service), "%u", port);
	int error = getaddrinfo(strcmp(host, "*") == 0 ? NULL : host, service, &hints, &found);

	if (error)
		return REFUSE(FORGE_E_INVAL, "%s: %s: check the address", host,
			      gai_strerror(error));
	for (struct addrinfo *a = found; a && !status; a = a->ai_next) {
		if (*count == LISTENERS_MAX)
			status = REFUSE(FORGE_E_INVAL, "more than %u addresses to listen on",
					LISTENERS_MAX);
		else if (open_address(a, host, backlog, &listeners[*count]))
			status = REFUSE(FORGE_E_SYSTEM, "cannot listen on %s port %u: %m; %s", host,
					port, remedy(errno, true));
		else
			++*count;
	}
	freeaddrinfo(found);
	return status;
}

int listen_tcp(const char *list, uint16_t port, int backlog, struct listener *listeners,
	       unsigned *count, char *error_text, size_t error_bytes)
{
	char text[300];
	int status = 0;

	while (*list && !status) {
		size_t bytes = strcspn(list, ",");

		if (bytes >= sizeof(text))
			return REFUSE(FORGE_E_INVAL, "an address of %zu bytes is none", bytes);
		memcpy(text, list, bytes);
		text[bytes] = '\0';
		status = listen_one(text, port, backlog, listeners, count, error_text, error_bytes);
		list += bytes + (list[bytes] == ',');
	}
	return status;
}

int listen_unix(const char *path, unsigned mode, int backlog, struct listener *listeners,
		unsigned *count, char *error_text, size_t error_bytes)
{
	struct listener *l = &listeners[*count];
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (*count == LISTENERS_MAX)
		return REFUSE(FORGE_E_INVAL, "more than %u addresses to listen on", LISTENERS_MAX);
	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return REFUSE(FORGE_E_INVAL, "%s: a Unix socket's path has 1 to %zu bytes", path,
			      sizeof(a.sun_path) - 1);
	strcpy(a.sun_path, path);
	if (socket_is_left_behind(&a))
		unlink(path);
	l->is_tcp = false;
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return REFUSE(FORGE_E_SYSTEM, "%s: %m", path);
	/* The permissions from the first moment on: nobody slips in before a chmod. */
	mode_t before = umask(~mode & 0777);
	int status = bind(l->fd, (struct sockaddr *)&a, sizeof(a));
	int error = errno;

	umask(before);
	errno = error;
	if (status || listen(l->fd, backlog)) {
		snprintf(error_text, error_bytes, "cannot listen on %s: %m; %s", path,
			 remedy(errno, false));
		close(l->fd);
		return FORGE_E_SYSTEM;
	}
	snprintf(l->name, sizeof(l->name), "%s", path);
	++*count;
	return 0;
}

void listen_close(struct listener *l)
{
	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	if (!l->is_tcp)
		unlink(l->name);
}
