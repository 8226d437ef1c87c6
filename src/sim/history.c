/* history.c: the recorder of operations; see history.h. */
#include "sim/history.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/status.h"

int history_create(struct history *h, uint32_t op_count_max)
{
	*h = (struct history){.op_count_max = op_count_max, .op_count_most = op_count_max};
	h->ops = calloc(op_count_max, sizeof(*h->ops));
	return h->ops ? 0 : FORGE_E_NO_MEMORY;
}

void history_destroy(struct history *h)
{
	free(h->ops);
	*h = (struct history){0};
}

void history_reset(struct history *h)
{
	h->op_count = 0;
	h->refused_count = 0;
	h->time = 0;
}

void history_let_grow(struct history *h, uint32_t op_count_most)
{
	h->op_count_most = op_count_most;
}

/* Twice the room, if it may grow and there is memory. */
static void make_room(struct history *h)
{
	uint64_t count = 2 * (uint64_t)h->op_count_max;

	if (count > h->op_count_most)
		return;
	struct hist_op *ops = realloc(h->ops, count * sizeof(*ops));

	if (!ops)
		return;
	h->ops = ops;
	h->op_count_max = (uint32_t)count;
}

uint32_t history_invoke(struct history *h, uint32_t worker_index, enum hist_kind kind, uint64_t key,
			uint64_t value)
{
	if (h->op_count == h->op_count_max)
		make_room(h);
	if (h->op_count == h->op_count_max) {
		h->refused_count++;
		return HIST_NONE;
	}
	h->ops[h->op_count] = (struct hist_op){.invoke_time = ++h->time,
					       .return_time = HIST_NEVER,
					       .key = key,
					       .value = value,
					       .seen = HIST_UNSEEN,
					       .kind = (uint8_t)kind,
					       .result = HIST_PENDING,
					       .worker_index = worker_index};
	return h->op_count++;
}

void history_decide(struct history *h, uint32_t op_index, uint64_t seen, uint64_t value)
{
	if (op_index == HIST_NONE)
		return;
	assert(op_index < h->op_count && h->ops[op_index].kind == HIST_CHANGE);
	h->ops[op_index].seen = seen;
	h->ops[op_index].value = value;
}

void history_return(struct history *h, uint32_t op_index, enum hist_result result, uint64_t value)
{
	struct hist_op *op;

	if (op_index == HIST_NONE)
		return;
	assert(op_index < h->op_count && result != HIST_PENDING);
	op = &h->ops[op_index];
	assert(op->result == HIST_PENDING);
	op->return_time = ++h->time;
	op->result = (uint8_t)result;
	if (op->kind == HIST_GET)
		op->value = result == HIST_OK ? value : 0;
}

static const char *result_name(const struct hist_op *op)
{
	switch (op->result) {
	case HIST_PENDING:
		return "pending";
	case HIST_OK:
		return "ok";
	case HIST_MISS:
		return op->kind == HIST_DELETE ? "not found" : "miss";
	default:
		return "undecided";
	}
}

void history_print_op(const struct hist_op *op, char *text, unsigned text_bytes)
{
	static const char *const kind_names[] = {"get",	   "set",   "delete",
						 "change", "flush", "step of the clock"};
	char value[64] = "", end[24] = "never", key[32] = "";

	if (op->kind == HIST_SET || (op->kind == HIST_GET && op->result == HIST_OK))
		snprintf(value, sizeof(value), " = %" PRIu64, op->value);
	if (op->kind == HIST_CHANGE && op->seen != HIST_UNSEEN)
		snprintf(value, sizeof(value), " from %" PRIu64 " to %" PRIu64, op->seen,
			 op->value);
	if (op->key != HIST_EVERY_KEY)
		snprintf(key, sizeof(key), " key %" PRIu64, op->key);
	if (op->return_time != HIST_NEVER)
		snprintf(end, sizeof(end), "%" PRIu64, op->return_time);
	snprintf(text, text_bytes, "[%" PRIu64 ",%s] w%" PRIu32 " %s%s%s -> %s", op->invoke_time,
		 end, op->worker_index, kind_names[op->kind], key, value, result_name(op));
}

static bool is_first_of_key(const struct history *h, uint32_t op_index)
{
	for (uint32_t i = 0; i < op_index; i++)
		if (h->ops[i].key == h->ops[op_index].key)
			return false;
	return true;
}

int history_check_keys(const struct history *h, history_key_fn check, void *context, char *text,
		       size_t text_bytes)
{
	int status = 0;

	if (text_bytes)
		text[0] = '\0';
	if (h->refused_count) {
		snprintf(text, text_bytes, "the history had no room for %" PRIu32 " operations",
			 h->refused_count);
		return FORGE_E_INVAL;
	}
	for (uint32_t i = 0; i < h->op_count && !status; i++)
		if (h->ops[i].key != HIST_EVERY_KEY && is_first_of_key(h, i))
			status = check(context, h, h->ops[i].key, text, text_bytes);
	return status;
}
