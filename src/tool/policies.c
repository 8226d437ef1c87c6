/* policies.c: finding a policy, or the one that was meant. */
#include "tool/policies.h"

#include "base/opts.h"

const struct policy *tool_policy(const struct command *c, const char *name)
{
	const struct policy *policy = policy_find(name);
	const char *known[32], *nearest;
	char list[256];
	unsigned n = 0;

	if (policy)
		return policy;
	for (; n < ARRAY_COUNT(known) && (policy = policy_at(n)); n++)
		known[n] = policy->name;
	nearest = opts_nearest(name, known, n, sizeof(known[0]));
	tool_fail(c, "--policy=%s: there is no such policy%s%s%s; there are %s", name,
		  nearest ? ", did you mean " : "", nearest ? nearest : "", nearest ? "?" : "",
		  policy_names(list, sizeof(list)));
	return NULL;
}
