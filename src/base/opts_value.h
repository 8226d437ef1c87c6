/*
 * opts_value.h: what a row of an option table makes of a value, wherever that was written.
 *
 * For opts.c alone; see opts.h.
 */
#ifndef FORGE_BASE_OPTS_VALUE_H
#define FORGE_BASE_OPTS_VALUE_H

#include "base/compiler.h"
#include "base/opts.h"

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

/* What values of a type look like, as in "not a size such as 64K". */
const char *opts_expected_form(enum opt_type);

#endif
