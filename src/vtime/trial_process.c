/*
 * trial_process.c: a compute node's process: it attaches as client/client.c does, its threads work
 * until the load ends, it must go or its connections are lost, and it gives everything back.
 */
#include <stdlib.h>
#include <string.h>

#include "vtime/trial_inside.h"

/* As client/client.c naps: an id that is being recovered looks like one in use. */
#define JOIN_NAP_NS 200000u
#define JOIN_NAPS   40u
#define CLOCK_LOOKS 3u
/* A look at the node's clock waits for a message each way. */
#define CLOCK_MESSAGE_NS 2000u

static int hold(void *context, uint32_t id)
{
	struct trial_process *p = context;
	struct trial *t = p->trial;

	if (t->holder[id] || t->node_holds[id] || p->killed)
		return FORGE_E_AGAIN;
	t->holder[id] = p;
	return 0;
}

static void release(void *context, uint32_t id)
{
	struct trial_process *p = context;

	/* Who is dead lost it when it died. */
	if (p->trial->holder[id] == p)
		p->trial->holder[id] = NULL;
}

static int node_hold(void *context, uint32_t id)
{
	struct trial *t = context;

	if (t->holder[id] || t->node_holds[id])
		return FORGE_E_AGAIN;
	t->node_holds[id] = true;
	return 0;
}

static void node_release(void *context, uint32_t id)
{
	((struct trial *)context)->node_holds[id] = false;
}

struct liveness trial_liveness(struct trial *t, struct trial_process *p)
{
	return p ? (struct liveness){p, hold, release}
		 : (struct liveness){t, node_hold, node_release};
}

/* The process is gone, and with it what it held. */
static void drop_locks(struct trial_process *p)
{
	for (uint32_t id = 0; id < TRIAL_IDS_MAX; id++)
		if (p->trial->holder[id] == p)
			p->trial->holder[id] = NULL;
}

void trial_lose(struct trial *t, struct trial_process *p)
{
	if (p->lost)
		return;
	p->lost = true;
	vt_cut(t->world, p->machine);
}

void trial_kill(struct trial *t, struct trial_process *p)
{
	trial_lose(t, p);
	p->killed = true;
	if (!p->dropped && vt_has_settled(t->world, p->machine)) {
		drop_locks(p);
		p->dropped = true;
	}
}

static int read_node_clock(void *context, uint64_t *node_ns)
{
	struct trial_process *p = context;
	struct trial_session *s = &p->sessions[0];

	for (uint32_t i = 0; i < TRIAL_THREADS_MAX; i++)
		if (p->sessions[i].thread && vt_thread_is_running(p->sessions[i].thread))
			s = &p->sessions[i];
	vt_sleep(s->thread, CLOCK_MESSAGE_NS);
	*node_ns = trial_now_ns(p->trial);
	vt_sleep(s->thread, CLOCK_MESSAGE_NS);
	return p->lost ? FORGE_E_NODE : 0;
}

static const struct pool_clock_source node_clock = {.read = read_node_clock};

/* Who cannot read the node's clock keeps bounds of it. */
static int look_at_clock(struct trial_process *p)
{
	const struct clock *ours = p->sessions[0].worker.clock;

	if (clock_now_ns(ours) == trial_now_ns(p->trial))
		return 0;
	pool_clock_init(&p->clock, &node_clock, p);
	p->pool.clock = &p->clock;
	return pool_clock_look(&p->clock, ours, CLOCK_LOOKS);
}

static int try_to_join(struct trial_process *p)
{
	struct trial *t = p->trial;
	struct trial_session *s = &p->sessions[0];
	struct layout_registry lines[TRIAL_IDS_MAX];
	struct recover_report report = {0};
	uint32_t dead_count = 0;
	struct cn_options options = {
	    .worker_count = t->shape.threads,
	    .poll_interval_us = t->shape.poll_interval_us,
	    .flush_trust_us = t->shape.flush_trust_us,
	    .alive = &p->alive,
	};
	int status = recover_dead_open(&p->pool, &s->worker, &p->alive, &report, &dead_count);

	recover_report_merge(&t->result->recovered, &report);
	t->result->nodes_recovered += dead_count;
	return status ? status
		      : cn_open(&p->cn, &p->pool, policy_find(t->shape.policy), &s->worker,
				&options, 1 + p->machine, lines);
}

static int join(struct trial_process *p)
{
	int status = try_to_join(p);

	for (unsigned i = 0; i < JOIN_NAPS && status == FORGE_E_FULL_REGISTRY; i++) {
		vt_sleep(p->sessions[0].thread, JOIN_NAP_NS);
		status = try_to_join(p);
	}
	p->has_cn = !status;
	return status;
}

static int attach(struct trial_process *p)
{
	struct trial *t = p->trial;
	struct trial_session *s = &p->sessions[0];
	char error_text[256] = "";
	uint64_t verbs = trial_verbs(&s->verbs), began_ns = trial_now_ns(t);
	uint64_t paused_ns = p->paused_ns;
	int status = pool_open(&s->worker, &p->pool, error_text, sizeof(error_text));

	p->pool.rules_off = t->options.rules_off;
	if (!status)
		status = look_at_clock(p);
	if (!status)
		status = join(p);
	if (status && !p->lost && status != FORGE_E_FULL_REGISTRY)
		trial_fail(t, "attaching says %s %s", status_name(status), error_text);
	if (!status)
		t->result->processes++;
	paused_ns = p->paused_ns - paused_ns;
	uint64_t ns = trial_now_ns(t) - began_ns;

	trial_note_cost(t, TRIAL_FLOW_attach, trial_verbs(&s->verbs) - verbs,
			ns > paused_ns ? ns - paused_ns : 0);
	return status;
}

