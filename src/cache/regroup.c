/*
 * regroup.c: moving objects between groups.
 *
 * The argument.  The chunk is ours (evicting), but its objects are still read, updated and
 * deleted by everyone through their slots.
 *  - An object is believed only when generation, SN, key and checksum fit: it may be the remains
 *    of a Set that never landed.
 *  - The copy is WRITTEN first and the slot is CASed after it in the same batch, from the exact
 *    word the TWIM yields.  An update or Delete that came first makes the CAS fail and the copy
 *    is a dead member; one that comes later sees our word.  An address is written once per
 *    generation, so the exact word cannot have come back meanwhile.
 *  - Freeing the chunk is one CAS to the next generation.  From then on the cold members' slots
 *    are stale: that CAS evicts them all.
 *  - A kept member may be moved after its chunk was freed, if its copy was READ before: until
 *    the CAS its slot is stale, so a Get misses or still reads the old bytes, and a Set has to
 *    CAS the slot away before it inserts, which makes our CAS fail.  Nothing older comes back.
 *    That is the way out when the lane has no chunk at hand; until the CAS the member is out of
 *    sight, for long if we sleep.  So a lane keeps a chunk to spare (lane.h), which is used for
 *    what is moved and for nothing else: the copies go there, the slots are swung, and the
 *    freed source is the next spare.  Nobody competes for it: it is reserved in our name, as the
 *    chunks of the reserve are, and of a lane one flow moves at a time (lane->reserving).  A
 *    reader with the old word READs the old bytes, whole until the source is filled anew, or
 *    finds the word changed and looks again; one with the new word finds the copy, which landed
 *    before it.  A member that lives is missed at no time.  Crash: the chunk is reserved(us) or
 *    open(us), as any that a dead node held, and the source evicting(us) or freed, as below.
 *  - The head of a large object owns chunks, so it must not just become stale: cold heads are READ
 *    too, and CASed out of their slots from the exact words before the chunk is freed; the winner
 *    frees the parts.  A kept head moves like any other object, and its parts stay where they are.
 *    One that was kept, but found no place, is taken out in the same way at the end; its word is
 *    exact even after the chunk was freed.  Whoever took a kept head out after the chunk was freed
 *    may have READ the chunk's next life and not know its parts; we do, and free them.
 *  - The last copies and the free are one batch, in this order: a prefix of it is what the two
 *    would have left one after the other.
 * Crash: before the free, the chunk is evicting(us); some members have moved already.  After it,
 * the chunk is reserved(us).  Members not moved are evicted.
 */
#include "cache/regroup.h"

#include <string.h>

#include "cache/large.h"
#include "pool/object.h"

/* Beside an SN in moved[]: its slot was won. */
#define MOVED (1u << 31)

/* What the source's chunk word becomes. */
static uint64_t freed_word(const struct cache *c, const struct regroup_source *s)
{
	uint32_t next = pool_rule(c->cn->pool, RULE_FREE_RAISES_GENERATION)
			    ? generation_next(s->claimed.generation)
			    : s->claimed.generation;

	return chunk_pack_reserved(c->cn->member.cn, next);
}

/* The ops that free the source's chunk; how many. */
static uint32_t free_ops(const struct cache *c, const struct regroup_source *s,
			 enum fab_purpose purpose, struct fab_op *ops)
{
	const struct pool *pool = c->cn->pool;
	static const uint64_t zeroes[LAYOUT_DEAD_WORDS_MAX];

	ops[0] = fab_cas(purpose, plan_chunk_word_address(&pool->plan, s->claimed.chunk),
			 s->claimed.word, freed_word(c, s));
	if (!s->dead_published)
		return 1;
	/* The next life starts with nobody dead. */
	ops[1] = fab_write(purpose, plan_dead_address(&pool->plan, s->claimed.chunk), zeroes,
			   8 * plan_dead_words(&pool->plan));
	return 2;
}

/* ops[0] was won: the chunk is ours to use. */
static MAY_WAIT int use_freed(struct cache *c, struct regroup_source *s)
{
	uint64_t word = freed_word(c, s);

	s->freed = 1;
	cn_note(c->cn, s->claimed.chunk, word, NULL, 0);
	return lane_give(c->lane, c->worker,
			 (struct lane_chunk){s->claimed.chunk, chunk_generation(word)});
}

int regroup_free(struct cache *c, struct regroup_source *s, enum fab_purpose purpose)
{
	struct fab_op ops[2];

	if (s->freed)
		return 0;
	int status = flow_run(c->worker, ops, free_ops(c, s, purpose, ops));

	return status || !fab_cas_won(&ops[0]) ? status : use_freed(c, s);
}

