/*
 * ghosts.c: which stale slots count as ghosts.  A life counts when it left the small ring not
 * longer ago than 1.3 times the pool, whatever the size of the pool, whether positions are about to
 * wrap or not; lives in the main ring, lives too many generations back and living ones do not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/rig.h"

#define CHUNK 3u

/* A word that points into the chunk's life of that generation. */
static uint64_t word_of(const struct rig *r, uint32_t generation)
{
	const struct plan *p = &r->pool.plan;
	struct index_target target = {
	    .fingerprint = 7,
	    .units = 6,
	    .generation = generation,
	    .address = plan_chunk_address(p, CHUNK),
	};

	return index_word(p, &target);
}

/* The chunk is queued at a position and, if over, freed: its next life begins. */
static void live(struct rig *r, uint32_t ring, uint32_t generation, uint64_t position, int over)
{
	cn_note(&r->cn, CHUNK, chunk_pack_queued(ring, generation, position), NULL, 1);
	if (over)
		cn_note(&r->cn, CHUNK, chunk_pack_reserved(0, generation_next(generation)), NULL,
			0);
}

static int is_ghost_at(struct rig *r, uint32_t generation, uint64_t head)
{
	atomic_store(&r->cn.head[RING_SMALL], head);
	uint64_t word = word_of(r, generation);

	return cn_word_is_ghost(&r->cn, word, cn_chunk_of(&r->cn, word));
}

static void ages(uint32_t chunks, uint64_t position)
{
	struct rig r;
	uint64_t limit = (uint64_t)chunks * CN_GHOST_AGE_PERCENT / 100;

	rig_open(&r, "forge", chunks, 2);
	uint64_t tick = UINT64_C(1) << r.cn.life_shift;

	/* Fine enough: less than a thousandth of the pool, or exact. */
	assert_true(tick == 1 || tick * 1000 <= chunks);
	live(&r, RING_SMALL, 5, position, 1);
	assert_true(is_ghost_at(&r, 5, position));
	assert_true(is_ghost_at(&r, 5, position + 1));
	assert_true(is_ghost_at(&r, 5, position + limit - 2 * tick));
	assert_false(is_ghost_at(&r, 5, position + limit + 2 * tick));
	for (uint64_t pools = 2; pools < 29; pools++)
		assert_false(is_ghost_at(&r, 5, position + pools * chunks));
	/* Head as polled before the group came to it; a ring is at most 1.5 pools long. */
	if (position > 3 * (uint64_t)chunks / 2)
		assert_true(is_ghost_at(&r, 5, position - 3 * (uint64_t)chunks / 2));
	/* The life that goes on is none, nor is one in the main ring. */
	live(&r, RING_SMALL, 6, position + 1, 0);
	assert_false(is_ghost_at(&r, 6, position + 1));
	live(&r, RING_MAIN, 7, position + 2, 1);
	assert_false(is_ghost_at(&r, 7, position + 2));
	assert_true(is_ghost_at(&r, 5, position + 2));
	/* As many lives later its place is another one's. */
	for (uint32_t generation = 8; generation < 5 + CN_LIVES; generation++)
		live(&r, RING_SMALL, generation, position + generation, 1);
	assert_false(is_ghost_at(&r, 5, position + 3));
	assert_true(is_ghost_at(&r, 8, position + 3));
	rig_kill(&r);
}

static void test_ages(void **state)
{
	static const uint32_t chunks[] = {8, 100, 2047, 2048, 5000, 40000};
	static const uint64_t positions[] = {0, 1, 12345, 65535, 65536, (UINT64_C(1) << 33) + 77};

	for (unsigned i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++)
		for (unsigned k = 0; k < sizeof(positions) / sizeof(positions[0]); k++)
			ages(chunks[i], positions[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_ages)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
