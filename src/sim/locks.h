/*
 * locks.h: the locks of one host that prove which compute node is dead, as the kernel keeps them.
 *
 * One lock per compute-node id of the pool (pool/registry.h).  The holder is a process, which is
 * a CN of the simulation; it loses what it holds when it is killed, and not before.  Taking and
 * giving back are steps of the schedule, so whatever can happen between a verb and a lock does.
 *
 * For worlds: struct sim_locks is part of the world's context.  It is plain data, so it is copied
 * back with the rest before each run.  One thread, that of the simulation.
 */
#ifndef FORGE_SIM_LOCKS_H
#define FORGE_SIM_LOCKS_H

#include "pool/registry.h"
#include "sim/sched.h"

#define SIM_LOCKS_MAX 32u /* ids of compute nodes */
/* Not a CN of the simulation: the observer's, e.g. for a last recovery. */
#define SIM_LOCKS_OBSERVER SIM_CNS_MAX

struct sim_process {
	struct sim_locks *locks;
	uint32_t cn; /* of the simulation, or SIM_LOCKS_OBSERVER */
	struct liveness liveness;
};

struct sim_locks {
	struct sim *sim;
	uint8_t holder[SIM_LOCKS_MAX]; /* 1 + the process, 0: nobody */
	struct sim_process processes[SIM_CNS_MAX + 1];
};

/* Nobody holds anything.  The struct must not move afterwards.  Borrows the simulation. */
void sim_locks_init(struct sim_locks *, struct sim *);

/* What a process proves life and death with; borrowed from the struct. */
const struct liveness *sim_locks_liveness(struct sim_locks *, uint32_t cn);

/* The process is gone: its locks are free.  Call it when a CN is killed. */
void sim_locks_drop(struct sim_locks *, uint32_t cn);

/* Does anybody hold the lock of an id?  For checks; no step. */
bool sim_locks_is_held(const struct sim_locks *, uint32_t id);

#endif
