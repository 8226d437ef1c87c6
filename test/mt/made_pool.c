/* made_pool.c: see made_pool.h. */
#include "made_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/shm.h"
#include "pool/pool.h"

void made_pool_create(const struct plan_wish *wish, char name[MADE_POOL_NAME_BYTES])
{
	static unsigned number;
	struct plan plan;
	struct shm_map *map;
	struct fab *fab;
	struct worker worker;
	char error[256];

	if (plan_make(wish, &plan, error, sizeof(error)))
		fail_msg("%s", error);
	snprintf(name, MADE_POOL_NAME_BYTES, "shm:/forge-made-%ld-%u", (long)getpid(), number++);
	if (shm_export_create(name, plan.pool_bytes, 0, error, sizeof(error)) ||
	    shm_map_open(name, 0, error, sizeof(error), &map))
		fail_msg("%s", error);
	assert_int_equal(shm_open_connection(map, &fab), 0);
	worker_init(&worker, fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&worker, &plan, number), 0);
	fab_close(fab);
	shm_map_close(map);
}

void made_pool_unlink(const char *name)
{
	char error[256];

	if (shm_export_unlink(name, error, sizeof(error)))
		print_message("%s\n", error);
}
