/* look.c: a link that is for READs alone, and a connection over it. */
#include "tool/look.h"

#include <string.h>

#include "client/link.h"

static int open_pool(const struct command *c, const char *pool_name, struct look_at *out)
{
	char text[512];
	int status;

	out->is_served = link_is_served(out->link);
	status = link_connect(out->link, &out->fab);
	if (status) {
		link_close(out->link);
		return tool_fail(c, "%s: %s", pool_name, status_sentence(status));
	}
	worker_init(&out->worker, out->fab, clock_monotonic(), 0);
	status = pool_open(&out->worker, &out->pool, text, sizeof(text));
	out->pool.clock = link_clock(out->link);
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

	if (link_is_held(look->link, cn) != 0)
		return true;
	/* It frees its line, then lets go of its lock: it may just have left in good order. */
	return flow_run(&look->worker, &op, 1) != 0 || now != id;
}

int tool_look_open(const struct command *c, const char *pool_name, struct look_at *out)
{
	char text[512];

	*out = (struct look_at){0};
	int status = link_open(pool_name, LINK_READ_ONLY, &out->link, text, sizeof(text));

	if (status == FORGE_E_POOL_ABSENT)
		return tool_fail_absent(c, pool_name);
	return status ? tool_fail(c, "%s", text) : open_pool(c, pool_name, out);
}

int tool_look_open_any(const struct command *c, const char *pool_name, struct look_at *out)
{
	char text[512], why[512];

	*out = (struct look_at){0};
	int status = link_open(pool_name, LINK_READ_ONLY, &out->link, text, sizeof(text));

	if (status == FORGE_E_POOL_ABSENT)
		return tool_fail_absent(c, pool_name);
	if (!status)
		return open_pool(c, pool_name, out);
	out->is_metrics = status == FORGE_E_DENIED &&
			  link_open(pool_name, LINK_METRICS, &out->link, why, sizeof(why)) == 0;
	return out->is_metrics ? 0 : tool_fail(c, "%s", text);
}

void tool_look_close(struct look_at *look)
{
	fab_close(look->fab);
	link_close(look->link);
}
