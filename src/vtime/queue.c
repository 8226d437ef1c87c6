/* queue.c: the memory of the event queue. */
#include "vtime/queue.h"

#include <stdlib.h>

#define FIRST_CAPACITY 1024u

void vt_queue_fini(struct vt_queue *q)
{
	free(q->events);
	*q = (struct vt_queue){0};
}

bool vt_queue_grow(struct vt_queue *q)
{
	uint32_t capacity = q->capacity ? 2 * q->capacity : FIRST_CAPACITY;
	struct vt_event *events = realloc(q->events, capacity * sizeof(*events));

	if (!events)
		return false;
	q->events = events;
	q->capacity = capacity;
	return true;
}
