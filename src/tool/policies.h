/*
 * policies.h: a policy that the user names, for subcommands.
 *
 * Main thread.
 */
#ifndef FORGE_TOOL_POLICIES_H
#define FORGE_TOOL_POLICIES_H

#include "policy/policy.h"
#include "tool/command.h"

/* Find it.  NULL if there is none, and the error has been printed, with those that there are. */
const struct policy *tool_policy(const struct command *, const char *name);

#endif
