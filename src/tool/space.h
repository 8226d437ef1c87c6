/*
 * space.h: what the chunks of a pool are filled with, and what its memory is for.
 *
 * For `forge stat`: READ from the TWIMs of the sealed groups, the dead map and, with a scan, the
 * index.  Nothing is written.  While compute nodes are attached the numbers are a moment each;
 * a group that is freed while it is looked at is left out.
 */
#ifndef FORGE_TOOL_SPACE_H
#define FORGE_TOOL_SPACE_H

#include <jansson.h>

#include "pool/pool.h"

struct space {
	uint64_t groups; /* sealed, in a ring */
	uint64_t members;
	uint64_t sealed_bytes; /* of their chunks */
	uint64_t used_bytes;   /* of their objects and TWIMs */
	/* Known without the index: never got a slot, or named by the dead map. */
	uint64_t dead_members, dead_bytes;
	uint64_t chunks_held; /* open, reserved or evicting: in somebody's hand at the moment */

	/* Only with a scan: members whose slot still holds their exact word. */
	int has_scan;
	uint64_t live_members, live_bytes;
};

/* 0, FORGE_E_NO_MEMORY or FORGE_E_NODE.  A scan needs memory for the whole index.  Waits. */
MAY_WAIT int space_take(const struct pool *, struct worker *, int scan, struct space *out);

/* Share of the sealed chunks that objects and TWIMs fill; 0 when there is none. */
double space_sealed_fill(const struct space *);

/* For people; and for programs, as the members "sealed" and "memory" of the object. */
void space_print(const struct space *, const struct plan *);
void space_json(const struct space *, const struct plan *, json_t *root);

#endif
