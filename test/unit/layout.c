/*
 * layout.c: the remote format, said a second time.
 *
 * Every number, width and offset of layout/layout.h and layout/plan.h is repeated here as a
 * literal, so that a change has to be made twice, knowingly.  Each packed word is taken apart
 * and put together again over extreme and random fields, and compared with words worked out by
 * hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/prng.h"
#include "layout/plan.h"
#include "layout/stats.h"

#define ROUNDS 20000

static struct prng prng;

static int setup(void **state)
{
	prng_seed(&prng, 1);
	return 0;
}

/* A value of `width` bits: often an extreme one. */
static uint32_t field(unsigned width)
{
	uint32_t most = (uint32_t)((UINT64_C(1) << width) - 1);

	switch (prng_below(&prng, 4)) {
	case 0:
		return 0;
	case 1:
		return most;
	default:
		return (uint32_t)prng_u64(&prng) & most;
	}
}

static uint64_t wide_field(unsigned width)
{
	return ((uint64_t)field(width - 24) << 24) | field(24);
}

static void test_constants(void **state)
{
	assert_memory_equal(&(uint64_t){LAYOUT_MAGIC}, "FRGPOOL1", 8);
	assert_int_equal(LAYOUT_SUPERBLOCK_BYTES, 12288);
	assert_int_equal(LAYOUT_CURSORS_BYTES, 64);
	assert_int_equal(LAYOUT_REGISTRY_BYTES, 64);
	assert_int_equal(LAYOUT_STATS_WORDS, 32);
	assert_int_equal(LAYOUT_STATS_BYTES, 256);
	assert_int_equal(LAYOUT_UNIT_BYTES, 16);
	assert_int_equal(LAYOUT_BLOCK_BYTES, 64);
	assert_int_equal(LAYOUT_PAD_BYTES, 64);
	assert_int_equal(LAYOUT_BUCKET_SLOTS, 8);
	assert_int_equal(LAYOUT_NEIGHBOURHOOD, 16);
	assert_int_equal(LAYOUT_GENERATION_COUNT, 16384);
	assert_int_equal(INDEX_BLOCKS_EMPTY, 0);
	assert_int_equal(INDEX_BLOCKS_MAX, 252);
	assert_int_equal(INDEX_BLOCKS_HEAD, 253);
	assert_int_equal(INDEX_BLOCKS_TENTATIVE, 254);
	assert_int_equal(INDEX_BLOCKS_HEADER, 255);
	assert_int_equal(INDEX_TAG_PAPER_GENERATION_BITS, 10);
	assert_int_equal(INDEX_TAG_PAPER_VERSION_BITS, 4);
	assert_int_equal(RING_SMALL, 0);
	assert_int_equal(RING_MAIN, 1);
	assert_int_equal(RING_FREE, 2);
	assert_int_equal(RING_COUNT, 3);
	assert_int_equal(RING_QUEUES, 2);
	assert_int_equal(NODE_EMPTY, 0);
	assert_int_equal(NODE_FULL, 1);
	assert_int_equal(NODE_CYCLE_COUNT, 16384);
	assert_int_equal(LAYOUT_CHUNK_COUNT_MAX, 8388608);
	assert_int_equal(LAYOUT_GROUP_OBJECTS_MAX, 512);
	assert_int_equal(LAYOUT_SEGMENT_MAX, 3);
	assert_int_equal(CHUNK_FREE, 0);
	assert_int_equal(CHUNK_RESERVED, 1);
	assert_int_equal(CHUNK_OPEN, 2);
	assert_int_equal(CHUNK_QUEUED, 3);
	assert_int_equal(CHUNK_EVICTING, 4);
	assert_int_equal(CHUNK_PART, 5);
	assert_int_equal(TWIM_BYTES, 8);
	assert_true(TWIM_SLOT_DEAD == UINT64_C(0x7ffffffff));
	assert_true(TWIM_HEAD == UINT64_C(0x800000000));
	assert_int_equal(LAYOUT_OBJECT_UNITS_MAX, 65535);
	assert_int_equal(LAYOUT_OBJECT_HEADER_BYTES, 48);
	assert_int_equal(LAYOUT_KEY_BYTES_MAX, 250);
	assert_int_equal(REGISTRY_FREE, 0);
	assert_int_equal(REGISTRY_LIVE, 1);
	assert_int_equal(REGISTRY_DEAD, 2);
	assert_int_equal(REGISTRY_RECOVERING, 3);
	assert_int_equal(LAYOUT_CN_MAX, 85);
	assert_int_equal(SUPERBLOCK_FORMATTING, 0);
	assert_int_equal(SUPERBLOCK_READY, 1);
}

