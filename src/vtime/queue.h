/*
 * queue.h: what happens next: events by virtual time, those of one time in the order they came.
 *
 * A 4-ary heap of 16-byte entries; an event is a number its user knows the meaning of.  Ties are
 * broken by a serial number, so the order of events never depends on the shape of the heap.
 * Called by world.c only, on one thread; the queue owns its array.
 */
#ifndef FORGE_VTIME_QUEUE_H
#define FORGE_VTIME_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct vt_event {
	uint64_t time_ps;
	uint32_t serial; /* compared as a signed difference: fewer than 2^31 are queued at once */
	uint32_t what;
};

struct vt_queue {
	struct vt_event *events;
	uint32_t count, capacity;
	uint32_t serial;
};

void vt_queue_fini(struct vt_queue *);

/* Double the room.  False when there is no memory. */
bool vt_queue_grow(struct vt_queue *);

static inline bool vt_event_before(struct vt_event a, struct vt_event b)
{
	return a.time_ps < b.time_ps ||
	       (a.time_ps == b.time_ps && (int32_t)(a.serial - b.serial) < 0);
}

/* False when there is no memory. */
static inline bool vt_queue_push(struct vt_queue *q, uint64_t time_ps, uint32_t what)
{
	if (unlikely(q->count == q->capacity) && !vt_queue_grow(q))
		return false;
	struct vt_event e = {.time_ps = time_ps, .serial = q->serial++, .what = what};
	uint32_t at = q->count++;

	while (at > 0) {
		uint32_t parent = (at - 1) / 4;

		if (!vt_event_before(e, q->events[parent]))
			break;
		q->events[at] = q->events[parent];
		at = parent;
	}
	q->events[at] = e;
	return true;
}

/* Take the first; there is one. */
static inline struct vt_event vt_queue_pop(struct vt_queue *q)
{
	struct vt_event first = q->events[0], last = q->events[--q->count];
	uint32_t at = 0;

	for (;;) {
		uint32_t child = 4 * at + 1, end = (uint32_t)min_u64(child + 4, q->count);
		uint32_t least = child;

		if (child >= q->count)
			break;
		for (uint32_t i = child + 1; i < end; i++)
			if (vt_event_before(q->events[i], q->events[least]))
				least = i;
		if (!vt_event_before(q->events[least], last))
			break;
		q->events[at] = q->events[least];
		at = least;
	}
	q->events[at] = last;
	return first;
}

#endif