static int open_session(struct trial_session *s)
{
	struct trial_process *p = s->process;
	int status = lane_init(&s->lane, &p->cn);

	if (status)
		return status;
	status = cache_init(&s->cache, &s->worker, &p->cn, &s->lane);
	if (status)
		lane_fini(&s->lane);
	else
		cache_fetch_aside(&s->cache);
	s->ready = !status;
	return status ? status : cache_count_in_pool(&s->cache);
}

static void work(struct trial_session *s)
{
	struct trial_process *p = s->process;
	struct trial *t = p->trial;
	int status = 0;

	while (!status && !p->leaving && !t->status && trial_now_ns(t) < t->end_ns) {
		status = trial_operation(s);
		if (t->shape.think_ns && !status)
			vt_sleep(s->thread, prng_below(&s->prng, t->shape.think_ns));
	}
	/* What it sees in the end, with whatever its map says by then. */
	for (uint32_t key = 0; key < t->shape.keys && !status && s == &p->sessions[0]; key++)
		status = trial_get(s, key);
}

static void leave(struct trial_session *s)
{
	struct trial_process *p = s->process;
	struct trial *t = p->trial;
	uint64_t verbs = trial_verbs(&s->verbs), began_ns = trial_now_ns(t);
	uint64_t paused_ns = p->paused_ns;
	int status = cache_drain(&s->cache);

	if (status && !p->lost)
		trial_fail(t, "giving everything back says %s", status_name(status));
	paused_ns = p->paused_ns - paused_ns;
	uint64_t ns = trial_now_ns(t) - began_ns;

	trial_note_cost(t, TRIAL_FLOW_leave, trial_verbs(&s->verbs) - verbs,
			ns > paused_ns ? ns - paused_ns : 0);
}

static void ended(struct trial_session *s)
{
	struct trial_process *p = s->process;

	s->ended = true;
	if (--p->running)
		return;
	if (!p->lost && p->has_cn)
		cn_leave(&p->cn, &s->worker);
	p->state = PROCESS_ENDED;
	p->trial->alive_count--;
	/* A dead one loses them when its verbs have settled. */
	if (!p->killed)
		drop_locks(p);
}

static void thread_main(void *argument)
{
	struct trial_session *s = argument;
	int status = open_session(s);

	if (!status)
		work(s);
	else if (!s->process->lost)
		trial_fail(s->process->trial, "opening a session says %s", status_name(status));
	if (s->ready)
		cache_ahead_end(
		    &s->cache); /* its verbs are the connection's as long as it is there */
	if (!s->process->lost && s->ready)
		leave(s);
	ended(s);
}

static void process_main(void *argument)
{
	struct trial_session *s = argument;
	struct trial_process *p = s->process;
	struct trial *t = p->trial;

	if (attach(p)) {
		ended(s);
		return;
	}
	p->state = PROCESS_WORKING;
	p->running = t->shape.threads;
	for (uint32_t i = 1; i < t->shape.threads; i++)
		vt_spawn(p->sessions[i].thread, thread_main, &p->sessions[i]);
	thread_main(s);
}

static int prepare_session(struct trial_process *p, uint32_t i)
{
	struct trial *t = p->trial;
	struct trial_session *s = &p->sessions[i];
	uint64_t seed = t->options.seed * 4096 + p->machine * 16 + i;
	struct fab *inner;

	s->process = p;
	s->thread = vt_thread_at(t->world, p->machine * t->shape.threads + i);
	prng_seed(&s->prng, ~seed);
	int status = vt_connect(s->thread, 0, &inner);

	if (!status)
		status = count_open(inner, &s->verbs, &s->fab);
	if (!status)
		vt_worker_init(s->thread, &s->worker, s->fab, seed);
	return status;
}

/* What the schedule says of the slot's clock, from the start. */
static void set_clock(struct trial_process *p)
{
	const struct schedule *s = &p->trial->result->schedule;

	for (uint32_t i = 0; i < s->count; i++)
		if (s->faults[i].kind == FAULT_SKEW && s->faults[i].cn == p->slot)
			vt_skew(p->trial->world, p->machine, s->faults[i].by,
				s->faults[i].drift_ppm);
}

void trial_start(struct trial *t, uint32_t slot)
{
	struct trial_process *p = t->process_count < t->process_max ? calloc(1, sizeof(*p)) : NULL;
	int status = p ? 0 : FORGE_E_NO_MEMORY;

	if (status) {
		trial_fail(t, "no process could be started");
		return;
	}
	p->trial = t;
	p->slot = slot;
	p->machine = t->process_count;
	p->alive = trial_liveness(t, p);
	t->processes[t->process_count++] = p;
	t->present[slot] = p;
	t->alive_count++;
	set_clock(p);
	for (uint32_t i = 0; i < t->shape.threads && !status; i++)
		status = prepare_session(p, i);
	if (status) {
		trial_fail(t, "no process could be started: %s", status_sentence(status));
		return;
	}
	p->running = 1;
	vt_spawn(p->sessions[0].thread, process_main, &p->sessions[0]);
}

void trial_process_destroy(struct trial_process *p)
{
	for (uint32_t i = 0; i < TRIAL_THREADS_MAX; i++) {
		struct trial_session *s = &p->sessions[i];

		if (s->ready) {
			cache_fini(&s->cache);
			lane_fini(&s->lane);
		}
		fab_close(s->fab);
	}
	if (p->has_cn)
		cn_memory_destroy(&p->cn);
	free(p);
}
