/*
 * semantics.c: what each conditional operation makes of a value: small pure functions, over the
 * flow in change.c, which does all the work.
 *
 * A decision sees the present value or NULL, and knows nothing of slots, groups or races; a new
 * kind of operation is another such function.
 */
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "pool/object.h"

static void keep(struct cache_decision *out, int status)
{
	out->verdict = CACHE_KEEP;
	out->status = status;
}

static void put(struct cache_decision *out, const struct cache_item *item)
{
	out->verdict = CACHE_STORE;
	out->item = *item;
}

/* Like the old value, but for its bytes. */
static struct cache_item item_like(const struct cache_value *old)
{
	return (struct cache_item){
	    .value = old->data,
	    .bytes = old->bytes,
	    .flags = old->flags,
	    .marks = old->marks,
	    .expiry_ms = old->expiry_ms,
	};
}

/* ---- add, replace, cas, append, prepend ---------------------------------------------------- */

struct store_wish {
	enum cache_store mode;
	const struct cache_item *item;
};

/* One value behind the other, in the scratch. */
static void join(const struct cache_value *old, const struct store_wish *w,
		 struct cache_decision *out)
{
	uint64_t bytes = (uint64_t)old->bytes + w->item->bytes;
	int added_first = w->mode == CACHE_PREPEND;
	struct cache_item item = item_like(old);

	if (bytes > out->scratch_bytes) {
		keep(out, FORGE_E_VALUE_LARGE);
		return;
	}
	/* A large value lies in the scratch already. */
	if (old->bytes)
		memmove(out->scratch + (added_first ? w->item->bytes : 0), old->data, old->bytes);
	if (w->item->bytes)
		memcpy(out->scratch + (added_first ? 0 : old->bytes), w->item->value,
		       w->item->bytes);
	item.value = out->scratch;
	item.bytes = (uint32_t)bytes;
	item.marks = w->item->marks; /* of another value, which this is */
	put(out, &item);
}

static void decide_store(void *context, const struct cache_value *old, struct cache_decision *out)
{
	const struct store_wish *w = context;

	if (w->mode == CACHE_ADD && old)
		keep(out, FORGE_NOT_STORED);
	else if (w->mode != CACHE_ADD && w->mode != CACHE_SET && !old)
		keep(out, FORGE_MISS);
	else if (w->mode == CACHE_CAS && old->cas_id != w->item->cas_id)
		keep(out, FORGE_EXISTS);
	else if (w->mode == CACHE_APPEND || w->mode == CACHE_PREPEND)
		join(old, w, out);
	else
		put(out, w->item);
}

int cache_store(struct cache *c, struct cache_key key, enum cache_store mode,
		const struct cache_item *item, uint64_t *cas_id)
{
	struct store_wish w = {mode, item};

	if (mode == CACHE_SET) {
		int status = cache_set(c, key, item);

		if (!status && cas_id)
			*cas_id = object_header(c->object)->cas_id;
		return status;
	}
	struct cache_change change = {decide_store, &w};

	return mode == CACHE_APPEND || mode == CACHE_PREPEND
		   ? cache_change(c, key, &change, cas_id)
		   : cache_change_blindly(c, key, &change, cas_id);
}

/* ---- increment, decrement ------------------------------------------------------------------ */

#define NUMBER_DIGITS_MAX 20u

struct arith_wish {
	const struct cache_arith *arith;
	uint64_t value;
	char text[NUMBER_DIGITS_MAX + 1];
};

/* 1 to 20 digits below 2^64, nothing else.  0 or FORGE_E_NOT_NUMBER. */
static int read_number(const struct cache_value *v, uint64_t *out)
{
	const uint8_t *digit = v->data;
	uint64_t n = 0;

	if (v->bytes == 0 || v->bytes > NUMBER_DIGITS_MAX)
		return FORGE_E_NOT_NUMBER;
	for (uint32_t i = 0; i < v->bytes; i++)
		if (digit[i] < '0' || digit[i] > '9' || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit[i] - '0', &n))
			return FORGE_E_NOT_NUMBER;
	*out = n;
	return 0;
}

static void decide_arithmetic(void *context, const struct cache_value *old,
			      struct cache_decision *out)
{
	struct arith_wish *w = context;
	const struct cache_arith *a = w->arith;
	struct cache_item item = {.flags = a->flags, .expiry_ms = a->expiry_ms};

	if (!old && !a->create) {
		keep(out, FORGE_MISS);
		return;
	}
	w->value = a->initial;
	if (old) {
		if (read_number(old, &w->value)) {
			keep(out, FORGE_E_NOT_NUMBER);
			return;
		}
		if (!a->decrement)
			w->value += a->delta;
		else
			w->value -= a->delta < w->value ? a->delta : w->value;
		item = item_like(old);
	}
	item.bytes =
	    (uint32_t)snprintf(w->text, sizeof(w->text), "%llu", (unsigned long long)w->value);
	item.value = w->text;
	put(out, &item);
}

int cache_arithmetic(struct cache *c, struct cache_key key, const struct cache_arith *arith,
		     uint64_t *value, uint64_t *cas_id)
{
	struct arith_wish w = {.arith = arith};
	int status = cache_change(c, key, &(struct cache_change){decide_arithmetic, &w}, cas_id);

	if (!status)
		*value = w.value;
	return status;
}

/* ---- touch ---------------------------------------------------------------------------------- */

struct touch_wish {
	uint64_t expiry_ms;
	struct cache_value seen;
};

static void decide_touch(void *context, const struct cache_value *old, struct cache_decision *out)
{
	struct touch_wish *w = context;

	if (!old) {
		keep(out, FORGE_MISS);
		return;
	}
	struct cache_item item = item_like(old);

	w->seen = *old;
	w->seen.expiry_ms = item.expiry_ms = w->expiry_ms;
	put(out, &item);
	out->same_bytes = 1;
	/* The bytes are the same, so whoever holds the id may go on with it. */
	out->cas_id = old->cas_id;
}

int cache_touch(struct cache *c, struct cache_key key, uint64_t expiry_ms, struct cache_value *out)
{
	struct touch_wish w = {.expiry_ms = expiry_ms};
	struct cache_change change = {decide_touch, &w};
	int status =
	    out ? cache_change(c, key, &change, NULL) : cache_change_blindly(c, key, &change, NULL);

	if (!status && out)
		*out = w.seen;
	return status;
}

/* ---- delete if ------------------------------------------------------------------------------ */

static void decide_delete(void *context, const struct cache_value *old, struct cache_decision *out)
{
	const uint64_t *cas_id = context;

	if (!old || old->cas_id != *cas_id)
		keep(out, old ? FORGE_EXISTS : FORGE_MISS);
	else
		out->verdict = CACHE_REMOVE;
}

int cache_delete_if(struct cache *c, struct cache_key key, uint64_t cas_id)
{
	return cache_change_blindly(c, key, &(struct cache_change){decide_delete, &cas_id}, NULL);
}
