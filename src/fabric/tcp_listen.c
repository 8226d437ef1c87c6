/*
 * tcp_listen.c: the sockets a node listens on.
 *
 * A node takes its addresses before it makes its memory, which may last, lest it make it in vain.
 * It listens when it can serve: until then who connects is refused at once, by the kernel.
 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"
#include "base/socket.h"
#include "fabric/tcp_place.h"
#include "fabric/tcp_server_inside.h"

#define LISTEN_BACKLOG 1024

#define REFUSE(e, status, ...) (snprintf((e).text, (e).bytes, __VA_ARGS__), (status))

/* Where an error sentence goes. */
struct error_out {
	char *text;
	size_t bytes;
};

/* errno of a bind() to that path. */
static int refuse_path(const char *where, const char *path, struct error_out e)
{
	int error = errno;
	struct stat st;

	if (error == EADDRINUSE && lstat(path, &st) == 0 && !S_ISSOCK(st.st_mode))
		return REFUSE(
		    e, FORGE_E_SYSTEM,
		    "cannot listen on %s: something that is no socket has this name; remove "
		    "it, or name another path",
		    where);
	if (error == EADDRINUSE)
		return REFUSE(e, FORGE_E_SYSTEM,
			      "cannot listen on %s: another server listens there; end it, or name "
			      "another path",
			      where);
	if (error == ENOENT || error == ENOTDIR)
		return REFUSE(e, FORGE_E_SYSTEM,
			      "cannot listen on %s: its directory does not exist; make it, or name "
			      "another path",
			      where);
	errno = error;
	return REFUSE(e, FORGE_E_SYSTEM, "cannot listen on %s: %m", where);
}

static int listen_unix(const char *where, const struct tcp_place *p, struct tcp_listener *out,
		       struct error_out e)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int failed;

	strcpy(address.sun_path, p->path);
	out->is_unix = out->is_local = 1;
	out->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (out->fd < 0)
		return REFUSE(e, FORGE_E_SYSTEM, "cannot listen on %s: %m", where);
	failed = bind(out->fd, (struct sockaddr *)&address, sizeof(address));
	if (failed && errno == EADDRINUSE && socket_is_left_behind(&address)) {
		unlink(p->path);
		failed = bind(out->fd, (struct sockaddr *)&address, sizeof(address));
	}
	if (failed)
		return refuse_path(where, p->path, e);
	/* As the pool's: its owner and group, whatever the umask. */
	strcpy(out->path, p->path);
	if (chmod(p->path, 0660))
		return REFUSE(e, FORGE_E_SYSTEM, "cannot listen on %s: %m", where);
	snprintf(out->name, sizeof(out->name), "%s", where);
	return FORGE_OK;
}

static void name_tcp(struct tcp_listener *l, const char *host)
{
	snprintf(l->name, sizeof(l->name), strchr(host, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u",
		 host, socket_port(l->fd));
}

static int is_loopback(const struct sockaddr *a)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

static void reuse_address(int fd, int on)
{
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

/*
 * Two sockets that may both reuse an address can both be bound to it until one listens.  So this
 * one may not as long as it only is bound, but where it has to: old connections are about.
 */
static int bind_to(const struct addrinfo *a, struct tcp_listener *out)
{
	out->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (out->fd < 0)
		return -1;
	if (bind(out->fd, a->ai_addr, a->ai_addrlen) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -1;
	reuse_address(out->fd, 1);
	if (bind(out->fd, a->ai_addr, a->ai_addrlen))
		return -1;
	reuse_address(out->fd, 0);
	return 0;
}

static const char *bind_remedy(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return "low ports are for root: choose one from 1024 on";
	case EADDRINUSE:
		return "another server listens on that port: choose another port, or end that "
		       "server";
	case EADDRNOTAVAIL:
		return "is the address this host's?";
	default:
		return "check the address";
	}
}

static int listen_tcp(const char *where, const struct tcp_place *p, struct tcp_listener *out,
		      struct error_out e)
{
	const struct addrinfo hints = {
	    .ai_socktype = SOCK_STREAM,
	    .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *found;
	int error = getaddrinfo(p->host, p->port, &hints, &found);

	if (error)
		return REFUSE(e, FORGE_E_INVAL, "%s: %s: check the address", where,
			      gai_strerror(error));
	/* The first of a name's addresses; for more, write more. */
	error = bind_to(found, out) ? errno : 0;
	out->is_local = is_loopback(found->ai_addr);
	freeaddrinfo(found);
	if (error)
		return REFUSE(e, FORGE_E_SYSTEM, "cannot listen on %s: %s; %s", where,
			      strerror(error), bind_remedy(error));
	name_tcp(out, p->host);
	return FORGE_OK;
}

int tcp_listen_open(const char *where, struct tcp_listener *out, char *error_text,
		    size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct tcp_place place;
	int status = tcp_place_parse(where, &place, error_text, error_bytes);

	*out = (struct tcp_listener){.fd = -1};
	if (status)
		return status;
	if (place.is_tls)
		return REFUSE(e, FORGE_E_INVAL,
			      "'%s': write tcp%s to listen; with a certificate the node takes "
			      "encrypted connections alone, and clients write tls://",
			      where, where + 3);
	status =
	    place.is_unix ? listen_unix(where, &place, out, e) : listen_tcp(where, &place, out, e);
	if (status)
		tcp_listen_close(out);
	return status;
}

int tcp_listen_begin(const struct tcp_listener *l)
{
	/* Its connections inherit it, and keep nobody from the address when they are old. */
	if (!l->is_unix)
		reuse_address(l->fd, 1);
	if (listen(l->fd, LISTEN_BACKLOG) == 0)
		return FORGE_OK;
	log_error("cannot listen on %s: %m", l->name);
	return FORGE_E_SYSTEM;
}

void tcp_listen_close(struct tcp_listener *l)
{
	if (l->path[0])
		unlink(l->path);
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
	l->path[0] = '\0';
}

int tcp_listen_accept(const struct tcp_listener *l, uint32_t timeout_ms)
{
	const int on = 1, probes = 3;
	/* Silent for half of the time, then asked three times in the other half. */
	const int idle_s = (int)max_u64(1, timeout_ms / 2000);
	const int between_s = (int)max_u64(1, timeout_ms / 6000);
	int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0 || l->is_unix)
		return fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
	return fd;
}
