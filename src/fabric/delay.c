/*
 * delay.c: a queue of posts, each of which is handed on when its time has come.
 *
 * A post is on its way from its kick on.  All take equally long, so the first of the queue is
 * always the next one due, and ops take effect in the order of their posts.  They take effect when
 * they complete; a sender cannot tell that from an earlier moment.  A detached op is copied, and so
 * cuts its post in several entries; when one of them fails, what is left of the same post fails
 * too.
 */
#include "fabric/delay.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct delay_entry {
	struct fab_op *ops; /* the sender's, or a copy */
	unsigned ops_count;
	uint64_t due_ns;
	uint64_t post; /* which post it came with */
};

/* A detached op has an entry and one of these, at the same place of its ring. */
struct delay_copy {
	struct fab_op op;
	uint8_t payload[FAB_DETACHED_BYTES_MAX];
};

struct delay_fab {
	struct fab_base base;
	struct fab *inner;
	const struct clock *clock;
	uint64_t latency_ns;
	uint64_t posts;
	uint64_t failed_post;	     /* the rest of it fails too */
	int failed_status;	     /* with this */
	uint64_t put, kicked, taken; /* entries so far; a ring */
	struct delay_entry queue[DELAY_POSTS_MAX];
	struct delay_copy copies[DELAY_POSTS_MAX];
};

/* Let the oldest entry take effect. */
static void land(struct delay_fab *d)
{
	struct delay_entry *e = &d->queue[d->taken++ % DELAY_POSTS_MAX];

	if (unlikely(d->failed_post == e->post)) {
		for (unsigned i = 0; i < e->ops_count; i++)
			e->ops[i].status = d->failed_status;
		return;
	}
	fab_post(d->inner, e->ops, e->ops_count);
	/* The last op of a run fails if any of it does. */
	int status = e->ops[e->ops_count - 1].status;

	if (unlikely(status < 0)) {
		d->failed_post = e->post;
		d->failed_status = status;
	}
}

static int is_due(const struct delay_fab *d, uint64_t now_ns)
{
	return d->taken != d->kicked && now_ns >= d->queue[d->taken % DELAY_POSTS_MAX].due_ns;
}

static void delay_kick(struct fab *f)
{
	struct delay_fab *d = (struct delay_fab *)f;

	if (d->kicked == d->put)
		return;
	uint64_t due_ns = clock_now_ns(d->clock) + d->latency_ns;

	while (d->kicked != d->put)
		d->queue[d->kicked++ % DELAY_POSTS_MAX].due_ns = due_ns;
}

static struct delay_entry *put(struct delay_fab *d)
{
	if (unlikely(d->put - d->taken == DELAY_POSTS_MAX)) {
		delay_kick((struct fab *)d);
		while (d->put - d->taken == DELAY_POSTS_MAX)
			if (is_due(d, clock_now_ns(d->clock)))
				land(d);
	}
	struct delay_entry *e = &d->queue[d->put++ % DELAY_POSTS_MAX];

	e->post = d->posts;
	return e;
}

static void put_detached(struct delay_fab *d, const struct fab_op *op)
{
	struct delay_entry *e = put(d);
	struct delay_copy *copy = &d->copies[e - d->queue];

	copy->op = *op;
	/* The sender looks at no status, but the rest of its post depends on it. */
	copy->op.flags = 0;
	if (op->code == FAB_WRITE) {
		memcpy(copy->payload, op->buf, op->len);
		copy->op.buf = copy->payload;
	}
	e->ops = &copy->op;
	e->ops_count = 1;
}

static void delay_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct delay_fab *d = (struct delay_fab *)f;

	d->posts++;
	while (n > 0) {
		unsigned run = 0;

		if (ops->flags & FAB_DETACHED) {
			put_detached(d, ops);
			run = 1;
		} else {
			for (; run < n && !(ops[run].flags & FAB_DETACHED); run++)
				ops[run].status = FAB_PENDING;
			struct delay_entry *e = put(d);

			e->ops = ops;
			e->ops_count = run;
		}
		ops += run;
		n -= run;
	}
}

static void delay_poll(struct fab *f)
{
	struct delay_fab *d = (struct delay_fab *)f;

	if (d->taken == d->kicked)
		return;
	uint64_t now_ns = clock_now_ns(d->clock);

	while (is_due(d, now_ns))
		land(d);
}

static int delay_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct delay_fab *)f)->inner, buf, bytes);
}

static void delay_close(struct fab *f)
{
	struct delay_fab *d = (struct delay_fab *)f;

	/* What is on its way is lost: detached ops, or all in a process that is not to act. */
	fab_close(d->inner);
	free(d);
}

static const struct fab_provider delay_provider = {
    .name = "delay",
    .close = delay_close,
    .reg = delay_reg,
    .post = delay_post,
    .kick = delay_kick,
    .poll = delay_poll,
};

int delay_open(struct fab *inner, uint64_t latency_ns, const struct clock *clock, struct fab **out)
{
	struct delay_fab *d = fab_caps(inner)->completes_at_post ? calloc(1, sizeof(*d)) : NULL;

	if (!d) {
		int status = fab_caps(inner)->completes_at_post ? FORGE_E_NO_MEMORY : FORGE_E_INVAL;

		fab_close(inner);
		return status;
	}
	d->base = (struct fab_base){.provider = &delay_provider, .caps = *fab_caps(inner)};
	d->base.caps.completes_at_post = 0;
	d->inner = inner;
	d->clock = clock;
	d->latency_ns = latency_ns;
	*out = (struct fab *)d;
	return FORGE_OK;
}
