/* load_trace.c: the requests of a recorded trace as a load of the engine. */
#include "bench/loads.h"

#include <sched.h>

#include "base/hist.h"

/* How often a worker tells where it is and looks where the others are, in its own requests. */
#define LAG_LOOK_INTERVAL 8u

struct replay_state {
	const struct replay_load *replay;
	struct bench_place place;
	uint64_t at;	/* the next request */
	uint64_t dealt; /* requests this worker has taken */
};

static int begin(const struct bench_load *load, const struct bench_place *place, void *state)
{
	struct replay_state *s = state;

	*s = (struct replay_state){
	    .replay = load->context,
	    .place = *place,
	    .at = place->index,
	};
	return 0;
}

static uint64_t slowest(const struct bench_place *place)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t i = 0; i < place->count; i++)
		least = min_u64(least, atomic_load_explicit(
					   &place->positions[(uint64_t)i * BENCH_POSITION_STRIDE],
					   memory_order_relaxed));
	return least;
}

static void publish(struct replay_state *s, uint64_t position)
{
	atomic_store_explicit(&s->place.positions[(uint64_t)s->place.index * BENCH_POSITION_STRIDE],
			      position, memory_order_relaxed);
}

/*
 * Wait while others are more than the lag behind.  Between two looks a worker moves on by their
 * number for each request, so with less than twice that most of them would always wait.
 */
static void keep_order(struct replay_state *s)
{
	uint64_t lag = max_u64(s->replay->lag, 2 * LAG_LOOK_INTERVAL * (uint64_t)s->place.count);

	publish(s, s->at);
	while (s->at > lag && slowest(&s->place) < s->at - lag &&
	       !atomic_load_explicit(s->place.stopping, memory_order_relaxed)) {
		++*s->place.lag_waits;
		if (s->place.pause)
			s->place.pause(s->place.pause_context);
		else
			sched_yield();
	}
}

uint32_t trace_median_bytes(const struct trace_data *t)
{
	struct hist sizes = {0};
	uint32_t seen = 0;

	/* Ids are dense, in the order of their first appearance. */
	for (uint64_t i = 0; i < t->count; i++)
		if (t->ids[i] == seen) {
			hist_record(&sizes, t->sizes[i]);
			seen++;
		}
	return (uint32_t)hist_percentile_ns(&sizes, 50);
}

uint32_t replay_value_bytes(const struct replay_load *r, uint64_t i)
{
	uint64_t bytes = r->value_bytes		   ? r->value_bytes
			 : r->trace->sizes != NULL ? r->trace->sizes[i]
						   : 1;

	return (uint32_t)min_u64(bytes, r->value_bytes_max);
}

static int next(void *state, bool measured, struct bench_op *op)
{
	struct replay_state *s = state;
	const struct replay_load *r = s->replay;
	const struct trace_data *t = r->trace;

	if (s->at >= (measured ? t->count : r->warm_up_requests)) {
		/* Nobody waits for who is through; the position is published again if it goes on.
		 */
		publish(s, UINT64_MAX);
		return BENCH_END;
	}
	if (s->place.count > 1 && s->dealt++ % LAG_LOOK_INTERVAL == 0)
		keep_order(s);
	uint32_t id = t->ids[s->at];

	*op = (struct bench_op){
	    .kind = t->ops && !r->gets_only ? (enum load_op_kind)t->ops[s->at] : LOAD_GET,
	    .value_bytes = replay_value_bytes(r, s->at),
	    .key = t->keys[id],
	    .slot = id,
	};
	s->at += s->place.count;
	return BENCH_OP;
}

void load_of_trace(struct bench_load *load, const struct replay_load *replay)
{
	*load = (struct bench_load){
	    .context = replay,
	    .state_bytes = sizeof(struct replay_state),
	    .begin = begin,
	    .next = next,
	    .slot_count = replay->trace->distinct,
	    .value_bytes_max =
		replay->value_bytes ? (uint32_t)replay->value_bytes : replay->value_bytes_max,
	    .binary_keys = true,
	    .sets_warm_up_itself = replay->warm_up_requests > 0,
	};
}
