/* trace.c: opens trace files, finds their format, and hands out their records. */
#include "load/trace.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/status.h"
#include "load/trace_reader.h"

static const struct trace_reader *const readers[] = {
    &trace_reader_oracle_general, &trace_reader_u32,  &trace_reader_u64,
    &trace_reader_be32,		  &trace_reader_be64, &trace_reader_csv,
};

static const char *const packed_extensions[] = {".zst", ".zstd", ".xz", ".gz"};

static bool ends_with(const char *text, size_t bytes, const char *end, size_t end_bytes)
{
	return bytes >= end_bytes && strncasecmp(text + bytes - end_bytes, end, end_bytes) == 0;
}

/* The length of path without an extension of compression. */
static size_t unpacked_length(const char *path)
{
	size_t bytes = strlen(path);

	for (size_t i = 0; i < ARRAY_COUNT(packed_extensions); i++) {
		size_t n = strlen(packed_extensions[i]);

		if (ends_with(path, bytes, packed_extensions[i], n))
			return bytes - n;
	}
	return bytes;
}

static bool has_extension(const char *path, size_t bytes, const char *extensions)
{
	while (*extensions != '\0') {
		size_t n = strcspn(extensions, " ");

		if (ends_with(path, bytes, extensions, n))
			return true;
		extensions += n;
		extensions += strspn(extensions, " ");
	}
	return false;
}

static int reader_find(const struct trace_reader **out, const char *path, const char *format,
		       struct load_error *error)
{
	size_t bytes = unpacked_length(path);
	char known[128];
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_COUNT(readers); i++) {
		if (format == NULL ? has_extension(path, bytes, readers[i]->extensions)
				   : strcasecmp(format, readers[i]->name) == 0) {
			*out = readers[i];
			return 0;
		}
		at += (size_t)snprintf(known + at, sizeof(known) - at, " %s", readers[i]->name);
	}
	if (format != NULL)
		return load_error_set(error, FORGE_E_INVAL,
				      "--format=%s is not known; give one of%s", format, known);
	return load_error_set(error, FORGE_E_INVAL,
			      "%s: the extension names no trace format; give --format, one of%s",
			      path, known);
}

/* A format taken from the extension is doubted when the bytes are of the other kind. */
static int content_check(struct trace *t, struct load_error *error)
{
	const char *kind = t->reader->record_bytes > 0 ? "text" : "binary data";
	unsigned char *bytes;
	size_t count;
	size_t printable = 0;
	size_t lines = 0;
	size_t zeros = 0;
	int status;

	if (t->options.format != NULL)
		return 0;
	status = trace_input_peek(t->input, 4096, &bytes, &count, error);
	if (status != 0)
		return status;
	for (size_t i = 0; i < count; i++) {
		printable += isprint(bytes[i]) || isspace(bytes[i]);
		lines += bytes[i] == '\n';
		zeros += bytes[i] == 0;
	}
	if (t->reader->record_bytes > 0 ? count < 32 || printable < count || lines == 0
					: zeros == 0)
		return 0;
	return load_error_set(error, FORGE_E_FORMAT,
			      "%s: looks like %s, but its extension says %s; give --format",
			      t->path, kind, t->reader->name);
}

/* A plain file's length tells at once what a packed one only tells at its end. */
static int length_check(const struct trace *t, struct load_error *error)
{
	int64_t bytes = trace_input_plain_bytes(t->input);
	unsigned record_bytes = t->reader->record_bytes;

	if (record_bytes == 0 || bytes < 0 || bytes % record_bytes == 0)
		return 0;
	return load_error_set(
	    error, FORGE_E_TRUNCATED,
	    "%s: record %" PRId64 " is cut: %" PRId64 " bytes are no multiple of the %u-byte %s "
	    "record; copy the file again, or give another format",
	    t->path, bytes / record_bytes + 1, bytes, record_bytes, t->reader->name);
}

int trace_file_open(struct trace **out, const char *path, const struct trace_options *options,
		    struct load_error *error)
{
	struct trace *t = calloc(1, sizeof(*t));
	int status = FORGE_E_NO_MEMORY;

