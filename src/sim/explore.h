/*
 * explore.h: every schedule of a small world, up to exchanges that nobody can notice.
 *
 * Each schedule is a fresh run (stateless search).  SIM_EXPLORE_REDUCED is the one to use: from
 * each class of equivalent schedules it completes at least one, and few more.  SIM_EXPLORE_ALL
 * is there to test the former.  SIM_EXPLORE_PREEMPTIONS is for worlds too large to exhaust: all
 * schedules with at most so many switches away from a worker that could have gone on (Musuvathi
 * and Qadeer 2007: few switches suffice for most bugs).
 *
 * A reduced search sets config.clock_own and config.pause_strict: a common clock would make
 * every step depend on every other, and a pause that time may end would never be exhausted.
 */
#ifndef FORGE_SIM_EXPLORE_H
#define FORGE_SIM_EXPLORE_H

#include "sim/sched.h"

enum sim_explore_mode { SIM_EXPLORE_REDUCED, SIM_EXPLORE_ALL, SIM_EXPLORE_PREEMPTIONS };

struct sim_explore_options {
	struct sim_config config;
	enum sim_explore_mode mode;
	uint32_t preemptions_max;
	uint64_t runs_max; /* 0: no bound; when it is hit the report says so */
	bool keep_going;   /* do not stop at the first failure */
};

void sim_explore(struct sim *, const struct sim_explore_options *, struct sim_report *);

/* Something that runs the world under a config and reports: an exploration, random runs. */
typedef void (*sim_try_fn)(struct sim *, const struct sim_config *, void *arg, struct sim_report *);

/*
 * Try the world with each CN killed after each of its verbs in turn, what it has posted landing
 * not at all, whole, or in part.  The kill is added to those config has.  Stops at the first
 * failure.  The report is the sum.
 */
void sim_kill_every_verb(struct sim *, const struct sim_config *, sim_try_fn, void *arg,
			 struct sim_report *);

/*
 * The same for one CN, and for its verbs first, first + stride, ... only.  try may do this again
 * for another CN: then one dies after each of its verbs for each verb of the other.
 */
struct sim_kill_range {
	uint32_t cn, first, stride;
};
void sim_kill_verbs_of(struct sim *, const struct sim_config *, const struct sim_kill_range *,
		       sim_try_fn, void *arg, struct sim_report *);

#endif
