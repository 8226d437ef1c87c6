/* workload.c: draws operations from a workload_spec. */
#include "load/workload.h"

#include <assert.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/status.h"

/* A one-hit id is LOAD_ONE_HIT_FIRST + index * 2^40 + number. */
#define ONE_HITS_PER_PLACE_BITS 40
#define PLACES_MAX		(1u << 20)

const char *load_op_name(enum load_op_kind kind)
{
	static const char *const names[LOAD_OP_KINDS] = {
	    [LOAD_GET] = "get",	      [LOAD_SET] = "set", [LOAD_UPDATE] = "update",
	    [LOAD_INSERT] = "insert", [LOAD_RMW] = "rmw", [LOAD_DELETE] = "delete",
	};

	return (unsigned)kind < LOAD_OP_KINDS ? names[kind] : "unknown";
}

/* The size that 128 random bits choose. */
static uint32_t size_draw(const struct size_spec *s, uint64_t choice, uint64_t within)
{
	uint32_t low = s->bytes_min;
	uint32_t high = s->bytes_max;

	if (s->choice == SIZES_TABLE) {
		uint32_t i = alias_pick(&s->table.choice, choice);

		low = s->table.low[i];
		high = s->table.high[i];
	}
	if (low == high)
		return low;
	return low + (uint32_t)(((unsigned __int128)within * ((uint64_t)high - low + 1)) >> 64);
}

uint32_t workload_value_bytes(const struct workload_spec *spec, uint64_t key)
{
	uint64_t state = key ^ 0x73697a65206f6620u; /* apart from the scrambling of keys */
	uint64_t choice = prng_splitmix64(&state);

	return size_draw(&spec->sizes, choice, prng_splitmix64(&state));
}

int workload_init(struct workload *w, const struct workload_spec *spec, struct workload_place place,
		  _Atomic uint64_t *key_count)
{
	uint64_t seed = place.seed;

	if (place.count == 0 || place.index >= place.count || place.count > PLACES_MAX)
		return FORGE_E_INVAL;
	if (key_count == NULL && spec->share[LOAD_INSERT] > 0)
		return FORGE_E_INVAL;
	if (key_count != NULL && (!atomic_is_lock_free(key_count) || *key_count == 0))
		return FORGE_E_INVAL;
	*w = (struct workload){.spec = spec, .key_count = key_count, .place = place};
	/* One mixing step apart, so that (seed, index) and (seed + 1, index - 1) differ. */
	seed = prng_splitmix64(&seed) + place.index;
	prng_seed(&w->prng, seed);
	if (spec->gray)
		zipf_gray_init(&w->gray, spec->key_count, spec->theta);
	else
		zipf_exact_init(&w->exact, spec->key_count, spec->theta);
	return 0;
}

static uint64_t keys_now(const struct workload *w)
{
	/* A count, not a publication: nothing else is read on the strength of it. */
	return w->key_count == NULL ? w->spec->key_count
				    : atomic_load_explicit(w->key_count, memory_order_relaxed);
}

static uint64_t rank_draw(struct workload *w)
{
	return w->spec->gray ? zipf_gray_rank(&w->gray, &w->prng)
			     : zipf_exact_rank(&w->exact, &w->prng);
}

/* Ranks count back from the newest key, over the window or all keys there are by now. */
static uint64_t latest_draw(struct workload *w)
{
	uint64_t newest = keys_now(w) - 1;
	uint64_t n = min_u64(newest + 1, w->spec->latest_window);

	if (w->spec->gray)
		zipf_gray_resize(&w->gray, n);
	else if (w->exact.n != n)
		zipf_exact_init(&w->exact, n, w->spec->theta);
	return newest - rank_draw(w);
}

/* This operation's position in the logical stream: the places take turns. */
static uint64_t stream_position(const struct workload *w)
{
	return w->drawn * w->place.count + w->place.index;
}

static uint64_t hotspot_draw(struct workload *w)
{
	const struct workload_spec *spec = w->spec;
	uint64_t n = spec->key_count;
	uint64_t width = (uint64_t)((double)n * spec->hot_share + 0.5);
	uint64_t first;

	if (width == 0)
		width = 1;
	/* The epoch modulo n first: the range comes round to where it was, without overflow. */
	first = (uint64_t)((unsigned __int128)(stream_position(w) / spec->shift_ops) * width % n);
	if (width >= n || prng_double(&w->prng) < spec->hot_op_share)
		return (first + prng_below(&w->prng, width < n ? width : n)) % n;
	return (first + width + prng_below(&w->prng, n - width)) % n;
}