/*
 * Kept members no further apart than this are READ by one verb, with what lies between them: 512
 * bytes are 40 ns of a 100 Gbit/s link, and a verb of its own costs no less.
 */
#define READ_GAP_BYTES 512u

/* Lengthen the READ before by a member that follows it closely; 0 if it does not. */
static int join_read(struct fab_op *before, const struct twim_member *m, uint32_t *at)
{
	uint64_t end = before->raddr + before->len;

	if (m->address < end || m->address - end > READ_GAP_BYTES)
		return 0;
	uint32_t more = (uint32_t)(m->address - end) + m->units * LAYOUT_UNIT_BYTES;

	before->len += more;
	*at += more;
	return 1;
}

/* READ every kept member and every head into scratch->read, one batch; others come along. */
static MAY_WAIT int read_kept(struct cache *c, struct regroup_scratch *scratch,
			      const struct regroup_source *s, enum fab_purpose purpose)
{
	uint32_t at = 0, n = 0;

	for (uint32_t sn = 0; sn < s->claimed.object_count; sn++) {
		const struct twim_member *m = &s->members[sn];

		if ((!s->keep[sn] && !m->is_head) || m->units == 0)
			continue;
		uint32_t bytes = m->units * LAYOUT_UNIT_BYTES;

		if (n == 0 || !join_read(&scratch->ops[n - 1], m, &at)) {
			scratch->ops[n++] =
			    fab_read(purpose, m->address, scratch->read + at, bytes);
			at += bytes;
		}
		scratch->offset[sn] = at - bytes;
	}
	return n ? flow_run(c->worker, scratch->ops, n) : 0;
}

/* Is the member READ the object its TWIM entry promised? */
static int member_valid(const struct cache *c, const struct regroup_scratch *scratch,
			const struct regroup_source *s, uint32_t sn)
{
	const struct plan *p = &c->cn->pool->plan;
	const struct twim_member *m = &s->members[sn];
	const uint8_t *object = scratch->read + scratch->offset[sn];
	const struct layout_object *h = object_header(object);

	if (!pool_rule(c->cn->pool, RULE_REGROUP_VERIFIES))
		return 1;
	if (object_check(object, (uint64_t)m->units * LAYOUT_UNIT_BYTES, 1) != OBJECT_VALID ||
	    object_units(object) != m->units || h->generation != s->claimed.generation ||
	    h->sn != sn)
		return 0;
	struct index_home home = index_locate(p, object_key(object), h->key_bytes);
	uint64_t slot = m->slot - index_slot_number(&home, 0);

	return home.fingerprint == m->fingerprint && slot < LAYOUT_NEIGHBOURHOOD;
}

/* Is the member wanted, and was what was READ of it its object? */
static int is_movable(const struct cache *c, const struct regroup_scratch *scratch,
		      const struct regroup_source *s, uint32_t sn)
{
	return s->keep[sn] && s->members[sn].units > 0 && member_valid(c, scratch, s, sn) &&
	       /* expired or flushed: nobody wants it */
	       !cache_is_over(c, object_header(scratch->read + scratch->offset[sn]));
}

/*
 * Who of the kept moves; the others stay behind.  Decided once: verbs follow, meanwhile the pool's
 * clock may be set right, and a head that had been neither dropped nor moved would leave parts that
 * nobody lists.
 */
static void keep_movable(const struct cache *c, const struct regroup_scratch *scratch,
			 struct regroup_source *s)
{
	for (uint32_t sn = 0; sn < s->claimed.object_count; sn++)
		s->keep[sn] = (uint8_t)is_movable(c, scratch, s, sn);
}

/* The parts of a head as it was READ; false: there is none. */
static int parts_of_member(const struct cache *c, const struct regroup_scratch *scratch,
			   const struct regroup_source *s, uint32_t sn, struct parts_list *out)
{
	return s->members[sn].is_head && member_valid(c, scratch, s, sn) &&
	       parts_of(&c->cn->pool->plan, scratch->read + scratch->offset[sn], out);
}

/* Another word is in the slot of a kept head than the one that was to be moved. */
static MAY_WAIT int settle_head(struct cache *c, const struct regroup_scratch *scratch,
				const struct regroup_source *s, uint32_t sn,
				enum fab_purpose purpose)
{
	struct parts_list parts;

	return parts_of_member(c, scratch, s, sn, &parts)
		   ? large_settle(c, &parts, s->members[sn].slot, purpose)
		   : 0;
}

