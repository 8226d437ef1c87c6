/*
 * change.c: stores and arithmetic with every condition that a protocol can ask for.
 *
 * Each is a pure decision about the value that is there, carried out by execute_change(): one
 * linearizable step, repeated by the cache until nobody interfered.
 */
#include "serve/execute.h"
#include "serve/parse.h"

#define NUMBER_DIGITS_MAX 20u

/* How often a change is tried anew that others were too fast for; each time it made dozens. */
#define AGAIN_MAX 16u
/* Pauses before that, at random up to so many, so that who is in step gets out of it. */
#define AGAIN_PAUSES 64u

/* Nothing has changed; is there to be another try? */
static MAY_WAIT bool try_again(struct executor *e, int status, unsigned *tries)
{
	struct worker *w = &e->view->lead;

	if (likely(status != FORGE_E_AGAIN) || ++*tries > AGAIN_MAX)
		return false;
	for (uint64_t n = prng_below(&w->prng, AGAIN_PAUSES); n > 0; n--)
		flow_pause(w);
	return true;
}

int execute_change(struct executor *e, struct cache_key key, const struct cache_change *change,
		   uint64_t *cas_id)
{
	unsigned tries = 0;
	int status;

	do
		status = view_change(e->view, key, change, cas_id);
	while (try_again(e, status, &tries));
	return status;
}

int execute_cache_store(struct executor *e, struct cache_key key, enum cache_store mode,
			const struct cache_item *item, uint64_t *cas_id)
{
	unsigned tries = 0;
	int status;

	do
		status = view_store(e->view, key, mode, item, cas_id);
	while (mode != CACHE_SET && try_again(e, status, &tries));
	return status;
}

/* ---- stores ------------------------------------------------------------------------------- */

/* Old and new value, one behind the other, in the scratch. */
static int join(const struct cache_value *old, const struct store_want *want,
		struct cache_decision *out)
{
	const struct cache_item *item = &want->item;
	bool behind = want->mode == STORE_APPEND;

	if ((uint64_t)old->bytes + item->bytes > out->scratch_bytes)
		return FORGE_E_VALUE_LARGE;
	/* The old value may lie in the scratch. */
	memmove(out->scratch + (behind ? 0 : item->bytes), old->data, old->bytes);
	memcpy(out->scratch + (behind ? old->bytes : 0), item->value, item->bytes);
	out->item = (struct cache_item){
	    .value = out->scratch,
	    .bytes = old->bytes + item->bytes,
	    .flags = old->flags,
	    .marks = item->marks, /* who was to renew the old one is none of this one's */
	    .expiry_ms = old->expiry_ms,
	};
	return 0;
}

static void decide_store(void *context, const struct cache_value *old, struct cache_decision *out)
{
	const struct store_want *want = context;
	bool joins = want->mode == STORE_APPEND || want->mode == STORE_PREPEND;
	bool changed = old && want->has_cas && old->cas_id != want->cas;

	if (!old && (want->has_cas || want->mode == STORE_REPLACE || (joins && !want->vivify))) {
		out->status = FORGE_MISS;
		return;
	}
	if (old && want->mode == STORE_ADD) {
		out->status = FORGE_NOT_STORED;
		return;
	}
	if (changed && !want->stale_if_changed) {
		out->status = FORGE_EXISTS;
		return;
	}
	out->item = want->item;
	if (old && joins)
		out->status = join(old, want, out);
	if (out->status)
		return;
	if (changed)
		out->item.marks |= MARK_STALE;
	out->cas_id = want->new_cas;
	out->verdict = CACHE_STORE;
}

int execute_store(struct executor *e, struct cache_key key, const struct store_want *want,
		  uint64_t *cas_id)
{
	static const enum cache_store modes[] = {
	    [STORE_SET] = CACHE_SET,	     [STORE_ADD] = CACHE_ADD,
	    [STORE_REPLACE] = CACHE_REPLACE, [STORE_APPEND] = CACHE_APPEND,
	    [STORE_PREPEND] = CACHE_PREPEND,
	};
	struct cache_change change = {.decide = decide_store, .context = (void *)(uintptr_t)want};

	if (!want->has_cas && !want->vivify && !want->new_cas)
		return execute_cache_store(e, key, modes[want->mode], &want->item, cas_id);
	return execute_change(e, key, &change, cas_id);
}

/* ---- arithmetic --------------------------------------------------------------------------- */

struct arithmetic_state {
	const struct arithmetic_want *want;
	uint64_t number, expiry_ms;
	uint32_t new_marks;
};

/* The number as text is the value, without padding. */
static void store_number(struct arithmetic_state *s, struct cache_decision *out)
{
	struct out text = {.data = (char *)out->scratch, .room = out->scratch_bytes};

	out_u64(&text, s->number);
	out->item.value = out->scratch;
	out->item.bytes = (uint32_t)text.used;
	out->item.expiry_ms = s->expiry_ms;
	out->cas_id = s->want->new_cas;
	out->verdict = CACHE_STORE;
}

static void decide_arithmetic(void *context, const struct cache_value *old,
			      struct cache_decision *out)
{
	struct arithmetic_state *s = context;
	const struct arithmetic_want *want = s->want;

	if (!old) {
		if (!want->create) {
			out->status = FORGE_MISS;
			return;
		}
		s->number = want->initial;
		s->expiry_ms = want->create_expiry_ms;
		out->item.marks = s->new_marks;
		store_number(s, out);
		return;
	}
	struct token digits = {old->data, old->bytes};

	if (want->has_cas && old->cas_id != want->cas) {
		out->status = FORGE_EXISTS;
		return;
	}
	if (digits.bytes > NUMBER_DIGITS_MAX || !token_u64(digits, &s->number)) {
		out->status = FORGE_E_NOT_NUMBER;
		return;
	}
	if (!want->decrement)
		s->number += want->delta;
	else
		s->number = s->number > want->delta ? s->number - want->delta : 0;
	s->expiry_ms = want->has_expiry ? want->expiry_ms : old->expiry_ms;
	out->item.flags = old->flags;
	out->item.marks = old->marks;
	store_number(s, out);
}

int execute_arithmetic(struct executor *e, struct cache_key key, const struct arithmetic_want *want,
		       struct arithmetic_result *result)
{
	struct arithmetic_state s = {
	    .want = want,
	    .new_marks = want->create ? marks_of_now(session_now_ms(e->session)) : 0,
	};
	struct cache_change change = {.decide = decide_arithmetic, .context = &s};
	struct serve_counts *t = e->counts;
	int status = execute_change(e, key, &change, &result->cas_id);

	if (status == FORGE_MISS)
		counts_up(want->decrement ? &t->decr_misses : &t->incr_misses);
	else if (status == 0)
		counts_up(want->decrement ? &t->decr_hits : &t->incr_hits);
	result->number = s.number;
	result->expiry_ms = s.expiry_ms;
	return status;
}
