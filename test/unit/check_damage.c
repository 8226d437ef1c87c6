/*
 * check_damage.c: for each rule of the checker there is a damage to a pool the cache worked on,
 * with both policies, that violates it and nothing else.  Exactly it is reported; the options
 * that permit it do; and beside traffic it is reported only if nobody repairs it meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pool/object.h"
#include "support/checked.h"

static const char *const policies[] = {"forge", "forge-paper"};

static const struct check_options options_crashed = {.crashed = 1};
static const struct check_options options_live = {.live = 1};
static const struct check_options options_dead = {.dead_cns = {1}};
static const struct check_options options_uncounted = {.uncounted = 1};
static const struct check_options options_dead_crashed = {.dead_cns = {1}, .crashed = 1};

static void flip(void *p, unsigned byte)
{
	((uint8_t *)p)[byte] ^= 1;
}

static void damage_pool_id(struct rig *r)
{
	flip(word_at(r, 24), 3);
}

static void damage_plan(struct rig *r)
{
	flip(word_at(r, 48), 20);
}

static void damage_magic(struct rig *r)
{
	flip(word_at(r, 0), 0);
}

static void damage_line_pid(struct rig *r)
{
	*word_at(r, plan_registry_address(&r->pool.plan, 1)) = registry_pack(REGISTRY_FREE, 0, 9);
}

static void damage_line_zero(struct rig *r)
{
	*word_at(r, plan_registry_address(&r->pool.plan, 0) + 56) = 1;
}

static void damage_flushed(struct rig *r)
{
	*word_at(r, plan_registry_address(&r->pool.plan, 0) + 24) =
	    cursors_of(r)->ring[RING_MAIN].tail + 1;
}

static void damage_open_position(struct rig *r)
{
	*chunk_word_of(r, chunk_in(r, CHUNK_OPEN, 0)) |= 5;
}

static void damage_reserved_state(struct rig *r)
{
	*chunk_word_of(r, reserve_chunk(r)) |= UINT64_C(7) << 60;
}

static void damage_owner_free(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, chunk_in(r, CHUNK_OPEN, 0));

	*word = chunk_pack_open(1, chunk_generation(*word));
}

static void damage_owner_range(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, chunk_in(r, CHUNK_OPEN, 0));

	*word = chunk_pack_open(200, chunk_generation(*word));
}

/* Only one chunk stays in the hands of the node that the options call dead. */
static void damage_owner_dead(struct rig *r)
{
	assert_int_equal(cache_drain(&r->cache), 0);
	reserve_chunk(r);
}

static void damage_claimed(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, chunk_in(r, CHUNK_QUEUED, 1));

	*word = chunk_pack_evicting(0, chunk_ring(*word), chunk_generation(*word),
				    chunk_position(*word));
}

static void damage_position(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, chunk_in(r, CHUNK_QUEUED, 1));

	*word = chunk_pack_queued(chunk_ring(*word), chunk_generation(*word),
				  cursors_of(r)->ring[chunk_ring(*word)].tail + 3);
}

static void damage_shared(struct rig *r)
{
	uint64_t a = *chunk_word_of(r, chunk_in(r, CHUNK_QUEUED, 0));
	uint64_t *b = chunk_word_of(r, chunk_in(r, CHUNK_QUEUED, 1));

	*b = chunk_pack_evicting(0, chunk_ring(a), chunk_generation(*b), chunk_position(a));
}

static void damage_node_generation(struct rig *r)
{
	uint64_t *node = node_of(r, chunk_in(r, CHUNK_QUEUED, 2));

	*node = node_pack_full(node_cycle(*node), node_chunk(*node),
			       generation_next(node_generation(*node)), node_object_count(*node),
			       node_segment(*node));
}

static void damage_node_chunk(struct rig *r)
{
	uint64_t *node = node_of(r, chunk_in(r, CHUNK_QUEUED, 2));
	uint32_t other = chunk_in(r, CHUNK_QUEUED, 3);

	*node = node_pack_full(node_cycle(*node), other, chunk_generation(*chunk_word_of(r, other)),
			       node_object_count(*node), node_segment(*node));
}

static void damage_transit(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, chunk_in(r, CHUNK_QUEUED, 1));
	uint64_t head = cursors_of(r)->ring[chunk_ring(*word)].head;

	assert_true(head > 0);
	*word = chunk_pack_queued(chunk_ring(*word), chunk_generation(*word), head - 1);
}

