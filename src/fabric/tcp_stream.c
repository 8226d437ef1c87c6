/*
 * tcp_stream.c: sockets of this process, in a list for fork(), in clear or in TLS.
 *
 * Lock order: list_lock is the only one.  fork() holds it, so the child finds the list whole.
 */
#include "fabric/tcp_stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "access/tls.h"
#include "base/compiler.h"
#include "base/status.h"

/* The most there is in a record of TLS. */
#define RECORD_BYTES 16384u

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_stream *list;

static void before_fork(void)
{
	pthread_mutex_lock(&list_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
	for (struct tcp_stream *s = list; s; s = s->next) {
		close(s->fd);
		s->fd = -1;
	}
	list = NULL;
	pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* Under the lock from the beginning: no child has a copy that is not on the list. */
int tcp_stream_open(struct tcp_stream *s, int family)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&list_lock);
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*s = (struct tcp_stream){.fd = fd};
	if (fd >= 0) {
		s->next = list;
		list = s;
	}
	pthread_mutex_unlock(&list_lock);
	return fd;
}

static void decrypt_close(struct tcp_stream *s)
{
	/* In a child the descriptor is closed, and its number may be another file's. */
	if (s->fd >= 0)
		tls_conn_destroy(s->tls);
	else
		tls_conn_forget(s->tls);
	free(s->gather);
	s->tls = NULL;
	s->gather = NULL;
}

void tcp_stream_close(struct tcp_stream *s)
{
	if (s->tls)
		decrypt_close(s);
	pthread_mutex_lock(&list_lock);
	for (struct tcp_stream **p = &list; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			close(s->fd);
			break;
		}
	s->fd = -1;
	pthread_mutex_unlock(&list_lock);
}

int tcp_stream_encrypt_open(struct tcp_stream *s, struct tls_conn *tls)
{
	s->tls = tls;
	s->gather = malloc(RECORD_BYTES);
	return s->gather ? FORGE_OK : FORGE_E_NO_MEMORY;
}

int tcp_stream_has_pending(const struct tcp_stream *s)
{
	return s->tls && tls_has_pending(s->tls);
}

static ssize_t done(ssize_t n)
{
	if (likely(n > 0))
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	return -1;
}

/* ---- TLS ---------------------------------------------------------------------------------- */

/*
 * As much as fills a record, in one: a post's requests are small.  When a record could not be sent
 * the next call gathers the same bytes again, which is what TLS demands.
 */
static ssize_t send_record(struct tcp_stream *s, const struct iovec *iov, unsigned count)
{
	size_t bytes = 0;

	if (iov->iov_len >= RECORD_BYTES || count == 1)
		return done(tls_send(s->tls, iov->iov_base,
				     iov->iov_len < RECORD_BYTES ? iov->iov_len : RECORD_BYTES));
	for (unsigned i = 0; i < count && bytes < RECORD_BYTES; i++) {
		size_t piece = (size_t)min_u64(iov[i].iov_len, RECORD_BYTES - bytes);

		memcpy(s->gather + bytes, iov[i].iov_base, piece);
		bytes += piece;
	}
	return done(tls_send(s->tls, s->gather, bytes));
}

/* Until nothing more is there, or no room. */
static ssize_t receive_records(struct tcp_stream *s, const struct iovec *iov, unsigned count)
{
	ssize_t sum = 0;

	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < iov[i].iov_len;) {
			ssize_t n = done(tls_recv(s->tls, (unsigned char *)iov[i].iov_base + at,
						  iov[i].iov_len - at));

			/* An end is told by the next call, too. */
			if (n <= 0)
				return sum ? sum : n;
			at += (size_t)n;
			sum += n;
		}
	return sum;
}

/* ---- both --------------------------------------------------------------------------------- */

ssize_t tcp_stream_send(struct tcp_stream *s, struct iovec *iov, unsigned count)
{
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};

	if (unlikely(s->tls))
		return send_record(s, iov, count);
	if (likely(count == 1))
		return done(send(s->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL));
	return done(sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t tcp_stream_receive(struct tcp_stream *s, struct iovec *iov, unsigned count)
{
	if (unlikely(s->tls))
		return receive_records(s, iov, count);
	if (likely(count == 1))
		return done(recv(s->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT));
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};

	return done(recvmsg(s->fd, &message, MSG_DONTWAIT));
}

void tcp_stream_wait(struct tcp_stream *s, int out, uint64_t ns)
{
	struct pollfd p = {.fd = s->fd, .events = out ? POLLIN | POLLOUT : POLLIN};
	struct timespec patience = {.tv_sec = (time_t)(ns / 1000000000),
				    .tv_nsec = (long)(ns % 1000000000)};

	if (!tcp_stream_has_pending(s))
		ppoll(&p, 1, &patience, NULL);
}
