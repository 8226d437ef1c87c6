/* schedule.c: choosing, reading and writing fault schedules. */
#include "vtime/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/status.h"

/* Durations are chosen evenly by their logarithm, from a verb's to many polls' and window's. */
#define SHORTEST_NS   UINT64_C(500)
#define LONGEST_NS    UINT64_C(8000000)
#define STORM_MOST_NS 100000u
#define AWAY_MOST_NS  2000000u
#define SKEW_MOST_NS  50000000
/* A quarter of what pool/time.h allows two clocks to run apart. */
#define DRIFT_MOST_PPM 200

static const struct {
	const char *name;
	unsigned settings;
	const char *sentence;
} kinds[] = {
#define KIND(name, text, settings, sentence) {text, settings, sentence},
    SCHEDULE_KINDS(KIND)
#undef KIND
};

const char *fault_kind_name(unsigned kind)
{
	return kind < FAULT_KINDS ? kinds[kind].name : NULL;
}

const char *fault_kind_sentence(unsigned kind)
{
	return kind < FAULT_KINDS ? kinds[kind].sentence : NULL;
}

static uint64_t choose_duration(struct prng *p, uint64_t most_ns)
{
	uint64_t ns = SHORTEST_NS, doublings = 0;

	for (uint64_t limit = SHORTEST_NS; limit * 2 <= most_ns; limit *= 2)
		doublings++;
	ns <<= prng_below(p, doublings + 1);
	return ns + prng_below(p, ns);
}

static enum fault_kind choose_kind(struct prng *p, uint32_t wanted)
{
	/* How often each comes: what ends a process less often than what delays it. */
	static const uint8_t weights[FAULT_KINDS] = {
	    [FAULT_PAUSE] = 10, [FAULT_SLOW] = 3,  [FAULT_DELAY] = 8,	[FAULT_CUT] = 2,
	    [FAULT_KILL] = 5,	[FAULT_LEAVE] = 2, [FAULT_RESTART] = 1, [FAULT_WIPE] = 1,
	};
	uint64_t sum = 0, dice;
	unsigned kind = 0;

	for (unsigned i = 0; i < FAULT_KINDS; i++)
		sum += wanted >> i & 1 ? weights[i] : 0;
	if (!sum)
		return FAULT_SKEW;
	dice = prng_below(p, sum);
	for (;; kind++) {
		uint64_t weight = wanted >> kind & 1 ? weights[kind] : 0;

		if (dice < weight)
			return (enum fault_kind)kind;
		dice -= weight;
	}
}

static void add_skews(struct schedule *s, struct prng *p, const struct schedule_wish *wish)
{
	if (prng_below(p, 3))
		return;
	for (uint32_t cn = 0; cn < wish->cns && s->count < SCHEDULE_FAULTS_MAX; cn++)
		s->faults[s->count++] = (struct fault){
		    .kind = FAULT_SKEW,
		    .cn = cn,
		    .thread = SCHEDULE_EVERY_THREAD,
		    .by = (int64_t)prng_below(p, 2 * SKEW_MOST_NS) - SKEW_MOST_NS,
		    .drift_ppm = (int32_t)prng_below(p, 2 * DRIFT_MOST_PPM + 1) - DRIFT_MOST_PPM,
		};
}

/* All verbs of all nodes are now and then late, all the time: what races there are happen. */
static void add_delays(struct schedule *s, struct prng *p, const struct schedule_wish *wish)
{
	uint64_t by_ns = choose_duration(p, STORM_MOST_NS);

	if (prng_below(p, 3))
		return;
	for (uint32_t cn = 0; cn < wish->cns && s->count < SCHEDULE_FAULTS_MAX; cn++)
		s->faults[s->count++] = (struct fault){
		    .kind = FAULT_DELAY,
		    .cn = cn,
		    .thread = SCHEDULE_EVERY_THREAD,
		    .by = (int64_t)by_ns,
		    .for_ns = wish->span_ns,
		};
}

