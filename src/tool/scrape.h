/*
 * scrape.h: what servers say of the verbs they cost, at their endpoints for Prometheus.
 *
 * Verbs are counted where they are posted, in each compute node; to put the counts into the pool
 * would cost further verbs.  A `forge serve --metrics` tells them to whoever asks, so `forge top`
 * asks.  A server tells what it had counted at most a second before.  Any thread.
 */
#ifndef FORGE_TOOL_SCRAPE_H
#define FORGE_TOOL_SCRAPE_H

#include <stddef.h>

#include "fabric/fabric.h"

struct scraped {
	uint64_t verbs[FAB_PURPOSES][FAB_CODES];
	uint64_t operations; /* Gets, Sets, conditional operations and Deletes */
};

/*
 * The sums over the servers of a list, ADDRESS:PORT with commas between them; *out is zeroed first.
 * All are asked at once: waits a few seconds at most for whoever says nothing.  0; FORGE_E_INVAL
 * for an address that is none, FORGE_E_SYSTEM when nobody answers there, FORGE_E_FORMAT when it is
 * no forge serve; error_text names the address and the remedy.
 */
int scrape_servers(const char *list, struct scraped *out, char *error_text, size_t error_bytes);

#endif
