/*
 * get.c: Get, and what every flow needs to read the index.
 *
 * A Get READs both buckets of the key and then, in slot order, the objects of the words that
 * match: the lowest verified match is the value.  It trusts nothing it READ: the object must
 * carry the word's generation, the key, a length that fits and a good checksum.  If not, the
 * object's chunk was re-used under the word; if the word is still there it points to nothing
 * that can come back and is CASed away, otherwise the Get starts again.  It may give up with a
 * miss at any time; it never returns what it did not verify.
 *
 * A stale word below the match is CASed away before the match is believed.  It may be this key's:
 * inserted and evicted while the Set of the match was on its way from its READ to its CAS, so
 * that neither of the two has seen the other yet.  If we returned the newer value and left the
 * word, a node with an older map would next read the older one, which is still intact.
 */
#include "cache/cache.h"

#include "pool/object.h"

#define GET_TRIES_MAX 8u

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

int cache_swap_slot(struct cache *c, uint64_t slot, uint64_t from, uint64_t to, int *won)
{
	struct fab_op op =
	    fab_cas(FAB_INDEX, plan_slot_address(&c->cn->pool->plan, slot), from, to);
	int status = flow_run(c->worker, &op, 1);

	*won = fab_cas_won(&op);
	return status;
}

int cache_fetch(struct cache *c, uint64_t word, enum fab_purpose purpose, int *verdict)
{
	const struct pool *pool = c->cn->pool;
	const struct plan *p = &pool->plan;
	uint64_t address = index_object_address(word);
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint64_t bytes = index_object_bytes(word);
	int check_sum = pool_rule(pool, RULE_READ_CHECKS_CHECKSUM);

	*verdict = OBJECT_INVALID;
	if (unlikely(chunk == UINT32_MAX))
		return 0; /* no honest word points outside the chunks */
	uint64_t room = plan_chunk_address(p, chunk) + p->chunk_bytes - address;

	if (unlikely(bytes > room + LAYOUT_PAD_BYTES))
		return 0; /* nor beyond its chunk, but for the rounding of the length */

	for (int again = 0; again < 2; again++) {
		struct fab_op op = fab_read(purpose, address, c->fetched, (uint32_t)bytes);
		int status = flow_run(c->worker, &op, 1);

		if (status)
			return status;
		*verdict = object_check(c->fetched, bytes, check_sum);
		if (likely(*verdict != OBJECT_SHORT))
			break;
		/* Longer than the word can say: the header knows, if it is one. */
		bytes = (uint64_t)object_units(c->fetched) * LAYOUT_UNIT_BYTES;
		if (index_blocks(word) != INDEX_BLOCKS_HEADER || bytes > room)
			break;
	}
	if (*verdict != OBJECT_VALID) {
		*verdict = OBJECT_INVALID;
		return 0;
	}
	uint32_t generation = object_header(c->fetched)->generation;

	if (index_generations_behind(p, word, generation) != 0 &&
	    pool_rule(pool, RULE_READ_CHECKS_GENERATION))
		*verdict = OBJECT_INVALID;
	return 0;
}

/* Count a hit where the policy can see it. */
static void count_hit(struct cache *c, const struct index_view *view, unsigned slot, uint64_t word)
{
	const struct plan *p = &c->cn->pool->plan;
	const struct layout_object *h = object_header(c->fetched);
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint32_t sn = h->sn;

	if (p->slot_words == 2) {
		/* As published: the group word says where to count, while it is current. */
		uint64_t group = index_view_group(p, view, slot);

		if (group_version(group) != index_word_version(p, word) ||
		    group_chunk(group) != chunk)
			return;
		sn = group_sn(group);
	}
	if (sn < p->group_objects)
		cn_count_hit(c->cn, chunk, sn);
}

/*
 * The word's object is invalid.  CAS the word away if it is still there; *changed if it is not
 * and the flow has to look again.
 */
