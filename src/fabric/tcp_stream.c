/*
 * tcp_stream.c: sockets of this process, in a list for fork().
 *
 * Lock order: list_lock is the only one.  fork() holds it, so the child finds the list whole.
 */
#include "fabric/tcp_stream.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"

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

void tcp_stream_open(struct tcp_stream *s, int fd)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&list_lock);
	s->fd = fd;
	s->next = list;
	list = s;
	pthread_mutex_unlock(&list_lock);
}

void tcp_stream_close(struct tcp_stream *s)
{
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

static ssize_t done(ssize_t n)
{
	if (likely(n > 0))
		return n;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	return -1;
}

ssize_t tcp_stream_send(struct tcp_stream *s, struct iovec *iov, unsigned count)
{
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};

	return done(sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t tcp_stream_receive(struct tcp_stream *s, struct iovec *iov, unsigned count)
{
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

	ppoll(&p, 1, &patience, NULL);
}
