/*
 * fiber.h: flows of control that are switched by hand.
 *
 * Who may call: the run layer and the scheduler.  A fiber runs only inside fiber_resume() and
 * gives control back by fiber_yield() or by returning from its function, so at most one of the
 * fibers of a thread runs.  A fiber is used by the thread that created it and by no other; fibers
 * may resume fibers, but none that is itself waiting in fiber_resume().
 *
 * The fiber owns its stack; the argument is borrowed for as long as the function runs.  Stacks
 * end in a guard page: a flow that overruns its stack faults instead of corrupting a neighbour.
 * Those of fibers beyond FIBER_GUARDED_MAX do not: a guarded stack is two of the mappings that a
 * process may have (vm.max_map_count, 65,530 by default), while the others become one together.
 *
 * Two backends with this interface: fiber_context.c (Boost.Context, the default) and
 * fiber_pthread.c (meson setup -Dfiber=pthread), where each fiber is a thread and thread-local
 * variables are therefore not the resumer's.
 */
#ifndef FORGE_FIBER_FIBER_H
#define FORGE_FIBER_FIBER_H

#include <stddef.h>

struct fiber;

typedef void (*fiber_fn)(void *argument);

/* Frames stay under 1 KiB (STYLE), but printf and the sanitizers need room. */
#define FIBER_STACK_BYTES_DEFAULT (64u * 1024u)

/* So many fibers of a process have guard pages: half of the mappings there may be. */
#define FIBER_GUARDED_MAX 16384u

/*
 * A fiber that will run fn(argument) at its first resume.  stack_bytes is rounded up to pages;
 * 0 means the default.  NULL when memory is short.
 */
struct fiber *fiber_create(fiber_fn fn, void *argument, size_t stack_bytes);

/*
 * Begin anew with another function on the same stack.  A fiber that has not finished is dropped
 * where it stands: nothing of it runs again, and what it held stays held.  Not from inside it.
 */
void fiber_reset(struct fiber *f, fiber_fn fn, void *argument);

/* Run f until it yields or finishes.  It has not finished, and is not running. */
void fiber_resume(struct fiber *f);

/* Give control back to the resumer; returns at the next resume.  Only inside a fiber. */
void fiber_yield(void);

/* Has the function returned? */
int fiber_done(const struct fiber *f);

/* The fiber that runs the caller, or NULL outside any. */
struct fiber *fiber_current(void);

/* Free f, dropped as by fiber_reset() when it has not finished.  NULL is permitted. */
void fiber_destroy(struct fiber *f);

#endif
