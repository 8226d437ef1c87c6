/* actor.c: drawing, carrying out, timing and counting the operations of one closed loop. */
#include "bench/actor.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/view.h"
#include "base/hash.h"
#include "base/prng.h"
#include "load/value.h"

int actor_fail(struct bench_actor *a, int status, const char *format, ...)
{
	uint32_t none = 0;
	va_list args;

	va_start(args, format);
	vsnprintf(a->out->error, sizeof(a->out->error), format, args);
	va_end(args);
	a->out->status = status;
	atomic_compare_exchange_strong(&a->shared->failed, &none, a->index + 1);
	atomic_store(&a->shared->stopping, 1);
	return status;
}

static struct cache *cache_of(struct bench_actor *a, struct cache_key key)
{
	return a->route ? a->route(a, key) : a->cache;
}

static void note_value_bytes(struct bench_worker *w, uint64_t bytes)
{
	if (w->value_bytes_min > bytes || w->value_bytes_max == 0)
		w->value_bytes_min = bytes;
	if (w->value_bytes_max < bytes)
		w->value_bytes_max = bytes;
}

static bool is_fresh_known(const struct bench_actor *a, uint64_t key)
{
	return a->setup->stress && fresh_is_known(&a->shared->fresh, key);
}

static int verify_fresh(struct bench_actor *a, uint64_t key, uint64_t version, uint64_t floor)
{
	uint64_t ceiling = fresh_ceiling(&a->shared->fresh, key);

	a->out->tally.fresh++;
	if (likely(version >= floor && version <= ceiling))
		return 0;
	return actor_fail(
	    a, FORGE_E_CORRUPT,
	    "%s VALUE for key %llu: version %llu, but %llu was acknowledged before the Get "
	    "began and %llu is the newest ever issued",
	    version < floor ? "OLD" : "UNKNOWN", (unsigned long long)key,
	    (unsigned long long)version, (unsigned long long)floor, (unsigned long long)ceiling);
}

/* floor: the oldest version it may have, in a stress run. */
static int verify(struct bench_actor *a, const struct bench_op *op, const struct cache_value *v,
		  uint64_t floor)
{
	char text[256];
	uint64_t version = 0;

	a->out->tally.verified++;
	if (likely(value_verify(v->data, v->bytes, op->key, &version) == VALUE_GOOD))
		return is_fresh_known(a, op->key) ? verify_fresh(a, op->key, version, floor) : 0;
	value_describe(v->data, v->bytes, op->key, text, sizeof(text));
	return actor_fail(
	    a, FORGE_E_CORRUPT, "WRONG VALUE for key %llu (cas id %llx, %u bytes): %s",
	    (unsigned long long)op->key, (unsigned long long)v->cas_id, v->bytes, text);
}

/* Was a change refused because its memory node is lost, and is that expected? */
static bool is_refused(struct bench_actor *a, int status)
{
	if (status != FORGE_E_NODE || !a->may_lose_nodes)
		return false;
	a->out->tally.refused++;
	return true;
}

/* Why an operation failed, with what to do about a node that is only slow. */
static const char *reason(int status)
{
	return status == FORGE_E_NODE ? "the memory node is gone, or was silent for longer than "
					"?timeout= behind its name says"
				      : status_sentence(status);
}

/* One Set; *ns is what it took. */
static int do_set(struct bench_actor *a, const struct bench_op *op, struct cache_key key,
		  enum bench_latency kind, uint64_t *ns)
{
	struct bench_tally *n = &a->out->tally;
	struct cache_item item = {.value = a->value, .bytes = op->value_bytes};

	bool known = is_fresh_known(a, op->key);
	uint64_t version = known ? fresh_issue(&a->shared->fresh, op->key) : ++a->version;

	value_fill(a->value, op->value_bytes, op->key, version, a->index);
	uint64_t start = clock_now_ns(a->clock);
	int status =
	    a->view ? view_set(a->view, key, &item) : cache_set(cache_of(a, key), key, &item);

