/*
 * fault.c: losing the node, a part of a WRITE, or a detached op, on purpose.
 *
 * A batch is cut into runs that pass unchanged and the one op that does not.  The op at which the
 * node is lost is posted as a copy, so that its sender can be told FORGE_E_NODE whatever happened;
 * over a provider that completes later it stays pending, and its buffer in use, until the copy
 * has landed.
 */
#include "fabric/fault.h"

#include <stdlib.h>

#include "base/compiler.h"

struct fault_fab {
	struct fab_base base;
	struct fab *inner;
	struct fault_plan *plan;
	struct fab_op last;    /* the copy of the last op that reaches the node */
	struct fab_op *sender; /* whose copy it is, while that is pending */
};

static void fail_op(struct fab_op *op)
{
	if (!(op->flags & FAB_DETACHED))
		op->status = FORGE_E_NODE;
}

static uint32_t part_bytes(const struct fab_op *op, uint32_t words)
{
	uint64_t end = ((op->raddr & ~(uint64_t)7) + (uint64_t)words * 8) - op->raddr;

	return words == 0 ? 0 : (uint32_t)min_u64(end, op->len);
}

static void settle_last(struct fault_fab *t)
{
	if (!t->sender || t->last.status == FAB_PENDING)
		return;
	t->sender->status = FORGE_E_NODE;
	t->sender = NULL;
}

static void post_last(struct fault_fab *t, struct fab_op *op)
{
	const struct fault_plan *p = t->plan;

	t->last = *op;
	if (p->landing == FAULT_LANDS_PART && op->code == FAB_WRITE) {
		t->last.len = part_bytes(op, p->part_words);
	} else if (p->landing != FAULT_LANDS_WHOLE) {
		fail_op(op);
		return;
	}
	if (op->flags & FAB_DETACHED) {
		fab_post(t->inner, &t->last, 1);
		return;
	}
	op->status = FAB_PENDING;
	t->sender = op;
	fab_post(t->inner, &t->last, 1);
	settle_last(t);
}

/* How many of the n ops pass unchanged before one that does not, or all. */
static unsigned count_passing(struct fault_plan *p, const struct fab_op *ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t detached = p->detached + !!(ops[i].flags & FAB_DETACHED);

		if (p->lost || p->verbs + 1 == p->lose_at)
			return i;
		if (detached != p->detached && detached == p->drop_detached_at)
			return i;
		p->verbs++;
		p->detached = detached;
	}
	return n;
}

static void fault_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct fault_fab *t = (struct fault_fab *)f;
	struct fault_plan *p = t->plan;

	while (n > 0) {
		unsigned passing = count_passing(p, ops, n);

		if (passing > 0)
			fab_post(t->inner, ops, passing);
		ops += passing;
		n -= passing;
		if (n == 0)
			break;
		p->verbs++;
		if (ops->flags & FAB_DETACHED)
			p->detached++;
		if (p->lost) {
			fail_op(ops);
		} else if (p->verbs == p->lose_at) {
			p->lost = 1;
			post_last(t, ops);
		}
		/* Otherwise it is a detached op, and nothing is how it is dropped. */
		ops++;
		n--;
	}
}

static void fault_kick(struct fab *f)
{
	struct fault_fab *t = (struct fault_fab *)f;

	fab_kick(t->inner);
	settle_last(t);
}

static void fault_poll(struct fab *f)
{
	struct fault_fab *t = (struct fault_fab *)f;

	fab_poll(t->inner);
	settle_last(t);
}

static int fault_sleep_on(struct fab *f, struct pollfd *out)
{
	return fab_sleep_on(((struct fault_fab *)f)->inner, out);
}

static int fault_reg(struct fab *f, void *buf, size_t bytes)
{
	struct fault_fab *t = (struct fault_fab *)f;

	return t->plan->lost ? FORGE_E_NODE : fab_reg(t->inner, buf, bytes);
}

static void fault_close(struct fab *f)
{
	struct fault_fab *t = (struct fault_fab *)f;

	assert(!t->sender);
	fab_close(t->inner);
	free(t);
}

static const struct fab_provider fault_provider = {
    .name = "fault",
    .close = fault_close,
    .reg = fault_reg,
    .post = fault_post,
    .kick = fault_kick,
    .poll = fault_poll,
    .sleep_on = fault_sleep_on,
};

int fault_open(struct fab *inner, struct fault_plan *plan, struct fab **out)
{
	struct fault_fab *t = malloc(sizeof(*t));

	if (!t) {
		fab_close(inner);
		return FORGE_E_NO_MEMORY;
	}
	*t = (struct fault_fab){
	    .base = {.provider = &fault_provider, .caps = *fab_caps(inner)},
	    .inner = inner,
	    .plan = plan,
	};
	*out = (struct fab *)t;
	return FORGE_OK;
}
