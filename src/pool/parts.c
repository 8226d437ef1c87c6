/* parts.c: the transcript of the argument in parts.h. */
#include "pool/parts.h"

#include "base/hash.h"
#include "layout/stats.h"
#include "pool/ring.h"

/* How often a slot is looked at that keeps changing. */
#define PARTS_LOOKS_MAX 16u
/* Words of the chunk table in one READ. */
#define SWEEP_WORDS 4096u

int parts_of(const struct plan *p, const void *object, struct parts_list *out)
{
	const struct layout_object *h = object_header(object);
	const uint8_t *value = object_value(object);
	struct layout_parts fixed;

	if (h->part_count == 0 || h->part_count > p->part_count_max ||
	    h->value_bytes < LAYOUT_PARTS_BYTES)
		return 0;
	memcpy(&fixed, value, LAYOUT_PARTS_BYTES);
	struct plan_cut cut = plan_cut(p, fixed.value_bytes);

	/* There is one way to cut a value. */
	if (fixed.value_bytes == 0 || fixed.value_bytes > p->value_bytes_max ||
	    cut.part_count != h->part_count || parts_stored_bytes(cut) != h->value_bytes)
		return 0;
	*out = (struct parts_list){
	    .value_bytes = fixed.value_bytes,
	    .checksum = fixed.checksum,
	    .count = h->part_count,
	    .rest_bytes = cut.rest_bytes,
	    .words = value + LAYOUT_PARTS_BYTES,
	    .rest = value + LAYOUT_PARTS_BYTES + LAYOUT_PART_BYTES * (uint64_t)h->part_count,
	};
	for (uint32_t i = 0; i < out->count; i++)
		if (part_chunk(parts_at(out, i)) >= p->chunk_count)
			return 0;
	return 1;
}

int parts_name(const struct parts_list *l, uint32_t chunk, uint32_t generation)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (parts_at(l, i) == part_pack(chunk, generation))
			return 1;
	return 0;
}

int parts_read(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
	       const struct parts_list *l, uint8_t *buffer, int *good)
{
	const struct plan *p = &pool->plan;
	uint64_t in_parts = l->value_bytes - l->rest_bytes;

	for (uint32_t i = 0; i < l->count;) {
		struct fab_op ops[PARTS_BATCH];
		uint32_t n = 0;

		for (; n < PARTS_BATCH && i < l->count; n++, i++)
			ops[n] = fab_read(
			    purpose, plan_chunk_address(p, part_chunk(parts_at(l, i))),
			    buffer + (uint64_t)i * p->chunk_bytes, parts_bytes(p, in_parts, i));
		int status = flow_run(w, ops, n);

		if (status)
			return status;
	}
	memcpy(buffer + in_parts, l->rest, l->rest_bytes);
	*good = hash_checksum(0, buffer, l->value_bytes) == l->checksum;
	return 0;
}

/* ---- which head is in a slot -------------------------------------------------------------- */

/* Does the chunk the word points into still live in the word's generation? */
static int chunk_lives(const struct plan *p, uint64_t word, uint64_t chunk_word)
{
	uint32_t state = chunk_state(chunk_word);

	return (state == CHUNK_OPEN || state == CHUNK_QUEUED || state == CHUNK_EVICTING) &&
	       index_generations_behind(p, word, chunk_generation(chunk_word)) == 0;
}

/* READ the head a word points to; *out->is_head: it is one, and alive. */
static MAY_WAIT int read_head(const struct pool *pool, struct worker *w, enum fab_purpose purpose,
			      uint8_t *buffer, struct parts_slot *out)
{
	const struct plan *p = &pool->plan;
	uint64_t address = index_object_address(out->word), chunk_word;
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(out->word));

	out->is_head = 0;
	if (chunk == UINT32_MAX)
		return 0;
	uint64_t room = plan_chunk_address(p, chunk) + p->chunk_bytes - address;

	if (room < LAYOUT_OBJECT_HEADER_BYTES)
		return 0;
	struct fab_op op = fab_read(purpose, address, buffer, LAYOUT_OBJECT_HEADER_BYTES);
	int status = flow_run(w, &op, 1);
	const struct layout_object *h = object_header(buffer);
	uint64_t bytes = (uint64_t)LAYOUT_UNIT_BYTES * object_units(buffer);

	if (status || bytes > room)
		return status;
	/* The chunk last: if its generation is the word's then, the head was alive. */
	struct fab_op ops[] = {
	    fab_read(purpose, address, buffer, (uint32_t)bytes),
	    fab_read(purpose, plan_chunk_word_address(p, chunk), &chunk_word, 8),
	};

	status = flow_run(w, ops, 2);
	out->is_head = !status && chunk_lives(p, out->word, chunk_word) &&
		       object_check(buffer, bytes, 1) == OBJECT_VALID &&
		       index_generations_behind(p, out->word, h->generation) == 0 &&
		       parts_of(p, buffer, &out->list);
	return status;
}

