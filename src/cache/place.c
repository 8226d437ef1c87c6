/*
 * place.c: finding room for an object in this lane's open groups, and posting it.
 *
 * The object is WRITTEN in one batch with the CAS of its slot, before it.  It could travel with
 * the first READ of the index, but a batch is ordered, so it costs no round trip here, and the
 * place can depend on what the index said: a ghost sends the object to a group bound for main.
 */
#include "cache/place.h"

#include <string.h>

#include "cache/evict.h"
#include "cache/large.h"

/*
 * Pauses in which others may refill the lane, or land what they have in groups that are closing.
 * Both have bounds of their own; this one is far beyond them.
 */
#define PLACE_PAUSES_MAX (1u << 20)

/* A place in a group bound for a ring.  0, or FORGE_E_AGAIN when none has room. */
static int take(struct cache *c, uint32_t stream, uint32_t units, struct lane_place *place)
{
	struct open_group *g = lane_fit(c->lane, stream, units);

	if (!g)
		return FORGE_E_AGAIN;
	*place = open_group_take(&c->cn->pool->plan, g, units);
	return 0;
}

/*
 * No chunk is to be had: each is in somebody's hand, and some may be in ours, as groups bound for
 * the other ring, which fills slowly.  Put the object there, or seal one of ours, so that it can
 * be evicted; otherwise a few workers on a small pool would keep all chunks open for ever.
 *
 * Where threads are many for the chunks this is the usual case, and a lane that waited as long as
 * for damaged rings would stand still for what a thread holds that has nothing to do.  So who has
 * room in another group, or a group to seal that is as good as full, waits for a few looks only.
 */
static int has_other_way(const struct lane *lane, uint32_t stream, uint32_t units)
{
	for (uint32_t i = 1; i < LANE_STREAMS; i++) {
		uint32_t other = (stream + i) % LANE_STREAMS;

		if (lane_fit(lane, other, units) || lane_is_crowded(lane, other))
			return 1;
	}
	return 0;
}

/* The stream with a group to seal: one that is as good as full, or any; LANE_STREAMS: none. */
static uint32_t sealable(const struct lane *lane, uint32_t stream)
{
	uint32_t any = LANE_STREAMS;

	for (uint32_t i = 1; i <= LANE_STREAMS; i++) {
		uint32_t other = (stream + i) % LANE_STREAMS;

		if (lane_is_crowded(lane, other))
			return other;
		if (any == LANE_STREAMS && lane->filling_count[other] > 0)
			any = other;
	}
	return any;
}

static MAY_WAIT int find_room_elsewhere(struct cache *c, uint32_t stream, uint32_t units,
					struct lane_place *place)
{
	struct lane *lane = c->lane;

	/* The stream itself last. */
	for (uint32_t i = 1; i <= LANE_STREAMS; i++)
		if (take(c, (stream + i) % LANE_STREAMS, units, place) == 0)
			return 0;
	uint32_t other = sealable(lane, stream);

	if (other == LANE_STREAMS)
		return FORGE_E_NO_SPACE;
	int status = cache_close_group(c, other);

	return status ? status : FORGE_E_AGAIN;
}

/* Close, reserve and open, until a group of the stream has room; FORGE_E_AGAIN: go on. */
static MAY_WAIT int refill(struct cache *c, uint32_t stream, uint32_t units,
			   struct lane_place *place)
{
	struct lane *lane = c->lane;
	int status = cache_make_way(c, stream), other_way = 0;

	if (!status) {
		other_way = has_other_way(lane, stream, units);
		status = cache_reserve(c, other_way);
	}
	if (!status && lane_may_open(lane, stream, units))
		status = lane_open(lane, c->worker, stream);
	if (status != FORGE_E_NO_SPACE)
		return status ? status : take(c, stream, units, place);
	status = find_room_elsewhere(c, stream, units, place);
	/* Fibers of this lane may have used the other way up. */
	return status == FORGE_E_NO_SPACE && other_way ? FORGE_E_AGAIN : status;
}

/*
 * Room in a group of a stream.  Whoever finds none refills the lane, unless another fiber of
 * it is at it: then it waits for that one.
 */
static MAY_WAIT int find_room(struct cache *c, uint32_t stream, uint32_t units,
			      struct lane_place *place)
{
	struct lane *lane = c->lane;

	for (unsigned pauses = 0; pauses < PLACE_PAUSES_MAX; pauses++) {
		int status = take(c, stream, units, place);

		if (status == FORGE_E_AGAIN && cache_is_late(c))
			status = FORGE_E_DEADLINE;
		if (status == FORGE_E_AGAIN && !lane->refilling) {
			lane->refilling = 1;
			status = refill(c, stream, units, place);
			lane->refilling = 0;
		}
		if (status != FORGE_E_AGAIN)
			return status;
		flow_pause(c->worker);
	}
	return FORGE_E_NO_SPACE;
}

