/* load_workload.c: the operations of a synthetic workload as a load of the engine. */
#include "bench/loads.h"

#include "base/hist.h"

/* Room for inserted keys among those counted as distinct; pages never touched cost nothing. */
#define INSERTED_KEYS_MAX (UINT64_C(1) << 28)

#define SIZE_SAMPLES 65536u

static int begin(const struct bench_load *load, const struct bench_place *place, void *state)
{
	const struct workload_spec *spec = load->context;
	struct workload_place where = {
	    .seed = place->seed,
	    .index = place->index,
	    .count = place->count,
	};

	return workload_init(state, spec, where, place->key_count);
}

static int next(void *state, bool measured, struct bench_op *op)
{
	struct load_op drawn;

	workload_next(state, &drawn);
	*op = (struct bench_op){
	    .kind = drawn.kind,
	    .value_bytes = drawn.value_bytes,
	    .key = drawn.key,
	    .slot = drawn.key,
	};
	return BENCH_OP;
}

static uint32_t preload_bytes(const struct bench_load *load, uint64_t key)
{
	return workload_value_bytes(load->context, key);
}

void load_of_workload(struct bench_load *load, const struct workload_spec *spec)
{
	*load = (struct bench_load){
	    .context = spec,
	    .state_bytes = sizeof(struct workload),
	    .begin = begin,
	    .next = next,
	    .key_count = spec->key_count,
	    .slot_count = spec->key_count + INSERTED_KEYS_MAX,
	    .value_bytes_max = spec->sizes.bytes_max,
	    .preload_bytes = preload_bytes,
	};
}

double workload_mean_value_bytes(const struct workload_spec *spec)
{
	uint64_t samples = min_u64(spec->key_count, SIZE_SAMPLES);
	double sum = 0;

	if (spec->sizes.choice == SIZES_UNIFORM)
		return ((double)spec->sizes.bytes_min + spec->sizes.bytes_max) / 2;
	for (uint64_t i = 0; i < samples; i++)
		sum += workload_value_bytes(spec, i);
	return sum / (double)samples;
}

uint32_t workload_median_value_bytes(const struct workload_spec *spec)
{
	uint64_t samples = min_u64(spec->key_count, SIZE_SAMPLES);
	struct hist sizes = {0};

	if (spec->sizes.choice == SIZES_UNIFORM)
		return spec->sizes.bytes_min == spec->sizes.bytes_max
			   ? 0
			   : (spec->sizes.bytes_min + spec->sizes.bytes_max) / 2;
	for (uint64_t i = 0; i < samples; i++)
		hist_record(&sizes, workload_value_bytes(spec, i));
	return (uint32_t)hist_percentile_ns(&sizes, 50);
}
