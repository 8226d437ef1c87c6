/* time.c: where pool time starts, where it goes on, and the clock of a node elsewhere. */
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

void pool_clock_init(struct pool_clock *c, const struct pool_clock_source *source, void *context)
{
	*c = (struct pool_clock){.looking = ATOMIC_FLAG_INIT, .source = source, .context = context};
	atomic_init(&c->low_ns, INT64_MIN);
	atomic_init(&c->high_ns, INT64_MAX);
}

void pool_clock_learn(struct pool_clock *c, uint64_t began_ns, uint64_t node_ns, uint64_t ended_ns)
{
	/* Rounded outwards. */
	int64_t low_ns = (int64_t)(node_ns - ended_ns + (ended_ns >> POOL_CLOCK_DRIFT_SHIFT) - 1);
	int64_t high_ns = (int64_t)(node_ns - began_ns - (began_ns >> POOL_CLOCK_DRIFT_SHIFT) + 1);
	int64_t known_low_ns = atomic_load_explicit(&c->low_ns, memory_order_relaxed);
	int64_t known_high_ns = atomic_load_explicit(&c->high_ns, memory_order_relaxed);
	/* How far the lines have parted by now. */
	int64_t parted_ns = (int64_t)(ended_ns >> (POOL_CLOCK_DRIFT_SHIFT - 1));
	int jumped = (known_high_ns != INT64_MAX && low_ns > known_high_ns + parted_ns) ||
		     (known_low_ns != INT64_MIN && high_ns < known_low_ns - parted_ns);

	if (jumped || low_ns > known_low_ns)
		atomic_store_explicit(&c->low_ns, low_ns, memory_order_relaxed);
	if (jumped || high_ns < known_high_ns)
		atomic_store_explicit(&c->high_ns, high_ns, memory_order_relaxed);
	atomic_store_explicit(&c->looked_ns, ended_ns, memory_order_relaxed);
}

static MAY_WAIT int look_once(struct pool_clock *c, const struct clock *ours)
{
	uint64_t began_ns = clock_now_ns(ours), node_ns;
	int status = c->source->read(c->context, &node_ns);

	if (!status)
		pool_clock_learn(c, began_ns, node_ns, clock_now_ns(ours));
	return status;
}

int pool_clock_look(struct pool_clock *c, const struct clock *ours, unsigned times)
{
	int status = 0;

	if (atomic_flag_test_and_set_explicit(&c->looking, memory_order_acquire))
		return 0;
	for (unsigned i = 0; i < times && !status; i++)
		status = look_once(c, ours);
	atomic_flag_clear_explicit(&c->looking, memory_order_release);
	return status;
}

/* One question is out: is its answer there? */
static int take_answer(struct pool_clock *c, const struct clock *ours, uint64_t asked_ns)
{
	uint64_t node_ns;
	int found = c->source->answer(c->context, &node_ns);

	if (found <= 0)
		return found;
	pool_clock_learn(c, asked_ns, node_ns, clock_now_ns(ours));
	atomic_store_explicit(&c->asked_ns, 0, memory_order_relaxed);
	return 0;
}

static int ask(struct pool_clock *c, const struct clock *ours)
{
	uint64_t now_ns = clock_now_ns(ours);
	int status = c->source->ask(c->context);

	if (status == 0)
		atomic_store_explicit(&c->asked_ns, now_ns ? now_ns : 1, memory_order_relaxed);
	return status == FORGE_E_AGAIN ? 0 : status;
}

int pool_clock_go_on(struct pool_clock *c, const struct clock *ours, uint64_t now_ns)
{
	int status;

	if (atomic_flag_test_and_set_explicit(&c->looking, memory_order_acquire))
		return 0;
	uint64_t asked_ns = atomic_load_explicit(&c->asked_ns, memory_order_relaxed);

	if (asked_ns)
		status = take_answer(c, ours, asked_ns);
	else if (!c->source->ask ||
		 now_ns - atomic_load_explicit(&c->looked_ns, memory_order_relaxed) >
		     POOL_CLOCK_OLD_NS)
		status = look_once(c, ours);
	else
		status = ask(c, ours);
	atomic_flag_clear_explicit(&c->looking, memory_order_release);
	return status;
}
