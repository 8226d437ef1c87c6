/*
 * trial.c: a trial from its seed to its verdict; the memory node's work, and fate, which lets the
 * schedule's faults happen.
 *
 * Each process is a compute node of the world of its own, as a machine without a past; so are the
 * memory node's processes, one for each start, and fate.
 */
#include "vtime/trial.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "vtime/inside.h"
#include "vtime/trial_inside.h"

/* How often the memory node looks for the dead; in production every 100 ms. */
#define NODE_LOOK_NS 250000u
#define SETTLE_NS    1000u
/* When the load has ended and everybody has been let go: more is a hang. */
#define HANG_NS	    UINT64_C(2000000000)
#define HANG_EVENTS UINT64_C(40000000)

const char *trial_flow_sentence(unsigned flow)
{
	static const char *const sentences[] = {
#define FLOW(name, sentence) sentence,
	    TRIAL_FLOWS(FLOW)
#undef FLOW
	};

	return flow < TRIAL_FLOW_COUNT ? sentences[flow] : NULL;
}

/* ---- the memory node ---------------------------------------------------------------------- */

static void node_main(void *argument)
{
	struct trial_node *n = argument;
	struct trial *t = n->trial;
	const struct liveness alive = trial_liveness(t, NULL);
	int status = 0;

	while (!status && (t->alive_count || t->fate_works)) {
		struct recover_report report = {0};
		uint32_t dead_count = 0;

		vt_sleep(vt_thread_at(t->world, n->machine * t->shape.threads), NODE_LOOK_NS);
		if (n->lost)
			break;
		uint64_t verbs = trial_verbs(&n->verbs), began_ns = trial_now_ns(t);

		status = recover_dead_open(&t->pool, &n->worker, &alive, &report, &dead_count);
		trial_note_cost(t, TRIAL_FLOW_recovery, trial_verbs(&n->verbs) - verbs,
				trial_now_ns(t) - began_ns);
		recover_report_merge(&t->result->recovered, &report);
		t->result->nodes_recovered += dead_count;
	}
	if (status && !n->lost)
		trial_fail(t, "the memory node's recovery says %s", status_name(status));
	n->works = false;
}

static int start_node(struct trial *t)
{
	struct trial_node *n = &t->nodes[t->node_count];
	struct vt_thread *thread;
	struct fab *inner;

	*n = (struct trial_node){.trial = t, .machine = t->process_max + t->node_count++};
	thread = vt_thread_at(t->world, n->machine * t->shape.threads);
	int status = vt_connect(thread, 0, &inner);

	if (!status)
		status = count_open(inner, &n->verbs, &n->fab);
	if (status)
		return status;
	vt_worker_init(thread, &n->worker, n->fab, t->options.seed);
	n->works = true;
	t->node_is_up = true;
	vt_spawn(thread, node_main, n);
	return 0;
}

static bool all_settled(const struct trial *t)
{
	for (uint32_t i = 0; i < t->process_max + TRIAL_NODES_MAX; i++)
		if (i < t->process_max + t->node_count && !vt_has_settled(t->world, i))
			return false;
	return true;
}

/* It starts anew over its memory, or over none. */
static int come_back(struct trial *t, bool wipe)
{
	struct worker setter;
	struct fab_op epoch = fab_faa(FAB_CONTROL, offsetof(struct layout_superblock, epoch), 1);
	uint64_t now_ms = trial_now_ns(t) / 1000000;
	struct pool_host host = {.wall_ms = now_ms, .clock_ms = now_ms};
	int status;

	if (wipe) {
		trial_wipe_rows(t);
		status = trial_format(t);
		return status ? status : start_node(t);
	}
	status = trial_setter(t, &setter);
	if (status)
		return status;
	status = pool_time_take_over(&setter, &host);
	if (!status)
		status = flow_run(&setter, &epoch, 1);
	fab_close(setter.fab);
	return status ? status : start_node(t);
}

/* ---- fate ---------------------------------------------------------------------------------- */

static void trace_fault(const struct trial *t, const struct fault *f)
{
	struct schedule one = {.faults = {*f}, .count = 1};
	char text[256];

	if (!t->options.trace)
		return;
	schedule_print(&one, text, sizeof(text));
	fprintf(t->options.trace, "%12.3f fault: %s\n",
		(double)(trial_now_ns(t) - t->begin_ns) / 1000, text);
}

