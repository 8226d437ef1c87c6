/* late.c: a queue of ops of which each poll runs one. */
#include "late.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct late_entry {
	struct fab_op copy;
	struct fab_op *op; /* NULL: detached */
	uint64_t post;	   /* which post it came with */
	unsigned char payload[FAB_DETACHED_BYTES_MAX];
};

struct late_fab {
	struct fab_base base;
	struct fab *inner;
	struct late_entry queue[LATE_QUEUE_OPS]; /* a ring */
	uint64_t posted, kicked, run;		 /* ops so far */
	uint64_t posts;
	unsigned kicks;
	uint64_t failed_post; /* the rest of it fails too */
	int failed_status;
};

static void late_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct late_fab *l = (struct late_fab *)f;

	assert(n <= LATE_BATCH_OPS_MAX);
	l->posts++;
	for (unsigned i = 0; i < n; i++) {
		struct late_entry *e = &l->queue[l->posted++ % LATE_QUEUE_OPS];

		assert(l->posted - l->run <= LATE_QUEUE_OPS);
		e->copy = ops[i];
		e->post = l->posts;
		if (ops[i].flags & FAB_DETACHED) {
			e->op = NULL;
			/* Run it undetached, so that its failure is seen. */
			e->copy.flags = 0;
			if (ops[i].code == FAB_WRITE) {
				memcpy(e->payload, ops[i].buf, ops[i].len);
				e->copy.buf = e->payload;
			}
		} else {
			e->op = &ops[i];
			ops[i].status = FAB_PENDING;
		}
	}
}

static void late_kick(struct fab *f)
{
	struct late_fab *l = (struct late_fab *)f;

	l->kicks += l->kicked != l->posted;
	l->kicked = l->posted;
}

static void late_poll(struct fab *f)
{
	struct late_fab *l = (struct late_fab *)f;
	struct late_entry *e;

	if (l->run == l->kicked)
		return;
	e = &l->queue[l->run++ % LATE_QUEUE_OPS];
	if (l->failed_post == e->post)
		e->copy.status = l->failed_status;
	else
		fab_post(l->inner, &e->copy, 1);
	if (e->copy.status < 0) {
		l->failed_post = e->post;
		l->failed_status = e->copy.status;
	}
	if (e->op) {
		e->op->old = e->copy.old;
		e->op->status = e->copy.status;
	}
}

static int late_reg(struct fab *f, void *buf, size_t bytes)
{
	return FORGE_OK;
}

static void late_close(struct fab *f)
{
	struct late_fab *l = (struct late_fab *)f;

	fab_close(l->inner);
	free(l);
}

static const struct fab_provider late_provider = {
    .name = "late",
    .close = late_close,
    .reg = late_reg,
    .post = late_post,
    .kick = late_kick,
    .poll = late_poll,
};

int late_open(struct fab *inner, struct fab **out)
{
	struct late_fab *l = calloc(1, sizeof(*l));

	if (!l)
		return FORGE_E_NO_MEMORY;
	l->base = (struct fab_base){.provider = &late_provider, .caps = *fab_caps(inner)};
	l->base.caps.batch_ops_max = LATE_BATCH_OPS_MAX;
	l->base.caps.completes_at_post = 0;
	l->inner = inner;
	*out = (struct fab *)l;
	return FORGE_OK;
}

unsigned late_kicks(const struct fab *f)
{
	return ((const struct late_fab *)f)->kicks;
}
