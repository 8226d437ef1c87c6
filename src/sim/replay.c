/* replay.c: writing, reading and repeating recorded runs; see replay.h. */
#include "sim/replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/core.h"

#define LINE_START "forge-sim replay:"

static const char *const tear_names[] = {"never", "halves", "words"};

/* --- writing ------------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t left;
	bool full;
};

PRINTF_LIKE(2, 3) static void put(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->left, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= t->left) {
		t->full = true;
		return;
	}
	t->at += n;
	t->left -= (size_t)n;
}

static void put_choices(struct text *t, const uint8_t *choices, uint32_t count)
{
	for (uint32_t i = 0, run; i < count && !t->full; i += run) {
		for (run = 1; i + run < count && choices[i + run] == choices[i]; run++)
			;
		if (run == 1)
			put(t, "%c", 'a' + choices[i]);
		else
			put(t, "%c%" PRIu32, 'a' + choices[i], run);
	}
}

bool sim_replay_format(const struct sim *s, const char *strategy, char *text, size_t text_bytes)
{
	const struct sim_config *c = &s->config;
	struct text t = {.at = text, .left = text_bytes};

	put(&t, LINE_START " world=%s seed=%" PRIu64 " tear=%s pause=%s clock=%s", s->ops->name,
	    c->seed, tear_names[c->tear], c->pause_strict ? "strict" : "timed",
	    c->clock_own ? "own" : "common");
	put(&t, " tick=%" PRIu64 " steps=%" PRIu32, c->tick_ns, c->steps_max);
	for (uint32_t i = 0; i < c->kill_count; i++)
		put(&t, "%s%" PRIu32 "@%" PRIu32 ":%" PRIu32, i ? "," : " kills=", c->kills[i].cn,
		    c->kills[i].after_verbs, c->kills[i].landing);
	put(&t, " strategy=%s choices=", strategy);
	put_choices(&t, s->choices, s->step_count);
	if (t.full)
		text[0] = '\0';
	return !t.full;
}

/* --- reading ------------------------------------------------------------------------------- */

/* The text after " name=", up to a blank; its length, or -1 if there is none. */
static int find_field(const char *line, const char *name, const char **value)
{
	size_t name_bytes = strlen(name);

	for (const char *at = strchr(line, ' '); at; at = strchr(at + 1, ' ')) {
		if (strncmp(at + 1, name, name_bytes) == 0 && at[1 + name_bytes] == '=') {
			*value = at + 2 + name_bytes;
			return (int)strcspn(*value, " \n");
		}
	}
	return -1;
}

static int read_word(const char *line, const char *name, char *word, size_t word_bytes)
{
	const char *value;
	int n = find_field(line, name, &value);

	if (n <= 0 || (size_t)n >= word_bytes)
		return FORGE_E_FORMAT;
	memcpy(word, value, (size_t)n);
	word[n] = '\0';
	return 0;
}

static int read_number(const char *line, const char *name, uint64_t max, uint64_t *number)
{
	char word[24], *end;
	int rc = read_word(line, name, word, sizeof(word));

	if (rc)
		return rc;
	*number = strtoull(word, &end, 10);
	return *end || *number > max ? FORGE_E_FORMAT : 0;
}

static int read_kills(const char *line, struct sim_config *c)
{
	const char *at;
	int used;

	if (find_field(line, "kills", &at) < 0)
		return 0;
	for (;;) {
		struct sim_kill *k = &c->kills[c->kill_count];

		if (c->kill_count == SIM_KILLS_MAX ||
		    sscanf(at, "%" SCNu32 "@%" SCNu32 ":%" SCNu32 "%n", &k->cn, &k->after_verbs,
			   &k->landing, &used) != 3 ||
		    k->cn >= SIM_CNS_MAX)
			return FORGE_E_FORMAT;
		c->kill_count++;
		at += used;
		if (*at != ',')
			return 0;
		at++;
	}
}

static int read_config(const char *line, struct sim_config *c)
{
	char tear[16], pause[16], clock[16];
	uint64_t steps;

	if (read_number(line, "seed", UINT64_MAX, &c->seed) ||
	    read_number(line, "tick", UINT64_MAX, &c->tick_ns) ||
	    read_number(line, "steps", UINT32_MAX, &steps) ||
	    read_word(line, "tear", tear, sizeof(tear)) ||
	    read_word(line, "pause", pause, sizeof(pause)) ||
	    read_word(line, "clock", clock, sizeof(clock)))
		return FORGE_E_FORMAT;
	c->steps_max = (uint32_t)steps;
	c->pause_strict = strcmp(pause, "strict") == 0;
	c->clock_own = strcmp(clock, "own") == 0;
	for (size_t i = 0; i < ARRAY_COUNT(tear_names); i++) {
		if (strcmp(tear, tear_names[i]) == 0) {
			c->tear = (enum sim_tear)i;
			return read_kills(line, c);
		}
	}
	return FORGE_E_FORMAT;
}

