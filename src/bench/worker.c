/*
 * worker.c: one compute node of a run, and what each of its threads does.
 *
 * Time is read before and after every flow, so a latency includes the clock (some 25 ns) and
 * nothing of the load generator: drawing the operation, making its value, verifying and counting
 * happen outside the timed interval.  BENCH_ALL adds the intervals of one operation up.
 */
#include "bench/shared.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "load/value.h"

struct task {
	struct bench_shared *shared;
	const struct bench_setup *setup;
	const struct bench_load *load;
	struct client *client;
	struct session *session;
	struct bench_worker *out;
	uint32_t index;
	pthread_t thread;
	void *state;	/* the load's */
	uint8_t *value; /* to be stored */
	uint64_t version;
	bool measured;
};

/* Fail the run, with the reason; the first worker to fail is the one reported. */
PRINTF_LIKE(3, 4)
static int fail(struct task *t, int status, const char *format, ...)
{
	uint32_t none = 0;
	va_list args;

	va_start(args, format);
	vsnprintf(t->out->error, sizeof(t->out->error), format, args);
	va_end(args);
	t->out->status = status;
	atomic_compare_exchange_strong(&t->shared->failed, &none, t->index + 1);
	atomic_store(&t->shared->stopping, 1);
	return status;
}

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* What a backend would take to give the value. */
static void penalty(uint64_t us)
{
	uint64_t until = now_ns() + us * 1000;
	struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u)};

	if (us < 100) /* a sleep takes longer than that */
		while (now_ns() < until)
			;
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
}

static void note_value_bytes(struct bench_worker *w, uint64_t bytes)
{
	if (w->value_bytes_min > bytes || w->value_bytes_max == 0)
		w->value_bytes_min = bytes;
	if (w->value_bytes_max < bytes)
		w->value_bytes_max = bytes;
}

static bool is_fresh_known(const struct task *t, uint64_t key)
{
	return t->setup->stress && fresh_is_known(&t->shared->fresh, key);
}

static int verify_fresh(struct task *t, uint64_t key, uint64_t version, uint64_t floor)
{
	uint64_t ceiling = fresh_ceiling(&t->shared->fresh, key);

	t->out->tally.fresh++;
	if (likely(version >= floor && version <= ceiling))
		return 0;
	return fail(t, FORGE_E_CORRUPT,
		    "%s VALUE for key %llu: version %llu, but %llu was acknowledged before the Get "
		    "began and %llu is the newest ever issued",
		    version < floor ? "OLD" : "UNKNOWN", (unsigned long long)key,
		    (unsigned long long)version, (unsigned long long)floor,
		    (unsigned long long)ceiling);
}

/* floor: the oldest version it may have, in a stress run. */
static int verify(struct task *t, const struct bench_op *op, const struct cache_value *v,
		  uint64_t floor)
{
	char text[256];
	uint64_t version = 0;

	t->out->tally.verified++;
	if (likely(value_verify(v->data, v->bytes, op->key, &version) == VALUE_GOOD))
		return is_fresh_known(t, op->key) ? verify_fresh(t, op->key, version, floor) : 0;
	value_describe(v->data, v->bytes, op->key, text, sizeof(text));
	return fail(t, FORGE_E_CORRUPT, "WRONG VALUE for key %llu (cas id %llx, %u bytes): %s",
		    (unsigned long long)op->key, (unsigned long long)v->cas_id, v->bytes, text);
}

/* One Set; *ns is what it took. */
static int do_set(struct task *t, const struct bench_op *op, struct cache_key key,
		  enum bench_latency kind, uint64_t *ns)
{
	struct bench_tally *n = &t->out->tally;
	struct cache_item item = {.value = t->value, .bytes = op->value_bytes};

	bool known = is_fresh_known(t, op->key);
	uint64_t version = known ? fresh_issue(&t->shared->fresh, op->key) : ++t->version;

