/* lin_long.c: going through a key's calls and returns; see lin_long.h. */
#include "sim/lin_long.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "base/status.h"

#define STATES_FIRST 64u
#define OPS_FIRST    256u
/* Operations printed before the one that cannot be explained. */
#define SHOWN 24u

void lin_long_create(struct lin_long *l)
{
	*l = (struct lin_long){0};
}

static void states_destroy(struct lin_states *s)
{
	free(s->states);
	free(s->table);
}

void lin_long_destroy(struct lin_long *l)
{
	states_destroy(&l->now);
	states_destroy(&l->seen);
	states_destroy(&l->after);
	free(l->ops);
	free(l->returns);
	*l = (struct lin_long){0};
}

static void states_clear(struct lin_states *s)
{
	if (s->count)
		memset(s->table, 0, 2 * (size_t)s->capacity * sizeof(*s->table));
	s->count = 0;
}

/* Where the state is or belongs. */
static uint32_t *states_find(const struct lin_states *s, struct lin_state wanted)
{
	uint64_t mix = wanted.placed ^ (wanted.value * 0x9e3779b97f4a7c15u);
	uint32_t mask = 2 * s->capacity - 1;
	uint32_t at = (uint32_t)prng_splitmix64(&mix) & mask;

	for (; s->table[at]; at = (at + 1) & mask) {
		const struct lin_state *other = &s->states[s->table[at] - 1];

		if (other->placed == wanted.placed && other->value == wanted.value)
			break;
	}
	return &s->table[at];
}

static int states_grow(struct lin_states *s)
{
	uint32_t capacity = s->capacity ? 2 * s->capacity : STATES_FIRST;
	struct lin_state *states;
	uint32_t *table;

	if (capacity > LIN_LONG_STATES_MAX)
		return FORGE_E_INVAL;
	states = realloc(s->states, capacity * sizeof(*states));
	if (!states)
		return FORGE_E_NO_MEMORY;
	s->states = states;
	table = calloc(2 * (size_t)capacity, sizeof(*table));
	if (!table)
		return FORGE_E_NO_MEMORY;
	free(s->table);
	s->table = table;
	s->capacity = capacity;
	for (uint32_t i = 0; i < s->count; i++)
		*states_find(s, s->states[i]) = i + 1;
	return 0;
}

/* 0 (new or not), or why there is no room. */
static int states_add(struct lin_states *s, struct lin_state state)
{
	if (s->count == s->capacity) {
		int status = states_grow(s);

		if (status)
			return status;
	}
	uint32_t *at = states_find(s, state);

	if (*at)
		return 0;
	s->states[s->count++] = state;
	*at = s->count;
	return 0;
}

static bool is_required(const struct hist_op *op)
{
	return op->result == HIST_OK || op->result == HIST_MISS;
}

/* May the operation take effect on that value?  If so, *next is what it leaves. */
static bool apply(const struct hist_op *op, uint64_t value, uint64_t *next)
{
	switch (op->kind) {
	case HIST_SET:
		*next = op->value;
		return true;
	case HIST_DELETE:
	case HIST_FLUSH:
		*next = 0;
		return true;
	case HIST_CHANGE:
		*next = op->value;
		return op->seen == value || op->seen == 0;
	default:
		*next = value;
		return op->value == value;
	}
}

/* It saw the value, and leaves it. */
static bool only_reads(const struct hist_op *op, uint64_t value)
{
	return op->value == value &&
	       (op->kind == HIST_GET || (op->kind == HIST_CHANGE && op->seen == value && value));
}

/* Who is under way and only reads that value may as well do so now: it can only help. */
static struct lin_state read_now(const struct lin_long *l, struct lin_state s)
{
	for (unsigned j = 0; j < LIN_LONG_OPEN_MAX; j++)
		if (l->open[j] && only_reads(l->open[j], s.value))
			s.placed |= UINT64_C(1) << j;
	return s;
}

static bool is_seen(const struct lin_long *l, const struct hist_op *writer)
{
	for (uint32_t i = 0; i < l->op_count; i++) {
		const struct hist_op *op = l->ops[i];

		if (op == writer)
			continue;
		if ((op->kind == HIST_GET && op->value == writer->value) ||
		    (op->kind == HIST_CHANGE && op->seen == writer->value))
			return true;
	}
	return false;
}

/* An operation without an answer that is needed to explain nothing. */
static bool is_needless(const struct lin_long *l, const struct hist_op *op)
{
	if (is_required(op))
		return false;
	if (op->kind != HIST_SET && op->kind != HIST_CHANGE)
		return true;
	if (op->kind == HIST_CHANGE && (op->seen == HIST_UNSEEN || op->seen == op->value))
		return true;
	return op->value == 0 || !is_seen(l, op);
}

/*
 * The operation in the slot returns: keep what explains that it took effect by now, or, if it is
 * undecided, also what does without it.
 */
