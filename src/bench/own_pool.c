/* own_pool.c: creating and formatting a pool that lasts for one run. */
#include "bench/own_pool.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "client/alive.h"
#include "fabric/shm.h"
#include "pool/pool.h"

static int format(const struct own_pool *o, uint64_t pool_id, char *error_text, size_t error_bytes)
{
	struct shm_map *map = NULL;
	struct fab *fab = NULL;
	struct worker w;
	int status = shm_map_open(o->name, 0, error_text, error_bytes, &map);

	if (status)
		return status;
	status = shm_open_connection(map, &fab);
	if (!status) {
		worker_init(&w, fab, clock_monotonic(), pool_id);
		status = pool_format(&w, &o->plan, pool_id);
	}
	if (status)
		snprintf(error_text, error_bytes, "formatting %s: %s", o->name,
			 status_sentence(status));
	fab_close(fab);
	shm_map_close(map);
	return status;
}

int own_pool_create(struct own_pool *o, const struct plan_wish *wish, char *error_text,
		    size_t error_bytes)
{
	static _Atomic uint32_t serial;
	struct layout_superblock first = pool_unmade();
	uint64_t pool_id = clock_now_ns(clock_monotonic()) << 20 ^ (uint64_t)getpid();

	*o = (struct own_pool){0};
	snprintf(o->name, sizeof(o->name), "shm:/" OWN_POOL_PREFIX "%d-%u", (int)getpid(),
		 atomic_fetch_add(&serial, 1));
	int status = plan_make(wish, &o->plan, error_text, error_bytes);

	if (!status)
		status =
		    shm_hold_create(o->name, round_up_u64(o->plan.pool_bytes, 8), ALIVE_NODE_BYTE,
				    &first, sizeof(first), error_text, error_bytes, &o->hold);
	if (status)
		return status;
	o->named = true;
	status = format(o, pool_id, error_text, error_bytes);
	if (status)
		own_pool_forget(o);
	return status;
}

void own_pool_forget(void *pool)
{
	struct own_pool *o = pool;
	char text[256];

	if (!o->named)
		return;
	o->named = false;
	if (shm_hold_unlink(o->hold, text, sizeof(text)))
		log_warn("%s", text);
	shm_hold_close(o->hold);
	o->hold = NULL;
}
