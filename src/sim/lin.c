/* lin.c: the per-key search for a linearization; see lin.h. */
#include "sim/lin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "base/status.h"

#define SLOTS_FIRST 1024u

int lin_create(struct lin *l)
{
	*l = (struct lin){.slot_count = SLOTS_FIRST};
	l->slots = calloc(l->slot_count, sizeof(*l->slots));
	return l->slots ? 0 : FORGE_E_NO_MEMORY;
}

void lin_destroy(struct lin *l)
{
	free(l->slots);
	*l = (struct lin){0};
}

/* Where (linearised, state) is or belongs; the table always has room. */
static struct lin_slot *find_slot(struct lin *l, uint64_t linearised, uint64_t state)
{
	uint64_t mix = linearised ^ (state * 0x9e3779b97f4a7c15u);
	uint32_t at = (uint32_t)prng_splitmix64(&mix) & (l->slot_count - 1);

	for (;;) {
		struct lin_slot *s = &l->slots[at];

		if (s->era != l->era || (s->linearised == linearised && s->state == state))
			return s;
		at = (at + 1) & (l->slot_count - 1);
	}
}

static int grow(struct lin *l)
{
	struct lin_slot *old = l->slots;
	uint32_t old_count = l->slot_count;

	l->slots = calloc((size_t)old_count * 2, sizeof(*l->slots));
	if (!l->slots) {
		l->slots = old;
		return FORGE_E_NO_MEMORY;
	}
	l->slot_count = old_count * 2;
	for (uint32_t i = 0; i < old_count; i++)
		if (old[i].era == l->era)
			*find_slot(l, old[i].linearised, old[i].state) = old[i];
	free(old);
	return 0;
}

/* 1 if the pair is new (and is now remembered), 0 if it was seen, or FORGE_E_NO_MEMORY. */
static int remember(struct lin *l, uint64_t linearised, uint64_t state)
{
	struct lin_slot *s = find_slot(l, linearised, state);
	int rc;

	if (s->era == l->era)
		return 0;
	if (l->used_count * 2 >= l->slot_count) {
		rc = grow(l);
		if (rc)
			return rc;
		s = find_slot(l, linearised, state);
	}
	*s = (struct lin_slot){.linearised = linearised, .state = state, .era = l->era};
	l->used_count++;
	l->visited_count++;
	return 1;
}

static void forget_all(struct lin *l)
{
	l->used_count = 0;
	if (++l->era == 0) {
		memset(l->slots, 0, l->slot_count * sizeof(*l->slots));
		l->era = 1;
	}
}

/* Must the operation be part of every linearization? */
static bool is_required(const struct hist_op *op)
{
	return op->result == HIST_OK || op->result == HIST_MISS;
}

/* What an operation that began after so many steps of the clock sees of a value. */
static uint64_t unexpired(const struct lin *l, uint32_t steps, uint64_t state)
{
	uint64_t deadline = state & 0xff;

	return l->timed && deadline && deadline <= steps ? 0 : state;
}

/* May operation i, which says that it saw a value or none (0), have done so in state? */
static bool may_see(const struct lin *l, uint32_t i, uint64_t state, uint64_t value)
{
	return value == unexpired(l, l->clock[i], state) ||
	       (value == 0 && unexpired(l, l->clock_after[i], state) == 0);
}

/* May operation i take effect in state?  If so, *next is the state it leaves. */
static bool apply(const struct lin *l, uint32_t i, uint64_t state, uint64_t *next)
{
	const struct hist_op *op = l->ops[i];

	*next = op->value;
	switch (op->kind) {
	case HIST_SET:
		return true;
	case HIST_FLUSH:
		*next = 0;
		return true;
	case HIST_DELETE:
		*next = 0;
		return !(l->deleted_needs_value && op->result == HIST_OK &&
			 unexpired(l, l->clock[i], state) == 0);
	case HIST_CHANGE:
		return may_see(l, i, state, op->seen) || (op->seen == 0 && !l->exact);
	default:
		*next = state;
		return may_see(l, i, state, op->value);
	}
}

/*
 * Depth-first search from (linearised, state).  1 if every required operation can be placed,
 * 0 if not, negative on error.  The next operation to place must have started before any
 * unplaced required one returned, or real time would be contradicted; and an undecided one may
 * not be placed behind an operation that started after it returned.
 */
