/* cancel.c: an eventfd and a word. */
#include "base/cancel.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/status.h"

int cancel_open(struct cancel *c)
{
	*c = (struct cancel){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (c->fd < 0)
		return FORGE_E_SYSTEM;
	pthread_mutex_init(&c->lock, NULL);
	return FORGE_OK;
}

void cancel_forget(struct cancel *c)
{
	close(c->fd);
}

void cancel_close(struct cancel *c)
{
	cancel_forget(c);
	pthread_mutex_destroy(&c->lock);
}

void cancel_fire(struct cancel *c)
{
	pthread_mutex_lock(&c->lock);
	atomic_store_explicit(&c->is_fired, 1, memory_order_release);
	if (c->word)
		atomic_store(c->word, 1);
	pthread_mutex_unlock(&c->lock);
	eventfd_write(c->fd, 1);
}

void cancel_reset(struct cancel *c)
{
	eventfd_t count;

	eventfd_read(c->fd, &count);
	atomic_store_explicit(&c->is_fired, 0, memory_order_release);
}

void cancel_watch(struct cancel *c, _Atomic int *word)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->word = word;
	if (word && cancel_is_fired(c))
		atomic_store(word, 1);
	pthread_mutex_unlock(&c->lock);
}
