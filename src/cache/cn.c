/* cn.c: the local state of a compute node. */
#include "cache/cn.h"

#include <stdlib.h>
#include <string.h>

#include "cache/tally.h"
#include "pool/index.h"

static int cn_memory_create(struct cn *cn)
{
	const struct plan *p = &cn->pool->plan;

	cn->dead_words = plan_dead_words(p);
	while (p->chunk_count >> cn->life_shift >= 2u << CN_LIFE_TICKS_LOG2)
		cn->life_shift++;
	cn->map = calloc(p->chunk_count, sizeof(*cn->map));
	cn->lives = calloc((size_t)p->chunk_count * CN_LIVES, sizeof(*cn->lives));
	/* A row of 64 counters is one cache line. */
	cn->ofm = aligned_alloc(64, round_up_u64((uint64_t)p->chunk_count * p->ofm_row_bytes, 64));
	if (cn->ofm)
		memset((void *)(uintptr_t)cn->ofm, 0, (size_t)p->chunk_count * p->ofm_row_bytes);
	cn->dead = calloc((size_t)p->chunk_count * cn->dead_words, sizeof(*cn->dead));
	cn->news = calloc((size_t)p->chunk_count * cn->dead_words, sizeof(*cn->news));
	cn->members = calloc(p->chunk_count, sizeof(*cn->members));
	cn->asleep = calloc(p->cn_max, sizeof(*cn->asleep));
	for (unsigned r = 0; r < RING_QUEUES; r++)
		cn->mirror[r] = calloc(p->ring_nodes, sizeof(*cn->mirror[r]));
	return cn->map && cn->lives && cn->ofm && cn->dead && cn->news && cn->members &&
		       cn->asleep && cn->mirror[0] && cn->mirror[1]
		   ? 0
		   : FORGE_E_NO_MEMORY;
}

void cn_memory_destroy(struct cn *cn)
{
	free(cn->map);
	free(cn->lives);
	free(cn->ofm);
	free(cn->dead);
	free(cn->news);
	free(cn->members);
	free(cn->asleep);
	for (unsigned r = 0; r < RING_QUEUES; r++)
		free(cn->mirror[r]);
}

