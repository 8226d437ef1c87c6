/* plan.c: geometry of a pool. */
#include "layout/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "layout/spread.h"
#include "layout/stats.h"
#include "base/status.h"

/* What a 34-bit pointer to 16-byte units reaches. */
#define PLAN_POOL_BYTES_MAX (UINT64_C(1) << 38)

static uint64_t power_of_two_at_least(uint64_t n)
{
	uint64_t p = 1;

	while (p < n)
		p *= 2;
	return p;
}

bool layout_is_of_a_pool(const void *head, size_t bytes)
{
	const uint64_t *words = head;

	if (bytes == 0 || (bytes >= sizeof(words[0]) && words[0] == LAYOUT_MAGIC))
		return true;
	if (bytes < LAYOUT_SUPERBLOCK_BYTES)
		return false;
	for (size_t i = 0; i < LAYOUT_SUPERBLOCK_BYTES / sizeof(words[0]); i++)
		if (words[i])
			return false;
	return true;
}

uint64_t layout_fingerprint(void)
{
	const uint32_t constants[] = {
	    LAYOUT_VERSION,
	    LAYOUT_SUPERBLOCK_BYTES,
	    LAYOUT_CURSORS_BYTES,
	    LAYOUT_REGISTRY_BYTES,
	    LAYOUT_STATS_BYTES,
	    STATS_UNTOLD_MAX,
	    (uint32_t)sizeof(struct layout_superblock),
	    LAYOUT_UNIT_BYTES,
	    LAYOUT_BLOCK_BYTES,
	    LAYOUT_BUCKET_SLOTS,
	    LAYOUT_GENERATION_BITS,
	    INDEX_TAG_PAPER_GENERATION_BITS,
	    INDEX_TAG_PAPER_VERSION_BITS,
	    CHUNK_POSITION_BITS,
	    CHUNK_STATES,
	    NODE_CYCLE_COUNT,
	    DEAD_WORD_MEMBERS,
	    DEAD_MARK,
	    TWIM_BYTES,
	    LAYOUT_OBJECT_HEADER_BYTES,
	    INDEX_BLOCKS_HEAD,
	    LAYOUT_PARTS_BYTES,
	    LAYOUT_PART_BYTES,
	    (uint32_t)sizeof(struct spread_record),
	    SPREAD_PARTITIONS,
	    FENCE_EPOCH_SHIFT,
	    (uint32_t)sizeof(struct plan),
	    (uint32_t)offsetof(struct plan, cursors_offset),
	};

	return hash_checksum(0, constants, sizeof(constants));
}

/* A power of two: many more than the window, unless they are long. */
static uint32_t plan_ofm_rows(const struct plan *p)
{
	uint64_t rows = power_of_two_at_least(PLAN_OFM_WINDOWS * (uint64_t)p->window_groups);

	while (rows * RING_QUEUES * p->ofm_row_bytes > PLAN_HOT_BYTES_MAX &&
	       rows / 2 >= PLAN_OFM_WINDOWS_MIN * (uint64_t)p->window_groups)
		rows /= 2;
	return (uint32_t)min_u64(p->ring_nodes, rows);
}

