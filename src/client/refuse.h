/*
 * refuse.h: saying why something is refused, and to whom, in one expression.
 *
 * Internal to src/client.  Any thread.
 */
#ifndef FORGE_CLIENT_REFUSE_H
#define FORGE_CLIENT_REFUSE_H

#include <stdio.h>

/* Where the caller wants the sentence. */
struct error_out {
	char *text;
	size_t bytes;
};

/* The status, with a sentence as by printf(). */
#define REFUSE(e, status, ...) (snprintf((e)->text, (e)->bytes, __VA_ARGS__), (status))

#endif
