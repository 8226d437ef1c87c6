/* cut.c: a provider in front of one that completes at post. */
#include "support/cut.h"

#include <assert.h>
#include <stdlib.h>

struct cut_fab {
	struct fab_base base;
	struct fab *inner;
	struct cut *cut;
	const struct cuts *cuts;
	uint32_t times;
};

static void cut_close(struct fab *f)
{
	struct cut_fab *c = (struct cut_fab *)f;

	fab_close(c->inner);
	free(c);
}

static int cut_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct cut_fab *)f)->inner, buf, bytes);
}

/* Can one more connection be made? */
static int may_connect(struct cut *cut)
{
	uint32_t left = atomic_load(&cut->connects_left);

	while (left > 1 && !atomic_compare_exchange_weak(&cut->connects_left, &left, left - 1))
		;
	return !atomic_load(&cut->is_down) && left != 1;
}

/* Is this the verb at which it is cut? */
static int is_last(struct cut *cut)
{
	uint64_t left = atomic_load(&cut->verbs_left);

	while (left && !atomic_compare_exchange_weak(&cut->verbs_left, &left, left - 1))
		;
	return left == 1;
}

static void play_interlude(const struct cut_fab *c)
{
	cut_interlude_fn interlude;

	if (!pthread_equal(pthread_self(), c->cuts->user) || !c->cut->interlude)
		return;
	interlude = c->cut->interlude;
	c->cut->interlude = NULL;
	interlude(c->cut->interlude_context);
}

static void cut_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct cut_fab *c = (struct cut_fab *)f;

	play_interlude(c);
	for (unsigned i = 0; i < n; i++) {
		int is_dead = atomic_load(&c->cut->times) != c->times;

		if (!is_dead && is_last(c->cut)) {
			cut_down(c->cut);
			if (atomic_load(&c->cut->last_lands))
				fab_post(c->inner, &ops[i], 1);
			is_dead = 1;
		}
		if (is_dead)
			ops[i].status = FORGE_E_NODE;
		else
			fab_post(c->inner, &ops[i], 1);
	}
}

static void cut_nothing(struct fab *f)
{
}

static const struct fab_provider provider = {
    .name = "cut",
    .close = cut_close,
    .reg = cut_reg,
    .post = cut_post,
    .kick = cut_nothing,
    .poll = cut_nothing,
};

struct cut *cuts_of(struct cuts *cuts, uint64_t pool_id)
{
	for (unsigned i = 0; i < CUTS_MAX; i++) {
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(&cuts->cut[i].pool_id, &there, pool_id) ||
		    there == pool_id)
			return &cuts->cut[i];
	}
	assert(!"more pools than switches");
	return NULL;
}

int cuts_wrap(void *context, uint64_t pool_id, struct fab *inner, struct fab **out)
{
	struct cuts *cuts = context;
	struct cut *cut = cuts_of(cuts, pool_id);
	struct cut_fab *c = calloc(1, sizeof(*c));

	assert(c && fab_caps(inner)->completes_at_post);
	if (pthread_equal(pthread_self(), cuts->user))
		atomic_fetch_add(&cuts->connects_by_user, 1);
	else {
		cut_interlude_fn interlude = atomic_exchange(&cut->connect_interlude, NULL);

		atomic_fetch_add(&cuts->connects_by_others, 1);
		if (interlude)
			interlude(cut->interlude_context);
	}
	c->times = atomic_load(&cut->times);
	if (!may_connect(cut)) {
		atomic_fetch_add(&cuts->connects_refused, 1);
		fab_close(inner);
		free(c);
		return FORGE_E_NODE;
	}
	c->base = (struct fab_base){.provider = &provider, .caps = *fab_caps(inner)};
	c->inner = inner;
	c->cut = cut;
	c->cuts = cuts;
	*out = (struct fab *)c;
	return 0;
}

void cut_down(struct cut *cut)
{
	atomic_store(&cut->is_down, 1);
	atomic_fetch_add(&cut->times, 1);
}

void cut_up(struct cut *cut)
{
	atomic_store(&cut->verbs_left, 0);
	atomic_store(&cut->is_down, 0);
}
