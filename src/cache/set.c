/*
 * set.c: Set.
 *
 * The order of verbs.  READ the neighbourhood; READ the object of each match to compare keys;
 * then, in one batch, WRITE the object into the open group, CAS the slot from the exact word
 * seen and, for an insert, READ the neighbourhood again.  (The WRITE could travel with the first
 * READ, but a batch is ordered, so it costs no round trip here, and the place can depend on what
 * the index said: a ghost sends the object to a group bound for main.)
 *
 * The argument.  The index word is the point of truth; its CAS is where a Set takes effect.
 *  - Update: the CAS from the exact word of the verified match.  Lost: start again at the READ.
 *  - Two matches seen: remove all but the lowest, highest first, and start again, so that an
 *    update never leaves an older value in another slot.
 *  - A stale or invalid word of the fingerprint beside the match is CASed to 0 before the update.
 *    It may hold an older value of this key: one inserted and evicted while the Set of the match
 *    was on its way from its READ to its CAS.  A node with an older map would read it after we
 *    have acknowledged, and a regroup under way would even revive it.
 *  - Insert: first every slot of the same fingerprint that is stale or invalid is CASed to 0, for
 *    one of them may hold this key's evicted value, and a node with an older map would read it
 *    after our value is gone.  Our word may go over the last of them: the CAS from its exact
 *    word proves that nobody acted on it.  An empty slot is taken only when the last READ showed
 *    no such slot.
 *  - Several Sets may insert one key in different slots.  So after the CAS each READs again.
 *    Not the lowest match: the lower one was inserted while we ran, so we may say it came after
 *    us: remove our word and be done.  Lowest: remove every other match and every stale word
 *    that came meanwhile, and READ again until we are alone; only then acknowledge.
 *    Our word gone: somebody updated, deleted or superseded it, all after our CAS: done.
 * Crash: before the CAS the object is a dead member of an open group.  After it, the value is in
 * the cache although nobody was told; a duplicate we left is removed by the next operation that
 * sees two matches.
 */
#include "cache/cache.h"
#include "cache/look.h"
#include "pool/object.h"

/* Index races a Set may lose before it says FORGE_E_AGAIN. */
#define SET_ROUNDS_MAX 64u
/* Tries to get a place in an open group; one may have to seal all that are being filled. */
#define PLACE_TRIES_MAX (LANE_GROUPS_MAX + 8u)

struct set_state {
	struct cache_key key;
	const struct cache_item *item;
	struct look look;
	struct lane_place place;
	struct policy_place policy;
	uint32_t units;
	int placed;  /* place and c->object are valid */
	int written; /* the object has landed */
};

/*
 * No chunk is to be had: each is in somebody's hand, and some may be in ours, as groups bound for
 * the other ring, which fills slowly.  Put the object there, or seal one of ours, so that it can
 * be evicted; otherwise a few workers on a small pool would keep all chunks open for ever.
 */
static MAY_WAIT int find_room_elsewhere(struct cache *c, uint32_t ring, uint32_t units,
					struct lane_place *place)
{
	struct lane *lane = c->lane;
	uint32_t other = ring == RING_SMALL ? RING_MAIN : RING_SMALL;
	struct open_group *g = lane_fit(lane, other, units);

	if (g) {
		*place = open_group_take(&c->cn->pool->plan, g, units);
		return 0;
	}
	if (!lane->filling_count[other] && !lane->filling_count[ring])
		return FORGE_E_NO_SPACE;
	int status = cache_close_group(c, lane->filling_count[other] ? other : ring);

	return status ? status : FORGE_E_AGAIN;
}

/* Room in a group bound for a ring: close, reserve and open until there is some. */
static MAY_WAIT int find_room(struct cache *c, uint32_t ring, uint32_t units,
			      struct lane_place *place)
{
	struct lane *lane = c->lane;

	for (unsigned try = 0; try < PLACE_TRIES_MAX; try++) {
		struct open_group *g = lane_fit(lane, ring, units);

		if (g) {
			*place = open_group_take(&c->cn->pool->plan, g, units);
			return 0;
		}
		int status = cache_make_way(c, ring);

		if (!status)
			status = cache_reserve(c);
		if (!status && lane_may_open(lane, ring, units))
			status = lane_open(lane, c->worker, ring);
		if (status == FORGE_E_NO_SPACE) {
			status = find_room_elsewhere(c, ring, units, place);
			if (!status)
				return 0;
		}
		if (status && status != FORGE_E_AGAIN)
			return status;
		if (status)
			flow_pause(c->worker);
	}
	return FORGE_E_NO_SPACE;
}