int place_units(const struct plan *p, uint32_t key_bytes, uint64_t value_bytes, uint32_t *units)
{
	if (plan_is_whole(p, key_bytes, value_bytes))
		*units = layout_object_units(key_bytes, (uint32_t)value_bytes);
	else if (p->part_count_max > 0 && value_bytes <= p->value_bytes_max)
		*units =
		    layout_object_units(key_bytes, parts_stored_bytes(plan_cut(p, value_bytes)));
	else
		return FORGE_E_VALUE_LARGE;
	return 0;
}

/* Updated so soon that its group is still open: what the group says, if it is one of ours. */
static void ask_own_group(const struct cache *c, const struct look *l, struct policy_hint *hint)
{
	const struct open_group *g = lane_find(c->lane, l->old_chunk, l->old_generation);

	if (!g || l->old_sn >= g->object_count)
		return;
	hint->old_ring = (uint8_t)g->ring;
	hint->old_count = g->carried[l->old_sn];
}

/* Where the policy wants the object. */
static void ask_policy(struct cache *c, struct placing *p)
{
	const struct cn *cn = c->cn;
	const struct look *l = &p->look;
	struct policy_hint hint = {
	    .ghost = cn->policy->keeps_ghosts && l->ghost,
	    .update = l->match != 0,
	};
	uint64_t seen = hint.update ? cn_map(cn, l->old_chunk) : 0;

	if (hint.update) {
		int in_main = chunk_state(seen) == CHUNK_QUEUED && chunk_ring(seen) == RING_MAIN;

		if (l->old_sn < cn->pool->plan.group_objects)
			hint.old_count = cn_count(cn, l->old_chunk, l->old_sn);
		hint.old_ring = in_main ? RING_MAIN : RING_SMALL;
		if (chunk_state(seen) == CHUNK_OPEN)
			ask_own_group(c, l, &hint);
	}
	c->count.ghost_hits += hint.ghost && !hint.update;
	p->policy = cn->policy->place(&hint);
	p->stream = p->policy.ring;
	if (hint.update && p->policy.ring == RING_MAIN)
		p->stream = compact_stream(c, seen);
}

/*
 * A value larger than a chunk: *stored receives what the head has for a value.  The same value with
 * another expiry or other flags keeps its parts: the match, which the head replaces in its slot,
 * lists them.
 */
static MAY_WAIT int place_parts(struct cache *c, struct placing *p, const struct cache_item *item,
				struct cache_item *stored)
{
	const struct plan *plan = &c->cn->pool->plan;
	const struct layout_object *h = object_header(c->fetched);

	p->keeps_parts = p->same_bytes && p->look.match && h->part_count > 0;
	p->part_count = plan_cut(plan, item->bytes).part_count;
	stored->value = c->large.stored;
	if (!p->keeps_parts)
		return large_prepare(c, item->value, item->bytes, &stored->bytes);
	memcpy(c->large.stored, object_value(c->fetched), h->value_bytes);
	stored->bytes = h->value_bytes;
	return large_abandon(c);
}

int place_object(struct cache *c, struct placing *p, uint32_t units, const struct cache_item *item,
		 uint64_t cas_id)
{
	struct cache_item stored = *item;
	int status = 0;

	if (p->placed && p->units != units)
		status = place_land(c, p);
	p->part_count = p->keeps_parts = 0;
	/* First, because an object that has a place keeps its group from being sealed. */
	if (!status && unlikely(!plan_is_whole(&c->cn->pool->plan, p->key.bytes, item->bytes)))
		status = place_parts(c, p, item, &stored);
	if (!status && !p->placed) {
		ask_policy(c, p);
		p->units = units;
		status = find_room(c, p->stream, units, &p->place);
	}
	if (status)
		return status;
	cache_look_ahead(c, p->place.group);
	struct object_spec spec = {
	    .key = p->key.data,
	    .key_bytes = p->key.bytes,
	    .value = stored.value,
	    .value_bytes = stored.bytes,
	    .part_count = p->part_count,
	    .origin = p->is_set && p->look.match ? OBJECT_ORIGIN_OVERWROTE : OBJECT_ORIGIN_ANY,
	    .flags = item->flags,
	    .marks = item->marks,
	    .expiry_ms = item->expiry_ms,
	    .flush_generation = look_stamp(c, &p->look),
	    .cas_id = cas_id ? cas_id : cn_next_cas_id(c->cn),
	};

	object_build(c->object, &spec,
		     (struct object_place){p->place.group->generation, p->place.sn});
	p->placed = 1;
	p->written = 0;
	return 0;
}

uint64_t place_word(const struct cache *c, const struct placing *p, uint64_t old)
{
	const struct plan *plan = &c->cn->pool->plan;
	struct index_target target = {
	    .fingerprint = p->look.home.fingerprint,
	    .units = p->units,
	    .generation = p->place.group->generation,
	    .version = index_word_version(plan, old) + 1,
	    .is_head = p->part_count != 0,
	    .address = p->place.address,
	};

	return index_word(plan, &target);
}

