/* run.c: running a batch of verbs, and the wait backend of plain threads. */
#include "run/side.h"

#include <poll.h>
#include <sched.h>

/* A pause is a few nanoseconds, except every so many, when somebody else may need this CPU. */
#define PAUSES_PER_YIELD 16

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb" ::: "memory");
#endif
}

int run_first_error(const struct fab_op *ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (unlikely(ops[i].status != FORGE_OK) && !(ops[i].flags & FAB_DETACHED))
			return ops[i].status;
	return FORGE_OK;
}

int run_batch(struct worker *w, struct fab_op *ops, unsigned n, run_step_fn step)
{
	uint32_t part_max = fab_caps(w->fab)->batch_ops_max;
	int status = FORGE_OK;

	assert(part_max > 0);
	while (n > 0 && status == FORGE_OK) {
		unsigned part = n < part_max ? n : part_max;

		fab_post(w->fab, ops, part);
		if (!w->wait->kicks || run_all_complete(ops, part))
			fab_kick(w->fab);
		while (!run_all_complete(ops, part))
			step(w, ops, part);
		status = run_first_error(ops, part);
		ops += part;
		n -= part;
	}
	for (unsigned i = 0; i < n; i++)
		if (!(ops[i].flags & FAB_DETACHED))
			ops[i].status = status;
	return status;
}

/* On a fabric that completes at post there is nothing to step for. */
static void step_never(struct worker *w, const struct fab_op *ops, unsigned n)
{
	assert(!"a fabric that completes at post left an op pending");
}

int run_and_wait(struct worker *w, struct fab_op *ops, unsigned n)
{
	if (!fab_caps(w->fab)->completes_at_post) {
		if (w->side)
			side_turn(w->side);
		return w->wait->run(w, ops, n);
	}
	return run_batch(w, ops, n, step_never);
}

void flow_pause(struct worker *w)
{
	if (unlikely(w->side))
		side_help(w->side, w);
	else
		w->wait->pause(w);
}

void run_wait_for(struct fab *const *fabs, unsigned n, uint64_t max_ns)
{
	struct pollfd sleeps[RUN_WAIT_FABS_MAX];
	const struct timespec patience = {.tv_nsec = (long)min_u64(max_ns, FAB_SLEEP_NS)};

	if (n > RUN_WAIT_FABS_MAX)
		return;
	for (unsigned i = 0; i < n; i++)
		if (!fab_sleep_on(fabs[i], &sleeps[i]))
			return;
	ppoll(sleeps, n, &patience, NULL);
}

/* Look; sleep where that is better, if the fabric can be slept on. */
static void step_poll(struct worker *w, const struct fab_op *ops, unsigned n)
{
	fab_poll(w->fab);
	cpu_relax();
	if (!fab_base(w->fab)->provider->sleep_on || run_all_complete(ops, n))
		return;
	fab_wait_in_vain(&w->waits, clock_now_ns(w->clock), FAB_SPIN_NS);
	if (w->waits.sleeps)
		run_wait_for(&w->fab, 1, FAB_SLEEP_NS);
}

static int poll_run(struct worker *w, struct fab_op *ops, unsigned n)
{
	int status = run_batch(w, ops, n, step_poll);

	fab_wait_found(&w->waits);
	return status;
}

static void poll_pause(struct worker *w)
{
	if (++w->pauses % PAUSES_PER_YIELD == 0)
		sched_yield();
	else
		cpu_relax();
}

static void poll_follow(struct worker *w, const struct run_waited *v)
{
	step_poll(w, v->ops, v->count);
}

const struct run_wait run_wait_poll = {.run = poll_run, .pause = poll_pause, .follow = poll_follow};

void worker_init(struct worker *w, struct fab *fab, const struct clock *clock, uint64_t seed)
{
	*w = (struct worker){.fab = fab, .wait = &run_wait_poll, .clock = clock};
	glance_init(&w->glance, clock);
	prng_seed(&w->prng, seed);
}
