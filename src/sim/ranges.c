/* ranges.c: which memory a step touched, and whether two steps may change places. */
#include "sim/core.h"

static uint64_t distance(const struct sim_range *a, const struct sim_range *b)
{
	if (a->lo > b->hi)
		return a->lo - b->hi;
	return b->lo > a->hi ? b->lo - a->hi : 0;
}

static void swallow(struct sim_range *a, const struct sim_range *b)
{
	a->lo = min_u64(a->lo, b->lo);
	a->hi = max_u64(a->hi, b->hi);
	a->writes |= b->writes;
}

/* When the array is full the new range joins the nearest one. */
void sim_ranges_add(struct sim_ranges *r, struct sim_range added)
{
	uint32_t nearest = 0;

	if (added.lo == added.hi)
		return;
	for (uint32_t i = 0; i < r->count; i++) {
		struct sim_range *old = &r->range[i];

		if (added.lo >= old->lo && added.hi <= old->hi && old->writes == added.writes)
			return;
		if (distance(old, &added) < distance(&r->range[nearest], &added))
			nearest = i;
	}
	if (r->count < SIM_RANGES_MAX)
		r->range[r->count++] = added;
	else
		swallow(&r->range[nearest], &added);
}

static bool overlap(const struct sim_range *a, const struct sim_range *b)
{
	return a->lo < b->hi && b->lo < a->hi;
}

bool sim_ranges_overlap(const struct sim_ranges *r, struct sim_range other)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (overlap(&r->range[i], &other))
			return true;
	return false;
}

bool sim_ranges_conflict(const struct sim_ranges *a, const struct sim_ranges *b)
{
	for (uint32_t i = 0; i < a->count; i++)
		for (uint32_t j = 0; j < b->count; j++)
			if ((a->range[i].writes || b->range[j].writes) &&
			    overlap(&a->range[i], &b->range[j]))
				return true;
	return false;
}

/*
 * May a and b, which follow each other in a run in this order, not be exchanged without a trace?
 *  - steps of one worker are in program order;
 *  - verbs conflict when they overlap and one of them writes (a CAS that failed only reads, and
 *    a pause "reads" what its worker is waiting to see changed);
 *  - the real-time order of operations on a key is visible to the linearizability checker: the
 *    end of one against the start of another;
 *  - a forced pause is what is left when everything before it has happened;
 *  - local state and verb counts of one CN, and whether a CN is alive, are shared variables too.
 */
bool sim_events_dependent(const struct sim_event *a, const struct sim_event *b)
{
	if (a->worker == b->worker || b->forced)
		return true;
	if ((a->begun & b->ended) || (a->ended & b->begun))
		return true;
	if (a->cn == b->cn) {
		if (a->resumed_shared && b->resumed_shared)
			return true;
		if (a->counted && b->counted)
			return true;
	}
	if (a->cns_died | b->cns_died) {
		if (a->cns_died & (b->cns_seen | b->cns_died) || b->cns_died & a->cns_seen)
			return true;
		if (a->kind == SIM_EVENT_PAUSE || b->kind == SIM_EVENT_PAUSE)
			return true;
	}
	return sim_ranges_conflict(&a->touched, &b->touched);
}
