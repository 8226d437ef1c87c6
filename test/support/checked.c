/* checked.c: running the checker on a rig, and finding things in its pool. */
#include "support/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "pool/object.h"

const struct check_options check_at_rest;

struct seen {
	uint64_t count;
	struct check_finding last;
};

static void note_finding(void *context, const struct check_finding *f)
{
	struct seen *seen = context;

	seen->count++;
	seen->last = *f;
	assert_true(f->rule < CHECK_RULE_COUNT);
	assert_non_null(memchr(f->text, 0, sizeof(f->text)));
}

struct check_report run_check(struct rig *r, const struct check_options *options,
			      struct check_finding *last)
{
	struct check_report report;
	struct seen seen = {0};

	assert_int_equal(check_pool(&r->worker, &r->pool, options, &report, note_finding, &seen),
			 0);
	assert_int_equal(report.findings, seen.count);
	if (last)
		*last = seen.last;
	return report;
}

struct check_report assert_clean(struct rig *r, const struct check_options *options)
{
	struct check_finding last;
	struct check_report report = run_check(r, options, &last);

	if (report.findings)
		check_print_finding(stderr, &last);
	assert_int_equal(report.findings, 0);
	return report;
}

/* Exactly one rule is violated, once. */
void assert_found(struct rig *r, const struct check_options *options, enum check_rule rule)
{
	struct check_finding last;
	struct check_report report = run_check(r, options, &last);

	for (unsigned i = 0; i < CHECK_RULE_COUNT; i++)
		if (report.found[i] != (i == rule)) {
			check_print_finding(stderr, &last);
			fail_msg("expected %s alone, but %s was found %llu times",
				 check_rule_name(rule), check_rule_name(i),
				 (unsigned long long)report.found[i]);
		}
}

void rig_work(struct rig *r, uint32_t operations, uint64_t seed)
{
	struct prng prng;
	uint32_t version;

	prng_seed(&prng, seed);
	for (uint32_t i = 0; i < operations; i++) {
		uint32_t id = (uint32_t)prng_below(&prng, 1 + prng_below(&prng, KEYS));
		uint64_t what = prng_below(&prng, 20);

		if (what == 0) {
			int status = rig_delete(r, id);

			assert_true(status == 0 || status == FORGE_MISS);
		} else if (what < 6 || rig_get(r, id, &version) != 0) {
			uint32_t bytes = 4 * (1 + (uint32_t)prng_below(&prng, 20));

			assert_int_equal(rig_set(r, id, i, bytes), 0);
		}
	}
}

void rig_open_worked(struct rig *r, const char *policy)
{
	rig_open(r, policy, CHUNKS, OBJECTS);
	rig_tick(r);
	rig_work(r, 6000, 11);
}

/* A word of the pool, to look at or to damage. */
uint64_t *word_at(const struct rig *r, uint64_t address)
{
	return (uint64_t *)(void *)((uint8_t *)r->memory + address);
}

struct layout_cursors *cursors_of(const struct rig *r)
{
	return (void *)word_at(r, r->pool.plan.cursors_offset);
}

uint64_t *chunk_word_of(const struct rig *r, uint32_t chunk)
{
	return word_at(r, plan_chunk_word_address(&r->pool.plan, chunk));
}

uint64_t *slot_word(const struct rig *r, uint64_t slot)
{
	return word_at(r, plan_slot_address(&r->pool.plan, slot));
}

/* The nth chunk in a state. */
uint32_t chunk_in(const struct rig *r, uint32_t state, uint32_t nth)
{
	for (uint32_t chunk = 0; chunk < r->pool.plan.chunk_count; chunk++)
		if (chunk_state(*chunk_word_of(r, chunk)) == state && nth-- == 0)
			return chunk;
	fail_msg("no chunk in state %u", state);
	return 0;
}

uint64_t *node_of(const struct rig *r, uint32_t chunk)
{
	uint64_t word = *chunk_word_of(r, chunk);

	return word_at(
	    r, plan_ring_node_address(&r->pool.plan, chunk_ring(word), chunk_position(word)));
}

/* A chunk in the hands of node 0, evicted as evict.c would. */
uint32_t reserve_chunk(const struct rig *r)
{
	uint32_t chunk = chunk_in(r, CHUNK_QUEUED, 0);
	uint64_t *word = chunk_word_of(r, chunk);

	*word = chunk_pack_reserved(0, generation_next(chunk_generation(*word)));
	return chunk;
}

int is_live(const struct rig *r, uint64_t word)
{
	const struct plan *p = &r->pool.plan;
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));

	return index_is_object(word) &&
	       index_generations_behind(p, word, chunk_generation(*chunk_word_of(r, chunk))) == 0;
}

/* A live slot whose chunk is in a state. */
uint64_t live_slot(const struct rig *r, uint32_t state)
{
	const struct plan *p = &r->pool.plan;

	for (uint64_t slot = 0; slot < plan_slot_count(p); slot++) {
		uint64_t word = *slot_word(r, slot);
		uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));

		if (is_live(r, word) && chunk_state(*chunk_word_of(r, chunk)) == state)
			return slot;
	}
	fail_msg("no live slot in state %u", state);
	return 0;
}

struct layout_object *object_of(const struct rig *r, uint64_t slot)
{
	return (void *)word_at(r, index_object_address(*slot_word(r, slot)));
}

/* A slot without a live object in [from, from + count), other than `except`. */
uint64_t idle_slot(const struct rig *r, uint64_t from, uint64_t count, uint64_t except)
{
	for (uint64_t slot = from; slot < from + count; slot++)
		if (slot != except && !is_live(r, *slot_word(r, slot)))
			return slot;
	fail_msg("no idle slot from %llu on", (unsigned long long)from);
	return 0;
}

/* One in the neighbourhood of the key that a slot holds. */
uint64_t idle_neighbour(const struct rig *r, uint64_t slot)
{
	const struct layout_object *h = object_of(r, slot);
	struct index_home home = index_locate(&r->pool.plan, object_key(h), h->key_bytes);

	return idle_slot(r, index_slot_number(&home, 0), LAYOUT_NEIGHBOURHOOD, slot);
}

/* One that is in no neighbourhood of that key. */
uint64_t idle_far(const struct rig *r, uint64_t slot)
{
	uint64_t half = plan_slot_count(&r->pool.plan) / 2;

	return idle_slot(r, slot < half ? half + LAYOUT_NEIGHBOURHOOD : 0,
			 half - 2 * LAYOUT_NEIGHBOURHOOD, slot);
}

/* A node outside [head, tail) of a ring, and the cycle it waits for. */
uint64_t *node_outside(const struct rig *r, uint32_t ring, uint64_t *cycle)
{
	const struct plan *p = &r->pool.plan;
	uint64_t position = cursors_of(r)->ring[ring].tail;
	uint64_t *node = word_at(r, plan_ring_node_address(p, ring, position));

	*cycle = plan_ring_cycle(p, position);
	assert_int_equal(*node, node_pack_empty(*cycle));
	assert_true(*cycle > 0);
	return node;
}
