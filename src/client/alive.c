/*
 * alive.c: locks that prove life.
 *
 * Lock order: `list_lock`, then an alive's own `lock`.  Both are held by fork() across the copy,
 * so the child finds every list whole.
 */
#include "client/alive.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/shm.h"

struct alive {
	struct liveness liveness;
	struct alive *next;
	pthread_mutex_t lock;
	struct shm_hold *holds[LAYOUT_CN_MAX + 1]; /* by CN id */
	_Atomic int forked;
	const struct shm_map *map; /* what the name must stand for */
	char pool_name[];
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct alive *list;

static void release_all(struct alive *a)
{
	for (unsigned cn = 0; cn < ARRAY_COUNT(a->holds); cn++) {
		shm_hold_close(a->holds[cn]);
		a->holds[cn] = NULL;
	}
}

static void before_fork(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct alive *a = list; a; a = a->next)
		pthread_mutex_lock(&a->lock);
}

static void after_fork(void)
{
	for (struct alive *a = list; a; a = a->next)
		pthread_mutex_unlock(&a->lock);
	pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
	for (struct alive *a = list; a; a = a->next) {
		atomic_store(&a->forked, 1);
		/* Closing a copy of the descriptor drops nothing that the parent has. */
		release_all(a);
	}
	after_fork();
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static int alive_hold(void *context, uint32_t cn)
{
	struct alive *a = context;
	struct shm_hold *hold;
	char text[256];
	int status = FORGE_E_AGAIN;

	if (cn >= ARRAY_COUNT(a->holds) || atomic_load(&a->forked))
		return status;
	/* The lock is held over the open, so that no fork() copies a descriptor not on our list. */
	pthread_mutex_lock(&a->lock);
	/*
	 * Whatever goes wrong (the name is gone, no descriptor is left), the node is not proven
	 * dead, and that is all the caller may conclude.  Nor is it by a lock of another pool that
	 * has taken the name of ours.
	 */
	if (!a->holds[cn] &&
	    shm_hold_open(a->pool_name, alive_cn_byte(cn), text, sizeof(text), &hold) == 0) {
		if (shm_map_is_named(a->map, a->pool_name, text, sizeof(text)) == 1) {
			a->holds[cn] = hold;
			status = 0;
		} else {
			shm_hold_close(hold);
		}
	}
	pthread_mutex_unlock(&a->lock);
	return status;
}

static void alive_release(void *context, uint32_t cn)
{
	struct alive *a = context;

	pthread_mutex_lock(&a->lock);
	struct shm_hold *hold = a->holds[cn];

	a->holds[cn] = NULL;
	pthread_mutex_unlock(&a->lock);
	shm_hold_close(hold);
}

int alive_open(const char *pool_name, const struct shm_map *map, struct alive **out)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct alive *a = calloc(1, sizeof(*a) + strlen(pool_name) + 1);

	if (!a)
		return FORGE_E_NO_MEMORY;
	pthread_once(&once, watch_forks);
	strcpy(a->pool_name, pool_name);
	a->map = map;
	pthread_mutex_init(&a->lock, NULL);
	a->liveness = (struct liveness){a, alive_hold, alive_release};
	pthread_mutex_lock(&list_lock);
	a->next = list;
	list = a;
	pthread_mutex_unlock(&list_lock);
	*out = a;
	return 0;
}

void alive_close(struct alive *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&list_lock);
	for (struct alive **p = &list; *p; p = &(*p)->next)
		if (*p == a) {
			*p = a->next;
			break;
		}
	pthread_mutex_unlock(&list_lock);
	release_all(a);
	pthread_mutex_destroy(&a->lock);
	free(a);
}

const struct liveness *alive_liveness(struct alive *a)
{
	return &a->liveness;
}

int alive_is_held(struct alive *a, uint32_t cn)
{
	char text[256];
	int held = shm_is_held(a->pool_name, alive_cn_byte(cn), text, sizeof(text));
	int named = held < 0 ? held : shm_map_is_named(a->map, a->pool_name, text, sizeof(text));

	/* Asked in this order, the answer was about our pool if the name still stands for it. */
	return named == 1 ? held : named == 0 ? FORGE_E_POOL_ABSENT : named;
}

int alive_hold_all(struct alive *a, uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++)
		if (alive_hold(a, cn)) {
			alive_release_all(a, cn);
			return FORGE_E_AGAIN;
		}
	return 0;
}

void alive_release_all(struct alive *a, uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++)
		alive_release(a, cn);
}
