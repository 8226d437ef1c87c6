/*
 * load_file.h: small files for the trace tests, packed or not.
 *
 * For tests in this folder.  A file lies in the working directory under a name with the
 * process's id, and the test removes it.
 */
#ifndef FORGE_TEST_LOAD_FILE_H
#define FORGE_TEST_LOAD_FILE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <unistd.h>

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#define FILE_PATH_MAX	128
#define FILE_PACKED_MAX (1u << 20)

enum file_packing {
	FILE_PLAIN,
	FILE_ZSTD,
	FILE_XZ,
	FILE_GZIP,
	FILE_PACKINGS,
};

/* Pack bytes to out; gives the packed length. */
static inline size_t file_pack(enum file_packing packing, const void *bytes, size_t count,
			       unsigned char out[FILE_PACKED_MAX])
{
	size_t at = 0;
	z_stream z = {0};

	switch (packing) {
	case FILE_ZSTD:
		at = ZSTD_compress(out, FILE_PACKED_MAX, bytes, count, 3);
		assert_false(ZSTD_isError(at));
		break;
	case FILE_XZ:
		assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, bytes, count,
							 out, &at, FILE_PACKED_MAX),
				 LZMA_OK);
		break;
	case FILE_GZIP:
		assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
				 Z_OK);
		z.next_in = (void *)(uintptr_t)bytes;
		z.avail_in = (uInt)count;
		z.next_out = out;
		z.avail_out = FILE_PACKED_MAX;
		assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
		at = z.total_out;
		deflateEnd(&z);
		break;
	default:
		assert_true(count <= FILE_PACKED_MAX);
		__builtin_memcpy(out, bytes, count);
		at = count;
	}
	return at;
}

/* Write a file; path receives its name, which ends as asked. */
static inline void file_make(char path[FILE_PATH_MAX], const char *name, const void *bytes,
			     size_t count)
{
	FILE *f;

	snprintf(path, FILE_PATH_MAX, "load_file.%ld.%s", (long)getpid(), name);
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, count, f), count);
	assert_int_equal(fclose(f), 0);
}

#endif
