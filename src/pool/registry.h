/*
 * registry.h: who is attached to the pool.
 *
 * One 64-byte line per compute node.  Its id word changes only by CAS; the rest of the line is
 * written by its owner alone.  Called by the CN code and by tools.
 */
#ifndef FORGE_POOL_REGISTRY_H
#define FORGE_POOL_REGISTRY_H

#include "pool/pool.h"

/*
 * How a CN proves that it lives, and learns for sure that another does not: by locks, one per CN
 * id, that a process loses when it dies and not before.  On one host the kernel keeps them
 * (client/alive.h); a CN that only sleeps keeps its lock.
 *
 * Whoever holds the lock of an id may join with it and, if the registry says LIVE, recover what
 * the dead owner left: so an id is re-used only after recovery, and only one recovers at a time.
 */
struct liveness {
	void *context;
	/* Take the lock of an id.  0, or FORGE_E_AGAIN while somebody has it. */
	int (*hold)(void *context, uint32_t cn);
	void (*release)(void *context, uint32_t cn);
};

/* A compute node's membership. */
struct registry_member {
	uint32_t cn; /* its id: the index of its line */
	uint64_t id; /* the exact id word while attached */
};

/*
 * Take a free line, and the lock of its id if there is a liveness.  lines is scratch for cn_max
 * lines.
 * Waits.  0, FORGE_E_FULL_REGISTRY, or FORGE_E_NODE.
 */
MAY_WAIT int registry_join(const struct pool *, struct worker *, uint32_t pid,
			   struct layout_registry *lines, const struct liveness *,
			   struct registry_member *out);

/* Give the line back.  Everything the CN owned must be back before.  Waits. */
MAY_WAIT int registry_leave(const struct pool *, struct worker *, const struct registry_member *);

/* What a CN publishes after a poll. */
struct registry_news {
	uint64_t flushed[RING_QUEUES];
	uint64_t fence;
	uint64_t polled_us;
	uint64_t worker_count;
};

/* WRITE it into the line; lands after every verb posted before.  Waits. */
MAY_WAIT int registry_publish(const struct pool *, struct worker *, const struct registry_member *,
			      const struct registry_news *);

/* READ every line (cn_max of them).  Waits. */
MAY_WAIT int registry_read(const struct pool *, struct worker *, enum fab_purpose,
			   struct layout_registry *lines);

#endif