static void plan_later(struct trial *t, uint64_t at_ns, uint32_t slot, bool wipe)
{
	assert(t->plan_count < TRIAL_PLANS_MAX);
	t->plans[t->plan_count++] = (struct trial_plan){at_ns, slot, wipe};
}

static void let_node_die(struct trial *t, const struct fault *f, uint64_t now_ns)
{
	struct trial_node *n = &t->nodes[t->node_count - 1];

	if (!t->node_is_up)
		return;
	t->node_is_up = false;
	n->lost = true;
	vt_cut(t->world, n->machine);
	for (uint32_t i = 0; i < t->process_count; i++)
		if (t->processes[i]->state != PROCESS_ENDED && !t->processes[i]->lost) {
			trial_lose(t, t->processes[i]);
			t->result->effective[f->kind]++;
		}
	plan_later(t, now_ns + f->for_ns, TRIAL_NODE, f->kind == FAULT_WIPE);
	for (uint32_t slot = 0; slot < t->shape.cns; slot++)
		plan_later(t, now_ns + f->for_ns + 1, slot, false);
}

static void let_happen(struct trial *t, const struct fault *f)
{
	uint64_t now_ns = trial_now_ns(t), until_ns = now_ns + f->for_ns;
	struct trial_process *p = f->cn < t->shape.cns ? t->present[f->cn] : NULL;

	trace_fault(t, f);
	t->result->injected[f->kind]++;
	if (f->kind == FAULT_RESTART || f->kind == FAULT_WIPE) {
		let_node_die(t, f, now_ns);
		return;
	}
	if (!p || p->state == PROCESS_ENDED || p->lost)
		return;
	t->hits[t->hit_count++] =
	    (struct trial_hit){f->kind, p->machine, vt_felt_by(t->world, p->machine)};
	switch (f->kind) {
	case FAULT_PAUSE:
		p->paused_ns += f->for_ns;
		if (f->thread < t->shape.threads)
			vt_pause_thread(p->sessions[f->thread].thread, until_ns);
		else
			vt_pause(t->world, p->machine, until_ns);
		return;
	case FAULT_SLOW:
		vt_slow(t->world, p->machine, (uint32_t)f->by, until_ns);
		return;
	case FAULT_DELAY:
		vt_delay(t->world, p->machine, (uint64_t)f->by, until_ns);
		return;
	case FAULT_CUT:
		trial_lose(t, p);
		break;
	case FAULT_KILL:
		trial_kill(t, p);
		break;
	case FAULT_LEAVE:
		p->leaving = true;
		break;
	default:
		return; /* from the start */
	}
	t->result->effective[f->kind]++;
	plan_later(t, until_ns, f->cn, false);
}

static void carry_out(struct trial *t, const struct trial_plan *plan)
{
	if (plan->slot != TRIAL_NODE) {
		/* Nobody attaches to a node that is away, or for nothing. */
		if (t->node_is_up && trial_now_ns(t) < t->end_ns)
			trial_start(t, plan->slot);
		return;
	}
	int status = come_back(t, plan->wipe);

	if (status)
		trial_fail(t, "the memory node could not start again: %s", status_sentence(status));
}

/* The dead whose verbs have settled lose their locks; false: some have not. */
static bool drop_dead(struct trial *t)
{
	bool all = true;

	for (uint32_t i = 0; i < t->process_count; i++)
		if (t->processes[i]->killed && !t->processes[i]->dropped) {
			trial_kill(t, t->processes[i]);
			all = all && t->processes[i]->dropped;
		}
	return all;
}

static void fate_main(void *argument)
{
	struct trial *t = argument;
	struct vt_thread *self =
	    vt_thread_at(t->world, (t->process_max + TRIAL_NODES_MAX) * t->shape.threads);
	uint32_t next = 0;

	for (;;) {
		const struct schedule *s = &t->result->schedule;
		uint64_t at_ns = UINT64_MAX, now_ns = trial_now_ns(t);
		uint32_t first = TRIAL_PLANS_MAX;

		for (uint32_t i = 0; i < t->plan_count; i++)
			if (t->plans[i].at_ns < at_ns) {
				at_ns = t->plans[i].at_ns;
				first = i;
			}
		if (next < s->count && t->begin_ns + s->faults[next].at_ns <= at_ns) {
			at_ns = t->begin_ns + s->faults[next].at_ns;
			first = TRIAL_PLANS_MAX;
		}
		bool settled = drop_dead(t);

		if (at_ns == UINT64_MAX && settled)
			break;
		if (at_ns > now_ns) {
			uint64_t wait_ns = at_ns - now_ns;

			vt_sleep(self, settled ? wait_ns : min_u64(wait_ns, SETTLE_NS));
		} else if (first == TRIAL_PLANS_MAX) {
			let_happen(t, &s->faults[next++]);
		} else if (t->plans[first].slot == TRIAL_NODE && !all_settled(t)) {
			vt_sleep(self, SETTLE_NS);
		} else {
			struct trial_plan plan = t->plans[first];

			t->plans[first] = t->plans[--t->plan_count];
			carry_out(t, &plan);
		}
	}
	t->fate_works = false;
}