int parts_look(const struct pool *pool, struct worker *w, enum fab_purpose purpose, uint64_t slot,
	       uint8_t *buffer, struct parts_slot *out)
{
	uint64_t address = plan_slot_address(&pool->plan, slot);

	out->dropped = 0;
	for (unsigned look = 0; look < PARTS_LOOKS_MAX; look++) {
		struct fab_op op = fab_read(purpose, address, &out->word, 8);
		int status = flow_run(w, &op, 1);

		out->is_head = 0;
		if (status || !index_is_head(out->word))
			return status;
		status = read_head(pool, w, purpose, buffer, out);
		if (status || out->is_head)
			return status;
		op = fab_cas(purpose, address, out->word, 0);
		status = flow_run(w, &op, 1);
		if (status)
			return status;
		out->dropped += (uint32_t)fab_cas_won(&op);
	}
	return FORGE_E_AGAIN;
}

/* ---- sweeping ----------------------------------------------------------------------------- */

static MAY_WAIT int read_table(const struct pool *pool, struct worker *w, uint64_t *words)
{
	const struct plan *p = &pool->plan;

	for (uint64_t done = 0; done < p->chunk_count;) {
		uint64_t part = min_u64(p->chunk_count - done, SWEEP_WORDS);
		struct fab_op op = fab_read(FAB_CONTROL, p->chunk_table_offset + 8 * done,
					    words + done, (uint32_t)(8 * part));
		int status = flow_run(w, &op, 1);

		if (status)
			return status;
		done += part;
	}
	return 0;
}

/* The slot's head was READ after the table: what both name is in use. */
static void mark_listed(struct parts_sweep *s, const struct parts_slot *at, uint64_t slot)
{
	for (uint32_t i = 0; i < at->list.count; i++) {
		uint64_t part = parts_at(&at->list, i);

		if (s->words[part_chunk(part)] == chunk_pack_part(part_generation(part), slot))
			s->listed[part_chunk(part)] = 1;
	}
}

static MAY_WAIT int free_part(const struct pool *pool, struct worker *w, uint32_t chunk,
			      struct parts_sweep *s)
{
	struct ring_entry entry = {
	    .chunk = chunk,
	    .generation = generation_next(chunk_generation(s->words[chunk])),
	    .object_count = 1,
	    .owned_word = s->words[chunk],
	};
	uint64_t position;
	int status = ring_enqueue(pool, w, FAB_CONTROL, RING_FREE, &entry, &position);

	if (status && status != FORGE_E_AGAIN)
		return status;
	*(status ? &s->lost : &s->freed) += 1;
	return 0;
}

/* In any line: only the sum over all of them means something. */
static MAY_WAIT int count_dropped(const struct pool *pool, struct worker *w, uint32_t dropped)
{
	struct fab_op op = fab_faa(FAB_CONTROL,
				   plan_stats_address(&pool->plan, 0) +
				       offsetof(struct layout_stats, count[STATS_lost]),
				   dropped);

	return dropped ? flow_run(w, &op, 1) : 0;
}

static MAY_WAIT int sweep_part(const struct pool *pool, struct worker *w, uint32_t chunk,
			       struct parts_sweep *s)
{
	uint64_t slot = chunk_position(s->words[chunk]);
	struct parts_slot at = {0};
	int status = slot < plan_slot_count(&pool->plan)
			 ? parts_look(pool, w, FAB_CONTROL, slot, s->buffer, &at)
			 : 0;

	if (!status || status == FORGE_E_AGAIN) {
		int counted = count_dropped(pool, w, at.dropped);

		status = counted ? counted : status;
	}
	if (status)
		return status == FORGE_E_AGAIN ? 0 : status; /* the next sweep will see */
	if (at.is_head)
		mark_listed(s, &at, slot);
	return s->listed[chunk] ? 0 : free_part(pool, w, chunk, s);
}

int parts_sweep(const struct pool *pool, struct worker *w, struct parts_sweep *s)
{
	const struct plan *p = &pool->plan;
	uint64_t counted;
	struct fab_op op = fab_read(FAB_CONTROL, plan_part_chunks_address(p), &counted, 8);
	int status = flow_run(w, &op, 1);

	if (!status)
		status = read_table(pool, w, s->words);
	memset(s->listed, 0, p->chunk_count);
	s->found = s->freed = s->lost = 0;
	for (uint32_t chunk = 0; chunk < p->chunk_count && !status; chunk++) {
		if (chunk_state(s->words[chunk]) != CHUNK_PART)
			continue;
		s->found++;
		if (!s->listed[chunk])
			status = sweep_part(pool, w, chunk, s);
	}
	if (status || counted == s->found - s->freed)
		return status;
	op = fab_cas(FAB_CONTROL, plan_part_chunks_address(p), counted, s->found - s->freed);
	return flow_run(w, &op, 1);
}