int place_swing(struct cache *c, struct placing *p, unsigned slot, uint64_t old, uint64_t word,
		int reread, int *won)
{
	const struct plan *plan = &c->cn->pool->plan;
	uint64_t slot_address = plan_slot_address(plan, index_slot_number(&p->look.home, slot));
	struct parts_list parts;
	struct fab_op ops[3];
	unsigned n = 0, cas;
	int status = large_note_old(c, old, &parts);

	if (status)
		return status;
	if (!p->written)
		ops[n++] =
		    fab_write(FAB_DATA, p->place.address, c->object, p->units * LAYOUT_UNIT_BYTES);
	cas = n;
	ops[n++] = fab_cas(FAB_INDEX, slot_address, old, word);
	if (unlikely(!pool_rule(c->cn->pool, RULE_SLOT_CAS_EXACT)))
		ops[cas] = fab_write(FAB_INDEX, slot_address, &word, 8);
	if (reread)
		ops[n++] = fab_read(FAB_INDEX, plan_bucket_address(plan, p->look.home.bucket),
				    p->look.view.words, index_view_bytes(plan));
	status = flow_run(c->worker, ops, n);
	p->written |= !status;
	*won = ops[cas].code == FAB_WRITE ? !status : fab_cas_won(&ops[cas]);
	p->met = ops[cas].old;
	c->count.sets_restarted += !*won;
	if (*won)
		tally_swap(&c->tally, old, word,
			   p->look.match >> slot & 1 ? STATS_replaced
						     : look_left(&p->look, slot, STATS_evicted));
	if (status || p->keeps_parts || (!*won && pool_rule(c->cn->pool, RULE_PARTS_WINNER_FREES)))
		return status;
	return large_free_old(c, &parts, index_slot_number(&p->look.home, slot), FAB_SPACE);
}

int place_record(struct cache *c, struct placing *p, unsigned slot, uint64_t word)
{
	const struct plan *plan = &c->cn->pool->plan;
	uint64_t number = index_slot_number(&p->look.home, slot);
	uint32_t version = index_word_version(plan, word);

	p->linked = 1;
	open_group_record(p->place,
			  twim_pack(p->units, p->look.home.fingerprint, version, number) |
			      (p->part_count ? TWIM_HEAD : 0),
			  p->policy.carried);
	p->place.group->part_count += p->part_count;
	int status = 0;

	if (unlikely(p->part_count) || !pool_rule(c->cn->pool, RULE_PARTS_OF_A_HEAD)) {
		assert(c->large.count == (p->keeps_parts ? 0 : p->part_count) ||
		       !pool_rule(c->cn->pool, RULE_PARTS_OF_A_HEAD));
		status = large_link(c, number, word);
	}
	if (status || plan->slot_words == 1)
		return status;
	/*
	 * Nobody waits for the group word: until it lands its version differs from the index
	 * word's and hits go uncounted; if it is lost that stays so.
	 */
	uint64_t group =
	    group_pack(p->place.group->chunk, p->place.sn, p->place.group->generation, version);
	struct fab_op op = fab_write(FAB_INDEX, plan_slot_address(plan, number) + 8, &group, 8);

	op.flags |= FAB_DETACHED;
	return flow_run(c->worker, &op, 1);
}

int place_over_match(struct cache *c, struct placing *p)
{
	struct look *l = &p->look;
	unsigned slot = lowest_slot(l->match);
	uint64_t old = look_word(c, l, slot), word = place_word(c, p, old);
	int won;
	int status = place_swing(c, p, slot, old, word, 0, &won);

	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	status = place_record(c, p, slot, word);
	return status ? status : cache_note_dead(c, l->old_chunk, l->old_generation, l->old_sn);
}

int place_finalise(struct cache *c, const struct placing *p, unsigned slot, uint64_t tentative,
		   uint64_t word, int *won)
{
	uint64_t number = index_slot_number(&p->look.home, slot);
	struct fab_op op =
	    fab_cas(FAB_INDEX, plan_slot_address(&c->cn->pool->plan, number), tentative, word);
	int status = flow_run(c->worker, &op, 1);

	*won = fab_cas_won(&op);
	if (*won)
		tally_swap(&c->tally, tentative, word, STATS_evicted);
	return status;
}

int place_land(struct cache *c, struct placing *p)
{
	struct open_group *g = p->place.group;
	/* Those that no head was linked to. */
	int status = large_abandon(c), landed;

	if (!p->placed)
		return status;
	p->placed = p->written = 0;
	landed = lane_land(c->lane, c->worker, g, c->twim);
	if (!status && !landed && p->part_count)
		landed = cache_close_heavy(c, g);
	return status ? status : landed;
}
