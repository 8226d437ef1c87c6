/* sim.c: building and destroying a simulation, what tests may ask it, and the report. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/core.h"
#include "sim/replay.h"

/* The workers' verbs go through their wait backend; nothing else may reach the memory. */
static void fab_never_posts(struct fab *f, struct fab_op *ops, unsigned n)
{
	assert(!"a worker of the scheduler posts verbs through flow_run() only");
}

static void fab_never_polls(struct fab *f)
{
	assert(!"a worker of the scheduler does not poll");
}

static int fab_reg_any(struct fab *f, void *buf, size_t bytes)
{
	return 0;
}

static const struct fab_provider sched_provider = {
    .name = "sched",
    .close = fab_never_polls,
    .reg = fab_reg_any,
    .post = fab_never_posts,
    .kick = fab_never_polls,
    .poll = fab_never_polls,
};

static bool world_is_valid(const struct sim_world_ops *ops)
{
	if (!ops->worker_count || ops->worker_count > SIM_WORKERS_MAX || !ops->memory_bytes)
		return false;
	for (uint32_t i = 0; i < ops->worker_count; i++)
		if (ops->worker_cn[i] >= SIM_CNS_MAX)
			return false;
	return ops->name && ops->worker && ops->history_ops_max;
}

static int create_workers(struct sim *s)
{
	s->workers = calloc(s->ops->worker_count, sizeof(*s->workers));
	if (!s->workers)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < s->ops->worker_count; i++)
		if (sim_worker_create(s, &s->workers[i], i))
			return FORGE_E_NO_MEMORY;
	return sim_worker_create(s, &s->observer, s->ops->worker_count);
}

static int fill(struct sim *s)
{
	int rc = sim_memory_create(&s->memory, s->ops->memory_bytes);

	if (!rc)
		rc = history_create(&s->history, s->ops->history_ops_max);
	if (!rc)
		rc = lin_create(&s->lin);
	if (!rc)
		rc = create_workers(s);
	if (!rc && s->ops->setup)
		rc = s->ops->setup(s->context, s->memory.bytes, sim_observer(s));
	if (!rc)
		sim_memory_keep_image(&s->memory);
	s->start_ns += s->observer.step_count * SIM_TICK_NS_DEFAULT;
	return rc;
}

int sim_create(const struct sim_world_ops *ops, void *context, struct sim **out)
{
	struct sim *s;
	int rc;

	if (!world_is_valid(ops))
		return FORGE_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return FORGE_E_NO_MEMORY;
	s->ops = ops;
	s->context = context;
	s->start_ns = SIM_CLOCK_START_NS;
	s->config.tick_ns = SIM_TICK_NS_DEFAULT;
	s->fab.provider = &sched_provider;
	s->fab.caps.export_bytes = ops->memory_bytes;
	s->fab.caps.batch_ops_max = SIM_BATCH_OPS_MAX;
	rc = fill(s);
	if (rc) {
		sim_destroy(s);
		return rc;
	}
	*out = s;
	return 0;
}

void sim_destroy(struct sim *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; s->workers && i < s->ops->worker_count; i++)
		if (s->workers[i].fiber)
			fiber_destroy(s->workers[i].fiber);
	free(s->workers);
	free(s->choices);
	lin_destroy(&s->lin);
	history_destroy(&s->history);
	sim_memory_destroy(&s->memory);
	free(s);
}

struct worker *sim_worker_at(struct sim *s, uint32_t index)
{
	assert(index < s->ops->worker_count);
	return &s->workers[index].worker;
}

const uint8_t *sim_memory(const struct sim *s)
{
	return s->memory.bytes;
}

struct history *sim_history(struct sim *s)
{
	return &s->history;
}

struct lin *sim_lin(struct sim *s)
{
	return &s->lin;
}

bool sim_cn_is_killed(const struct sim *s, uint32_t cn)
{
	assert(cn < SIM_CNS_MAX);
	return s->cns[cn].killed;
}

uint64_t sim_hash(const struct sim *s)
{
	return s->hash;
}

uint32_t sim_step_count(const struct sim *s)
{
	return s->step_count;
}

uint32_t sim_cn_verb_count(const struct sim *s, uint32_t cn)
{
	assert(cn < SIM_CNS_MAX);
	return s->cns[cn].verb_count;
}

void sim_report_run(struct sim_report *r, const struct sim *s, enum sim_end end,
		    const char *strategy)
{
	r->steps += s->step_count;
	r->steps_max = (uint32_t)max_u64(r->steps_max, s->step_count);
	if (end == SIM_END_ABANDONED) {
		r->redundant++;
		return;
	}
	r->runs++;
	for (uint32_t cn = 0; cn < SIM_CNS_MAX; cn++)
		r->cn_verbs_max[cn] = (uint32_t)max_u64(r->cn_verbs_max[cn], s->cns[cn].verb_count);
	r->kills += s->killed_count;
	r->kills_writing += s->killed_writing_count;
	r->forced += s->forced_count;
	if (!s->status)
		return;
	r->failed++;
	if (r->status)
		return;
	r->status = s->status;
	r->failed_hash = s->hash;
	snprintf(r->why, sizeof(r->why), "%s", s->why);
	sim_replay_format(s, strategy, r->replay, sizeof(r->replay));
}

void sim_report_add(struct sim_report *a, const struct sim_report *b)
{
	a->runs += b->runs;
	a->redundant += b->redundant;
	a->steps += b->steps;
	a->kills += b->kills;
	a->kills_writing += b->kills_writing;
	a->forced += b->forced;
	a->failed += b->failed;
	a->steps_max = (uint32_t)max_u64(a->steps_max, b->steps_max);
	for (uint32_t cn = 0; cn < SIM_CNS_MAX; cn++)
		a->cn_verbs_max[cn] = (uint32_t)max_u64(a->cn_verbs_max[cn], b->cn_verbs_max[cn]);
	a->exhausted = a->exhausted && b->exhausted;
	if (!a->bound)
		a->bound = b->bound;
	if (a->status || !b->status)
		return;
	a->status = b->status;
	a->failed_hash = b->failed_hash;
	memcpy(a->why, b->why, sizeof(a->why));
	memcpy(a->replay, b->replay, sizeof(a->replay));
}

void sim_report_print(const struct sim_report *r, const char *title, FILE *out)
{
	fprintf(out,
		"%s: %" PRIu64 " runs, %" PRIu64 " redundant, %" PRIu64 " steps, longest %" PRIu32
		", %" PRIu64 " kills, %" PRIu64 " forced pauses%s%s%s\n",
		title, r->runs, r->redundant, r->steps, r->steps_max, r->kills, r->forced,
		r->exhausted ? ", exhausted" : "", r->bound ? ", stopped at bound: " : "",
		r->bound ? r->bound : "");
	if (!r->status)
		return;
	fprintf(out, "%" PRIu64 " runs failed; the first: %s (%s)\n%s\n", r->failed,
		status_name(r->status), status_sentence(r->status), r->why);
	fprintf(out,
		"run hash %016" PRIx64 "; repeat it with --replay '...' or FORGE_SIM_REPLAY:\n%s\n",
		r->failed_hash, r->replay);
}
