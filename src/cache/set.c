/*
 * set.c: Set.
 *
 * The order of verbs.  READ the neighbourhood; READ the object of each match to compare keys;
 * then, in one batch, WRITE the object into the open group, CAS the slot from the exact word
 * seen and, for an insert, READ the neighbourhood again.
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
 *  - A tentative word (change.c) beside ours is removed by the lowest, too, before it acknowledges.
 *    Its owner may have READ before our CAS and sleep; finalising it later would drop a value that
 *    was acknowledged long ago.  Whoever places a tentative word after our READ sees our word.
 *  - An object that has expired or was flushed is dealt with as an invalid one.
 *
 * A Set that won its CAS has taken effect and does so once: if others bring duplicates faster than
 * it removes them, it ends with FORGE_E_AGAIN.  Trying again would let its value come back after a
 * newer one, and a large one would free, as its predecessor's, the parts it lists.
 *
 * A Set that loses the CAS of its update need not win.  If what it met in the slot is a value of
 * its key that another Set put there by an update since we READ the slot, we say that ours took
 * effect right before that one: nobody could have seen it, and it lies within both operations.  So
 * we are done ("absorbed"); our object is a dead member.  On a hot key all but one of those under
 * way lose, and each CAS that is tried again occupies the word.  What has to hold, and is looked at
 * in the object that was met:
 *  - It is of our key: the slot may have been emptied and taken by another one of the fingerprint.
 *  - Its cas id is not that of the match we saw.  A regroup moves an object, and its id, to another
 *    word: then the value is the one we meant to replace.  If it differs, its Set's CAS was after
 * our READ: an id gets into one slot once, and only a move keeps it there under another word; what
 *    had been there before our match never comes back.
 *  - Its Set was an unconditional one.  An increment or a cas read a value, and ours would have to
 * be before it and unseen by it.  And it was an update, not an insert: with its CAS an update has
 *    done all that its caller is promised, whatever becomes of its worker.  An insert still has
 *    older words to remove, and may die before; we would have told our caller too early.
 *    The origin in the header says both.  It is set when the object is built, again if the Set
 *    turns from update to insert or back, and moves keep it.
 * Whether that value has expired or been flushed meanwhile is no matter: it came after ours.
 * A chain (Set, then a change or a Delete) shows only its end: then we start again.  A value larger
 * than a chunk takes no part.
 *
 * Crash: before the CAS the object is a dead member of an open group.  After it, the value is in
 * the cache although nobody was told; a duplicate we left is removed by the next operation that
 * sees two matches.
 */
#include "cache/cache.h"
#include "cache/place.h"
#include "pool/object.h"

/*
 * Our word is gone: whoever replaced it has told his caller.  An add that began before us must not
 * drop his value later, nor may two words of the key remain where an add was faster than we.
 */
static MAY_WAIT int leave_in_order(struct cache *c, struct placing *p)
{
	struct look *l = &p->look;
	int status = 0, all;

	if (!pool_rule(c->cn->pool, RULE_GONE_STILL_MERGES))
		return 0;
	for (unsigned round = 0; round < PLACE_ROUNDS_MAX && !status; round++) {
		uint32_t ours =
		    index_view_slots_of(&c->cn->pool->plan, &l->view, l->home.fingerprint);

		if (!(ours & (ours - 1)))
			return 0; /* at most one word of the fingerprint, the successor of ours */
		status = look_classify(c, p->key, l);
		uint32_t remove = l->tentative | l->dead | (l->match & (l->match - 1));

		if (status || !remove)
			return status;
		status = look_remove(c, l, remove, STATS_superseded, &all);
		if (!status)
			status = cache_read_view(c, &l->home, &l->view);
	}
	return status;
}

/*
 * We inserted `word` at `slot` and the view was READ after it.  Resolve duplicates.
 * 0, or FORGE_E_AGAIN when the bound was reached (the Set may have happened).
 */
static MAY_WAIT int resolve(struct cache *c, struct placing *p, unsigned slot, uint64_t word)
{
	const struct pool *pool = c->cn->pool;
	struct look *l = &p->look;

	/* Our own word needs no READ to be known. */
	look_know(l, slot, word);
	for (unsigned round = 0; round < PLACE_ROUNDS_MAX; round++) {
		if (look_word(c, l, slot) != word)
			return leave_in_order(c, p);
		int status = look_classify(c, p->key, l), all = 0;

		if (status)
			return status;
		uint32_t remove = l->match | l->dead, lower = l->match & ((1u << slot) - 1);

		if (pool_rule(pool, RULE_SET_REMOVES_TENTATIVES))
			remove |= l->tentative;
		if (lower && pool_rule(pool, RULE_NOT_LOWEST_REMOVES_SELF)) {
			c->count.sets_superseded++;
			open_group_record(p->place, twim_pack(p->units, 0, 0, TWIM_SLOT_DEAD), 0);
			status = cache_clear_slot(c, index_slot_number(&l->home, slot), word,
						  STATS_superseded, &all);
			if (all)
				return status;
		} else if (!remove || !pool_rule(pool, RULE_LOWEST_REMOVES_OTHERS)) {
			return 0;
		} else {
			status = look_remove(c, l, remove, STATS_superseded, &all);
		}
		if (!status)
			status = cache_read_view(c, &l->home, &l->view);
		if (status)
			return status;
	}
	return FORGE_E_AGAIN;
}

