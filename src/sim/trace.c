/* trace.c: a run as readable lines, one per step; only replays pay for it. */
#include <inttypes.h>
#include <stdarg.h>

#include "sim/core.h"

void sim_trace_note(const struct sim *s, uint32_t worker_index, const char *format, ...)
{
	va_list args;

	fprintf(s->trace, "%5" PRIu32, s->step_count);
	if (worker_index == s->ops->worker_count)
		fprintf(s->trace, " observer  ");
	else
		fprintf(s->trace, " cn%u w%" PRIu32 "  ", s->ops->worker_cn[worker_index],
			worker_index);
	va_start(args, format);
	vfprintf(s->trace, format, args);
	va_end(args);
	fputc('\n', s->trace);
}

static void name_region(const struct sim *s, uint64_t raddr, char *text, size_t text_bytes)
{
	text[0] = '\0';
	if (s->ops->name_region)
		s->ops->name_region(s->context, raddr, text, text_bytes);
	if (!text[0])
		snprintf(text, text_bytes, "0x%" PRIx64, raddr);
}

/* The words moved, as far as they fit on a line. */
static void print_words(const struct sim *s, const struct fab_op *op, char *text, size_t text_bytes)
{
	uint64_t lo = op->raddr & ~(uint64_t)7, word;
	size_t used = 0;

	text[0] = '\0';
	for (int i = 0; i < 4 && lo + 8 <= s->memory.size && lo < op->raddr + op->len; i++) {
		__builtin_memcpy(&word, s->memory.bytes + lo, 8);
		used += (size_t)snprintf(text + used, text_bytes - used, " %" PRIx64, word);
		lo += 8;
	}
	if (lo < op->raddr + op->len)
		snprintf(text + used, text_bytes - used, " ...");
}

void sim_trace_step(const struct sim *s, const struct sim_worker *w, const struct sim_verb *v,
		    const struct sim_effect *e)
{
	static const char *const code_names[FAB_CODES] = {"READ", "WRITE", "CAS", "FAA"};
	const struct fab_op *op = v->op;
	char place[96], detail[128], piece[32] = "";

	name_region(s, op->raddr, place, sizeof(place));
	switch (op->code) {
	case FAB_CAS:
		snprintf(detail, sizeof(detail), "%" PRIx64 " -> %" PRIx64 "%s%" PRIx64, op->arg,
			 op->swap, op->old == op->arg ? ", won; was " : ", LOST; is ", op->old);
		break;
	case FAB_FAA:
		snprintf(detail, sizeof(detail), "+ %" PRIx64 "; was %" PRIx64, op->arg, op->old);
		break;
	default:
		print_words(s, op, detail, sizeof(detail));
	}
	if (v->piece_count > 1)
		snprintf(piece, sizeof(piece), " piece %u/%u", v->piece_index, v->piece_count);
	sim_trace_note(s, w->index, "%-5s %s+%" PRIu32 "%s%s%s  %s", code_names[op->code], place,
		       op->len, piece, v->detached ? " detached" : "",
		       v->refused ? " OUT OF BOUNDS" : "", v->refused ? "" : detail);
}
