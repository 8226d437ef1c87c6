/*
 * locks.c: see locks.h.  A lock is a cell beside the memory: taking one that is free and giving
 * one back change it, and so does the death of the holder; failing to take one reads it.
 */
#include "sim/locks.h"

static int locks_hold(void *context, uint32_t id)
{
	struct sim_process *p = context;
	struct sim_locks *l = p->locks;
	bool taken;

	assert(id < SIM_LOCKS_MAX);
	sim_call_host(l->sim);
	taken = l->holder[id] == 0;
	sim_touch_cell(l->sim, id, taken);
	if (!taken)
		return FORGE_E_AGAIN;
	l->holder[id] = (uint8_t)(1 + p->cn);
	return 0;
}

static void locks_release(void *context, uint32_t id)
{
	struct sim_process *p = context;
	struct sim_locks *l = p->locks;

	assert(id < SIM_LOCKS_MAX);
	sim_call_host(l->sim);
	/* Who is being unwound lost it when it was killed. */
	if (l->holder[id] != 1 + p->cn)
		return;
	sim_touch_cell(l->sim, id, true);
	l->holder[id] = 0;
}

void sim_locks_init(struct sim_locks *l, struct sim *s)
{
	*l = (struct sim_locks){.sim = s};
	for (uint32_t i = 0; i < ARRAY_COUNT(l->processes); i++) {
		struct sim_process *p = &l->processes[i];

		*p = (struct sim_process){.locks = l, .cn = i};
		p->liveness = (struct liveness){p, locks_hold, locks_release};
	}
}

const struct liveness *sim_locks_liveness(struct sim_locks *l, uint32_t cn)
{
	assert(cn < ARRAY_COUNT(l->processes));
	return &l->processes[cn].liveness;
}

void sim_locks_drop(struct sim_locks *l, uint32_t cn)
{
	for (uint32_t id = 0; id < SIM_LOCKS_MAX; id++)
		if (l->holder[id] == 1 + cn) {
			l->holder[id] = 0;
			sim_touch_cell(l->sim, id, true);
		}
}

bool sim_locks_is_held(const struct sim_locks *l, uint32_t id)
{
	return l->holder[id] != 0;
}