static int by_time(const void *a, const void *b)
{
	const struct fault *x = a, *y = b;

	return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

void schedule_make(struct schedule *s, struct prng *p, const struct schedule_wish *wish)
{
	uint32_t wanted = wish->kinds ? wish->kinds : (1u << FAULT_KINDS) - 1;
	uint64_t count = 1 + prng_below(p, wish->faults_most);

	*s = (struct schedule){0};
	if (wanted >> FAULT_SKEW & 1)
		add_skews(s, p, wish);
	if (wanted >> FAULT_DELAY & 1)
		add_delays(s, p, wish);
	if (!(wanted & ~(1u << FAULT_SKEW)) || !wish->faults_most)
		return;
	while (count-- && s->count < SCHEDULE_FAULTS_MAX) {
		struct fault *f = &s->faults[s->count++];

		*f = (struct fault){
		    .kind = choose_kind(p, wanted),
		    .at_ns = prng_below(p, wish->span_ns),
		    .cn = (uint32_t)prng_below(p, wish->cns),
		    .thread = SCHEDULE_EVERY_THREAD,
		};
		unsigned settings = kinds[f->kind].settings;
		bool ends = f->kind >= FAULT_CUT;

		if (settings & SCHEDULE_FOR)
			f->for_ns = choose_duration(p, ends ? AWAY_MOST_NS : LONGEST_NS);
		if ((settings & SCHEDULE_THREAD) && prng_below(p, 2))
			f->thread = (uint32_t)prng_below(p, wish->threads);
		if (f->kind == FAULT_SLOW)
			f->by = 2 << prng_below(p, 8);
		if (f->kind == FAULT_DELAY) {
			f->by = (int64_t)choose_duration(p, 500000);
			f->for_ns = max_u64(f->for_ns, 4 * (uint64_t)f->by);
		}
		if (settings & SCHEDULE_NODE)
			f->cn = 0;
	}
	qsort(s->faults, s->count, sizeof(s->faults[0]), by_time);
}

/* ---- text ---------------------------------------------------------------------------------- */

#define REFUSE(...) (snprintf(error_text, error_bytes, __VA_ARGS__), FORGE_E_INVAL)

/* "3ms", "-20us", "1.5ms", "700ns", "0.2s", "0"; no more than SCHEDULE_TIME_MAX_NS. */
static bool read_time(const char *text, int64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	char *end;
	double number = strtod(text, &end);

	if (end == text)
		return false;
	if (number == 0 && !*end) {
		*ns = 0;
		return true;
	}
	for (unsigned i = 0; i < ARRAY_COUNT(units); i++)
		if (strcmp(end, units[i].unit) == 0) {
			double value = number * units[i].ns;

			if (!(value >= -(double)SCHEDULE_TIME_MAX_NS &&
			      value <= (double)SCHEDULE_TIME_MAX_NS))
				return false;
			*ns = (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
			return true;
		}
	return false;
}

static bool read_number(const char *text, int64_t *number)
{
	char *end;

	*number = strtoll(text, &end, 10);
	return end != text && !*end && *number > INT32_MIN && *number < INT32_MAX;
}

/* One "name=value" of a fault whose kind is known, or not yet (at). */
static bool read_setting(struct fault *f, unsigned settings, bool has_kind, const char *name,
			 const char *value)
{
	int64_t number;

	if (strcmp(name, "at") == 0 && read_time(value, &number) && number >= 0) {
		f->at_ns = (uint64_t)number;
	} else if (!has_kind) {
		return false;
	} else if (strcmp(name, "cn") == 0 && !(settings & SCHEDULE_NODE) &&
		   read_number(value, &number) && number >= 0) {
		f->cn = (uint32_t)number;
	} else if (strcmp(name, "thread") == 0 && (settings & SCHEDULE_THREAD) &&
		   read_number(value, &number) && number >= 0) {
		f->thread = (uint32_t)number;
	} else if (strcmp(name, "for") == 0 && (settings & SCHEDULE_FOR) &&
		   read_time(value, &number) && number >= 0) {
		f->for_ns = (uint64_t)number;
	} else if (strcmp(name, "by") == 0 && (settings & SCHEDULE_BY) &&
		   (f->kind == FAULT_SLOW
			? read_number(value, &number) && number > 0 && number <= SCHEDULE_SLOW_MAX
			: read_time(value, &number) && (f->kind == FAULT_SKEW || number >= 0))) {
		f->by = number;
	} else if (strcmp(name, "drift") == 0 && (settings & SCHEDULE_DRIFT) &&
		   read_number(value, &number) && number >= -400 && number <= 400) {
		f->drift_ppm = (int32_t)number;
	} else {
		return false;
	}
	return true;
}

static int list_kinds(char *text, size_t bytes)
{
	int used = 0;

	for (unsigned i = 0; i < FAULT_KINDS; i++)
		used += snprintf(text + used, bytes - (size_t)used, "%s%s", i ? ", " : "",
				 kinds[i].name);
	return used;
}

static int parse_fault(struct fault *f, char *text, char *error_text, size_t error_bytes)
{
	bool has_kind = false;
	unsigned given = 0;
	char *rest, names[128];

	*f = (struct fault){.thread = SCHEDULE_EVERY_THREAD};
	for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
		char *value = strchr(word, '=');
		unsigned kind = 0;

		if (value) {
			*value++ = '\0';
			if (!read_setting(f, kinds[f->kind].settings, has_kind, word, value))
				return REFUSE(
				    "'%s=%s' is no setting of %s%s; write e.g. "
				    "'at=1ms pause cn=0 for=3ms', with times up to 1s "
				    "and factors up to %d",
				    word, value, has_kind ? "the fault " : "a fault without a kind",
				    has_kind ? kinds[f->kind].name : "", SCHEDULE_SLOW_MAX);
			given |= strcmp(word, "for") == 0     ? SCHEDULE_FOR
				 : strcmp(word, "by") == 0    ? SCHEDULE_BY
				 : strcmp(word, "drift") == 0 ? SCHEDULE_DRIFT
							      : 0;
			continue;
		}
		while (kind < FAULT_KINDS && strcmp(kinds[kind].name, word) != 0)
			kind++;
		list_kinds(names, sizeof(names));
		if (kind == FAULT_KINDS || has_kind)
			return REFUSE("'%s' is no kind of fault; there are %s", word, names);
		f->kind = (enum fault_kind)kind;
		has_kind = true;
	}
	if (!has_kind)
		return REFUSE("a fault without a kind; write e.g. 'at=1ms kill cn=0'");
	if (f->kind <= FAULT_DELAY && !(given & SCHEDULE_FOR))
		return REFUSE("a %s without how long it is; write e.g. for=3ms",
			      kinds[f->kind].name);
	if ((f->kind == FAULT_SLOW || f->kind == FAULT_DELAY) && !(given & SCHEDULE_BY))
		return REFUSE("a %s without how much it is; write e.g. %s", kinds[f->kind].name,
			      f->kind == FAULT_SLOW ? "by=8" : "by=20us");
	if (f->kind == FAULT_SKEW && !given)
		return REFUSE("a skew without how much it is; write e.g. by=-40ms or drift=100");
	return 0;
}

int schedule_check(const struct schedule *s, uint32_t cns, uint32_t threads, char *error_text,
		   size_t error_bytes)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct fault *f = &s->faults[i];
		const char *name = kinds[f->kind].name;

		if (!(kinds[f->kind].settings & SCHEDULE_NODE) && f->cn >= cns)
			return REFUSE("%s cn=%" PRIu32 ": the cluster has %" PRIu32
				      " compute node%s, from cn=0 on; give --cns",
				      name, f->cn, cns, cns == 1 ? "" : "s");
		if (f->thread != SCHEDULE_EVERY_THREAD && f->thread >= threads)
			return REFUSE("%s thread=%" PRIu32 ": a compute node has %" PRIu32
				      " threads, from thread=0 on; give --threads",
				      name, f->thread, threads);
	}
	return 0;
}

