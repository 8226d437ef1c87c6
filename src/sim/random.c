/* random.c: the seeded strategies; see random.h. */
#include "sim/random.h"

#include "sim/core.h"

#define PRIORITY_CHANGES       3
#define STEPS_EXPECTED_DEFAULT 200u
#define BURST_STEPS	       8u

struct random {
	struct sim_strategy strategy; /* must be first */
	struct prng prng;
	enum { EVEN, BURSTS, PRIORITIES, SLEEPER, MANNERS } manner;
	int last;
	uint32_t priority[SIM_WORKERS_MAX];
	uint32_t change_at_step[PRIORITY_CHANGES];
	uint32_t sleeper, asleep_from_step, asleep_to_step;
};

static int pick_any(struct random *r, uint32_t enabled)
{
	uint64_t skip = prng_below(&r->prng, (uint64_t)__builtin_popcount(enabled));

	while (skip--)
		enabled &= enabled - 1;
	return __builtin_ctz(enabled);
}

static int pick_highest(const struct random *r, uint32_t enabled)
{
	int best = -1;

	for (uint32_t rest = enabled; rest; rest &= rest - 1) {
		int i = __builtin_ctz(rest);

		if (best < 0 || r->priority[i] > r->priority[best])
			best = i;
	}
	return best;
}

static int random_pick(struct sim_strategy *strategy, const struct sim *s, uint32_t enabled)
{
	struct random *r = (struct random *)strategy;

	switch (r->manner) {
	case BURSTS:
		if (r->last < 0 || !(enabled >> r->last & 1) ||
		    prng_below(&r->prng, BURST_STEPS) == 0)
			r->last = pick_any(r, enabled);
		return r->last;
	case PRIORITIES:
		for (uint32_t i = 0; i < PRIORITY_CHANGES; i++)
			if (r->last >= 0 && r->change_at_step[i] == s->step_count)
				r->priority[r->last] = i;
		r->last = pick_highest(r, enabled);
		return r->last;
	case SLEEPER:
		if (s->step_count >= r->asleep_from_step && s->step_count < r->asleep_to_step &&
		    enabled & ~(1u << r->sleeper))
			enabled &= ~(1u << r->sleeper);
		return pick_any(r, enabled);
	default:
		return pick_any(r, enabled);
	}
}

static void random_start(struct random *r, const struct sim *s, uint64_t seed,
			 uint32_t steps_expected)
{
	prng_seed(&r->prng, seed ^ 0x5c4ed);
	r->strategy = (struct sim_strategy){.pick = random_pick};
	r->manner = (int)prng_below(&r->prng, MANNERS);
	r->last = -1;
	for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++)
		r->priority[i] = PRIORITY_CHANGES + (uint32_t)prng_below(&r->prng, 1u << 30);
	for (uint32_t i = 0; i < PRIORITY_CHANGES; i++)
		r->change_at_step[i] = (uint32_t)prng_below(&r->prng, steps_expected);
	r->sleeper = (uint32_t)prng_below(&r->prng, s->ops->worker_count);
	r->asleep_from_step = (uint32_t)prng_below(&r->prng, steps_expected);
	r->asleep_to_step =
	    r->asleep_from_step + (uint32_t)prng_below(&r->prng, 2 * (uint64_t)steps_expected);
}

static void plan_kills(struct random *r, const struct sim *s,
		       const struct sim_random_options *options, struct sim_config *config)
{
	while (config->kill_count < 2 && prng_below(&r->prng, 100) < options->kill_percent) {
		uint64_t victim = prng_below(&r->prng, s->ops->worker_count);

		config->kills[config->kill_count++] = (struct sim_kill){
		    .cn = s->ops->worker_cn[victim],
		    .after_verbs = (uint32_t)prng_below(&r->prng, options->kill_verbs_max),
		    .landing = (uint32_t)prng_below(&r->prng, 4 * SIM_LAND_SEEDED)};
	}
}

void sim_random(struct sim *s, const struct sim_random_options *options, struct sim_report *report)
{
	uint32_t steps_expected =
	    options->steps_expected ? options->steps_expected : STEPS_EXPECTED_DEFAULT;
	struct random r;

	*report = (struct sim_report){0};
	assert(!options->kill_percent || options->config.kill_count == 0);
	assert(!options->kill_percent || options->kill_verbs_max);
	for (uint64_t i = 0; i < options->run_count; i++) {
		struct sim_config config = options->config;

		config.seed += i;
		random_start(&r, s, config.seed, steps_expected);
		plan_kills(&r, s, options, &config);
		sim_report_run(report, s, sim_run(s, &config, &r.strategy), "random");
		if (report->status && !options->keep_going)
			return;
	}
}
