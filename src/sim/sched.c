/*
 * sched.c: one run of a world, step by step.
 *
 * Two parties take turns on one thread: the loop in sim_run(), which executes steps, and the
 * worker's fiber, which resume() lets run until it waits again.  All scheduling state changes in
 * the loop or in the wait backend (wait.c), which runs on the fiber's stack.  A worker that has
 * posted verbs executes them before its next begin, pause or end takes effect, so each worker is
 * one sequence of steps.
 */
#include "sim/core.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_MAX_DEFAULT 20000u
/* Steps of others after which a pause that is not strict may end. */
#define PAUSE_STEPS 12u

/* --- in the loop ------------------------------------------------------------------------ */

/* Let the worker's own code run until it waits, in part of the step being executed. */
static void resume(struct sim *s, struct sim_worker *w)
{
	s->event.resumed = true;
	s->event.resumed_shared = s->ops->cn_state_shared;
	w->state = SIM_RUNNING;
	w->started = true;
	s->current = w;
	fiber_resume(w->fiber);
	s->current = NULL;
	assert(w->state != SIM_RUNNING);
}

void sim_announce(struct sim *s, const struct sim_worker *by, struct sim_range range)
{
	for (uint32_t i = 0; i < s->ops->worker_count; i++) {
		struct sim_worker *w = &s->workers[i];

		if (w != by && !w->watch_hit && sim_ranges_overlap(&w->watched, range))
			w->watch_hit = true;
	}
}

static void announce_all(struct sim *s, const struct sim_worker *by, uint32_t cn_mask)
{
	for (uint32_t i = 0; i < s->ops->worker_count; i++)
		if (&s->workers[i] != by && cn_mask >> s->workers[i].cn & 1)
			s->workers[i].watch_hit = true;
}

/* Execute one piece of the verb at the head; true if that finished the verb. */
static bool execute_piece(struct sim *s, struct sim_worker *w)
{
	struct sim_verb *v = sim_queue_at(w, 0);
	struct sim_effect e;

	sim_verb_step(&s->memory, v, &e);
	s->hash = sim_mix(s->hash, (uint64_t)w->index << 56 | (uint64_t)v->op->code << 48 |
				       (uint64_t)v->piece_index << 40 | v->op->len);
	s->hash = sim_mix(sim_mix(s->hash, v->op->raddr), e.digest);
	sim_ranges_add(&s->event.touched, e.range);
	if (v->op->code != FAB_WRITE) {
		struct sim_range seen = e.range;

		seen.writes = false;
		sim_ranges_add(&w->watched, seen);
	}
	if (e.changed)
		sim_announce(s, w, e.range);
	if (s->trace)
		sim_trace_step(s, w, v, &e);
	return v->piece_index == v->piece_count;
}

static void finish_verb(struct sim_worker *w)
{
	struct sim_verb *v = sim_queue_at(w, 0);

	v->op->status = v->refused ? FORGE_E_BOUNDS : 0;
	w->queue_head = (w->queue_head + 1) % SIM_QUEUE_MAX;
	w->queue_count--;
	if (w->wait_left)
		w->wait_left--;
}

static void step_verb(struct sim *s, struct sim_worker *w)
{
	s->cns[w->cn].verb_count++;
	if (!execute_piece(s, w))
		return;
	finish_verb(w);
	if (w->state == SIM_WAITING && w->wait_left == 0)
		resume(s, w);
}

static void step_begin(struct sim *s, struct sim_worker *w)
{
	s->event.kind = SIM_EVENT_BEGIN;
	s->event.begun = sim_key_bits(w->begin.key);
	w->begun_index =
	    history_invoke(&s->history, w->index, w->begin.kind, w->begin.key, w->begin.value);
	s->hash = sim_mix(s->hash, (uint64_t)w->index << 56 | 0xb);
	if (s->trace && w->begun_index != HIST_NONE) {
		char text[160];

		history_print_op(&s->history.ops[w->begun_index], text, sizeof(text));
		sim_trace_note(s, w->index, "begin %s", text);
	}
	resume(s, w);
}

static void step_call(struct sim *s, struct sim_worker *w)
{
	s->event.kind = SIM_EVENT_CALL;
	s->hash = sim_mix(s->hash, (uint64_t)w->index << 56 | 0xc);
	resume(s, w);
}

static void step_pause(struct sim *s, struct sim_worker *w, bool forced)
{
	s->event.kind = SIM_EVENT_PAUSE;
	s->event.forced = forced;
	s->event.touched = w->watched;
	w->watched.count = 0;
	w->watch_hit = false;
	w->forced_count += forced;
	s->forced_count += forced;
	s->hash = sim_mix(s->hash, (uint64_t)w->index << 56 | 0xa);
	if (s->trace)
		sim_trace_note(s, w->index, "pause ends%s", forced ? ", nobody else can run" : "");
	resume(s, w);
}