/* Fill in everything that follows from chunk_count; returns the bytes of the export. */
static uint64_t plan_lay_out(struct plan *p, uint32_t chunk_count, double slots_per_object)
{
	double objects = (double)chunk_count * plan_expected_objects(p);
	double buckets = objects * slots_per_object / LAYOUT_BUCKET_SLOTS;
	uint64_t at = LAYOUT_SUPERBLOCK_BYTES;

	p->chunk_count = chunk_count;
	p->bucket_count = buckets < 1 ? 1 : (uint32_t)(buckets + 0.999);
	p->bucket_bytes = LAYOUT_BUCKET_SLOTS * 8 * p->slot_words;
	/*
	 * Twice the chunks, so that skipped positions never make a ring full; four times where
	 * groups are compacted all the time, which leaves positions behind.  With twice as many
	 * the head of main is evicted for their sake: 1.3 points of YCSB-A at 10 %.
	 */
	p->ring_nodes = (uint32_t)power_of_two_at_least(
	    max_u64(8, (plan_has_long_rings(chunk_count) ? 4 : 2) * (uint64_t)chunk_count));
	/*
	 * The window must be longer than what is evicted between two polls (the margin of paper
	 * section 5.2) and short beside the ring, because a CN's hits inside it stay unseen:
	 * blind to 6 % of the queue costs 0.05 points (policy-study.md).
	 */
	p->window_groups = plan_window(chunk_count);
	p->ofm_row_bytes = (uint32_t)round_up_u64(p->group_objects, 8);
	p->ofm_rows = plan_ofm_rows(p);

	p->cursors_offset = at;
	at += LAYOUT_CURSORS_BYTES;
	for (unsigned r = 0; r < RING_QUEUES; r++) {
		p->ofm_offset[r] = at;
		at += (uint64_t)p->ofm_rows * p->ofm_row_bytes;
	}
	at = round_up_u64(at, 64);
	p->registry_offset = at;
	at += (uint64_t)p->cn_max * LAYOUT_REGISTRY_BYTES;
	p->stats_offset = at;
	at += (uint64_t)p->cn_max * LAYOUT_STATS_BYTES;
	p->chunk_table_offset = at;
	at = round_up_u64(at + 8 * (uint64_t)chunk_count, 64);
	p->dead_offset = at;
	at = round_up_u64(at + 8 * (uint64_t)plan_dead_words(p) * chunk_count, 64);
	for (unsigned r = 0; r < RING_COUNT; r++) {
		p->ring_offset[r] = at;
		at += 8 * (uint64_t)p->ring_nodes;
	}
	at = round_up_u64(at, 64);
	p->index_offset = at;
	at += ((uint64_t)p->bucket_count + 1) * p->bucket_bytes;
	p->chunks_offset = at;
	at += (uint64_t)chunk_count * p->chunk_bytes + LAYOUT_PAD_BYTES;
	p->pool_bytes = at;
	return at;
}

/* The smallest object there can be: a header and a key of one byte. */
#define OBJECT_BYTES_LEAST (LAYOUT_OBJECT_HEADER_BYTES + LAYOUT_UNIT_BYTES)

/* How many objects a group may have, when so many of the expected size fill its chunk. */
static uint32_t plan_group_limit(const struct plan_wish *wish, const struct plan *p,
				 uint32_t expected)
{
	uint64_t median =
	    (uint64_t)layout_object_units(0, wish->object_bytes_median) * LAYOUT_UNIT_BYTES;
	uint64_t mean = max_u64(plan_expected_bytes(p), median);
	uint64_t limit = expected;

	if (wish->group_objects_max)
		limit = max_u64(limit, wish->group_objects_max);
	else if (wish->object_bytes_median)
		limit = round_up_u64(expected * mean * PLAN_GROUP_SPARE_PERCENT / (100 * median),
				     PLAN_GROUP_STEP);
	limit = min_u64(limit, p->chunk_bytes / (OBJECT_BYTES_LEAST + TWIM_BYTES));
	return (uint32_t)min_u64(limit, LAYOUT_GROUP_OBJECTS_MAX);
}

/* ---- values larger than a chunk ----------------------------------------------------------- */

/* Bytes of a head with so many parts, beside what is left of the value. */
static uint64_t head_bytes(uint64_t part_count)
{
	return LAYOUT_OBJECT_HEADER_BYTES + LAYOUT_KEY_BYTES_MAX + LAYOUT_PARTS_BYTES +
	       LAYOUT_PART_BYTES * part_count;
}

struct plan_cut plan_cut(const struct plan *p, uint64_t value_bytes)
{
	uint64_t full = value_bytes / p->chunk_bytes, rest = value_bytes % p->chunk_bytes;
	uint64_t most = plan_object_bytes_max(p), used = head_bytes(full);
	uint64_t room = used < most ? min_u64(most - used, p->chunk_bytes / 2) : 0;

	if (rest <= room)
		return (struct plan_cut){(uint32_t)full, (uint32_t)rest};
	return (struct plan_cut){(uint32_t)full + 1, 0};
}

/* Does the head of every value up to that size fit in a chunk? */
static int heads_fit(const struct plan *p, uint64_t value_bytes)
{
	uint32_t part_count = plan_cut(p, value_bytes).part_count;

	return part_count <= LAYOUT_PARTS_COUNT_MAX &&
	       head_bytes(part_count) <= plan_object_bytes_max(p);
}

/* The largest value for a 16-byte key in one chunk. */
static uint32_t whole_value_bytes(const struct plan *p)
{
	uint32_t used = LAYOUT_OBJECT_HEADER_BYTES + 16;

	return plan_object_bytes_max(p) > used ? plan_object_bytes_max(p) - used : 0;
}

/* Wide enough for the list of the parts of the largest value; an expected group fits anyway. */
static void widen_chunks(struct plan *p, uint64_t value_bytes)
{
	if (value_bytes <= whole_value_bytes(p))
		return;
	while (!heads_fit(p, value_bytes))
		p->chunk_bytes += 64;
}

