/*
 * world.h: a cluster in virtual time: memory nodes, compute nodes and their threads, in one thread
 * of this process.
 *
 * Each virtual thread is a fiber.  It runs the code that production runs, on a worker whose clock
 * is the world's and whose flow_run() parks the fiber until its verbs have completed; in between,
 * the world goes from event to event (queue.h).  Memory is plain memory, and a verb takes effect in
 * one piece, at the moment it reaches its node; how long everything takes is the business of nic.h
 * and the profile.  No time of the host is asked for, so the same options give the same run, down
 * to the hash of every verb and its result.
 *
 * Who may call: run.c, calibrate.c, tests.  The world owns memories, fibers and connections' state;
 * connections are closed before it.  One world belongs to one thread; several may exist.
 */
#ifndef FORGE_VTIME_WORLD_H
#define FORGE_VTIME_WORLD_H

#include <stdbool.h>
#include <stddef.h>

#include "fabric/count.h"
#include "run/run.h"
#include "vtime/profile.h"

struct vt_world;
struct vt_thread;

/* Purposes that are housekeeping, for free_purposes. */
#define VT_HOUSEKEEPING \
	(1u << FAB_HOTNESS | 1u << FAB_EVICTION | 1u << FAB_COMPACTION | 1u << FAB_SPACE)

struct vt_world_options {
	const struct vt_profile *profile; /* borrowed */
	uint32_t nodes;			  /* memory nodes */
	uint64_t node_bytes;		  /* of each */
	uint32_t cns;			  /* compute nodes, each a machine with a card */
	uint32_t threads;		  /* of each */
	uint32_t cores; /* of each, shared by its threads; 0: one for each of them */
	uint64_t seed;
	uint32_t free_purposes; /* 1 << enum fab_purpose: verbs for it cost nothing */
};

/* 0, FORGE_E_INVAL or FORGE_E_NO_MEMORY. */
int vt_world_create(const struct vt_world_options *, struct vt_world **out);
void vt_world_destroy(struct vt_world *);

const struct vt_profile *vt_world_profile(const struct vt_world *);

/* From now on, e.g. for several measurements after one warm-up.  The profile is borrowed. */
void vt_world_set_profile(struct vt_world *, const struct vt_profile *);
void vt_world_set_free_purposes(struct vt_world *, uint32_t);

/* A node's memory, zeroed at first; and the part of it that a card's memory holds if it has one. */
void *vt_node_memory(struct vt_world *, uint32_t node);
void vt_node_set_hot(struct vt_world *, uint32_t node, uint64_t from, uint64_t to);

/* The thread of that index; threads of one compute node are neighbours. */
struct vt_thread *vt_thread_at(struct vt_world *, uint32_t index);
uint32_t vt_thread_index(const struct vt_thread *);
uint32_t vt_thread_cn(const struct vt_thread *);
/* Does it run the caller? */
bool vt_thread_is_running(const struct vt_thread *);

/* A thread's connection to a node.  Closed by fab_close().  0 or FORGE_E_NO_MEMORY. */
int vt_connect(struct vt_thread *, uint32_t node, struct fab **out);

/* Fill in a worker of the thread on a connection of it, or on a wrapper around one. */
void vt_worker_init(struct vt_thread *, struct worker *, struct fab *, uint64_t seed);

/* The clock all threads go by; one's own is ahead by what its code has worked since it waited. */
const struct clock *vt_world_clock(const struct vt_world *);
const struct clock *vt_thread_clock(const struct vt_thread *);

/* Let the thread run fn(argument) from now on.  It does not run anything yet. */
void vt_spawn(struct vt_thread *, void (*fn)(void *), void *argument);

/*
 * Go on until nothing happens any more.  0; FORGE_E_AGAIN when a thread waits for what never comes;
 * FORGE_E_NO_MEMORY.
 */
int vt_world_run(struct vt_world *);

/* Called every so many events, with the world's clock; NULL: never. */
void vt_world_set_progress(struct vt_world *, void (*)(void *context), void *context);

/*
 * Called before and after each verb that touches a node's hot words, for oracles; NULL: not.  cn:
 * whose verb it is.
 */
typedef void (*vt_watch_fn)(void *context, uint32_t cn, const struct fab_op *, bool after);
void vt_world_watch(struct vt_world *, vt_watch_fn, void *context);

/* From inside a thread: it works for so long; it sleeps for so long. */
void vt_work(struct vt_thread *, uint64_t ps);
MAY_WAIT void vt_sleep(struct vt_thread *, uint64_t ns);

/* Of all verbs so far, with what they saw and when.  How many there were, and how many events. */
uint64_t vt_world_hash(const struct vt_world *);
uint64_t vt_world_verbs(const struct vt_world *);
uint64_t vt_world_events(const struct vt_world *);

/* The same by purpose and code, as the count provider books them; borrowed. */
const struct fab_counts *vt_world_counts(const struct vt_world *);

/* How long the parts of the busiest node, and of the busiest compute node, have worked. */
struct vt_busy {
	uint64_t now_ps;
	uint64_t node_card_ps, node_held_up_ps, node_atomics_ps, node_in_ps, node_out_ps;
	uint64_t node_word_waited_ps; /* by all atomics together */
	uint64_t cn_card_ps, cn_in_ps, cn_out_ps;
	uint64_t cn_cpu_ps; /* of all its threads together */
};
void vt_world_busy(const struct vt_world *, struct vt_busy *);

#endif
