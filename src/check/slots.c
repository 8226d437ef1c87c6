/*
 * slots.c: the index.
 *
 * One scan judges each word by itself and remembers those that look live; sorted by pointer they
 * are then judged chunk by chunk (objects.c), and the verified ones, sorted by hash, show which
 * keys have two.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check/inside.h"
#include "pool/object.h"

/* ---- the scan ----------------------------------------------------------------------------- */

/* Room for the least object that the word's length field can mean, inside one chunk? */
static int pointer_possible(const struct plan *p, uint64_t word)
{
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint32_t blocks = index_blocks(word);
	uint64_t least = index_is_head(word) ? LAYOUT_OBJECT_HEADER_BYTES
			 : blocks == INDEX_BLOCKS_HEADER
			     ? (uint64_t)INDEX_BLOCKS_MAX * LAYOUT_BLOCK_BYTES
			     : (uint64_t)(blocks - 1) * LAYOUT_BLOCK_BYTES + LAYOUT_UNIT_BYTES;

	if (chunk == UINT32_MAX)
		return 0;
	return index_object_address(word) + max_u64(least, LAYOUT_OBJECT_HEADER_BYTES) <=
	       plan_chunk_address(p, chunk) + p->chunk_bytes;
}

/*
 * A dead adder's word, stale since its open group was freed: room for the next insert.  One that
 * points nowhere is no such word.
 */
static int tentative_is_stale(const struct check *c, uint64_t word)
{
	uint32_t chunk = plan_chunk_of_pointer(c->plan, index_pointer(word));

	return chunk != UINT32_MAX &&
	       index_generations_behind(c->plan, word, chunk_generation(c->words[chunk])) != 0;
}

static MAY_WAIT int look_word(struct check *c, uint64_t slot, int fresh, struct check_verdict *v)
{
	const struct plan *p = c->plan;
	uint64_t address = plan_slot_address(p, slot), word = c->slot_word;
	int status = fresh ? check_read(c, address, &word, 8) : 0;

	if (status)
		return status;
	if (index_blocks(word) == INDEX_BLOCKS_EMPTY && word != 0)
		VERDICT(v, SLOT_WORD, address, word,
			"%016" PRIx64 " in slot %" PRIu64 ": no object, but not zero", word, slot);
	else if (index_is_tentative(word) && check_at_rest(c) && !tentative_is_stale(c, word))
		VERDICT(v, SLOT_TENTATIVE, address, word,
			"%016" PRIx64 " in slot %" PRIu64 " is tentative, but nothing is running",
			word, slot);
	else if (index_is_object(word) && !pointer_possible(p, word))
		VERDICT(v, SLOT_POINTER, address, word,
			"%016" PRIx64 " in slot %" PRIu64 ": pointer %" PRIu64 ", %u blocks", word,
			slot, index_object_address(word), index_blocks(word));
	return 0;
}

static int remember(struct check *c, uint64_t slot, uint64_t word)
{
	if (c->slot_count == c->slot_room) {
		uint64_t room = c->slot_room ? 2 * c->slot_room : 1024;
		struct check_slot *more = realloc(c->slots, room * sizeof(*more));

		if (!more)
			return FORGE_E_NO_MEMORY;
		c->slots = more;
		c->slot_room = room;
	}
	c->slots[c->slot_count++] = (struct check_slot){.word = word, .slot = slot};
	return 0;
}

/*
 * A group word of the index word's version must name its chunk and generation; one that was
 * overtaken or got lost costs a few counts, so it is no violation.
 */
static void count_group_word(struct check *c, uint64_t word, uint64_t group)
{
	const struct plan *p = c->plan;

	c->out->group_words_late +=
	    group_version(group) == index_word_version(p, word) &&
	    (group_chunk(group) != plan_chunk_of_pointer(p, index_pointer(word)) ||
	     (group_generation(group) & (index_generation_range(p) - 1)) !=
		 index_word_generation(p, word));
}

static MAY_WAIT int scan_slot(struct check *c, uint64_t slot, const uint64_t *words)
{
	const struct plan *p = c->plan;
	struct check_report *o = c->out;
	uint64_t word = words[0], before = o->findings;

	c->slot_word = word;
	int status = check_judge(c, look_word, slot);

	if (status)
		return status;
	o->slots_invalid += o->findings - before;
	o->slots_empty += word == 0;
	o->words += (uint64_t)index_is_object(word);
	o->slots_tentative += index_is_tentative(word);
	if (!index_is_object(word) || !pointer_possible(p, word))
		return 0;
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint32_t behind = index_generations_behind(p, word, chunk_generation(c->words[chunk]));

	/* One that seems to be ahead may be newer than the chunk word as READ. */
	if (behind != 0 && behind < index_generation_range(p) / 2) {
		o->slots_stale++;
		return 0;
	}
	if (p->slot_words == 2 && behind == 0)
		count_group_word(c, word, words[1]);
	return remember(c, slot, word);
}

