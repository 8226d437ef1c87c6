/* policy.c: finding a policy by name; the table is made from the list in meson.build. */
#include "policy/policy.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define POLICY(symbol) extern const struct policy symbol;
#include "policy/policies_list.h"
#undef POLICY

static const struct policy *const policies[] = {
#define POLICY(symbol) &symbol,
#include "policy/policies_list.h"
#undef POLICY
};

const struct policy *policy_at(unsigned n)
{
	return n < ARRAY_COUNT(policies) ? policies[n] : NULL;
}

const struct policy *policy_find(const char *name)
{
	for (unsigned n = 0; n < ARRAY_COUNT(policies); n++)
		if (strcmp(policies[n]->name, name) == 0)
			return policies[n];
	return NULL;
}

const char *policy_names(char *buf, size_t bytes)
{
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned n = 0; n < ARRAY_COUNT(policies) && used < bytes; n++)
		used += (size_t)snprintf(buf + used, bytes - used, "%s%s", n ? ", " : "",
					 policies[n]->name);
	return buf;
}
