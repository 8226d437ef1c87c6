/*
 * explore.c: the search over schedules.
 *
 * The search is depth-first over a stack of nodes, one per step of the current run.  The reduced
 * mode is dynamic partial-order reduction (Flanagan and Godefroid, POPL 2005) with source sets
 * and sleep sets (Abdulla, Aronis, Jonsson and Sagonas, POPL 2014, algorithm 1).  The argument,
 * in short: two runs that differ only in the order of independent neighbours are equivalent, so
 * one of them is enough.  After each step of a run, look for the earlier steps it races with: a
 * dependent one of another worker, not ordered before it by steps in between.  A run in which
 * the two come the other way round must be tried; if no worker that could start such a run is
 * among those to be tried at the earlier step's node, one is put there.  A worker whose turn at
 * a node has been tried sleeps in the siblings that follow, until a step dependent on its own
 * happens: until then, whatever it did would repeat a run already made.
 *
 * A race that could only be turned round by a worker that was not able to step then (a pause
 * that the earlier step ended) is no race.  test/sim/explore.c compares with the full search.
 */
#include "sim/explore.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core.h"

struct node {
	uint32_t enabled, backtrack, sleep; /* sleep: what has been tried here is in it, too */
	uint32_t preemptions;		    /* in the run up to here */
	uint8_t chosen;
	uint32_t sequence; /* the step's number among its worker's steps, from 1 */
	uint64_t hash;	   /* of the run after the step */
	struct sim_event event;
	/* How many steps of each worker happen before the step, itself included. */
	uint32_t clock[SIM_WORKERS_MAX];
	struct sim_event sleeping[SIM_WORKERS_MAX]; /* what each that sleeps would do */
};

struct explore {
	struct sim_strategy strategy; /* must be first */
	const struct sim_explore_options *options;
	struct node *nodes;
	uint32_t node_capacity;
	uint32_t depth;	 /* nodes whose choice is made: the prefix to repeat */
	uint32_t length; /* nodes of the current run */
	uint32_t *races; /* scratch: the steps the current one races with */
	bool out_of_memory, diverged;
};

static bool is_before(const struct node *a, const struct node *b)
{
	return b->clock[a->event.worker] >= a->sequence;
}

static bool grow(struct explore *e)
{
	uint32_t capacity = e->node_capacity ? e->node_capacity * 2 : 64;
	struct node *nodes = realloc(e->nodes, capacity * sizeof(*nodes));
	uint32_t *races;

	if (!nodes)
		return false;
	e->nodes = nodes;
	races = realloc(e->races, capacity * sizeof(*races));
	if (!races)
		return false;
	e->races = races;
	e->node_capacity = capacity;
	return true;
}

/* Who sleeps on after the step of the parent. */
static void inherit_sleep(struct node *n, const struct node *parent)
{
	for (uint32_t rest = parent->sleep & ~(1u << parent->chosen); rest; rest &= rest - 1) {
		int i = __builtin_ctz(rest);

		if (sim_events_dependent(&parent->event, &parent->sleeping[i]))
			continue;
		n->sleep |= 1u << i;
		n->sleeping[i] = parent->sleeping[i];
	}
}

/* A preemption leaves a worker that could have gone on. */
static uint32_t count_preemptions(const struct node *parent, uint32_t enabled, uint32_t chosen)
{
	return parent->preemptions + (chosen != parent->chosen && (enabled >> parent->chosen & 1));
}

/* The choices to try at a new node, by mode; 0 if there is nothing new to find here. */
static uint32_t find_choices(const struct explore *e, struct node *n, const struct node *parent)
{
	uint32_t within = 0;

	switch (e->options->mode) {
	case SIM_EXPLORE_REDUCED:
		if (parent)
			inherit_sleep(n, parent);
		return n->enabled & ~n->sleep;
	case SIM_EXPLORE_PREEMPTIONS:
		if (!parent)
			return n->enabled;
		for (uint32_t rest = n->enabled; rest; rest &= rest - 1) {
			uint32_t i = (uint32_t)__builtin_ctz(rest);

			if (count_preemptions(parent, n->enabled, i) <= e->options->preemptions_max)
				within |= 1u << i;
		}
		return within;
	default:
		return n->enabled;
	}
}