/* Evict the head of a large object, and its parts with it. */
static MAY_WAIT int drop_head(struct cache *c, const struct regroup_scratch *scratch,
			      const struct regroup_source *s, uint32_t sn, enum fab_purpose purpose)
{
	const struct twim_member *m = &s->members[sn];
	struct fab_op cas =
	    fab_cas(purpose, plan_slot_address(&c->cn->pool->plan, m->slot), m->word, 0);
	struct parts_list parts;
	int status = flow_run(c->worker, &cas, 1);

	if (status)
		return status;
	if (!fab_cas_won(&cas) && pool_rule(c->cn->pool, RULE_PARTS_WINNER_FREES))
		return s->freed ? settle_head(c, scratch, s, sn, purpose) : 0;
	if (fab_cas_won(&cas)) {
		tally_swap(&c->tally, m->word, 0, STATS_evicted);
		status = tally_tell_in_time(&c->tally, c->worker);
	}
	if (status || !parts_of_member(c, scratch, s, sn, &parts))
		return status;
	return large_free_old(c, &parts, m->slot, purpose);
}

/* All heads that will not move. */
static MAY_WAIT int drop_cold_heads(struct cache *c, const struct regroup_scratch *scratch,
				    const struct regroup_source *s, enum fab_purpose purpose)
{
	int status = 0;

	for (uint32_t sn = 0; sn < s->claimed.object_count && !status; sn++)
		if (s->members[sn].is_head && !s->keep[sn] &&
		    pool_rule(c->cn->pool, RULE_PARTS_COLD_HEADS_OUT))
			status = drop_head(c, scratch, s, sn, purpose);
	return status;
}

/* A group of the lane for the target, with room for `units`; NULL if no chunk is at hand. */
static MAY_WAIT int room_for(struct cache *c, uint32_t target, uint32_t units,
			     struct open_group **out)
{
	struct lane *lane = c->lane;
	int status = 0;

	if (!lane_fit(lane, target, units))
		status = cache_make_way(c, target);
	if (!status && !lane_fit(lane, target, units))
		lane_use_spare(lane); /* unless there is one in the reserve */
	if (!status && lane_may_open(lane, target, units))
		status = lane_open(lane, c->worker, target);
	*out = lane_fit(lane, target, units);
	return status == FORGE_E_AGAIN ? 0 : status;
}

/*
 * Take places in the group for those of the pending members that fit, side by side, so that one
 * WRITE brings them; the others stay pending.  Returns how many.
 */
static uint32_t pack(struct cache *c, struct regroup_scratch *scratch,
		     const struct regroup_source *s, struct open_group *g, uint32_t *pending)
{
	const struct plan *p = &c->cn->pool->plan;
	uint32_t n = 0, at = 0, left = 0;

	for (uint32_t i = 0; i < *pending; i++) {
		uint32_t sn = scratch->pending[i];
		uint32_t units = s->members[sn].units;
		uint32_t bytes = units * LAYOUT_UNIT_BYTES;

		if (!open_group_fits(p, g, units)) {
			scratch->pending[left++] = sn;
			continue;
		}
		struct lane_place place = open_group_take(p, g, units);

		memcpy(scratch->copy + at, scratch->read + scratch->offset[sn], bytes);
		object_rebind(scratch->copy + at, (struct object_place){g->generation, place.sn});
		g->part_count += object_header(scratch->copy + at)->part_count;
		scratch->places[n] = place;
		scratch->moved[n++] = sn;
		at += bytes;
	}
	*pending = left;
	return n;
}

/*
 * WRITE the packed copies in one verb and CAS their slots, in one batch.  If they are the last, the
 * chunk is freed in the same batch, behind them; *freed says so.
 */
static MAY_WAIT int land(struct cache *c, struct regroup_scratch *scratch,
			 const struct regroup_source *s, uint32_t n, int last,
			 enum fab_purpose purpose, int *freed)
{
	const struct pool *pool = c->cn->pool;
	const struct plan *p = &pool->plan;
	uint32_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct twim_member *m = &s->members[scratch->moved[i]];
		struct index_target target = {
		    .fingerprint = m->fingerprint,
		    .units = m->units,
		    .generation = scratch->places[i].group->generation,
		    .version = m->version + 1,
		    .is_head = m->is_head,
		    .address = scratch->places[i].address,
		};

		scratch->ops[i + 1] = fab_cas(purpose, plan_slot_address(p, m->slot), m->word,
					      index_word(p, &target));
		bytes += m->units * LAYOUT_UNIT_BYTES;
	}
	struct fab_op write = fab_write(purpose, scratch->places[0].address, scratch->copy, bytes);

	if (pool_rule(pool, RULE_REGROUP_WRITES_FIRST)) {
		scratch->ops[0] = write;
	} else {
		memmove(scratch->ops, scratch->ops + 1, n * sizeof(write));
		scratch->ops[n] = write;
	}
	struct fab_op *frees = scratch->ops + n + 1;
	uint32_t more = last ? free_ops(c, s, purpose, frees) : 0;
	int status = flow_run(c->worker, scratch->ops, n + 1 + more);

	*freed = !status && more && fab_cas_won(frees);
	if (!pool_rule(pool, RULE_REGROUP_WRITES_FIRST))
		memmove(scratch->ops + 1, scratch->ops, n * sizeof(write));
	return status;
}