static void damage_node_bits(struct rig *r)
{
	uint64_t cycle;

	*node_outside(r, RING_SMALL, &cycle) |= 77;
}

static void damage_node_state(struct rig *r)
{
	uint64_t cycle;

	*node_outside(r, RING_SMALL, &cycle) |= UINT64_C(2) << 62;
}

static void damage_node_objects(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);

	*node = node_pack_full(cycle - 1, 0, 0, OBJECTS + 1, 0);
}

static void damage_node_ahead(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);

	*node = node_pack_empty(cycle + 1);
}

static void damage_node_ahead_full(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);

	*node = node_pack_full(cycle, 0, 0, 1, 0);
}

static void damage_unfilled(struct rig *r)
{
	cursors_of(r)->ring[RING_SMALL].tail++;
}

static void damage_leftover(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);

	*node = node_pack_empty(cycle - 1);
}

static void damage_leftover_full(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);

	*node = node_pack_full(cycle - 1, 0, 0, 1, 0);
}

static void damage_node_newer(struct rig *r)
{
	uint64_t cycle, *node = node_outside(r, RING_SMALL, &cycle);
	uint32_t generation = chunk_generation(*chunk_word_of(r, 0));

	*node = node_pack_full(cycle - 1, 0, generation_next(generation), 1, 0);
}

static void damage_slot_word(struct rig *r)
{
	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) = 5;
}

static void damage_slot_tentative(struct rig *r)
{
	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) =
	    index_pack(3, INDEX_BLOCKS_TENTATIVE, 1, 100);
}

static void damage_slot_pointer(struct rig *r)
{
	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) = index_pack(3, 2, 1, 100);
}

/* Beyond the end of the chunk, although it begins inside. */
static void damage_slot_length(struct rig *r)
{
	uint64_t *word = slot_word(r, live_slot(r, CHUNK_QUEUED));

	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) =
	    index_pack(3, 252, index_tag(*word), index_pointer(*word));
}

static void damage_slot_chunk(struct rig *r)
{
	const struct plan *p = &r->pool.plan;
	uint32_t chunk = reserve_chunk(r);
	struct index_target target = {
	    .units = 5,
	    .generation = chunk_generation(*chunk_word_of(r, chunk)),
	    .address = plan_chunk_address(p, chunk),
	};

	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) = index_word(p, &target);
}

static void damage_queued_value(struct rig *r)
{
	const struct layout_object *h = object_of(r, live_slot(r, CHUNK_QUEUED));

	flip((void *)(uintptr_t)h, LAYOUT_OBJECT_HEADER_BYTES + h->key_bytes + h->value_bytes - 1u);
}

static void damage_open_value(struct rig *r)
{
	const struct layout_object *h = object_of(r, live_slot(r, CHUNK_OPEN));

	flip((void *)(uintptr_t)h, LAYOUT_OBJECT_HEADER_BYTES + h->key_bytes);
}

static void damage_object_length(struct rig *r)
{
	object_of(r, live_slot(r, CHUNK_QUEUED))->value_bytes = 0xffffffff;
}

static void damage_object_generation(struct rig *r)
{
	struct layout_object *h = object_of(r, live_slot(r, CHUNK_QUEUED));

	object_rebind(h, (struct object_place){generation_next(h->generation), h->sn});
}

static void damage_slot_blocks(struct rig *r)
{
	uint64_t *word = slot_word(r, live_slot(r, CHUNK_OPEN));

	*word = index_pack(index_fingerprint(*word), index_blocks(*word) + 1, index_tag(*word),
			   index_pointer(*word));
}

static void damage_slot_fingerprint(struct rig *r)
{
	flip(slot_word(r, live_slot(r, CHUNK_OPEN)), 7);
}

static void damage_slot_far(struct rig *r)
{
	uint64_t slot = live_slot(r, CHUNK_QUEUED);

	*slot_word(r, idle_far(r, slot)) = *slot_word(r, slot);
	*slot_word(r, slot) = 0;
}

static void damage_slot_moved(struct rig *r)
{
	uint64_t slot = live_slot(r, CHUNK_QUEUED);

	*slot_word(r, idle_neighbour(r, slot)) = *slot_word(r, slot);
	*slot_word(r, slot) = 0;
}

