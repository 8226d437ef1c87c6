/*
 * opts_value.h: what a row of an option table makes of a value, wherever that was written.
 *
 * For opts.c alone; see opts.h.
 */
#ifndef FORGE_BASE_OPTS_VALUE_H
#define FORGE_BASE_OPTS_VALUE_H

#include "base/compiler.h"
#include "base/opts.h"
#include "base/text.h"

/* A value on its way in: where it was written, for the message if it is bad. */
struct opts_source {
	const struct opts_table *table;
	struct opts_parsed *parsed;
	const char *label; /* "--threads", "FORGE_THREADS" or "FILE:7: threads" */
};

/* Write the sentence, with where help is, to p->error; returns FORGE_E_INVAL. */
int opts_fail(const struct opts_table *t, struct opts_parsed *p, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* The field of a row in the configuration. */
static inline void *opts_field(const struct opt *o, void *config)
{
	return (char *)config + o->offset;
}

/* Take a value for the row into a field of its type.  0, or FORGE_E_INVAL as opts_fail(). */
int opts_store(const struct opts_source *, const struct opt *, const char *value, void *field);

/* Zero for a row without a default. */
void opts_store_nothing(const struct opt *, void *config);

/* What a value of the row looks like, as in "needs a value (a whole number of threads)". */
const char *opts_value_form(const struct opt *, char *buf, size_t bytes);

/* A bound exactly and as one may type it: in the largest unit that divides it. */
const char *opts_bound_text(const struct opt *, uint64_t bound, struct text *);

#endif
