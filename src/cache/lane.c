/*
 * lane.c: open groups from reserve to stream.
 *
 * Sealing.  Who competes: nobody writes the chunk but this lane, and only when in_flight is zero
 * is every object that could get a slot in place.  So the TWIM is complete when it is written,
 * and it is written before the chunk can be found (posted with the ticket).  A crash before the
 * chunk's word is queued leaves the chunk open in our name: a recoverer scans the index for words
 * that point into it.
 *
 * Several groups of a stream being filled change nothing in that: each has its own count of Sets
 * in flight, no object moves from one to another, and which is sealed first matters to nobody's
 * correctness, for an object's place in the stream's order is its group's ticket.  Fibers of a lane
 * may open or close groups while another one waits, so whoever waited asks lane_fit() again.
 */
#include "cache/lane.h"

#include <stdlib.h>
#include <string.h>

#include "pool/ring.h"

uint64_t lane_memory_bytes(const struct plan *p)
{
	return LANE_GROUPS_MAX * (p->group_objects * sizeof(uint64_t) + p->ofm_row_bytes);
}

int lane_init(struct lane *lane, struct cn *cn)
{
	const struct plan *p = &cn->pool->plan;
	size_t twim_bytes = p->group_objects * sizeof(uint64_t);
	uint8_t *memory = calloc(1, lane_memory_bytes(p));
	uint32_t cap = p->chunk_count / (2 * p->cn_max * cn->worker_count);

	if (!memory)
		return FORGE_E_NO_MEMORY;
	if (!pool_rule(cn->pool, RULE_CN_CHUNK_CAP))
		cap = p->chunk_count;
	*lane = (struct lane){.cn = cn, .memory = memory};
	lane->streams = cap >= LANE_SHARE_FOR_STREAMS ? LANE_STREAMS : RING_QUEUES;
	lane->filling_max = cn->open_groups ? cn->open_groups : cap / LANE_SHARE_PER_FILLING;
	lane->filling_max = lane->filling_max < 1		   ? 1
			    : lane->filling_max > LANE_FILLING_MAX ? LANE_FILLING_MAX
								   : lane->filling_max;
	/* Those are open; at least one chunk in hand lets an eviction finish. */
	uint32_t open = lane->streams * lane->filling_max;

	lane->reserve_cap = cap > open + 1 ? cap - open : 1;
	if (lane->reserve_cap > LANE_RESERVE_MAX)
		lane->reserve_cap = LANE_RESERVE_MAX;
	lane->calm = LANE_SPARE_CALM;
	lane_judge_spare(lane, p->chunk_count);
	for (unsigned i = 0; i < LANE_GROUPS_MAX; i++) {
		lane->groups[i].twim = (uint64_t *)(void *)memory;
		lane->groups[i].carried = memory + twim_bytes;
		memory += twim_bytes + p->ofm_row_bytes;
	}
	return 0;
}

void lane_fini(struct lane *lane)
{
	free(lane->memory);
	lane->memory = NULL;
}

int open_group_fits(const struct plan *p, const struct open_group *g, uint32_t units)
{
	return g->object_count < p->group_objects &&
	       (uint64_t)(g->units_used + units) * LAYOUT_UNIT_BYTES <=
		   plan_group_bytes(p, g->object_count + 1);
}

/* Bytes another object and its TWIM entry may take; 0 when no more members are permitted. */
static uint32_t room_left(const struct plan *p, const struct open_group *g)
{
	if (g->object_count >= p->group_objects)
		return 0;
	return plan_group_bytes(p, g->object_count) - g->units_used * LAYOUT_UNIT_BYTES;
}

struct open_group *lane_fit(const struct lane *lane, uint32_t stream, uint32_t units)
{
	for (uint32_t i = 0; i < lane->filling_count[stream]; i++)
		if (open_group_fits(&lane->cn->pool->plan, lane->filling[stream][i], units))
			return lane->filling[stream][i];
	return NULL;
}

const struct open_group *lane_find(const struct lane *lane, uint32_t chunk, uint32_t generation)
{
	for (unsigned i = 0; i < LANE_GROUPS_MAX; i++) {
		const struct open_group *g = &lane->groups[i];

		if (g->state != OPEN_UNUSED && g->chunk == chunk && g->generation == generation)
			return g;
	}
	return NULL;
}

uint32_t lane_stream_after(const struct lane *lane, uint64_t seen)
{
	const struct cn *cn = lane->cn;
	uint64_t chunks = cn->pool->plan.chunk_count;

	if (lane->streams == RING_QUEUES)
		return RING_MAIN;
	if (chunk_state(seen) == CHUNK_OPEN)
		return LANE_HOT;
	if (chunk_state(seen) != CHUNK_QUEUED || chunk_ring(seen) != RING_MAIN)
		return RING_MAIN;
	uint64_t age = cn_age(cn, seen);

	if (age * LANE_HOT_SHARE < chunks)
		return LANE_HOT;
	return age < chunks ? LANE_WARM : RING_MAIN;
}

