/* look.c: classifying the words of a neighbourhood. */
#include "cache/look.h"

#include "pool/object.h"

void look_begin(struct look *l, const struct cache *c, struct cache_key key,
		enum fab_purpose purpose)
{
	l->purpose = purpose;
	l->home = index_locate(&c->cn->pool->plan, key.data, key.bytes);
	l->known_slots = 0;
}

int look_read(struct cache *c, struct cache_key key, struct look *l)
{
	int status = cache_read_view(c, &l->home, &l->view);

	return status ? status : look_classify(c, key, l);
}

/* A verified object lies in the buffer. */
static void classify_valid(struct cache *c, struct cache_key key, struct look *l, unsigned slot,
			   const uint8_t *buffer)
{
	const struct layout_object *h = object_header(buffer);
	uint64_t word = look_word(c, l, slot);

	if (!object_key_is(buffer, key.data, key.bytes) &&
	    pool_rule(c->cn->pool, RULE_READ_CHECKS_KEY)) {
		l->foreign |= 1u << slot;
		look_know(l, slot, word);
		return;
	}
	if (!l->match) {
		l->old_chunk = plan_chunk_of_pointer(&c->cn->pool->plan, index_pointer(word));
		l->old_generation = h->generation;
		l->old_sn = h->sn;
	}
	l->match |= 1u << slot;
}

/* One word of our fingerprint. */
static MAY_WAIT int classify_word(struct cache *c, struct cache_key key, struct look *l,
				  unsigned slot)
{
	uint64_t word = look_word(c, l, slot);
	int verdict;

	if (l->known_slots >> slot & 1 && l->known[slot] == word) {
		l->foreign |= 1u << slot;
		return 0;
	}
	if (cn_word_is_stale(c->cn, c->worker, word)) {
		l->dead |= 1u << slot;
		/* The home bucket alone: half the false ghosts, and inserts go there first. */
		if (slot < LAYOUT_BUCKET_SLOTS)
			l->ghost |= (uint8_t)cn_word_is_ghost(c->cn, word);
		return 0;
	}
	cn_prefetch_counters(c->cn, plan_chunk_of_pointer(&c->cn->pool->plan, index_pointer(word)));
	/* The lowest match stays where it is; what comes behind it goes elsewhere. */
	uint8_t *buffer = l->match ? c->other : c->fetched;
	int status = cache_fetch(c, word, l->purpose, buffer, &verdict);

	if (status)
		return status;
	if (likely(verdict == OBJECT_VALID)) {
		classify_valid(c, key, l, slot, buffer);
	} else {
		l->dead |= 1u << slot;
		l->invalid |= 1u << slot;
	}
	return 0;
}

int look_classify(struct cache *c, struct cache_key key, struct look *l)
{
	const struct plan *p = &c->cn->pool->plan;
	uint32_t ours = index_view_slots_of(p, &l->view, l->home.fingerprint);
	int status = 0;

	l->match = l->dead = l->invalid = l->foreign = 0;
	l->ghost = 0;
	for (; ours && !status; ours &= ours - 1)
		status = classify_word(c, key, l, lowest_slot(ours));
	return status;
}

int look_remove(struct cache *c, const struct look *l, uint32_t mask, enum stats_word left,
		int *all)
{
	*all = 1;
	while (mask && *all) {
		unsigned slot = pool_rule(c->cn->pool, RULE_DELETE_HIGHEST_FIRST)
				    ? highest_slot(mask)
				    : lowest_slot(mask);
		int status = cache_clear_slot(c, index_slot_number(&l->home, slot),
					      look_word(c, l, slot), look_left(l, slot, left), all);

		if (status)
			return status;
		mask &= ~(1u << slot);
	}
	return tally_tell_in_time(&c->tally, c->worker);
}
