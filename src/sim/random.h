/*
 * random.h: many runs of a world, each scheduled by chance from its own seed.
 *
 * Four ways to roll the dice take turns, because they find different bugs: every runnable
 * worker alike; bursts of one worker; random priorities with a few changes (PCT, Burckhardt et
 * al. 2010), which finds a bug that needs d ordered events with known probability; and one
 * worker that falls asleep in the middle of something and wakes up much later.
 */
#ifndef FORGE_SIM_RANDOM_H
#define FORGE_SIM_RANDOM_H

#include "sim/sched.h"

struct sim_random_options {
	struct sim_config config; /* its seed is that of the first run */
	uint64_t run_count;
	uint32_t
	    kill_percent; /* of the runs get a kill, some of them a second one; config has none */
	uint32_t kill_verbs_max; /* a CN dies before it has run so many verbs */
	uint32_t steps_expected; /* of a run; where priorities change; 0: 200 */
	bool keep_going;	 /* do not stop at the first failure */
};

void sim_random(struct sim *, const struct sim_random_options *, struct sim_report *);

#endif