int lane_may_open(const struct lane *lane, uint32_t stream, uint32_t units)
{
	return lane->reserve_count > 0 && lane->filling_count[stream] < lane->filling_max &&
	       !lane_fit(lane, stream, units);
}

int lane_is_low(const struct lane *lane, const struct open_group *g)
{
	const struct plan *p = &lane->cn->pool->plan;

	/* A share of one chunk is for what is open and for an eviction to end, not for waiting. */
	return lane->reserve_count == 0 && lane->reserve_cap > 1 && !lane->reserving &&
	       (g->object_count + p->group_objects / LANE_LOW_SHARE >= p->group_objects ||
		room_left(p, g) < plan_group_bytes(p, 0) / LANE_LOW_SHARE);
}

/* Which of the groups being filled has the least room; there is one. */
static uint32_t fullest(const struct lane *lane, uint32_t stream)
{
	const struct plan *p = &lane->cn->pool->plan;
	uint32_t best = 0;

	for (uint32_t i = 1; i < lane->filling_count[stream]; i++)
		if (room_left(p, lane->filling[stream][i]) <
		    room_left(p, lane->filling[stream][best]))
			best = i;
	return best;
}

int lane_is_crowded(const struct lane *lane, uint32_t stream)
{
	const struct plan *p = &lane->cn->pool->plan;

	if (lane->filling_count[stream] == 0)
		return 0;
	return lane->filling_count[stream] >= lane->filling_max ||
	       room_left(p, lane->filling[stream][fullest(lane, stream)]) <
		   plan_expected_bytes(p) + TWIM_BYTES;
}

struct lane_place open_group_take(const struct plan *p, struct open_group *g, uint32_t units)
{
	struct lane_place place = {
	    .group = g,
	    .address =
		plan_chunk_address(p, g->chunk) + (uint64_t)g->units_used * LAYOUT_UNIT_BYTES,
	    .sn = g->object_count,
	    .units = units,
	};

	assert(open_group_fits(p, g, units));
	/* Until its result is known the member counts as dead. */
	g->twim[place.sn] = twim_pack(units, 0, 0, TWIM_SLOT_DEAD);
	g->carried[place.sn] = 0;
	g->units_used += units;
	g->object_count++;
	g->in_flight++;
	return place;
}

void open_group_record(struct lane_place place, uint64_t twim_entry, uint8_t carried)
{
	place.group->twim[place.sn] = twim_entry;
	place.group->carried[place.sn] = carried;
}

static MAY_WAIT int seal(struct lane *lane, struct worker *w, struct open_group *g,
			 uint64_t *scratch)
{
	const struct pool *pool = lane->cn->pool;
	uint32_t n = g->object_count;
	uint64_t position;

	for (uint32_t sn = 0; sn < n; sn++)
		scratch[plan_twim_index(sn, n)] = g->twim[sn];
	struct fab_op op = fab_write(FAB_SPACE, plan_twim_address(&pool->plan, g->chunk, n),
				     scratch, n * TWIM_BYTES);
	struct ring_entry entry = {
	    .chunk = g->chunk,
	    .generation = g->generation,
	    .object_count = n,
	    .segment = g->ring == RING_MAIN ? lane->cn->policy->segment(g->heat, n) : 0,
	    .owned_word = g->word,
	};

	if (lane->cn->late_groups < 0)
		for (uint32_t sn = 0; sn < n; sn++)
			g->carried[sn] = cn_count(lane->cn, g->chunk, sn);
	int status = ring_enqueue_behind(pool, w, FAB_SPACE, g->ring, &op, &entry, &position);

	if (!status)
		cn_note(lane->cn, g->chunk, chunk_pack_queued(g->ring, g->generation, position),
			g->carried, n);
	g->state = OPEN_UNUSED;
	lane->sealed.groups++;
	lane->sealed.objects += n;
	lane->sealed.bytes += (uint64_t)g->units_used * LAYOUT_UNIT_BYTES + n * TWIM_BYTES;
	return status;
}

/* An empty group is not sealed: its chunk goes back as it came. */
static MAY_WAIT int unopen(struct lane *lane, struct worker *w, struct open_group *g)
{
	uint64_t reserved = chunk_pack_reserved(lane->cn->member.cn, g->generation);
	struct fab_op cas = fab_cas(
	    FAB_SPACE, plan_chunk_word_address(&lane->cn->pool->plan, g->chunk), g->word, reserved);
	int status = flow_run(w, &cas, 1);

	g->state = OPEN_UNUSED;
	if (status || !fab_cas_won(&cas))
		return status;
	return lane_give(lane, w, (struct lane_chunk){g->chunk, g->generation});
}