	if (t != NULL)
		t->path = strdup(path);
	if (t == NULL || t->path == NULL) {
		load_error_set(error, status, "%s: out of memory", path);
		goto out;
	}
	if (options != NULL)
		t->options = *options;
	t->number = 1;
	status = reader_find(&t->reader, path, t->options.format, error);
	if (status == 0 && t->options.sizes_path != NULL && !t->reader->takes_sizes_file)
		status = load_error_set(error, FORGE_E_INVAL,
					"%s: a sizes file goes with bare ids, not with %s", path,
					t->reader->name);
	if (status == 0 && strcmp(t->reader->name, "csv") != 0 &&
	    (t->options.csv_columns ||
	     (t->options.csv_delimiter && t->options.csv_delimiter != ',')))
		status =
		    load_error_set(error, FORGE_E_INVAL,
				   "%s: columns and a delimiter go with csv, not with %s; give "
				   "--format csv, or leave them out",
				   path, t->reader->name);
	if (status == 0)
		status = trace_input_open(&t->input, t->path, t->options.as_it_is, error);
	if (status == 0)
		status = content_check(t, error);
	if (status == 0)
		status = length_check(t, error);
	if (status == 0 && t->reader->open != NULL)
		status = t->reader->open(t, error);
out:
	if (status == 0)
		*out = t;
	else
		trace_file_close(t);
	return status;
}

void trace_file_close(struct trace *t)
{
	if (t == NULL)
		return;
	if (t->reader != NULL && t->reader->close != NULL)
		t->reader->close(t);
	trace_input_close(t->input);
	free(t->path);
	free(t);
}

int trace_file_next(struct trace *t, struct trace_record *record, struct load_error *error)
{
	struct trace_record r = {.next_access = TRACE_NEXT_UNKNOWN};
	int result;

	if (t->failed != 0)
		return load_error_set(error, t->failed, "%s", t->error.text);
	if (t->options.requests_max > 0 && t->handed_out >= t->options.requests_max)
		return TRACE_END;
	result = t->reader->next(t, &r, &t->error);
	if (result < 0) {
		t->failed = result;
		return load_error_set(error, result, "%s", t->error.text);
	}
	if (result == TRACE_RECORD) {
		t->handed_out++;
		t->number++;
		*record = r;
	}
	return result;
}

int trace_file_rewind(struct trace *t, struct load_error *error)
{
	int status = trace_input_rewind(t->input, error);

	if (status == 0 && t->reader->rewind != NULL)
		status = t->reader->rewind(t, error);
	t->failed = status;
	if (status != 0) {
		if (error != NULL)
			t->error = *error;
		return status;
	}
	t->number = 1;
	t->handed_out = 0;
	return 0;
}

int trace_binary_next(struct trace *t, const unsigned char **out, struct load_error *error)
{
	unsigned record_bytes = t->reader->record_bytes;
	unsigned char *bytes;
	size_t count;
	int status = trace_input_peek(t->input, record_bytes, &bytes, &count, error);

	if (status != 0)
		return status;
	if (count == 0)
		return TRACE_END;
	if (count < record_bytes)
		return load_error_set(error, FORGE_E_TRUNCATED,
				      "%s: record %" PRIu64 " is cut: %zu of the %u bytes of a %s "
				      "record; copy the file again, or give another format",
				      t->path, t->number, count, record_bytes, t->reader->name);
	trace_input_take(t->input, record_bytes);
	*out = bytes;
	return TRACE_RECORD;
}

const char *trace_format(const struct trace *t)
{
	return t->reader->name;
}

const char *trace_compression(const struct trace *t)
{
	return trace_input_compression(t->input);
}

bool trace_has_sizes(const struct trace *t)
{
	return t->reader->has_sizes || t->sizes != NULL || trace_csv_has_sizes(t->csv);
}

bool trace_has_ops(const struct trace *t)
{
	return trace_csv_has_ops(t->csv);
}

bool trace_sizes_beside(const char *path, char *sizes_path, size_t sizes_path_bytes)
{
	size_t bytes = unpacked_length(path);
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	size_t stem = bytes;

	while (stem > (size_t)(name - path) && path[stem - 1] != '.')
		stem--;
	if (stem == (size_t)(name - path))
		return false; /* no extension to replace */
	for (size_t i = 0; i <= ARRAY_COUNT(packed_extensions); i++) {
		const char *packed = i == 0 ? "" : packed_extensions[i - 1];
		int n = snprintf(sizes_path, sizes_path_bytes, "%.*ssz%s", (int)stem, path, packed);

		if (n >= 0 && (size_t)n < sizes_path_bytes && strcmp(sizes_path, path) != 0 &&
		    access(sizes_path, R_OK) == 0)
			return true;
	}
	return false;
}