static MAY_WAIT int scan(struct check *c)
{
	const struct plan *p = c->plan;
	uint64_t slots = plan_slot_count(p), piece = CHECK_PIECE_WORDS / p->slot_words;

	for (uint64_t from = 0; from < slots; from += piece) {
		uint64_t n = min_u64(piece, slots - from);
		int status =
		    check_read(c, plan_slot_address(p, from), c->piece, 8 * n * p->slot_words);

		for (uint64_t i = 0; i < n && !status; i++)
			status = scan_slot(c, from + i, &c->piece[i * p->slot_words]);
		if (status)
			return status;
	}
	return 0;
}

/* ---- by chunk ----------------------------------------------------------------------------- */

static int by_pointer(const void *a, const void *b)
{
	const struct check_slot *x = a, *y = b;
	uint64_t px = index_pointer(x->word), py = index_pointer(y->word);

	if (px != py)
		return (px > py) - (px < py);
	return (x->slot > y->slot) - (x->slot < y->slot);
}

static MAY_WAIT int check_chunks(struct check *c)
{
	const struct plan *p = c->plan;
	uint64_t from = 0, to;

	if (c->slot_count > 0)
		qsort(c->slots, c->slot_count, sizeof(*c->slots), by_pointer);
	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++, from = to) {
		for (to = from; to < c->slot_count; to++)
			if (plan_chunk_of_pointer(p, index_pointer(c->slots[to].word)) != chunk)
				break;
		if (from == to && chunk_state(c->words[chunk]) != CHUNK_QUEUED)
			continue;
		int status = check_chunk(c, chunk, from, to);

		if (status)
			return status;
	}
	return 0;
}

/* ---- duplicates --------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
	const struct check_slot *x = a, *y = b;

	if (x->hash != y->hash)
		return (x->hash > y->hash) - (x->hash < y->hash);
	return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Header and key of an object that was verified before. */
static MAY_WAIT int read_key(struct check *c, uint64_t word, uint8_t *out, uint64_t room)
{
	const struct plan *p = c->plan;
	uint32_t chunk = plan_chunk_of_pointer(p, index_pointer(word));
	uint64_t address = index_object_address(word);
	uint64_t end = plan_chunk_address(p, chunk) + p->chunk_bytes;

	memset(out, 0, room);
	return check_read(c, address, out, min_u64(room, end - address));
}

static MAY_WAIT int compare_keys(struct check *c, const struct check_slot *a,
				 const struct check_slot *b)
{
	const uint64_t room =
	    round_up_u64(LAYOUT_OBJECT_HEADER_BYTES + LAYOUT_KEY_BYTES_MAX, LAYOUT_UNIT_BYTES);
	uint8_t *object = (uint8_t *)c->piece, *other = object + room;
	int status = read_key(c, a->word, object, room);

	if (!status)
		status = read_key(c, b->word, other, room);
	if (status)
		return status;
	uint32_t key_bytes = object_header(other)->key_bytes;

	if (key_bytes > LAYOUT_KEY_BYTES_MAX ||
	    !object_key_is(object, object_key(other), key_bytes))
		return 0;
	c->out->duplicates++;
	if (!check_at_rest(c))
		return 0;
	struct check_verdict v;

	VERDICT(&v, OBJECT_DUPLICATE, plan_slot_address(c->plan, b->slot), b->word,
		"slots %" PRIu64 " and %" PRIu64 " hold one key: %016" PRIx64 " and %016" PRIx64,
		a->slot, b->slot, a->word, b->word);
	check_report_verdict(c, &v);
	return 0;
}

static MAY_WAIT int check_duplicates(struct check *c)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < c->slot_count; i++)
		if (c->slots[i].word != 0)
			c->slots[n++] = c->slots[i];
	c->slot_count = n;
	if (n == 0)
		return 0;
	qsort(c->slots, n, sizeof(*c->slots), by_hash);
	for (uint64_t i = 1; i < n; i++) {
		int status = c->slots[i].hash == c->slots[i - 1].hash
				 ? compare_keys(c, &c->slots[i - 1], &c->slots[i])
				 : 0;

		if (status)
			return status;
	}
	return 0;
}

/*
 * Of slots that are stale for long one in `range` looks live at a time, all those of a group
 * together.
 */
static void judge_aliases(struct check *c)
{
	const struct plan *p = c->plan;
	uint64_t limit =
	    2 * ((uint64_t)p->group_objects + plan_slot_count(p) / index_generation_range(p));
	struct check_verdict v;

	if (c->out->slots_aliased <= limit)
		return;
	VERDICT(&v, SLOT_ALIASES, p->index_offset, c->out->slots_aliased,
		"%" PRIu64 " slots look live and are not; wrapped generations explain %" PRIu64,
		c->out->slots_aliased, limit);
	check_report_verdict(c, &v);
}

int check_slots(struct check *c)
{
	int status = scan(c);

	if (!status)
		status = check_chunks(c);
	if (!status)
		status = check_duplicates(c);
	if (!status)
		judge_aliases(c);
	if (!status)
		status = check_unlisted(c);
	return status;
}
