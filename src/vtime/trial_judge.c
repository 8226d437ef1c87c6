/*
 * trial_judge.c: the oracles of a trial, when nothing moves any more.
 *
 * The memory node looks a last time for the dead, and for parts nobody lists, as it does every few
 * seconds; a last compute node attaches, Gets every key, and leaves.  Then everything must be as if
 * nothing had ever gone wrong.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "check/check.h"
#include "sim/lin_long.h"
#include "vtime/trial_inside.h"

static int look_for_parts(struct trial *t, struct worker *w)
{
	struct recover *r;
	int status = recover_create(&t->pool, w, &r);

	if (status)
		return status;
	status = recover_parts(r, w, &t->result->recovered);
	recover_destroy(r);
	return status;
}

/* Gets of every key by a node that knows nothing but what lies in the pool. */
static int last_gets(struct trial *t, struct worker *w)
{
	struct trial_process *p = calloc(1, sizeof(*p));
	struct layout_registry lines[TRIAL_IDS_MAX];
	const struct cn_options options = {.alive = p ? &p->alive : NULL};
	int status = p ? 0 : FORGE_E_NO_MEMORY;

	if (status)
		return status;
	struct trial_session *s = &p->sessions[0];

	p->trial = t;
	p->alive = trial_liveness(t, p);
	p->pool = t->pool;
	s->process = p;
	s->worker = *w;
	status =
	    cn_open(&p->cn, &p->pool, policy_find(t->shape.policy), &s->worker, &options, 1, lines);
	p->has_cn = !status;
	if (!status)
		status = lane_init(&s->lane, &p->cn);
	if (!status && cache_init(&s->cache, &s->worker, &p->cn, &s->lane)) {
		lane_fini(&s->lane);
		status = FORGE_E_NO_MEMORY;
	}
	s->ready = !status && p->has_cn;
	if (!status)
		status = cache_count_in_pool(&s->cache);
	for (uint32_t key = 0; key < t->shape.keys && !status; key++)
		status = trial_get(s, key);
	if (!status)
		status = cache_drain(&s->cache);
	if (!status)
		cn_leave(&p->cn, &s->worker);
	trial_process_destroy(p);
	return status;
}

static void keep_first(void *context, const struct check_finding *f)
{
	struct trial *t = context;

	trial_fail(t, "the pool checker: %s: %s", check_rule_sentence(f->rule), f->text);
}

static int check(struct trial *t, struct worker *w)
{
	const struct check_options at_rest = {0};
	struct check_report report;
	int status = check_pool(w, &t->pool, &at_rest, &report, keep_first, t);
	const struct check_report *r = &report;
	uint64_t places = r->chunks_free + r->chunks_queued + r->chunks_part;

	if (status || t->status)
		return status;
	if (places != t->plan.chunk_count)
		trial_fail(t, "%" PRIu64 " of %" PRIu32 " chunks are free, queued or parts", places,
			   t->plan.chunk_count);
	return 0;
}

static int nothing_to_mend(struct trial *t, struct worker *w)
{
	const struct liveness alive = trial_liveness(t, NULL);
	struct recover_report report = {0};
	uint32_t dead_count = 0;
	char text[512];
	int status = recover_repair(&t->pool, w, &alive, &report, &dead_count);

	if (status || (!dead_count && !recover_report_sum(&report)))
		return status;
	recover_report_print(&report, text, sizeof(text));
	trial_fail(t, "after the last recovery a repair mends: %" PRIu32 " nodes, %s", dead_count,
		   text);
	return 0;
}

static void judge_history(struct trial *t)
{
	struct lin_long lin;
	char text[sizeof(t->result->why)];
	int status;

	lin_long_create(&lin);
	status = lin_long_check(&lin, &t->history, text, sizeof(text));
	if (status)
		trial_fail(t, "%s", text);
	t->result->lin_states_most = lin.states_max;
	lin_long_destroy(&lin);
}

void trial_judge(struct trial *t)
{
	const struct liveness alive = trial_liveness(t, NULL);
	struct worker w;
	uint32_t dead_count = 0;
	int status;

	if (t->status)
		return;
	trial_judge_hits(t);
	status = trial_setter(t, &w);
	if (!status)
		status =
		    recover_dead_open(&t->pool, &w, &alive, &t->result->recovered, &dead_count);
	t->result->nodes_recovered += dead_count;
	if (!status)
		status = look_for_parts(t, &w);
	if (!status && !t->status)
		status = last_gets(t, &w);
	if (!status && !t->status)
		status = check(t, &w);
	if (!status && !t->status)
		status = nothing_to_mend(t, &w);
	if (!status && !t->status)
		judge_history(t);
	if (status)
		trial_fail(t, "the last looks say %s", status_name(status));
	fab_close(w.fab);
}