	*ns = clock_now_ns(a->clock) - start;
	if (known && status == 0)
		fresh_acknowledge(&a->shared->fresh, op->key, version);
	hist_record(&a->out->latency[kind], *ns);
	n->set_bytes += op->value_bytes;
	n->sets_again += status == FORGE_E_AGAIN;
	n->sets_no_space += status == FORGE_E_NO_SPACE;
	n->sets_too_large += status == FORGE_E_VALUE_LARGE;
	if (status == 0 || status == FORGE_E_AGAIN || status == FORGE_E_NO_SPACE ||
	    status == FORGE_E_VALUE_LARGE || is_refused(a, status))
		return 0;
	return actor_fail(a, status, "Set of key %llu: %s", (unsigned long long)op->key,
			  reason(status));
}

static int do_get(struct bench_actor *a, const struct bench_op *op, struct cache_key key,
		  uint64_t *ns)
{
	struct bench_tally *n = &a->out->tally;
	struct cache_value value;
	uint64_t fill_ns = 0;
	uint64_t floor = is_fresh_known(a, op->key) ? fresh_floor(&a->shared->fresh, op->key) : 0;
	uint64_t start = clock_now_ns(a->clock);
	int status =
	    a->view ? view_get(a->view, key, &value) : cache_get(cache_of(a, key), key, &value);

	*ns = clock_now_ns(a->clock) - start;
	n->gets++;
	n->get_bytes += op->value_bytes;
	if (status == 0) {
		hist_record(&a->out->latency[BENCH_GET_HIT], *ns);
		n->hits++;
		n->hit_bytes += op->value_bytes;
		return a->setup->verify || a->setup->stress ? verify(a, op, &value, floor) : 0;
	}
	if (status != FORGE_MISS)
		return actor_fail(a, status, "Get of key %llu: %s", (unsigned long long)op->key,
				  reason(status));
	hist_record(&a->out->latency[BENCH_GET_MISS], *ns);
	if (a->setup->miss_penalty_us) {
		a->wait_ns(a, 1000 * a->setup->miss_penalty_us);
		*ns = clock_now_ns(a->clock) - start;
	}
	if (a->setup->on_miss == BENCH_MISS_IGNORE ||
	    (a->setup->stress && !fresh_may_write(&a->shared->fresh, op->key, a->index)))
		return 0;
	n->fills++;
	status = do_set(a, op, key, BENCH_FILL, &fill_ns);
	*ns += fill_ns;
	return status;
}

static int do_delete(struct bench_actor *a, const struct bench_op *op, struct cache_key key,
		     uint64_t *ns)
{
	bool known = is_fresh_known(a, op->key);
	uint64_t version = known ? fresh_issue(&a->shared->fresh, op->key) : 0;
	uint64_t start = clock_now_ns(a->clock);
	int status = a->view ? view_delete(a->view, key) : cache_delete(cache_of(a, key), key);

	*ns = clock_now_ns(a->clock) - start;
	if (known && (status == 0 || status == FORGE_MISS))
		fresh_acknowledge(&a->shared->fresh, op->key, version);
	hist_record(&a->out->latency[BENCH_DELETE], *ns);
	a->out->tally.deletes++;
	if (status == 0 || status == FORGE_MISS || status == FORGE_E_AGAIN || is_refused(a, status))
		return 0;
	return actor_fail(a, status, "Delete of key %llu: %s", (unsigned long long)op->key,
			  reason(status));
}

static int do_op(struct bench_actor *a, struct bench_op *op)
{
	if (a->setup->stress && op->kind != LOAD_GET)
		op->key = op->slot = fresh_own_key(&a->shared->fresh, op->key, a->index);

	char buf[BENCH_KEY_BYTES_MAX];
	struct cache_key key = {.data = buf, .bytes = bench_key(a->load, op->key, buf)};
	uint64_t ns = 0, set_ns = 0;
	int status = 0;

	if (a->measured && shared_first_touch(a->shared, op->slot))
		a->out->tally.distinct++;
	note_value_bytes(a->out, op->value_bytes);
	if (op->kind == LOAD_GET || op->kind == LOAD_RMW)
		status = do_get(a, op, key, &ns);
	else if (op->kind == LOAD_DELETE)
		status = do_delete(a, op, key, &ns);
	if (!status && (op->kind == LOAD_SET || op->kind == LOAD_UPDATE ||
			op->kind == LOAD_INSERT || op->kind == LOAD_RMW)) {
		a->out->tally.sets++;
		status = do_set(a, op, key, BENCH_SET, &set_ns);
	}
	hist_record(&a->out->latency[BENCH_ALL],
		    a->setup->rate > 0 ? clock_now_ns(a->clock) - a->due_ns : ns + set_ns);
	a->out->tally.operations++;
	return status;
}