/* Unpack the letters into choices, or only count them if choices is NULL. */
static int read_choices(const char *at, int bytes, uint8_t *choices, uint32_t *count)
{
	const char *end = at + bytes;

	*count = 0;
	while (at < end) {
		unsigned long run = 1;
		int letter = *at++ - 'a';

		if (letter < 0 || letter >= SIM_WORKERS_MAX)
			return FORGE_E_FORMAT;
		if (at < end && *at >= '0' && *at <= '9') {
			char *after;

			run = strtoul(at, &after, 10);
			at = after;
		}
		if (run > UINT32_MAX / 2 - *count)
			return FORGE_E_FORMAT;
		if (choices)
			memset(choices + *count, letter, run);
		*count += (uint32_t)run;
	}
	return 0;
}

int sim_replay_parse(const char *line, struct sim_recording *r)
{
	const char *start = strstr(line, LINE_START), *choices;
	int bytes, rc;

	*r = (struct sim_recording){0};
	if (!start)
		return FORGE_E_FORMAT;
	start += strlen(LINE_START);
	bytes = find_field(start, "choices", &choices);
	if (bytes < 0 || read_word(start, "world", r->world, sizeof(r->world)) ||
	    read_word(start, "strategy", r->strategy, sizeof(r->strategy)) ||
	    read_config(start, &r->config))
		return FORGE_E_FORMAT;
	rc = read_choices(choices, bytes, NULL, &r->choice_count);
	if (rc)
		return rc;
	r->choices = malloc((size_t)r->choice_count + 1);
	if (!r->choices)
		return FORGE_E_NO_MEMORY;
	return read_choices(choices, bytes, r->choices, &r->choice_count);
}

void sim_recording_free(struct sim_recording *r)
{
	free(r->choices);
	*r = (struct sim_recording){0};
}

/* --- repeating ------------------------------------------------------------------------------ */

struct replay {
	struct sim_strategy strategy; /* must be first */
	const struct sim_recording *recording;
	bool diverged;
};

static int replay_pick(struct sim_strategy *strategy, const struct sim *s, uint32_t enabled)
{
	struct replay *r = (struct replay *)strategy;
	int choice;

	if (s->step_count < r->recording->choice_count) {
		choice = r->recording->choices[s->step_count];
		if (enabled >> choice & 1)
			return choice;
	}
	r->diverged = true;
	return SIM_ABANDON;
}

int sim_replay(struct sim *s, const struct sim_recording *recording, FILE *trace,
	       struct sim_report *report)
{
	struct replay r = {.strategy = {.pick = replay_pick}, .recording = recording};
	enum sim_end end;

	*report = (struct sim_report){0};
	s->trace = trace;
	end = sim_run(s, &recording->config, &r.strategy);
	s->trace = NULL;
	sim_report_run(report, s, end, recording->strategy);
	return r.diverged ? FORGE_E_FORMAT : report->status;
}

/* The program's exit status. */
static int replay_recording(const struct sim_recording *recording, sim_build_fn build)
{
	static struct sim_report report;
	struct sim *s;
	int rc = build(recording->world, &s);

	if (rc) {
		fprintf(stderr, "replay: no world \"%s\" in this program: %s\n", recording->world,
			status_sentence(rc));
		return 2;
	}
	rc = sim_replay(s, recording, stdout, &report);
	if (rc == FORGE_E_FORMAT && !report.status)
		printf("replay: the choices do not fit this world (was the code changed?)\n");
	printf("run hash %016" PRIx64 ", %" PRIu32 " steps: %s\n%s\n", s->hash, s->step_count,
	       rc ? "FAILED" : "clean", report.why);
	sim_destroy(s);
	return rc ? 1 : 0;
}

static int replay_line(const char *line, sim_build_fn build)
{
	struct sim_recording recording;
	int rc = sim_replay_parse(line, &recording);

	if (rc) {
		fprintf(stderr,
			"replay: %s: give the whole line, from \"" LINE_START
			"\" on, as one argument\n",
			status_sentence(rc));
		rc = 2;
	} else {
		rc = replay_recording(&recording, build);
	}
	sim_recording_free(&recording);
	return rc;
}

bool sim_replay_main(int argc, char **argv, sim_build_fn build, int *exit_status)
{
	const char *line = getenv("FORGE_SIM_REPLAY");

	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--replay") == 0)
			line = i + 1 < argc ? argv[i + 1] : "";
	if (!line)
		return false;
	*exit_status = replay_line(line, build);
	return true;
}
