/*
 * trace.h: a provider that writes one readable line per verb which passes through it.
 *
 * Who may call: the scheduler, tools and tests, between a provider and a worker.  Lines appear
 * when the verb completes, in the order of completion, on the connection's thread; a detached
 * verb has its line when it is posted.  For example
 *
 *   cn1 index    READ  bucket[3] 128 = ok
 *   cn1 index    CAS   bucket[3].slot[2] 0x0 -> 0x1f03 = won
 *   cn2 index    CAS   bucket[3].slot[2] 0x0 -> 0x2a01 = lost to 0x1f03
 *   cn1 hotness  FAA   ofm[9]+0x8 + 0x100 = was 0x2
 *   cn1 space    WRITE 0x8000 512 = FORGE_E_NODE
 */
#ifndef FORGE_FABRIC_TRACE_H
#define FORGE_FABRIC_TRACE_H

#include "fabric/fabric.h"

/* Longest line, with its final NUL; longer ones are cut. */
#define TRACE_LINE_BYTES 256

struct trace_settings {
	const char *connection; /* begins each line; borrowed until close */
	/*
	 * Write a name for raddr, e.g. "ofm[9]+0x8", to text and return 1, or return 0 for the
	 * plain number.  NULL names nothing.
	 */
	int (*name_region)(void *context, uint64_t raddr, char *text, size_t text_bytes);
	void *name_context;
	/* Take a line, which has no newline and is valid during the call. */
	void (*line)(void *context, const char *line);
	void *line_context;
};

/* A line function that prints to the FILE given as context. */
void trace_line_to_file(void *file, const char *line);

/*
 * Wrap inner, which is owned from now on, also on failure, when it is closed.  settings is
 * copied.  0 or FORGE_E_NO_MEMORY.
 */
int trace_open(struct fab *inner, const struct trace_settings *settings, struct fab **out);

#endif
