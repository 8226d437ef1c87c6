/* jitter.c: see jitter.h. */
#include "jitter.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "run/run.h"

/* One pause in so many verbs. */
#define YIELD_ONE_IN 48u
#define SLEEP_ONE_IN 6000u
#define SLEEP_NS_MAX 1500000u /* beyond the poll interval and the time a map is trusted */

struct jitter {
	struct fab_base base;
	struct fab *below;
	struct prng prng;
	_Atomic uint64_t *doom;
};

static void maybe_pause(struct jitter *j)
{
	if (prng_below(&j->prng, SLEEP_ONE_IN) == 0) {
		struct timespec t = {.tv_nsec = (long)prng_below(&j->prng, SLEEP_NS_MAX)};

		nanosleep(&t, NULL);
	} else if (prng_below(&j->prng, YIELD_ONE_IN) == 0) {
		sched_yield();
	}
}

static void maybe_die(struct jitter *j)
{
	uint64_t left = j->doom ? atomic_load(j->doom) : 0;

	if (left == 0)
		return;
	atomic_store(j->doom, left - 1);
	if (left == 1)
		kill(getpid(), SIGKILL);
}

static void wait_for(struct jitter *j, const struct fab_op *op)
{
	if (fab_caps(j->below)->completes_at_post)
		return;
	fab_kick(j->below);
	while (!(op->flags & FAB_DETACHED) && op->status == FAB_PENDING) {
		fab_poll(j->below);
		/* Whoever is to answer may need this processor. */
		if (op->status == FAB_PENDING)
			run_wait_for(&j->below, 1, FAB_SLEEP_NS);
	}
}

static void jitter_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct jitter *j = (struct jitter *)f;

	for (unsigned i = 0; i < n; i++) {
		maybe_pause(j);
		if (ops[i].code != FAB_READ)
			maybe_die(j);
		fab_post(j->below, &ops[i], 1);
		wait_for(j, &ops[i]);
		if ((ops[i].flags & FAB_DETACHED) || ops[i].status == 0)
			continue;
		/* The rest of a batch fails with its first bad op. */
		for (unsigned k = i + 1; k < n; k++)
			ops[k].status = ops[i].status;
		return;
	}
}

static void jitter_close(struct fab *f)
{
	free(f);
}

static int jitter_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct jitter *)f)->below, buf, bytes);
}

static void jitter_kick(struct fab *f)
{
	fab_kick(((struct jitter *)f)->below);
}

static void jitter_poll(struct fab *f)
{
	fab_poll(((struct jitter *)f)->below);
}

static const struct fab_provider jitter_provider = {
    .name = "jitter",
    .close = jitter_close,
    .reg = jitter_reg,
    .post = jitter_post,
    .kick = jitter_kick,
    .poll = jitter_poll,
};

struct fab *jitter_open(struct fab *below, uint64_t seed, _Atomic uint64_t *doom)
{
	struct jitter *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->base = (struct fab_base){&jitter_provider, *fab_caps(below)};
	j->base.caps.completes_at_post = 1;
	j->below = below;
	j->doom = doom;
	prng_seed(&j->prng, seed);
	return (struct fab *)j;
}