/*
 * Open loop: let time pass until the next operation is due.  Arrivals are a Poisson process for
 * each actor, so all of them together are one.
 */
static void await_arrival(struct bench_actor *a)
{
	double mean_ns = 1e9 * a->shared->worker_count / a->setup->rate;

	a->due_ns += (uint64_t)(-log1p(-prng_double(&a->arrivals)) * mean_ns);
	uint64_t now_ns = clock_now_ns(a->clock);

	if (now_ns < a->due_ns)
		a->wait_ns(a, a->due_ns - now_ns);
}

/* This worker's part of so many operations. */
static uint64_t share_of(const struct bench_actor *a, uint64_t operations)
{
	uint64_t count = a->shared->worker_count;

	return operations / count + (a->index < operations % count);
}

int actor_part(struct bench_actor *a, const struct bench_extent *extent)
{
	uint64_t limit = extent->operations ? share_of(a, extent->operations) : UINT64_MAX;
	uint64_t deadline = extent->ns ? clock_now_ns(a->clock) + extent->ns : UINT64_MAX;
	struct bench_op op;
	int status = 0;

	a->due_ns = clock_now_ns(a->clock);
	for (uint64_t done = 0; done < limit; done++) {
		if (done % 16 == 0) {
			atomic_store_explicit(&a->out->progress, done, memory_order_relaxed);
			if (atomic_load_explicit(&a->shared->stopping, memory_order_relaxed) ||
			    (deadline != UINT64_MAX && clock_now_ns(a->clock) >= deadline))
				break;
		}
		status = a->load->next(a->state, a->measured, &op);
		if (status != BENCH_OP)
			break;
		if (a->setup->rate > 0)
			await_arrival(a);
		status = do_op(a, &op);
		if (status)
			return status;
	}
	if (status < 0 && !a->out->status)
		return actor_fail(a, status, "the load: %s", reason(status));
	return 0;
}

int actor_preload(struct bench_actor *a)
{
	char buf[BENCH_KEY_BYTES_MAX];

	for (uint64_t key = a->index; key < a->load->key_count; key += a->shared->worker_count) {
		struct bench_op op = {.key = key,
				      .value_bytes = a->load->preload_bytes(a->load, key)};
		struct cache_key k = {.data = buf, .bytes = bench_key(a->load, key, buf)};
		uint64_t ns;
		int status = do_set(a, &op, k, BENCH_FILL, &ns);

		if (status)
			return status;
		if (atomic_load_explicit(&a->shared->stopping, memory_order_relaxed))
			break;
	}
	return 0;
}

void actor_forget(struct bench_actor *a)
{
	memset(&a->out->tally, 0, sizeof(a->out->tally));
	for (unsigned i = 0; i < BENCH_LATENCIES; i++)
		hist_reset(&a->out->latency[i]);
	a->out->value_bytes_min = a->out->value_bytes_max = 0;
}

int actor_begin(struct bench_actor *a, struct bench_place *place)
{
	prng_seed(&a->arrivals, hash_mix(a->setup->seed) + a->index);
	place->seed = a->setup->seed;
	place->index = a->index;
	place->count = a->shared->worker_count;
	place->key_count = &a->shared->key_count;
	place->stopping = &a->shared->stopping;
	place->positions = a->shared->positions;
	place->lag_waits = &a->out->tally.lag_waits;
	a->state = calloc(1, a->load->state_bytes ? a->load->state_bytes : 1);
	a->value = malloc(a->load->value_bytes_max + 1);
	if (!a->state || !a->value)
		return actor_fail(a, FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	int status = a->load->begin(a->load, place, a->state);

	return status ? actor_fail(a, status, "the load: %s", reason(status)) : 0;
}

void actor_end(struct bench_actor *a)
{
	free(a->state);
	free(a->value);
	a->state = NULL;
	a->value = NULL;
}