static void damage_object_sn(struct rig *r)
{
	struct layout_object *h = object_of(r, live_slot(r, CHUNK_QUEUED));

	object_rebind(h, (struct object_place){h->generation, h->sn ^ 1u});
}

static void damage_duplicate(struct rig *r)
{
	uint64_t slot = live_slot(r, CHUNK_OPEN);

	*slot_word(r, idle_neighbour(r, slot)) = *slot_word(r, slot);
}

/* A member of a queued group that once had a slot, and its TWIM entry; 0: there is none. */
static uint64_t find_dead_member(struct rig *r, uint64_t **entry)
{
	const struct plan *p = &r->pool.plan;

	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		if (chunk_state(*chunk_word_of(r, chunk)) != CHUNK_QUEUED)
			continue;
		uint32_t n = node_object_count(*node_of(r, chunk));
		uint64_t *entries = word_at(r, plan_twim_address(p, chunk, n));
		struct twim_member members[OBJECTS];

		twim_decode(p, chunk, chunk_generation(*chunk_word_of(r, chunk)), entries, n,
			    members);
		for (uint32_t sn = 0; sn < n; sn++)
			if (members[sn].units &&
			    *slot_word(r, members[sn].slot) != members[sn].word) {
				*entry = &entries[plan_twim_index(sn, n)];
				return members[sn].address;
			}
	}
	return 0;
}

static uint64_t dead_member(struct rig *r, uint64_t **entry)
{
	for (uint32_t id = 0; !find_dead_member(r, entry) && id < KEYS; id++) {
		int status = rig_delete(r, id);

		assert_true(status == 0 || status == FORGE_MISS);
	}
	return find_dead_member(r, entry);
}

static void damage_twim_slot(struct rig *r)
{
	uint64_t *entry;

	dead_member(r, &entry);
	*entry = twim_pack(twim_units(*entry), twim_fingerprint(*entry), twim_version(*entry),
			   plan_slot_count(&r->pool.plan));
}

/* The last member's length reaches into the TWIM; nothing lies behind it, and it is dead. */
static void damage_twim_units(struct rig *r)
{
	const struct plan *p = &r->pool.plan;
	uint32_t chunk = chunk_in(r, CHUNK_QUEUED, 0);
	uint32_t n = node_object_count(*node_of(r, chunk));
	uint64_t *last = word_at(r, plan_twim_address(p, chunk, n));
	struct twim_member members[OBJECTS];

	twim_decode(p, chunk, chunk_generation(*chunk_word_of(r, chunk)), last, n, members);
	if (members[n - 1].units && *slot_word(r, members[n - 1].slot) == members[n - 1].word)
		*slot_word(r, members[n - 1].slot) = 0;
	*last = twim_pack(p->chunk_bytes / LAYOUT_UNIT_BYTES, 0, 0, TWIM_SLOT_DEAD);
}

static void damage_dead_object(struct rig *r)
{
	uint64_t *entry;

	flip(word_at(r, dead_member(r, &entry)), LAYOUT_OBJECT_HEADER_BYTES);
}

/* A slot and an object of the next life of a chunk that holds nothing. */
static void damage_slot_newer(struct rig *r)
{
	const struct plan *p = &r->pool.plan;
	uint32_t chunk = reserve_chunk(r);
	struct object_spec spec = {.key = "k", .key_bytes = 1};
	struct index_target target = {
	    .units = layout_object_units(1, 0),
	    .generation = generation_next(chunk_generation(*chunk_word_of(r, chunk))),
	    .address = plan_chunk_address(p, chunk),
	};

	object_build(word_at(r, target.address), &spec,
		     (struct object_place){target.generation, 0});
	*slot_word(r, idle_slot(r, 0, 64, UINT64_MAX)) = index_word(p, &target);
}

static struct layout_stats *stats_of(struct rig *r)
{
	return (void *)word_at(r, plan_stats_address(&r->pool.plan, 0));
}

static void damage_stats_zero(struct rig *r)
{
	stats_of(r)->zero[0] = 1;
}

/* By one more than the one worker of the rig may have kept to itself. */
static void damage_stats_stored(struct rig *r)
{
	assert_int_equal(tally_tell(&r->cache.tally, &r->worker), 0);
	stats_of(r)->count[STATS_stored] += STATS_UNTOLD_MAX;
	assert_clean(r, &check_at_rest);
	stats_of(r)->count[STATS_stored]++;
}

