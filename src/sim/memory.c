/*
 * memory.c: the memory node's bytes, and the execution of one piece of one verb on them.
 *
 * A READ or WRITE is atomic per aligned word and in no larger unit (fabric.h), so a longer one
 * may be cut into pieces, each a set of its words; other workers' steps then fall in between.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "sim/core.h"

#define BLOCK_BYTES 1024u

int sim_memory_create(struct sim_memory *m, size_t size)
{
	size_t block_count = (size + BLOCK_BYTES - 1) / BLOCK_BYTES;

	*m = (struct sim_memory){.size = size};
	m->bytes = aligned_alloc(64, round_up_u64(size, 64));
	m->image = aligned_alloc(64, round_up_u64(size, 64));
	m->dirty = calloc(block_count, 1);
	m->dirty_list = calloc(block_count, sizeof(*m->dirty_list));
	if (!m->bytes || !m->image || !m->dirty || !m->dirty_list) {
		sim_memory_destroy(m);
		return FORGE_E_NO_MEMORY;
	}
	memset(m->bytes, 0, size);
	return 0;
}

void sim_memory_destroy(struct sim_memory *m)
{
	free(m->bytes);
	free(m->image);
	free(m->dirty);
	free(m->dirty_list);
	*m = (struct sim_memory){0};
}

void sim_memory_keep_image(struct sim_memory *m)
{
	memcpy(m->image, m->bytes, m->size);
}

void sim_memory_restore(struct sim_memory *m)
{
	for (uint32_t i = 0; i < m->dirty_count; i++) {
		size_t at = (size_t)m->dirty_list[i] * BLOCK_BYTES;

		memcpy(m->bytes + at, m->image + at, min_u64(BLOCK_BYTES, m->size - at));
		m->dirty[m->dirty_list[i]] = 0;
	}
	m->dirty_count = 0;
}

static void mark_dirty(struct sim_memory *m, uint64_t lo, uint64_t hi)
{
	for (uint64_t block = lo / BLOCK_BYTES; block * BLOCK_BYTES < hi; block++) {
		if (m->dirty[block])
			continue;
		m->dirty[block] = 1;
		m->dirty_list[m->dirty_count++] = (uint32_t)block;
	}
}

bool sim_memory_accepts(const struct sim_memory *m, const struct fab_op *op)
{
	if (op->raddr > m->size || op->len > m->size - op->raddr)
		return false;
	if (op->code == FAB_CAS || op->code == FAB_FAA)
		return op->len == 8 && op->raddr % 8 == 0;
	return op->code == FAB_READ || op->code == FAB_WRITE;
}

/* How many aligned words the op touches, those it touches in part included. */
uint64_t sim_op_word_count(const struct fab_op *op)
{
	return op->len ? (op->raddr + op->len - 1) / 8 - op->raddr / 8 + 1 : 0;
}

/*
 * cut is 0 for runs of words in rising order; odd for words scattered over the pieces; and else
 * for runs of words which begin with another than the first.
 */
void sim_verb_cut(struct sim_verb *v, enum sim_tear tear, uint64_t random)
{
	uint64_t word_count = sim_op_word_count(v->op);

	v->piece_count = 1;
	v->piece_index = 0;
	v->cut = 0;
	if (word_count < 2 || v->op->code == FAB_CAS || v->op->code == FAB_FAA)
		return;
	if (tear == SIM_TEAR_HALVES) {
		v->piece_count = 2;
	} else if (tear == SIM_TEAR_WORDS && random & 1) {
		v->piece_count = (uint8_t)min_u64(2 + (random >> 1) % 3, word_count);
		v->cut = random >> 8;
	}
}

static uint32_t piece_of_word(const struct sim_verb *v, uint64_t word, uint64_t word_count)
{
	if (v->cut & 1)
		return (uint32_t)(sim_mix(v->cut, word) >> 7) % v->piece_count;
	return (uint32_t)((word * v->piece_count / word_count + (v->cut >> 1)) % v->piece_count);
}

static uint64_t digest_bytes(const uint8_t *bytes, size_t count)
{
	uint64_t hash = count, word;

	for (; count >= 8; count -= 8, bytes += 8) {
		memcpy(&word, bytes, 8);
		hash = sim_mix(hash, word);
	}
	if (count) {
		word = 0;
		memcpy(&word, bytes, count);
		hash = sim_mix(hash, word);
	}
	return hash;
}

/* Move bytes [lo, hi) of the memory from or to the op's buffer. */
static void move(struct sim_memory *m, const struct fab_op *op, uint64_t lo, uint64_t hi,
		 struct sim_effect *e)
{
	uint8_t *local = (uint8_t *)op->buf + (lo - op->raddr);

	if (op->code == FAB_WRITE) {
		if (memcmp(m->bytes + lo, local, hi - lo) != 0) {
			e->changed = true;
			memcpy(m->bytes + lo, local, hi - lo);
			mark_dirty(m, lo, hi);
		}
	} else {
		memcpy(local, m->bytes + lo, hi - lo);
	}
	e->digest = sim_mix(e->digest, digest_bytes(local, hi - lo));
	e->range.lo = min_u64(e->range.lo, lo);
	e->range.hi = max_u64(e->range.hi, hi);
}

static void move_piece(struct sim_memory *m, const struct sim_verb *v, struct sim_effect *e)
{
	const struct fab_op *op = v->op;
	uint64_t first_word = op->raddr / 8, word_count = sim_op_word_count(op);

	for (uint64_t i = 0; i < word_count; i++) {
		uint64_t lo = max_u64(op->raddr, (first_word + i) * 8);
		uint64_t hi = min_u64(op->raddr + op->len, (first_word + i + 1) * 8);

		if (piece_of_word(v, i, word_count) == v->piece_index)
			move(m, op, lo, hi, e);
	}
}

static void change_word(struct sim_memory *m, struct fab_op *op, struct sim_effect *e)
{
	uint64_t word, next;

	memcpy(&word, m->bytes + op->raddr, 8);
	op->old = word;
	e->range.lo = op->raddr;
	e->range.hi = op->raddr + 8;
	e->range.writes = op->code == FAB_FAA || word == op->arg;
	next = op->code == FAB_FAA ? word + op->arg : (word == op->arg ? op->swap : word);
	e->changed = next != word;
	e->digest = sim_mix(word, next);
	if (e->changed) {
		memcpy(m->bytes + op->raddr, &next, 8);
		mark_dirty(m, op->raddr, op->raddr + 8);
	}
}

/* Execute the verb's next piece.  The op was found acceptable when it was posted. */
void sim_verb_step(struct sim_memory *m, struct sim_verb *v, struct sim_effect *e)
{
	struct fab_op *op = v->op;

	*e = (struct sim_effect){.range = {.lo = UINT64_MAX, .writes = op->code == FAB_WRITE}};
	assert(v->piece_index < v->piece_count);
	if (v->refused) {
		e->digest = 1;
	} else if (op->code == FAB_CAS || op->code == FAB_FAA) {
		change_word(m, op, e);
	} else if (v->piece_count > 1) {
		move_piece(m, v, e);
	} else if (op->len) {
		move(m, op, op->raddr, op->raddr + op->len, e);
	}
	if (e->range.lo >= e->range.hi)
		e->range = (struct sim_range){0};
	v->piece_index++;
}
