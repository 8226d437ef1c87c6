/*
 * slot.c: which slot an insert takes.
 *
 * Every insert, one-phase (set.c) or two-phase (change.c), goes through slot_choose(), so that the
 * rules about stale words and full buckets are in one place.  The argument is in set.c.
 */
#include "cache/place.h"

/*
 * The best free slot of one bucket, -1 if there is none: an empty one, then the stale one that
 * is no ghost, then the oldest ghost.
 */
static int free_slot_of(const struct cache *c, const struct look *l, unsigned first)
{
	int best = -1;
	uint32_t best_age = 0;

	for (unsigned slot = first; slot < first + LAYOUT_BUCKET_SLOTS; slot++) {
		uint64_t word = look_word(c, l, slot);

		if (index_blocks(word) == INDEX_BLOCKS_EMPTY)
			return (int)slot;
		uint32_t chunk = cn_chunk_of(c->cn, word);

		/* A tentative word is stale when a dead node's: what is left of it is room. */
		if (!cn_word_is_stale(c->cn, c->worker, word, chunk))
			continue;
		uint32_t age = cn_lives_behind(c->cn, word, chunk);

		if (!cn_word_is_ghost(c->cn, word, chunk))
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
		uint32_t chunk = cn_chunk_of(c->cn, word);
		uint32_t count = 0;

		if (ops[slot].status == 0 && chunk != UINT32_MAX &&
		    headers[slot].sn < p->group_objects)
			count = cn_count(c->cn, chunk, headers[slot].sn);
		if (!index_is_tentative(word) && count < least &&
		    (is_highest(c, l, slot) || !pool_rule(c->cn->pool, RULE_FULL_TAKES_HIGHEST))) {
			least = count;
			*out = slot;
		}
	}
	return least == UINT32_MAX ? FORGE_E_AGAIN : 0;
}

int slot_choose(struct cache *c, const struct look *l, unsigned *slot)
{
	const struct pool *pool = c->cn->pool;
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