static MAY_WAIT int finish(struct lane *lane, struct worker *w, struct open_group *g,
			   uint64_t *scratch)
{
	return g->object_count ? seal(lane, w, g, scratch) : unopen(lane, w, g);
}

int lane_land(struct lane *lane, struct worker *w, struct open_group *g, uint64_t *scratch)
{
	assert(g->in_flight > 0);
	g->in_flight--;
	if (g->state != OPEN_CLOSING || g->in_flight > 0)
		return 0;
	return finish(lane, w, g, scratch);
}

/* Close one of the groups being filled. */
static MAY_WAIT int close_at(struct lane *lane, struct worker *w, uint32_t stream, uint32_t at,
			     uint64_t *scratch)
{
	struct open_group *g = lane->filling[stream][at];

	lane->filling_count[stream]--;
	for (; at < lane->filling_count[stream]; at++)
		lane->filling[stream][at] = lane->filling[stream][at + 1];
	g->state = OPEN_CLOSING;
	if (g->in_flight > 0 && pool_rule(lane->cn->pool, RULE_SEAL_WAITS_IN_FLIGHT))
		return 0;
	return finish(lane, w, g, scratch);
}

int lane_close(struct lane *lane, struct worker *w, uint32_t stream, uint64_t *scratch)
{
	if (lane->filling_count[stream] == 0)
		return 0;
	return close_at(lane, w, stream, fullest(lane, stream), scratch);
}

int lane_close_heavy(struct lane *lane, struct worker *w, struct open_group *g, uint64_t *scratch)
{
	for (uint32_t at = 0; at < lane->filling_count[g->stream]; at++)
		if (lane->filling[g->stream][at] == g && lane_group_is_heavy(lane, g))
			return close_at(lane, w, g->stream, at, scratch);
	return 0;
}

int lane_open(struct lane *lane, struct worker *w, uint32_t stream)
{
	struct cn *cn = lane->cn;
	struct open_group *g = NULL;

	assert(lane->reserve_count > 0 && lane->filling_count[stream] < lane->filling_max);
	/* What waits to be sealed is beyond the lane's share, so it is bounded, too. */
	uint32_t groups_max = lane->streams * lane->filling_max + LANE_CLOSING_MAX;

	for (uint32_t i = 0; i < groups_max && !g; i++)
		if (lane->groups[i].state == OPEN_UNUSED)
			g = &lane->groups[i];
	if (!g)
		return FORGE_E_AGAIN;
	struct lane_chunk c = lane->reserve[--lane->reserve_count];

	g->state = OPEN_FILLING;
	g->ring = lane_stream_ring(stream);
	g->stream = stream;
	g->chunk = c.chunk;
	g->generation = c.generation;
	g->units_used = g->object_count = g->part_count = g->in_flight = 0;
	g->heat = 0;
	g->word = chunk_pack_open(cn->member.cn, c.generation);
	/* Fibers of this lane may use the group as soon as the CAS has landed, not before. */
	struct fab_op cas = fab_cas(FAB_SPACE, plan_chunk_word_address(&cn->pool->plan, c.chunk),
				    chunk_pack_reserved(cn->member.cn, c.generation), g->word);
	int status = flow_run(w, &cas, 1);

	if (!status && !fab_cas_won(&cas))
		status = FORGE_E_CORRUPT; /* nobody else may touch a reserved chunk of ours */
	if (status) {
		g->state = OPEN_UNUSED;
		return status;
	}
	cn_note(cn, c.chunk, g->word, NULL, 0);
	if (lane->filling_count[stream] >= lane->filling_max) {
		/* Another fiber of this lane was faster; keep ours for the next time. */
		return unopen(lane, w, g);
	}
	lane->filling[stream][lane->filling_count[stream]++] = g;
	return 0;
}

void lane_gather_begin(struct lane *lane, struct lane_gather *g)
{
	g->next = lane->gathers;
	lane->gathers = g;
}

void lane_gather_end(struct lane *lane, struct lane_gather *g)
{
	struct lane_gather **link = &lane->gathers;

	while (*link != g)
		link = &(*link)->next;
	*link = g->next;
}

void lane_judge_spare(struct lane *lane, uint64_t group_chunks)
{
	uint64_t workers = cn_evictors(lane->cn);

	lane->wants_spare =
	    pool_rule(lane->cn->pool, RULE_MOVES_HAVE_ROOM) &&
	    (group_chunks >= LANE_SPARE_SHARE * workers ||
	     (group_chunks >= LANE_SPARE_LEAST * workers && lane->calm >= LANE_SPARE_CALM));
}