/* --- kills -------------------------------------------------------------------------------- */

/* Execute the whole verb at the head, whatever is left of it. */
static void land_verb(struct sim *s, struct sim_worker *w)
{
	while (!execute_piece(s, w))
		;
	finish_verb(w);
}

/* Is a WRITE next that is longer than a word, and has not begun? */
static bool is_writing(struct sim_worker *w)
{
	const struct sim_verb *v = sim_queue_at(w, 0);

	return w->queue_count && !v->refused && v->op->code == FAB_WRITE &&
	       sim_op_word_count(v->op) > 1 && v->piece_index == 0;
}

/* If a longer WRITE is next, land those of its pieces that the mask names. */
static void land_part(struct sim *s, struct sim_worker *w, uint8_t piece_count, uint64_t cut,
		      uint32_t pieces)
{
	struct sim_verb *v = sim_queue_at(w, 0);

	if (!is_writing(w))
		return;
	v->piece_count = piece_count;
	v->cut = cut;
	for (uint8_t i = 0; i < piece_count; i++) {
		v->piece_index = i;
		if (pieces >> i & 1)
			execute_piece(s, w);
	}
}

static void land(struct sim *s, struct sim_worker *w, uint32_t landing)
{
	uint64_t random, left;

	switch (landing) {
	case SIM_LAND_NONE:
		return;
	case SIM_LAND_WHOLE:
		while (w->queue_count)
			land_verb(s, w);
		return;
	case SIM_LAND_LOWER:
	case SIM_LAND_UPPER:
		land_part(s, w, 2, 0, landing == SIM_LAND_LOWER ? 1 : 2);
		return;
	default:
		random = sim_mix(sim_mix(landing, w->index), s->config.seed);
		for (left = random % (w->queue_count + 1); left; left--)
			land_verb(s, w);
		random = sim_mix(random, 1);
		land_part(s, w, 2, random | 1, (uint32_t)(random >> 32) % 3);
	}
}

static void kill_cn(struct sim *s, uint32_t kill_index)
{
	const struct sim_kill *k = &s->config.kills[kill_index];
	bool writing = false;

	s->kills_done |= 1u << kill_index;
	if (s->cns[k->cn].killed)
		return;
	s->cns[k->cn].killed = true;
	s->killed_count++;
	s->event.cns_died |= 1u << k->cn;
	s->hash = sim_mix(s->hash, (uint64_t)k->cn << 56 | 0xd);
	for (uint32_t i = 0; i < s->ops->worker_count; i++) {
		struct sim_worker *w = &s->workers[i];

		if (w->cn != k->cn)
			continue;
		if (s->trace)
			sim_trace_note(s, i, "killed with its CN %u", k->cn);
		writing = writing || is_writing(w);
		land(s, w, k->landing);
		if (w->state != SIM_DONE)
			w->state = SIM_DEAD;
		w->queue_count = 0;
	}
	s->killed_writing_count += writing;
	announce_all(s, NULL, UINT32_MAX);
	if (s->ops->killed)
		s->ops->killed(s->context, k->cn);
}

/* The kill that takes the place of the CN's next verb, or -1. */
static int kill_due(const struct sim *s, uint32_t cn)
{
	for (uint32_t i = 0; i < s->config.kill_count; i++) {
		const struct sim_kill *k = &s->config.kills[i];

		if (k->cn == cn && !(s->kills_done >> i & 1) &&
		    s->cns[cn].verb_count >= k->after_verbs)
			return (int)i;
	}
	return -1;
}

static bool kill_is_planned(const struct sim *s, uint32_t cn)
{
	for (uint32_t i = 0; i < s->config.kill_count; i++)
		if (s->config.kills[i].cn == cn)
			return true;
	return false;
}

/* At the end, kill the CNs that have run exactly as far as their plan says. */
static void kill_at_end(struct sim *s)
{
	for (uint32_t i = 0; i < s->config.kill_count; i++) {
		const struct sim_kill *k = &s->config.kills[i];

		if (!(s->kills_done >> i & 1) && s->cns[k->cn].verb_count == k->after_verbs)
			kill_cn(s, i);
	}
}

/* --- the loop ------------------------------------------------------------------------------ */

static bool can_step(const struct sim *s, const struct sim_worker *w)
{
	if (w->state == SIM_DEAD)
		return false;
	if (w->queue_count || w->state == SIM_BEGINNING || w->state == SIM_CALLING)
		return true;
	if (w->state != SIM_PAUSED)
		return false;
	if (w->watch_hit)
		return true;
	return !s->config.pause_strict && s->step_count - w->paused_at_step >= PAUSE_STEPS;
}

