/*
 * parts.c: objects larger than a chunk: their lists, their parts and their values.
 *
 * A chunk that is listed and is not a part of that slot and generation is a contradiction, with two
 * exceptions.  Its node may be between the link of the head and the next verb, which makes it a
 * part: it is reserved then, in the same generation.  And that node may have died there: recovery
 * has raised the generation, and the value is lost; whoever reads it finds out and takes the head
 * out of its slot.
 */
#include <inttypes.h>

#include "check/inside.h"
#include "pool/parts.h"

/* What one look at a large object found, beside a verdict. */
struct large_look {
	struct parts_list list;
	int is_list;
	int unfinished; /* lost a part, or has not got them all yet */
};

static MAY_WAIT int look_chunks(struct check *c, uint64_t slot, int fresh, struct large_look *l,
				struct check_verdict *v)
{
	const struct plan *p = c->plan;

	for (uint32_t i = 0; i < l->list.count; i++) {
		uint32_t chunk = part_chunk(parts_at(&l->list, i));
		uint32_t generation = part_generation(parts_at(&l->list, i));
		uint64_t address = plan_chunk_word_address(p, chunk), word = c->words[chunk];
		int status = fresh || c->options->live ? check_read(c, address, &word, 8) : 0;

		if (status)
			return status;
		if (word == chunk_pack_part(generation, slot))
			continue;
		l->unfinished = 1;
		if (chunk_generation(word) != generation ||
		    (chunk_state(word) == CHUNK_RESERVED && !check_at_rest(c)))
			continue;
		VERDICT(v, PART_CHUNK, address, word,
			"part %u of slot %" PRIu64 ": chunk %u of generation %u is %016" PRIx64
			", no part of that slot",
			i, slot, chunk, generation, word);
		return 0;
	}
	return 0;
}

static MAY_WAIT int judge_large(struct check *c, uint64_t slot, const void *object, int fresh,
				struct large_look *l, struct check_verdict *v)
{
	uint64_t address = plan_slot_address(c->plan, slot);
	int good = 1;

	l->unfinished = 0;
	l->is_list = parts_of(c->plan, object, &l->list);
	if (!l->is_list) {
		VERDICT(v, PART_LIST, address, object_header(object)->checksum,
			"the object of slot %" PRIu64
			" has %u parts and %u bytes of list, which cannot be",
			slot, object_header(object)->part_count,
			object_header(object)->value_bytes);
		return 0;
	}
	int status = look_chunks(c, slot, fresh, l, v);

	if (!status && !l->unfinished) {
		status = parts_read(c->pool, c->worker, FAB_CONTROL, &l->list, c->value, &good);
		c->out->read_bytes += l->list.value_bytes;
	}
	if (!status && !good)
		VERDICT(v, PART_VALUE, address, l->list.checksum,
			"the value of slot %" PRIu64 ", %" PRIu64 " bytes in %u parts, fails its "
			"checksum",
			slot, l->list.value_bytes, l->list.count);
	return status;
}

static MAY_WAIT int look_large(struct check *c, uint64_t id, int fresh, struct check_verdict *v)
{
	struct large_look l;
	const void *object;
	int status = check_object_again(c, id, &object);

	return status || !object ? status : judge_large(c, c->slots[id].slot, object, fresh, &l, v);
}

/* Each chunk belongs to one list; a broken object owns nothing. */
static void note_listed(struct check *c, uint64_t slot, const struct parts_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		uint32_t chunk = part_chunk(parts_at(list, i));
		struct check_verdict v;

		if (c->words[chunk] != chunk_pack_part(part_generation(parts_at(list, i)), slot))
			continue;
		if (c->listed[chunk]++ == 0)
			continue;
		VERDICT(&v, PART_SHARED, plan_chunk_word_address(c->plan, chunk), c->words[chunk],
			"chunk %u is listed twice in slot %" PRIu64, chunk, slot);
		check_report_verdict(c, &v);
	}
}

int check_large(struct check *c, uint64_t id, const void *object, uint64_t *part_bytes)
{
	const struct layout_object *h = object;
	struct check_verdict v = {.rule = CHECK_NONE};
	struct large_look l;
	uint64_t slot = c->slots[id].slot;
	int status = judge_large(c, slot, object, 0, &l, &v), reported;

	c->out->objects_large++;
	if (status)
		return status;
	if (l.is_list) {
		c->out->payload_bytes += h->key_bytes + l.list.value_bytes;
		*part_bytes += l.list.value_bytes - l.list.rest_bytes;
		c->out->objects_broken += (uint64_t)l.unfinished;
		note_listed(c, slot, &l.list);
	}
	return v.rule == CHECK_NONE ? 0 : check_confirm(c, look_large, id, &v, &reported);
}

int check_unlisted(struct check *c)
{
	struct check_verdict v;

	for (uint32_t chunk = 0; chunk < c->plan->chunk_count; chunk++) {
		uint64_t word = c->words[chunk];

		if (chunk_state(word) != CHUNK_PART || (c->listed && c->listed[chunk]))
			continue;
		c->out->parts_unlisted++;
		/* Beside traffic heads move while they are looked for; and deaths leave some. */
		if (!check_at_rest(c))
			continue;
		VERDICT(&v, PART_UNLISTED, plan_chunk_word_address(c->plan, chunk), word,
			"chunk %u is a part of slot %" PRIu64 ", %016" PRIx64
			", and no live object there lists it",
			chunk, chunk_position(word), word);
		check_report_verdict(c, &v);
	}
	return 0;
}
