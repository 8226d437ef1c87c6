/* linger.c: what is on its way, and waiting for it. */
#include "serve/linger.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "serve/conn.h"

/* Read and dropped before others have their turn. */
#define DROPS_MAX 16

size_t linger_input_bytes(const struct conn *c)
{
	int bytes = 0;

	if (ioctl(c->socket.fd, FIONREAD, &bytes) || bytes < 0)
		bytes = 0;
	return (size_t)bytes + (c->tls ? tls_pending_bytes(c->tls) : 0);
}

/* Has the client's kernel not acknowledged all that was sent? */
static bool is_on_its_way(const struct conn *c)
{
	int bytes;

	return ioctl(c->socket.fd, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

static bool is_local(const struct conn *c)
{
	int domain;
	socklen_t bytes = sizeof(domain);

	return getsockopt(c->socket.fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) ||
	       domain == AF_UNIX;
}

/* false: the client has closed. */
static bool drop_input(struct conn *c)
{
	struct conn_worker *w = c->worker;
	char *room = w->in + (size_t)w->gather.count * CONN_READ_BYTES;

	for (unsigned i = 0; i < DROPS_MAX; i++) {
		ssize_t n = recv(c->socket.fd, room, CONN_READ_BYTES, 0);

		if (n < 0)
			return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
		if (n == 0)
			return false;
		counts_add(&w->counts.bytes_read, (uint64_t)n);
	}
	return true;
}

static void on_lingering(void *conn)
{
	struct conn *c = conn;

	if (!drop_input(c))
		conn_end(c);
}

bool linger_begin(struct conn *c)
{
	if (c->is_eof || is_local(c))
		return false;
	if (!c->is_ending && !is_on_its_way(c) && !linger_input_bytes(c))
		return false;
	/* With its goodbye; what comes is not decrypted any more. */
	tls_conn_destroy(c->tls);
	c->tls = NULL;
	if (shutdown(c->socket.fd, SHUT_WR))
		return false;
	c->is_lingering = true;
	c->socket.on_ready = on_lingering;
	c->active_ms = c->worker->now_ms;
	return true;
}

void linger_look(struct conn *c)
{
	bool is_late = c->worker->now_ms >= c->active_ms + LINGER_MS;

	if (is_late || (!is_on_its_way(c) && !linger_input_bytes(c)))
		conn_end(c);
}

void linger_look_all(struct conn_worker *w)
{
	struct conn *next;

	for (struct conn *c = w->first; c; c = next) {
		next = c->next;
		if (c->is_lingering)
			linger_look(c);
	}
}