	value_fill(t->value, op->value_bytes, op->key, version, t->index);
	uint64_t start = now_ns();
	int status = session_set(t->session, key, &item);

	*ns = now_ns() - start;
	if (known && status == 0)
		fresh_acknowledge(&t->shared->fresh, op->key, version);
	hist_record(&t->out->latency[kind], *ns);
	n->set_bytes += op->value_bytes;
	n->sets_again += status == FORGE_E_AGAIN;
	n->sets_no_space += status == FORGE_E_NO_SPACE;
	n->sets_too_large += status == FORGE_E_VALUE_LARGE;
	if (status == 0 || status == FORGE_E_AGAIN || status == FORGE_E_NO_SPACE ||
	    status == FORGE_E_VALUE_LARGE)
		return 0;
	return fail(t, status, "Set of key %llu: %s", (unsigned long long)op->key,
		    status_sentence(status));
}

static int do_get(struct task *t, const struct bench_op *op, struct cache_key key, uint64_t *ns)
{
	struct bench_tally *n = &t->out->tally;
	struct cache_value value;
	uint64_t fill_ns = 0;
	uint64_t floor = is_fresh_known(t, op->key) ? fresh_floor(&t->shared->fresh, op->key) : 0;
	uint64_t start = now_ns();
	int status = session_get(t->session, key, &value);

	*ns = now_ns() - start;
	n->gets++;
	n->get_bytes += op->value_bytes;
	if (status == 0) {
		hist_record(&t->out->latency[BENCH_GET_HIT], *ns);
		n->hits++;
		n->hit_bytes += op->value_bytes;
		return t->setup->verify || t->setup->stress ? verify(t, op, &value, floor) : 0;
	}
	if (status != FORGE_MISS)
		return fail(t, status, "Get of key %llu: %s", (unsigned long long)op->key,
			    status_sentence(status));
	hist_record(&t->out->latency[BENCH_GET_MISS], *ns);
	if (t->setup->miss_penalty_us) {
		penalty(t->setup->miss_penalty_us);
		*ns = now_ns() - start;
	}
	if (t->setup->on_miss == BENCH_MISS_IGNORE ||
	    (t->setup->stress && !fresh_may_write(&t->shared->fresh, op->key, t->index)))
		return 0;
	n->fills++;
	status = do_set(t, op, key, BENCH_FILL, &fill_ns);
	*ns += fill_ns;
	return status;
}

static int do_delete(struct task *t, const struct bench_op *op, struct cache_key key, uint64_t *ns)
{
	bool known = is_fresh_known(t, op->key);
	uint64_t version = known ? fresh_issue(&t->shared->fresh, op->key) : 0;
	uint64_t start = now_ns();
	int status = session_delete(t->session, key);

	*ns = now_ns() - start;
	if (known && (status == 0 || status == FORGE_MISS))
		fresh_acknowledge(&t->shared->fresh, op->key, version);
	hist_record(&t->out->latency[BENCH_DELETE], *ns);
	t->out->tally.deletes++;
	if (status == 0 || status == FORGE_MISS || status == FORGE_E_AGAIN)
		return 0;
	return fail(t, status, "Delete of key %llu: %s", (unsigned long long)op->key,
		    status_sentence(status));
}

static int do_op(struct task *t, struct bench_op *op)
{
	if (t->setup->stress && op->kind != LOAD_GET)
		op->key = op->slot = fresh_own_key(&t->shared->fresh, op->key, t->index);

	char buf[BENCH_KEY_BYTES_MAX];
	struct cache_key key = {.data = buf, .bytes = bench_key(t->load, op->key, buf)};
	uint64_t ns = 0, set_ns = 0;
	int status = 0;

	if (t->measured && shared_first_touch(t->shared, op->slot))
		t->out->tally.distinct++;
	note_value_bytes(t->out, op->value_bytes);
	if (op->kind == LOAD_GET || op->kind == LOAD_RMW)
		status = do_get(t, op, key, &ns);
	else if (op->kind == LOAD_DELETE)
		status = do_delete(t, op, key, &ns);
	if (!status && (op->kind == LOAD_SET || op->kind == LOAD_UPDATE ||
			op->kind == LOAD_INSERT || op->kind == LOAD_RMW)) {
		t->out->tally.sets++;
		status = do_set(t, op, key, BENCH_SET, &set_ns);
	}
	hist_record(&t->out->latency[BENCH_ALL], ns + set_ns);
	t->out->tally.operations++;
	return status;
}

