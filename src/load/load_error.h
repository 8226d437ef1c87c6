/*
 * load_error.h: the one sentence that tells a user what is wrong with an input, and the remedy.
 *
 * For the parsers of this folder and their callers.  A status of base/status.def says what
 * kind of failure it is; a load_error says which file, which record, and what to do.  The
 * struct belongs to the caller; NULL is allowed wherever one is taken.
 */
#ifndef FORGE_LOAD_LOAD_ERROR_H
#define FORGE_LOAD_LOAD_ERROR_H

#include "base/compiler.h"

struct load_error {
	char text[512]; /* one line, no newline at its end; empty when nothing went wrong */
};

/* Write the sentence (cut at the buffer's end) and give status back.  Any thread. */
int load_error_set(struct load_error *, int status, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
