/* repair.c: a link of its own, the locks that prove life, and the recovery that all share. */
#include "tool/repair.h"

#include <stdio.h>

#include "base/text.h"
#include "client/link.h"
#include "tool/names.h"

/* Who can be told to be neither alive nor dead is not touched, and neither is anybody else. */
static int check_provable(const struct command *c, const char *pool_name, struct link *link,
			  uint32_t cn_max)
{
	for (uint32_t cn = 0; cn < cn_max; cn++) {
		int held = link_is_held(link, cn);

		if (held < 0)
			return tool_fail(c,
					 "%s: cannot tell who is alive (%s), so nothing was "
					 "repaired: see that the name stays and that its file "
					 "system has locks",
					 pool_name, status_sentence(held));
	}
	return 0;
}

/*
 * Damage to the metadata first, which recovery has to believe; then what the dead left; then all
 * that a check at rest finds.  Damage is mended only while nobody is attached.
 */
static MAY_WAIT int repair_all(struct pool *pool, struct worker *w, struct link *link,
			       struct repair *out)
{
	uint32_t cn_max = pool->plan.cn_max;
	struct check_finding first;
	struct check_report after;
	int status = 0;

	if (link_hold_all(link, cn_max) == 0) {
		status = mend_is_needed(w, pool, &first);
		if (status == FORGE_E_CORRUPT)
			status = mend_pool(w, pool, &out->mended, &after);
		link_release_all(link, cn_max);
	}
	if (status && status != FORGE_E_CORRUPT)
		return status;
	status = recover_repair(pool, w, link_liveness(link), &out->report, &out->dead_count);
	out->attached = link_hold_all(link, cn_max) != 0;
	if (status || out->attached)
		return status;
	status = mend_pool(w, pool, &out->mended, &after);
	link_release_all(link, cn_max);
	/* The check that follows says what is left. */
	return status == FORGE_E_CORRUPT ? 0 : status;
}

static int repair_over(const struct command *c, const char *pool_name, struct link *link,
		       struct fab *fab, struct repair *out)
{
	struct worker w;
	struct pool pool;
	char text[512];

	worker_init(&w, fab, clock_monotonic(), 0);
	if (pool_open(&w, &pool, text, sizeof(text)))
		return tool_fail(c, "%s: %s", pool_name, text);
	int status = check_provable(c, pool_name, link, pool.plan.cn_max);

	if (!status) {
		uint64_t start_ns = clock_now_ns(w.clock);

		status = repair_all(&pool, &w, link, out);
		out->took_ns = clock_now_ns(w.clock) - start_ns;
		if (status)
			status = tool_fail(c, "%s: repairing: %s (%s): run it again", pool_name,
					   status_sentence(status), status_name(status));
	}
	return status;
}

int repair_run(const struct command *c, const char *pool_name, struct repair *out)
{
	struct link *link;
	struct fab *fab;
	char text[512];
	int status = link_open(pool_name, LINK_LAZY, &link, text, sizeof(text));

	*out = (struct repair){0};
	if (status == FORGE_E_POOL_ABSENT)
		tool_absent(pool_name, text, sizeof(text));
	if (status)
		return tool_fail(c, "%s", text);
	status = link_connect(link, &fab);
	if (status) {
		status = tool_fail(c, "%s: %s", pool_name, status_sentence(status));
	} else {
		status = repair_over(c, pool_name, link, fab, out);
		fab_close(fab);
	}
	link_close(link);
	return status;
}

void repair_print(const struct repair *r)
{
	struct text took;
	char done[512];

	recover_report_print(&r->report, done, sizeof(done));
	printf("repair    dead compute nodes: %u; %s; in %s\n", r->dead_count, done,
	       text_duration(&took, r->took_ns));
	rebuild_report_print(&r->mended, done, sizeof(done));
	printf("mended    %s\n",
	       r->attached ? "nothing: damage is mended only while nobody is attached" : done);
}

json_t *repair_json(const struct repair *r)
{
	json_t *o = json_object(), *mended = json_object();

	json_object_set_new(o, "dead_compute_nodes", json_integer((json_int_t)r->dead_count));
	json_object_set_new(o, "took_us", json_integer((json_int_t)(r->took_ns / 1000)));
#define FIELD(name, sentence) \
	json_object_set_new(o, #name, json_integer((json_int_t)r->report.name));
	RECOVER_FIELDS(FIELD)
#undef FIELD
#define FIELD(name, sentence) \
	json_object_set_new(mended, #name, json_integer((json_int_t)r->mended.name));
	REBUILD_FIELDS(FIELD)
#undef FIELD
	json_object_set_new(o, "mended", mended);
	return o;
}
