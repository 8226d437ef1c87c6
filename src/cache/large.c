/*
 * large.c: the transcript of the argument in pool/parts.h, for the flows of a compute node.
 *
 * Whose a chunk is after each step of an operation that stores a value in parts:
 *   gather()                     in hand, which is this operation's alone (c->large)
 *   WRITE of the parts           in hand: nothing points there, so an operation that starts again
 *                                may WRITE another value there
 *   CAS of the slot, lost        in hand
 *   CAS of the slot, won for a   the head's, wherever it moves.  Still reserved in our name, so
 *   head that lists it           whoever takes the head out cannot free it
 *   CAS to part(s, g)            the head's still, or nobody's if it is out of the slot by now
 *   READ of the slot             who takes the head out later frees it; if it was out, we did
 *   the operation is over        what is in hand is given back, whatever came of it (place_land())
 *
 * Winning a slot is not enough: an operation that looks at the present value may have gathered for
 * what it made of that, lose, and store something small the next time, which may even get the place
 * of the head it did not become.  What is in hand then stays there (RULE_PARTS_OF_A_HEAD).
 *
 * Who takes a head out has READ its list before, with one exception: a regroup may have freed the
 * chunk of a head it has yet to move, and the READ shows that chunk's next life.  So who cannot
 * READ the head leaves its parts: the regroup has the list, finds that its head did not move, looks
 * at the slot (large_settle()) and frees them.  It decides once, before its first verb, whether a
 * head moves or is dropped, and does one of the two with each.
 */
#include "cache/large.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

int large_init(struct cache *c)
{
	const struct plan *p = &c->cn->pool->plan;
	uint64_t stored_bytes = round_up_u64((uint64_t)p->chunk_bytes + LAYOUT_PAD_BYTES, 64);
	uint64_t value_bytes = round_up_u64(p->value_bytes_max, 64);
	uint64_t chunk_bytes = round_up_u64(p->part_count_max * sizeof(struct lane_chunk), 64);

	c->large = (struct cache_large){0};
	if (p->part_count_max == 0)
		return 0;
	/* What is never used is never backed: large allocations come as untouched pages. */
	uint8_t *memory = aligned_alloc(64, 2 * stored_bytes + value_bytes + chunk_bytes);

	if (!memory)
		return FORGE_E_NO_MEMORY;
	int status = fab_reg(c->worker->fab, memory, 2 * stored_bytes + value_bytes);

	if (status) {
		free(memory);
		return status;
	}
	c->large = (struct cache_large){
	    .stored = memory,
	    .head = memory + stored_bytes,
	    .value = memory + 2 * stored_bytes,
	    .chunks = (struct lane_chunk *)(void *)(memory + 2 * stored_bytes + value_bytes),
	};
	return 0;
}

void large_fini(struct cache *c)
{
	free(c->large.stored);
	c->large = (struct cache_large){0};
}

/* ---- gathering ---------------------------------------------------------------------------- */

int large_abandon(struct cache *c)
{
	int status = 0;

	while (c->large.count > 0) {
		int given = lane_give(c->lane, c->worker, c->large.chunks[--c->large.count]);

		status = status ? status : given;
	}
	return status;
}

/*
 * What this worker holds open may be all there is to evict: heads in open groups own chunks.
 * Groups with Sets in flight are sealed when those land.
 */
static MAY_WAIT int close_groups(struct cache *c)
{
	int status = 0;

	for (uint32_t stream = 0; stream < LANE_STREAMS; stream++)
		while (c->lane->filling_count[stream] > 0 && !status)
			status = cache_close_group(c, stream);
	return status;
}

/* FORGE_MISS: another fiber of the lane was at it. */
static MAY_WAIT int reserve_try(struct cache *c)
{
	struct lane *lane = c->lane;

	if (lane->refilling) {
		flow_pause(c->worker);
		return FORGE_MISS;
	}
	lane->refilling = 1;
	int status = cache_reserve_try(c);

	lane->refilling = 0;
	return status;
}

/*
 * Until the wanted number is in hand.  FORGE_E_NO_SPACE: too often there was nothing to be had.
 *
 * Groups that were in hand and brought no chunk went round again, with lower counts; after a few
 * trips one is freed.  Only when there were none, or all had their trips, is it time to close what
 * this worker fills: groups sealed sooner hold little, and the pool with them.
 */
static MAY_WAIT int gather_once(struct cache *c, struct lane_gather *g)
{
	struct lane *lane = c->lane;
	uint64_t trips_max = LARGE_TRIPS * (uint64_t)c->cn->pool->plan.chunk_count;
	uint64_t fruitful = cache_groups_had(c);
	uint32_t fruitless = 0;

	while (g->count < g->want) {
		if (lane->reserve_count > 0) {
			g->chunks[g->count++] = lane->reserve[--lane->reserve_count];
			fruitful = cache_groups_had(c);
			fruitless = 0;
			continue;
		}
		uint32_t before = g->count;
		uint64_t had = cache_groups_had(c);
		int status = reserve_try(c);

		if (status == FORGE_MISS)
			continue;
		if (status)
			return status;
		if (g->count > before || lane->reserve_count > 0)
			continue;
		if (cache_is_late(c))
			return FORGE_E_DEADLINE;
		if (cache_groups_had(c) > had && cache_groups_had(c) - fruitful < trips_max)
			continue;
		if (++fruitless == LARGE_FRUITLESS_MAX)
			return FORGE_E_NO_SPACE;
		status = close_groups(c);
		if (status)
			return status;
	}
	return 0;
}

