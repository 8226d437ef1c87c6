/*
 * wait.c: what a worker can do from inside: wait for verbs, pause, begin and end operations.
 *
 * All of it runs on the worker's fiber, between two steps, and leaves word in struct sim_worker
 * of what the worker waits for; sched.c does it.  The observer is a worker without a fiber, on
 * the caller's stack, whose verbs are executed at once.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/core.h"

#define STACK_BYTES_DEFAULT (64u << 10)

static uint64_t worker_now_ns(const struct clock *c)
{
	const struct sim_worker *w =
	    (const struct sim_worker *)((const char *)c - offsetof(struct sim_worker, clock));
	const struct sim *s = w->sim;
	uint64_t ticks = s->config.clock_own ? w->step_count : s->step_count;

	if (w == &s->observer)
		ticks = s->step_count + w->step_count; /* later than everybody */
	else
		ticks += s->reset_steps;
	return s->start_ns + ticks * s->config.tick_ns;
}

static struct sim_worker *sim_worker_of(const struct worker *w)
{
	return w->wait_context;
}

static void park(struct sim_worker *w, enum sim_worker_state state)
{
	w->state = state;
	fiber_yield();
}

static void enqueue(struct sim_worker *w, struct fab_op *op, bool refused)
{
	struct sim_verb *v = sim_queue_at(w, w->queue_count++);
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
	int status = w->state == SIM_UNWINDING ? FORGE_E_NODE : 0;

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

	if (w->state == SIM_UNWINDING)
		return;
	w->paused_at_step = w->sim->step_count;
	park(w, SIM_PAUSED);
}

static const struct run_wait sched_wait = {.run = wait_run, .pause = wait_pause};

uint32_t sim_op_begin(struct worker *worker, enum hist_kind kind, uint64_t key, uint64_t value)
{
	struct sim_worker *w = sim_worker_of(worker);

	if (w == &w->sim->observer)
		return history_invoke(&w->sim->history, w->index, kind, key, value);
	if (w->state == SIM_UNWINDING)
		return HIST_NONE;
	w->begin = (struct hist_op){.kind = (uint8_t)kind, .key = key, .value = value};
	park(w, SIM_BEGINNING);
	return w->begun_index;
}

void sim_op_decide(struct worker *worker, uint32_t op_index, uint64_t seen, uint64_t value)
{
	history_decide(&sim_worker_of(worker)->sim->history, op_index, seen, value);
}

void sim_op_end(struct worker *worker, uint32_t op_index, enum hist_result result, uint64_t value)
{
	struct sim_worker *w = sim_worker_of(worker);
	struct sim *s = w->sim;

	if (op_index == HIST_NONE || w->state == SIM_UNWINDING)
		return;
	history_return(&s->history, op_index, result, value);
	/* A missed get constrains nothing, so nobody can tell when it ended. */
	if (s->history.ops[op_index].kind != HIST_GET || result == HIST_OK || s->lin.exact)
		s->event.ended |= sim_key_bits(s->history.ops[op_index].key);
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

void sim_call_host(struct sim *s)
{
	if (s->current && s->current->state != SIM_UNWINDING)
		park(s->current, SIM_CALLING);
}

void sim_touch_cell(struct sim *s, uint32_t cell, bool writes)
{
	uint64_t address = SIM_CELLS_ADDRESS + 8 * (uint64_t)cell;
	struct sim_range range = {.lo = address, .hi = address + 8, .writes = writes};

	assert(cell < SIM_CELLS_MAX);
	if (s->current && s->current->state == SIM_UNWINDING)
		return;
	sim_ranges_add(&s->event.touched, range);
	if (writes)
		sim_announce(s, s->current, range);
	else if (s->current)
		sim_ranges_add(&s->current->watched, range);
}

/* --- the observer --------------------------------------------------------------------------- */

static int observer_run(struct worker *worker, struct fab_op *ops, unsigned n)
{
	struct sim_worker *w = sim_worker_of(worker);
	struct sim *s = w->sim;
	bool refused = false;

	for (unsigned i = 0; i < n; i++) {
		struct sim_verb v = {.op = &ops[i], .piece_count = 1};
		struct sim_effect e;

		refused = refused || !sim_memory_accepts(&s->memory, &ops[i]);
		v.refused = refused;
		sim_verb_step(&s->memory, &v, &e);
		ops[i].status = refused ? FORGE_E_BOUNDS : 0;
		w->step_count++;
		if (s->trace)
			sim_trace_step(s, w, &v, &e);
	}
	return refused ? FORGE_E_BOUNDS : 0;
}

/* Only time can pass: nobody else runs. */
static void observer_pause(struct worker *worker)
{
	sim_worker_of(worker)->step_count++;
}

static const struct run_wait observer_wait = {.run = observer_run, .pause = observer_pause};

struct worker *sim_observer(struct sim *s)
{
	return &s->observer.worker;
}

/* --- set-up --------------------------------------------------------------------------------- */

int sim_worker_create(struct sim *s, struct sim_worker *w, uint32_t index)
{
	size_t stack_bytes = s->ops->stack_bytes;

	w->sim = s;
	w->index = index;
	w->clock.now_ns = worker_now_ns;
	if (w == &s->observer) {
		sim_worker_reset(w);
		return 0;
	}
	w->cn = s->ops->worker_cn[index];
	w->fiber = fiber_create(worker_main, w, stack_bytes ? stack_bytes : STACK_BYTES_DEFAULT);
	return w->fiber ? 0 : FORGE_E_NO_MEMORY;
}

void sim_unwind(struct sim *s)
{
	for (uint32_t i = 0; s->ops->unwinds && i < s->ops->worker_count; i++) {
		struct sim_worker *w = &s->workers[i];

		if (!w->started || fiber_done(w->fiber))
			continue;
		w->state = SIM_UNWINDING;
		s->current = w;
		fiber_resume(w->fiber);
		s->current = NULL;
		assert(fiber_done(w->fiber));
	}
}

void sim_worker_reset(struct sim_worker *w)
{
	struct sim *s = w->sim;

	worker_init(&w->worker, (struct fab *)&s->fab, &w->clock,
		    sim_mix(s->config.seed, w->index + 1));
	w->worker.wait = w == &s->observer ? &observer_wait : &sched_wait;
	w->worker.wait_context = w;
	w->worker.index = w->index;
	w->queue_head = w->queue_count = w->wait_left = 0;
	w->started = false;
	w->verbs_posted = w->step_count = 0;
	w->watched.count = 0;
	w->watch_hit = false;
	w->forced_count = 0;
	if (w->fiber)
		fiber_reset(w->fiber, worker_main, w);
}