int schedule_parse(struct schedule *s, const char *text, char *error_text, size_t error_bytes)
{
	char *copy = strdup(text), *rest;
	int status = copy ? 0 : FORGE_E_NO_MEMORY;

	*s = (struct schedule){0};
	if (!copy)
		snprintf(error_text, error_bytes, "%s", status_sentence(status));
	for (char *one = copy ? strtok_r(copy, ";\n", &rest) : NULL; one && !status;
	     one = strtok_r(NULL, ";\n", &rest)) {
		if (one[strspn(one, " \t\r")] == '\0')
			continue;
		if (s->count == SCHEDULE_FAULTS_MAX)
			status = REFUSE("more than %u faults", SCHEDULE_FAULTS_MAX);
		else
			status = parse_fault(&s->faults[s->count++], one, error_text, error_bytes);
	}
	free(copy);
	if (!status && s->count)
		qsort(s->faults, s->count, sizeof(s->faults[0]), by_time);
	return status;
}

static int print_fault(const struct fault *f, char *text, size_t bytes)
{
	unsigned settings = kinds[f->kind].settings;
	char cn[32] = "", thread[32] = "", during[48] = "", by[48] = "", drift[32] = "";

	if (!(settings & SCHEDULE_NODE))
		snprintf(cn, sizeof(cn), " cn=%" PRIu32, f->cn);
	if ((settings & SCHEDULE_THREAD) && f->thread != SCHEDULE_EVERY_THREAD)
		snprintf(thread, sizeof(thread), " thread=%" PRIu32, f->thread);
	if (settings & SCHEDULE_FOR)
		snprintf(during, sizeof(during), " for=%" PRIu64 "ns", f->for_ns);
	if (settings & SCHEDULE_BY)
		snprintf(by, sizeof(by), " by=%" PRId64 "%s", f->by,
			 f->kind == FAULT_SLOW ? "" : "ns");
	if ((settings & SCHEDULE_DRIFT) && f->drift_ppm)
		snprintf(drift, sizeof(drift), " drift=%" PRId32, f->drift_ppm);
	return snprintf(text, bytes, "at=%" PRIu64 "ns %s%s%s%s%s%s", f->at_ns, kinds[f->kind].name,
			cn, thread, by, drift, during);
}

size_t schedule_print(const struct schedule *s, char *text, size_t text_bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < s->count && used < text_bytes; i++) {
		if (i)
			used += (size_t)snprintf(text + used, text_bytes - used, "; ");
		if (used < text_bytes)
			used += (size_t)print_fault(&s->faults[i], text + used, text_bytes - used);
	}
	return used;
}

void schedule_remove(struct schedule *s, uint32_t index)
{
	memmove(&s->faults[index], &s->faults[index + 1],
		(s->count - index - 1) * sizeof(s->faults[0]));
	s->count--;
}
