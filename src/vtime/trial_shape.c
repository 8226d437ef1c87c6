/* trial_shape.c: what a trial's seed decides, and the pool it begins with. */
#include <inttypes.h>
#include <string.h>

#include "check/check.h"
#include "fabric/loop.h"
#include "pool/index.h"
#include "pool/ring.h"
#include "vtime/trial_inside.h"

#define KEY_TRIES 20000u
#define POOL_ID	  0x5eed7u

static uint64_t pick(struct prng *p, const uint64_t *choices, size_t count)
{
	return choices[prng_below(p, count)];
}
#define PICK(p, ...) \
	pick(p, (const uint64_t[]){__VA_ARGS__}, ARRAY_COUNT(((uint64_t[]){__VA_ARGS__})))

/* Where cursors, generations and the fence start: often as formatted, often just below a wrap. */
static void choose_ages(struct trial_shape *s, struct prng *p)
{
	bool paper = strcmp(s->policy, "forge-paper") == 0;
	uint64_t nodes = 8; /* of a ring; the plan rounds up alike */

	while (nodes < 2 * s->chunk_count)
		nodes *= 2;
	s->first_generation = 1;
	if (prng_below(p, 2))
		s->first_generation = (uint32_t)(PICK(p, LAYOUT_GENERATION_COUNT, 1024,
						      LAYOUT_GENERATION_COUNT / 2, 512) -
						 1 - prng_below(p, 4));
	if (paper && s->first_generation > 1024 && prng_below(p, 2))
		s->first_generation = 1023;
	if (prng_below(p, 2))
		s->first_position =
		    PICK(p, nodes, nodes * NODE_CYCLE_COUNT, UINT64_C(1) << CHUNK_POSITION_BITS) -
		    1 - prng_below(p, 12);
	/* So many lives take tickets. */
	if (s->first_generation > 1 && s->first_position < LAYOUT_GENERATION_COUNT)
		s->first_position += nodes * LAYOUT_GENERATION_COUNT / 4;
	if (prng_below(p, 3) == 0)
		s->first_fence =
		    PICK(p, UINT64_C(1) << 32, UINT64_C(1) << 31) - 1 - prng_below(p, 3);
}

void trial_choose_shape(struct trial *t)
{
	const struct trial_options *o = &t->options;
	struct trial_shape *s = &t->shape;
	struct prng prng, *p = &prng;

	prng_seed(p, o->seed * 2 + 1);
	*s = (struct trial_shape){
	    .policy = prng_below(p, 3) ? "forge" : "forge-paper",
	    .cns = 1 + (uint32_t)prng_below(p, TRIAL_CNS_MAX),
	    .threads = 1 + (uint32_t)prng_below(p, prng_below(p, 2) ? 2 : TRIAL_THREADS_MAX),
	    .keys = (uint32_t)PICK(p, 2, 4, 8, 16, TRIAL_KEYS_MAX),
	    .group_objects = (uint32_t)PICK(p, 2, 3, 4, 8),
	    .words_most = (uint32_t)PICK(p, 2, 4, 12),
	    .load_ns = 300000 + prng_below(p, 2200000),
	    .think_ns = (uint32_t)PICK(p, 0, 0, 2000, 20000),
	    .flush_trust_us = (uint32_t)PICK(p, 50, 100, 300, 1000),
	    .poll_interval_us = (uint32_t)PICK(p, 20, 50, 100, 100, 300),
	    .get_percent = (uint32_t)PICK(p, 15, 35, 60),
	    .delete_percent = (uint32_t)PICK(p, 8, 8, 30),
	    .filler_percent = (uint32_t)PICK(p, 0, 20, 50, 80),
	    .buckets = (uint32_t)PICK(p, 0, 1, 2, 4),
	    .timed = prng_below(p, 2),
	};
	s->policy = o->policy ? o->policy : s->policy;
	s->cns = o->cns ? o->cns : s->cns;
	s->threads = o->threads ? o->threads : s->threads;
	s->load_ns = o->load_ns ? o->load_ns : s->load_ns;
	if (prng_below(p, 3) == 0)
		s->parts_words = s->words_most * s->group_objects * 2 + (uint32_t)prng_below(p, 60);
	/* What explains a history grows with how many are at one key at once. */
	s->keys = (uint32_t)max_u64(s->keys, s->cns * s->threads > 8 ? 16 : 2);
	/* A lane has up to two groups open and one chunk in hand; beside them what is cached. */
	uint32_t lanes = s->cns * s->threads;

	s->chunk_count = 2 + lanes * (3 + (uint32_t)prng_below(p, 4)) +
			 (uint32_t)prng_below(p, prng_below(p, 3) ? 6 : 64);
	s->chunk_count += s->parts_words ? 8 + 4 * lanes : 0;
	choose_ages(s, p);
	s->first_position = o->first_position ? o->first_position : s->first_position;
	snprintf(t->result->shape, sizeof(t->result->shape),
		 "%s, %" PRIu32 " compute node%s of %" PRIu32 " thread%s, %" PRIu32
		 " chunks of %" PRIu32 " objects, %" PRIu32 " keys%s, %" PRIu64
		 " us; position %" PRIu64 ", generation %" PRIu32 ", fence %" PRIu64,
		 s->policy, s->cns, s->cns == 1 ? "" : "s", s->threads, s->threads == 1 ? "" : "s",
		 s->chunk_count, s->group_objects, s->keys,
		 s->parts_words ? " (some values in parts)" : "", s->load_ns / 1000,
		 s->first_position, s->first_generation, s->first_fence);
}

