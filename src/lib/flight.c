/* flight.c: submitting, running and collecting operations. */
#include "lib/flight.h"

#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

/* ---- lists -------------------------------------------------------------------------------- */

static void list_init(struct op_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void list_put(struct op_list *l, struct forge_op *op)
{
	op->next = NULL;
	*l->end = op;
	l->end = &op->next;
}

static struct forge_op *list_take(struct op_list *l)
{
	struct forge_op *op = l->first;

	if (op) {
		l->first = op->next;
		if (!l->first)
			l->end = &l->first;
		op->next = NULL;
	}
	return op;
}

/* The flow that keeps the value of an op that is done; NULL: none does. */
static struct op_flow *op_flow(const struct forge_op *op)
{
	return (struct op_flow *)(uintptr_t)op->opaque[0];
}

/*
 * opaque[1] of an op from its submission until it is given back.  Handed over twice, its link would
 * be in two lists at once.  The op's address is part of it, so that a copy is not taken for out,
 * nor, but by a chance of 2^-64, an op that was never initialised.
 */
static uint64_t out_mark(const struct forge_op *op)
{
	return (uint64_t)(uintptr_t)op ^ UINT64_C(0x6f75742d6f75742d);
}

static int is_out(const struct forge_op *op)
{
	return op->opaque[1] == out_mark(op);
}

/* ---- flows -------------------------------------------------------------------------------- */

/* A flow for an op of that kind; NULL: not now. */
static struct op_flow *flow_get(struct forge_session *s, int waited)
{
	struct flight *fl = &s->flight;
	struct op_flow *f = (struct op_flow *)flows_take(&fl->flows);

	if (!f && waited && !fl->own_busy) {
		fl->own_busy = 1;
		f = &fl->own;
	}
	if (f)
		f->session = s;
	return f;
}

static void flow_drop(struct flight *fl, struct op_flow *f)
{
	f->op = NULL;
	if (f == &fl->own) {
		fl->own_busy = 0;
		f->flow.view->lead.wait = &run_wait_poll;
		return;
	}
	flows_put(&f->flow);
}

/* ---- running ------------------------------------------------------------------------------ */

/* Bring the value of an op where it outlives its flow. */
static void keep_value(struct forge_session *s, struct forge_op *op)
{
	void *kept = arena_take(&s->flight.arena, op->found.bytes);

	if (!kept) {
		op->status = FORGE_E_NO_MEMORY;
		op->found = (struct forge_value){0};
		return;
	}
	memcpy(kept, op->found.data, op->found.bytes);
	op->found.data = kept;
}

static void done(struct flight *fl, struct forge_op *op, struct op_flow *lender)
{
	op->opaque[0] = (uintptr_t)lender; /* the deadline has served */
	list_put(&fl->done, op);
	fl->done_count++;
}

static void finish(struct op_flow *f)
{
	struct forge_session *s = f->session;
	struct flight *fl = &s->flight;
	struct forge_op *op = f->op;
	int lends = op_lends(op);

	if (f->waited) {
		if (lends)
			keep_value(s, op);
		fl->waited_left--;
	} else {
		done(fl, op, lends ? f : NULL);
	}
	if (f->waited || !lends)
		flow_drop(fl, f);
}

static MAY_WAIT void flow_main(struct flow *flow)
{
	struct op_flow *f = (struct op_flow *)flow;

	op_execute(f->session, flow->view, f->op);
	finish(f);
}

/* Begin ops of a list as long as there are flows, and, where they end at once, until `enough`. */
static void begin(struct forge_session *s, struct op_list *list, int waited, size_t enough)
{
	struct flight *fl = &s->flight;

	while (list->first && (fl->flows.loop || fl->done_count < enough)) {
		struct op_flow *f = flow_get(s, waited);

		if (!f)
			return;
		f->op = list_take(list);
		f->waited = (uint8_t)waited;
		if (flows_start(&f->flow, flow_main)) {
			f->op->status = FORGE_E_NO_MEMORY;
			finish(f);
		}
	}
}

/* Nothing can run because not one flow could be made: say so instead of waiting for ever. */
static void fail_stranded(struct flight *fl)
{
	while (fl->flows.flow_max == 0 && fl->submitted.first) {
		struct forge_op *op = list_take(&fl->submitted);

		op->status = FORGE_E_NO_MEMORY;
		done(fl, op, NULL);
	}
}

static void go_on(struct forge_session *s, size_t enough)
{
	struct flight *fl = &s->flight;

	begin(s, &fl->waited, 1, SIZE_MAX);
	begin(s, &fl->submitted, 0, enough);
	fail_stranded(fl);
	flows_turn(&fl->flows);
}

void flight_begin(struct flight *fl)
{
	arena_reset(&fl->arena);
}

void flight_run(struct forge_session *s, struct forge_op *ops, size_t n)
{
	struct flight *fl = &s->flight;

	if (!fl->flows.loop) {
		for (size_t i = 0; i < n; i++) {
			op_begin(s, &ops[i]);
			op_execute(s, s->view, &ops[i]);
			if (op_lends(&ops[i]))
				keep_value(s, &ops[i]);
		}
		return;
	}
	for (size_t i = 0; i < n; i++) {
		op_begin(s, &ops[i]);
		list_put(&fl->waited, &ops[i]);
	}
	fl->waited_left = n;
	while (fl->waited_left > 0) {
		go_on(s, SIZE_MAX);
		fiber_loop_wait(fl->flows.loop, FAB_SLEEP_NS);
	}
}

int op_wait(struct forge_session *s, struct forge_op *op)
{
	if (unlikely(s->flight.flows.active > 0)) {
		/* Those may hold what this one needs, e.g. be getting a chunk for both. */
		flight_begin(&s->flight);
		flight_run(s, op, 1);
	} else {
		op_begin(s, op);
		op_execute(s, s->view, op);
	}
	return op->status < 0 ? lib_fail_op(s, op) : op->status;
}

/* ---- the calls ---------------------------------------------------------------------------- */

static int check_ops(struct forge_session *s, const struct forge_op *ops, size_t n)
{
	int status = lib_check_session(s);

	if (!status && !ops && n > 0)
		status = lib_fail(FORGE_E_INVAL, "the array of operations is NULL");
	for (size_t i = 0; !status && i < n; i++)
		if (unlikely(is_out(&ops[i])))
			status = lib_fail(FORGE_E_INVAL,
					  "operation %zu of %zu was submitted before and is still "
					  "out: wait until forge_poll() gives it back",
					  i + 1, n);
	return status;
}

int forge_run(struct forge_session *s, struct forge_op *ops, size_t n)
{
	int status = check_ops(s, ops, n);

	if (status)
		return status;
	flight_begin(&s->flight);
	flight_run(s, ops, n);
	return 0;
}

int forge_submit(struct forge_session *s, struct forge_op *ops, size_t n)
{
	int status = check_ops(s, ops, n);

	if (status)
		return status;
	for (size_t i = 0; i < n; i++) {
		op_begin(s, &ops[i]);
		ops[i].opaque[1] = out_mark(&ops[i]);
		list_put(&s->flight.submitted, &ops[i]);
	}
	s->flight.pending += n;
	return 0;
}

/* Values given out by the last poll are void: their flows may work again. */
static void take_back(struct flight *fl)
{
	while (fl->lent) {
		struct op_flow *f = fl->lent;

		fl->lent = (struct op_flow *)f->flow.next;
		flow_drop(fl, f);
	}
}

static void wait_for_one(struct forge_session *s, unsigned max, uint64_t wait_us)
{
	const struct flight *fl = &s->flight;
	const struct worker *w = &s->view->lead;
	uint64_t start_us = wait_us && wait_us != FORGE_WAIT_FOREVER ? worker_now_us(w) : 0;
	uint64_t waited_us = 0;

	do {
		go_on(s, max);
		if (fl->done.first || fl->pending == 0 || wait_us == 0)
			return;
		if (fl->flows.loop)
			fiber_loop_wait(fl->flows.loop,
					min_u64(wait_us - waited_us, FAB_SLEEP_NS / 1000) * 1000);
		if (wait_us != FORGE_WAIT_FOREVER)
			waited_us = worker_now_us(w) - start_us;
	} while (waited_us < wait_us);
}

int forge_poll(struct forge_session *s, struct forge_op **ops, unsigned max, uint64_t wait_us)
{
	int status = lib_check_session(s);

	if (!status && !ops && max > 0)
		status = lib_fail(FORGE_E_INVAL, "the array for operations that are done is NULL");
	if (status)
		return status;
	struct flight *fl = &s->flight;
	unsigned n = 0;

	take_back(fl);
	if (max > INT32_MAX)
		max = INT32_MAX;
	if (max == 0)
		return forge_rest(s);
	wait_for_one(s, max, wait_us);
	for (; n < max && fl->done.first; n++) {
		ops[n] = list_take(&fl->done);
		ops[n]->opaque[1] = 0;
		struct op_flow *lender = op_flow(ops[n]);

		if (lender) {
			lender->flow.next = (struct flow *)fl->lent;
			fl->lent = lender;
		}
	}
	fl->done_count -= n;
	fl->pending -= n;
	return (int)n;
}

/*
 * First the flows: one that needs the chunk which is fetched on the side brings that on, but the
 * side has no way to bring on a flow.
 */
int forge_rest(struct forge_session *s)
{
	int status = lib_check_session(s);

	if (status)
		return status;
	flows_rest(&s->flight.flows);
	status = session_tend(s->session);
	return status < 0 ? lib_fail_op(s, &(struct forge_op){.status = status}) : 0;
}

size_t forge_pending(const struct forge_session *s)
{
	return s && s->session ? s->flight.pending : 0;
}

/* ---- beginning and end -------------------------------------------------------------------- */

int flight_open(struct forge_session *s, unsigned flow_max)
{
	struct flight *fl = &s->flight;

	*fl = (struct flight){
	    .own = {.flow = {.set = &fl->flows, .view = s->view}, .session = s},
	};
	list_init(&fl->waited);
	list_init(&fl->submitted);
	list_init(&fl->done);
	return flows_open(&fl->flows, s->session, flow_max, sizeof(struct op_flow));
}

void flight_close(struct forge_session *s, int is_forked)
{
	struct flight *fl = &s->flight;

	while (!is_forked && (fl->flows.active > 0 || fl->submitted.first || fl->done.first)) {
		struct forge_op *done_ops;

		/* Whoever closes the session does not look at values any more. */
		while (forge_poll(s, &done_ops, 1, 0) > 0)
			;
	}
	flows_close(&fl->flows);
	arena_destroy(&fl->arena);
}
