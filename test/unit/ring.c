/*
 * ring.c: the rings on the loop fabric, one worker, every case of ring.h one after another.
 *
 * What two workers do to each other is played by one: a ticket is taken and its node left empty
 * (a late producer), a chunk is claimed from the middle, a node is filled by hand.  After every
 * step the words in memory are compared with the expected ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "fabric/loop.h"
#include "pool/ring.h"

#define CHUNKS 6u /* 16 nodes */
#define CN     5u

struct rig {
	struct fab *fab;
	struct worker w;
	struct pool pool;
	uint64_t owned[CHUNKS]; /* the words of chunks in our hands */
};

static void rig_open(struct rig *r)
{
	struct plan_wish wish = {.chunk_count = CHUNKS, .group_objects = 8, .cn_max = 8};
	struct plan plan;
	char error[256];

	assert_int_equal(plan_make(&wish, &plan, error, sizeof(error)), 0);
	assert_int_equal(plan.ring_nodes, 16);
	assert_int_equal(loop_open(NULL, plan.pool_bytes, &r->fab), 0);
	worker_init(&r->w, r->fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&r->w, &plan, 1), 0);
	assert_int_equal(pool_open(&r->w, &r->pool, error, sizeof(error)), 0);
}

static uint64_t *word(struct rig *r, uint64_t address)
{
	return (uint64_t *)(void *)((uint8_t *)loop_base(r->fab) + address);
}

static uint64_t *chunk(struct rig *r, uint32_t c)
{
	return word(r, plan_chunk_word_address(&r->pool.plan, c));
}

static uint64_t *node(struct rig *r, uint32_t ring, uint64_t position)
{
	return word(r, plan_ring_node_address(&r->pool.plan, ring, position));
}

static int claim(struct rig *r, uint32_t ring, uint32_t count, struct ring_claimed *out,
		 uint32_t *won)
{
	struct ring_claim_wish wish = {.ring = ring, .count = count, .evictors = 1, .owner = CN};

	return ring_claim(&r->pool, &r->w, FAB_SPACE, &wish, out, won);
}

/* Take every chunk out of the free ring. */
static void claim_all(struct rig *r)
{
	struct ring_claimed out[RING_CLAIM_MAX];
	uint32_t won, total = 0;

	while (total < CHUNKS) {
		assert_int_equal(claim(r, RING_FREE, 4, out, &won), 0);
		for (uint32_t i = 0; i < won; i++, total++) {
			assert_int_equal(out[i].chunk, total);
			assert_int_equal(out[i].generation, 1);
			assert_true(out[i].word == chunk_pack_reserved(CN, 1));
			assert_true(*chunk(r, total) == out[i].word);
			assert_true(*node(r, RING_FREE, total) == node_pack_empty(1));
			r->owned[total] = out[i].word;
		}
	}
	assert_int_equal(claim(r, RING_FREE, 4, out, &won), FORGE_MISS);
	assert_int_equal(won, 0);
}

static uint64_t enqueue(struct rig *r, uint32_t ring, uint32_t c)
{
	struct ring_entry e = {.chunk = c,
			       .generation = 1,
			       .object_count = 3 + c % 4,
			       .segment = c % 4,
			       .owned_word = r->owned[c]};
	uint64_t position = UINT64_MAX;

	assert_int_equal(ring_enqueue(&r->pool, &r->w, FAB_SPACE, ring, &e, &position), 0);
	assert_true(*chunk(r, c) == chunk_pack_queued(ring, 1, position));
	assert_true(
	    *node(r, ring, position) ==
	    node_pack_full(plan_ring_cycle(&r->pool.plan, position), c, 1, 3 + c % 4, c % 4));
	return position;
}