/* Decide where the object goes and build it; once per Set. */
static MAY_WAIT int place_object(struct cache *c, struct set_state *s)
{
	struct cn *cn = c->cn;
	struct look *l = &s->look;
	struct policy_hint hint = {
	    .ghost = cn->policy->keeps_ghosts && l->ghost,
	    .update = l->match != 0,
	};

	if (s->placed)
		return 0;
	if (hint.update) {
		uint64_t seen = cn_map(cn, l->old_chunk);

		hint.old_count = l->old_sn < cn->pool->plan.group_objects
				     ? cn_count(cn, l->old_chunk, l->old_sn)
				     : 0;
		hint.old_ring = chunk_state(seen) == CHUNK_QUEUED && chunk_ring(seen) == RING_MAIN
				    ? RING_MAIN
				    : RING_SMALL;
	}
	c->count.ghost_hits += hint.ghost && !hint.update;
	s->policy = cn->policy->place(&hint);
	int status = find_room(c, s->policy.ring, s->units, &s->place);

	if (status)
		return status;
	struct object_spec spec = {
	    .key = s->key.data,
	    .key_bytes = s->key.bytes,
	    .value = s->item->value,
	    .value_bytes = s->item->bytes,
	    .flags = s->item->flags,
	    .flush_generation =
		(uint32_t)atomic_load_explicit(&cn->flush_generation, memory_order_relaxed),
	    .cas_id = (uint64_t)cn->member.cn << 56 |
		      (atomic_fetch_add_explicit(&cn->cas_counter, 1, memory_order_relaxed) + 1),
	};

	object_build(c->object, &spec,
		     (struct object_place){s->place.group->generation, s->place.sn});
	s->placed = 1;
	return 0;
}

/* The word that makes a slot, now holding old, point to our object. */
static uint64_t our_word(const struct cache *c, const struct set_state *s, uint64_t old)
{
	const struct plan *p = &c->cn->pool->plan;
	struct index_target target = {
	    .fingerprint = s->look.home.fingerprint,
	    .units = s->units,
	    .generation = s->place.group->generation,
	    .version = index_word_version(p, old) + 1,
	    .address = s->place.address,
	};

	return index_word(p, &target);
}

/*
 * Post the object (once), the CAS of a slot and, if reread, the READ of the neighbourhood, as
 * one batch.
 */
static MAY_WAIT int swing(struct cache *c, struct set_state *s, unsigned slot, uint64_t old,
			  uint64_t word, int reread, int *won)
{
	const struct plan *p = &c->cn->pool->plan;
	uint64_t slot_address = plan_slot_address(p, index_slot_number(&s->look.home, slot));
	struct fab_op ops[3];
	unsigned n = 0, cas;

	if (!s->written)
		ops[n++] =
		    fab_write(FAB_DATA, s->place.address, c->object, s->units * LAYOUT_UNIT_BYTES);
	cas = n;
	ops[n++] = fab_cas(FAB_INDEX, slot_address, old, word);
	if (unlikely(!pool_rule(c->cn->pool, RULE_SLOT_CAS_EXACT)))
		ops[cas] = fab_write(FAB_INDEX, slot_address, &word, 8);
	if (reread)
		ops[n++] = fab_read(FAB_INDEX, plan_bucket_address(p, s->look.home.bucket),
				    s->look.view.words, index_view_bytes(p));
	int status = flow_run(c->worker, ops, n);

	s->written |= !status;
	*won = ops[cas].code == FAB_WRITE ? !status : fab_cas_won(&ops[cas]);
	c->count.sets_restarted += !*won;
	if (*won)
		tally_swap(&c->tally, old, word,
			   s->look.match >> slot & 1 ? STATS_replaced
						     : look_left(&s->look, slot, STATS_evicted));
	return status;
}

/* The slot is ours: tell the TWIM and, in 16-byte slots, the group word. */
static MAY_WAIT int record(struct cache *c, struct set_state *s, unsigned slot, uint64_t word)
{
	const struct plan *p = &c->cn->pool->plan;
	uint64_t number = index_slot_number(&s->look.home, slot);
	uint32_t version = index_word_version(p, word);

	open_group_record(s->place, twim_pack(s->units, s->look.home.fingerprint, version, number),
			  s->policy.carried);
	if (p->slot_words == 1)
		return 0;
	/*
	 * Nobody waits for the group word: until it lands its version differs from the index
	 * word's and hits go uncounted; if it is lost that stays so.
	 */
	uint64_t group =
	    group_pack(s->place.group->chunk, s->place.sn, s->place.group->generation, version);
	struct fab_op op = fab_write(FAB_INDEX, plan_slot_address(p, number) + 8, &group, 8);

	op.flags |= FAB_DETACHED;
	return flow_run(c->worker, &op, 1);
}