#define OFFSET(type, member, at) assert_int_equal(offsetof(struct type, member), at)

static void test_structs(void **state)
{
	assert_int_equal(sizeof(struct layout_cursors), 64);
	OFFSET(layout_cursors, ring[0].head, 0);
	OFFSET(layout_cursors, ring[0].tail, 8);
	OFFSET(layout_cursors, ring[1].head, 16);
	OFFSET(layout_cursors, ring[1].tail, 24);
	OFFSET(layout_cursors, ring[2].head, 32);
	OFFSET(layout_cursors, ring[2].tail, 40);
	OFFSET(layout_cursors, fence, 48);
	OFFSET(layout_cursors, part_chunks, 56);

	assert_int_equal(sizeof(struct layout_object), 48);
	OFFSET(layout_object, checksum, 0);
	OFFSET(layout_object, generation, 8);
	OFFSET(layout_object, sn, 10);
	OFFSET(layout_object, key_bytes, 12);
	OFFSET(layout_object, origin, 13);
	OFFSET(layout_object, part_count, 14);
	OFFSET(layout_object, value_bytes, 16);
	OFFSET(layout_object, flags, 20);
	OFFSET(layout_object, expiry_ms, 24);
	OFFSET(layout_object, cas_id, 32);
	OFFSET(layout_object, flush_generation, 40);
	OFFSET(layout_object, marks, 44);

	assert_int_equal(sizeof(struct layout_parts), 16);
	OFFSET(layout_parts, value_bytes, 0);
	OFFSET(layout_parts, checksum, 8);
	OFFSET(layout_parts, part, 16);
	assert_int_equal(LAYOUT_PARTS_BYTES, 16);
	assert_int_equal(LAYOUT_PART_BYTES, 8);
	assert_int_equal(LAYOUT_PARTS_COUNT_MAX, 65535);

	assert_int_equal(sizeof(struct layout_registry), 64);
	OFFSET(layout_registry, id, 0);
	OFFSET(layout_registry, lease_us, 8);
	OFFSET(layout_registry, flushed[0], 16);
	OFFSET(layout_registry, flushed[1], 24);
	OFFSET(layout_registry, fence, 32);
	OFFSET(layout_registry, polled_us, 40);
	OFFSET(layout_registry, worker_count, 48);
	OFFSET(layout_registry, zero, 56);

	assert_int_equal(sizeof(struct layout_stats), 256);
	OFFSET(layout_stats, life, 0);
	OFFSET(layout_stats, count[STATS_stored], 8);
	OFFSET(layout_stats, count[STATS_replaced], 16);
	OFFSET(layout_stats, count[STATS_deleted], 24);
	OFFSET(layout_stats, count[STATS_expired], 32);
	OFFSET(layout_stats, count[STATS_flushed], 40);
	OFFSET(layout_stats, count[STATS_evicted], 48);
	OFFSET(layout_stats, count[STATS_superseded], 56);
	OFFSET(layout_stats, count[STATS_invalid], 64);
	OFFSET(layout_stats, count[STATS_lost], 72);
	OFFSET(layout_stats, count[STATS_gets], 80);
	OFFSET(layout_stats, count[STATS_hits], 88);
	OFFSET(layout_stats, count[STATS_groups_lost], 96);
	OFFSET(layout_stats, zero, 104);

	assert_int_equal(sizeof(struct layout_superblock), 256);
	OFFSET(layout_superblock, magic, 0);
	OFFSET(layout_superblock, version, 8);
	OFFSET(layout_superblock, state, 12);
	OFFSET(layout_superblock, fingerprint, 16);
	OFFSET(layout_superblock, pool_id, 24);
	OFFSET(layout_superblock, epoch, 32);
	OFFSET(layout_superblock, plan_checksum, 40);
	OFFSET(layout_superblock, plan, 48);
	OFFSET(layout_superblock, time, 224);
	OFFSET(layout_superblock, starts, 248);
}