int cn_open(struct cn *cn, const struct pool *pool, const struct policy *policy, struct worker *w,
	    const struct cn_options *o, uint32_t pid, struct layout_registry *lines)
{
	uint32_t cap = LAYOUT_FLUSH_BUDGET / pool->plan.cn_max;
	struct layout_cursors cursors;

	if (o->worker_count > CN_WORKERS_MAX)
		return FORGE_E_INVAL;
	*cn = (struct cn){
	    .pool = pool,
	    .policy = policy,
	    .alive = o->alive,
	    .worker_count = o->worker_count ? o->worker_count : 1,
	    .poll_interval_us =
		o->poll_interval_us ? o->poll_interval_us : CN_POLL_INTERVAL_US_DEFAULT,
	    .map_trust_us = o->map_trust_us ? o->map_trust_us : CN_MAP_TRUST_US_DEFAULT,
	    .open_groups = o->open_groups,
	    .dead_percent = o->dead_percent ? o->dead_percent : policy->dead_percent,
	    .window_groups = pool->plan.window_groups,
	    .poll_every_op = o->poll_every_op,
	    .flush_every_op = o->flush_every_op,
	    .spread_epoch = o->spread_epoch,
	    .flush_trust_us = o->flush_trust_us ? o->flush_trust_us : CN_FLUSH_TRUST_US_DEFAULT,
	    .flush_cap = (uint8_t)(pool_rule(pool, RULE_FLUSH_CAPPED) ? cap : UINT8_MAX),
	    .late_groups = policy->late_groups(pool->plan.chunk_count),
	    .polling = ATOMIC_FLAG_INIT,
	    .recovering = ATOMIC_FLAG_INIT,
	};
	int status = cn_memory_create(cn);
	uint64_t started_ns = clock_now_ns(w->clock);
	struct fab_op op =
	    fab_read(FAB_CONTROL, pool->plan.cursors_offset, &cursors, sizeof(cursors));

	if (!status)
		status = flow_run(w, &op, 1);
	if (!status)
		status = registry_join(pool, w, pid, lines, cn->alive, &cn->member);
	if (status) {
		cn_memory_destroy(cn);
		return status;
	}
	uint32_t live = 1;

	for (uint32_t i = 0; i < pool->plan.cn_max; i++)
		live += registry_state(lines[i].id) == REGISTRY_LIVE;
	atomic_store(&cn->cns_live, live);
	atomic_store(&cn->workers_live, cn->worker_count);
	cn_poll_every(cn, cn->poll_interval_us);
	atomic_store(&cn->free_hint, cursors.ring[RING_FREE].tail - cursors.ring[RING_FREE].head);
	cn_see_fence(cn, cursors.fence, started_ns);
	/*
	 * 56 bits: whoever had this id before us counted below.  Where they begin is the pool's: a
	 * client that kept an id from before its node was emptied must not match by it.
	 */
	atomic_store(&cn->cas_counter,
		     ((registry_incarnation(cn->member.id) + pool->pool_id) & 0xffffffu) << 32);
	for (unsigned r = 0; r < RING_QUEUES; r++) {
		cn->noted[r] = cursors.ring[r].head;
		cn->window[r] = cn->window_groups;
		atomic_store(&cn->head[r], cursors.ring[r].head);
		atomic_store(&cn->flushed[r], cursors.ring[r].head);
	}
	struct registry_news news = {
	    .flushed = {cn->noted[RING_SMALL], cn->noted[RING_MAIN]},
	    .fence = cn->fence,
	    .polled_us = pool_node_ns_earliest(pool, clock_now_ns(w->clock)) / 1000,
	    .worker_count = cn->worker_count,
	};

	status = tally_join(pool, w, cn->member.cn);
	if (!status)
		status = registry_publish(pool, w, &cn->member, &news);
	if (status)
		cn_close(cn, w);
	return status;
}

void cn_leave(struct cn *cn, struct worker *w)
{
	registry_leave(cn->pool, w, &cn->member);
	if (cn->alive)
		cn->alive->release(cn->alive->context, cn->member.cn);
}

void cn_close(struct cn *cn, struct worker *w)
{
	cn_leave(cn, w);
	cn_memory_destroy(cn);
}

void cn_memory_of(const struct plan *p, struct cn_memory *m)
{
	const struct cn *cn = NULL; /* only the sizes of what it points to */
	uint64_t chunks = p->chunk_count, nodes = p->ring_nodes;

	*m = (struct cn_memory){
	    .map = chunks * (sizeof(*cn->map) + sizeof(*cn->members)),
	    .ofm = chunks * p->ofm_row_bytes,
	    .lives = chunks * CN_LIVES * sizeof(*cn->lives),
	    .dead = chunks * plan_dead_words(p) * (sizeof(*cn->dead) + sizeof(*cn->news)),
	    .mirrors =
		RING_QUEUES * nodes * sizeof(*cn->mirror[0]) + p->cn_max * sizeof(*cn->asleep),
	};
}

uint64_t cn_memory_bytes(const struct plan *p)
{
	struct cn_memory m;
	uint64_t sum = 0;

	cn_memory_of(p, &m);
#define PART(name, sentence) sum += m.name;
	CN_MEMORY_PARTS(PART)
#undef PART
	return sum;
}

static void raise_to(_Atomic uint64_t *word, uint64_t value)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);

	while ((int64_t)(value - seen) > 0 &&
	       !atomic_compare_exchange_weak_explicit(word, &seen, value, memory_order_release,
						      memory_order_relaxed))
		;
}

void cn_poll_every(struct cn *cn, uint32_t us)
{
	atomic_store_explicit(&cn->poll_now_us, us, memory_order_relaxed);
	atomic_store_explicit(&cn->quick_us, us < cn->flush_trust_us ? us : cn->flush_trust_us,
			      memory_order_relaxed);
}

