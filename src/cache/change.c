/*
 * change.c: read, decide, write: the one flow under all conditional operations.
 *
 * The order of verbs.  READ the neighbourhood and the object of each match; decide (a pure
 * function); then for a present key one batch, WRITE the object and CAS the slot from the exact
 * word, as a Set that updates.  For an absent key two phases: one batch, WRITE the object, CAS a
 * *tentative* word into a free slot, READ the neighbourhood again; then the CAS from the tentative
 * word to the final one.
 *
 * The argument.  What competes is the same as for a Set (set.c), but a change says what it found,
 * so nobody may find otherwise later.
 *  - Present: decided only on a match that stands alone.  Other matches are removed, highest first,
 *    stale and invalid words CASed to 0, and the neighbourhood READ again first: one of them could
 *    be read by a node with an older map after we answered from the newer one.  The change takes
 *    effect at the CAS from the exact word, so no value is replaced twice: of two increments of
 *    one value the second loses its CAS and starts again.  A regroup that moved the object makes it
 *    lose just so, and it decides again on the same value.
 *  - Absent: first every stale and invalid word of the fingerprint is CASed to 0, and the
 *    neighbourhood READ again.  Such a word may hold the key's value, which a node with an older
 *    map still reads: that CAS is the eviction, which therefore comes before our answer.
 *  - Insert.  Two adds must not both find the key absent.  Readers take a tentative word for
 *    absent, adds do not: after its CAS each READs again, and finalises only if that READ shows its
 *    own word, no match, nothing stale and no other tentative word.  A match: withdraw (CAS our
 *    word to 0), start again, and find it.  A lower tentative word: withdraw, and let that one win.
 *    Higher ones: CAS them to 0, READ again.  Why two cannot both finalise: each READ after its own
 *    tentative CAS; of the two CASes one was first, so the other's READ showed it, unless it was
 *    gone or final by then.  Final: a match.  Gone: its owner's finalise fails.
 *    The final CAS takes effect; it fails when somebody removed our word, and we start again.
 *  - Whose key a tentative word of the fingerprint is nobody asks.  Taking one away never harms:
 * its owner's CAS fails, it starts again.  Its final word was never in a slot, so an address still
 *    appears in a final word once.
 *  - A Set that inserts takes no notice of the key's tentative word before its CAS, but after: it
 *    removes it before it acknowledges (set.c).  So when a Set that our last READ did not show has
 *    been acknowledged, our word is gone.  What an add drops is at most a value that was stored
 *    while the Set that inserted the key, and the add, were both under way, as if it had been
 *    evicted at once.
 *
 * Nobody waits for ever.  Who meets another's tentative word waits CHANGE_WAITS looks for it to be
 * decided.  Its owner may be asleep or dead: then the word is removed and we go on.  Asleep: its
 * final CAS fails, and it starts again with what it finds then, its object still in a group that
 * it alone fills, and that is not sealed before it ends.  Dead: recovery frees that open group, one
 * generation on, so that the word is stale: for adds of its fingerprint one of the stale words they
 * clear, for all others room (slot.c).  Two that overtake each other in turn end with
 * FORGE_E_AGAIN after PLACE_ROUNDS_MAX rounds.
 *
 * Crash: before the CAS the object is a dead member of an open group; after the tentative one, the
 * same, and a tentative word as above; after the final one or an update, the operation happened and
 * nobody was told.
 */
#include "cache/cache.h"
#include "cache/place.h"
#include "pool/object.h"

/* Looks at somebody else's tentative word before it is taken away; a decision is a round trip. */
#define CHANGE_WAITS 8u

struct change {
	struct placing placing;
	const struct cache_change *wish;
	struct cache_decision decision;
	uint32_t waits;
	uint8_t is_blind; /* the decision looks at no byte of the value */
};

static int rule_on(const struct cache *c, enum rule rule)
{
	return pool_rule(c->cn->pool, rule);
}

