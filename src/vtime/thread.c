/* thread.c: virtual threads: parking them while their verbs are out, and the time they work. */
#include "vtime/inside.h"

static uint64_t ns_of(uint64_t ps)
{
	return VT_CLOCK_START_NS + ps / 1000;
}

static uint64_t thread_now_ns(const struct clock *c)
{
	const struct vt_thread *t = (const struct vt_thread *)c;

	const struct vt_cn *cn = &t->world->cns[t->cn];
	uint64_t now_ns = ns_of(t->world->now_ps + t->debt_ps);

	if (likely(!cn->drift_ppm && !cn->offset_ns))
		return now_ns;
	/* Signed, in millionths of what is below 2^53 ns, a hundred days. */
	return now_ns + (uint64_t)(cn->offset_ns + (int64_t)now_ns / 1000 * cn->drift_ppm / 1000);
}

void vt_work(struct vt_thread *t, uint64_t ps)
{
	struct vt_world *w = t->world;
	struct vt_server *cpu = &w->cns[t->cn].cpu;
	uint32_t cores = w->options.cores;

	if (unlikely(w->cns[t->cn].slow_until_ps > w->now_ps)) {
		ps *= w->cns[t->cn].slow_factor;
		w->cns[t->cn].felt.slowed++;
	}
	if (!cores || cores >= w->options.threads) {
		t->debt_ps += ps;
		cpu->busy_ps += ps;
		return;
	}
	/* Cores together are one server that is so much faster, but not for one thread. */
	uint64_t end_ps =
	    vt_server_book(cpu, w->now_ps, w->now_ps + t->debt_ps + ps - ps / cores, ps / cores);

	cpu->busy_ps += ps - ps / cores;
	t->debt_ps = end_ps - w->now_ps;
}

static void park(struct vt_thread *t)
{
	assert(fiber_current() == t->fiber);
	fiber_yield();
}

void vt_sleep(struct vt_thread *t, uint64_t ns)
{
	vt_at(t->world, t->world->now_ps + t->debt_ps + ns * 1000, VT_WAKE | t->index);
	park(t);
}

/* Wake up at the completion of the last verb of what was posted. */
static void step_park(struct worker *w, const struct fab_op *ops, unsigned n)
{
	struct vt_thread *t = w->wait_context;

	t->parked_for_verbs = true;
	park(t);
	fab_poll(w->fab); /* wrappers look at what has completed */
}

static void thread_work(struct worker *w, const struct fab_op *ops, unsigned n)
{
	struct vt_thread *t = w->wait_context;
	const struct vt_profile *p = t->world->profile;
	uint64_t ps = 0;

	for (unsigned i = 0; i < n; i++)
		if (!vt_is_free(t->world, &ops[i]))
			ps += p->cpu_verb + ops[i].len * p->cpu_kib / 1024;
	if (ps)
		vt_work(t, p->cpu_wait + ps);
}

static int thread_run(struct worker *w, struct fab_op *ops, unsigned n)
{
	thread_work(w, ops, n);
	return run_batch(w, ops, n, step_park);
}

static void thread_pause(struct worker *w)
{
	struct vt_thread *t = w->wait_context;

	vt_work(t, t->world->profile->cpu_pause);
	vt_sleep(t, 0);
}

/* A thread has one flow beside its side, so nobody else sees to it that the side goes on. */
static void follow(struct worker *w, const struct run_waited *v)
{
	step_park(w, v->ops, v->count);
}

static const struct run_wait virtual_wait = {
    .run = thread_run,
    .pause = thread_pause,
    .follow = follow,
    .work = thread_work,
};

void vt_worker_init(struct vt_thread *t, struct worker *w, struct fab *fab, uint64_t seed)
{
	worker_init(w, fab, &t->clock, seed);
	w->wait = &virtual_wait;
	w->wait_context = t;
	w->index = t->index;
}

static void thread_main(void *argument)
{
	struct vt_thread *t = argument;

	t->fn(t->argument);
	t->busy = false;
}

void vt_spawn(struct vt_thread *t, void (*fn)(void *), void *argument)
{
	assert(!t->busy);
	t->fn = fn;
	t->argument = argument;
	t->busy = true;
	fiber_reset(t->fiber, thread_main, t);
	vt_at(t->world, t->world->now_ps, VT_WAKE | t->index);
}

void vt_thread_resume(struct vt_thread *t)
{
	t->debt_ps = 0;
	fiber_resume(t->fiber);
}

int vt_thread_init(struct vt_thread *t, struct vt_world *w, uint32_t index)
{
	*t = (struct vt_thread){
	    .clock = {thread_now_ns},
	    .world = w,
	    .index = index,
	    .cn = index / w->options.threads,
	    .fiber = fiber_create(thread_main, t, 0),
	};
	return t->fiber ? 0 : FORGE_E_NO_MEMORY;
}

uint32_t vt_thread_index(const struct vt_thread *t)
{
	return t->index;
}

bool vt_thread_is_running(const struct vt_thread *t)
{
	return fiber_current() == t->fiber;
}

uint32_t vt_thread_cn(const struct vt_thread *t)
{
	return t->cn;
}

const struct clock *vt_thread_clock(const struct vt_thread *t)
{
	return &t->clock;
}