static void damage_stats_left(struct rig *r)
{
	assert_int_equal(tally_tell(&r->cache.tally, &r->worker), 0);
	stats_of(r)->count[STATS_expired] += STATS_UNTOLD_MAX + 1;
}

/* A value of three parts that are all alike. */
static void set_large(struct rig *r)
{
	uint32_t bytes = 3 * r->pool.plan.chunk_bytes;
	void *value = malloc(bytes);

	assert_non_null(value);
	memset(value, 0x5a, bytes);
	assert_int_equal(cache_set(&r->cache, (struct cache_key){"large", 5},
				   &(struct cache_item){.value = value, .bytes = bytes}),
			 0);
	free(value);
}

/* The head of it, and its list; *slot may be NULL. */
static struct layout_object *large_head(const struct rig *r, uint64_t *parts[3])
{
	for (uint64_t slot = 0; slot < plan_slot_count(&r->pool.plan); slot++) {
		uint64_t word = *slot_word(r, slot);

		if (!index_is_head(word) || !is_live(r, word))
			continue;
		struct layout_object *h = object_of(r, slot);
		uint8_t *list = (uint8_t *)(uintptr_t)object_value(h) + LAYOUT_PARTS_BYTES;

		for (unsigned i = 0; i < 3; i++)
			parts[i] = (uint64_t *)(void *)(list + LAYOUT_PART_BYTES * i);
		return h;
	}
	fail_msg("there is no head");
	return NULL;
}

static uint32_t large_part(const struct rig *r, unsigned i)
{
	uint64_t *parts[3], part;

	large_head(r, parts);
	memcpy(&part, parts[i], sizeof(part));
	return part_chunk(part);
}

static void seal_again(struct layout_object *h)
{
	object_rebind(h, (struct object_place){h->generation, h->sn});
}

static void damage_part_list(struct rig *r)
{
	uint64_t *parts[3];
	struct layout_object *h = large_head(r, parts);

	/* One byte more than three parts hold. */
	flip((uint8_t *)parts[0] - LAYOUT_PARTS_BYTES, 0);
	seal_again(h);
}

static void damage_part_chunk(struct rig *r)
{
	uint64_t *word = chunk_word_of(r, large_part(r, 1));

	*word = chunk_pack_reserved(0, chunk_generation(*word));
}

static void damage_part_shared(struct rig *r)
{
	uint64_t *parts[3];
	struct layout_object *h = large_head(r, parts);

	memcpy(parts[1], parts[2], sizeof(*parts[1]));
	seal_again(h);
}

static void damage_part_value(struct rig *r)
{
	flip(word_at(r, plan_chunk_address(&r->pool.plan, large_part(r, 2))), 7);
}

static void damage_part_unlisted(struct rig *r)
{
	uint32_t chunk = reserve_chunk(r);
	uint64_t *word = chunk_word_of(r, chunk);

	*word = chunk_pack_part(chunk_generation(*word), 3);
}

