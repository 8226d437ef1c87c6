/* wrap.c: the pending ops of a wrapper over a provider that completes later. */
#include "fabric/wrap.h"

#include <stdlib.h>

#include "base/compiler.h"

void wrap_init(struct wrap *w, const struct fab_provider *provider, struct fab *inner)
{
	*w = (struct wrap){
	    .base = {.provider = provider, .caps = *fab_caps(inner)},
	    .inner = inner,
	};
}

void wrap_finish(struct wrap *w)
{
	fab_close(w->inner);
	free(w->pending);
}

int wrap_reserve(struct wrap *w, struct fab_op *ops, unsigned n)
{
	unsigned needed = w->pending_count + n;
	unsigned capacity = w->pending_capacity > 0 ? w->pending_capacity : 64;
	struct fab_op **pending;

	if (needed <= w->pending_capacity)
		return 1;
	while (capacity < needed)
		capacity *= 2;
	pending = realloc(w->pending, capacity * sizeof(*pending));
	if (!pending) {
		for (unsigned i = 0; i < n; i++)
			if (!(ops[i].flags & FAB_DETACHED))
				ops[i].status = FORGE_E_NO_MEMORY;
		return 0;
	}
	w->pending = pending;
	w->pending_capacity = capacity;
	return 1;
}

void wrap_watch(struct wrap *w, struct fab_op *ops, unsigned n, wrap_observe_fn observe)
{
	assert(w->pending_count + n <= w->pending_capacity);
	for (unsigned i = 0; i < n; i++) {
		if ((ops[i].flags & FAB_DETACHED) || ops[i].status != FAB_PENDING)
			observe(w, &ops[i]);
		else
			w->pending[w->pending_count++] = &ops[i];
	}
}

void wrap_sweep(struct wrap *w, wrap_observe_fn observe)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < w->pending_count; i++) {
		struct fab_op *op = w->pending[i];

		if (op->status == FAB_PENDING)
			w->pending[kept++] = op;
		else
			observe(w, op);
	}
	w->pending_count = kept;
}

int wrap_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct wrap *)f)->inner, buf, bytes);
}

int wrap_sleep_on(struct fab *f, struct pollfd *out)
{
	return fab_sleep_on(((struct wrap *)f)->inner, out);
}