/* ---- a trial ------------------------------------------------------------------------------- */

/* How many processes there may be in all. */
static uint32_t count_processes(const struct trial *t)
{
	const struct schedule *s = &t->result->schedule;
	uint32_t count = t->shape.cns;

	for (uint32_t i = 0; i < s->count; i++) {
		enum fault_kind kind = s->faults[i].kind;

		if (kind == FAULT_RESTART || kind == FAULT_WIPE)
			count += t->shape.cns;
		else if (kind == FAULT_CUT || kind == FAULT_KILL || kind == FAULT_LEAVE)
			count++;
	}
	return count;
}

static void choose_schedule(struct trial *t)
{
	const struct schedule_wish wish = {
	    .cns = t->shape.cns,
	    .threads = t->shape.threads,
	    .span_ns = t->shape.load_ns,
	    .faults_most = 8,
	    .kinds = t->options.kinds,
	};
	struct prng prng;

	prng_seed(&prng, t->options.seed * 2);
	if (t->options.schedule)
		t->result->schedule = *t->options.schedule;
	else
		schedule_make(&t->result->schedule, &prng, &wish);
}

static int prepare(struct trial *t)
{
	struct vt_world_options world = {
	    .profile = vt_profile_find("cx5"),
	    .nodes = 1,
	    .threads = t->shape.threads,
	    .seed = t->options.seed,
	};
	int status = trial_make_pool(t);

	if (status)
		return status;
	t->process_max = count_processes(t);
	t->processes = calloc(t->process_max, sizeof(*t->processes));
	world.node_bytes = round_up_u64(t->plan.pool_bytes, 8);
	world.cns = t->process_max + TRIAL_NODES_MAX + 1;
	status = !t->processes ? FORGE_E_NO_MEMORY : vt_world_create(&world, &t->world);
	if (!status)
		status = history_create(&t->history, TRIAL_OPS);
	if (!status) {
		history_let_grow(&t->history, TRIAL_OPS_MAX);
		status = trial_format(t);
	}
	if (status)
		return status;
	status = trial_watch_rows(t, world.cns);
	if (status)
		return status;
	vt_node_set_hot(t->world, 0, t->plan.cursors_offset, t->plan.registry_offset);
	t->begin_ns = trial_now_ns(t);
	t->end_ns = t->begin_ns + t->shape.load_ns;
	t->base_ms = t->pool.time_base_ms + t->begin_ns / 1000000;
	for (uint32_t slot = 0; slot < t->shape.cns; slot++)
		trial_start(t, slot);
	t->fate_works = true;
	vt_spawn(vt_thread_at(t->world, (t->process_max + TRIAL_NODES_MAX) * t->shape.threads),
		 fate_main, t);
	return start_node(t);
}

static void note_hang(struct trial *t)
{
	char text[256];
	uint32_t at = t->history.op_count;

	while (at > 0 && t->history.ops[at - 1].result != HIST_PENDING)
		at--;
	if (at)
		history_print_op(&t->history.ops[at - 1], text, sizeof(text));
	trial_fail(t, "%" PRIu32 " processes did not come to an end; under way: %s", t->alive_count,
		   at ? text : "nothing");
}

static bool is_stopped(const struct trial *t)
{
	return t->options.stop && *t->options.stop;
}

/* Until nothing happens any more, or a signal came. */
static void let_run(struct trial *t)
{
	uint64_t longest_ns = 0;
	const struct schedule *s = &t->result->schedule;

	for (uint32_t i = 0; i < s->count; i++)
		longest_ns += s->faults[i].for_ns;
	while (vt_world_step(t->world)) {
		if (vt_world_events(t->world) % 4096)
			continue;
		if (is_stopped(t))
			return;
		if (vt_world_events(t->world) > HANG_EVENTS ||
		    trial_now_ns(t) > t->end_ns + longest_ns + HANG_NS) {
			note_hang(t);
			return;
		}
	}
	if (!is_stopped(t) &&
	    (t->alive_count || t->fate_works || t->nodes[t->node_count - 1].works))
		note_hang(t);
}

