/*
 * fuzz_trace.c: the trace readers on arbitrary bytes.
 *
 * Shows that whatever a file holds, a reader ends with the end or an error that has a sentence
 * and names the file; that what it hands out is in range; that a second pass after a rewind
 * gives the same records and the same ending; and that the footprint counts the same requests.
 *
 * The first bytes of an input choose format and options, the rest is the file:
 *	byte 0		format
 *	byte 1		bits 0-1 header, 2-3 columns, 4-5 delimiter, 6 as it is, 7 sizes file: the
 *			second half of the rest
 */
#include "fuzz.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/status.h"
#include "load/trace.h"

#define HEAD_BYTES   2
#define REQUESTS_MAX 5000 /* a few packed bytes can stand for very many records */

static const char *const formats[] = {"oracleGeneral", "u32", "u64", "be32", "be64", "csv"};

struct memory_file {
	int fd;
	char path[32];
};

static void memory_file_make(struct memory_file *f, const uint8_t *data, size_t bytes)
{
	f->fd = memfd_create("fuzz", MFD_CLOEXEC);
	require(f->fd >= 0, "no memory file");
	require(write(f->fd, data, bytes) == (ssize_t)bytes, "the memory file is short");
	snprintf(f->path, sizeof(f->path), "/proc/self/fd/%d", f->fd);
}

struct ending {
	uint64_t records;
	uint64_t digest;
	int status;
};

static struct ending drain(struct trace *t)
{
	struct load_error error = {{0}};
	struct trace_record r = {0};
	struct ending e = {0};

	while ((e.status = trace_file_next(t, &r, &error)) == TRACE_RECORD) {
		uint64_t fields[] = {r.time, r.id, r.size, (uint64_t)r.next_access, r.check, r.op};

		require((unsigned)r.op < LOAD_OP_KINDS, "an operation out of range");
		require(r.next_access >= -1 || r.next_access == TRACE_NEXT_UNKNOWN,
			"a next access out of range");
		e.digest = hash_checksum(e.digest, fields, sizeof(fields));
		e.records++;
	}
	require(e.status <= 0, "neither record nor end");
	require(e.records <= REQUESTS_MAX, "more records than asked for");
	require(e.status == 0 || strstr(error.text, "/proc/self/fd/") != NULL,
		"an error that names no file");
	return e;
}

static void read_twice(const char *path, const struct trace_options *options)
{
	struct trace_footprint footprint = {0};
	struct load_error error = {{0}};
	struct ending first, second;
	struct trace *t;
	int status = trace_file_open(&t, path, options, &error);

	if (status != 0) {
		require(error.text[0] != '\0', "a refusal without a sentence");
		require(trace_footprint(path, options, &footprint, &error) == status,
			"a footprint of a refused file");
		return;
	}
	first = drain(t);
	status = trace_file_rewind(t, &error);
	require(status == 0, "a file that cannot be read again");
	second = drain(t);
	require(first.records == second.records && first.digest == second.digest &&
		    first.status == second.status,
		"the second pass differs");
	trace_file_close(t);
	status = trace_footprint(path, options, &footprint, &error);
	require(status == first.status, "the footprint ends otherwise");
	require(status != 0 || footprint.requests == first.records, "the footprint differs");
	require(footprint.distinct <= footprint.requests, "more ids than requests");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const columns[] = {NULL, "key", "time,key,size,op", "-,op,-,key"};
	static const char delimiters[] = {0, ' ', '\t', ';'};
	struct trace_options options = {.requests_max = REQUESTS_MAX};
	struct memory_file file, sizes;
	size_t file_bytes;

	if (bytes < HEAD_BYTES)
		return 0;
	options.format = formats[data[0] % ARRAY_COUNT(formats)];
	options.csv_header = (enum trace_header)min_u64(data[1] & 3, TRACE_HEADER_NO);
	options.csv_columns = columns[data[1] >> 2 & 3];
	options.csv_delimiter = delimiters[data[1] >> 4 & 3];
	options.as_it_is = data[1] >> 6 & 1;
	file_bytes = data[1] >> 7 ? (bytes - HEAD_BYTES) / 2 : bytes - HEAD_BYTES;
	memory_file_make(&file, data + HEAD_BYTES, file_bytes);
	memory_file_make(&sizes, data + HEAD_BYTES + file_bytes, bytes - HEAD_BYTES - file_bytes);
	if (data[1] >> 7)
		options.sizes_path = sizes.path;
	read_twice(file.path, &options);
	close(file.fd);
	close(sizes.fd);
	return 0;
}

static size_t pack(unsigned packing, const void *plain, size_t bytes, uint8_t *out, size_t room)
{
	size_t at = 0;
	z_stream z = {0};

	switch (packing) {
	case 1:
		return ZSTD_compress(out, room, plain, bytes, 3);
	case 2:
		lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, plain, bytes, out, &at, room);
		return at;
	case 3:
		deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
		z.next_in = (void *)(uintptr_t)plain;
		z.avail_in = (uInt)bytes;
		z.next_out = out;
		z.avail_out = (uInt)room;
		deflate(&z, Z_FINISH);
		at = z.total_out;
		deflateEnd(&z);
		return at;
	default:
		memcpy(out, plain, bytes);
		return bytes;
	}
}

/* Every format in every packing, then some texts with options. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	static const char text[] = "# comment\ntime,key,size,op\n1,17,100,get\n2,\"a,b\",200,set\n"
				   "3,\"x\"\"y\",18446744073709551615,delete\r\n4.5,0,0,incr\n";
	static const struct {
		uint8_t options;
		const char *text;
	} texts[] = {
	    {0x04, "alice\nbob\n12\n007\n\nalice"},
	    {0x18, "1 2 3 get\n 4  5 6 set\n"},
	    {0x20, "timestamp\tobj_id\tbytes\n1\t2\t3\n"},
	    {0x02, "1,2,3\n4,5,6\n"},
	    {0x0c, "x,get,y,5,z\nx,2a,y,6\n"},
	    {0x01, "a,b,c\n1,2,3\n"},
	    {0x80, "\1\0\0\0\2\0\0\0"},
	};
	unsigned char binary[24 * 20];

	if (i < ARRAY_COUNT(formats) * 4) {
		bool is_text = i % ARRAY_COUNT(formats) == 5;

		for (unsigned k = 0; k < sizeof(binary); k++)
			binary[k] = (unsigned char)(k % 24 < 4 ? k / 48 : k * 37 % 251);
		buf[0] = (uint8_t)(i % ARRAY_COUNT(formats));
		buf[1] = 0;
		return HEAD_BYTES + pack(i / ARRAY_COUNT(formats), is_text ? text : (void *)binary,
					 is_text ? sizeof(text) - 1 : sizeof(binary),
					 buf + HEAD_BYTES, room - HEAD_BYTES);
	}
	i -= ARRAY_COUNT(formats) * 4;
	if (i >= ARRAY_COUNT(texts))
		return 0;
	buf[0] = texts[i].options == 0x80 ? 1 : 5;
	buf[1] = texts[i].options;
	if (texts[i].options == 0x80) {
		memcpy(buf + HEAD_BYTES, texts[i].text, 8);
		memcpy(buf + HEAD_BYTES + 8, texts[i].text, 8);
		return HEAD_BYTES + 16;
	}
	memcpy(buf + HEAD_BYTES, texts[i].text, strlen(texts[i].text));
	return HEAD_BYTES + strlen(texts[i].text);
}