/* Somebody else's tentative word: let its owner get on.  1 while it is worth waiting. */
static MAY_WAIT int wait_for_others(struct cache *c, struct change *s)
{
	if (s->waits++ >= CHANGE_WAITS && rule_on(c, RULE_DEAD_ADDS_END)) {
		s->waits = 0;
		return 0;
	}
	flow_pause(c->worker);
	return 1;
}

/* CAS away, and look again: FORGE_E_AGAIN whether or not all were as seen. */
static MAY_WAIT int remove_and_look(struct cache *c, const struct look *l, uint32_t mask)
{
	int all;
	int status = look_remove(c, l, mask, STATS_superseded, &all);

	return status ? status : FORGE_E_AGAIN;
}

static MAY_WAIT int remove_tentatives(struct cache *c, const struct look *l, uint32_t mask)
{
	c->count.tentatives_removed += (uint64_t)__builtin_popcount(mask);
	return remove_and_look(c, l, mask);
}

/* Withdraw our tentative word, if it is still there, and start again. */
static MAY_WAIT int withdraw(struct cache *c, const struct look *l, unsigned slot, uint64_t word)
{
	int won;
	int status = cache_clear_slot(c, index_slot_number(&l->home, slot), word, STATS_evicted,
				      &won); /* no value: nothing leaves */

	return status ? status : FORGE_E_AGAIN;
}

/*
 * Our tentative word is in a slot and the view was READ after it.  0: finalise; FORGE_E_AGAIN:
 * our word is gone, start again; else an error, and our word may be there.
 */
static MAY_WAIT int stand_alone(struct cache *c, struct change *s, unsigned slot, uint64_t word)
{
	struct look *l = &s->placing.look;

	for (unsigned round = 0; round < PLACE_ROUNDS_MAX; round++) {
		if (look_word(c, l, slot) != word)
			return FORGE_E_AGAIN;
		int status = look_classify(c, s->placing.key, l);

		if (status)
			return status;
		uint32_t own = 1u << slot, remove = l->match & (l->match - 1);

		if (l->match && !rule_on(c, RULE_ADD_SEES_MATCHES))
			l->match = 0;
		if (rule_on(c, RULE_ABSENT_CLEARS_DEAD))
			remove |= l->dead & ~own;
		if (!remove && l->match)
			return withdraw(c, l, slot, word);
		uint32_t others = l->tentative & ~own;

		if (!remove && others & (own - 1) && rule_on(c, RULE_ADD_LOWEST_WINS)) {
			/* The lower one first; but its owner may be dead. */
			if (s->waits < CHANGE_WAITS) {
				status = withdraw(c, l, slot, word);
				wait_for_others(c, s);
				return status;
			}
			s->waits = 0;
		}
		if (!remove && rule_on(c, RULE_ADD_LOWEST_WINS))
			remove = others;
		if (!remove)
			return 0;
		status = remove_and_look(c, l, remove);
		if (status == FORGE_E_AGAIN)
			status = cache_read_view(c, &l->home, &l->view);
		if (status)
			return status;
	}
	return withdraw(c, &s->placing.look, slot, word);
}

/* The key is absent, and nothing but perhaps tentative words has its fingerprint. */
static MAY_WAIT int insert(struct cache *c, struct change *s)
{
	struct placing *p = &s->placing;
	struct look *l = &p->look;
	int reread = rule_on(c, RULE_ADD_REREADS), won;
	unsigned slot = 0;

	if (l->tentative && rule_on(c, RULE_ADD_LOWEST_WINS))
		return wait_for_others(c, s) ? FORGE_E_AGAIN
					     : remove_tentatives(c, l, l->tentative);
	int status = slot_choose(c, l, &slot);

	if (status)
		return status;
	uint64_t old = look_word(c, l, slot), word = place_word(c, p, old), first = word;

	if (rule_on(c, RULE_ADD_IS_TENTATIVE))
		first = index_tentative(word);
	status = place_swing(c, p, slot, old, first, reread, &won);
	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	if (reread && first != word)
		status = stand_alone(c, s, slot, first);
	if (!status && first != word)
		status = place_finalise(c, p, slot, first, word, &won);
	if (status || !won)
		return status ? status : FORGE_E_AGAIN;
	c->count.changes_inserted++;
	return place_record(c, p, slot, word);
}

