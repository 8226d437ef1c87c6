/*
 * background.h: what a subcommand does that runs as a service: become a user, write down its
 * process id, and go to the background once it is ready.
 *
 * On the main thread, before there are others.  Errors are printed for the command.
 */
#ifndef FORGE_TOOL_BACKGROUND_H
#define FORGE_TOOL_BACKGROUND_H

#include "tool/command.h"

/* Become the user of that name, for who is root; for others nothing.  0 or the exit status. */
int background_become(const struct command *, const char *name);

/* Write the process id into a file.  0 or the exit status. */
int background_write_pid(const struct command *, const char *path);

/*
 * Fork.  The parent waits until the child can be connected to, or has failed with a message, so
 * that its exit status means something.  In the parent: the exit status; in the child -1, and
 * *ready is what to call background_ready() with.
 */
int background_start(const struct command *, int *ready);

/* Ready: from now on nobody sees what is printed. */
void background_ready(int ready);

#endif
