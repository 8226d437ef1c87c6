/* trace.c: one readable line per verb. */
#include "fabric/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "fabric/names.h"
#include "fabric/wrap.h"

struct trace_fab {
	struct wrap wrap;
	struct trace_settings settings;
};

/* "ok", "won", "lost to 0x..", "was 0x..", "detached" or the name of an error. */
static void result_text(const struct fab_op *op, char *text, size_t bytes)
{
	if (op->flags & FAB_DETACHED)
		snprintf(text, bytes, "detached");
	else if (op->status != FORGE_OK)
		snprintf(text, bytes, "%s", status_name(op->status));
	else if (op->code == FAB_CAS && op->old == op->arg)
		snprintf(text, bytes, "won");
	else if (op->code == FAB_CAS)
		snprintf(text, bytes, "lost to 0x%" PRIx64, op->old);
	else if (op->code == FAB_FAA)
		snprintf(text, bytes, "was 0x%" PRIx64, op->old);
	else
		snprintf(text, bytes, "ok");
}

static void operand_text(const struct fab_op *op, char *text, size_t bytes)
{
	if (op->code == FAB_CAS)
		snprintf(text, bytes, "0x%" PRIx64 " -> 0x%" PRIx64, op->arg, op->swap);
	else if (op->code == FAB_FAA)
		snprintf(text, bytes, "+ 0x%" PRIx64, op->arg);
	else
		snprintf(text, bytes, "%" PRIu32, op->len);
}

static void trace_observe(struct wrap *w, const struct fab_op *op)
{
	const struct trace_settings *s = &((struct trace_fab *)w)->settings;
	char line[TRACE_LINE_BYTES], where[96], operand[48], result[48];

	if (!s->name_region || !s->name_region(s->name_context, op->raddr, where, sizeof(where)))
		snprintf(where, sizeof(where), "0x%" PRIx64, op->raddr);
	operand_text(op, operand, sizeof(operand));
	result_text(op, result, sizeof(result));
	snprintf(line, sizeof(line), "%.32s %-8s %-5s %s %s = %s", s->connection,
		 fab_purpose_name(op->purpose), fab_code_name(op->code), where, operand, result);
	s->line(s->line_context, line);
}

static void trace_close(struct fab *f)
{
	wrap_finish((struct wrap *)f);
	free(f);
}

static void trace_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	wrap_post((struct wrap *)f, ops, n, trace_observe);
}

static void trace_kick(struct fab *f)
{
	wrap_kick((struct wrap *)f, trace_observe);
}

static void trace_poll(struct fab *f)
{
	wrap_poll((struct wrap *)f, trace_observe);
}

static const struct fab_provider trace_provider = {
    .name = "trace",
    .close = trace_close,
    .reg = wrap_reg,
    .post = trace_post,
    .kick = trace_kick,
    .poll = trace_poll,
    .sleep_on = wrap_sleep_on,
};

void trace_line_to_file(void *file, const char *line)
{
	fprintf(file, "%s\n", line);
}

int trace_open(struct fab *inner, const struct trace_settings *settings, struct fab **out)
{
	struct trace_fab *t = malloc(sizeof(*t));

	assert(settings->connection && settings->line);
	if (!t) {
		fab_close(inner);
		return FORGE_E_NO_MEMORY;
	}
	wrap_init(&t->wrap, &trace_provider, inner);
	t->settings = *settings;
	*out = (struct fab *)t;
	return FORGE_OK;
}