static MAY_WAIT int store(struct cache *c, struct change *s)
{
	struct placing *p = &s->placing;
	const struct cache_decision *d = &s->decision;
	uint32_t units;
	int status = place_units(&c->cn->pool->plan, p->key.bytes, d->item.bytes, &units);

	p->same_bytes = d->same_bytes;
	if (!status)
		status = place_object(c, p, units, &d->item, d->cas_id);
	if (status)
		return status;
	if (!p->look.match)
		return insert(c, s);
	status = place_over_match(c, p);
	c->count.changes_updated += !status;
	return status;
}

static MAY_WAIT int remove_match(struct cache *c, const struct look *l)
{
	int all;
	int status = look_remove(c, l, l->match, STATS_deleted, &all);

	if (status || !all)
		return status ? status : FORGE_E_AGAIN;
	c->count.changes_updated++;
	return cache_note_dead(c, l->old_chunk, l->old_generation, l->old_sn);
}

/* One round: 0 the decision took effect, FORGE_E_AGAIN look again. */
static MAY_WAIT int change_once(struct cache *c, struct change *s)
{
	struct look *l = &s->placing.look;
	struct cache_decision *d = &s->decision;
	int status = look_read(c, s->placing.key, l);

	if (status)
		return status;
	if (l->match & (l->match - 1) && rule_on(c, RULE_CHANGE_STANDS_ALONE))
		return remove_and_look(c, l, l->match & (l->match - 1));
	if (l->dead && rule_on(c, l->match ? RULE_CHANGE_STANDS_ALONE : RULE_ABSENT_CLEARS_DEAD))
		return remove_and_look(c, l, l->dead);
	if (l->match && !s->is_blind)
		status = look_parts(c, l);
	if (status)
		return status;
	struct cache_value old = l->match ? look_value(c) : (struct cache_value){0};

	*d = (struct cache_decision){
	    .scratch = c->large.value ? c->large.value : c->other,
	    .scratch_bytes =
		c->large.value ? c->cn->pool->plan.value_bytes_max : c->cn->pool->plan.chunk_bytes,
	};
	s->wish->decide(s->wish->context, l->match ? &old : NULL, d);
	if (d->verdict == CACHE_STORE)
		return store(c, s);
	if (d->verdict == CACHE_REMOVE && l->match)
		return remove_match(c, l);
	c->count.changes_kept++;
	return 0;
}

static MAY_WAIT int run(struct cache *c, struct cache_key key, const struct cache_change *wish,
			uint8_t is_blind, uint64_t *cas_id)
{
	struct change s = {.placing = {.key = key}, .wish = wish, .is_blind = is_blind};
	int status = cache_key_check(key);

	if (!status)
		status = cache_begin(c);
	if (status)
		return status;
	c->count.changes++;
	look_begin(&s.placing.look, c, key, FAB_INDEX);
	status = FORGE_E_AGAIN;
	for (unsigned round = 0; round < PLACE_ROUNDS_MAX && status == FORGE_E_AGAIN; round++)
		status = change_once(c, &s);
	if (!status && s.decision.verdict == CACHE_STORE && cas_id)
		*cas_id = object_header(c->object)->cas_id;
	int told = tally_tell_in_time(&c->tally, c->worker);
	int landed = place_land(c, &s.placing);

	status = status ? status : told ? told : landed;
	return status ? status : s.decision.status;
}

int cache_change(struct cache *c, struct cache_key key, const struct cache_change *wish,
		 uint64_t *cas_id)
{
	return run(c, key, wish, 0, cas_id);
}

int cache_change_blindly(struct cache *c, struct cache_key key, const struct cache_change *wish,
			 uint64_t *cas_id)
{
	return run(c, key, wish, 1, cas_id);
}