void cn_see_heads(struct cn *cn, const struct layout_cursors *cursors)
{
	uint64_t moved = 0;

	for (uint32_t ring = 0; ring < RING_QUEUES; ring++) {
		int64_t ahead =
		    (int64_t)(cursors->ring[ring].head -
			      atomic_load_explicit(&cn->head[ring], memory_order_relaxed));

		moved += ahead > 0 ? (uint64_t)ahead : 0;
		atomic_store_explicit(&cn->next[ring], cursors->ring[ring].head,
				      memory_order_relaxed);
	}
	if (moved * 4 >= plan_window(cn->pool->plan.chunk_count))
		atomic_store_explicit(&cn->quick_us, 0, memory_order_relaxed);
}

void cn_see_company(struct cn *cn, const struct layout_registry *lines, uint64_t now_ns)
{
	uint32_t live = 0, workers = 0;

	for (uint32_t i = 0; i < cn->pool->plan.cn_max; i++) {
		if (registry_state(lines[i].id) != REGISTRY_LIVE)
			continue;
		live++;
		workers += (uint32_t)min_u64(lines[i].worker_count, CN_WORKERS_MAX);
	}
	atomic_store_explicit(&cn->cns_live, live, memory_order_relaxed);
	atomic_store_explicit(&cn->workers_live, workers, memory_order_relaxed);
	atomic_store_explicit(&cn->company_ns, now_ns | 1, memory_order_relaxed);
}

void cn_see_fence(struct cn *cn, uint64_t fence, uint64_t started_ns)
{
	raise_to(&cn->fence, fence);
	raise_to(&cn->flush_seen_ns, started_ns); /* R1 */
}

static _Atomic uint64_t *dead_of(const struct cn *cn, uint32_t chunk)
{
	return &cn->dead[(uint64_t)chunk * cn->dead_words];
}

static _Atomic uint64_t *news_of(const struct cn *cn, uint32_t chunk)
{
	return &cn->news[(uint64_t)chunk * cn->dead_words];
}

/*
 * A word of dead[] and news[]: the generation above those of its members who died in it.  Threads
 * may note another life of the chunk at any time, so both are one word, and nobody's death is
 * taken for one of another life.
 */
static uint64_t deaths_pack(uint32_t generation, uint32_t members)
{
	return (uint64_t)generation << 32 | members;
}

static uint32_t deaths_in(uint64_t word, uint32_t generation)
{
	return word >> 32 == generation ? (uint32_t)word : 0;
}

/* What is there of another life is forgotten. */
static void add_deaths(_Atomic uint64_t *word, uint32_t generation, uint32_t members)
{
	uint64_t seen = atomic_load_explicit(word, memory_order_relaxed), with;

	do {
		with = deaths_pack(generation, members | deaths_in(seen, generation));
	} while (with != seen &&
		 !atomic_compare_exchange_weak_explicit(word, &seen, with, memory_order_relaxed,
							memory_order_relaxed));
}

static void forget_life(struct cn *cn, uint32_t chunk)
{
	for (uint32_t i = 0; i < cn->dead_words; i++) {
		atomic_store_explicit(&dead_of(cn, chunk)[i], 0, memory_order_relaxed);
		atomic_store_explicit(&news_of(cn, chunk)[i], 0, memory_order_relaxed);
	}
}

void cn_forget_dead(struct cn *cn, uint32_t chunk)
{
	forget_life(cn, chunk);
}

static void set_counts(struct cn *cn, uint32_t chunk, const uint8_t *carried,
		       uint32_t carried_count)
{
	uint64_t forgotten = 0, carries = 0;

	for (uint32_t sn = 0; sn < cn->pool->plan.group_objects; sn++) {
		uint8_t count = carried && sn < carried_count ? carried[sn] : 0;

		forgotten += cn_count(cn, chunk, sn);
		carries += count;
		atomic_store_explicit(cn_counter(cn, chunk, sn), count, memory_order_relaxed);
	}
	if (forgotten)
		atomic_fetch_add_explicit(&cn->hits_forgotten, forgotten, memory_order_relaxed);
	if (carries)
		atomic_fetch_add_explicit(&cn->hits_carried, carries, memory_order_relaxed);
}