static const struct damage {
	const char *name;
	void (*damage)(struct rig *);
	enum check_rule rule;
	const struct check_options *options;   /* NULL: at rest */
	const struct check_options *tolerated; /* with these it is no violation */
} damages[] = {
    {"pool id", damage_pool_id, CHECK_SUPERBLOCK, NULL, NULL},
    {"plan", damage_plan, CHECK_SUPERBLOCK, NULL, NULL},
    {"magic", damage_magic, CHECK_SUPERBLOCK, NULL, NULL},
    {"pid of a free line", damage_line_pid, CHECK_REGISTRY_LINE, NULL, NULL},
    {"spare word of a line", damage_line_zero, CHECK_REGISTRY_LINE, NULL, NULL},
    {"flushed beyond tail", damage_flushed, CHECK_REGISTRY_FLUSHED, NULL, NULL},
    {"position of an open chunk", damage_open_position, CHECK_CHUNK_WORD, NULL, NULL},
    {"unknown state", damage_reserved_state, CHECK_CHUNK_WORD, NULL, NULL},
    {"owner not attached", damage_owner_free, CHECK_CHUNK_OWNER, NULL, NULL},
    {"owner beyond cn_max", damage_owner_range, CHECK_CHUNK_OWNER, NULL, NULL},
    {"owner dead", damage_owner_dead, CHECK_CHUNK_OWNER, &options_dead, &options_dead_crashed},
    {"claim left", damage_claimed, CHECK_CHUNK_CLAIMED, NULL, &options_crashed},
    {"position beyond tail", damage_position, CHECK_CHUNK_POSITION, NULL, NULL},
    {"position twice", damage_shared, CHECK_CHUNK_SHARED, &options_crashed, NULL},
    {"node of another life", damage_node_generation, CHECK_CHUNK_NODE, NULL, NULL},
    {"node of another chunk", damage_node_chunk, CHECK_CHUNK_NODE, NULL, NULL},
    {"below head", damage_transit, CHECK_CHUNK_TRANSIT, NULL, &options_crashed},
    {"bits in an EMPTY node", damage_node_bits, CHECK_NODE_WORD, NULL, NULL},
    {"unknown node state", damage_node_state, CHECK_NODE_WORD, NULL, NULL},
    {"group too large", damage_node_objects, CHECK_NODE_WORD, NULL, NULL},
    {"EMPTY node ahead", damage_node_ahead, CHECK_NODE_CYCLE, NULL, NULL},
    {"FULL node ahead", damage_node_ahead_full, CHECK_NODE_CYCLE, NULL, NULL},
    {"ticket without node", damage_unfilled, CHECK_NODE_UNFILLED, NULL, &options_live},
    {"EMPTY node behind", damage_leftover, CHECK_NODE_LEFTOVER, NULL, &options_live},
    {"FULL node behind", damage_leftover_full, CHECK_NODE_LEFTOVER, NULL, &options_crashed},
    {"node newer than its chunk", damage_node_newer, CHECK_NODE_NEWER, NULL, NULL},
    {"bits in an empty slot", damage_slot_word, CHECK_SLOT_WORD, NULL, NULL},
    {"tentative", damage_slot_tentative, CHECK_SLOT_TENTATIVE, NULL, &options_live},
    {"pointer to metadata", damage_slot_pointer, CHECK_SLOT_POINTER, NULL, NULL},
    {"length beyond the chunk", damage_slot_length, CHECK_SLOT_POINTER, NULL, NULL},
    {"slot newer than its chunk", damage_slot_newer, CHECK_SLOT_NEWER, NULL, NULL},
    {"slot into a reserved chunk", damage_slot_chunk, CHECK_SLOT_CHUNK, NULL, NULL},
    {"value of a sealed object", damage_queued_value, CHECK_SLOT_OBJECT, NULL, NULL},
    {"value of an object in an open group", damage_open_value, CHECK_SLOT_OBJECT, NULL, NULL},
    {"absurd length", damage_object_length, CHECK_SLOT_OBJECT, NULL, NULL},
    {"object's generation", damage_object_generation, CHECK_SLOT_OBJECT, NULL, NULL},
    {"length in the slot", damage_slot_blocks, CHECK_SLOT_OBJECT, NULL, NULL},
    {"fingerprint in the slot", damage_slot_fingerprint, CHECK_SLOT_KEY, NULL, NULL},
    {"slot far from home", damage_slot_far, CHECK_SLOT_KEY, NULL, NULL},
    {"slot beside its TWIM's", damage_slot_moved, CHECK_SLOT_TWIM, NULL, NULL},
    {"object's SN", damage_object_sn, CHECK_OBJECT_SN, NULL, NULL},
    {"two slots", damage_duplicate, CHECK_OBJECT_DUPLICATE, NULL, &options_crashed},
    {"TWIM slot", damage_twim_slot, CHECK_TWIM_ENTRY, NULL, NULL},
    {"TWIM length", damage_twim_units, CHECK_TWIM_ENTRY, NULL, NULL},
    {"dead object", damage_dead_object, CHECK_TWIM_OBJECT, NULL, NULL},
    {"list of parts", damage_part_list, CHECK_PART_LIST, &options_crashed, NULL},
    {"part that is none", damage_part_chunk, CHECK_PART_CHUNK, NULL, &options_crashed},
    {"part listed twice", damage_part_shared, CHECK_PART_SHARED, &options_crashed, NULL},
    {"byte of a part", damage_part_value, CHECK_PART_VALUE, NULL, NULL},
    {"part of nothing", damage_part_unlisted, CHECK_PART_UNLISTED, NULL, &options_live},
    {"bits behind the counters", damage_stats_zero, CHECK_STATS_LINE, NULL, NULL},
    {"counted too much", damage_stats_stored, CHECK_STATS_SUM, NULL, &options_uncounted},
    {"counted too little", damage_stats_left, CHECK_STATS_SUM, NULL, &options_uncounted},
};

