/* rebuild.c: the transcript of rebuild.h. */
#include "pool/rebuild.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "layout/spread.h"
#include "layout/stats.h"
#include "pool/index.h"
#include "pool/registry.h"
#include "pool/ring.h"

#define PIECE_WORDS 4096u /* READ or WRITTEN at once */
/* No pool ever gets there: at a million groups a second it takes nine years. */
#define TICKETS_MAX   (UINT64_C(1) << 48)
#define POSITION_MASK ((UINT64_C(1) << CHUNK_POSITION_BITS) - 1)

/* A chunk that is believed, and where in its ring it was. */
struct kept {
	uint64_t order;
	uint64_t node;
	uint32_t chunk;
};

struct rebuild {
	const struct pool *pool;
	const struct plan *plan;
	struct worker *worker;
	struct rebuild_report *report;
	struct layout_cursors cursors;
	uint64_t spread_epoch;
	struct layout_registry *lines; /* [cn_max] */
	uint64_t *words;	       /* [chunk_count] */
	uint8_t *trusted;	       /* [chunk_count] */
	const uint8_t *condemned;      /* [chunk_count] or NULL */
	uint64_t *nodes;	       /* [ring_nodes], of one ring */
	uint64_t *piece;	       /* [PIECE_WORDS] */
	struct kept *kept;	       /* [chunk_count], of one ring */
	uint64_t kept_count;
};

static MAY_WAIT int copy_words(struct rebuild *r, uint64_t address, uint64_t *words, uint64_t count,
			       int write)
{
	for (uint64_t done = 0; done < count;) {
		uint64_t part = min_u64(count - done, PIECE_WORDS);
		uint32_t bytes = (uint32_t)(8 * part);
		struct fab_op op =
		    write ? fab_write(FAB_CONTROL, address + 8 * done, words + done, bytes)
			  : fab_read(FAB_CONTROL, address + 8 * done, words + done, bytes);
		int status = flow_run(r->worker, &op, 1);

		if (status)
			return status;
		done += part;
	}
	return 0;
}

static MAY_WAIT int zero_words(struct rebuild *r, uint64_t address, uint64_t count)
{
	int status = 0;

	memset(r->piece, 0, 8 * PIECE_WORDS);
	for (uint64_t done = 0; done < count && !status; done += PIECE_WORDS)
		status = copy_words(r, address + 8 * done, r->piece,
				    min_u64(count - done, PIECE_WORDS), 1);
	return status;
}

int rebuild_count(const struct pool *pool, struct worker *w, unsigned counter, uint64_t n)
{
	struct fab_op op = fab_faa(FAB_CONTROL,
				   plan_stats_address(&pool->plan, 0) +
				       offsetof(struct layout_stats, count) + 8 * (uint64_t)counter,
				   n);

	return n ? flow_run(w, &op, 1) : 0;
}

/* ---- what is believed --------------------------------------------------------------------- */

static int belongs_to(uint32_t ring, uint64_t word)
{
	uint32_t generation = chunk_generation(word);
	uint64_t position = chunk_position(word);

	return word == (ring == RING_FREE ? chunk_pack_free(generation, position)
					  : chunk_pack_queued(ring, generation, position));
}

/* The chunks of a ring that their nodes name; r->nodes is the ring's. */
static void believe(struct rebuild *r, uint32_t ring)
{
	const struct plan *p = r->plan;

	r->kept_count = 0;
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		uint64_t word = r->words[chunk];
		uint64_t node = r->nodes[chunk_position(word) & (p->ring_nodes - 1)];

		if (r->trusted[chunk] || (r->condemned && r->condemned[chunk]) ||
		    !belongs_to(ring, word) || !ring_node_valid(p, node) ||
		    node_chunk(node) != chunk || node_generation(node) != chunk_generation(word))
			continue;
		r->kept[r->kept_count++] = (struct kept){
		    .order = chunk_position(word),
		    .node = node,
		    .chunk = chunk,
		};
	}
}

/* A part of a large object, as far as its word can tell; which head lists it the checker knows. */
static void believe_parts(struct rebuild *r)
{
	const struct plan *p = r->plan;

	r->cursors.part_chunks = 0;
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		uint64_t word = r->words[chunk], slot = chunk_position(word);

		if ((r->condemned && r->condemned[chunk]) || slot >= plan_slot_count(p) ||
		    word != chunk_pack_part(chunk_generation(word), slot))
			continue;
		r->trusted[chunk] = 1;
		r->cursors.part_chunks++;
	}
}