/*
 * We inserted `word` at `slot` and s->look.view was READ after it.  Resolve duplicates.
 * 0, or FORGE_E_AGAIN when the bound was reached (the Set may have happened).
 */
static MAY_WAIT int resolve(struct cache *c, struct set_state *s, unsigned slot, uint64_t word)
{
	const struct pool *pool = c->cn->pool;
	struct look *l = &s->look;

	/* Our own word needs no READ to be known. */
	look_know(l, slot, word);
	for (unsigned round = 0; round < SET_ROUNDS_MAX; round++) {
		if (look_word(c, l, slot) != word)
			return 0;
		int status = look_classify(c, s->key, l), all, won;

		if (status)
			return status;
		uint32_t lower = l->match & ((1u << slot) - 1);

		if (lower && pool_rule(pool, RULE_NOT_LOWEST_REMOVES_SELF)) {
			c->count.sets_superseded++;
			open_group_record(s->place, twim_pack(s->units, 0, 0, TWIM_SLOT_DEAD), 0);
			return cache_clear_slot(c, index_slot_number(&l->home, slot), word,
						STATS_superseded, &won);
		}
		uint32_t others = l->match | l->dead;

		if (!others || !pool_rule(pool, RULE_LOWEST_REMOVES_OTHERS))
			return 0;
		status = look_remove(c, l, others, STATS_superseded, &all);
		if (!status)
			status = cache_read_view(c, &l->home, &l->view);
		if (status)
			return status;
	}
	return FORGE_E_AGAIN;
}

/*
 * The best free slot of one bucket, -1 if there is none: an empty one, then the stale one that
 * is no ghost, then the oldest ghost.
 */
static int free_slot_of(const struct cache *c, const struct look *l, unsigned first)
{
	const struct plan *p = &c->cn->pool->plan;
	int best = -1;
	uint32_t best_age = 0;

	for (unsigned slot = first; slot < first + LAYOUT_BUCKET_SLOTS; slot++) {
		uint64_t word = look_word(c, l, slot);

		if (index_blocks(word) == INDEX_BLOCKS_EMPTY)
			return (int)slot;
		if (!index_is_object(word) || !cn_word_is_stale(c->cn, c->worker, word))
			continue;
		uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
		uint32_t age =
		    index_generations_behind(p, word, chunk_generation(cn_map(c->cn, chunk)));

		if (!cn_word_is_ghost(c->cn, word))
			age += LAYOUT_GENERATION_COUNT;
		if (age > best_age) {
			best = (int)slot;
			best_age = age;
		}
	}
	return best;
}

/* Home first, so that ghosts are found where they are looked for. */
static int free_slot(const struct cache *c, const struct look *l)
{
	int home = free_slot_of(c, l, 0);

	return home >= 0 ? home : free_slot_of(c, l, LAYOUT_BUCKET_SLOTS);
}

/* Is no higher word of the same fingerprint there? */
static int is_highest(const struct cache *c, const struct look *l, unsigned slot)
{
	uint32_t fingerprint = index_fingerprint(look_word(c, l, slot));

	while (++slot < LAYOUT_NEIGHBOURHOOD)
		if (index_fingerprint(look_word(c, l, slot)) == fingerprint)
			return 0;
	return 1;
}

/*
 * Every slot holds a live object: take the one this CN counted the fewest hits for.  The CAS
 * from its exact word evicts it.  Only the highest of several words of one fingerprint may go:
 * they could be one key's, and then taking a lower one would uncover an older value.
 */
static MAY_WAIT int coldest_slot(struct cache *c, const struct look *l, unsigned *out)
{
	const struct plan *p = &c->cn->pool->plan;
	struct layout_object headers[LAYOUT_NEIGHBOURHOOD];
	struct fab_op ops[LAYOUT_NEIGHBOURHOOD];
	uint32_t least = UINT32_MAX;

	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++)
		ops[slot] = fab_read(FAB_EVICTION, index_object_address(look_word(c, l, slot)),
				     &headers[slot], sizeof(headers[slot]));
	int status = flow_run(c->worker, ops, LAYOUT_NEIGHBOURHOOD);

	if (status == FORGE_E_NODE)
		return status;
	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++) {
		uint64_t word = look_word(c, l, slot);
		uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
		uint32_t count = 0;

		if (ops[slot].status == 0 && chunk != UINT32_MAX &&
		    headers[slot].sn < p->group_objects)
			count = cn_count(c->cn, chunk, headers[slot].sn);
		if (index_blocks(word) != INDEX_BLOCKS_TENTATIVE && count < least &&
		    (is_highest(c, l, slot) || !pool_rule(c->cn->pool, RULE_FULL_TAKES_HIGHEST))) {
			least = count;
			*out = slot;
		}
	}
	return least == UINT32_MAX ? FORGE_E_AGAIN : 0;
}