static void test_plan_offsets(void **state)
{
	assert_int_equal(sizeof(struct plan), 176);
	OFFSET(plan, pool_bytes, 0);
	OFFSET(plan, chunk_count, 8);
	OFFSET(plan, chunk_bytes, 12);
	OFFSET(plan, group_objects, 16);
	OFFSET(plan, slot_words, 20);
	OFFSET(plan, bucket_count, 24);
	OFFSET(plan, bucket_bytes, 28);
	OFFSET(plan, cn_max, 32);
	OFFSET(plan, ring_nodes, 36);
	OFFSET(plan, ofm_rows, 40);
	OFFSET(plan, ofm_row_bytes, 44);
	OFFSET(plan, window_groups, 48);
	OFFSET(plan, object_bytes, 52);
	OFFSET(plan, value_bytes_max, 56);
	OFFSET(plan, part_count_max, 60);
	OFFSET(plan, cursors_offset, 64);
	OFFSET(plan, ofm_offset[0], 72);
	OFFSET(plan, ofm_offset[1], 80);
	OFFSET(plan, registry_offset, 88);
	OFFSET(plan, stats_offset, 96);
	OFFSET(plan, chunk_table_offset, 104);
	OFFSET(plan, dead_offset, 112);
	OFFSET(plan, ring_offset[0], 120);
	OFFSET(plan, ring_offset[1], 128);
	OFFSET(plan, ring_offset[2], 136);
	OFFSET(plan, index_offset, 144);
	OFFSET(plan, chunks_offset, 152);
	OFFSET(plan, policy, 160);
}

static void test_index_word(void **state)
{
	assert_true(index_pack(0xab, 0xcd, 0x1234, 0x3deadbeef) == UINT64_C(0xabcd48d3deadbeef));
	assert_true(index_pack(0xff, 0xff, 0x3fff, 0x3ffffffff) == UINT64_MAX);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t fingerprint = field(8), blocks = field(8), tag = field(14);
		uint64_t pointer = wide_field(34);
		uint64_t word = index_pack(fingerprint, blocks, tag, pointer);

		assert_int_equal(index_fingerprint(word), fingerprint);
		assert_int_equal(index_blocks(word), blocks);
		assert_int_equal(index_tag(word), tag);
		assert_true(index_pointer(word) == pointer);
		assert_int_equal(index_is_object(word), blocks != 0 && blocks != 254);
		assert_int_equal(index_is_head(word), blocks == 253);
	}
}

static void test_paper_tag(void **state)
{
	assert_int_equal(index_tag_paper(0x3ff, 0), 0x3ff0);
	assert_int_equal(index_tag_paper(0, 15), 15);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t generation = field(14), version = field(8);
		uint32_t tag = index_tag_paper(generation, version);

		assert_true(tag < 16384);
		assert_int_equal(index_tag_paper_generation(tag), generation % 1024);
		assert_int_equal(index_tag_paper_version(tag), version % 16);
	}
}

/* A length field never says less than the object has, and only "see the header" loses it. */
static void test_blocks(void **state)
{
	assert_int_equal(index_blocks_of_units(1), 1);
	assert_int_equal(index_blocks_of_units(4), 1);
	assert_int_equal(index_blocks_of_units(5), 2);
	assert_int_equal(index_blocks_of_units(252 * 4), 252);
	assert_int_equal(index_blocks_of_units(252 * 4 + 1), 255);
	assert_int_equal(index_blocks_of_units(65535), 255);
	for (uint32_t units = 1; units <= 252 * 4; units++) {
		uint32_t blocks = index_blocks_of_units(units);

		assert_true(blocks * 64 >= units * 16 && blocks * 64 < units * 16 + 64);
	}
	assert_int_equal(layout_object_units(1, 0), 4);
	assert_int_equal(layout_object_units(16, 0), 4);
	assert_int_equal(layout_object_units(16, 1), 5);
	assert_int_equal(layout_object_units(250, UINT32_MAX), 268435475);
}