/* This worker's part of so many operations. */
static uint64_t share_of(const struct task *t, uint64_t operations)
{
	uint64_t count = t->shared->worker_count;

	return operations / count + (t->index < operations % count);
}

/* Operations until the extent is used up, the load ends (both 0) or the run stops. */
static int run_part(struct task *t, const struct bench_extent *extent)
{
	uint64_t limit = extent->operations ? share_of(t, extent->operations) : UINT64_MAX;
	uint64_t deadline = extent->ns ? now_ns() + extent->ns : UINT64_MAX;
	struct bench_op op;
	int status = 0;

	for (uint64_t done = 0; done < limit; done++) {
		if (done % 16 == 0) {
			atomic_store_explicit(&t->out->progress, done, memory_order_relaxed);
			if (atomic_load_explicit(&t->shared->stopping, memory_order_relaxed) ||
			    (deadline != UINT64_MAX && now_ns() >= deadline))
				break;
		}
		status = t->load->next(t->state, t->measured, &op);
		if (status != BENCH_OP)
			break;
		status = do_op(t, &op);
		if (status)
			return status;
	}
	if (status < 0 && !t->out->status)
		return fail(t, status, "the load: %s", status_sentence(status));
	return 0;
}

/* Store this worker's share of the keys. */
static int preload(struct task *t)
{
	char buf[BENCH_KEY_BYTES_MAX];

	for (uint64_t key = t->index; key < t->load->key_count; key += t->shared->worker_count) {
		struct bench_op op = {.key = key,
				      .value_bytes = t->load->preload_bytes(t->load, key)};
		struct cache_key k = {.data = buf, .bytes = bench_key(t->load, key, buf)};
		uint64_t ns;
		int status = do_set(t, &op, k, BENCH_FILL, &ns);

		if (status)
			return status;
		if (atomic_load_explicit(&t->shared->stopping, memory_order_relaxed))
			break;
	}
	return 0;
}

/* Forget what the warm-up counted. */
static void forget(struct task *t, struct cache_counters *cache, struct fab_counts *verbs)
{
	memset(&t->out->tally, 0, sizeof(t->out->tally));
	for (unsigned i = 0; i < BENCH_LATENCIES; i++)
		hist_reset(&t->out->latency[i]);
	t->out->value_bytes_min = t->out->value_bytes_max = 0;
	*cache = *session_counters(t->session);
	*verbs = *session_verbs(t->session);
}

static void settle(struct task *t, const struct cache_counters *cache,
		   const struct fab_counts *verbs)
{
	const struct cache_counters *now = session_counters(t->session);

#define COUNTER(name, sentence) t->out->cache.name = now->name - cache->name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	t->out->verbs = fab_counts_since(session_verbs(t->session), verbs);
}

static void measure(struct task *t)
{
	struct cache_counters cache;
	struct fab_counts verbs;
	bool warm_up =
	    t->setup->warm_up.operations || t->setup->warm_up.ns || t->load->sets_warm_up_itself;

	if (t->setup->preload && preload(t))
		return;
	if (!shared_barrier(t->shared, BARRIER_WARM_UP))
		return;
	uint64_t start = now_ns();

	if (warm_up && run_part(t, &t->setup->warm_up))
		return;
	t->out->warm_up_ns = now_ns() - start;
	forget(t, &cache, &verbs);
	if (!shared_barrier(t->shared, BARRIER_MEASURED))
		return;
	t->measured = true;
	t->out->start_ns = now_ns();
	if (run_part(t, &t->setup->measured))
		return;
	t->out->end_ns = now_ns();
	settle(t, &cache, &verbs);
	/* Leaving seals and gives chunks back; not while others are measured. */
	shared_barrier(t->shared, BARRIER_DONE);
}

