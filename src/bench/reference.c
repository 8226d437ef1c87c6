/* reference.c: exact LRU over a workload's draws and over a trace, and what bounds any cache. */
#include "bench/reference.h"

#include <stdlib.h>

#define KEY_BYTES 20u

/* What the object counts for; 0: it is never stored. */
static uint32_t weight(const struct bench_reference *r, const struct bench_op *op)
{
	if (!r->as_stored)
		return op->value_bytes;
	uint64_t bytes =
	    (uint64_t)layout_object_units(KEY_BYTES, op->value_bytes) * LAYOUT_UNIT_BYTES +
	    TWIM_BYTES;

	return bytes <= r->stored_bytes_max ? (uint32_t)bytes : 0;
}

/* One operation; a hit of a Get counts once the warm-up is over. */
static int access(struct refcache *lru, struct bench_reference *out, const struct bench_op *op,
		  bool measured)
{
	if (op->kind == LOAD_DELETE) {
		refcache_remove(lru, op->key);
		return 0;
	}
	uint32_t bytes = weight(out, op);
	int status = REFCACHE_MISS;

	if (bytes || !out->as_stored)
		status = refcache_access(lru, op->key, bytes);

	if (status < 0)
		return status;
	if (measured && (op->kind == LOAD_GET || op->kind == LOAD_RMW)) {
		out->gets++;
		out->hits += status == REFCACHE_HIT;
	}
	return 0;
}

static int draw(const struct workload_spec *spec, const struct reference_draws *draws,
		struct workload *place, struct refcache *lru, struct bench_reference *out)
{
	_Atomic uint64_t key_count = spec->key_count;
	int status = 0;

	for (uint32_t i = 0; !status && i < draws->workers; i++)
		status =
		    workload_init(&place[i], spec,
				  (struct workload_place){
				      .seed = draws->seed, .index = i, .count = draws->workers},
				  &key_count);
	for (uint64_t n = 0; !status && n < draws->warm_up + draws->measured; n++) {
		struct load_op drawn;

		workload_next(&place[n % draws->workers], &drawn);
		status = access(lru, out,
				&(struct bench_op){.kind = drawn.kind,
						   .key = drawn.key,
						   .value_bytes = drawn.value_bytes},
				n >= draws->warm_up);
	}
	return status;
}

int reference_of_workload(const struct workload_spec *spec, const struct reference_draws *draws,
			  struct refcache_limit limit, struct bench_reference *out)
{
	struct workload *places = calloc(draws->workers, sizeof(*places));
	struct refcache *lru = NULL;
	int status = places ? refcache_open(&lru, REFCACHE_LRU, limit) : FORGE_E_NO_MEMORY;

	out->limit = limit;
	if (!status)
		status = draw(spec, draws, places, lru, out);
	out->known = status == 0;
	refcache_close(lru);
	free(places);
	return status;
}

static enum load_op_kind kind_of(const struct replay_load *r, uint64_t i)
{
	return r->trace->ops && !r->gets_only ? (enum load_op_kind)r->trace->ops[i] : LOAD_GET;
}

int reference_of_trace(const struct replay_load *r, struct refcache_limit limit,
		       struct bench_reference *out)
{
	const struct trace_data *t = r->trace;
	struct refcache *lru = NULL;
	int status = refcache_open(&lru, REFCACHE_LRU, limit);

	out->limit = limit;
	for (uint64_t i = 0; !status && i < t->count; i++)
		status = access(lru, out,
				&(struct bench_op){
				    .kind = kind_of(r, i),
				    .key = t->ids[i],
				    .value_bytes = replay_value_bytes(r, i),
				},
				i >= r->warm_up_requests);
	out->known = status == 0;
	refcache_close(lru);
	return status;
}

int reference_ceiling(const struct replay_load *r, bool fills, struct bench_ceiling *out)
{
	const struct trace_data *t = r->trace;
	bool *held = calloc(t->distinct, sizeof(*held));
	struct bench_ceiling c = {.fills = fills};

	if (!held)
		return FORGE_E_NO_MEMORY;
	for (uint64_t i = 0; i < t->count; i++) {
		enum load_op_kind kind = kind_of(r, i);
		bool gets = kind == LOAD_GET || kind == LOAD_RMW;

		if (gets && i >= r->warm_up_requests) {
			c.gets++;
			c.hits += held[t->ids[i]];
		}
		if (kind != LOAD_GET || fills)
			held[t->ids[i]] = kind != LOAD_DELETE;
	}
	free(held);
	*out = c;
	return 0;
}
