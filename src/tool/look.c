/* look.c: a read-only mapping, and a connection over it which nobody gives anything but READs. */
#include "tool/look.h"

#include <string.h>

#include "client/alive.h"
#include "fabric/loop.h"
#include "fabric/shm.h"
#include "node/node.h"

int tool_look_open(const struct command *c, const char *pool_name, struct look_at *out)
{
	char text[512];
	out->alive = NULL;
	int status = shm_map_open(pool_name, SHM_MAP_READ_ONLY, text, sizeof(text), &out->map);

	if (status == FORGE_E_POOL_ABSENT)
		return tool_fail_absent(c, pool_name);
	if (status)
		return tool_fail(c, "%s", text);
	out->is_served = node_is_serving(pool_name, text, sizeof(text)) > 0;
	out->fab = NULL;
	status = alive_open(pool_name, out->map, &out->alive);
	if (!status)
		status = loop_open(shm_map_base(out->map), shm_map_bytes(out->map), &out->fab);
	if (status) {
		alive_close(out->alive);
		shm_map_close(out->map);
		return tool_fail(c, "%s: %s", pool_name, status_sentence(status));
	}
	worker_init(&out->worker, out->fab, clock_monotonic(), 0);
	status = pool_open(&out->worker, &out->pool, text, sizeof(text));
	if (!status)
		return 0;
	tool_look_close(out);
	return tool_fail(c, "%s: %s", pool_name, text);
}

bool tool_look_is_alive(struct look_at *look, uint32_t cn, uint64_t id)
{
	uint64_t now = 0;
	struct fab_op op =
	    fab_read(FAB_CONTROL, plan_registry_address(&look->pool.plan, cn), &now, sizeof(now));

	if (alive_is_held(look->alive, cn) != 0)
		return true;
	/* It frees its line, then lets go of its lock: it may just have left in good order. */
	return flow_run(&look->worker, &op, 1) != 0 || now != id;
}

void tool_look_close(struct look_at *look)
{
	fab_close(look->fab);
	alive_close(look->alive);
	shm_map_close(look->map);
}
