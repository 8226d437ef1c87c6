/*
 * scan.c: finding every key of a bucket beside traffic.
 *
 * The order of verbs.  READ the slots of the home's neighbourhood, one word a READ, from the last
 * slot to the first; READ the object of each live word, and report those whose home it is; READ
 * the words of objects that were invalid again, and start over if one of them has changed.
 *
 * The argument.  A key that stays has at each moment a word that leads to its value.
 *  - The word may move to another slot only when two Sets inserted the key at once: the lower one
 *    stays, and it is in its slot before anyone removes the higher one (set.c).  So a key moves
 *    downwards, and is never nowhere.  Who READs from high to low meets it: to be missed, the
 *    higher slot would have to be READ after the removal, hence the lower one, READ still later,
 *    after the insert.  A single READ of the neighbourhood promises no order among its words.
 *  - The word in a slot may be replaced, by an update or a regroup, before its object has been
 *    READ, and the old chunk re-used: then the object is invalid and the word has changed.  The
 *    key may also have moved down by then, so the whole neighbourhood is READ again.
 *  - A word whose object is invalid and that has not changed leads nowhere; nor do stale words,
 *    which a Get would take for a miss, and tentative ones, which are not yet.
 * Words already reported are not READ again in the next pass; one that changed is, so that a key
 * may be reported twice.
 */
#include "cache/scan.h"

#include <string.h>

#include "cache/look.h"
#include "pool/object.h"

/* Each pass but the first needs a chunk to be re-used between two READs. */
#define SCAN_PASSES_MAX 64u

struct scan_home {
	uint32_t bucket;
	cache_scan_fn each;
	void *context;
	uint64_t words[LAYOUT_NEIGHBOURHOOD];
	uint64_t reported[LAYOUT_NEIGHBOURHOOD]; /* 0: none */
};

static uint64_t slot_address(const struct cache *c, const struct scan_home *s, unsigned slot)
{
	return plan_slot_address(&c->cn->pool->plan,
				 (uint64_t)s->bucket * LAYOUT_BUCKET_SLOTS + slot);
}

/* READ the words of the slots of a mask in one ordered batch, from high to low. */
static MAY_WAIT int read_words(struct cache *c, const struct scan_home *s, uint32_t mask,
			       uint64_t words[LAYOUT_NEIGHBOURHOOD])
{
	struct fab_op ops[LAYOUT_NEIGHBOURHOOD];
	unsigned n = 0;

	while (mask) {
		unsigned slot = pool_rule(c->cn->pool, RULE_SCAN_DOWNWARDS) ? highest_slot(mask)
									    : lowest_slot(mask);

		ops[n++] = fab_read(FAB_INDEX, slot_address(c, s, slot), &words[slot], 8);
		mask &= ~(1u << slot);
	}
	return flow_run(c->worker, ops, n);
}

/* READ the object and report it if it is live and at home here. */
static MAY_WAIT int look_at(struct cache *c, struct scan_home *s, unsigned slot, uint32_t chunk,
			    int *verdict)
{
	int status = cache_fetch(c, s->words[slot], chunk, FAB_INDEX, c->fetched, verdict);

	if (status || *verdict != OBJECT_VALID)
		return status;
	const struct layout_object *h = object_header(c->fetched);
	struct cache_key key = {object_key(c->fetched), h->key_bytes};
	struct index_home home = index_locate(&c->cn->pool->plan, key.data, key.bytes);

	s->reported[slot] = s->words[slot];
	if (home.bucket != s->bucket || home.fingerprint != index_fingerprint(s->words[slot]) ||
	    cache_is_over(c, h))
		return 0;
	struct cache_value value = look_value(c);

	if (h->part_count)
		value.data = NULL;
	s->each(s->context, key, &value);
	return 0;
}

/* One pass; FORGE_E_AGAIN: another one is needed. */
static MAY_WAIT int scan_once(struct cache *c, struct scan_home *s)
{
	uint64_t again[LAYOUT_NEIGHBOURHOOD];
	uint32_t invalid = 0;
	int status = read_words(c, s, (1u << LAYOUT_NEIGHBOURHOOD) - 1, s->words);

	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD && !status; slot++) {
		uint32_t chunk = cn_chunk_of(c->cn, s->words[slot]);
		int verdict = OBJECT_VALID;

		if (index_is_object(s->words[slot]) && !index_is_tentative(s->words[slot]) &&
		    s->words[slot] != s->reported[slot] &&
		    !cn_word_is_stale(c->cn, c->worker, s->words[slot], chunk))
			status = look_at(c, s, slot, chunk, &verdict);
		invalid |= (uint32_t)(verdict != OBJECT_VALID) << slot;
	}
	if (status || !invalid)
		return status;
	status = read_words(c, s, invalid, again);
	for (; invalid && !status; invalid &= invalid - 1)
		if (again[lowest_slot(invalid)] != s->words[lowest_slot(invalid)])
			status = FORGE_E_AGAIN;
	return status;
}

int cache_scan_home(struct cache *c, uint32_t bucket, cache_scan_fn each, void *context)
{
	struct scan_home s = {.bucket = bucket, .each = each, .context = context};
	int status = cache_begin(c);

	if (status)
		return status;
	status = FORGE_E_AGAIN;
	for (unsigned pass = 0; pass < SCAN_PASSES_MAX && status == FORGE_E_AGAIN; pass++)
		status = scan_once(c, &s);
	return status;
}