static void test_order(void **state)
{
	struct rig r;
	struct ring_claimed out[RING_CLAIM_MAX];
	uint32_t won;

	rig_open(&r);
	claim_all(&r);
	for (uint32_t c = 0; c < CHUNKS; c++)
		assert_int_equal(enqueue(&r, RING_SMALL, c), c);
	assert_int_equal(claim(&r, RING_MAIN, 1, out, &won), FORGE_MISS);
	for (uint32_t c = 0; c < CHUNKS; c++) {
		assert_int_equal(claim(&r, RING_SMALL, 1, out, &won), 0);
		assert_int_equal(won, 1);
		assert_int_equal(out[0].chunk, c);
		assert_int_equal(out[0].position, c);
		assert_int_equal(out[0].object_count, 3 + c % 4);
		assert_int_equal(out[0].segment, c % 4);
		assert_true(out[0].word == chunk_pack_evicting(CN, RING_SMALL, 1, c));
		assert_true(*chunk(&r, c) == out[0].word);
		assert_true(*node(&r, RING_SMALL, c) == node_pack_empty(1));
	}
	assert_int_equal(claim(&r, RING_SMALL, 1, out, &won), FORGE_MISS);
	fab_close(r.fab);
}

/* A chunk that is not ours is not enqueued; what it leaves behind is cleaned up. */
static void test_not_ours(void **state)
{
	struct rig r;
	struct ring_claimed out[RING_CLAIM_MAX];
	struct ring_entry e = {.chunk = 2, .generation = 1, .object_count = 1};
	uint64_t position = 77, before;
	uint32_t won;

	rig_open(&r);
	claim_all(&r);
	before = *chunk(&r, 2);
	e.owned_word = chunk_pack_open(CN + 1, 1);
	assert_int_equal(ring_enqueue(&r.pool, &r.w, FAB_SPACE, RING_MAIN, &e, &position),
			 FORGE_E_AGAIN);
	assert_int_equal(position, 77);
	assert_true(*chunk(&r, 2) == before);
	assert_int_equal(enqueue(&r, RING_MAIN, 3), 1);
	/* The node of position 0 promises chunk 2, which is elsewhere. */
	assert_int_equal(claim(&r, RING_MAIN, 2, out, &won), 0);
	assert_int_equal(won, 1);
	assert_int_equal(out[0].chunk, 3);
	assert_true(*chunk(&r, 2) == before);
	assert_true(*node(&r, RING_MAIN, 0) == node_pack_empty(1));
	fab_close(r.fab);
}

/* A producer that took its ticket and sleeps: its position is skipped, and it takes another. */
static void test_late_producer(void **state)
{
	struct rig r;
	struct ring_claimed out[RING_CLAIM_MAX];
	uint32_t won;

	rig_open(&r);
	claim_all(&r);
	(*word(&r, plan_tail_address(&r.pool.plan, RING_SMALL)))++; /* ticket 0 */
	assert_int_equal(enqueue(&r, RING_SMALL, 0), 1);
	assert_int_equal(claim(&r, RING_SMALL, 1, out, &won), 0);
	assert_int_equal(won, 0);
	assert_true(*node(&r, RING_SMALL, 0) == node_pack_empty(1));
	assert_int_equal(claim(&r, RING_SMALL, 1, out, &won), 0);
	assert_int_equal(won, 1);
	assert_int_equal(out[0].chunk, 0);
	/* Now it wakes up: a node that was skipped meanwhile sends it to another ticket. */
	*node(&r, RING_SMALL, 2) = node_pack_empty(1);
	*node(&r, RING_SMALL, 3) = node_pack_empty(1);
	assert_int_equal(enqueue(&r, RING_SMALL, 1), 4);
	do {
		/* Positions that were passed are consumed for nothing. */
		assert_int_equal(claim(&r, RING_SMALL, 1, out, &won), 0);
	} while (won == 0);
	assert_int_equal(won, 1);
	assert_int_equal(out[0].chunk, 1);
	assert_int_equal(out[0].position, 4);
	fab_close(r.fab);
}

/* Move head and tail of an empty ring on. */
static void move_cursors(struct rig *r, uint32_t ring, uint64_t position)
{
	*word(r, plan_head_address(&r->pool.plan, ring)) = position;
	*word(r, plan_tail_address(&r->pool.plan, ring)) = position;
}

/* Claim until the ring is empty; returns how many chunks were won, the last one in *last. */
static uint32_t drain(struct rig *r, uint32_t ring, uint32_t count, struct ring_claimed *last)
{
	struct ring_claimed out[RING_CLAIM_MAX];
	uint32_t won, total = 0;

	while (claim(r, ring, count, out, &won) == 0) {
		total += won;
		if (won)
			*last = out[won - 1];
	}
	return total;
}

