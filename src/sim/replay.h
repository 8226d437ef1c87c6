/*
 * replay.h: a run as one printed line, and that line as a run.
 *
 *   forge-sim replay: world=toy seed=7 tear=halves pause=strict clock=own tick=1000 steps=20000
 *   kills=1@4:0 strategy=random choices=a3ba2
 *
 * (on one line).  Workers are letters, a number repeats the letter before it.  A test program
 * calls sim_replay_main() first thing; given --replay 'line', or the line in FORGE_SIM_REPLAY,
 * it repeats that run, prints every step, and says whether it failed and with which hash.
 */
#ifndef FORGE_SIM_REPLAY_H
#define FORGE_SIM_REPLAY_H

#include "sim/sched.h"

struct sim_recording {
	char world[64];
	char strategy[16];
	struct sim_config config;
	uint8_t *choices; /* the recording's; sim_recording_free() */
	uint32_t choice_count;
};

/* The run just made; false, and an empty text, if it does not fit. */
bool sim_replay_format(const struct sim *, const char *strategy, char *text, size_t text_bytes);

/* 0 or FORGE_E_FORMAT or FORGE_E_NO_MEMORY. */
int sim_replay_parse(const char *line, struct sim_recording *);
void sim_recording_free(struct sim_recording *);

/*
 * Repeat a run; trace may be NULL.  0, the failure of the run's check, or FORGE_E_FORMAT if the
 * choices do not fit the world.  sim_hash() is the run's.
 */
int sim_replay(struct sim *, const struct sim_recording *, FILE *trace, struct sim_report *);

/* Build the world of that name; FORGE_E_INVAL if the program has none. */
typedef int (*sim_build_fn)(const char *world, struct sim **out);

/*
 * If a replay was asked for, do it, print to stdout and set *exit_status (1 if the run failed,
 * 2 if the line is unusable).  The simulation built is destroyed; its context is the program's.
 */
bool sim_replay_main(int argc, char **argv, sim_build_fn build, int *exit_status);

#endif