static int returns(struct lin_long *l, unsigned slot)
{
	const uint64_t bit = UINT64_C(1) << slot;
	bool required = is_required(l->open[slot]);
	int status = 0;

	states_clear(&l->seen);
	states_clear(&l->after);
	for (uint32_t i = 0; i < l->now.count && !status; i++)
		status = states_add(&l->seen, read_now(l, l->now.states[i]));
	for (uint32_t i = 0; i < l->seen.count && !status; i++) {
		struct lin_state s = l->seen.states[i];

		if (s.placed & bit) {
			status =
			    states_add(&l->after, (struct lin_state){s.placed & ~bit, s.value});
			continue;
		}
		for (unsigned j = 0; j < LIN_LONG_OPEN_MAX && !status; j++) {
			struct lin_state next = {s.placed | UINT64_C(1) << j, 0};

			if (l->open[j] && !(s.placed >> j & 1) &&
			    apply(l->open[j], s.value, &next.value))
				status = states_add(&l->seen, read_now(l, next));
		}
	}
	for (uint32_t i = 0; i < l->now.count && !required && !status; i++)
		status = states_add(&l->after, (struct lin_state){l->now.states[i].placed & ~bit,
								  l->now.states[i].value});
	struct lin_states swap = l->now;

	l->now = l->after;
	l->after = swap;
	l->open[slot] = NULL;
	if (l->now.count > l->states_max)
		l->states_max = l->now.count;
	return status ? status : l->now.count ? 0 : FORGE_E_CORRUPT;
}

static void explain(const struct lin_long *l, const struct hist_op *bad, char *text,
		    size_t text_bytes)
{
	uint32_t last = 0, first;
	int used = snprintf(text, text_bytes,
			    "key %" PRIu64 " is not linearizable; its operations until the one "
			    "marked '!', which nothing explains\n",
			    bad->key);

	while (last < l->op_count && l->ops[last]->invoke_time < bad->return_time)
		last++;
	first = last > SHOWN ? last - SHOWN : 0;
	for (uint32_t i = first; i < last && used > 0 && (size_t)used < text_bytes; i++) {
		char op_text[128];

		history_print_op(l->ops[i], op_text, sizeof(op_text));
		used += snprintf(text + used, text_bytes - (size_t)used, "  %c %s\n",
				 l->ops[i] == bad ? '!' : ' ', op_text);
	}
}

static int by_return(const void *a, const void *b)
{
	const struct hist_op *x = *(const struct hist_op *const *)a,
			     *y = *(const struct hist_op *const *)b;

	return (x->return_time > y->return_time) - (x->return_time < y->return_time);
}

static int grow_ops(struct lin_long *l)
{
	uint32_t capacity = l->op_capacity ? 2 * l->op_capacity : OPS_FIRST;
	const struct hist_op **ops = realloc(l->ops, capacity * sizeof(*ops));

	if (ops)
		l->ops = ops;
	const struct hist_op **by = realloc(l->returns, capacity * sizeof(*by));

	if (by)
		l->returns = by;
	if (!ops || !by)
		return FORGE_E_NO_MEMORY;
	l->op_capacity = capacity;
	return 0;
}

/* The operations of a key from which something can be learnt. */
static int collect(struct lin_long *l, const struct history *h, uint64_t key)
{
	uint32_t kept = 0;

	l->op_count = l->return_count = 0;
	for (uint32_t i = 0; i < h->op_count; i++) {
		const struct hist_op *op = &h->ops[i];

		if ((op->key != key && op->key != HIST_EVERY_KEY) || op->kind == HIST_CLOCK ||
		    (op->kind == HIST_GET && op->result != HIST_OK))
			continue;
		if (l->op_count == l->op_capacity && grow_ops(l))
			return FORGE_E_NO_MEMORY;
		l->ops[l->op_count++] = op;
	}
	for (uint32_t i = 0; i < l->op_count; i++)
		if (!is_needless(l, l->ops[i]))
			l->returns[kept++] = l->ops[i];
	if (kept)
		memcpy(l->ops, l->returns, kept * sizeof(*l->ops));
	l->op_count = kept;
	for (uint32_t i = 0; i < kept; i++)
		if (l->ops[i]->return_time != HIST_NEVER)
			l->returns[l->return_count++] = l->ops[i];
	if (l->return_count)
		qsort(l->returns, l->return_count, sizeof(*l->returns), by_return);
	return 0;
}

static int invoked(struct lin_long *l, const struct hist_op *op)
{
	for (unsigned slot = 0; slot < LIN_LONG_OPEN_MAX; slot++)
		if (!l->open[slot]) {
			l->open[slot] = op;
			return 0;
		}
	return FORGE_E_INVAL;
}

static int check_key(void *context, const struct history *h, uint64_t key, char *text,
		     size_t text_bytes)
{
	struct lin_long *l = context;
	int status = collect(l, h, key);
	uint32_t begun = 0;

	memset(l->open, 0, sizeof(l->open));
	states_clear(&l->now);
	if (!status)
		status = states_add(&l->now, (struct lin_state){0, 0});
	for (uint32_t i = 0; i < l->return_count && !status; i++) {
		const struct hist_op *op = l->returns[i];
		unsigned slot = 0;

		while (begun < l->op_count && l->ops[begun]->invoke_time < op->return_time &&
		       !status)
			status = invoked(l, l->ops[begun++]);
		while (slot < LIN_LONG_OPEN_MAX && l->open[slot] != op)
			slot++;
		if (!status)
			status = returns(l, slot);
		if (status == FORGE_E_CORRUPT)
			explain(l, op, text, text_bytes);
	}
	if (status == FORGE_E_INVAL)
		snprintf(text, text_bytes, "key %" PRIu64 " has too many operations under way",
			 key);
	else if (status && status != FORGE_E_CORRUPT)
		snprintf(text, text_bytes, "%s", status_sentence(status));
	return status;
}

int lin_long_check(struct lin_long *l, const struct history *h, char *text, size_t text_bytes)
{
	return history_check_keys(h, check_key, l, text, text_bytes);
}