/* Those need a pool of their own making, or several (test/system/nodes.py). */
static const enum check_rule elsewhere[] = {
    CHECK_CURSORS_ORDER,   CHECK_CURSORS_SPAN, CHECK_SPREAD_RECORD,   CHECK_SPREAD_OWNED,
    CHECK_CHUNK_RESIDENTS, CHECK_SLOT_ALIASES, CHECK_CHUNK_GENERATION};

/* Traffic that mends the pool whenever the checker lets others run. */
struct mended {
	struct rig *rig;
	void *good;
};

static void mend(struct worker *w)
{
	const struct mended *m = w->wait_context;

	memcpy(m->rig->memory, m->good, m->rig->pool.plan.pool_bytes);
}

static const struct run_wait wait_mending = {.pause = mend};

static void assert_unstable(struct rig *r, const struct check_options *live, void *good)
{
	struct mended mended = {r, good};

	r->worker.wait = &wait_mending;
	r->worker.wait_context = &mended;
	assert_true(assert_clean(r, live).unstable > 0);
	r->worker.wait = &run_wait_poll;
}

/* Rules that are decided by what cannot change, or by READing at once again. */
static int decided_at_once(enum check_rule rule)
{
	return rule == CHECK_CHUNK_SHARED || rule == CHECK_PART_SHARED ||
	       rule == CHECK_TWIM_ENTRY || rule == CHECK_TWIM_OBJECT || rule == CHECK_STATS_SUM;
}

static void test_damages(void **state)
{
	int covered[CHECK_RULE_COUNT] = {0};

	for (unsigned i = 0; i < 2 * ARRAY_COUNT(damages); i++) {
		const struct damage *d = &damages[i / 2];
		const struct check_options *options = d->options ? d->options : &check_at_rest;
		/* A damage that nobody repairs is one beside traffic, too, if no tolerance says so.
		 */
		struct check_options live = *options;
		struct rig r;

		rig_open_worked(&r, policies[i % 2]);
		set_large(&r);
		/* The large one may have sealed the last open group. */
		for (uint32_t id = KEYS; !r.lane.filling_count[RING_SMALL]; id++)
			assert_int_equal(rig_set(&r, id, 1, 4), 0);
		assert_clean(&r, &check_at_rest);
		void *good = malloc(r.pool.plan.pool_bytes);

		assert_non_null(good);
		memcpy(good, r.memory, r.pool.plan.pool_bytes);
		print_message("%s: %s\n", policies[i % 2], d->name);
		d->damage(&r);
		assert_found(&r, options, d->rule);
		live.live = 1;
		if (d->tolerated)
			assert_clean(&r, d->tolerated);
		else
			assert_found(&r, &live, d->rule);
		if (!d->tolerated && !decided_at_once(d->rule))
			assert_unstable(&r, &live, good);
		free(good);
		covered[d->rule] = 1;
		rig_kill(&r);
	}
	for (unsigned i = 0; i < ARRAY_COUNT(elsewhere); i++)
		covered[elsewhere[i]] = 1;
	for (unsigned rule = 0; rule < CHECK_RULE_COUNT; rule++)
		if (!covered[rule])
			fail_msg("no damage violates %s", check_rule_name(rule));
}

static void test_cursors(void **state)
{
	struct rig r;

	rig_open(&r, "forge", CHUNKS, OBJECTS);
	const struct plan *p = &r.pool.plan;

	cursors_of(&r)->ring[RING_SMALL].head = p->ring_nodes + 1;
	assert_found(&r, &check_at_rest, CHECK_CURSORS_ORDER);
	cursors_of(&r)->ring[RING_SMALL].head = 0;
	assert_clean(&r, &check_at_rest);
	/* A ring with more tickets than nodes, every node filled by the last of them. */
	for (uint64_t position = 0; position <= p->ring_nodes; position++)
		*word_at(&r, plan_ring_node_address(p, RING_MAIN, position)) =
		    node_pack_full(plan_ring_cycle(p, position), 0, 0, 1, 0);
	cursors_of(&r)->ring[RING_MAIN].tail = p->ring_nodes + 1;
	assert_found(&r, &check_at_rest, CHECK_CURSORS_SPAN);
	cursors_of(&r)->ring[RING_MAIN].head = 1;
	assert_int_equal(assert_clean(&r, &check_at_rest).nodes_stale, p->ring_nodes);
	rig_kill(&r);
}

