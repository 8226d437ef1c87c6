/*
 * delete.c: Delete.
 *
 * Every slot of the key's fingerprint that is stale or invalid and every verified match is CASed
 * to 0, highest first, and the neighbourhood is READ again until nothing is left.  Highest
 * first, because a reader takes the lowest: removing a lower one first would uncover an older
 * value.  Stale words too, because a node with an older map still reads through them.  A Set
 * that runs at the same time may put the key back; it then came after.
 * Takes effect at the last CAS.  A crash in between leaves the lowest, newest value.
 */
#include "cache/cache.h"
#include "cache/look.h"

#define DELETE_ROUNDS_MAX 64u

int cache_delete(struct cache *c, struct cache_key key)
{
	const struct pool *pool = c->cn->pool;
	struct look l;
	int found = 0;
	int status = cache_key_check(key);

	if (status)
		return status;
	status = cache_begin(c);
	if (status)
		return status;
	c->count.deletes++;
	look_begin(&l, c, key, FAB_INDEX);
	for (unsigned round = 0; round < DELETE_ROUNDS_MAX; round++) {
		int all;

		status = look_read(c, key, &l);
		if (status)
			return status;
		uint32_t remove = l.match;

		if (pool_rule(pool, RULE_DELETE_CLEARS_STALE))
			remove |= l.dead;
		if (!remove)
			return found ? 0 : FORGE_MISS;
		status = look_remove(c, &l, remove, STATS_deleted, &all);
		if (status)
			return status;
		if (all && l.match) {
			if (!found)
				c->count.deletes_found++;
			found = 1;
			cache_commit(c);
			status = cache_note_dead(c, l.old_chunk, l.old_generation, l.old_sn);
			if (status)
				return status;
		}
		if (!pool_rule(pool, RULE_DELETE_REREADS))
			return found ? 0 : FORGE_MISS;
	}
	return FORGE_E_AGAIN;
}
