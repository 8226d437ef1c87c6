/* host.c: the boot id of the kernel tells hosts apart, and one host before and after it started. */
#include "client/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

uint64_t host_boot(void)
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (f) {
		if (!fgets(text, sizeof(text), f))
			text[0] = '\0';
		fclose(f);
	}
	return text[0] ? hash_key(text, strlen(text)) : 0;
}

int host_check(const struct pool *pool, char *error_text, size_t error_bytes)
{
	uint64_t here = host_boot();

	if (pool->boot == 0 || here == 0 || pool->boot == here)
		return 0;
	snprintf(
	    error_text, error_bytes,
	    "the pool was last served by another host, or before this one started (boot %016" PRIx64
	    ", here %016" PRIx64 "): memory shared between hosts is not used, for nothing says "
	    "that it is coherent; start 'forge node' on this host first",
	    pool->boot, here);
	return FORGE_E_INVAL;
}
