/*
 * registry.h: the line that each compute node has in the registry.
 *
 * Part of the layout, whose picture is in layout.h.  Pure.
 */
#ifndef FORGE_LAYOUT_REGISTRY_H
#define FORGE_LAYOUT_REGISTRY_H

#include <stddef.h>
#include "layout/rings.h"

/*
 *   OFFSET SIZE FIELD
 *   0      8    id word: state (bits 62-63), incarnation (32-61), pid (0-31); CAS only
 *   8      8    lease: pool time in us until which the CN promises to be alive (0: no lease)
 *   16     8    flushed-up-to, small: every position below it has been flushed
 *   24     8    flushed-up-to, main
 *   32     8    fence seen
 *   40     8    time of the last poll, us of pool time
 *   48     8    workers: how many threads of this CN may evict
 *   56     8    zero
 */
struct layout_registry {
	uint64_t id;
	uint64_t lease_us;
	uint64_t flushed[RING_QUEUES];
	uint64_t fence;
	uint64_t polled_us;
	uint64_t worker_count;
	uint64_t zero;
};
static_assert(sizeof(struct layout_registry) == LAYOUT_REGISTRY_BYTES, "one line per CN");
static_assert(offsetof(struct layout_registry, flushed) == 16, "layout");
static_assert(offsetof(struct layout_registry, worker_count) == 48, "layout");

#define REGISTRY_FREE	    0u
#define REGISTRY_LIVE	    1u
#define REGISTRY_DEAD	    2u
#define REGISTRY_RECOVERING 3u

/*
 * A counter of an OFM row holds 255.  One row can hold what three positions got before it is
 * cleared (its own, a late flush to the one before, and one in between), so a CN may add
 * 255 / 3 / cn_max to a counter per position; that must be at least 1.
 */
#define LAYOUT_FLUSH_BUDGET 85u
#define LAYOUT_CN_MAX	    LAYOUT_FLUSH_BUDGET

static inline uint64_t registry_pack(uint32_t state, uint32_t incarnation, uint32_t pid)
{
	return layout_put(state, 62, 2) | layout_put(incarnation & ((1u << 30) - 1), 32, 30) |
	       layout_put(pid, 0, 32);
}

static inline uint32_t registry_state(uint64_t id)
{
	return (uint32_t)layout_bits(id, 62, 2);
}

static inline uint32_t registry_incarnation(uint64_t id)
{
	return (uint32_t)layout_bits(id, 32, 30);
}

static inline uint32_t registry_pid(uint64_t id)
{
	return (uint32_t)layout_bits(id, 0, 32);
}

#endif
