/* repair.c: a writable mapping, the locks that prove life, and the recovery that all share. */
#include "tool/repair.h"

#include <stdio.h>

#include "base/text.h"
#include "client/alive.h"
#include "fabric/shm.h"

/* Who can be told to be neither alive nor dead is not touched, and neither is anybody else. */
static int check_provable(const struct command *c, const char *pool_name, struct alive *alive,
			  uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++) {
		int held = alive_is_held(alive, cn);

		if (held < 0)
			return tool_fail(c,
					 "%s: cannot tell who is alive (%s), so nothing was "
					 "repaired: see that the name stays and that its file "
					 "system has locks",
					 pool_name, status_sentence(held));
	}
	return 0;
}

static int repair_mapped(const struct command *c, const char *pool_name, struct shm_map *map,
			 struct fab *fab, struct repair *out)
{
	struct worker w;
	struct pool pool;
	struct alive *alive;
	char text[512];

	worker_init(&w, fab, clock_monotonic(), 0);
	if (pool_open(&w, &pool, text, sizeof(text)))
		return tool_fail(c, "%s: %s", pool_name, text);
	if (alive_open(pool_name, map, &alive))
		return tool_fail(c, "%s", status_sentence(FORGE_E_NO_MEMORY));
	int status = check_provable(c, pool_name, alive, pool.plan.cn_max);

	if (!status) {
		uint64_t start_ns = clock_now_ns(w.clock);

		status = recover_repair(&pool, &w, alive_liveness(alive), &out->report,
					&out->dead_count);
		out->took_ns = clock_now_ns(w.clock) - start_ns;
		if (status)
			status = tool_fail(c, "%s: repairing: %s (%s): run it again", pool_name,
					   status_sentence(status), status_name(status));
	}
	alive_close(alive);
	return status;
}

int repair_run(const struct command *c, const char *pool_name, struct repair *out)
{
	struct shm_map *map;
	struct fab *fab;
	char text[512];
	int status = shm_map_open(pool_name, SHM_MAP_LAZY, text, sizeof(text), &map);

	*out = (struct repair){0};
	if (status == FORGE_E_POOL_ABSENT)
		return tool_fail_absent(c, pool_name);
	if (status)
		return tool_fail(c, "%s", text);
	status = shm_open_connection(map, &fab);
	if (status) {
		status = tool_fail(c, "%s: %s", pool_name, status_sentence(status));
	} else {
		status = repair_mapped(c, pool_name, map, fab, out);
		fab_close(fab);
	}
	shm_map_close(map);
	return status;
}

void repair_print(const struct repair *r)
{
	struct text took;
	char done[512];

	recover_report_print(&r->report, done, sizeof(done));
	printf("repair    dead compute nodes: %u; %s; in %s\n", r->dead_count, done,
	       text_duration(&took, r->took_ns));
}

json_t *repair_json(const struct repair *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "dead_compute_nodes", json_integer((json_int_t)r->dead_count));
	json_object_set_new(o, "took_us", json_integer((json_int_t)(r->took_ns / 1000)));
#define FIELD(name, sentence) \
	json_object_set_new(o, #name, json_integer((json_int_t)r->report.name));
	RECOVER_FIELDS(FIELD)
#undef FIELD
	return o;
}