/*
 * Gather want chunks.  Several workers that gather at once may between them hold all chunks there
 * are, none of them enough: who finds nothing for long gives back what it has, waits for a random
 * while and starts again, so that one of them gets through.
 */
static MAY_WAIT int gather(struct cache *c, uint32_t want)
{
	struct lane *lane = c->lane;
	int status = FORGE_E_NO_SPACE;

	uint64_t start_us = worker_now_us(c->worker);
	/* cache_reserve() may go through the rings as often, and alone. */
	uint64_t rounds_max = LARGE_GATHER_ROUNDS + c->cn->pool->plan.chunk_count;

	for (uint64_t round = 0; round < rounds_max && status == FORGE_E_NO_SPACE; round++) {
		struct lane_gather g = {.chunks = c->large.chunks, .want = want};

		if (round >= LARGE_GATHER_ROUNDS &&
		    worker_now_us(c->worker) - start_us > LARGE_GATHER_US)
			break;
		for (uint64_t naps = round ? prng_below(&c->worker->prng, 64) : 0; naps; naps--)
			flow_pause(c->worker);
		lane_gather_begin(lane, &g);
		status = gather_once(c, &g);
		lane_gather_end(lane, &g);
		c->large.count = g.count;
		if (status) {
			int given = large_abandon(c);

			status = given ? given : status;
		}
	}
	return status;
}

/* ---- storing ------------------------------------------------------------------------------ */

/* WRITE the parts, whose bytes lie in c->large.value. */
static MAY_WAIT int write_parts(struct cache *c, uint64_t in_parts)
{
	const struct plan *p = &c->cn->pool->plan;

	for (uint32_t i = 0; i < c->large.count;) {
		struct fab_op ops[PARTS_BATCH];
		uint32_t n = 0;

		for (; n < PARTS_BATCH && i < c->large.count; n++, i++)
			ops[n] =
			    fab_write(FAB_DATA, plan_chunk_address(p, c->large.chunks[i].chunk),
				      c->large.value + (uint64_t)i * p->chunk_bytes,
				      parts_bytes(p, in_parts, i));
		int status = flow_run(c->worker, ops, n);

		if (status)
			return status;
	}
	return 0;
}

int large_prepare(struct cache *c, const void *value, uint32_t value_bytes, uint32_t *stored_bytes)
{
	const struct plan *p = &c->cn->pool->plan;
	struct plan_cut cut = plan_cut(p, value_bytes);
	struct layout_parts fixed = {
	    .value_bytes = value_bytes,
	    .checksum = hash_checksum(0, value, value_bytes),
	};
	uint8_t *at = c->large.stored + LAYOUT_PARTS_BYTES;

	assert(cut.part_count >= 1 && cut.part_count <= p->part_count_max);
	/* From here on it is in memory that the fabric knows. */
	if (value != c->large.value)
		memmove(c->large.value, value, value_bytes);
	int status = 0;

	/* Those of an earlier try, which no slot ever pointed to, will do. */
	if (c->large.count != cut.part_count) {
		status = large_abandon(c);
		if (!status)
			status = gather(c, cut.part_count);
	}
	if (status)
		return status;
	c->large.value_bytes = value_bytes - cut.rest_bytes;
	memcpy(c->large.stored, &fixed, LAYOUT_PARTS_BYTES);
	for (uint32_t i = 0; i < cut.part_count; i++, at += LAYOUT_PART_BYTES) {
		uint64_t part = part_pack(c->large.chunks[i].chunk, c->large.chunks[i].generation);

		memcpy(at, &part, sizeof(part));
	}
	memcpy(at, c->large.value + value_bytes - cut.rest_bytes, cut.rest_bytes);
	*stored_bytes = parts_stored_bytes(cut);
	if (!pool_rule(c->cn->pool, RULE_PARTS_WRITTEN_FIRST))
		return 0;
	status = write_parts(c, c->large.value_bytes);
	return status;
}

/* Make the chunks in hand parts of the head in a slot; *word is what the slot holds after it. */
static MAY_WAIT int make_parts(struct cache *c, uint64_t slot, uint64_t *word)
{
	const struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	uint32_t count = c->large.count;

	for (uint32_t i = 0; i < count;) {
		struct fab_op ops[PARTS_BATCH + 2];
		uint32_t n = 0;

		for (; n < PARTS_BATCH && i < count; n++, i++) {
			struct lane_chunk part = c->large.chunks[i];

			ops[n] = fab_cas(FAB_SPACE, plan_chunk_word_address(p, part.chunk),
					 chunk_pack_reserved(cn->member.cn, part.generation),
					 chunk_pack_part(part.generation, slot));
		}
		if (i == count) {
			ops[n++] = fab_faa(FAB_SPACE, plan_part_chunks_address(p), count);
			ops[n++] = fab_read(FAB_INDEX, plan_slot_address(p, slot), word, 8);
		}
		int status = flow_run(c->worker, ops, n);

		if (status)
			return status;
	}
	return 0;
}