static _Atomic uint16_t *life_of(const struct cn *cn, uint32_t chunk, uint32_t generation)
{
	return &cn->lives[(uint64_t)chunk * CN_LIVES + generation % CN_LIVES];
}

/* Never 0, which says that there was no such life: tick 0 counts as 1. */
static uint16_t life_tick(const struct cn *cn, uint64_t position)
{
	uint16_t tick = (uint16_t)(position >> cn->life_shift);

	return tick ? tick : 1;
}

void cn_note(struct cn *cn, uint32_t chunk, uint64_t word, const uint8_t *carried,
	     uint32_t object_count)
{
	uint64_t old = cn_map(cn, chunk);
	uint32_t generation = chunk_generation(word), ring = chunk_ring(word);
	uint32_t ahead = (generation - chunk_generation(old)) & (LAYOUT_GENERATION_COUNT - 1);

	if (old == word)
		return;
	if (old && ahead >= LAYOUT_GENERATION_COUNT / 2)
		return; /* old news: a node READ before its chunk was freed and used again */
	atomic_store_explicit(&cn->map[chunk], word, memory_order_relaxed);
	if (!old || ahead) {
		forget_life(cn, chunk);
		set_counts(cn, chunk, NULL, 0);
		atomic_store_explicit(life_of(cn, chunk, generation), 0, memory_order_relaxed);
		atomic_store_explicit(&cn->members[chunk], 0, memory_order_relaxed);
	}
	if (chunk_state(word) != CHUNK_QUEUED)
		return;
	/* Whole, or the tail would not be seen to move on where the word's bits wrap. */
	uint64_t position =
	    chunk_position_near(word, atomic_load_explicit(&cn->tail[ring], memory_order_relaxed));

	atomic_store_explicit(&cn->members[chunk], (uint16_t)object_count, memory_order_relaxed);
	atomic_store_explicit(life_of(cn, chunk, generation),
			      ring == RING_SMALL ? life_tick(cn, position) : 0,
			      memory_order_relaxed);
	if (carried)
		set_counts(cn, chunk, carried, object_count);
	else if (cn->late_groups >= 0 && pool_rule(cn->pool, RULE_NOTE_ZEROES_COUNTS))
		set_counts(cn, chunk, NULL, 0);
	atomic_store_explicit(&cn->mirror[ring][position & (cn->pool->plan.ring_nodes - 1)], chunk,
			      memory_order_relaxed);
	cn_see_tail(cn, ring, position + 1);
}

void cn_see_tail(struct cn *cn, uint32_t ring, uint64_t tail)
{
	uint64_t seen = atomic_load_explicit(&cn->tail[ring], memory_order_relaxed);

	if ((int64_t)(tail - seen) > 0)
		atomic_store_explicit(&cn->tail[ring], tail, memory_order_relaxed);
}

void cn_note_life(struct cn *cn, uint32_t chunk, uint32_t generation)
{
	uint64_t seen = cn_map(cn, chunk);

	/* cn_note() ignores what is older than the map. */
	if (!seen || chunk_generation(seen) != generation)
		cn_note(cn, chunk, chunk_pack_open(0, generation), NULL, 0);
}

static void note_any_dead(struct cn *cn)
{
	/* Read first: workers would fight for the cache line. */
	if (unlikely(!atomic_load_explicit(&cn->any_dead, memory_order_relaxed)))
		atomic_store_explicit(&cn->any_dead, 1, memory_order_relaxed);
}