static void test_group_word(void **state)
{
	assert_true(group_pack(0x7fffff, 0, 0, 0) == UINT64_C(0x7fffff));
	assert_true(group_pack(0, 511, 0, 0) == UINT64_C(0xff800000));
	assert_true(group_pack(0, 0, 16383, 15) == UINT64_C(0x3ffff00000000));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t chunk = field(23), sn = field(9), generation = field(14);
		uint32_t version = field(4);
		uint64_t word = group_pack(chunk, sn, generation, version);

		assert_int_equal(group_chunk(word), chunk);
		assert_int_equal(group_sn(word), sn);
		assert_int_equal(group_generation(word), generation);
		assert_int_equal(group_version(word), version);
	}
}

static void test_node_word(void **state)
{
	assert_true(node_pack_empty(3) == UINT64_C(3) << 48);
	assert_true(node_pack_empty(16384 + 3) == UINT64_C(3) << 48);
	assert_true(node_pack_full(1, 2, 3, 4, 1) ==
		    (UINT64_C(1) << 62 | UINT64_C(1) << 48 | UINT64_C(1) << 46 | UINT64_C(3) << 37 |
		     UINT64_C(3) << 23 | 2));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t chunk = field(23), generation = field(14), objects = field(9) + 1;
		uint32_t segment = field(2);
		uint64_t cycle = wide_field(40);
		uint64_t word = node_pack_full(cycle, chunk, generation, objects, segment);

		assert_int_equal(node_state(word), NODE_FULL);
		assert_int_equal(node_chunk(word), chunk);
		assert_int_equal(node_generation(word), generation);
		assert_int_equal(node_object_count(word), objects);
		assert_int_equal(node_segment(word), segment);
		assert_int_equal(node_cycle(word), cycle % 16384);
		assert_int_equal(node_state(node_pack_empty(cycle)), NODE_EMPTY);
		assert_int_equal(node_cycle(node_pack_empty(cycle)), cycle % 16384);
	}
}

static void test_chunk_word(void **state)
{
	assert_true(chunk_pack_queued(1, 2, 3) ==
		    (UINT64_C(3) << 60 | UINT64_C(1) << 58 | UINT64_C(2) << 36 | 3));
	assert_true(chunk_pack_free(2, 3) == (UINT64_C(2) << 58 | UINT64_C(2) << 36 | 3));
	assert_true(chunk_pack_reserved(5, 2) ==
		    (UINT64_C(1) << 60 | UINT64_C(5) << 50 | UINT64_C(2) << 36));
	assert_true(chunk_pack_open(5, 2) ==
		    (UINT64_C(2) << 60 | UINT64_C(5) << 50 | UINT64_C(2) << 36));
	assert_true(chunk_pack_evicting(5, 1, 2, 3) == (UINT64_C(4) << 60 | UINT64_C(1) << 58 |
							UINT64_C(5) << 50 | UINT64_C(2) << 36 | 3));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t state_field = field(4), ring = field(2), owner = field(8);
		uint32_t generation = field(14);
		uint64_t position = wide_field(40);
		uint64_t word = chunk_pack(state_field, ring, owner, generation, position);

		assert_int_equal(chunk_state(word), state_field);
		assert_int_equal(chunk_ring(word), ring);
		assert_int_equal(chunk_owner(word), owner);
		assert_int_equal(chunk_generation(word), generation);
		assert_true(chunk_position(word) == position % (UINT64_C(1) << 36));
	}
}

static void test_twim_entry(void **state)
{
	assert_true(twim_pack(0xabcd, 0xef, 1, 0x234567890) == UINT64_C(0xabcdef1234567890));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t units = field(16), fingerprint = field(8), version = field(4);
		uint64_t slot = wide_field(35), head = field(1) ? TWIM_HEAD : 0;
		uint64_t entry = twim_pack(units, fingerprint, version, slot) | head;

		assert_int_equal(twim_units(entry), units);
		assert_int_equal(twim_fingerprint(entry), fingerprint);
		assert_int_equal(twim_version(entry), version);
		assert_true(twim_slot(entry) == slot);
		assert_int_equal(twim_is_head(entry), head != 0);
	}
}

