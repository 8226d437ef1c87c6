/*
 * shrink.c: fewer switches for a failing run; see shrink.h.
 *
 * A schedule is tried leniently: a choice that is not possible when its turn comes is passed
 * over, and behind the last one workers run on as long as they can.  So any edit of a schedule
 * is a schedule, and the run it gives is recorded exactly.
 */
#include "sim/shrink.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/core.h"
#include "sim/replay.h"

struct schedule {
	uint8_t *choices;
	uint32_t count;
};

struct shrink {
	struct sim_strategy strategy; /* must be first */
	struct sim *sim;
	struct sim_config config;
	int status; /* the failure to keep */
	struct schedule best, edited;
	uint32_t capacity;
	uint32_t next; /* of edited, in the run being made */
	uint32_t run_count;
};

static int lenient_pick(struct sim_strategy *strategy, const struct sim *s, uint32_t enabled)
{
	struct shrink *k = (struct shrink *)strategy;
	uint8_t last = s->step_count ? s->choices[s->step_count - 1] : 0;

	while (k->next < k->edited.count) {
		uint8_t choice = k->edited.choices[k->next++];

		if (enabled >> choice & 1)
			return choice;
	}
	return enabled >> last & 1 ? last : __builtin_ctz(enabled);
}

static uint32_t count_switches(const uint8_t *choices, uint32_t count)
{
	uint32_t switches = 0;

	for (uint32_t i = 1; i < count; i++)
		switches += choices[i] != choices[i - 1];
	return switches;
}

/* Is the run just made simpler than the best one? */
static bool is_simpler(const struct shrink *k)
{
	uint32_t mine = count_switches(k->sim->choices, k->sim->step_count);
	uint32_t best = count_switches(k->best.choices, k->best.count);

	return mine < best || (mine == best && k->sim->step_count < k->best.count);
}

/* Run the edited schedule; if it fails as it should, and always or simpler, it is the best. */
static bool try_edited(struct shrink *k, const struct sim_config *config, bool always)
{
	struct sim *s = k->sim;

	if (k->run_count == SHRINK_RUNS_MAX)
		return false;
	k->run_count++;
	k->next = 0;
	if (sim_run(s, config, &k->strategy) != SIM_END_CHECKED || s->status != k->status ||
	    s->step_count > k->capacity || (!always && !is_simpler(k)))
		return false;
	memcpy(k->best.choices, s->choices, s->step_count);
	k->best.count = s->step_count;
	k->config = *config;
	return true;
}

static void append(struct schedule *to, const uint8_t *choices, uint32_t count)
{
	memcpy(to->choices + to->count, choices, count);
	to->count += count;
}

/* The end of the stretch of one worker that begins at from. */
static uint32_t stretch_end(const struct schedule *s, uint32_t from)
{
	uint32_t to = from;

	while (to < s->count && s->choices[to] == s->choices[from])
		to++;
	return to;
}

/* The schedule without [from, to), which comes before position target >= to instead. */
static void edit_move(struct shrink *k, uint32_t from, uint32_t to, uint32_t target)
{
	const uint8_t *c = k->best.choices;

	k->edited.count = 0;
	append(&k->edited, c, from);
	append(&k->edited, c + to, target - to);
	append(&k->edited, c + from, to - from);
	append(&k->edited, c + target, k->best.count - target);
}

/* Three ways to be rid of the stretch [from, to): leave it out, put it off, or fetch the next. */
static bool try_stretch(struct shrink *k, uint32_t from, uint32_t to)
{
	const struct schedule *b = &k->best;
	uint32_t next = to, next_end;

	k->edited.count = 0;
	append(&k->edited, b->choices, from);
	append(&k->edited, b->choices + to, b->count - to);
	if (try_edited(k, &k->config, false))
		return true;
	while (next < b->count && b->choices[next] != b->choices[from])
		next++;
	if (next == b->count)
		return false;
	edit_move(k, from, to, next);
	if (try_edited(k, &k->config, false))
		return true;
	next_end = stretch_end(b, next);
	edit_move(k, to, next, next_end);
	return try_edited(k, &k->config, false);
}

static void simplify_config(struct shrink *k)
{
	struct sim_config config = k->config;

	k->edited.count = 0;
	append(&k->edited, k->best.choices, k->best.count);
	config.kill_count = 0;
	config.tear = SIM_TEAR_NEVER;
	if (try_edited(k, &config, true))
		return;
	config.kill_count = k->config.kill_count;
	if (try_edited(k, &config, true))
		return;
	config = k->config;
	config.kill_count = 0;
	try_edited(k, &config, true);
}

static void simplify_choices(struct shrink *k)
{
	bool better = true;

	while (better && k->run_count < SHRINK_RUNS_MAX) {
		better = false;
		for (uint32_t from = 0, to; from < k->best.count; from = to) {
			to = stretch_end(&k->best, from);
			if (try_stretch(k, from, to)) {
				better = true;
				to = from;
			}
		}
	}
}

static int shrink_all(struct shrink *k, const struct sim_recording *recording)
{
	k->capacity = recording->choice_count * 2 + 64;
	k->best.choices = malloc(k->capacity);
	k->edited.choices = malloc(k->capacity);
	if (!k->best.choices || !k->edited.choices)
		return FORGE_E_NO_MEMORY;
	append(&k->edited, recording->choices, recording->choice_count);
	if (!try_edited(k, &recording->config, true))
		return FORGE_E_FORMAT;
	simplify_config(k);
	simplify_choices(k);
	return 0;
}

int sim_shrink(struct sim *s, struct sim_report *report)
{
	struct shrink k = {.strategy = {.pick = lenient_pick}, .sim = s, .status = report->status};
	struct sim_recording recording;
	int rc = sim_replay_parse(report->replay, &recording);

	if (!rc && strcmp(recording.world, s->ops->name) != 0)
		rc = FORGE_E_FORMAT;
	if (!rc)
		rc = shrink_all(&k, &recording);
	if (!rc) {
		/* Once more, for its hash and reason; what follows the last choice is recorded. */
		k.run_count = 0;
		k.edited.count = 0;
		append(&k.edited, k.best.choices, k.best.count);
		rc = try_edited(&k, &k.config, true) ? 0 : FORGE_E_FORMAT;
	}
	if (!rc) {
		report->failed_hash = s->hash;
		snprintf(report->why, sizeof(report->why), "%s", s->why);
		sim_replay_format(s, recording.strategy, report->replay, sizeof(report->replay));
	}
	free(k.best.choices);
	free(k.edited.choices);
	sim_recording_free(&recording);
	return rc;
}
