/* count.c: verbs and bytes by purpose and code. */
#include "fabric/count.h"

#include <stdlib.h>

#include "base/compiler.h"
#include "fabric/wrap.h"

struct count_fab {
	struct wrap wrap;
	struct fab_counts *counts;
};

static inline void count_observe(struct wrap *w, const struct fab_op *op)
{
	struct fab_count *c = &((struct count_fab *)w)->counts->by[op->purpose][op->code];

	assert(op->purpose < FAB_PURPOSES && op->code < FAB_CODES);
	c->verbs++;
	c->bytes += op->len;
	if (op->flags & FAB_DETACHED)
		return;
	if (unlikely(op->status < 0))
		c->errors++;
	else if (op->code == FAB_CAS && op->old != op->arg)
		c->cas_failed++;
}

static void count_close(struct fab *f)
{
	wrap_finish((struct wrap *)f);
	free(f);
}

static void count_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	wrap_post((struct wrap *)f, ops, n, count_observe);
}

static void count_kick(struct fab *f)
{
	wrap_kick((struct wrap *)f, count_observe);
}

static void count_poll(struct fab *f)
{
	wrap_poll((struct wrap *)f, count_observe);
}

static const struct fab_provider count_provider = {
    .name = "count",
    .close = count_close,
    .reg = wrap_reg,
    .post = count_post,
    .kick = count_kick,
    .poll = count_poll,
    .sleep_on = wrap_sleep_on,
};

int count_open(struct fab *inner, struct fab_counts *counts, struct fab **out)
{
	struct count_fab *c = malloc(sizeof(*c));

	if (!c) {
		fab_close(inner);
		return FORGE_E_NO_MEMORY;
	}
	wrap_init(&c->wrap, &count_provider, inner);
	c->counts = counts;
	*out = (struct fab *)c;
	return FORGE_OK;
}

static void count_add(struct fab_count *into, const struct fab_count *from)
{
	into->verbs += from->verbs;
	into->bytes += from->bytes;
	into->cas_failed += from->cas_failed;
	into->errors += from->errors;
}

void fab_counts_merge(struct fab_counts *into, const struct fab_counts *from)
{
	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		for (unsigned c = 0; c < FAB_CODES; c++)
			count_add(&into->by[p][c], &from->by[p][c]);
}

struct fab_counts fab_counts_since(const struct fab_counts *later, const struct fab_counts *earlier)
{
	struct fab_counts d = *later;

	for (unsigned p = 0; p < FAB_PURPOSES; p++) {
		for (unsigned c = 0; c < FAB_CODES; c++) {
			d.by[p][c].verbs -= earlier->by[p][c].verbs;
			d.by[p][c].bytes -= earlier->by[p][c].bytes;
			d.by[p][c].cas_failed -= earlier->by[p][c].cas_failed;
			d.by[p][c].errors -= earlier->by[p][c].errors;
		}
	}
	return d;
}

struct fab_count fab_counts_of_purpose(const struct fab_counts *c, enum fab_purpose purpose)
{
	struct fab_count sum = {0};

	for (unsigned code = 0; code < FAB_CODES; code++)
		count_add(&sum, &c->by[purpose][code]);
	return sum;
}

struct fab_count fab_counts_of_code(const struct fab_counts *c, enum fab_code code)
{
	struct fab_count sum = {0};

	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		count_add(&sum, &c->by[p][code]);
	return sum;
}

struct fab_count fab_counts_total(const struct fab_counts *c)
{
	struct fab_count sum = {0};

	for (unsigned p = 0; p < FAB_PURPOSES; p++)
		for (unsigned code = 0; code < FAB_CODES; code++)
			count_add(&sum, &c->by[p][code]);
	return sum;
}
