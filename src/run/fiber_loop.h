/*
 * fiber_loop.h: many workers on one thread, each on a fiber, parked while their verbs are out.
 *
 * Who may call: the asynchronous API, benchmarks and tests.  A loop, its fibers, its workers and
 * their connections belong to one thread.  The loop owns the fibers; workers and connections are
 * the caller's and outlive the run.  Several workers may share a connection.
 */
#ifndef FORGE_RUN_FIBER_LOOP_H
#define FORGE_RUN_FIBER_LOOP_H

#include "fiber/fiber.h"
#include "run/run.h"

struct fiber_loop;

/* The wait backend of the loop's workers: post, kick, park until the last op has completed. */
extern const struct run_wait run_wait_fiber;

/* A loop whose fibers have stacks of stack_bytes, 0 for the default.  NULL: no memory. */
struct fiber_loop *fiber_loop_create(size_t stack_bytes);

/*
 * Add a fiber that will run fn(w, argument).  Sets w->wait and w->wait_context.  Also from inside
 * a fiber of the loop.  0 or FORGE_E_NO_MEMORY.
 */
int fiber_loop_spawn(struct fiber_loop *loop, struct worker *w,
		     void (*fn)(struct worker *, void *argument), void *argument);

/* The loop whose fiber that worker is on now, or NULL: it waits in another way. */
struct fiber_loop *fiber_loop_of(const struct worker *w);

/*
 * One turn: poll, and resume once each fiber that can go on.  Never from inside a fiber.
 * Are there fibers that have not finished?
 */
int fiber_loop_turn(struct fiber_loop *loop);

/*
 * After a turn: if it resumed nobody, it is better not to look (fabric/wait.h), and the fabric can
 * be slept on, sleep until there may be something for the next one, at most for max_ns.  Returns
 * at once otherwise.
 */
void fiber_loop_wait(struct fiber_loop *loop, uint64_t max_ns);

/*
 * The same for who has other things to wait for as well: what it would sleep on, at most for
 * FAB_SLEEP_NS.  How many of fds, which has room for RUN_WAIT_FABS_MAX; 0: do not sleep, look
 * again.
 */
unsigned fiber_loop_sleep_on(struct fiber_loop *loop, struct pollfd *fds);

/* Resume the fibers in turn, polling for those that are parked, until all have finished. */
void fiber_loop_run(struct fiber_loop *loop);

/* Free the loop and drop unfinished fibers, whose verbs must have completed.  NULL is permitted. */
void fiber_loop_destroy(struct fiber_loop *loop);

#endif