/*
 * A dequeuer took position 3 and was so late with its node that the whole ring went by.  Who has
 * the ticket for it on a later trip settles it, and gives the ticket to a group that is queued
 * there still; or, if that one died, whoever gets there.  Otherwise it would be lost to the ring
 * for good.
 */
static void late_dequeuer(int kind, uint32_t count, int producer_died)
{
	struct rig r;
	struct ring_claimed last;
	uint64_t *late;

	rig_open(&r);
	claim_all(&r);
	late = node(&r, RING_SMALL, 3);
	for (uint32_t i = 0; i < 16; i++)
		*node(&r, RING_SMALL, i) = node_pack_empty(2);
	switch (kind) {
	case 0: /* of the last trip */
		*late = node_pack_empty(1);
		break;
	case 1: /* of long ago */
		*late = node_pack_empty(0);
		break;
	case 2: /* a FULL one whose chunk is elsewhere */
		*late = node_pack_full(1, 4, 1, 1, 0);
		break;
	case 3: /* a FULL one whose chunk is still there */
		*late = node_pack_full(1, 4, 1, 7, 2);
		*chunk(&r, 4) = chunk_pack_queued(RING_SMALL, 1, 16 + 3);
		break;
	}
	move_cursors(&r, RING_SMALL, 32);
	for (uint32_t c = 0; c < 3; c++)
		assert_int_equal(enqueue(&r, RING_SMALL, c), 32 + c);
	if (producer_died)
		*word(&r, plan_tail_address(&r.pool.plan, RING_SMALL)) += 1;
	assert_int_equal(enqueue(&r, RING_SMALL, 3), 35 + (kind == 3 || producer_died));
	if (producer_died)
		assert_true(node_cycle(*late) < 2);
	else
		assert_true(*late == (kind == 3 ? node_pack_full(2, 4, 1, 7, 2)
						: node_pack_full(2, 3, 1, 6, 3)));
	assert_int_equal(drain(&r, RING_SMALL, count, &last), 4 + (kind == 3));
	assert_true(*late == node_pack_empty(3));
	if (kind == 3)
		assert_true(*chunk(&r, 4) == chunk_pack_evicting(CN, RING_SMALL, 1,
								 producer_died ? 16 + 3 : 32 + 3));
	else
		assert_true(*chunk(&r, 4) == r.owned[4]);
	/* The late one wakes up, and its reset does no harm. */
	for (uint32_t i = 0; i < 16; i++)
		if (i != 3 && node_cycle(*node(&r, RING_SMALL, i)) != 3)
			*node(&r, RING_SMALL, i) = node_pack_empty(3);
	move_cursors(&r, RING_SMALL, 48 + 3);
	r.owned[5] = *chunk(&r, 5);
	assert_int_equal(enqueue(&r, RING_SMALL, 5), 48 + 3);
	fab_close(r.fab);
}

static void test_late_dequeuer(void **state)
{
	for (int kind = 0; kind < 4; kind++)
		for (uint32_t count = 1; count <= 4; count += 3)
			for (int died = 0; died < 2; died++)
				late_dequeuer(kind, count, died);
}

/* No node to be had: the chunk stays named by its word, and nobody waits. */
static void test_no_node(void **state)
{
	struct rig r;
	struct ring_entry e = {.chunk = 1, .generation = 1, .object_count = 1};
	uint64_t position;

	rig_open(&r);
	claim_all(&r);
	for (uint32_t i = 0; i < 16; i++)
		*node(&r, RING_MAIN, i) = node_pack_empty(RING_TICKETS_MAX);
	e.owned_word = r.owned[1];
	assert_int_equal(ring_enqueue(&r.pool, &r.w, FAB_SPACE, RING_MAIN, &e, &position), 0);
	assert_int_equal(position, RING_TICKETS_MAX - 1);
	assert_true(*chunk(&r, 1) == chunk_pack_queued(RING_MAIN, 1, position));
	fab_close(r.fab);
}