void cn_note_dead(struct cn *cn, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	if (sn >= cn->pool->plan.group_objects)
		return;
	cn_note_life(cn, chunk, generation);
	if (chunk_generation(cn_map(cn, chunk)) != generation)
		return; /* that life is over already */
	uint32_t at = sn / DEAD_WORD_MEMBERS, bit = 1u << (sn % DEAD_WORD_MEMBERS);

	note_any_dead(cn);
	add_deaths(&dead_of(cn, chunk)[at], generation, bit);
	add_deaths(&news_of(cn, chunk)[at], generation, bit);
	uint8_t count = cn_count(cn, chunk, sn);

	if (count)
		atomic_fetch_add_explicit(&cn->hits_forgotten, count, memory_order_relaxed);
	atomic_store_explicit(cn_counter(cn, chunk, sn), 0, memory_order_relaxed);
}

static uint32_t count_deaths(const _Atomic uint64_t *words, uint32_t n, uint32_t generation)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += (uint32_t)__builtin_popcount(
		    deaths_in(atomic_load_explicit(&words[i], memory_order_relaxed), generation));
	return count;
}

uint32_t cn_dead_count(const struct cn *cn, uint32_t chunk, uint32_t generation)
{
	return count_deaths(dead_of(cn, chunk), cn->dead_words, generation);
}

uint32_t cn_news_count(const struct cn *cn, uint32_t chunk, uint32_t generation)
{
	return count_deaths(news_of(cn, chunk), cn->dead_words, generation);
}

uint64_t cn_take_news(struct cn *cn, uint32_t chunk, uint32_t generation, uint32_t at)
{
	uint64_t news = atomic_exchange_explicit(&news_of(cn, chunk)[at], 0, memory_order_relaxed);

	return dead_word_pack(generation, deaths_in(news, generation));
}

void cn_learn_dead_word(struct cn *cn, uint32_t chunk, uint32_t generation, uint32_t at,
			uint64_t word)
{
	uint32_t members = pool_rule(cn->pool, RULE_DEAD_OF_THIS_LIFE)
			       ? dead_word_members(word, generation)
			       : (uint32_t)word;

	if (!members)
		return;
	note_any_dead(cn);
	add_deaths(&dead_of(cn, chunk)[at], generation, members);
}

void cn_learn_dead(struct cn *cn, uint32_t chunk, uint32_t generation, const uint64_t *words)
{
	for (uint32_t i = 0; i < cn->dead_words; i++)
		cn_learn_dead_word(cn, chunk, generation, i, words[i]);
}

int cn_is_dead(const struct cn *cn, uint32_t chunk, uint32_t generation, uint32_t sn)
{
	uint64_t word =
	    atomic_load_explicit(&dead_of(cn, chunk)[sn / DEAD_WORD_MEMBERS], memory_order_relaxed);

	return (int)(deaths_in(word, generation) >> (sn % DEAD_WORD_MEMBERS) & 1);
}

int cn_life_is_over(const struct cn *cn, const struct worker *w, uint32_t behind)
{
	if (behind >= index_generation_range(&cn->pool->plan) / 2)
		return 0;
	if (!pool_rule(cn->pool, RULE_MAP_TRUST_BOUND))
		return 1;
	/* Asked after the READ, so a sleep between poll and READ shows. */
	uint64_t refreshed = atomic_load_explicit(&cn->refreshed_ns, memory_order_relaxed);

	return clock_now_ns(w->clock) - refreshed < UINT64_C(1000) * cn->map_trust_us;
}

int cn_word_is_ghost(const struct cn *cn, uint64_t word, uint32_t chunk)
{
	uint32_t behind = cn_lives_behind(cn, word, chunk);

	if (behind == 0 || behind >= CN_LIVES)
		return 0;
	uint16_t tick = atomic_load_explicit(
	    life_of(cn, chunk, chunk_generation(cn_map(cn, chunk)) - behind), memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&cn->head[RING_SMALL], memory_order_relaxed);
	uint64_t limit = (uint64_t)cn->pool->plan.chunk_count * CN_GHOST_AGE_PERCENT / 100;

	uint16_t age = (uint16_t)(life_tick(cn, head) - tick);

	/* Below zero: of a group claimed from the middle, or before head was last polled. */
	return tick != 0 &&
	       (age <= limit >> cn->life_shift || age >= UINT16_MAX - CN_LIFE_TICKS_AHEAD);
}