/*
 * The workers that can step.  When all that are left pause in vain, the one that was forced on
 * least often is: a rule that no exchange of independent steps can influence.
 */
static uint32_t find_enabled(const struct sim *s, bool *forced)
{
	const struct sim_worker *first = NULL;
	uint32_t enabled = 0;

	for (uint32_t i = 0; i < s->ops->worker_count; i++) {
		const struct sim_worker *w = &s->workers[i];

		if (can_step(s, w))
			enabled |= 1u << i;
		else if (w->state == SIM_PAUSED &&
			 (!first || w->forced_count < first->forced_count))
			first = w;
	}
	*forced = !enabled && first;
	return *forced ? 1u << first->index : enabled;
}

static void step(struct sim *s, struct sim_worker *w, bool forced)
{
	int kill;

	s->event = (struct sim_event){.worker = (uint8_t)w->index,
				      .cn = (uint8_t)w->cn,
				      .kind = SIM_EVENT_VERB,
				      .counted = kill_is_planned(s, w->cn)};
	s->step_count++;
	w->step_count++;
	if (w->queue_count) {
		kill = kill_due(s, w->cn);
		if (kill >= 0) {
			s->event.kind = SIM_EVENT_KILL;
			kill_cn(s, (uint32_t)kill);
		} else {
			step_verb(s, w);
		}
	} else if (w->state == SIM_BEGINNING) {
		step_begin(s, w);
	} else if (w->state == SIM_CALLING) {
		step_call(s, w);
	} else {
		assert(w->state == SIM_PAUSED);
		step_pause(s, w, forced);
	}
	if (s->event.resumed_shared)
		announce_all(s, w, 1u << w->cn);
}

static void reset(struct sim *s, const struct sim_config *config)
{
	s->config = *config;
	if (!s->config.tick_ns)
		s->config.tick_ns = SIM_TICK_NS_DEFAULT;
	if (!s->config.steps_max)
		s->config.steps_max = STEPS_MAX_DEFAULT;
	assert(s->config.kill_count <= SIM_KILLS_MAX);
	sim_unwind(s);
	sim_memory_restore(&s->memory);
	history_reset(&s->history);
	memset(s->cns, 0, sizeof(s->cns));
	s->kills_done = 0;
	s->step_count = s->forced_count = 0;
	s->killed_count = s->killed_writing_count = 0;
	s->hash = 0;
	s->status = 0;
	s->why[0] = '\0';
	s->event = (struct sim_event){0};
	for (uint32_t i = 0; i < s->ops->worker_count; i++)
		sim_worker_reset(&s->workers[i]);
	sim_worker_reset(&s->observer);
	if (s->ops->reset)
		s->ops->reset(s->context, s);
	s->reset_steps = s->observer.step_count;
	for (uint32_t i = 0; i < s->ops->worker_count; i++)
		resume(s, &s->workers[i]);
}

static void check(struct sim *s)
{
	if (s->ops->check)
		s->status = s->ops->check(s->context, s, s->why, sizeof(s->why));
	if (!s->status)
		s->status = lin_check(&s->lin, &s->history, s->why, sizeof(s->why));
}

static int grow_choices(struct sim *s)
{
	uint32_t capacity = s->choice_capacity ? s->choice_capacity * 2 : 1024;
	uint8_t *choices = realloc(s->choices, capacity);

	if (!choices)
		return FORGE_E_NO_MEMORY;
	s->choices = choices;
	s->choice_capacity = capacity;
	return 0;
}

enum sim_end sim_run(struct sim *s, const struct sim_config *config, struct sim_strategy *strategy)
{
	uint32_t enabled;
	bool forced;
	int pick;

	reset(s, config);
	while ((enabled = find_enabled(s, &forced)) != 0) {
		if (s->step_count == s->config.steps_max) {
			s->status = FORGE_E_AGAIN;
			snprintf(s->why, sizeof(s->why), "no end after %u steps", s->step_count);
			return SIM_END_CHECKED;
		}
		if (s->step_count == s->choice_capacity && grow_choices(s)) {
			s->status = FORGE_E_NO_MEMORY;
			return SIM_END_CHECKED;
		}
		pick = strategy->pick(strategy, s, enabled);
		if (pick == SIM_ABANDON)
			return SIM_END_ABANDONED;
		assert(enabled >> pick & 1);
		s->choices[s->step_count] = (uint8_t)pick;
		step(s, &s->workers[pick], forced);
		if (strategy->stepped)
			strategy->stepped(strategy, s);
	}
	kill_at_end(s);
	check(s);
	return SIM_END_CHECKED;
}