static void test_part_word(void **state)
{
	assert_true(part_pack(0x123456, 0x3fff) == UINT64_C(0x1fff923456));
	assert_true(chunk_pack_part(0x1234, 0x7ffffffff) == UINT64_C(0x50012347ffffffff));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t chunk = field(23), generation = field(14);
		uint64_t slot = wide_field(35);
		uint64_t part = part_pack(chunk, generation);
		uint64_t word = chunk_pack_part(generation, slot);

		assert_int_equal(part_chunk(part), chunk);
		assert_int_equal(part_generation(part), generation);
		assert_int_equal(chunk_state(word), CHUNK_PART);
		assert_int_equal(chunk_generation(word), generation);
		assert_true(chunk_position(word) == slot);
		assert_int_equal(chunk_owner(word), 0);
		assert_int_equal(chunk_ring(word), 0);
	}
}

static void test_dead_word(void **state)
{
	assert_int_equal(DEAD_WORD_MEMBERS, 32);
	assert_int_equal(LAYOUT_DEAD_WORDS_MAX, 16);
	assert_true(dead_word_pack(0x2345, 0x80000011) == UINT64_C(0x030069cf80000011));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t generation = field(14), first = field(32), second = field(32) & ~first;
		/* Each once, in any order and with whatever else. */
		uint64_t words[2] = {0, dead_word_pack(generation, first) +
					    dead_word_pack(generation, second)};

		assert_int_equal(dead_word_members(words[1], generation), first | second);
		for (uint32_t sn = 32; sn < 64; sn++)
			assert_int_equal(dead_words_name(words, generation, sn),
					 (first | second) >> (sn - 32) & 1);
	}
}

/* Deaths of older lives, whatever those of this one are, carries and all. */
static void test_late_deaths(void **state)
{
	for (int i = 0; i < 100 * ROUNDS; i++) {
		uint32_t generation = field(14), lives = 1 + field(2);
		/* Few and many. */
		uint32_t own = field(32) & (field(1) ? field(32) & field(32) : UINT32_MAX);
		uint64_t word = dead_word_pack(generation, own);

		for (uint32_t k = 0; k < lives; k++) {
			uint32_t late = 1u << field(5) | (field(1) ? field(32) : 0);

			if (generation > 0)
				word +=
				    dead_word_pack((uint32_t)prng_below(&prng, generation), late);
		}
		if (generation > 0)
			assert_int_equal(dead_word_members(word, generation), 0);
	}
	/* One late life may also be of before the generations wrapped: any but this one. */
	for (uint32_t other = 0; other < LAYOUT_GENERATION_COUNT; other++) {
		uint32_t late = 1u << field(5) | field(32);
		uint32_t generation = (other + 1 + field(13)) % LAYOUT_GENERATION_COUNT;
		uint64_t word = dead_word_pack(other, late) +
				dead_word_pack(generation, field(1) ? field(32) : 0);

		assert_int_equal(dead_word_members(word, generation), 0);
	}
}

static void test_registry_word(void **state)
{
	assert_true(registry_pack(1, 2, 3) == (UINT64_C(1) << 62 | UINT64_C(2) << 32 | 3));
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t state_field = field(2), incarnation = field(32), pid = field(32);
		uint64_t word = registry_pack(state_field, incarnation, pid);

		assert_int_equal(registry_state(word), state_field);
		assert_int_equal(registry_incarnation(word), incarnation % (1u << 30));
		assert_int_equal(registry_pid(word), pid);
	}
}

static void test_generation_wraps(void **state)
{
	assert_int_equal(generation_next(1), 2);
	assert_int_equal(generation_next(16382), 16383);
	assert_int_equal(generation_next(16383), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_constants),	     cmocka_unit_test(test_structs),
	    cmocka_unit_test(test_plan_offsets),     cmocka_unit_test(test_index_word),
	    cmocka_unit_test(test_paper_tag),	     cmocka_unit_test(test_blocks),
	    cmocka_unit_test(test_group_word),	     cmocka_unit_test(test_node_word),
	    cmocka_unit_test(test_chunk_word),	     cmocka_unit_test(test_twim_entry),
	    cmocka_unit_test(test_part_word),	     cmocka_unit_test(test_registry_word),
	    cmocka_unit_test(test_generation_wraps), cmocka_unit_test(test_dead_word),
	    cmocka_unit_test(test_late_deaths),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
