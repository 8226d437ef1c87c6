/*
 * get.c: Get, and what every flow needs to read the index.
 *
 * A Get READs both buckets of the key and the objects of the words that match.  It trusts nothing
 * it READ: the object must carry the word's generation, the key, a length that fits and a good
 * checksum.  It may give up with a miss at any time; it never returns what it did not verify.
 *
 * The argument.  A value is returned only when its word stands alone: no second match, no stale
 * or invalid word of the fingerprint beside it.  Such a word may hold an older value of this key,
 * inserted and evicted (or left by a node that died) while the Set of the match was on its way
 * from its READ to its re-READ, so that no Set has dealt with it yet.  If we returned the newer
 * value and left the word, a node whose map is older, or any node once the newer value is
 * evicted, would next return the older one.  So all but the lowest match are CASed to 0 from the
 * exact words seen, highest first, and the Get looks again.  Where nothing matches, stale words
 * stay: they are misses, and ghosts.  An invalid object's word points to nothing that can come
 * back and is CASed away.
 */
#include "cache/cache.h"
#include "cache/large.h"
#include "cache/look.h"

#include "pool/object.h"

#define GET_TRIES_MAX 8u
/* What is READ of a head at first: the list of 100 parts fits beside a usual key. */
#define HEAD_READ_BYTES 1024u

int cache_key_check(struct cache_key key)
{
	if (key.bytes == 0)
		return FORGE_E_KEY_EMPTY;
	return key.bytes > LAYOUT_KEY_BYTES_MAX ? FORGE_E_KEY_LONG : 0;
}

int cache_read_view(struct cache *c, const struct index_home *home, struct index_view *view)
{
	const struct plan *p = &c->cn->pool->plan;
	struct fab_op op = fab_read(FAB_INDEX, plan_bucket_address(p, home->bucket), view->words,
				    index_view_bytes(p));

	return flow_run(c->worker, &op, 1);
}

int cache_clear_slot(struct cache *c, uint64_t slot, uint64_t from, enum stats_word left, int *won)
{
	struct fab_op op = fab_cas(FAB_INDEX, plan_slot_address(&c->cn->pool->plan, slot), from, 0);
	struct parts_list old;
	int status = large_note_old(c, from, &old);

	*won = 0;
	if (!status)
		status = flow_run(c->worker, &op, 1);
	if (status)
		return status;
	*won = fab_cas_won(&op);
	if (*won)
		tally_swap(&c->tally, from, 0, left);
	if (!*won && pool_rule(c->cn->pool, RULE_PARTS_WINNER_FREES))
		return 0;
	return large_free_old(c, &old, slot, FAB_SPACE);
}

int cache_fetch(struct cache *c, uint64_t word, uint32_t chunk, enum fab_purpose purpose,
		uint8_t *buffer, int *verdict)
{
	const struct pool *pool = c->cn->pool;
	const struct plan *p = &pool->plan;
	uint64_t address = index_object_address(word);
	uint64_t bytes = index_object_bytes(word);
	int check_sum = pool_rule(pool, RULE_READ_CHECKS_CHECKSUM);

	*verdict = OBJECT_INVALID;
	if (unlikely(chunk == UINT32_MAX))
		return 0; /* no honest word points outside the chunks */
	uint64_t room = plan_chunk_address(p, chunk) + p->chunk_bytes - address;

	if (unlikely(index_is_head(word)))
		bytes = min_u64(room, HEAD_READ_BYTES);
	if (unlikely(bytes > room + LAYOUT_PAD_BYTES))
		return 0; /* nor beyond its chunk, but for the rounding of the length */

	for (int again = 0; again < 2; again++) {
		struct fab_op op = fab_read(purpose, address, buffer, (uint32_t)bytes);
		int status = flow_run(c->worker, &op, 1);

		if (status)
			return status;
		*verdict = object_check(buffer, bytes, check_sum);
		if (likely(*verdict != OBJECT_SHORT))
			break;
		/* Longer than the word can say: the header knows, if it is one. */
		bytes = (uint64_t)object_units(buffer) * LAYOUT_UNIT_BYTES;
		if (!index_length_in_header(word) || bytes > room)
			break;
	}
	if (*verdict != OBJECT_VALID) {
		*verdict = OBJECT_INVALID;
		return 0;
	}
	uint32_t generation = object_header(buffer)->generation;

	if (index_generations_behind(p, word, generation) != 0 &&
	    pool_rule(pool, RULE_READ_CHECKS_GENERATION))
		*verdict = OBJECT_INVALID;
	/* No honest writer lets word and header differ about parts. */
	if (unlikely((object_header(buffer)->part_count != 0) != index_is_head(word)))
		*verdict = OBJECT_INVALID;
	return 0;
}

/* Count a hit where the policy can see it. */
static void count_hit(struct cache *c, const struct look *l, unsigned slot)
{
	const struct plan *p = &c->cn->pool->plan;
	uint32_t sn = l->old_sn;

	if (unlikely(p->slot_words == 2)) {
		/* As published: the group word says where to count, while it is current. */
		uint64_t group = index_view_group(p, &l->view, slot);

		if (group_version(group) != index_word_version(p, look_word(c, l, slot)) ||
		    group_chunk(group) != l->old_chunk)
			return;
		sn = group_sn(group);
	}
	if (sn < p->group_objects)
		c->count.hits_counted +=
		    (uint64_t)cn_count_hit(c->cn, l->old_chunk, l->old_generation, sn);
}

/* One look: 0 hit, FORGE_MISS, FORGE_E_AGAIN when it has to look again. */
static MAY_WAIT int look_once(struct cache *c, struct cache_key key, struct look *l)
{
	const struct pool *pool = c->cn->pool;
	int status = look_read(c, key, l), all;
	uint32_t remove = 0;

	if (status)
		return status;
	if (!l->match) {
		if (likely(!l->invalid) || !pool_rule(pool, RULE_GET_REMOVES_INVALID))
			return FORGE_MISS;
		status = look_remove(c, l, l->invalid, STATS_invalid, &all);
		c->count.invalid_removed += (uint64_t)all;
		return status ? status : all ? FORGE_MISS : FORGE_E_AGAIN;
	}
	if (pool_rule(pool, RULE_GET_CLEARS_DEAD))
		remove |= l->dead;
	if (pool_rule(pool, RULE_GET_MERGES_MATCHES))
		remove |= l->match & (l->match - 1);
	if (likely(!remove)) {
		unsigned slot = lowest_slot(l->match);

		count_hit(c, l, slot);
		return look_parts(c, l);
	}
	status = look_remove(c, l, remove, STATS_superseded, &all);
	return status ? status : FORGE_E_AGAIN;
}

int cache_get(struct cache *c, struct cache_key key, struct cache_value *out)
{
	int status = cache_key_check(key);

	if (unlikely(status))
		return status;
	struct look l;

	/* Where to look is known first, so that the rest of the beginning is done meanwhile. */
	look_begin(&l, c, key, FAB_DATA);
	status = cache_begin(c);
	if (unlikely(status))
		return status;
	c->count.gets++;
	status = FORGE_E_AGAIN;
	for (unsigned try = 0; try < GET_TRIES_MAX && status == FORGE_E_AGAIN; try++)
		status = look_once(c, key, &l);
	if (status == FORGE_E_AGAIN) {
		c->count.get_retries_exhausted++;
		return FORGE_MISS;
	}
	if (status)
		return status;
	c->count.hits++;
	*out = look_value(c);
	return 0;
}