/* Largest value and its parts, chunk_bytes and chunk_count being known. */
static void limit_values(struct plan *p, uint32_t chunk_count, uint64_t wanted)
{
	uint64_t value_bytes = wanted ? wanted : PLAN_VALUE_BYTES_DEFAULT;
	uint64_t share = chunk_count / PLAN_LARGE_VALUES_MIN;

	if (!wanted) {
		/* One chunk of its share is for the head. */
		value_bytes =
		    min_u64(value_bytes, (share > 0 ? share - 1 : 0) * (uint64_t)p->chunk_bytes);
		while (value_bytes > 0 && !heads_fit(p, value_bytes))
			value_bytes -= min_u64(value_bytes, p->chunk_bytes);
	}
	p->part_count_max = 0;
	p->value_bytes_max = whole_value_bytes(p);
	if (value_bytes <= p->value_bytes_max)
		return;
	p->value_bytes_max = (uint32_t)value_bytes;
	p->part_count_max = plan_cut(p, value_bytes).part_count;
}

#define REFUSE(...) (snprintf(error_text, error_bytes, __VA_ARGS__), FORGE_E_INVAL)

int plan_make(const struct plan_wish *wish, struct plan *out, char *error_text, size_t error_bytes)
{
	uint32_t object_bytes = wish->object_bytes ? wish->object_bytes : PLAN_OBJECT_BYTES_DEFAULT;
	double slots = wish->slots_per_object > 0 ? wish->slots_per_object
		       : wish->slot_words == 2	  ? PLAN_SLOTS_PER_OBJECT_NO_GHOSTS
						  : PLAN_SLOTS_PER_OBJECT_DEFAULT;
	const char *policy = wish->policy ? wish->policy : "forge";
	struct plan p = {0};

	p.group_objects = wish->group_objects ? wish->group_objects : PLAN_GROUP_OBJECTS_DEFAULT;
	p.slot_words = wish->slot_words ? wish->slot_words : 1;
	p.cn_max = wish->cn_max ? wish->cn_max : PLAN_CN_MAX_DEFAULT;
	p.object_bytes = object_bytes;
	if (p.group_objects < 2 || p.group_objects > LAYOUT_GROUP_OBJECTS_MAX)
		return REFUSE("group_objects is %u; choose 2 to %u", p.group_objects,
			      LAYOUT_GROUP_OBJECTS_MAX);
	if (wish->group_objects_max > LAYOUT_GROUP_OBJECTS_MAX)
		return REFUSE("group_objects_max is %u; choose at most %u", wish->group_objects_max,
			      LAYOUT_GROUP_OBJECTS_MAX);
	if (p.slot_words > 2)
		return REFUSE("slot_words is %u; choose 1 or 2", p.slot_words);
	if (p.cn_max > LAYOUT_CN_MAX)
		return REFUSE("cn_max is %u; choose 1 to %u", p.cn_max, LAYOUT_CN_MAX);
	if (slots < 1 || slots > 16)
		return REFUSE("slots_per_object is %.2f; choose 1 to 16", slots);
	if (strlen(policy) >= sizeof(p.policy))
		return REFUSE("the policy name \"%s\" is longer than %zu letters", policy,
			      sizeof(p.policy) - 1);

	uint32_t units = layout_object_units(0, object_bytes);
	uint64_t chunk_bytes = round_up_u64(
	    (uint64_t)p.group_objects * ((uint64_t)units * LAYOUT_UNIT_BYTES + TWIM_BYTES), 64);

	if (units > LAYOUT_OBJECT_UNITS_MAX || chunk_bytes > (64u << 20))
		return REFUSE("%u objects of %u bytes make a chunk of %" PRIu64
			      " bytes; the limits are 1 MiB an object and 64 MiB a chunk: "
			      "choose a smaller object size or group",
			      p.group_objects, object_bytes, chunk_bytes);
	if (wish->value_bytes_max > PLAN_VALUE_BYTES_LIMIT)
		return REFUSE("values of up to %u bytes are wanted; the limit is %u",
			      wish->value_bytes_max, PLAN_VALUE_BYTES_LIMIT);
	p.chunk_bytes = (uint32_t)chunk_bytes;
	widen_chunks(&p, wish->value_bytes_max);
	if (p.chunk_bytes > chunk_bytes && wish->group_objects == 0)
		/* What the wider chunk has room for. */
		p.group_objects = (uint32_t)min_u64(
		    LAYOUT_GROUP_OBJECTS_MAX,
		    p.chunk_bytes / ((uint64_t)units * LAYOUT_UNIT_BYTES + TWIM_BYTES));
	chunk_bytes = p.chunk_bytes;
	p.group_objects = plan_group_limit(wish, &p, p.group_objects);
	memcpy(p.policy, policy, strlen(policy));

	uint64_t chunk_count = wish->chunk_count;

	if (max_u64(wish->pool_bytes, chunk_count * chunk_bytes) > PLAN_POOL_BYTES_MAX)
		return REFUSE("the pool would be %" PRIu64
			      " bytes; a 34-bit pointer to 16-byte units reaches 256 GiB: "
			      "export several pools",
			      max_u64(wish->pool_bytes, chunk_count * chunk_bytes));
	if (chunk_count == 0) {
		uint64_t low = 0, high = LAYOUT_CHUNK_COUNT_MAX;

		while (low < high) {
			uint64_t middle = (low + high + 1) / 2;

			if (plan_lay_out(&p, (uint32_t)middle, slots) <= wish->pool_bytes)
				low = middle;
			else
				high = middle - 1;
		}
		chunk_count = low;
		if (chunk_count == LAYOUT_CHUNK_COUNT_MAX &&
		    plan_lay_out(&p, (uint32_t)chunk_count, slots) + p.chunk_bytes <=
			wish->pool_bytes)
			return REFUSE("%u chunks of %u bytes, the most there can be, take only "
				      "%" PRIu64 " of %" PRIu64
				      " bytes: choose a larger group or object size, or export "
				      "several pools",
				      LAYOUT_CHUNK_COUNT_MAX, p.chunk_bytes, p.pool_bytes,
				      wish->pool_bytes);
		if (chunk_count < 4) {
			uint64_t least = plan_lay_out(&p, 4, slots);

			return REFUSE("%" PRIu64 " bytes hold fewer than 4 groups of %u objects of "
				      "%u bytes; give at least %" PRIu64
				      " bytes, or a smaller group or object size",
				      wish->pool_bytes, plan_expected_objects(&p), object_bytes,
				      least);
		}
	}
	if (chunk_count < 2 || chunk_count > LAYOUT_CHUNK_COUNT_MAX)
		return REFUSE("chunk_count is %" PRIu64 "; choose 2 to %u", chunk_count,
			      LAYOUT_CHUNK_COUNT_MAX);
	limit_values(&p, (uint32_t)chunk_count, wish->value_bytes_max);
	uint64_t chunks_least = PLAN_LARGE_VALUES_MIN * ((uint64_t)p.part_count_max + 1);

	if (wish->value_bytes_max && p.part_count_max && chunk_count < chunks_least)
		return REFUSE("a value of %u bytes takes %u of %" PRIu64
			      " chunks, and %u such values must fit: choose a smaller %s, "
			      "or give at least %" PRIu64 " bytes",
			      wish->value_bytes_max, p.part_count_max + 1, chunk_count,
			      PLAN_LARGE_VALUES_MIN,
			      wish->value_option ? wish->value_option : "--value-max",
			      plan_lay_out(&p, (uint32_t)chunks_least, slots));
	/*
	 * Each CN may hold chunk_count / (2 cn_max) chunks that are open or reserved; it needs a
	 * handful, so a small pool permits fewer CNs.
	 */
	if (wish->cn_max == 0)
		p.cn_max = (uint32_t)min_u64(PLAN_CN_MAX_DEFAULT, max_u64(1, chunk_count / 16));
	if (plan_lay_out(&p, (uint32_t)chunk_count, slots) > PLAN_POOL_BYTES_MAX)
		return REFUSE("%" PRIu64 " chunks would make a pool of %" PRIu64
			      " bytes; the limit is 256 GiB: export several pools",
			      chunk_count, p.pool_bytes);
	*out = p;
	return 0;
}