static int search(struct lin *l, uint64_t linearised, uint64_t state)
{
	uint64_t first_return = HIST_NEVER, last_invoke = 0, next = 0;
	bool complete = true;
	int rc;

	if (__builtin_popcountll(linearised) > __builtin_popcountll(l->deepest))
		l->deepest = linearised;
	for (uint32_t i = 0; i < l->op_count; i++) {
		const struct hist_op *op = l->ops[i];

		if (linearised >> i & 1) {
			last_invoke = max_u64(last_invoke, op->invoke_time);
		} else if (is_required(op)) {
			complete = false;
			first_return = min_u64(first_return, op->return_time);
		}
	}
	if (complete)
		return 1;
	for (uint32_t i = 0; i < l->op_count; i++) {
		const struct hist_op *op = l->ops[i];

		if (op->invoke_time > first_return)
			break;
		if (linearised >> i & 1)
			continue;
		if (op->result == HIST_UNDECIDED && op->return_time < last_invoke)
			continue;
		if (!apply(l, i, state, &next))
			continue;
		rc = remember(l, linearised | (uint64_t)1 << i, next);
		if (rc > 0)
			rc = search(l, linearised | (uint64_t)1 << i, next);
		if (rc)
			return rc;
	}
	return 0;
}

static void append(char *text, size_t text_bytes, const char *line)
{
	size_t used = strlen(text);

	if (used < text_bytes)
		snprintf(text + used, text_bytes - used, "%s", line);
}

static void print_counterexample(const struct lin *l, uint64_t key, char *text, size_t text_bytes)
{
	char line[160], op_text[128];

	snprintf(text, text_bytes,
		 "key %" PRIu64 " is not linearizable; of its operations ('+': placed in the "
		 "longest order found)\n",
		 key);
	for (uint32_t i = 0; i < l->op_count; i++) {
		history_print_op(l->ops[i], op_text, sizeof(op_text));
		snprintf(line, sizeof(line), "  %c %s\n", l->deepest >> i & 1 ? '+' : ' ', op_text);
		append(text, text_bytes, line);
	}
}

/* Nothing can be learnt from it: a get that did not hit, whatever the reason. */
static bool is_silent(const struct lin *l, const struct hist_op *op)
{
	return op->kind == HIST_GET && op->result != HIST_OK &&
	       !(l->exact && op->result == HIST_MISS);
}

static uint32_t steps_before(const struct history *h, uint64_t time)
{
	uint32_t steps = 0;

	for (uint32_t i = 0; i < h->op_count && h->ops[i].invoke_time < time; i++)
		steps += h->ops[i].kind == HIST_CLOCK;
	return steps;
}

/* History is in order of invocation, so the operations of a key come out in that order. */
static int check_key(void *context, const struct history *h, uint64_t key, char *text,
		     size_t text_bytes)
{
	struct lin *l = context;
	int rc;

	l->op_count = 0;
	for (uint32_t i = 0; i < h->op_count; i++) {
		if (h->ops[i].kind == HIST_CLOCK)
			continue;
		if ((h->ops[i].key != key && h->ops[i].key != HIST_EVERY_KEY) ||
		    is_silent(l, &h->ops[i]))
			continue;
		if (l->op_count == LIN_OPS_MAX) {
			snprintf(text, text_bytes, "key %" PRIu64 " has more than %d operations",
				 key, LIN_OPS_MAX);
			return FORGE_E_INVAL;
		}
		l->clock[l->op_count] = steps_before(h, h->ops[i].invoke_time);
		l->clock_after[l->op_count] = steps_before(h, h->ops[i].return_time);
		l->ops[l->op_count++] = &h->ops[i];
	}
	forget_all(l);
	l->deepest = 0;
	rc = search(l, 0, 0);
	if (rc > 0)
		return 0;
	if (rc == 0) {
		print_counterexample(l, key, text, text_bytes);
		return FORGE_E_CORRUPT;
	}
	snprintf(text, text_bytes, "%s", status_sentence(rc));
	return rc;
}

int lin_check(struct lin *l, const struct history *h, char *text, size_t text_bytes)
{
	return history_check_keys(h, check_key, l, text, text_bytes);
}