static int explore_pick(struct sim_strategy *strategy, const struct sim *s, uint32_t enabled)
{
	struct explore *e = (struct explore *)strategy;
	const struct node *parent = s->step_count ? &e->nodes[s->step_count - 1] : NULL;
	struct node *n;
	uint32_t choices;

	if (s->step_count < e->depth) {
		n = &e->nodes[s->step_count];
		if (n->enabled != enabled || (parent && parent->hash != s->hash)) {
			e->diverged = true;
			return SIM_ABANDON;
		}
		return n->chosen;
	}
	if (s->step_count == e->node_capacity) {
		if (!grow(e)) {
			e->out_of_memory = true;
			return SIM_ABANDON;
		}
		parent = s->step_count ? &e->nodes[s->step_count - 1] : NULL;
	}
	n = &e->nodes[s->step_count];
	n->enabled = enabled;
	n->sleep = 0;
	n->preemptions = 0;
	choices = find_choices(e, n, parent);
	if (!choices)
		return SIM_ABANDON;
	if (parent && choices >> parent->chosen & 1)
		n->chosen = parent->chosen;
	else
		n->chosen = (uint8_t)__builtin_ctz(choices);
	n->backtrack = e->options->mode == SIM_EXPLORE_REDUCED ? 1u << n->chosen : choices;
	if (parent)
		n->preemptions = count_preemptions(parent, enabled, n->chosen);
	e->depth = s->step_count + 1;
	return n->chosen;
}

/*
 * The workers that could begin a run in which step i comes before step j: those whose first step
 * in v has nothing of v before it, v being the steps after j that need not follow j, up to i.
 */
static uint32_t find_initials(const struct explore *e, uint32_t j, uint32_t i)
{
	uint32_t first[SIM_WORKERS_MAX] = {0}; /* the sequence of a worker's first step in v */
	uint32_t initials = 0;

	for (uint32_t k = j + 1; k <= i; k++) {
		const struct node *n = &e->nodes[k];
		bool is_initial = first[n->event.worker] == 0;

		if (k < i && is_before(&e->nodes[j], n))
			continue;
		for (uint32_t w = 0; is_initial && w < SIM_WORKERS_MAX; w++)
			is_initial = first[w] == 0 || n->clock[w] < first[w];
		if (is_initial)
			initials |= 1u << n->event.worker;
		if (!first[n->event.worker])
			first[n->event.worker] = n->sequence;
	}
	return initials;
}

static void turn_race_round(struct explore *e, uint32_t j, uint32_t i)
{
	struct node *n = &e->nodes[j];
	uint32_t initials = find_initials(e, j, i);

	if (initials & (n->backtrack | n->sleep))
		return;
	initials &= n->enabled;
	if (initials >> e->nodes[i].event.worker & 1)
		n->backtrack |= 1u << e->nodes[i].event.worker;
	else
		n->backtrack |= initials & -initials;
}

/*
 * A kill takes the next steps of the other workers of the CN away, so their races with earlier
 * steps never show: let each of them step in the kill's place, too.  One that could not step
 * then, because it was paused, might have if somebody else had stepped first.
 */
static void spare_the_killed(struct node *n, const struct sim *s)
{
	for (uint32_t i = 0; i < s->ops->worker_count; i++) {
		if (!(n->event.cns_died >> s->workers[i].cn & 1))
			continue;
		if (n->enabled >> i & 1)
			n->backtrack |= 1u << i;
		else if (s->workers[i].state == SIM_DEAD)
			n->backtrack |= n->enabled;
	}
}

/* Order the newest step among the earlier ones and act on its races. */
static void analyse(struct explore *e, uint32_t i)
{
	struct node *n = &e->nodes[i];
	uint32_t race_count = 0;

	memset(n->clock, 0, sizeof(n->clock));
	n->sequence = 1;
	for (uint32_t j = i; j-- > 0;) {
		const struct node *earlier = &e->nodes[j];

		if (is_before(earlier, n) || !sim_events_dependent(&earlier->event, &n->event))
			continue;
		if (earlier->event.worker == n->event.worker)
			n->sequence = earlier->sequence + 1;
		else if (!n->event.forced)
			e->races[race_count++] = j;
		for (uint32_t w = 0; w < SIM_WORKERS_MAX; w++)
			n->clock[w] = (uint32_t)max_u64(n->clock[w], earlier->clock[w]);
	}
	for (uint32_t j = i; n->sequence == 1 && j-- > 0;)
		if (e->nodes[j].event.worker == n->event.worker)
			n->sequence = e->nodes[j].sequence + 1;
	n->clock[n->event.worker] = n->sequence;
	while (race_count)
		turn_race_round(e, e->races[--race_count], i);
}