static void test_middle(void **state)
{
	struct rig r;
	struct ring_claimed out[RING_CLAIM_MAX], known;
	uint32_t won;

	rig_open(&r);
	claim_all(&r);
	for (uint32_t c = 0; c < 4; c++)
		enqueue(&r, RING_MAIN, c);
	known = (struct ring_claimed){.chunk = 2, .generation = 1, .position = 2};
	assert_int_equal(ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_MAIN, CN, &known), 0);
	assert_int_equal(known.object_count, 5);
	assert_int_equal(known.segment, 2);
	assert_true(*chunk(&r, 2) == chunk_pack_evicting(CN, RING_MAIN, 1, 2));
	assert_int_equal(ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_MAIN, CN, &known),
			 FORGE_MISS);
	/* Wrong generation, wrong chunk, wrong place: nothing happens. */
	known = (struct ring_claimed){.chunk = 3, .generation = 2, .position = 3};
	assert_int_equal(ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_MAIN, CN, &known),
			 FORGE_MISS);
	known = (struct ring_claimed){.chunk = 3, .generation = 1, .position = 1};
	assert_int_equal(ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_MAIN, CN, &known),
			 FORGE_MISS);
	known = (struct ring_claimed){.chunk = 3, .generation = 1, .position = 3};
	assert_int_equal(ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_SMALL, CN, &known),
			 FORGE_MISS);
	assert_true(*chunk(&r, 3) == chunk_pack_queued(RING_MAIN, 1, 3));
	/* The head passes the hole. */
	for (uint32_t c = 0; c < 4; c++) {
		if (c == 2)
			continue;
		assert_int_equal(claim(&r, RING_MAIN, 1, out, &won), 0);
		if (won == 0)
			assert_int_equal(claim(&r, RING_MAIN, 1, out, &won), 0);
		assert_int_equal(won, 1);
		assert_int_equal(out[0].chunk, c);
	}
	assert_int_equal(claim(&r, RING_MAIN, 1, out, &won), FORGE_MISS);
	fab_close(r.fab);
}

/*
 * Round and round, so that the 14-bit cycle of the nodes wraps: 16 nodes, 16,384 cycles.  Now and
 * then a ticket is lost or a chunk taken from the middle.
 */
static void test_cycle_wraps(void **state)
{
	struct rig r;
	struct ring_claimed out[RING_CLAIM_MAX];
	struct prng prng;
	uint64_t queued[CHUNKS] = {0};
	uint32_t first = 0, inside = 0; /* chunks in the ring, in order from `first` */
	uint32_t order[CHUNKS];
	uint64_t positions = 0;

	rig_open(&r);
	prng_seed(&prng, 1);
	claim_all(&r);
	while (positions < 16 * (UINT64_C(16384) + 100)) {
		while (inside < CHUNKS) {
			uint32_t c = 0;

			for (uint32_t i = 0; i < inside; i++)
				if (order[i] == c) {
					c++;
					i = UINT32_MAX; /* start again */
				}
			if (prng_below(&prng, 50) == 0)
				(*word(&r, plan_tail_address(&r.pool.plan, RING_SMALL)))++;
			queued[c] = positions = enqueue(&r, RING_SMALL, c);
			order[inside++] = c;
		}
		if (prng_below(&prng, 20) == 0) {
			uint32_t at = (uint32_t)prng_below(&prng, inside);
			struct ring_claimed known = {
			    .chunk = order[at], .generation = 1, .position = queued[order[at]]};

			assert_int_equal(
			    ring_claim_middle(&r.pool, &r.w, FAB_SPACE, RING_SMALL, CN, &known), 0);
			r.owned[known.chunk] = known.word;
			memmove(&order[at], &order[at + 1], (inside - at - 1) * sizeof(order[0]));
			inside--;
		}
		uint32_t won, want = 1 + (uint32_t)prng_below(&prng, 3);

		assert_int_equal(claim(&r, RING_SMALL, want, out, &won), 0);
		assert_true(won <= want && won <= inside);
		for (first = 0; first < won; first++) {
			assert_int_equal(out[first].chunk, order[first]);
			assert_true(out[first].position == queued[order[first]]);
			r.owned[order[first]] = out[first].word;
		}
		memmove(order, order + won, (inside - won) * sizeof(order[0]));
		inside -= won;
	}
	fab_close(r.fab);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_order),	  cmocka_unit_test(test_not_ours),
	    cmocka_unit_test(test_late_producer), cmocka_unit_test(test_late_dequeuer),
	    cmocka_unit_test(test_no_node),	  cmocka_unit_test(test_middle),
	    cmocka_unit_test(test_cycle_wraps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
