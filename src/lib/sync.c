/* sync.c: the calls that do one operation each. */
#include "lib/lib.h"

/* Run one, or say why it cannot be run. */
static int run(struct forge_session *s, struct forge_op op, struct forge_op *answer)
{
	int status = lib_check_session(s);

	if (unlikely(status))
		return status;
	status = op_wait(s, &op);
	*answer = op;
	return status;
}

static int missing(const char *what)
{
	return lib_fail(FORGE_E_INVAL, "%s is NULL", what);
}

static int find(struct forge_session *s, struct forge_op op, struct forge_value *value)
{
	struct forge_op answer;

	if (unlikely(!value))
		return missing("the pointer for the value");
	int status = run(s, op, &answer);

	if (status == 0 || status == FORGE_E_BUFFER_SMALL)
		*value = answer.found;
	return status;
}

int forge_get(struct forge_session *s, struct forge_bytes key, struct forge_value *value)
{
	return find(s, (struct forge_op){.verb = FORGE_GET, .key = key}, value);
}

int forge_get_copy(struct forge_session *s, struct forge_bytes key, void *buffer,
		   size_t buffer_bytes, struct forge_value *value)
{
	static uint8_t nothing;
	struct forge_op op = {
	    .verb = FORGE_GET,
	    .key = key,
	    .buffer = buffer ? buffer : &nothing,
	    .buffer_bytes = buffer_bytes,
	};

	if (unlikely(!buffer && buffer_bytes > 0))
		return missing("the buffer");
	return find(s, op, value);
}

int forge_get_and_touch(struct forge_session *s, struct forge_bytes key, struct forge_expiry expiry,
			struct forge_value *value)
{
	struct forge_op op = {.verb = FORGE_GET_AND_TOUCH, .key = key, .item = {.expiry = expiry}};

	return find(s, op, value);
}

int forge_touch(struct forge_session *s, struct forge_bytes key, struct forge_expiry expiry)
{
	struct forge_op op = {.verb = FORGE_TOUCH, .key = key, .item = {.expiry = expiry}};

	return run(s, op, &op);
}

static int store(struct forge_session *s, enum forge_verb verb, struct forge_bytes key,
		 const struct forge_item *item, uint64_t cas)
{
	if (unlikely(!item))
		return missing("the item");
	struct forge_op op = {.verb = verb, .key = key, .item = *item, .cas = cas};

	return run(s, op, &op);
}

int forge_set(struct forge_session *s, struct forge_bytes key, const struct forge_item *item)
{
	return store(s, FORGE_SET, key, item, 0);
}

int forge_add(struct forge_session *s, struct forge_bytes key, const struct forge_item *item)
{
	return store(s, FORGE_ADD, key, item, 0);
}

int forge_replace(struct forge_session *s, struct forge_bytes key, const struct forge_item *item)
{
	return store(s, FORGE_REPLACE, key, item, 0);
}

int forge_cas(struct forge_session *s, struct forge_bytes key, const struct forge_item *item,
	      uint64_t cas)
{
	return store(s, FORGE_CAS, key, item, cas);
}

int forge_append(struct forge_session *s, struct forge_bytes key, struct forge_bytes tail)
{
	return store(s, FORGE_APPEND, key, &(struct forge_item){.value = tail}, 0);
}

int forge_prepend(struct forge_session *s, struct forge_bytes key, struct forge_bytes head)
{
	return store(s, FORGE_PREPEND, key, &(struct forge_item){.value = head}, 0);
}

static int count(struct forge_session *s, enum forge_verb verb, struct forge_bytes key,
		 uint64_t delta, uint64_t *number)
{
	struct forge_op op = {.verb = verb, .key = key, .delta = delta};
	int status = run(s, op, &op);

	if (status == 0 && number)
		*number = op.number;
	return status;
}

int forge_incr(struct forge_session *s, struct forge_bytes key, uint64_t delta, uint64_t *number)
{
	return count(s, FORGE_INCR, key, delta, number);
}

int forge_decr(struct forge_session *s, struct forge_bytes key, uint64_t delta, uint64_t *number)
{
	return count(s, FORGE_DECR, key, delta, number);
}

int forge_delete(struct forge_session *s, struct forge_bytes key)
{
	struct forge_op op = {.verb = FORGE_DELETE, .key = key};

	return run(s, op, &op);
}

int forge_delete_if(struct forge_session *s, struct forge_bytes key, uint64_t cas)
{
	struct forge_op op = {.verb = FORGE_DELETE_IF, .key = key, .cas = cas};

	return run(s, op, &op);
}

int forge_flush(struct forge_session *s)
{
	struct forge_op op = {.verb = FORGE_FLUSH};

	return run(s, op, &op);
}

int forge_get_many(struct forge_session *s, const struct forge_bytes *keys, size_t n,
		   struct forge_value *values, size_t *hits)
{
	int status = lib_check_session(s);

	if (!status && n > 0 && (!keys || !values))
		status = missing(keys ? "the array for the values" : "the array of keys");
	if (status)
		return status;
	flight_begin(&s->flight);
	struct forge_op *ops =
	    n < SIZE_MAX / sizeof(*ops) ? arena_take(&s->flight.arena, n * sizeof(*ops)) : NULL;
	size_t found = 0;

	if (!ops)
		return lib_fail(FORGE_E_NO_MEMORY, "no memory for %zu operations", n);
	for (size_t i = 0; i < n; i++)
		ops[i] = (struct forge_op){.verb = FORGE_GET, .key = keys[i]};
	flight_run(s, ops, n);
	for (size_t i = 0; i < n; i++) {
		values[i] = ops[i].found;
		found += ops[i].status == 0;
		if (ops[i].status < 0 && status == 0)
			status = lib_fail_op(s, &ops[i]);
	}
	if (hits)
		*hits = found;
	return status;
}