/* Clear what has to be cleared and choose the slot.  FORGE_E_AGAIN: look again. */
static MAY_WAIT int choose_slot(struct cache *c, struct set_state *s, unsigned *slot)
{
	const struct pool *pool = c->cn->pool;
	struct look *l = &s->look;
	int all = 1, status;

	if (l->dead && pool_rule(pool, RULE_CLEAR_BEFORE_INSERT)) {
		unsigned last = lowest_slot(l->dead);
		uint32_t clear = l->dead & ~(1u << last);

		if (!pool_rule(pool, RULE_CLEAR_THEN_REREAD))
			clear = l->dead;
		status = look_remove(c, l, clear, STATS_evicted, &all);
		if (status || !all)
			return status ? status : FORGE_E_AGAIN;
		*slot = last;
		if (pool_rule(pool, RULE_CLEAR_THEN_REREAD))
			return 0;
	}
	int found = free_slot(c, l);

	if (found >= 0) {
		*slot = (unsigned)found;
		return 0;
	}
	c->count.bucket_full++;
	return coldest_slot(c, l, slot);
}

static MAY_WAIT int insert(struct cache *c, struct set_state *s)
{
	struct look *l = &s->look;
	unsigned slot = 0;
	int reread = pool_rule(c->cn->pool, RULE_REREAD_AFTER_INSERT), won;
	int status = choose_slot(c, s, &slot);

	if (status)
		return status;
	uint64_t old = look_word(c, l, slot), word = our_word(c, s, old);

	status = swing(c, s, slot, old, word, reread, &won);
	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	status = record(c, s, slot, word);
	c->count.sets_inserted++;
	return status || !reread ? status : resolve(c, s, slot, word);
}

static MAY_WAIT int update(struct cache *c, struct set_state *s)
{
	struct look *l = &s->look;
	unsigned slot = lowest_slot(l->match);
	uint64_t old = look_word(c, l, slot), word = our_word(c, s, old);
	int won;
	int status = swing(c, s, slot, old, word, 0, &won);

	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	c->count.sets_updated++;
	status = record(c, s, slot, word);
	return status ? status : cache_note_dead(c, l->old_chunk, l->old_generation, l->old_sn);
}

/* One round: 0 done, FORGE_E_AGAIN look again. */
static MAY_WAIT int set_once(struct cache *c, struct set_state *s)
{
	struct look *l = &s->look;
	int all;
	int status = look_read(c, s->key, l);

	if (status)
		return status;
	if (l->match & (l->match - 1) && pool_rule(c->cn->pool, RULE_MERGE_MATCHES_FIRST)) {
		status = look_remove(c, l, l->match & (l->match - 1), STATS_superseded, &all);
		return status ? status : FORGE_E_AGAIN;
	}
	if (l->match && l->dead && pool_rule(c->cn->pool, RULE_UPDATE_CLEARS_DEAD)) {
		status = look_remove(c, l, l->dead, STATS_evicted, &all);
		return status ? status : FORGE_E_AGAIN;
	}
	status = place_object(c, s);
	if (status)
		return status;
	return l->match ? update(c, s) : insert(c, s);
}

int cache_set(struct cache *c, struct cache_key key, const struct cache_item *item)
{
	const struct plan *p = &c->cn->pool->plan;
	struct set_state s = {.key = key, .item = item};
	int status = cache_key_check(key);

	if (status)
		return status;
	uint64_t bytes = (uint64_t)LAYOUT_OBJECT_HEADER_BYTES + key.bytes + item->bytes;

	if (round_up_u64(bytes, LAYOUT_UNIT_BYTES) + TWIM_BYTES > p->chunk_bytes ||
	    bytes > (uint64_t)LAYOUT_OBJECT_UNITS_MAX * LAYOUT_UNIT_BYTES)
		return FORGE_E_VALUE_LARGE;
	s.units = layout_object_units(key.bytes, item->bytes);
	status = cache_poll_if_due(c);
	if (status)
		return status;
	c->count.sets++;
	look_begin(&s.look, c, key, FAB_INDEX);
	status = FORGE_E_AGAIN;
	for (unsigned round = 0; round < SET_ROUNDS_MAX && status == FORGE_E_AGAIN; round++)
		status = set_once(c, &s);
	int told = tally_tell_in_time(&c->tally, c->worker);

	status = status ? status : told;
	if (s.placed) {
		int landed = lane_land(c->lane, c->worker, s.place.group, c->twim);

		status = status ? status : landed;
	}
	return status;
}
