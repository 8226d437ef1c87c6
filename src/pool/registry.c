/* registry.c: joining, leaving, publishing. */
#include "pool/registry.h"

int registry_read(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
		  struct layout_registry *lines)
{
	struct fab_op op = fab_read(purpose, pool->plan.registry_offset, lines,
				    pool->plan.cn_max * LAYOUT_REGISTRY_BYTES);

	return flow_run(w, &op, 1);
}

/* One free line; *won says whether it is ours now. */
static MAY_WAIT int take_line(const struct pool *pool, struct worker *w, uint32_t pid, uint32_t cn,
			      uint64_t seen, struct registry_member *out, int *won)
{
	uint64_t id = registry_pack(REGISTRY_LIVE, registry_incarnation(seen) + 1, pid);
	struct fab_op cas = fab_cas(FAB_CONTROL, plan_registry_address(&pool->plan, cn), seen, id);
	int status = flow_run(w, &cas, 1);

	*won = fab_cas_won(&cas);
	if (*won)
		*out = (struct registry_member){.cn = cn, .id = id};
	return status;
}

int registry_join(const struct pool *pool, struct worker *w, uint32_t pid,
		  struct layout_registry *lines, const struct liveness *alive,
		  struct registry_member *out)
{
	int status = registry_read(pool, w, FAB_CONTROL, lines);

	for (uint32_t cn = 0; cn < pool->plan.cn_max && !status; cn++) {
		int late = alive && !pool_rule(pool, RULE_JOIN_LOCKS_FIRST), won = 0;

		/* The lock first: a line that says LIVE without one is a dead node's. */
		if (registry_state(lines[cn].id) != REGISTRY_FREE ||
		    (alive && !late && alive->hold(alive->context, cn)))
			continue;
		status = take_line(pool, w, pid, cn, lines[cn].id, out, &won);
		if (won && late)
			alive->hold(alive->context, cn);
		if (won)
			return 0;
		if (alive && !late)
			alive->release(alive->context, cn);
	}
	return status ? status : FORGE_E_FULL_REGISTRY;
}

int registry_leave(const struct pool *pool, struct worker *w, const struct registry_member *m)
{
	uint64_t gone = registry_pack(REGISTRY_FREE, registry_incarnation(m->id), 0);
	struct fab_op cas =
	    fab_cas(FAB_CONTROL, plan_registry_address(&pool->plan, m->cn), m->id, gone);

	return flow_run(w, &cas, 1);
}

int registry_publish(const struct pool *pool, struct worker *w, const struct registry_member *m,
		     const struct registry_news *news)
{
	/* flushed, flush generation, poll time and worker count lie side by side. */
	static_assert(offsetof(struct layout_registry, zero) -
			      offsetof(struct layout_registry, flushed) ==
			  sizeof(struct registry_news),
		      "one WRITE publishes the news");
	struct fab_op op = fab_write(FAB_HOTNESS,
				     plan_registry_address(&pool->plan, m->cn) +
					 offsetof(struct layout_registry, flushed),
				     news, sizeof(*news));

	return flow_run(w, &op, 1);
}