/* CacheLib numbers its keys by bucket; a bucket's keys are scaled to the key count asked for. */
static uint64_t popularity_draw(struct workload *w)
{
	const struct cachelib_popularity *p = &w->spec->popularity;
	uint64_t n = w->spec->key_count;
	uint32_t i = alias_pick(&p->choice, prng_u64(&w->prng));
	double at = p->first[i] + prng_double(&w->prng) * (p->first[i + 1] - p->first[i]);
	uint64_t rank = (uint64_t)(at / p->key_count * (double)n);

	return zipf_scramble(rank < n ? rank : n - 1, n);
}

static uint64_t key_draw(struct workload *w)
{
	uint64_t n = w->spec->key_count;

	switch (w->spec->keys) {
	case KEYS_UNIFORM:
		return prng_below(&w->prng, n);
	case KEYS_ZIPF:
		return rank_draw(w);
	case KEYS_ZIPF_SCRAMBLED:
		return zipf_scramble(rank_draw(w), n);
	case KEYS_LATEST:
		return latest_draw(w);
	case KEYS_LOOP:
		return stream_position(w) % n;
	case KEYS_HOTSPOT:
		return hotspot_draw(w);
	case KEYS_POPULARITY:
		return popularity_draw(w);
	}
	assert(!"a key choice outside its enum");
	return 0;
}

static void scan_step(struct workload *w, struct load_op *op)
{
	op->kind = LOAD_GET;
	op->key = w->scan_key;
	w->scan_left--;
	/* Past the newest key a scan goes on at the oldest. */
	w->scan_key = w->scan_key + 1 < keys_now(w) ? w->scan_key + 1 : 0;
}

/* Which operation u of [0, 1) stands for; LOAD_OP_KINDS for a scan. */
static unsigned kind_draw(const struct workload_spec *spec, double u)
{
	unsigned last = LOAD_OP_KINDS;

	if (u < spec->scan_share)
		return LOAD_OP_KINDS;
	u -= spec->scan_share;
	for (unsigned kind = 0; kind < LOAD_OP_KINDS; kind++) {
		if (spec->share[kind] <= 0)
			continue;
		if (u < spec->share[kind])
			return kind;
		u -= spec->share[kind];
		last = kind; /* taken when rounding leaves u above the sum */
	}
	return last;
}

static void fresh_draw(struct workload *w, struct load_op *op)
{
	const struct workload_spec *spec = w->spec;
	unsigned kind;

	if (spec->one_hit_share > 0 && prng_double(&w->prng) < spec->one_hit_share) {
		op->kind = LOAD_GET;
		op->key = LOAD_ONE_HIT_FIRST +
			  ((uint64_t)w->place.index << ONE_HITS_PER_PLACE_BITS) + w->one_hits++;
		return;
	}
	kind = kind_draw(spec, prng_double(&w->prng));
	if (kind == LOAD_INSERT) {
		op->kind = LOAD_INSERT;
		op->key = atomic_fetch_add_explicit(w->key_count, 1, memory_order_relaxed);
		return;
	}
	if (kind < LOAD_OP_KINDS) {
		op->kind = (enum load_op_kind)kind;
		op->key = key_draw(w);
		return;
	}
	w->scan_key = key_draw(w);
	w->scan_left = 1 + (uint32_t)prng_below(&w->prng, spec->scan_gets_max);
	scan_step(w, op);
}

void workload_next(struct workload *w, struct load_op *op)
{
	op->in_scan = w->scan_left > 0;
	if (op->in_scan) {
		scan_step(w, op);
	} else {
		fresh_draw(w, op);
		w->drawn++;
	}
	if (w->spec->sizes.per_op) {
		uint64_t choice = prng_u64(&w->prng);

		op->value_bytes = size_draw(&w->spec->sizes, choice, prng_u64(&w->prng));
	} else {
		op->value_bytes = workload_value_bytes(w->spec, op->key);
	}
}