static void fill_result(struct trial *t)
{
	struct trial_result *r = t->result;

	for (uint32_t i = 0; i < t->hit_count; i++) {
		const struct trial_hit *hit = &t->hits[i];
		struct vt_felt felt = vt_felt_by(t->world, hit->machine);

		r->effective[hit->kind] +=
		    (hit->kind == FAULT_PAUSE && felt.held_up > hit->felt.held_up) ||
		    (hit->kind == FAULT_SLOW && felt.slowed > hit->felt.slowed) ||
		    (hit->kind == FAULT_DELAY && felt.delayed > hit->felt.delayed) ||
		    hit->kind == FAULT_SKEW;
	}
	for (uint32_t i = 0; i < t->process_count; i++)
		for (uint32_t k = 0; k < t->shape.threads; k++)
			if (t->processes[i]->sessions[k].ready)
				cache_counters_merge(&r->cache,
						     &t->processes[i]->sessions[k].cache.count);
	r->verbs = vt_world_verbs(t->world);
	r->virtual_ns = trial_now_ns(t) - t->begin_ns;
	r->hash = vt_world_hash(t->world);
	for (uint32_t i = 0; i < t->history.op_count; i++) {
		const struct hist_op *op = &t->history.ops[i];

		r->hash = vt_mix(r->hash, op->value ^ (uint64_t)op->result << 56);
	}
}

static void close_trial(struct trial *t)
{
	if (t->world)
		vt_abandon(t->world);
	for (uint32_t i = 0; i < t->process_count; i++)
		trial_process_destroy(t->processes[i]);
	for (uint32_t i = 0; i < t->node_count; i++)
		fab_close(t->nodes[i].fab);
	vt_world_destroy(t->world);
	history_destroy(&t->history);
	free(t->processes);
	free(t->rows.before);
	free(t->rows.known);
	free(t);
}

int trial_run(const struct trial_options *options, struct trial_result *out)
{
	struct trial *t = calloc(1, sizeof(*t));

	*out = (struct trial_result){.status = FORGE_E_NO_MEMORY};
	if (!t)
		return out->status;
	t->options = *options;
	t->result = out;
	trial_choose_shape(t);
	choose_schedule(t);
	out->status = schedule_check(&out->schedule, t->shape.cns, t->shape.threads, out->why,
				     sizeof(out->why));
	if (!out->status)
		out->status = prepare(t);
	if (!out->status) {
		let_run(t);
		if (is_stopped(t)) {
			out->status = FORGE_E_AGAIN;
		} else {
			trial_judge(t);
			fill_result(t);
			out->status = t->status;
		}
	}
	close_trial(t);
	return out->status;
}

void trial_result_add(struct trial_result *sum, const struct trial_result *r)
{
	sum->operations += r->operations;
	sum->verbs += r->verbs;
	sum->virtual_ns += r->virtual_ns;
	sum->processes += r->processes;
	sum->no_space += r->no_space;
	sum->undecided += r->undecided;
	sum->pending += r->pending;
	sum->nodes_recovered += r->nodes_recovered;
	sum->hash = vt_mix(sum->hash, r->hash);
	if (r->lin_states_most > sum->lin_states_most)
		sum->lin_states_most = r->lin_states_most;
	for (unsigned i = 0; i < FAULT_KINDS; i++) {
		sum->injected[i] += r->injected[i];
		sum->effective[i] += r->effective[i];
	}
	for (unsigned i = 0; i < TRIAL_FLOW_COUNT; i++) {
		sum->cost[i].count += r->cost[i].count;
		sum->cost[i].verbs += r->cost[i].verbs;
		sum->cost[i].verbs_most = max_u64(sum->cost[i].verbs_most, r->cost[i].verbs_most);
		sum->cost[i].ns_most = max_u64(sum->cost[i].ns_most, r->cost[i].ns_most);
	}
#define HIT(name, sentence) sum->hits.name += r->hits.name;
	TRIAL_HITS(HIT)
#undef HIT
	cache_counters_merge(&sum->cache, &r->cache);
	recover_report_merge(&sum->recovered, &r->recovered);
}
