/*
 * wrap.h: what the wrapping providers share: an inner connection, and seeing each op complete.
 *
 * Who may call: trace, count and fault.  A wrapper owns its inner connection and closes it.  Over
 * a provider that completes later, a wrapper keeps the addresses of the pending ops and looks at
 * them after each post, kick and poll it passes on; the owner of an op must therefore look for
 * completion after calling the wrapper and not the inner connection.
 */
#ifndef FORGE_FABRIC_WRAP_H
#define FORGE_FABRIC_WRAP_H

#include "fabric/fabric.h"

/* The first member of a wrapper's connection. */
struct wrap {
	struct fab_base base;
	struct fab *inner;
	struct fab_op **pending; /* in the order of their posts */
	unsigned pending_count;
	unsigned pending_capacity;
};

/*
 * Called once per op: when it has completed, or, for a detached op, right after its post, while
 * it still belongs to the caller.
 */
typedef void (*wrap_observe_fn)(struct wrap *, const struct fab_op *op);

/* Fill in w around inner, which it owns from now on. */
void wrap_init(struct wrap *w, const struct fab_provider *provider, struct fab *inner);

/* Close inner and free what w holds, but not w itself. */
void wrap_finish(struct wrap *w);

/*
 * Make room for n more pending ops before anything is posted.  When memory is short the ops fail
 * with FORGE_E_NO_MEMORY, unposted, and the answer is 0.
 */
int wrap_reserve(struct wrap *w, struct fab_op *ops, unsigned n);

/* Observe ops that have completed and keep the others until they do. */
void wrap_watch(struct wrap *w, struct fab_op *ops, unsigned n, wrap_observe_fn observe);
void wrap_sweep(struct wrap *w, wrap_observe_fn observe);

/* reg and sleep_on of a wrapper. */
int wrap_reg(struct fab *f, void *buf, size_t bytes);
int wrap_sleep_on(struct fab *f, struct pollfd *out);

/* post, kick and poll of a wrapper which changes nothing, inlined with the observer it names. */
static inline void wrap_post(struct wrap *w, struct fab_op *ops, unsigned n,
			     wrap_observe_fn observe)
{
	if (w->base.caps.completes_at_post) {
		fab_post(w->inner, ops, n);
		for (unsigned i = 0; i < n; i++)
			observe(w, &ops[i]);
		return;
	}
	if (!wrap_reserve(w, ops, n))
		return;
	fab_post(w->inner, ops, n);
	wrap_watch(w, ops, n, observe);
}

static inline void wrap_kick(struct wrap *w, wrap_observe_fn observe)
{
	fab_kick(w->inner);
	if (w->pending_count > 0)
		wrap_sweep(w, observe);
}

static inline void wrap_poll(struct wrap *w, wrap_observe_fn observe)
{
	fab_poll(w->inner);
	if (w->pending_count > 0)
		wrap_sweep(w, observe);
}

#endif
