/* look.c: classifying the words of a neighbourhood. */
#include "cache/look.h"

#include <string.h>

#include "cache/large.h"

void look_begin(struct look *l, const struct cache *c, struct cache_key key,
		enum fab_purpose purpose)
{
	l->purpose = purpose;
	l->home = index_locate(&c->cn->pool->plan, key.data, key.bytes);
	l->known_slots = 0;
	fab_expect(c->worker->fab, plan_bucket_address(&c->cn->pool->plan, l->home.bucket),
		   index_view_bytes(&c->cn->pool->plan));
}

int look_read(struct cache *c, struct cache_key key, struct look *l)
{
	if (cache_is_late(c))
		return FORGE_E_DEADLINE;
	int status = cache_read_view(c, &l->home, &l->view);

	return status ? status : look_classify(c, key, l);
}

struct cache_value look_value(const struct cache *c)
{
	const struct layout_object *h = object_header(c->fetched);
	struct layout_parts parts = {.value_bytes = h->value_bytes};

	if (unlikely(h->part_count))
		memcpy(&parts, object_value(c->fetched), LAYOUT_PARTS_BYTES);
	return (struct cache_value){
	    .data = h->part_count ? c->large.value : object_value(c->fetched),
	    .bytes = (uint32_t)parts.value_bytes,
	    .flags = h->flags,
	    .marks = h->marks,
	    .cas_id = h->cas_id,
	    .expiry_ms = h->expiry_ms,
	};
}

/* A verified object lies in the buffer. */
static void classify_valid(struct cache *c, struct cache_key key, struct look *l, unsigned slot,
			   uint32_t chunk, const uint8_t *buffer)
{
	const struct layout_object *h = object_header(buffer);

	if (!object_key_is(buffer, key.data, key.bytes) &&
	    pool_rule(c->cn->pool, RULE_READ_CHECKS_KEY)) {
		l->foreign |= 1u << slot;
		look_know(l, slot, look_word(c, l, slot));
		return;
	}
	enum cache_over over = cache_is_over(c, h);

	if (unlikely(over)) {
		l->dead |= 1u << slot;
		l->invalid |= 1u << slot;
		*(over == CACHE_EXPIRED ? &l->expired : &l->flushed) |= 1u << slot;
		l->over_slot = slot;
		l->over_chunk = chunk;
		l->over_generation = h->generation;
		l->over_sn = h->sn;
		return;
	}
	if (!l->match) {
		l->old_chunk = chunk;
		l->old_generation = h->generation;
		l->old_sn = h->sn;
		l->old_flush = h->flush_generation;
		l->old_cas_id = h->cas_id;
	}
	l->match |= 1u << slot;
}

/* One word of our fingerprint. */
static MAY_WAIT int classify_word(struct cache *c, struct cache_key key, struct look *l,
				  unsigned slot)
{
	uint64_t word = look_word(c, l, slot);
	uint32_t chunk;
	int verdict;

	if (l->known_slots >> slot & 1 && l->known[slot] == word) {
		l->foreign |= 1u << slot;
		return 0;
	}
	chunk = cn_chunk_of(c->cn, word);
	if (cn_word_is_stale(c->cn, c->worker, word, chunk)) {
		/* Also a tentative one: its owner died, and its chunk was freed. */
		l->dead |= 1u << slot;
		/* The home bucket alone: half the false ghosts, and inserts go there first. */
		if (slot < LAYOUT_BUCKET_SLOTS)
			l->ghost |= (uint8_t)cn_word_is_ghost(c->cn, word, chunk);
		return 0;
	}
	if (unlikely(index_is_tentative(word))) {
		l->tentative |= 1u << slot;
		return 0;
	}
	cn_prefetch_counters(c->cn, chunk);
	/* The lowest match stays where it is; what comes behind it goes elsewhere. */
	uint8_t *buffer = l->match ? c->other : c->fetched;
	int status = cache_fetch(c, word, chunk, l->purpose, buffer, &verdict);

	if (status)
		return status;
	if (likely(verdict == OBJECT_VALID)) {
		classify_valid(c, key, l, slot, chunk, buffer);
	} else {
		l->dead |= 1u << slot;
		l->invalid |= 1u << slot;
	}
	return 0;
}

/*
 * If the checksum of the value does not fit, either
 * the head was taken out meanwhile, and then its word has changed; or a node died while it stored
 * the value, and then the head is as invalid as any object that cannot be read.
 */
int look_parts(struct cache *c, const struct look *l)
{
	unsigned slot = lowest_slot(l->match);
	const struct plan *p = &c->cn->pool->plan;
	uint64_t number = index_slot_number(&l->home, slot), word = look_word(c, l, slot), now;
	struct parts_list parts;
	int good = 0, won, status = 0;

	if (likely(!index_is_head(word)))
		return 0;
	if (parts_of(p, c->fetched, &parts))
		status = large_read(c, &parts, &good);
	if (status || good)
		return status;
	struct fab_op op = fab_read(FAB_INDEX, plan_slot_address(p, number), &now, 8);

	status = flow_run(c->worker, &op, 1);
	if (!status && now == word) {
		status = cache_clear_slot(c, number, word, STATS_invalid, &won);
		c->count.invalid_removed += (uint64_t)won;
	}
	return status ? status : FORGE_E_AGAIN;
}

int look_classify(struct cache *c, struct cache_key key, struct look *l)
{
	const struct plan *p = &c->cn->pool->plan;
	uint32_t ours = index_view_slots_of(p, &l->view, l->home.fingerprint);
	int status = 0;

	l->match = l->dead = l->invalid = l->expired = l->flushed = l->foreign = l->tentative = 0;
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

		if (!status && *all && (l->expired | l->flushed) >> slot & 1) {
			c->count.over_removed++;
			if (slot == l->over_slot)
				status = cache_note_dead(c, l->over_chunk, l->over_generation,
							 l->over_sn);
		}
		if (status)
			return status;
		mask &= ~(1u << slot);
	}
	return tally_tell_in_time(&c->tally, c->worker);
}