int large_link(struct cache *c, uint64_t slot, uint64_t word)
{
	const struct pool *pool = c->cn->pool;
	struct parts_list ours;
	uint64_t now = 0;
	int status = 0;

	if (c->large.count == 0)
		return 0;
	if (!pool_rule(pool, RULE_PARTS_WRITTEN_FIRST))
		status = write_parts(c, c->large.value_bytes);
	if (!status)
		status = make_parts(c, slot, &now);
	c->count.parts_linked += status ? 0 : c->large.count;
	c->large.count = 0;
	if (status || now == word || !pool_rule(pool, RULE_PARTS_LOOK_AGAIN))
		return status;
	/* Moved, touched or taken out: by someone who may have come before they were parts. */
	return parts_of(&pool->plan, c->object, &ours) ? large_settle(c, &ours, slot, FAB_SPACE)
						       : 0;
}

int large_settle(struct cache *c, const struct parts_list *list, uint64_t slot,
		 enum fab_purpose purpose)
{
	uint32_t chunk = part_chunk(parts_at(list, 0)),
		 generation = part_generation(parts_at(list, 0));
	struct parts_slot at;
	int status = FORGE_E_AGAIN;

	for (unsigned round = 0; round < LARGE_SETTLE_ROUNDS && status == FORGE_E_AGAIN; round++) {
		status = parts_look(c->cn->pool, c->worker, purpose, slot, c->large.head, &at);
		c->tally.count[STATS_evicted] += at.dropped;
		c->tally.untold += at.dropped;
	}
	if (unlikely(status == FORGE_E_AGAIN)) {
		c->count.parts_left += list->count;
		return 0;
	}
	if (status)
		return status;
	if (at.is_head && parts_name(&at.list, chunk, generation))
		return 0;
	return large_free_old(c, list, slot, purpose);
}

/* ---- reading and freeing ------------------------------------------------------------------ */

int large_read(struct cache *c, const struct parts_list *list, int *good)
{
	int status = parts_read(c->cn->pool, c->worker, FAB_DATA, list, c->large.value, good);

	*good |= !pool_rule(c->cn->pool, RULE_PARTS_CHECKSUM);
	return status;
}

int large_note_old(struct cache *c, uint64_t word, struct parts_list *old)
{
	int verdict, status;

	old->count = 0;
	if (likely(!index_is_head(word)))
		return 0;
	status = cache_fetch(c, word, cn_chunk_of(c->cn, word), FAB_INDEX, c->large.head, &verdict);
	/* What cannot be READ any more is left to the regroup that has its chunk; see above. */
	if (!status && verdict == OBJECT_VALID && !parts_of(&c->cn->pool->plan, c->large.head, old))
		old->count = 0;
	return status;
}

/* One batch: parts [*from, ...) of the list; *from moves on. */
static MAY_WAIT int free_batch(struct cache *c, const struct parts_list *old, uint64_t slot,
			       enum fab_purpose purpose, uint32_t *from)
{
	struct cn *cn = c->cn;
	const struct plan *p = &cn->pool->plan;
	struct lane_chunk freed[PARTS_BATCH];
	struct fab_op ops[PARTS_BATCH];
	uint32_t n = 0;

	for (; n < PARTS_BATCH && *from < old->count; n++, *from += 1) {
		uint64_t part = parts_at(old, *from);
		uint32_t generation = part_generation(part);
		uint32_t next = pool_rule(cn->pool, RULE_PARTS_RAISE_GENERATION)
				    ? generation_next(generation)
				    : generation;

		freed[n] = (struct lane_chunk){part_chunk(part), next};
		ops[n] = fab_cas(purpose, plan_chunk_word_address(p, freed[n].chunk),
				 chunk_pack_part(generation, slot),
				 chunk_pack_reserved(cn->member.cn, next));
	}
	int status = flow_run(c->worker, ops, n);
	uint32_t won = 0;

	for (uint32_t i = 0; i < n && !status; i++) {
		if (!fab_cas_won(&ops[i]))
			continue;
		won++;
		cn_note(cn, freed[i].chunk, ops[i].swap, NULL, 0);
		status = lane_give(c->lane, c->worker, freed[i]);
	}
	c->count.parts_freed += won;
	if (status || won == 0)
		return status;
	ops[0] = fab_faa(purpose, plan_part_chunks_address(p), -(uint64_t)won);
	return flow_run(c->worker, ops, 1);
}

int large_free_old(struct cache *c, const struct parts_list *old, uint64_t slot,
		   enum fab_purpose purpose)
{
	int status = 0;

	for (uint32_t i = 0; i < old->count && !status;)
		status = free_batch(c, old, slot, purpose, &i);
	return status;
}
