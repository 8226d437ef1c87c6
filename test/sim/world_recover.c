/*
 * world_recover.c: death and recovery in worlds: joining, leaving, waiting for a death, recovering,
 * and what must hold when all who died have been recovered.
 */
#include <stdio.h>
#include <string.h>

#include "cache_world.h"

/* Looks for the death that a script waits for; a pause of the scheduler ends by it. */
#define LOOKS_MAX 8u
/* Attempts of a joiner that finds every id taken, as client/client.c makes them. */
#define JOINS_MAX 8u

static void recovered(struct cache_world *cw, int status, const struct recover_report *report,
		      uint32_t dead_count)
{
	if (status)
		world_note(cw, status, "recovery", 0);
	recover_report_merge(&cw->recovered, report);
	cw->nodes_recovered += dead_count;
}

static void recover(struct cache_world *cw, struct worker *w, int repair)
{
	const struct liveness *alive = sim_locks_liveness(&cw->locks, sim_worker_cn(w));
	struct recover_report report = {0};
	uint32_t dead_count = 0;
	int status = repair ? recover_repair(&cw->pool, w, alive, &report, &dead_count)
			    : recover_dead_open(&cw->pool, w, alive, &report, &dead_count);

	recovered(cw, status, &report, dead_count);
}

static void join(struct cache_world *cw, struct worker *w)
{
	uint32_t cn = sim_worker_cn(w);
	int status = FORGE_E_FULL_REGISTRY;

	for (unsigned i = 0; i < JOINS_MAX && status == FORGE_E_FULL_REGISTRY; i++) {
		if (i)
			flow_pause(w);
		recover(cw, w, 0);
		status = world_open_cn(cw, w, cn);
	}
	cw->joined[cn] = status == 0;
	if (status && status != FORGE_E_FULL_REGISTRY)
		world_note(cw, status, "joining", 0);
}

static void leave(struct cache_world *cw, struct world_worker *ww, struct worker *w)
{
	uint32_t cn = sim_worker_cn(w);

	if (cw->left[cn] || (cw->spec->late >> cn & 1 && !cw->joined[cn]))
		return; /* it found no id to join with */
	int status = cache_drain(&ww->cache);

	if (status)
		world_note(cw, status, "leaving", 0);
	cn_leave(&cw->cns[cn], w);
	cw->left[cn] = true;
}

void world_recovery_word(struct cache_world *cw, struct world_worker *ww, struct worker *w,
			 char verb, uint32_t cn)
{
	switch (verb) {
	case 'J':
		join(cw, w);
		return;
	case 'L':
		leave(cw, ww, w);
		return;
	case 'W':
		for (unsigned i = 0; i < LOOKS_MAX && !sim_worker_sees_killed(w, cn); i++)
			flow_pause(w);
		return;
	default:
		recover(cw, w, verb == 'X');
	}
}

void world_forget_joined(struct cache_world *cw)
{
	for (uint32_t i = 0; i < cw->cn_count; i++) {
		if (!cw->joined[i])
			continue;
		cn_memory_destroy(&cw->cns[i]);
		lane_fini(&cw->lanes[i]);
		cache_fini(&cw->visitors[i]);
		for (uint32_t k = 0; k < cw->worker_count; k++)
			if (cw->spec->workers[k].cn == i)
				cache_fini(&cw->workers[k].cache);
		cw->joined[i] = false;
	}
}

int world_last_recovery(struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	const struct liveness *alive = sim_locks_liveness(&cw->locks, SIM_LOCKS_OBSERVER);
	struct recover_report report = {0};
	uint32_t dead_count = 0;
	int status =
	    cw->spec->last_repairs
		? recover_repair(&cw->pool, sim_observer(s), alive, &report, &dead_count)
		: recover_dead_open(&cw->pool, sim_observer(s), alive, &report, &dead_count);

	recovered(cw, status, &report, dead_count);
	if (status)
		snprintf(why, why_bytes, "the last recovery says %s", status_name(status));
	return status;
}

int world_nothing_to_mend(struct cache_world *cw, struct sim *s, char *why, size_t why_bytes)
{
	const struct liveness *alive = sim_locks_liveness(&cw->locks, SIM_LOCKS_OBSERVER);
	struct recover_report report = {0};
	uint32_t dead_count = 0;
	int status = recover_repair(&cw->pool, sim_observer(s), alive, &report, &dead_count);

	if (status || (dead_count == 0 && recover_report_sum(&report) == 0))
		return status;
	int n = snprintf(why, why_bytes,
			 "%u nodes and more to mend after the last recovery: ", dead_count);

	if (n > 0 && (size_t)n < why_bytes)
		recover_report_print(&report, why + n, why_bytes - (size_t)n);
	return FORGE_E_CORRUPT;
}
