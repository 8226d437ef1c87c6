/*
 * role.h: what a client of a memory node may do.
 *
 * Everyone may include it.  The numbers are those of enum wire_role in fabric/tcp_wire.h, which is
 * above this folder and holds them to be equal; a smaller number may all that a larger one may.
 */
#ifndef FORGE_ACCESS_ROLE_H
#define FORGE_ACCESS_ROLE_H

#include <stdint.h>
#include <string.h>

enum access_role {
	ACCESS_FULL = 1,
	ACCESS_READ_ONLY = 2,
	ACCESS_METRICS = 3,
};

/* "full", "read-only", "metrics"; NULL for a number that is none. */
static inline const char *access_role_name(uint8_t role)
{
	static const char *const names[] = {NULL, "full", "read-only", "metrics"};

	return role < sizeof(names) / sizeof(names[0]) ? names[role] : NULL;
}

/* The role of a name, or 0. */
static inline uint8_t access_role_of(const char *name)
{
	for (uint8_t role = ACCESS_FULL; role <= ACCESS_METRICS; role++)
		if (strcmp(name, access_role_name(role)) == 0)
			return role;
	return 0;
}

#endif