/*
 * Book what landed: TWIM entries of the new group, group words, counters.  It is marked in moved[].
 */
static MAY_WAIT int book(struct cache *c, struct regroup_scratch *scratch,
			 const struct regroup_source *s, uint32_t n, enum fab_purpose purpose)
{
	const struct plan *p = &c->cn->pool->plan;
	uint64_t words[LAYOUT_GROUP_OBJECTS_MAX];
	uint32_t group_words = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t sn = scratch->moved[i];
		const struct twim_member *m = &s->members[sn];
		struct lane_place place = scratch->places[i];
		uint32_t version = (m->version + 1) & 15u;

		if (!fab_cas_won(&scratch->ops[i + 1])) {
			c->count.objects_rescue_lost++;
			continue;
		}
		c->count.objects_rescued++;
		scratch->moved[i] |= MOVED;
		open_group_record(place,
				  twim_pack(m->units, m->fingerprint, version, m->slot) |
				      (m->is_head ? TWIM_HEAD : 0),
				  s->carried[sn]);
		if (p->slot_words == 1)
			continue;
		words[group_words] =
		    group_pack(place.group->chunk, place.sn, place.group->generation, version);
		scratch->ops[group_words] =
		    fab_write(purpose, plan_slot_address(p, m->slot) + 8, &words[group_words], 8);
		scratch->ops[group_words].flags |= FAB_DETACHED;
		group_words++;
	}
	return group_words ? flow_run(c->worker, scratch->ops, group_words) : 0;
}

/* Of the n members that were to be moved, the heads that did not. */
static MAY_WAIT int settle_heads(struct cache *c, const struct regroup_scratch *scratch,
				 const struct regroup_source *s, uint32_t n,
				 enum fab_purpose purpose)
{
	int status = 0;

	for (uint32_t i = 0; i < n && !status; i++) {
		uint32_t sn = scratch->moved[i] & ~MOVED;
		struct parts_list parts;

		if (!(scratch->moved[i] & MOVED) && s->freed)
			status = settle_head(c, scratch, s, sn, purpose);
		else if (unlikely(!pool_rule(c->cn->pool, RULE_PARTS_STAY)) &&
			 parts_of_member(c, scratch, s, sn, &parts))
			status = large_free_old(c, &parts, s->members[sn].slot, purpose);
	}
	return status;
}

int regroup_move(struct cache *c, struct regroup_scratch *scratch, struct regroup_source *s,
		 uint32_t target, enum fab_purpose purpose)
{
	uint32_t pending = 0;
	int status = read_kept(c, scratch, s, purpose);

	if (!status) {
		keep_movable(c, scratch, s);
		status = drop_cold_heads(c, scratch, s, purpose);
	}
	for (uint32_t sn = 0; !status && sn < s->claimed.object_count; sn++)
		if (s->keep[sn])
			scratch->pending[pending++] = sn;
	while (!status && pending > 0) {
		struct open_group *g;

		status = room_for(c, target, s->members[scratch->pending[0]].units, &g);
		if (status)
			break;
		if (!g) {
			/* No chunk at hand: this one will do, all it is kept for has been READ. */
			if (s->freed)
				break;
			status = regroup_free(c, s, purpose);
			if (!s->freed)
				break;
			c->count.objects_hidden += pending;
			continue;
		}
		uint32_t n = pack(c, scratch, s, g, &pending);

		/* The first share of a group brings its heat; a group rarely needs two. */
		g->heat += s->heat;
		s->heat = 0;
		int freed;

		status = land(c, scratch, s, n, pending == 0 && !s->freed, purpose, &freed);
		if (!status)
			status = book(c, scratch, s, n, purpose);
		if (!status && freed)
			status = use_freed(c, s);
		if (!status)
			status = settle_heads(c, scratch, s, n, purpose);
		for (uint32_t i = 0; i < n; i++) {
			int landed = lane_land(c->lane, c->worker, g, c->twim);

			status = status ? status : landed;
		}
		if (!status)
			status = cache_close_heavy(c, g);
	}
	for (uint32_t i = 0; i < pending && !status; i++)
		if (s->members[scratch->pending[i]].is_head)
			status = drop_head(c, scratch, s, scratch->pending[i], purpose);
	return status ? status : regroup_free(c, s, purpose);
}