/* Do the cursors agree with every chunk that is believed?  Then tickets go on from there. */
static int cursors_agree(const struct rebuild *r, uint32_t ring)
{
	uint64_t head = r->cursors.ring[ring].head, tail = r->cursors.ring[ring].tail;
	uint64_t nodes = r->plan->ring_nodes;

	if (tail >= TICKETS_MAX || (tail - head > nodes && head - tail > nodes))
		return 0;
	for (uint64_t i = 0; i < r->kept_count; i++)
		if (((tail - 1 - r->kept[i].order) & POSITION_MASK) >= 2 * nodes)
			return 0;
	return 1;
}

static int by_order(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

/* Sort what is kept, oldest first; the first ticket that no word names is the result. */
static uint64_t sort_kept(struct rebuild *r, uint32_t ring)
{
	uint64_t head = r->cursors.ring[ring].head, tail = r->cursors.ring[ring].tail;
	uint64_t start = 0;

	if (cursors_agree(r, ring)) {
		uint64_t oldest = tail - 2 * (uint64_t)r->plan->ring_nodes;

		for (uint64_t i = 0; i < r->kept_count; i++)
			r->kept[i].order = (r->kept[i].order - oldest) & POSITION_MASK;
		start = (int64_t)(head - tail) > 0 ? head : tail;
	} else {
		r->report->cursors_rebuilt++;
		/* Above every ticket, and enough of them for every life. */
		for (uint64_t i = 0; i < r->kept_count; i++)
			start = max_u64(
			    start, max_u64(r->kept[i].order + 1, node_generation(r->kept[i].node)));
	}
	if (r->kept_count > 0)
		qsort(r->kept, r->kept_count, sizeof(*r->kept), by_order);
	return start;
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The ring as it must look with what is kept at start and behind it; chunk words, too. */
static void lay_out(struct rebuild *r, uint32_t ring, uint64_t start)
{
	const struct plan *p = r->plan;

	for (uint64_t i = 0; i < p->ring_nodes; i++) {
		uint64_t position = start + i, at = position & (p->ring_nodes - 1);
		uint64_t cycle = plan_ring_cycle(p, position);

		if (i >= r->kept_count) {
			r->nodes[at] = node_pack_empty(cycle);
			continue;
		}
		const struct kept *k = &r->kept[i];
		uint32_t generation = chunk_generation(r->words[k->chunk]);

		r->nodes[at] = node_pack_full(cycle, k->chunk, generation,
					      node_object_count(k->node), node_segment(k->node));
		r->words[k->chunk] = ring == RING_FREE
					 ? chunk_pack_free(generation, position)
					 : chunk_pack_queued(ring, generation, position);
	}
	r->cursors.ring[ring].head = start;
	r->cursors.ring[ring].tail = start + r->kept_count;
}

/* Chunks nobody vouches for go behind the free ones, one generation on. */
static void add_emptied(struct rebuild *r)
{
	uint64_t tickets = r->cursors.ring[RING_SMALL].tail + r->cursors.ring[RING_MAIN].tail;

	for (uint32_t chunk = 0; chunk < r->plan->chunk_count; chunk++) {
		if (r->trusted[chunk])
			continue;
		uint32_t generation = generation_next(chunk_generation(r->words[chunk]));

		/* Nothing points into it any more, so a life that cannot be is forgotten. */
		if (generation == 0 || generation > tickets)
			generation = 1;

		r->words[chunk] = chunk_pack_free(generation, 0);
		r->kept[r->kept_count++] = (struct kept){
		    .node = node_pack_full(0, chunk, generation, 1, 0),
		    .chunk = chunk,
		};
		r->report->chunks_emptied++;
	}
}

/* One ring: READ, decide, lay out, WRITE the nodes. */
static MAY_WAIT int rebuild_ring(struct rebuild *r, uint32_t ring)
{
	const struct plan *p = r->plan;
	int status = copy_words(r, p->ring_offset[ring], r->nodes, p->ring_nodes, 0);

	if (status)
		return status;
	believe(r, ring);
	uint64_t start = sort_kept(r, ring);

	for (uint64_t i = 0; i < r->kept_count; i++)
		r->trusted[r->kept[i].chunk] = 1;
	if (ring == RING_FREE)
		add_emptied(r);
	else
		r->report->groups_kept += r->kept_count;
	lay_out(r, ring, start);
	return copy_words(r, p->ring_offset[ring], r->nodes, p->ring_nodes, 1);
}

/* Is the slot's word one that a compute node can have written, into a chunk that is believed? */
static int slot_is_sound(const struct rebuild *r, uint64_t word)
{
	uint32_t chunk = plan_chunk_of_pointer(r->plan, index_pointer(word));

	return word == 0 || (index_is_object(word) && chunk != UINT32_MAX && r->trusted[chunk]);
}

/* Needs trusted[] to be complete; the words of the chunks are WRITTEN after it. */
static MAY_WAIT int clear_slots(struct rebuild *r)
{
	const struct plan *p = r->plan;
	uint64_t total = plan_slot_count(p) * p->slot_words, lost = 0;
	int status = 0;

	for (uint64_t done = 0; done < total && !status; done += PIECE_WORDS) {
		uint64_t count = min_u64(total - done, PIECE_WORDS), cleared = 0;
		uint64_t address = p->index_offset + 8 * done;

		status = copy_words(r, address, r->piece, count, 0);
		for (uint64_t i = 0; i < count && !status; i += p->slot_words) {
			if (slot_is_sound(r, r->piece[i]))
				continue;
			lost += (uint64_t)index_is_object(r->piece[i]);
			r->piece[i] = 0;
			cleared++;
		}
		if (cleared && !status)
			status = copy_words(r, address, r->piece, count, 1);
		r->report->slots_cleared += cleared;
	}
	r->report->values_lost += lost;
	return status ? status : rebuild_count(r->pool, r->worker, STATS_lost, lost);
}

static MAY_WAIT int reset_registry(struct rebuild *r)
{
	const struct plan *p = r->plan;
	uint64_t flushed = fence_generation(r->cursors.fence);

	/* An object has 32 bits of it. */
	if (flushed > UINT32_MAX)
		flushed = 0;
	for (uint32_t cn = 0; cn < p->cn_max; cn++) {
		struct layout_registry *line = &r->lines[cn];
		uint32_t incarnation = registry_incarnation(line->id);

		if (fence_generation(line->fence) <= UINT32_MAX)
			flushed = max_u64(flushed, fence_generation(line->fence));
		r->report->lines_reset +=
		    line->id != registry_pack(REGISTRY_FREE, incarnation, 0) || line->zero != 0;
		*line = (struct layout_registry){
		    .id = registry_pack(REGISTRY_FREE, incarnation + 1, 0),
		    .fence = line->fence,
		};
	}
	r->cursors.fence = fence_pack(r->spread_epoch, flushed);
	return copy_words(r, p->registry_offset, (uint64_t *)(void *)r->lines,
			  (uint64_t)p->cn_max * LAYOUT_REGISTRY_BYTES / 8, 1);
}

/* Who counted is dead; what lies behind the counters is nothing. */
static MAY_WAIT int reset_stats(struct rebuild *r)
{
	int status = 0;

	for (uint32_t cn = 0; cn < r->plan->cn_max && !status; cn++) {
		uint64_t address = plan_stats_address(r->plan, cn), wrong = 0;
		struct layout_stats line;

		status = copy_words(r, address, (uint64_t *)&line, LAYOUT_STATS_WORDS, 0);
		for (unsigned i = 0; i < ARRAY_COUNT(line.zero); i++)
			wrong |= line.zero[i];
		wrong |= stats_life_counting(line.life);
		if (status || !wrong)
			continue;
		line.life = stats_life_joined(line.life);
		memset(line.zero, 0, sizeof(line.zero));
		r->report->lines_reset++;
		status = copy_words(r, address, (uint64_t *)&line, LAYOUT_STATS_WORDS, 1);
	}
	return status;
}

/* The fence's, if there is a record of that epoch; else that of the newest one. */
static MAY_WAIT int find_epoch(struct rebuild *r)
{
	const struct spread_page *page = (const struct spread_page *)(const void *)r->piece;
	int status = copy_words(r, 0, r->piece, LAYOUT_SUPERBLOCK_BYTES / 8, 0);
	uint64_t epoch = fence_epoch(r->cursors.fence);

	if (!status)
		r->spread_epoch = spread_record_valid(spread_page_record(page, epoch), epoch)
				      ? epoch
				      : spread_page_newest(page);
	return status;
}

static MAY_WAIT int rebuild_all(struct rebuild *r)
{
	const struct plan *p = r->plan;
	int status =
	    copy_words(r, p->cursors_offset, (uint64_t *)&r->cursors, LAYOUT_CURSORS_BYTES / 8, 0);

	if (!status)
		status = find_epoch(r);
	if (!status)
		status = copy_words(r, p->chunk_table_offset, r->words, p->chunk_count, 0);
	if (!status)
		status = registry_read(r->pool, r->worker, FAB_CONTROL, r->lines);
	if (!status)
		status = reset_registry(r);
	if (!status)
		status = reset_stats(r);
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++)
		if (!status)
			status = zero_words(r, p->ofm_offset[ring],
					    (uint64_t)p->ofm_rows * p->ofm_row_bytes / 8);
	if (!status)
		status =
		    zero_words(r, p->dead_offset, (uint64_t)plan_dead_words(p) * p->chunk_count);
	if (!status)
		believe_parts(r);
	/* The free ring last: it gets what nothing else holds. */
	for (uint32_t ring = 0; ring < RING_COUNT && !status; ring++)
		status = rebuild_ring(r, ring);
	if (!status)
		status = clear_slots(r);
	if (!status)
		status = copy_words(r, p->chunk_table_offset, r->words, p->chunk_count, 1);
	return status ? status
		      : copy_words(r, p->cursors_offset, (uint64_t *)&r->cursors,
				   LAYOUT_CURSORS_BYTES / 8, 1);
}

static int rebuild_create(struct rebuild *r)
{
	const struct plan *p = r->plan;

	r->lines = calloc(p->cn_max, sizeof(*r->lines));
	r->words = calloc(p->chunk_count, sizeof(*r->words));
	r->trusted = calloc(p->chunk_count, 1);
	r->nodes = calloc(p->ring_nodes, sizeof(*r->nodes));
	r->piece = calloc(PIECE_WORDS, sizeof(*r->piece));
	r->kept = calloc(p->chunk_count, sizeof(*r->kept));
	if (!r->lines || !r->words || !r->trusted || !r->nodes || !r->piece || !r->kept)
		return FORGE_E_NO_MEMORY;
	return 0;
}

static void rebuild_destroy(struct rebuild *r)
{
	free(r->lines);
	free(r->words);
	free(r->trusted);
	free(r->nodes);
	free(r->piece);
	free(r->kept);
}

int rebuild_pool(const struct pool *pool, struct worker *w, const uint8_t *condemned,
		 struct rebuild_report *report)
{
	struct rebuild r = {
	    .pool = pool,
	    .plan = &pool->plan,
	    .worker = w,
	    .report = report,
	    .condemned = condemned,
	};
	int status = rebuild_create(&r);

	if (!status)
		status = rebuild_all(&r);
	rebuild_destroy(&r);
	return status;
}

int rebuild_clear_slot(const struct pool *pool, struct worker *w, uint64_t address,
		       struct rebuild_report *report)
{
	uint64_t word;
	static const uint64_t zero;
	struct fab_op op = fab_read(FAB_CONTROL, address, &word, 8);
	int status = flow_run(w, &op, 1);

	if (status || !word)
		return status;
	op = fab_write(FAB_CONTROL, address, &zero, 8);
	status = flow_run(w, &op, 1);
	report->slots_cleared++;
	report->values_lost += (uint64_t)index_is_object(word);
	return status ? status : rebuild_count(pool, w, STATS_lost, index_is_object(word));
}

uint64_t rebuild_report_sum(const struct rebuild_report *r)
{
	uint64_t sum = 0;

#define FIELD(name, sentence) sum += r->name;
	REBUILD_FIELDS(FIELD)
#undef FIELD
	return sum - r->groups_kept;
}

void rebuild_report_print(const struct rebuild_report *r, char *text, size_t text_bytes)
{
	size_t used = 0;

	snprintf(text, text_bytes, "nothing");
#define FIELD(name, sentence) used = text_list(text, text_bytes, used, sentence, r->name);
	REBUILD_FIELDS(FIELD)
#undef FIELD
}
