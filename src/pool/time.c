/* time.c: where pool time starts, and where it goes on. */
#include "pool/time.h"

#define TIME_OFFSET offsetof(struct layout_superblock, time)

struct layout_time pool_time_new(const struct pool_host *h)
{
	return (struct layout_time){
	    .base_ms = h->wall_ms - h->clock_ms,
	    .boot = h->boot,
	    .seen_ms = h->wall_ms,
	};
}

struct layout_time pool_time_go_on(const struct layout_time *t, const struct pool_host *h)
{
	struct layout_time out = *t;
	/* It may have gone on for so long after it was written down. */
	uint64_t least_ms = t->seen_ms + POOL_TIME_STAMP_MS;

	if (h->boot != t->boot) {
		out.boot = h->boot;
		out.base_ms = h->wall_ms - h->clock_ms;
	} else if (out.base_ms + h->clock_ms >= t->seen_ms) {
		return out; /* the same clock goes on */
	}
	/* Modulo 2^64: the base may be less than 0. */
	if ((int64_t)(out.base_ms + h->clock_ms - least_ms) < 0)
		out.base_ms = least_ms - h->clock_ms;
	return out;
}

int pool_time_take_over(struct worker *w, const struct pool_host *h)
{
	struct layout_time t;
	struct fab_op op = fab_read(FAB_CONTROL, TIME_OFFSET, &t, sizeof(t));
	int status = flow_run(w, &op, 1);

	if (status)
		return status;
	t = pool_time_go_on(&t, h);
	op = fab_write(FAB_CONTROL, TIME_OFFSET, &t, sizeof(t));
	return flow_run(w, &op, 1);
}

int pool_time_stamp(struct worker *w, const struct pool *pool)
{
	uint64_t now_ms = pool->time_base_ms + worker_now_us(w) / 1000;
	struct fab_op op =
	    fab_write(FAB_CONTROL, TIME_OFFSET + offsetof(struct layout_time, seen_ms), &now_ms, 8);

	return flow_run(w, &op, 1);
}
