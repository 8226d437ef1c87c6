/*
 * tcp_instance.c: which connections are one client's, and the fence when it ends.
 *
 * The argument is in doc/wire.md, "Instances, and who is dead".  Its transcript: verbs of a
 * connection are executed by its thread, which looks at `ended` before it receives (E1) and calls
 * tcp_instance_detach() when it will execute no more.  Ending sets `ended` and shuts the sockets
 * down, so each thread comes to look.  The locks are given up by whoever unlinks the last
 * connection, under the server's lock, which every other connection's thread took after its last
 * verb: so all verbs come before.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/compiler.h"
#include "fabric/tcp_server_inside.h"

/* The link to the instance of that id, or to NULL where it would be. */
static struct tcp_instance **find(struct tcp_server *s, const uint8_t id[WIRE_INSTANCE_BYTES])
{
	struct tcp_instance **p = &s->instances[id[0] % TCP_INSTANCE_LISTS];

	while (*p && memcmp((*p)->id, id, WIRE_INSTANCE_BYTES) != 0)
		p = &(*p)->next;
	return p;
}

static struct tcp_instance *create(struct tcp_server *s, const uint8_t id[WIRE_INSTANCE_BYTES],
				   struct tcp_instance **link)
{
	struct tcp_instance *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	memcpy(i->id, id, WIRE_INSTANCE_BYTES);
	*link = i;
	atomic_fetch_add(&s->instance_count, 1);
	return i;
}

static int attach_locked(struct tcp_server *s, const struct wire_hello *h, uint64_t mark,
			 struct tcp_conn *c)
{
	struct tcp_instance **link = find(s, h->instance), *i = *link;

	/* It had one: the instance has ended, and all that was known of it is gone. */
	if (c->kind == WIRE_DATA && (h->flags & WIRE_JOINS) && !(i && i->control))
		return FORGE_E_AGAIN;
	if (i && (atomic_load(&i->ended) || (c->kind == WIRE_CONTROL && i->control)))
		return FORGE_E_AGAIN;
	/* An instance's name is no secret where others can listen. */
	if (i && i->mark != mark)
		return FORGE_E_DENIED;
	/* Withdrawn since it was checked; or else tcp_instance_recheck() will find it. */
	if (s->door && !door_still_knows(s->door, mark))
		return FORGE_E_DENIED;
	if (!i)
		i = create(s, h->instance, link);
	if (!i)
		return FORGE_E_NO_MEMORY;
	i->mark = mark;
	c->instance = i;
	c->instance_next = i->first;
	i->first = c;
	if (c->kind == WIRE_CONTROL)
		i->control = c;
	return FORGE_OK;
}

int tcp_instance_attach(struct tcp_server *s, const struct wire_hello *h, uint64_t mark,
			struct tcp_conn *c)
{
	pthread_mutex_lock(&s->lock);
	int status = attach_locked(s, h, mark, c);

	pthread_mutex_unlock(&s->lock);
	return status;
}

static void end_locked(struct tcp_server *s, struct tcp_instance *i)
{
	if (atomic_exchange(&i->ended, 1))
		return;
	for (struct tcp_conn *c = i->first; c; c = c->instance_next)
		shutdown(c->fd, SHUT_RDWR);
}

void tcp_instance_end(struct tcp_server *s, struct tcp_instance *i)
{
	pthread_mutex_lock(&s->lock);
	end_locked(s, i);
	pthread_mutex_unlock(&s->lock);
}

unsigned tcp_instance_recheck(struct tcp_server *s)
{
	unsigned ended = 0;

	pthread_mutex_lock(&s->lock);
	for (unsigned list = 0; list < TCP_INSTANCE_LISTS; list++)
		for (struct tcp_instance *i = s->instances[list]; i; i = i->next)
			if (!atomic_load(&i->ended) && !door_still_knows(s->door, i->mark)) {
				end_locked(s, i);
				ended++;
			}
	pthread_mutex_unlock(&s->lock);
	return ended;
}

static void unlink_conn(struct tcp_instance *i, struct tcp_conn *c)
{
	for (struct tcp_conn **p = &i->first; *p; p = &(*p)->instance_next)
		if (*p == c) {
			*p = c->instance_next;
			break;
		}
}

static void destroy_locked(struct tcp_server *s, struct tcp_instance *i)
{
	if (i->holder)
		s->calls.ended(s->calls.context, &i->holder);
	*find(s, i->id) = i->next;
	atomic_fetch_sub(&s->instance_count, 1);
	free(i);
}

void tcp_instance_detach(struct tcp_server *s, struct tcp_conn *c)
{
	struct tcp_instance *i = c->instance;

	if (!i)
		return;
	c->instance = NULL;
	pthread_mutex_lock(&s->lock);
	unlink_conn(i, c);
	if (!c->is_orderly || i->control == c) {
		if (!c->is_orderly && !atomic_load(&i->ended))
			atomic_fetch_add(&s->fenced, 1);
		end_locked(s, i);
	}
	if (i->control == c)
		i->control = NULL;
	if (!i->first)
		destroy_locked(s, i);
	pthread_mutex_unlock(&s->lock);
}
