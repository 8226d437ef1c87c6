/*
 * sched.c: one run of a world, step by step.
 *
 * Two parties take turns on one thread: the loop in sim_run(), which executes steps, and the
 * worker's fiber, which resume() lets run until it waits again.  All scheduling state changes in
 * the loop or in the wait backend below (wait_run, wait_pause, sim_op_begin), which runs on the
 * fiber's stack.  A worker that has posted verbs executes them before its next begin, pause or
 * end takes effect, so each worker is one sequence of steps.
 */
#include "sim/core.h"

#include <stdlib.h>
#include <string.h>

#define STACK_BYTES_DEFAULT (64u << 10)
#define STEPS_MAX_DEFAULT   20000u
#define TICK_NS_DEFAULT	    1000u
#define CLOCK_START_NS	    1000000000u
/* Steps of others after which a pause that is not strict may end. */
#define PAUSE_STEPS 12u

uint64_t sim_worker_now_ns(const struct clock *c)
{
	const struct sim_worker *w =
	    (const struct sim_worker *)((const char *)c - offsetof(struct sim_worker, clock));
	const struct sim *s = w->sim;
	uint64_t ticks = s->config.clock_own ? w->step_count : s->step_count;

	return CLOCK_START_NS + ticks * s->config.tick_ns;
}

/* --- on the fiber's stack -------------------------------------------------------------- */

static struct sim_worker *sim_worker_of(const struct worker *w)
{
	return w->wait_context;
}

static struct sim_verb *queue_at(struct sim_worker *w, uint32_t offset)
{
	return &w->queue[(w->queue_head + offset) % SIM_QUEUE_MAX];
}

static void park(struct sim_worker *w, enum sim_worker_state state)
{
	w->state = state;
	fiber_yield();
}

static void enqueue(struct sim_worker *w, struct fab_op *op, bool refused)
{
	struct sim_verb *v = queue_at(w, w->queue_count++);
	uint64_t random = sim_mix(sim_mix(w->sim->config.seed, w->index), w->verbs_posted++);

	v->op = op;
	v->refused = refused;
	v->detached = op->flags & FAB_DETACHED;
	if (v->detached) {
		assert(op->len <= FAB_DETACHED_BYTES_MAX && op->code != FAB_READ);
		v->copy = *op;
		v->op = &v->copy;
		if (op->code == FAB_WRITE && op->len) {
			memcpy(v->data, op->buf, op->len);
			v->copy.buf = v->data;
		}
		op->status = 0;
	} else {
		op->status = FAB_PENDING;
	}
	sim_verb_cut(v, w->sim->config.tear, refused ? 0 : random);
	if (refused)
		v->piece_count = 1;
}

/* Post a part of a batch and wait for it; 0 or the first error. */
static int run_part(struct sim_worker *w, struct fab_op *ops, unsigned n)
{
	bool refused = false;

	if (w->queue_count + n > SIM_QUEUE_MAX) {
		w->wait_left = w->queue_count;
		park(w, SIM_WAITING);
	}
	for (unsigned i = 0; i < n; i++) {
		refused = refused || !sim_memory_accepts(&w->sim->memory, &ops[i]);
		enqueue(w, &ops[i], refused);
		if (!(ops[i].flags & FAB_DETACHED))
			w->wait_left = w->queue_count;
	}
	if (w->wait_left)
		park(w, SIM_WAITING);
	for (unsigned i = 0; i < n; i++)
		if (ops[i].status)
			return ops[i].status;
	return 0;
}

static int wait_run(struct worker *worker, struct fab_op *ops, unsigned n)
{
	struct sim_worker *w = sim_worker_of(worker);
	int status = 0;

	for (unsigned done = 0, part; done < n; done += part) {
		part = (unsigned)min_u64(n - done, SIM_BATCH_OPS_MAX);
		if (!status) {
			status = run_part(w, ops + done, part);
			continue;
		}
		for (unsigned i = done; i < done + part; i++)
			ops[i].status = status;
	}
	return status;
}

static void wait_pause(struct worker *worker)
{
	struct sim_worker *w = sim_worker_of(worker);

	w->paused_at_step = w->sim->step_count;
	park(w, SIM_PAUSED);
}

static const struct run_wait sim_wait = {.run = wait_run, .pause = wait_pause};

uint32_t sim_op_begin(struct worker *worker, enum hist_kind kind, uint64_t key, uint64_t value)
{
	struct sim_worker *w = sim_worker_of(worker);

	w->begin = (struct hist_op){.kind = (uint8_t)kind, .key = key, .value = value};
	park(w, SIM_BEGINNING);
	return w->begun_index;
}