/*
 * Our CAS over a match lost.  *done: to a Set that we may say came right after us (see above).
 * 0 or FORGE_E_NODE.
 */
static MAY_WAIT int absorbed(struct cache *c, const struct placing *p, int *done)
{
	const struct pool *pool = c->cn->pool;
	const struct layout_object *h = object_header(c->other);
	int verdict, status;

	*done = 0;
	if (index_blocks(p->met) == INDEX_BLOCKS_EMPTY || index_is_tentative(p->met) ||
	    index_is_head(p->met) || p->part_count)
		return 0;
	status =
	    cache_fetch(c, p->met, cn_chunk_of(c->cn, p->met), p->look.purpose, c->other, &verdict);
	if (status || verdict != OBJECT_VALID)
		return status;
	if (!object_key_is(h, p->key.data, p->key.bytes) && pool_rule(pool, RULE_ABSORBED_BY_KEY))
		return 0;
	if (h->cas_id == p->look.old_cas_id && pool_rule(pool, RULE_ABSORBED_BY_NEWER))
		return 0;
	if (h->origin != OBJECT_ORIGIN_OVERWROTE && pool_rule(pool, RULE_ABSORBED_BY_UPDATE))
		return 0;
	c->count.sets_absorbed++;
	*done = 1;
	return 0;
}

/* The object says how it comes into its slot; no word points to it yet, so it may be WRITTEN again.
 */
static void tell_origin(struct cache *c, struct placing *p, uint32_t origin)
{
	if (object_header(c->object)->origin == origin)
		return;
	object_set_origin(c->object, origin);
	p->written = 0;
}

static MAY_WAIT int insert(struct cache *c, struct placing *p)
{
	struct look *l = &p->look;
	unsigned slot = 0;
	int reread = pool_rule(c->cn->pool, RULE_REREAD_AFTER_INSERT), won;
	int status = slot_choose(c, l, &slot);

	if (status)
		return status;
	uint64_t old = look_word(c, l, slot), word = place_word(c, p, old);

	if (pool_rule(c->cn->pool, RULE_ORIGIN_IS_TRUE))
		tell_origin(c, p, OBJECT_ORIGIN_ANY);
	status = place_swing(c, p, slot, old, word, reread, &won);
	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	cache_commit(c);
	status = place_record(c, p, slot, word);
	c->count.sets_inserted++;
	return status || !reread ? status : resolve(c, p, slot, word);
}

static MAY_WAIT int update(struct cache *c, struct placing *p)
{
	int done;

	tell_origin(c, p, OBJECT_ORIGIN_OVERWROTE);
	int status = place_over_match(c, p);

	c->count.sets_updated += !status;
	if (status != FORGE_E_AGAIN)
		return status;
	status = absorbed(c, p, &done);
	return status || done ? status : FORGE_E_AGAIN;
}

/* One round: 0 done, FORGE_E_AGAIN look again. */
static MAY_WAIT int set_once(struct cache *c, struct placing *p, uint32_t units,
			     const struct cache_item *item)
{
	struct look *l = &p->look;
	int all;
	int status = look_read(c, p->key, l);

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
	/* Once: a Set says the same whatever it replaces. */
	if (!p->placed)
		status = place_object(c, p, units, item, 0);
	if (status)
		return status;
	return l->match ? update(c, p) : insert(c, p);
}

int cache_set(struct cache *c, struct cache_key key, const struct cache_item *item)
{
	struct placing p = {.key = key, .is_set = 1};
	uint32_t units;
	int status = cache_key_check(key);

	if (!status)
		status = place_units(&c->cn->pool->plan, key.bytes, item->bytes, &units);
	if (status)
		return status;
	/* Where to look is known first, so that the rest of the beginning is done meanwhile. */
	look_begin(&p.look, c, key, FAB_INDEX);
	status = cache_begin(c);
	if (status)
		return status;
	c->count.sets++;
	status = FORGE_E_AGAIN;
	/* Once it is in a slot it has happened, whether or not others could be removed. */
	for (unsigned round = 0; round < PLACE_ROUNDS_MAX && status == FORGE_E_AGAIN && !p.linked;
	     round++)
		status = set_once(c, &p, units, item);
	int told = tally_tell_in_time(&c->tally, c->worker);
	int landed = place_land(c, &p);

	return status ? status : told ? told : landed;
}
