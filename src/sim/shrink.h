/*
 * shrink.h: make a failing run easier to read.
 *
 * A random schedule switches between workers far more often than its bug needs.  sim_shrink()
 * looks for a run of the same world that fails with the same status, with fewer switches (or as
 * many, and fewer steps), without kills and torn verbs if they are not to blame.  It stops when
 * no single change helps, or after SHRINK_RUNS_MAX runs.
 */
#ifndef FORGE_SIM_SHRINK_H
#define FORGE_SIM_SHRINK_H

#include "sim/sched.h"

#define SHRINK_RUNS_MAX 4000u

/*
 * Replaces replay, why and failed_hash of a report whose status is not 0; its sums stay.  0, or
 * FORGE_E_FORMAT (the report's line is not of this world), or FORGE_E_NO_MEMORY; then the report
 * is unchanged.
 */
int sim_shrink(struct sim *, struct sim_report *);

#endif