static MAY_WAIT int remove_invalid(struct cache *c, uint64_t slot, uint64_t word, int *changed)
{
	uint64_t now;
	struct fab_op op =
	    fab_read(FAB_INDEX, plan_slot_address(&c->cn->pool->plan, slot), &now, 8);
	int status = flow_run(c->worker, &op, 1);
	int won = 0;

	*changed = now != word;
	if (status || *changed || !pool_rule(c->cn->pool, RULE_GET_REMOVES_INVALID))
		return status;
	status = cache_swap_slot(c, slot, word, 0, &won);
	c->count.invalid_removed += (uint64_t)won;
	return status;
}

/* Stale words in front of a match: away with them, then look again. */
static MAY_WAIT int clear_stale(struct cache *c, const struct index_home *home,
				const struct index_view *view, uint32_t slots)
{
	const struct plan *p = &c->cn->pool->plan;
	struct fab_op ops[LAYOUT_NEIGHBOURHOOD];
	unsigned n = 0;

	for (; slots; slots &= slots - 1) {
		unsigned slot = (unsigned)__builtin_ctz(slots);

		ops[n++] = fab_cas(FAB_INDEX, plan_slot_address(p, index_slot_number(home, slot)),
				   index_view_word(p, view, slot), 0);
	}
	return flow_run(c->worker, ops, n);
}

/* One look: 0 hit, FORGE_MISS, FORGE_E_AGAIN when something moved. */
static MAY_WAIT int look_once(struct cache *c, struct cache_key key, const struct index_home *home)
{
	const struct pool *pool = c->cn->pool;
	struct index_view view;
	uint32_t stale = 0;
	int status = cache_read_view(c, home, &view);

	for (unsigned slot = 0; !status && slot < LAYOUT_NEIGHBOURHOOD; slot++) {
		uint64_t word = index_view_word(&pool->plan, &view, slot);
		int verdict, changed;

		if (index_fingerprint(word) != home->fingerprint || !index_is_object(word))
			continue;
		if (cn_word_is_stale(c->cn, c->worker, word)) {
			stale |= 1u << slot;
			continue;
		}
		status = cache_fetch(c, word, FAB_DATA, &verdict);
		if (status)
			return status;
		if (likely(verdict == OBJECT_VALID)) {
			if (object_key_is(c->fetched, key.data, key.bytes) ||
			    !pool_rule(pool, RULE_READ_CHECKS_KEY)) {
				if (unlikely(stale) && pool_rule(pool, RULE_GET_CLEARS_STALE)) {
					status = clear_stale(c, home, &view, stale);
					return status ? status : FORGE_E_AGAIN;
				}
				count_hit(c, &view, slot, word);
				return 0;
			}
			continue;
		}
		status = remove_invalid(c, index_slot_number(home, slot), word, &changed);
		if (!status && changed)
			return FORGE_E_AGAIN;
	}
	return status ? status : FORGE_MISS;
}

int cache_get(struct cache *c, struct cache_key key, struct cache_value *out)
{
	int status = cache_key_check(key);

	if (unlikely(status))
		return status;
	status = cache_poll_if_due(c);
	if (unlikely(status))
		return status;
	struct index_home home = index_locate(&c->cn->pool->plan, key.data, key.bytes);

	c->count.gets++;
	status = FORGE_E_AGAIN;
	for (unsigned try = 0; try < GET_TRIES_MAX && status == FORGE_E_AGAIN; try++)
		status = look_once(c, key, &home);
	if (status == FORGE_E_AGAIN) {
		c->count.get_retries_exhausted++;
		return FORGE_MISS;
	}
	if (status)
		return status;
	const struct layout_object *h = object_header(c->fetched);

	c->count.hits++;
	*out = (struct cache_value){
	    .data = object_value(c->fetched),
	    .bytes = h->value_bytes,
	    .flags = h->flags,
	    .cas_id = h->cas_id,
	    .expiry_ms = h->expiry_ms,
	};
	return 0;
}