static int prepare(struct task *t, uint64_t *lag_waits)
{
	struct bench_place place = {
	    .seed = t->setup->seed,
	    .index = t->index,
	    .count = t->shared->worker_count,
	    .key_count = &t->shared->key_count,
	    .stopping = &t->shared->stopping,
	    .positions = t->shared->positions,
	    .lag_waits = lag_waits,
	};

	t->state = calloc(1, t->load->state_bytes ? t->load->state_bytes : 1);
	t->value = malloc(t->load->value_bytes_max + 1);
	if (!t->state || !t->value)
		return fail(t, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	int status = t->load->begin(t->load, &place, t->state);

	return status ? fail(t, status, "the load: %s", status_sentence(status)) : 0;
}

static void *task_main(void *argument)
{
	struct task *t = argument;
	uint64_t *lag_waits = &t->out->tally.lag_waits;
	int status = session_open(t->client, &t->session, t->out->error, sizeof(t->out->error));

	if (status) {
		char text[sizeof(t->out->error)];

		memcpy(text, t->out->error, sizeof(text));
		fail(t, status, "%s", text);
		return NULL;
	}
	if (!prepare(t, lag_waits) && shared_barrier(t->shared, BARRIER_ATTACHED))
		measure(t);
	/* Whoever waits for this worker's place in the trace must not wait for ever. */
	atomic_store(&t->shared->positions[(uint64_t)t->index * BENCH_POSITION_STRIDE], UINT64_MAX);
	session_close(t->session);
	free(t->state);
	free(t->value);
	return NULL;
}

static void run_tasks(struct task *tasks, uint32_t count)
{
	uint32_t started = 0;

	while (started < count) {
		int error =
		    pthread_create(&tasks[started].thread, NULL, task_main, &tasks[started]);

		if (error) {
			fail(&tasks[started], FORGE_E_SYSTEM, "starting a thread: %s",
			     strerror(error));
			break;
		}
		started++;
	}
	for (uint32_t i = 0; i < started; i++)
		pthread_join(tasks[i].thread, NULL);
}

void bench_process(struct bench_shared *s, const struct bench_setup *setup,
		   const struct bench_load *load, uint32_t process)
{
	struct task *tasks = calloc(setup->threads, sizeof(*tasks));
	struct task alone = {.shared = s, .out = &s->workers[process * setup->threads]};
	struct client_options options = {
	    .policy = setup->policy,
	    .session_count = setup->threads,
	    .poll_interval_us = setup->poll_interval_us,
	    .open_groups = setup->open_groups,
	    .count_verbs = !setup->no_verb_counts,
	    .seed = setup->seed * 1000 + process * setup->threads,
	};
	char text[400];
	struct client *client = NULL;
	int status = tasks ? client_open(setup->pool, &options, &client, text, sizeof(text))
			   : FORGE_E_NO_MEMORY;

	alone.index = process * setup->threads;
	if (!tasks || status) {
		fail(&alone, status, "%s", tasks ? text : status_sentence(status));
		free(tasks);
		return;
	}
	alone.out->plan = client_pool(client)->plan;
	alone.out->client_memory_bytes = client_memory_bytes(client);
	snprintf(alone.out->policy, sizeof(alone.out->policy), "%s", client_policy(client)->name);
	for (uint32_t i = 0; i < setup->threads; i++)
		tasks[i] = (struct task){
		    .shared = s,
		    .setup = setup,
		    .load = load,
		    .client = client,
		    .index = alone.index + i,
		    .out = &s->workers[alone.index + i],
		};
	run_tasks(tasks, setup->threads);
	client_close(client);
	free(tasks);
}