#undef REFUSE

/* Is there room for what the largest value is said to need? */
static int plan_values_valid(const struct plan *p)
{
	if (p->part_count_max == 0)
		return p->value_bytes_max <= whole_value_bytes(p);
	return p->value_bytes_max <= PLAN_VALUE_BYTES_LIMIT && heads_fit(p, p->value_bytes_max) &&
	       p->part_count_max == plan_cut(p, p->value_bytes_max).part_count &&
	       p->part_count_max < p->chunk_count;
}

int plan_valid(const struct plan *p, char *error_text, size_t error_bytes)
{
	struct plan again = *p;
	const char *wrong = NULL;

	if (p->group_objects < 2 || p->group_objects > LAYOUT_GROUP_OBJECTS_MAX)
		wrong = "group_objects";
	else if (p->slot_words < 1 || p->slot_words > 2)
		wrong = "slot_words";
	else if (p->cn_max < 1 || p->cn_max > LAYOUT_CN_MAX)
		wrong = "cn_max";
	else if (p->chunk_count < 2 || p->chunk_count > LAYOUT_CHUNK_COUNT_MAX)
		wrong = "chunk_count";
	else if (p->chunk_bytes % 64 != 0 || p->chunk_bytes < 64 || p->chunk_bytes > (64u << 20))
		wrong = "chunk_bytes";
	else if ((uint64_t)p->group_objects * (OBJECT_BYTES_LEAST + TWIM_BYTES) > p->chunk_bytes)
		wrong = "group_objects"; /* a TWIM would reach beyond its chunk */
	else if (plan_expected_objects(p) < 2)
		wrong = "object_bytes";
	else if (!plan_values_valid(p))
		wrong = "value_bytes_max";
	else if (p->bucket_count < 1 || p->bucket_count > (1u << 31))
		wrong = "bucket_count";
	else if (p->policy[sizeof(p->policy) - 1] != 0)
		wrong = "policy";
	if (!wrong) {
		/* Everything else follows from these; recompute it and compare the whole. */
		double slots = (double)p->bucket_count * LAYOUT_BUCKET_SLOTS /
			       ((double)p->chunk_count * plan_expected_objects(p));

		plan_lay_out(&again, p->chunk_count, slots);
		if (again.bucket_count != p->bucket_count) {
			/* The quotient rounds; lay out from a hair less. */
			slots = ((double)p->bucket_count - 0.5) * LAYOUT_BUCKET_SLOTS /
				((double)p->chunk_count * plan_expected_objects(p));
			plan_lay_out(&again, p->chunk_count, slots);
		}
		if (memcmp(&again, p, sizeof(again)) != 0)
			wrong = "a count or an offset that follows from the others";
		else if (p->pool_bytes > PLAN_POOL_BYTES_MAX)
			wrong = "pool_bytes"; /* a pointer would not reach the last chunk */
	}
	if (!wrong)
		return 0;
	snprintf(error_text, error_bytes, "the plan contradicts itself in %s", wrong);
	return FORGE_E_CORRUPT;
}