static void explore_stepped(struct sim_strategy *strategy, const struct sim *s)
{
	struct explore *e = (struct explore *)strategy;
	uint32_t i = s->step_count - 1;

	e->length = s->step_count;
	if (s->step_count < e->depth)
		return; /* a step of the prefix, known */
	e->nodes[i].event = s->event;
	e->nodes[i].hash = s->hash;
	if (e->options->mode != SIM_EXPLORE_REDUCED)
		return;
	analyse(e, i);
	if (s->event.cns_died)
		spare_the_killed(&e->nodes[i], s);
}

/* Make the deepest node that has an untried choice the end of the next prefix. */
static bool backtrack(struct explore *e)
{
	for (uint32_t d = e->length; d-- > 0;) {
		struct node *n = &e->nodes[d];
		uint32_t untried;

		n->sleep |= 1u << n->chosen;
		n->sleeping[n->chosen] = n->event;
		untried = n->backtrack & ~n->sleep;
		if (!untried)
			continue;
		n->chosen = (uint8_t)__builtin_ctz(untried);
		if (d)
			n->preemptions = count_preemptions(&e->nodes[d - 1], n->enabled, n->chosen);
		e->depth = d + 1;
		return true;
	}
	return false;
}

static void search(struct explore *e, struct sim *s, const struct sim_config *config,
		   struct sim_report *report)
{
	do {
		enum sim_end end;

		if (e->options->runs_max &&
		    report->runs + report->redundant == e->options->runs_max) {
			report->bound = "runs";
			return;
		}
		e->length = 0;
		end = sim_run(s, config, &e->strategy);
		if (e->out_of_memory || e->diverged) {
			report->bound = e->diverged ? "the world is not deterministic" : "memory";
			return;
		}
		sim_report_run(report, s, end, "explore");
		if (report->status && !e->options->keep_going)
			return;
	} while (backtrack(e));
	report->exhausted = e->options->mode != SIM_EXPLORE_PREEMPTIONS;
	if (!report->exhausted)
		report->bound = "preemptions";
}

void sim_explore(struct sim *s, const struct sim_explore_options *options,
		 struct sim_report *report)
{
	struct sim_config config = options->config;
	struct explore e = {.strategy = {.pick = explore_pick, .stepped = explore_stepped},
			    .options = options};

	config.clock_own = true;
	config.pause_strict = true;
	*report = (struct sim_report){0};
	search(&e, s, &config, report);
	free(e.nodes);
	free(e.races);
}

/* One position of the kill; false when no run got that far. */
static bool kill_at(struct sim *s, const struct sim_config *base, struct sim_kill kill,
		    sim_try_fn try, void *arg, struct sim_report *report)
{
	struct sim_config config = *base;
	struct sim_report one;
	bool reached = false, writing = false;

	assert(config.kill_count < SIM_KILLS_MAX);
	config.kill_count++;
	for (kill.landing = SIM_LAND_NONE; kill.landing < SIM_LAND_SEEDED; kill.landing++) {
		if (kill.landing >= SIM_LAND_LOWER && !writing)
			break;
		config.kills[base->kill_count] = kill;
		try(s, &config, arg, &one);
		if (kill.landing == SIM_LAND_NONE) {
			reached = one.cn_verbs_max[kill.cn] >= kill.after_verbs;
			writing = one.kills_writing > 0;
		}
		sim_report_add(report, &one);
		if (report->status || !reached)
			break;
	}
	return reached;
}

void sim_kill_verbs_of(struct sim *s, const struct sim_config *base,
		       const struct sim_kill_range *range, sim_try_fn try, void *arg,
		       struct sim_report *report)
{
	struct sim_kill kill = {.cn = range->cn, .after_verbs = range->first};

	*report = (struct sim_report){.exhausted = true};
	while (kill_at(s, base, kill, try, arg, report) && !report->status)
		kill.after_verbs += range->stride;
}

void sim_kill_every_verb(struct sim *s, const struct sim_config *base, sim_try_fn try, void *arg,
			 struct sim_report *report)
{
	uint32_t cns = 0;

	*report = (struct sim_report){.exhausted = true};
	for (uint32_t i = 0; i < s->ops->worker_count; i++)
		cns |= 1u << s->ops->worker_cn[i];
	for (uint32_t cn = 0; cn < SIM_CNS_MAX && !report->status; cn++) {
		struct sim_kill kill = {.cn = cn};

		if (!(cns >> cn & 1))
			continue;
		while (kill_at(s, base, kill, try, arg, report) && !report->status)
			kill.after_verbs++;
	}
}
