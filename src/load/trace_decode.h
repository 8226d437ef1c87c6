/*
 * trace_decode.h: streaming decompression behind one small table of functions.
 *
 * Private to trace_input.c.  A decoder pulls compressed bytes from a source and fills the
 * caller's buffer; it owns its library's state between init and end.
 */
#ifndef FORGE_LOAD_TRACE_DECODE_H
#define FORGE_LOAD_TRACE_DECODE_H

#include <lzma.h>
#include <stdbool.h>
#include <stddef.h>
#include <zlib.h>
#include <zstd.h>

#include "load/load_error.h"

#define SOURCE_BYTES (1u << 16)

/* The file as it lies on disk. */
struct trace_source {
	const char *path;
	int fd;
	bool ended;
	size_t at;
	size_t end;
	unsigned char bytes[SOURCE_BYTES];
};

/* Read more when all is used; at == end afterwards means the file has ended. */
int trace_source_fill(struct trace_source *, struct load_error *);

struct trace_decode_state {
	union {
		ZSTD_DStream *zstd;
		lzma_stream xz;
		z_stream gzip;
	};
	bool inside;  /* a frame or member has begun and not ended */
	bool flushed; /* at the end of the file the library has nothing left to give */
};

struct trace_decoder {
	const char *name;
	int (*init)(struct trace_decode_state *);
	void (*end)(struct trace_decode_state *);
	/*
	 * Produce up to room bytes; 0 produced means the end.  FORGE_E_TRUNCATED when the file
	 * ends inside a frame, FORGE_E_FORMAT when it is damaged.
	 */
	int (*run)(struct trace_decode_state *, struct trace_source *, unsigned char *out,
		   size_t room, size_t *produced, struct load_error *);
};

/* The decoder for a file that begins with these bytes; the plain one if none fits. */
const struct trace_decoder *trace_decoder_for(const unsigned char *bytes, size_t count);

extern const struct trace_decoder trace_decoder_plain;

#endif
