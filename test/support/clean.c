/* clean.c: the checker on a pool by its name. */
#include "support/clean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/shm.h"
#include "pool/pool.h"

uint64_t assert_pool_clean(const char *name, const struct check_options *options)
{
	struct check_report report;
	struct shm_map *map;
	struct fab *fab;
	struct worker w;
	struct pool pool;
	char error[256];

	assert_int_equal(shm_map_open(name, 0, error, sizeof(error), &map), 0);
	assert_int_equal(shm_open_connection(map, &fab), 0);
	worker_init(&w, fab, clock_monotonic(), 1);
	assert_int_equal(pool_open(&w, &pool, error, sizeof(error)), 0);
	assert_int_equal(check_pool(&w, &pool, options, &report, NULL, NULL), 0);
	assert_int_equal(report.findings, 0);
	fab_close(fab);
	shm_map_close(map);
	return report.slots_live;
}
