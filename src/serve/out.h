/*
 * out.h: where replies are put together before they are sent.
 *
 * Whoever starts a reply makes sure that the longest one without a value fits
 * (OUT_REPLY_BYTES_MAX), and whoever writes a value that it does (out_reserve()); the appending
 * functions only assert it.  The buffer of a worker thread has room for the longest value from the
 * beginning; that of a flow, of which there are many, grows for the values that are.
 */
#ifndef FORGE_SERVE_OUT_H
#define FORGE_SERVE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

struct out {
	char *data;
	size_t used, room;
};

/* The longest reply to one request, a value of the longest length not counted: statistics. */
#define OUT_REPLY_BYTES_MAX 32768u
/* What stands around a value in the reply to a lookup, at most: a key in base64, meta flags. */
#define OUT_AROUND_BYTES_MAX 1024u

static inline size_t out_left(const struct out *o)
{
	return o->room - o->used;
}

/* Room for a value of so many bytes and what stands around it.  false: there is no memory. */
static inline bool out_reserve(struct out *o, size_t value_bytes)
{
	size_t room = o->used + value_bytes + OUT_AROUND_BYTES_MAX;

	if (likely(room <= o->room))
		return true;
	char *data = realloc(o->data, room);

	if (!data)
		return false;
	o->data = data;
	o->room = room;
	return true;
}

static inline void out_bytes(struct out *o, const void *data, size_t bytes)
{
	assert(bytes <= out_left(o));
	memcpy(o->data + o->used, data, bytes);
	o->used += bytes;
}

static inline void out_char(struct out *o, char c)
{
	assert(out_left(o) > 0);
	o->data[o->used++] = c;
}

static inline void out_string(struct out *o, const char *s)
{
	out_bytes(o, s, strlen(s));
}

static inline void out_end_line(struct out *o)
{
	out_bytes(o, "\r\n", 2);
}

static inline void out_u64(struct out *o, uint64_t n)
{
	char digits[20];
	unsigned at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	out_bytes(o, digits + at, sizeof(digits) - at);
}

static inline void out_i64(struct out *o, int64_t n)
{
	if (n < 0)
		out_char(o, '-');
	out_u64(o, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

/* Network order. */
static inline void out_u16_be(struct out *o, uint16_t n)
{
	const char bytes[2] = {(char)(n >> 8), (char)n};

	out_bytes(o, bytes, sizeof(bytes));
}

static inline void out_u32_be(struct out *o, uint32_t n)
{
	out_u16_be(o, (uint16_t)(n >> 16));
	out_u16_be(o, (uint16_t)n);
}

static inline void out_u64_be(struct out *o, uint64_t n)
{
	out_u32_be(o, (uint32_t)(n >> 32));
	out_u32_be(o, (uint32_t)n);
}

#endif
