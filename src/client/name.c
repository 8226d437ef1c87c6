/* name.c: taking a pool's name apart. */
#include "client/name.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "base/status.h"

#define LATENCY	       "?latency="
#define LATENCY_US_MAX 1000000u

int name_parse(const char *name, struct pool_name *out, char *error_text, size_t error_bytes)
{
	/* The last one: a file's name may hold anything, but hardly this at its end. */
	const char *option = strrchr(name, '?');
	size_t bytes = strlen(name);

	out->latency_us = 0;
	if (option && strncmp(option, LATENCY, strlen(LATENCY)) == 0) {
		const char *time = option + strlen(LATENCY);

		if (parse_duration_us(time, &out->latency_us) || out->latency_us > LATENCY_US_MAX) {
			snprintf(error_text, error_bytes,
				 "\"%s\" in the pool's name is no latency: write a time of at most "
				 "1s with a unit, e.g. 2us",
				 time);
			return FORGE_E_INVAL;
		}
		bytes = (size_t)(option - name);
	}
	if (bytes >= sizeof(out->where)) {
		snprintf(error_text, error_bytes, "the pool's name is longer than %zu bytes",
			 sizeof(out->where) - 1);
		return FORGE_E_INVAL;
	}
	memcpy(out->where, name, bytes);
	out->where[bytes] = '\0';
	return 0;
}
