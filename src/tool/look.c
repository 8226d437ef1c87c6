/* look.c: a link that is for READs alone, and a connection over it. */
#include "tool/look.h"

#include <stdio.h>

#include "client/link.h"
#include "tool/names.h"

static int open_pool(const char *pool_name, struct look_at *out, char *text, size_t text_bytes)
{
	char why[320];
	int status;

	out->is_served = link_is_served(out->link);
	status = link_connect(out->link, &out->fab);
	if (status) {
		link_close(out->link);
		snprintf(text, text_bytes, "%s: %s", pool_name, status_sentence(status));
		return status;
	}
	worker_init(&out->worker, out->fab, clock_monotonic(), 0);
	status = pool_open(&out->worker, &out->pool, why, sizeof(why));
	out->pool.clock = link_clock(out->link);
	out->pool_id = out->pool.pool_id;
	if (!status)
		return 0;
	tool_look_close(out);
	snprintf(text, text_bytes, "%s: %s", pool_name, why);
	return status;
}

static int open_link(const char *pool_name, struct look_at *out, char *text, size_t text_bytes)
{
	*out = (struct look_at){0};
	int status = link_open(pool_name, LINK_READ_ONLY, &out->link, text, text_bytes);

	if (status == FORGE_E_POOL_ABSENT)
		tool_absent(pool_name, text, text_bytes);
	return status;
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

int tool_look_open(const char *pool_name, struct look_at *out, char *text, size_t text_bytes)
{
	int status = open_link(pool_name, out, text, text_bytes);

	return status ? status : open_pool(pool_name, out, text, text_bytes);
}

int tool_look_open_any(const char *pool_name, struct look_at *out, char *text, size_t text_bytes)
{
	char why[TOOL_WHY_BYTES];
	int status = open_link(pool_name, out, text, text_bytes);

	if (!status)
		return open_pool(pool_name, out, text, text_bytes);
	out->is_metrics = status == FORGE_E_DENIED &&
			  link_open(pool_name, LINK_METRICS, &out->link, why, sizeof(why)) == 0;
	if (!out->is_metrics)
		return status;
	out->pool_id = link_pool_id(out->link);
	return 0;
}

void tool_look_close(struct look_at *look)
{
	fab_close(look->fab);
	link_close(look->link);
}
