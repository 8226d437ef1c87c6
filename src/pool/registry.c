/* registry.c: joining, leaving, publishing. */
#include "pool/registry.h"

int registry_read(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
		  struct layout_registry *lines)
{
	struct fab_op op = fab_read(purpose, pool->plan.registry_offset, lines,
				    pool->plan.cn_max * LAYOUT_REGISTRY_BYTES);

	return flow_run(w, &op, 1);
}

int registry_join(const struct pool *pool, struct worker *w, uint32_t pid,
		  struct layout_registry *lines, struct registry_member *out)
{
	int status = registry_read(pool, w, FAB_CONTROL, lines);

	if (status)
		return status;
	for (uint32_t cn = 0; cn < pool->plan.cn_max; cn++) {
		uint64_t seen = lines[cn].id;

		if (registry_state(seen) != REGISTRY_FREE)
			continue;
		uint64_t id = registry_pack(REGISTRY_LIVE, registry_incarnation(seen) + 1, pid);
		struct fab_op cas =
		    fab_cas(FAB_CONTROL, plan_registry_address(&pool->plan, cn), seen, id);

		status = flow_run(w, &cas, 1);
		if (status)
			return status;
		if (fab_cas_won(&cas)) {
			*out = (struct registry_member){.cn = cn, .id = id};
			return 0;
		}
	}
	return FORGE_E_FULL_REGISTRY;
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
