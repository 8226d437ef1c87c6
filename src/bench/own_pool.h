/*
 * own_pool.h: a pool in shared memory for one run.
 *
 * For bench, replay and tests when the user names no pool.  The name goes away as soon as every
 * compute node has attached, so nothing is left behind even when the run is killed later.
 */
#ifndef FORGE_BENCH_OWN_POOL_H
#define FORGE_BENCH_OWN_POOL_H

#include <stdbool.h>

#include "layout/plan.h"

/* Of a pool's name; a process id, '-' and a number follow. */
#define OWN_POOL_PREFIX "forge-bench-"

struct shm_hold;

struct own_pool {
	char name[64]; /* "shm:/", the prefix, PID-N */
	struct plan plan;
	bool named;	       /* the name exists, and then */
	struct shm_hold *hold; /* says that somebody serves it */
};

/* Create and format.  0, or as plan_make(), shm_hold_create() and pool_format(). */
int own_pool_create(struct own_pool *, const struct plan_wish *, char *error_text,
		    size_t error_bytes);

/* Remove the name, if it still exists; the memory goes with its last mapping.  struct own_pool *.
 */
void own_pool_forget(void *pool);

#endif