int lane_use_spare(struct lane *lane)
{
	if (!lane->has_spare || lane->reserve_count > 0)
		return 0;
	lane->has_spare = 0;
	lane->reserve[lane->reserve_count++] = lane->spare;
	return 1;
}

/* Chunks that gathers still want. */
static uint32_t gathers_want(const struct lane *lane)
{
	uint32_t want = 0;

	for (const struct lane_gather *g = lane->gathers; g; g = g->next)
		want += g->want - g->count;
	return want;
}

/* Keep a chunk that is reserved in our name, if somebody of this lane can use it. */
static int keep(struct lane *lane, struct lane_chunk c, uint32_t reserve_cap)
{
	struct lane_gather *g = lane->reserve_count > 0 ? lane->gathers : NULL;

	while (g && g->count == g->want)
		g = g->next;
	lane->calm += lane->calm < LANE_SPARE_CALM;
	if (lane->wants_spare && !lane->has_spare) {
		lane->spare = c;
		lane->has_spare = 1;
	} else if (g) {
		g->chunks[g->count++] = c;
	} else if (lane->reserve_count < reserve_cap) {
		lane->reserve[lane->reserve_count++] = c;
	} else {
		return 0;
	}
	return 1;
}

int lane_group_is_heavy(const struct lane *lane, const struct open_group *g)
{
	const struct cn *cn = lane->cn;
	uint64_t groups =
	    max_u64(RING_CLAIM_MAX, lane->streams * (uint64_t)lane->filling_max * cn_evictors(cn));

	return g->part_count * LANE_PARTS_SHARE * groups >= cn->pool->plan.chunk_count &&
	       g->part_count > 0;
}

int lane_give(struct lane *lane, struct worker *w, struct lane_chunk c)
{
	struct cn *cn = lane->cn;
	struct ring_entry entry = {
	    .chunk = c.chunk,
	    .generation = c.generation,
	    .object_count = 1,
	    .owned_word = chunk_pack_reserved(cn->member.cn, c.generation),
	};
	uint64_t position;

	if (keep(lane, c, lane->reserve_cap))
		return 0;
	atomic_fetch_add_explicit(&cn->free_hint, 1, memory_order_relaxed);
	return ring_enqueue(cn->pool, w, FAB_SPACE, RING_FREE, &entry, &position);
}

int lane_claim_free(struct lane *lane, struct worker *w, uint32_t count)
{
	struct cn *cn = lane->cn;
	struct ring_claimed claimed[RING_CLAIM_MAX];
	uint32_t gathered = gathers_want(lane), won = 0;
	uint64_t room = LANE_RESERVE_MAX - lane->reserve_count + (uint64_t)gathered;
	uint32_t spare = lane->wants_spare && !lane->has_spare;
	struct ring_claim_wish wish = {
	    .ring = RING_FREE,
	    .count = (uint32_t)min_u64(min_u64((uint64_t)count + gathered, room) + spare,
				       RING_CLAIM_MAX),
	    .evictors = cn_evictors(cn),
	    .owner = cn->member.cn,
	};

	if (wish.count == 0)
		return FORGE_MISS;
	int status = ring_claim(cn->pool, w, FAB_SPACE, &wish, claimed, &won);

	for (uint32_t i = 0; i < won; i++) {
		struct lane_chunk c = {claimed[i].chunk, claimed[i].generation};

		cn_note(cn, c.chunk, claimed[i].word, NULL, 0);
		int given = keep(lane, c, LANE_RESERVE_MAX) ? 0 : lane_give(lane, w, c);

		status = status ? status : given;
	}
	if (status == FORGE_MISS)
		atomic_store_explicit(&cn->free_hint, 0, memory_order_relaxed);
	return status < 0 ? status : won ? 0 : FORGE_MISS;
}

int lane_drain(struct lane *lane, struct worker *w, uint64_t *scratch)
{
	int status = 0, first = 0;

	/* A chunk that is not ours any more is no reason to keep the others. */
	lane->reserve_cap = lane->wants_spare = 0;
	for (uint32_t stream = 0; stream < LANE_STREAMS; stream++)
		while (lane->filling_count[stream] > 0 && status != FORGE_E_NODE) {
			status = lane_close(lane, w, stream, scratch);
			first = first ? first : status;
		}
	while (lane->reserve_count > 0 && status != FORGE_E_NODE) {
		status = lane_give(lane, w, lane->reserve[--lane->reserve_count]);
		first = first ? first : status;
	}
	if (lane->has_spare && status != FORGE_E_NODE) {
		lane->has_spare = 0;
		status = lane_give(lane, w, lane->spare);
		first = first ? first : status;
	}
	return first;
}