uint64_t plan_metadata_bytes(const struct plan *p)
{
	return p->chunks_offset + plan_capacity_objects(p) * TWIM_BYTES + LAYOUT_PAD_BYTES;
}

uint64_t plan_capacity_objects(const struct plan *p)
{
	return (uint64_t)p->chunk_count * plan_expected_objects(p);
}

int plan_print(const struct plan *p, char *text, size_t text_bytes)
{
	uint32_t stored = (uint32_t)plan_expected_bytes(p);
	uint64_t objects = plan_capacity_objects(p);

	return snprintf(
	    text, text_bytes,
	    "pool                %" PRIu64 " bytes\n"
	    "policy              %s\n"
	    "chunks              %u of %u bytes\n"
	    "group               %u objects of %u bytes expected (%u stored), at most %u objects\n"
	    "fill factor         %.1f %% of a chunk, full of expected objects\n"
	    "effective capacity  %" PRIu64 " objects, %" PRIu64 " bytes of keys and values\n"
	    "metadata            %" PRIu64 " bytes, %.1f %% of the pool\n"
	    "index               %u buckets of %u bytes, %.2f slots an object\n"
	    "largest value       %u bytes, in at most %u chunks\n"
	    "rings               3 of %u nodes\n"
	    "hot words           %" PRIu64 " bytes: cursors and 2 x %u OFM rows of %u bytes\n"
	    "eviction window     %u groups\n"
	    "compute nodes       at most %u\n",
	    p->pool_bytes, p->policy, p->chunk_count, p->chunk_bytes, plan_expected_objects(p),
	    p->object_bytes, stored, p->group_objects, 100 * plan_fill_factor(p), objects,
	    objects * p->object_bytes, plan_metadata_bytes(p),
	    100.0 * (double)plan_metadata_bytes(p) / (double)p->pool_bytes, p->bucket_count,
	    p->bucket_bytes,
	    (double)plan_slot_count(p) / ((double)p->chunk_count * plan_expected_objects(p)),
	    p->value_bytes_max, p->part_count_max + 1, p->ring_nodes,
	    (uint64_t)LAYOUT_CURSORS_BYTES + 2 * (uint64_t)p->ofm_rows * p->ofm_row_bytes,
	    p->ofm_rows, p->ofm_row_bytes, p->window_groups, p->cn_max);
}
