/* survey.c: READ the metadata and count. */
#include "tool/survey.h"

#include <stdlib.h>
#include <string.h>

#include "pool/index.h"
#include "pool/registry.h"

/* Bytes of index in one READ. */
#define SCAN_BYTES (256u << 10)
/* Headers READ in one batch. */
#define HEADERS_MAX 256u

static int read_bytes(struct worker *w, uint64_t raddr, void *buf, uint64_t bytes)
{
	struct fab_op op = fab_read(FAB_CONTROL, raddr, buf, (uint32_t)bytes);

	return flow_run(w, &op, 1);
}

static void count_chunk(const struct plan *p, uint64_t word, struct survey *s)
{
	uint32_t state = chunk_state(word), owner = chunk_owner(word), ring = chunk_ring(word);

	if (state >= CHUNK_STATES) {
		s->chunks_unknown++;
		return;
	}
	s->chunks[state]++;
	if (state == CHUNK_RESERVED || state == CHUNK_OPEN || state == CHUNK_EVICTING) {
		if (owner < p->cn_max)
			s->held[owner]++;
	} else if ((state == CHUNK_QUEUED || state == CHUNK_FREE) && ring < RING_COUNT) {
		s->ring_chunks[ring]++;
	}
}

/* A FULL node counts while its chunk is queued under just that ticket. */
static void count_nodes(const struct plan *p, uint32_t ring, const uint64_t *nodes,
			const uint64_t *words, struct survey *s)
{
	for (uint32_t i = 0; i < p->ring_nodes; i++) {
		uint64_t node = nodes[i];

		if (node_state(node) != NODE_FULL || node_chunk(node) >= p->chunk_count)
			continue;
		uint64_t word = words[node_chunk(node)];

		if (chunk_state(word) == CHUNK_QUEUED && chunk_ring(word) == ring &&
		    chunk_generation(word) == node_generation(node) &&
		    (chunk_position(word) & (p->ring_nodes - 1)) == i)
			s->ring_members[ring] += node_object_count(node);
	}
}

/*
 * Live words whose objects' headers are wanted, so many in one batch: each by itself would cost a
 * round trip.
 */
struct headers {
	uint32_t count;
	uint64_t words[HEADERS_MAX];
	struct layout_object header[HEADERS_MAX];
	struct fab_op ops[HEADERS_MAX];
};

/* Bytes of a live word's object: its header knows them to the unit.  Parts are extra. */
static uint64_t object_bytes(const struct plan *p, const struct layout_object *h)
{
	return min_u64(
	    round_up_u64((uint64_t)LAYOUT_OBJECT_HEADER_BYTES + h->key_bytes + h->value_bytes,
			 LAYOUT_UNIT_BYTES),
	    p->chunk_bytes);
}

/* What a head keeps elsewhere; few objects are heads, so each is READ by itself. */
static MAY_WAIT int add_parts(const struct plan *p, struct worker *w, uint64_t word,
			      const struct layout_object *h, struct survey *s)
{
	uint64_t list = index_object_address(word) + LAYOUT_OBJECT_HEADER_BYTES + h->key_bytes;
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint64_t value_bytes = 0;

	if (!index_is_head(word) ||
	    list + LAYOUT_PARTS_BYTES > plan_chunk_address(p, chunk) + p->chunk_bytes)
		return 0;
	int status = read_bytes(w, list, &value_bytes, sizeof(value_bytes));

	s->live_bytes += min_u64(value_bytes, (uint64_t)h->part_count * p->chunk_bytes);
	return status;
}

static MAY_WAIT int count_headers(const struct plan *p, struct worker *w, struct headers *k,
				  struct survey *s)
{
	for (uint32_t i = 0; i < k->count; i++)
		k->ops[i] = fab_read(FAB_CONTROL, index_object_address(k->words[i]), &k->header[i],
				     sizeof(k->header[i]));
	int status = k->count ? flow_run(w, k->ops, k->count) : 0;

	for (uint32_t i = 0; i < k->count && !status; i++) {
		s->live_bytes += object_bytes(p, &k->header[i]);
		status = add_parts(p, w, k->words[i], &k->header[i], s);
	}
	k->count = 0;
	return status;
}

