/*
 * objects.c: what lies in a chunk: its objects, its TWIM, and the slots that point into it.
 *
 * A stale slot can look live by accident: its word keeps 14 bits of the chunk's generation (10
 * with 16-byte slots), and once the chunk has been re-used that many times they fit again.
 * Readers find out by verifying the object, so that is no violation; but neither is it provable
 * whenever somebody damaged a slot.  So: as long as the tickets handed out show that no chunk
 * can have been re-used that often every such slot is a finding; later on it is counted as
 * aliased, unless the object or the TWIM proves that the slot really belongs to it, and slots.c
 * reports when there are more than wrapping explains.
 */
#include <inttypes.h>
#include <string.h>

#include "check/inside.h"
#include "pool/object.h"

/*
 * Each re-use of a chunk takes a group out of a queue, from a position of its own: the tails
 * bound how often any one chunk can have been re-used.
 */
static int may_have_wrapped(const struct check *c, uint64_t word)
{
	uint64_t tickets = c->cursors.ring[RING_SMALL].tail + c->cursors.ring[RING_MAIN].tail;
	uint32_t reuses = (chunk_generation(word) - 1) & (LAYOUT_GENERATION_COUNT - 1);

	return tickets >= LAYOUT_GENERATION_COUNT || reuses >= index_generation_range(c->plan);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Live: the chunk word first, then node, content and the chunk word *again, in one ordered batch.
 */
static MAY_WAIT int read_content_once(struct check *c, uint32_t chunk, uint64_t *node,
				      uint64_t *again)
{
	const struct plan *p = c->plan;
	struct check_content *t = &c->content;
	int status = 0;

	*node = 0;
	t->word = *again = c->words[chunk];
	if (c->options->live)
		status = check_read(c, plan_chunk_word_address(p, chunk), &t->word, 8);
	uint32_t ring = chunk_ring(t->word), state = chunk_state(t->word);
	uint64_t index = chunk_position(t->word) & (p->ring_nodes - 1);
	int in_queue = ring < RING_QUEUES && (state == CHUNK_QUEUED || state == CHUNK_EVICTING);

	if (in_queue)
		*node = c->nodes[ring][index];
	if (status || !c->options->live)
		return status
			   ? status
			   : check_read(c, plan_chunk_address(p, chunk), t->bytes, p->chunk_bytes);
	struct fab_op ops[3];
	unsigned n = 0;

	if (in_queue)
		ops[n++] = fab_read(FAB_CONTROL, plan_ring_node_address(p, ring, index), node, 8);
	ops[n++] = fab_read(FAB_CONTROL, plan_chunk_address(p, chunk), t->bytes, p->chunk_bytes);
	ops[n++] = fab_read(FAB_CONTROL, plan_chunk_word_address(p, chunk), again, 8);
	for (unsigned i = 0; i < n; i++)
		c->out->read_bytes += ops[i].len;
	return flow_run(c->worker, ops, n);
}

/*
 * READ the chunk so that everything in it belongs to one chunk word.  *stable 0: it was in
 * other hands each time.
 */
static MAY_WAIT int read_content(struct check *c, uint32_t chunk, int *stable)
{
	const struct plan *p = c->plan;
	struct check_content *t = &c->content;
	uint64_t node = 0;

	t->chunk = chunk;
	*stable = 0;
	for (unsigned i = 0; i < CHECK_LOOKS && !*stable; i++) {
		uint64_t again;
		int status = read_content_once(c, chunk, &node, &again);

		if (status)
			return status;
		*stable = again == t->word;
	}
	/* Chunk and generation name one group, whichever of its positions the node is from. */
	uint32_t generation = chunk_generation(t->word);
	int sealed = ring_node_valid(p, node) && node_chunk(node) == chunk &&
		     node_generation(node) == generation;

	t->object_count = sealed ? node_object_count(node) : 0;
	if (sealed) {
		const void *entries = t->bytes + p->chunk_bytes - TWIM_BYTES * t->object_count;

		twim_decode(p, chunk, generation, entries, t->object_count, t->members);
	}
	return 0;
}

/* ---- one slot ----------------------------------------------------------------------------- */

/* The object at an address of the chunk that was READ; *room receives the bytes there can be. */
static const void *object_at(const struct check *c, uint64_t address, uint64_t *room)
{
	const struct check_content *t = &c->content;
	uint64_t offset = address - plan_chunk_address(c->plan, t->chunk);
	uint64_t limit = plan_group_bytes(c->plan, t->object_count);

	*room = offset < limit ? limit - offset : 0;
	return t->bytes + min_u64(offset, limit);
}

/* The SN under which the TWIM has exactly this word in this slot, or -1. */
static int named_by_twim(const struct check *c, const struct check_slot *s, uint32_t likely_sn)
{
	const struct check_content *t = &c->content;

	for (uint32_t i = 0; i <= t->object_count; i++) {
		/* First where the object says it is. */
		uint32_t sn = i == 0 ? likely_sn : i - 1;

		if (sn < t->object_count && t->members[sn].units > 0 &&
		    t->members[sn].slot == s->slot && t->members[sn].word == s->word)
			return (int)sn;
	}
	return -1;
}

static int slot_is_near(const struct plan *p, const struct index_home *home, uint64_t slot)
{
	return slot - index_slot_number(home, 0) < LAYOUT_NEIGHBOURHOOD &&
	       slot < plan_slot_count(p);
}

/* A live-looking slot against the chunk and the object at its pointer. */
static void judge_object(struct check *c, struct check_slot *s, const void *object, uint64_t room,
			 struct check_verdict *v)
{
	const struct plan *p = c->plan;
	uint32_t state = chunk_state(c->content.word),
		 generation = chunk_generation(c->content.word);
	uint64_t address = plan_slot_address(p, s->slot);
	const struct layout_object *h = object;

	if (state != CHUNK_OPEN && state != CHUNK_QUEUED && state != CHUNK_EVICTING) {
		VERDICT(v, SLOT_CHUNK, address, s->word,
			"%016" PRIx64 " points into chunk %u, word %016" PRIx64 ", state %u",
			s->word, c->content.chunk, c->content.word, state);
		return;
	}
	enum object_verdict verdict = object_check(object, room, 1);

	if (verdict != OBJECT_VALID || h->generation != generation || h->sn >= p->group_objects ||
	    index_blocks(s->word) != object_blocks(object)) {
		VERDICT(v, SLOT_OBJECT, address, s->word,
			"%016" PRIx64 ": object at %" PRIu64 ": %s; generation %u of %u, SN %u",
			s->word, index_object_address(s->word),
			verdict == OBJECT_VALID	  ? "checksum fits"
			: verdict == OBJECT_SHORT ? "too long"
						  : "checksum fails",
			room >= sizeof(*h) ? h->generation : 0, generation,
			room >= sizeof(*h) ? h->sn : 0);
		return;
	}
	struct index_home home = index_locate(p, object_key(object), h->key_bytes);

	s->hash = home.hash;
	if (home.fingerprint != index_fingerprint(s->word) || !slot_is_near(p, &home, s->slot))
		VERDICT(v, SLOT_KEY, address, s->word,
			"%016" PRIx64 " in slot %" PRIu64
			": its key has fingerprint %02x and belongs to slots from %" PRIu64 " on",
			s->word, s->slot, home.fingerprint, index_slot_number(&home, 0));
}

/*
 * A whole object of the slot's generation, and that is yet to come: no wrapped generation explains
 * it, since an object does not outlast half of them.  Whoever reads it believes the chunk to be in
 * that life, and takes what is stored there until then for stale.
 */
static int is_of_later_life(const struct check *c, const struct check_slot *s, const void *object,
			    uint64_t room)
{
	if (object_check(object, room, 1) != OBJECT_VALID)
		return 0;
	uint32_t generation = object_header(object)->generation;
	uint32_t ahead =
	    (generation - chunk_generation(c->content.word)) & (LAYOUT_GENERATION_COUNT - 1);

	return ahead != 0 && ahead < LAYOUT_GENERATION_COUNT / 2 &&
	       index_generations_behind(c->plan, s->word, generation) == 0;
}

enum slot_kind { SLOT_IS_STALE, SLOT_IS_LIVE, SLOT_IS_ALIAS, SLOT_IS_WRONG };

/* *sn receives the SN by which the TWIM knows the slot, or -1. */
static enum slot_kind judge_slot(struct check *c, struct check_slot *s, int *sn,
				 struct check_verdict *v)
{
	const struct check_content *t = &c->content;
	uint64_t room;
	const void *object = object_at(c, index_object_address(s->word), &room);
	uint32_t object_sn = room >= sizeof(struct layout_object) ? object_header(object)->sn : 0;

	uint32_t behind = index_generations_behind(c->plan, s->word, chunk_generation(t->word));

	*sn = -1;
	if (behind != 0 && is_of_later_life(c, s, object, room)) {
		VERDICT(v, SLOT_NEWER, plan_slot_address(c->plan, s->slot), s->word,
			"%016" PRIx64 " points to an object of generation %u, chunk %u has %u",
			s->word, object_header(object)->generation, t->chunk,
			chunk_generation(t->word));
		return SLOT_IS_WRONG;
	}
	if (behind != 0)
		return SLOT_IS_STALE;
	*sn = named_by_twim(c, s, object_sn);
	judge_object(c, s, object, room, v);
	if (v->rule != CHECK_NONE) {
		if (*sn >= 0 || !may_have_wrapped(c, t->word))
			return SLOT_IS_WRONG;
		v->rule = CHECK_NONE;
		return SLOT_IS_ALIAS;
	}
	if (t->object_count == 0 || *sn == (int)object_sn)
		return SLOT_IS_LIVE;
	if (*sn < 0)
		VERDICT(v, SLOT_TWIM, plan_slot_address(c->plan, s->slot), s->word,
			"%016" PRIx64 " in slot %" PRIu64
			" points to SN %u of chunk %u, whose TWIM does not name it",
			s->word, s->slot, object_sn, t->chunk);
	else
		VERDICT(v, OBJECT_SN, index_object_address(s->word), s->word,
			"the object says SN %u, the TWIM of chunk %u says %d", object_sn, t->chunk,
			*sn);
	return SLOT_IS_WRONG;
}

int check_object_again(struct check *c, uint64_t id, const void **object)
{
	struct check_slot *s = &c->slots[id];
	struct check_verdict v = {.rule = CHECK_NONE};
	uint64_t now, room;
	int stable, sn;
	int status = read_content(c, c->content.chunk, &stable);

	*object = NULL;
	if (!status)
		status = check_read(c, plan_slot_address(c->plan, s->slot), &now, 8);
	if (!status && stable && now == s->word && judge_slot(c, s, &sn, &v) == SLOT_IS_LIVE)
		*object = object_at(c, index_object_address(s->word), &room);
	return status;
}

/* id: index into c->slots */
static MAY_WAIT int look_slot(struct check *c, uint64_t id, int fresh, struct check_verdict *v)
{
	struct check_slot *s = &c->slots[id];
	uint64_t now;
	int stable, sn;
	int status = read_content(c, c->content.chunk, &stable);

	if (!status)
		status = check_read(c, plan_slot_address(c->plan, s->slot), &now, 8);
	if (!status && stable && now == s->word)
		judge_slot(c, s, &sn, v);
	return status;
}

/* ---- the whole chunk ---------------------------------------------------------------------- */

/* What the slots of one chunk add up to, each object counted once. */
struct sum {
	uint64_t objects, bytes;
	uint64_t pointer; /* of the last one; slots are sorted by it */
};

static MAY_WAIT int check_slot_of_chunk(struct check *c, uint64_t id, struct sum *sum)
{
	struct check_slot *s = &c->slots[id];
	struct check_report *o = c->out;
	struct check_verdict v = {.rule = CHECK_NONE};
	int sn, reported = 0, status = 0;
	enum slot_kind kind = judge_slot(c, s, &sn, &v);

	if (sn >= 0)
		c->content.live[sn] = 1;
	if (kind == SLOT_IS_LIVE) {
		uint64_t room;
		const void *object = object_at(c, index_object_address(s->word), &room);
		const struct layout_object *h = object;

		o->slots_live++;
		if (h->part_count == 0)
			o->payload_bytes += (uint64_t)h->key_bytes + h->value_bytes;
		if (sum->pointer == index_pointer(s->word))
			return 0;
		sum->pointer = index_pointer(s->word);
		sum->objects++;
		sum->bytes += (uint64_t)object_units(object) * LAYOUT_UNIT_BYTES;
		return h->part_count ? check_large(c, id, object, &o->live_bytes) : 0;
	}
	if (kind == SLOT_IS_WRONG)
		status = check_confirm(c, look_slot, id, &v, &reported);
	o->slots_invalid += (uint64_t)reported;
	o->slots_stale += kind == SLOT_IS_STALE;
	o->slots_aliased += kind == SLOT_IS_ALIAS;
	s->word = 0;
	return status;
}

/* Is the member the object that its TWIM entry was written for? */
static int member_whole(const struct check *c, const struct twim_member *m)
{
	const struct plan *p = c->plan;
	uint64_t room;
	const void *object = object_at(c, m->address, &room);
	const struct layout_object *h = object;

	if (object_check(object, min_u64(room, (uint64_t)m->units * LAYOUT_UNIT_BYTES), 1) !=
		OBJECT_VALID ||
	    object_units(object) != m->units || h->sn != m->sn ||
	    h->generation != chunk_generation(c->content.word))
		return 0;
	struct index_home home = index_locate(p, object_key(object), h->key_bytes);

	return home.fingerprint == m->fingerprint && slot_is_near(p, &home, m->slot);
}

/* The TWIM of a sealed group, and its members that have no slot any more. */
static void check_twim(struct check *c)
{
	const struct plan *p = c->plan;
	const struct check_content *t = &c->content;
	uint64_t twim = plan_twim_address(p, t->chunk, t->object_count), used = 0;
	const uint64_t *entries =
	    (const void *)(t->bytes + p->chunk_bytes - TWIM_BYTES * t->object_count);
	struct check_verdict v;

	for (uint32_t sn = 0; sn < t->object_count; sn++) {
		const struct twim_member *m = &t->members[sn];
		uint64_t entry = entries[plan_twim_index(sn, t->object_count)];
		uint64_t bytes = (uint64_t)twim_units(entry) * LAYOUT_UNIT_BYTES;
		uint64_t address = twim + TWIM_BYTES * plan_twim_index(sn, t->object_count);

		used += bytes;
		if (bytes == 0 || used > plan_group_bytes(p, t->object_count) ||
		    (twim_slot(entry) >= plan_slot_count(p) &&
		     twim_slot(entry) != TWIM_SLOT_DEAD)) {
			VERDICT(&v, TWIM_ENTRY, address, entry,
				"%016" PRIx64 ": SN %u of chunk %u: %u units, slot %" PRIu64
				", %" PRIu64 " bytes so far",
				entry, sn, t->chunk, twim_units(entry), twim_slot(entry), used);
			check_report_verdict(c, &v);
			break; /* the offsets that follow mean nothing */
		}
		c->out->used_bytes += bytes + TWIM_BYTES;
		if (t->live[sn])
			continue;
		c->out->objects_dead++;
		c->out->dead_bytes += bytes;
		if (m->units == 0 || member_whole(c, m))
			continue;
		VERDICT(&v, TWIM_OBJECT, m->address, entry,
			"SN %u of chunk %u, which slot %" PRIu64
			" pointed to, is not the object its TWIM entry %016" PRIx64 " says",
			sn, t->chunk, m->slot, entry);
		check_report_verdict(c, &v);
	}
}

/* A live member that the dead map names would lose its place. */
static MAY_WAIT int count_dead_bits(struct check *c)
{
	const struct check_content *t = &c->content;
	uint64_t words[LAYOUT_DEAD_WORDS_MAX];
	int status = check_read(c, plan_dead_address(c->plan, t->chunk), words,
				8 * (uint64_t)plan_dead_words(c->plan));

	for (uint32_t sn = 0; sn < t->object_count && !status; sn++) {
		unsigned named = (unsigned)dead_words_name(words, chunk_generation(t->word), sn);

		c->out->dead_bits += named;
		c->out->dead_bits_wrong += named & t->live[sn];
	}
	return status;
}

int check_chunk(struct check *c, uint32_t chunk, uint64_t from, uint64_t to)
{
	const struct plan *p = c->plan;
	struct check_content *t = &c->content;
	struct sum sum = {0};
	int stable;
	int status = read_content(c, chunk, &stable);

	if (status)
		return status;
	if (!stable) {
		c->out->unstable += to - from;
		for (uint64_t i = from; i < to; i++)
			c->slots[i].word = 0;
		return 0;
	}
	uint64_t word = t->word;
	uint32_t object_count = t->object_count ? t->object_count : p->group_objects;

	memset(t->live, 0, p->group_objects);
	for (uint64_t i = from; i < to && !status; i++)
		status = check_slot_of_chunk(c, i, &sum);
	c->out->live_bytes += sum.bytes;
	if (status || t->word != word)
		return status; /* freed while one of its slots was looked at again */
	if (sum.objects > object_count || sum.bytes + TWIM_BYTES * sum.objects > p->chunk_bytes) {
		struct check_verdict v;

		VERDICT(&v, CHUNK_RESIDENTS, plan_chunk_word_address(p, chunk), word,
			"chunk %u of %u bytes and %u objects has %" PRIu64
			" live objects of %" PRIu64 " bytes",
			chunk, p->chunk_bytes, object_count, sum.objects, sum.bytes);
		check_report_verdict(c, &v);
	}
	if (t->object_count > 0 && chunk_state(word) == CHUNK_QUEUED) {
		c->out->sealed_bytes += p->chunk_bytes;
		check_twim(c);
		status = count_dead_bits(c);
	}
	return status;
}