/* Is the key at home where this trial's keys are, the second with the first one's fingerprint? */
static bool is_good_key(const struct trial *t, const char *text, uint32_t index)
{
	const char *first = t->key_text[0];
	struct index_home home = index_locate(&t->plan, text, (uint32_t)strlen(text));

	if (t->shape.buckets && home.bucket >= t->shape.buckets)
		return false;
	if (index != 1)
		return true;
	struct index_home twin = index_locate(&t->plan, first, (uint32_t)strlen(first));

	return home.bucket == twin.bucket && home.fingerprint == twin.fingerprint;
}

static void choose_keys(struct trial *t)
{
	uint32_t number = 0;

	for (uint32_t i = 0; i < t->shape.keys; i++) {
		char *text = t->key_text[i];
		uint32_t tries = KEY_TRIES;

		do
			snprintf(text, sizeof(t->key_text[i]), "k%" PRIu32, number++);
		while (--tries && !is_good_key(t, text, i));
	}
}

static void put_word(struct trial *t, uint64_t raddr, uint64_t word)
{
	memcpy((uint8_t *)vt_node_memory(t->world, 0) + raddr, &word, 8);
}

/* As formatted, but as if rings and chunks had been in use for long. */
static void age(struct trial *t)
{
	const struct plan *p = &t->plan;
	uint64_t first = t->shape.first_position;
	uint32_t generation = t->shape.first_generation;

	for (uint32_t ring = 0; ring < RING_COUNT; ring++) {
		uint64_t filled = ring == RING_FREE ? p->chunk_count : 0;

		put_word(t, plan_head_address(p, ring), first);
		put_word(t, plan_tail_address(p, ring), first + filled);
		for (uint64_t i = 0; i < p->ring_nodes; i++) {
			uint64_t cycle = plan_ring_cycle(p, first + i);

			put_word(t, plan_ring_node_address(p, ring, first + i),
				 i < filled ? node_pack_full(cycle, (uint32_t)i, generation, 1, 0)
					    : node_pack_empty(cycle));
		}
	}
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++)
		put_word(t, plan_chunk_word_address(p, chunk),
			 chunk_pack_free(generation, first + chunk));
	put_word(t, plan_fence_address(p), fence_pack(0, t->shape.first_fence));
}

int trial_setter(struct trial *t, struct worker *w)
{
	struct fab *fab;
	int status =
	    loop_open(vt_node_memory(t->world, 0), round_up_u64(t->plan.pool_bytes, 8), &fab);

	if (!status)
		worker_init(w, fab, vt_world_clock(t->world), t->options.seed);
	return status;
}

int trial_format(struct trial *t)
{
	struct worker setter;
	char error_text[256];
	int status = trial_setter(t, &setter);

	if (status)
		return status;
	status = pool_format(&setter, &t->plan, POOL_ID);
	if (!status)
		age(t);
	if (!status)
		status = pool_open(&setter, &t->pool, error_text, sizeof(error_text));
	t->pool.rules_off = t->options.rules_off;
	fab_close(setter.fab);
	return status;
}

int trial_make_pool(struct trial *t)
{
	const struct trial_shape *s = &t->shape;
	char error_text[256] = "";
	const struct policy *policy = policy_find(s->policy);
	struct plan_wish wish = {
	    .chunk_count = s->chunk_count,
	    .object_bytes = 8 + 8 * (s->words_most + 1) / 2,
	    .group_objects = s->group_objects,
	    .slot_words = strcmp(s->policy, "forge-paper") == 0 ? 2 : 1,
	    .cn_max = s->cns + 2,
	    .value_bytes_max = s->parts_words ? 8 * s->parts_words : 8 * s->words_most,
	    .policy = s->policy,
	};

	if (!policy)
		return FORGE_E_INVAL;
	int status = plan_make(&wish, &t->plan, error_text, sizeof(error_text));

	if (status)
		trial_fail(t, "the plan of a trial: %s", error_text);
	else
		choose_keys(t);
	return status;
}