/* True: the word looks live, and its object's header is wanted. */
static int count_slot(const struct plan *p, uint64_t word, const uint64_t *words, struct survey *s)
{
	uint32_t chunk;

	s->slots++;
	if (index_blocks(word) == INDEX_BLOCKS_EMPTY)
		return 0;
	if (index_blocks(word) == INDEX_BLOCKS_TENTATIVE) {
		s->slots_tentative++;
		return 0;
	}
	chunk = plan_chunk_of_pointer(p, index_pointer(word));
	if (chunk >= p->chunk_count || chunk_state(words[chunk]) == CHUNK_FREE ||
	    chunk_state(words[chunk]) == CHUNK_RESERVED ||
	    index_generations_behind(p, word, chunk_generation(words[chunk])) != 0) {
		s->slots_stale++;
		return 0;
	}
	s->slots_live++;
	return 1;
}

static MAY_WAIT int scan_index(const struct plan *p, struct worker *w, const uint64_t *words,
			       struct survey *s)
{
	uint64_t *part = malloc(SCAN_BYTES);
	struct headers *k = malloc(sizeof(*k));
	uint64_t total = plan_slot_count(p) * 8 * p->slot_words;
	int status = part && k ? 0 : FORGE_E_NO_MEMORY;

	if (k)
		k->count = 0;
	for (uint64_t done = 0; done < total && !status; done += SCAN_BYTES) {
		uint64_t bytes = min_u64(SCAN_BYTES, total - done);

		status = read_bytes(w, p->index_offset + done, part, bytes);
		for (uint64_t i = 0; i < bytes / 8 && !status; i += p->slot_words) {
			if (count_slot(p, part[i], words, s))
				k->words[k->count++] = part[i];
			if (k->count == HEADERS_MAX)
				status = count_headers(p, w, k, s);
		}
	}
	if (!status)
		status = count_headers(p, w, k, s);
	free(part);
	free(k);
	s->has_scan = 1;
	return status;
}

static int count_all(const struct plan *p, struct worker *w, int scan, uint64_t *words,
		     uint64_t *nodes, struct survey *s)
{
	int status = read_bytes(w, p->cursors_offset, &s->cursors, sizeof(s->cursors));

	if (!status)
		status = read_bytes(w, p->chunk_table_offset, words, 8 * (uint64_t)p->chunk_count);
	if (status)
		return status;
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++)
		count_chunk(p, words[chunk], s);
	for (uint32_t ring = 0; ring < RING_QUEUES; ring++) {
		status = read_bytes(w, p->ring_offset[ring], nodes, 8 * (uint64_t)p->ring_nodes);
		if (status)
			return status;
		count_nodes(p, ring, nodes, words, s);
	}
	return scan ? scan_index(p, w, words, s) : 0;
}

static MAY_WAIT int add_stats(const struct plan *p, struct worker *w, struct survey *s)
{
	struct layout_stats *lines = calloc(p->cn_max, sizeof(*lines));
	int status = lines ? read_bytes(w, plan_stats_address(p, 0), lines,
					p->cn_max * (uint64_t)sizeof(*lines))
			   : FORGE_E_NO_MEMORY;

	for (uint32_t cn = 0; cn < p->cn_max && !status; cn++)
		stats_add(&s->stats, &lines[cn]);
	free(lines);
	return status;
}

int survey_take(const struct pool *pool, struct worker *w, int scan, struct survey *out)
{
	const struct plan *p = &pool->plan;
	struct survey s = {
	    .lines = calloc(p->cn_max, sizeof(*s.lines)),
	    .held = calloc(p->cn_max, sizeof(*s.held)),
	};
	uint64_t *words = malloc(8 * (uint64_t)p->chunk_count);
	uint64_t *nodes = malloc(8 * (uint64_t)p->ring_nodes);
	int status = FORGE_E_NO_MEMORY;

	if (s.lines && s.held && words && nodes)
		status = registry_read(pool, w, FAB_CONTROL, s.lines);
	if (!status)
		status = count_all(p, w, scan, words, nodes, &s);
	if (!status)
		status = add_stats(p, w, &s);
	free(words);
	free(nodes);
	if (status)
		survey_free(&s);
	else
		*out = s;
	return status;
}

void survey_free(struct survey *s)
{
	free(s->lines);
	free(s->held);
}

double survey_live_share(const struct survey *s, const struct plan *p)
{
	return (double)s->live_bytes / ((double)p->chunk_count * p->chunk_bytes);
}
