/*
 * tcp_resolve.c: lookups, each with a thread, in a table that outlives whoever asked.
 *
 * Who owns what.  A lookup is a slot of a table that is never freed.  Its state is FREE, RUNNING or
 * DONE, and changes under the lock alone:
 *   FREE -> RUNNING  by who asks first.  The name in it belongs to the thread until DONE.
 *   RUNNING -> DONE  by the thread, once, with the result, after which it touches the slot no more.
 *   DONE -> FREE     by the last of those who wait, who has copied the result; or, if nobody does,
 *                    by who asks for that name next and takes what is there, or by who needs a
 *                    slot when it is too old.
 * Who asks for a name that is RUNNING counts himself among those who wait.  Who leaves, because his
 * time is over or he is cancelled, takes himself out of the count and has no more to do with it: he
 * owns nothing that the thread uses.  So there is one thread for a name however often it is asked
 * for, and a name server that takes longer than a deadline still is of use: its answer is there
 * when one asks again.
 *
 * `done` is an eventfd that is readable from DONE on, so that all who wait see it.  It is open
 * while the slot is not FREE.
 *
 * fork(): the child has no such thread, so there the table is empty and its descriptors are closed.
 * fork() holds the lock, so the child finds the table whole.
 *
 * Lock order: the lock is the only one; nothing is waited for under it.
 */
#include "fabric/tcp_resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/tcp_dial_inside.h"
#include "fabric/tcp_place.h"

enum lookup_state { FREE, RUNNING, DONE };

struct lookup {
	enum lookup_state state;
	unsigned waiting;
	int done;
	uint64_t done_ms;
	char host[TCP_HOST_BYTES];
	int error, system_error; /* of getaddrinfo(), and errno with it */
	struct resolved found;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lookup lookups[RESOLVE_HOSTS_MAX];

static void lookup_free(struct lookup *l)
{
	close(l->done);
	l->state = FREE;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	for (unsigned i = 0; i < RESOLVE_HOSTS_MAX; i++)
		if (lookups[i].state != FREE)
			lookup_free(&lookups[i]);
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* ---- getaddrinfo() ------------------------------------------------------------------------ */

static void take(struct resolved *out, const struct addrinfo *found)
{
	out->count = 0;
	for (const struct addrinfo *a = found; a && out->count < RESOLVE_ADDRESSES_MAX;
	     a = a->ai_next)
		if ((a->ai_family == AF_INET || a->ai_family == AF_INET6) &&
		    a->ai_addrlen <= sizeof(out->address[0]))
			memcpy(&out->address[out->count++], a->ai_addr, a->ai_addrlen);
}

static int look_up(const char *host, int flags, struct resolved *out)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
	struct addrinfo *found;
	int error = getaddrinfo(host, NULL, &hints, &found);

	if (error)
		return error;
	take(out, found);
	freeaddrinfo(found);
	return out->count ? 0 : EAI_NONAME;
}

static void *lookup_main(void *argument)
{
	struct lookup *l = argument;
	struct resolved found;

	errno = 0;
	int error = look_up(l->host, 0, &found), system_error = errno;

	pthread_mutex_lock(&lock);
	l->error = error;
	l->system_error = system_error;
	if (!error)
		l->found = found;
	l->done_ms = dial_now_ms();
	l->state = DONE;
	eventfd_write(l->done, 1);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Signals are the business of the program's own threads. */
static int start(struct lookup *l)
{
	sigset_t all, before;
	pthread_attr_t detached;
	pthread_t thread;

	sigfillset(&all);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&thread, &detached, lookup_main, l);

	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&detached);
	return error;
}

/* ---- the table, under the lock ------------------------------------------------------------ */

/* Nobody waits for it, and what it found was too long ago. */
static int is_old(const struct lookup *l)
{
	return l->state == DONE && l->waiting == 0 && dial_now_ms() - l->done_ms > RESOLVE_KEPT_MS;
}

/* Begin to look that name up in a slot that is free.  0, or an errno. */
static int begin(struct lookup *l, const char *host)
{
	*l = (struct lookup){.state = RUNNING, .done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	strcpy(l->host, host);
	int error = l->done < 0 ? errno : start(l);

	if (!error)
		return 0;
	if (l->done >= 0)
		close(l->done);
	l->state = FREE;
	return error;
}

/* Of two that may be NULL the one whose answer came first. */
static struct lookup *earlier(struct lookup *a, struct lookup *b)
{
	return a && a->done_ms <= b->done_ms ? a : b;
}

/*
 * The lookup of that name, new or not, with the caller among those who wait; or NULL with errno.
 * An answer nobody waits for is kept while there is room for others.
 */
static struct lookup *join(const char *host)
{
	struct lookup *empty = NULL, *kept = NULL;

	for (unsigned i = 0; i < RESOLVE_HOSTS_MAX; i++) {
		struct lookup *l = &lookups[i];

		if (is_old(l))
			lookup_free(l);
		if (l->state == FREE) {
			empty = l;
		} else if (strcmp(l->host, host) == 0) {
			l->waiting++;
			return l;
		} else if (l->state == DONE && l->waiting == 0) {
			kept = earlier(kept, l);
		}
	}
	if (!empty && kept) {
		lookup_free(kept);
		empty = kept;
	}
	errno = empty ? begin(empty, host) : EBUSY;
	if (errno)
		return NULL;
	empty->waiting = 1;
	return empty;
}

/* Take the result, if it is there.  Was it? */
static int leave(struct lookup *l, struct resolved *out, int *error)
{
	int is_done = l->state == DONE;

	l->waiting--;
	if (!is_done)
		return 0;
	*error = l->error;
	errno = l->system_error;
	if (!l->error)
		*out = l->found;
	if (l->waiting == 0) {
		lookup_free(l);
		errno = l->system_error;
	}
	return 1;
}

/* ---- asking ------------------------------------------------------------------------------- */

static int wait_for(const char *host, uint64_t *left_ns, const struct cancel *cancel,
		    struct resolved *out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct tcp_settings s = {.cancel = cancel};
	int error = EAI_SYSTEM;

	if (cancel_is_fired(cancel)) {
		errno = ECANCELED;
		return EAI_SYSTEM;
	}
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	struct lookup *l = join(host);

	pthread_mutex_unlock(&lock);
	if (!l)
		return EAI_SYSTEM;
	/* Counted, one may look at it without the lock: it is not FREE before one has left. */
	dial_wait(&s, l->done, POLLIN, left_ns);
	int why = errno;

	pthread_mutex_lock(&lock);
	/* Who is cancelled has no use for an answer that came in the same moment. */
	int is_there = leave(l, out, &error);

	pthread_mutex_unlock(&lock);
	if (is_there && why != ECANCELED)
		return error;
	errno = why;
	return EAI_SYSTEM;
}

int tcp_resolve(const char *host, uint16_t port, uint64_t *left_ns, const struct cancel *cancel,
		struct resolved *out)
{
	int error = look_up(host, AI_NUMERICHOST, out);

	if (error)
		error = wait_for(host, left_ns, cancel, out);
	for (unsigned i = 0; !error && i < out->count; i++)
		if (out->address[i].any.sa_family == AF_INET6)
			out->address[i].in6.sin6_port = htons(port);
		else
			out->address[i].in.sin_port = htons(port);
	return error;
}
