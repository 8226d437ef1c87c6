/*
 * trace_input.h: the bytes of a trace file, decompressed.
 *
 * Private to the trace readers.  zstd, xz and gzip are recognised by their first bytes,
 * whatever the file is called; anything else is read as it is.  Memory is bounded: two
 * buffers here, and what the decompressor needs (at most 256 MiB for xz, 128 MiB for zstd).
 * One input, one thread.
 */
#ifndef FORGE_LOAD_TRACE_INPUT_H
#define FORGE_LOAD_TRACE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/load_error.h"

/* The longest piece that trace_input_peek() can show at once. */
#define TRACE_INPUT_PEEK_MAX (1u << 16)

struct trace_input;

/* Borrows path until closed.  as_it_is reads a compressed file without decompressing it. */
int trace_input_open(struct trace_input **, const char *path, bool as_it_is, struct load_error *);

void trace_input_close(struct trace_input *);

/* From the first byte again; FORGE_E_SYSTEM when the file is a pipe. */
int trace_input_rewind(struct trace_input *, struct load_error *);

/*
 * Show the next bytes, without taking them: at least `wanted` of them (at most
 * TRACE_INPUT_PEEK_MAX), fewer only when the file ends before.  They may be changed in place,
 * and stay until the next call for this input.
 */
int trace_input_peek(struct trace_input *, size_t wanted, unsigned char **bytes, size_t *count,
		     struct load_error *);

/* Take bytes that were shown. */
void trace_input_take(struct trace_input *, size_t count);

/* The file's length if it is a plain, regular file; -1 otherwise. */
int64_t trace_input_plain_bytes(const struct trace_input *);

/* "", "zstd", "xz" or "gzip". */
const char *trace_input_compression(const struct trace_input *);

#endif