/* In a pool nobody used a chunk cannot be in its second life, let alone in one before the first. */
static void test_generation(void **state)
{
	static const uint32_t generations[] = {0, LAYOUT_GENERATION_COUNT - 1, CHUNKS + 2};

	for (unsigned i = 0; i < ARRAY_COUNT(generations); i++) {
		struct rig r;

		rig_open(&r, "forge", CHUNKS, OBJECTS);
		assert_clean(&r, &check_at_rest);
		*chunk_word_of(&r, 3) = chunk_pack_free(generations[i], 3);
		assert_found(&r, &check_at_rest, CHECK_CHUNK_GENERATION);
		rig_kill(&r);
	}
}

/* One live object more than a group may have, each of them flawless. */
static void test_residents(void **state)
{
	struct rig r;
	uint64_t at;

	rig_open(&r, "forge", CHUNKS, OBJECTS);
	const struct plan *p = &r.pool.plan;
	uint32_t generation = chunk_generation(*chunk_word_of(&r, 0));

	*chunk_word_of(&r, 0) = chunk_pack_open(0, generation);
	at = plan_chunk_address(p, 0);
	for (uint32_t i = 0; i <= OBJECTS; i++) {
		struct object_spec spec = {.key = &i, .key_bytes = 4};
		struct index_home home = index_locate(p, &i, 4);
		struct index_target target = {
		    .fingerprint = home.fingerprint,
		    .units = layout_object_units(4, 0),
		    .generation = generation,
		    .address = at,
		};

		if (i == OBJECTS)
			assert_int_equal(assert_clean(&r, &check_at_rest).slots_live, OBJECTS);
		object_build(word_at(&r, at), &spec,
			     (struct object_place){generation, i % OBJECTS});
		*slot_word(&r, idle_slot(&r, index_slot_number(&home, 0), LAYOUT_NEIGHBOURHOOD,
					 UINT64_MAX)) = index_word(p, &target);
		at += (uint64_t)target.units * LAYOUT_UNIT_BYTES;
	}
	assert_found(&r, &check_at_rest, CHECK_CHUNK_RESIDENTS);
	rig_kill(&r);
}

/* Slots that look live by accident: findings first, then counted, then too many. */
static void test_aliases(void **state)
{
	struct rig r;

	rig_open(&r, "forge-paper", CHUNKS, OBJECTS);
	const struct plan *p = &r.pool.plan;
	struct index_target target = {
	    .units = 5, .generation = 1, .address = plan_chunk_address(p, 3)};
	uint64_t limit = 2 * (OBJECTS + plan_slot_count(p) / index_generation_range(p)), slot = 0;

	*slot_word(&r, slot++) = index_word(p, &target);
	assert_found(&r, &check_at_rest, CHECK_SLOT_CHUNK);
	/* Pretend that the main ring has turned often. */
	uint64_t cycle = LAYOUT_GENERATION_COUNT / p->ring_nodes;

	for (uint32_t i = 0; i < p->ring_nodes; i++)
		*word_at(&r, plan_ring_node_address(p, RING_MAIN, i)) = node_pack_empty(cycle);
	cursors_of(&r)->ring[RING_MAIN].head = cursors_of(&r)->ring[RING_MAIN].tail =
	    LAYOUT_GENERATION_COUNT;
	while (slot < limit)
		*slot_word(&r, slot++) = index_word(p, &target);
	assert_int_equal(assert_clean(&r, &check_at_rest).slots_aliased, limit);
	*slot_word(&r, slot) = index_word(p, &target);
	assert_found(&r, &check_at_rest, CHECK_SLOT_ALIASES);
	rig_kill(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_damages),    cmocka_unit_test(test_cursors),
	    cmocka_unit_test(test_generation), cmocka_unit_test(test_residents),
	    cmocka_unit_test(test_aliases),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
