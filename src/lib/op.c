/* op.c: a public operation as one on a view. */
#include <string.h>

#include "lib/lib.h"

/* Does the verb find a value? */
static int finds(enum forge_verb verb)
{
	return verb == FORGE_GET || verb == FORGE_GET_AND_TOUCH;
}

int op_lends(const struct forge_op *op)
{
	return op->status == 0 && finds(op->verb) && !op->buffer;
}

void op_begin(const struct forge_session *s, struct forge_op *op)
{
	uint64_t timeout_ns = op->timeout_us ? lib_timeout_ns(op->timeout_us) : s->timeout_ns;

	op->opaque[0] = timeout_ns ? clock_now_ns(s->view->lead.clock) + timeout_ns : 0;
	op->opaque[1] = 0;
}

static uint64_t deadline_ns(const struct forge_op *op)
{
	return op->opaque[0];
}

static int check_bytes(struct forge_bytes b)
{
	return b.data || b.bytes == 0 ? 0 : FORGE_E_INVAL;
}

/* What cannot be handed on: no pointer, and lengths that its integers cannot hold. */
static int check(const struct forge_op *op)
{
	int status = check_bytes(op->key);

	if (!status)
		status = check_bytes(op->item.value);
	if (!status && op->key.bytes > LAYOUT_KEY_BYTES_MAX)
		status = FORGE_E_KEY_LONG;
	if (!status && op->item.value.bytes > UINT32_MAX)
		status = FORGE_E_VALUE_LARGE;
	if (!status && op->buffer_bytes && !op->buffer)
		status = FORGE_E_INVAL;
	return status;
}

/* The answer of a verb that finds. */
static int found(const struct forge_session *s, struct forge_op *op, const struct cache_value *v)
{
	op->found = (struct forge_value){
	    .data = v->data,
	    .bytes = v->bytes,
	    .flags = v->flags,
	    .cas = v->cas_id,
	    .ttl_ms = expiry_ttl_ms(s, v->expiry_ms),
	};
	if (!op->buffer)
		return 0;
	op->found.data = NULL;
	if (v->bytes > op->buffer_bytes)
		return FORGE_E_BUFFER_SMALL;
	memcpy(op->buffer, v->data, v->bytes);
	op->found.data = op->buffer;
	return 0;
}

static const enum cache_store store_modes[] = {
    [FORGE_SET] = CACHE_SET, [FORGE_ADD] = CACHE_ADD,	    [FORGE_REPLACE] = CACHE_REPLACE,
    [FORGE_CAS] = CACHE_CAS, [FORGE_APPEND] = CACHE_APPEND, [FORGE_PREPEND] = CACHE_PREPEND,
};

static MAY_WAIT int store(struct view *v, struct cache_key key, struct forge_op *op,
			  uint64_t expiry_ms)
{
	struct cache_item item = {
	    .value = op->item.value.data,
	    .bytes = (uint32_t)op->item.value.bytes,
	    .flags = op->item.flags,
	    .expiry_ms = expiry_ms,
	    .cas_id = op->cas,
	};

	return view_store(v, key, store_modes[op->verb], &item, &op->found.cas);
}

static MAY_WAIT int count(struct view *v, struct cache_key key, struct forge_op *op,
			  uint64_t expiry_ms)
{
	struct cache_arith arith = {
	    .delta = op->delta,
	    .decrement = op->verb == FORGE_DECR,
	    .create = op->create != 0,
	    .initial = op->initial,
	    .flags = op->item.flags,
	    .expiry_ms = expiry_ms,
	};

	return view_arithmetic(v, key, &arith, &op->number, &op->found.cas);
}

static MAY_WAIT int execute(struct forge_session *s, struct view *v, struct forge_op *op)
{
	struct cache_key key = {op->key.data, (uint32_t)op->key.bytes};
	struct cache_value value;
	uint64_t expiry_ms;
	int status = expiry_to_pool(s, op->item.expiry, &expiry_ms);

	if (unlikely(status))
		return status;
	switch (op->verb) {
	case FORGE_GET:
		status = view_get(v, key, &value);
		return status ? status : found(s, op, &value);
	case FORGE_TOUCH:
		return view_touch(v, key, expiry_ms, NULL);
	case FORGE_GET_AND_TOUCH:
		status = view_touch(v, key, expiry_ms, &value);
		return status ? status : found(s, op, &value);
	case FORGE_SET:
	case FORGE_ADD:
	case FORGE_REPLACE:
	case FORGE_CAS:
	case FORGE_APPEND:
	case FORGE_PREPEND:
		return store(v, key, op, expiry_ms);
	case FORGE_INCR:
	case FORGE_DECR:
		return count(v, key, op, expiry_ms);
	case FORGE_DELETE:
		return view_delete(v, key);
	case FORGE_DELETE_IF:
		return view_delete_if(v, key, op->cas);
	case FORGE_FLUSH:
		return view_flush(v);
	}
	return FORGE_E_INVAL;
}

void op_execute(struct forge_session *s, struct view *v, struct forge_op *op)
{
	op->found = (struct forge_value){0};
	op->status = check(op);
	if (op->status)
		return;
	v->deadline_ns = deadline_ns(op);
	op->status = view_is_late(v) ? FORGE_E_DEADLINE : execute(s, v, op);
	v->deadline_ns = 0;
}
