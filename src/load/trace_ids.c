/* trace_ids.c: bare ids of fixed width, with their sizes in a second file if there is one. */
#include "load/trace_reader.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "base/status.h"

#define SIZE_BYTES 4

static int open_sizes(struct trace *t, struct load_error *error)
{
	if (t->options.sizes_path == NULL)
		return 0;
	return trace_input_open(&t->sizes, t->options.sizes_path, t->options.as_it_is, error);
}

static void close_sizes(struct trace *t)
{
	trace_input_close(t->sizes);
}

static int rewind_sizes(struct trace *t, struct load_error *error)
{
	return t->sizes == NULL ? 0 : trace_input_rewind(t->sizes, error);
}

/* Both files must end together. */
static int sizes_end(struct trace *t, struct load_error *error)
{
	unsigned char *bytes;
	size_t count;
	int status;

	if (t->sizes == NULL)
		return TRACE_END;
	status = trace_input_peek(t->sizes, 1, &bytes, &count, error);
	if (status != 0)
		return status;
	if (count == 0)
		return TRACE_END;
	return load_error_set(error, FORGE_E_FORMAT,
			      "%s: goes on after size %" PRIu64
			      ", but %s has no more ids; name the "
			      "sizes file that belongs to it",
			      t->options.sizes_path, t->number - 1, t->path);
}

static int size_next(struct trace *t, struct trace_record *record, struct load_error *error)
{
	unsigned char *bytes;
	size_t count;
	uint32_t size;
	int status;

	if (t->sizes == NULL)
		return 0;
	status = trace_input_peek(t->sizes, SIZE_BYTES, &bytes, &count, error);
	if (status != 0)
		return status;
	if (count < SIZE_BYTES)
		return load_error_set(error, FORGE_E_TRUNCATED,
				      "%s: has no size for record %" PRIu64
				      " of %s; name the sizes "
				      "file that belongs to it",
				      t->options.sizes_path, t->number, t->path);
	memcpy(&size, bytes, sizeof(size));
	trace_input_take(t->sizes, SIZE_BYTES);
	record->size = le32toh(size);
	return 0;
}

static int next(struct trace *t, struct trace_record *record, struct load_error *error)
{
	const unsigned char *bytes;
	int result = trace_binary_next(t, &bytes, error);
	uint32_t id32;
	uint64_t id64;

	if (result == TRACE_END)
		return sizes_end(t, error);
	if (result != TRACE_RECORD)
		return result;
	if (t->reader->record_bytes == sizeof(id32)) {
		memcpy(&id32, bytes, sizeof(id32));
		record->id = t->reader == &trace_reader_be32 ? be32toh(id32) : le32toh(id32);
	} else {
		memcpy(&id64, bytes, sizeof(id64));
		record->id = t->reader == &trace_reader_be64 ? be64toh(id64) : le64toh(id64);
	}
	result = size_next(t, record, error);
	return result == 0 ? TRACE_RECORD : result;
}

#define IDS_READER(symbol, text, bytes)      \
	const struct trace_reader symbol = { \
	    .name = text,                    \
	    .extensions = "." text,          \
	    .record_bytes = bytes,           \
	    .takes_sizes_file = true,        \
	    .open = open_sizes,              \
	    .close = close_sizes,            \
	    .rewind = rewind_sizes,          \
	    .next = next,                    \
	}

IDS_READER(trace_reader_u32, "u32", 4);
IDS_READER(trace_reader_u64, "u64", 8);
IDS_READER(trace_reader_be32, "be32", 4);
IDS_READER(trace_reader_be64, "be64", 8);