void sim_op_end(struct worker *worker, uint32_t op_index, enum hist_result result, uint64_t value)
{
	struct sim_worker *w = sim_worker_of(worker);
	struct sim *s = w->sim;

	if (op_index == HIST_NONE)
		return;
	history_return(&s->history, op_index, result, value);
	/* A missed get constrains nothing, so nobody can tell when it ended. */
	if (s->history.ops[op_index].kind != HIST_GET || result == HIST_OK)
		s->event.ended |= (uint64_t)1 << (s->history.ops[op_index].key & 63);
	if (s->trace) {
		char text[160];

		history_print_op(&s->history.ops[op_index], text, sizeof(text));
		sim_trace_note(s, w->index, "end %s", text);
	}
}

static void worker_main(void *arg)
{
	struct sim_worker *w = arg;

	w->sim->ops->worker(w->sim->context, &w->worker);
	w->state = SIM_DONE;
}

struct fiber *sim_worker_fiber(struct sim_worker *w)
{
	size_t stack_bytes = w->sim->ops->stack_bytes;

	return fiber_create(worker_main, w, stack_bytes ? stack_bytes : STACK_BYTES_DEFAULT);
}

struct sim *sim_of(const struct worker *w)
{
	return sim_worker_of(w)->sim;
}

uint32_t sim_worker_cn(const struct worker *w)
{
	return sim_worker_of(w)->cn;
}

bool sim_worker_sees_killed(struct worker *worker, uint32_t cn)
{
	struct sim *s = sim_of(worker);

	assert(cn < SIM_CNS_MAX);
	s->event.cns_seen |= 1u << cn;
	return s->cns[cn].killed;
}

/* --- in the loop ------------------------------------------------------------------------ */

/* Let the worker's own code run until it waits, in part of the step being executed. */
static void resume(struct sim *s, struct sim_worker *w)
{
	s->event.resumed = true;
	s->event.resumed_shared = s->ops->cn_state_shared;
	w->state = SIM_RUNNING;
	s->current = w;
	fiber_resume(w->fiber);
	s->current = NULL;
	assert(w->state != SIM_RUNNING);
}

/* Tell the paused that bytes they have read are others now. */
static void announce(struct sim *s, const struct sim_worker *by, struct sim_range range)
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
	struct sim_verb *v = queue_at(w, 0);
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
		announce(s, w, e.range);
	if (s->trace)
		sim_trace_step(s, w, v, &e);
	return v->piece_index == v->piece_count;
}

static void finish_verb(struct sim_worker *w)
{
	struct sim_verb *v = queue_at(w, 0);

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
	s->event.begun = (uint64_t)1 << (w->begin.key & 63);
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
	const struct sim_verb *v = queue_at(w, 0);

	return w->queue_count && !v->refused && v->op->code == FAB_WRITE &&
	       sim_op_word_count(v->op) > 1 && v->piece_index == 0;
}

/* If a longer WRITE is next, land those of its pieces that the mask names. */
static void land_part(struct sim *s, struct sim_worker *w, uint8_t piece_count, uint64_t cut,
		      uint32_t pieces)
{
	struct sim_verb *v = queue_at(w, 0);

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
	if (w->queue_count || w->state == SIM_BEGINNING)
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
	} else {
		assert(w->state == SIM_PAUSED);
		step_pause(s, w, forced);
	}
	if (s->event.resumed_shared)
		announce_all(s, w, 1u << w->cn);
}

static void reset_worker(struct sim *s, struct sim_worker *w)
{
	worker_init(&w->worker, (struct fab *)&s->fab, &w->clock,
		    sim_mix(s->config.seed, w->index + 1));
	w->worker.wait = &sim_wait;
	w->worker.wait_context = w;
	w->worker.index = w->index;
	w->queue_head = w->queue_count = w->wait_left = 0;
	w->verbs_posted = w->step_count = 0;
	w->watched.count = 0;
	w->watch_hit = false;
	w->forced_count = 0;
	fiber_reset(w->fiber, worker_main, w);
}

static void reset(struct sim *s, const struct sim_config *config)
{
	s->config = *config;
	if (!s->config.tick_ns)
		s->config.tick_ns = TICK_NS_DEFAULT;
	if (!s->config.steps_max)
		s->config.steps_max = STEPS_MAX_DEFAULT;
	assert(s->config.kill_count <= SIM_KILLS_MAX);
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
		reset_worker(s, &s->workers[i]);
	if (s->ops->reset)
		s->ops->reset(s->context, s);
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
