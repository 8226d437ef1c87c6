/*
 * at_once.h: the same for each memory node of a list, for all of them at the same time, so that
 * several which do not answer take no longer than one of them.
 *
 * What the client does when it attaches (client/reach.h), for subcommands that only look.  Any
 * thread.
 */
#ifndef FORGE_TOOL_AT_ONCE_H
#define FORGE_TOOL_AT_ONCE_H

typedef void (*at_once_fn)(void *context, unsigned i);

/*
 * Call one(context, i) for each i below count, each on a thread of its own with signals
 * blocked, and return when all have returned; what no thread can be had for is done here, after
 * the others were started.  A single one is done here, too.  What one i touches no other touches;
 * all that was written is there when it returns.
 */
void at_once(unsigned count, at_once_fn one, void *context);

#endif
