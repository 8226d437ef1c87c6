/*
 * fuzz_protocol.c: the parser of memcached's protocols on arbitrary bytes.
 *
 * Shows that it ends, refers only to bytes it was given, keeps its limits, and gives the same
 * requests whether the input comes whole, byte by byte, or split in some other way.
 *
 * Byte 0 of an input seeds the split, the rest is what a client sent.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "support/requests.h"

static size_t at_random(void *context, size_t left)
{
	struct prng *p = context;
	size_t most = (size_t)1 << prng_below(p, 9);

	return min_u64(left, 1 + prng_below(p, most));
}

static size_t one_byte(void *context, size_t left)
{
	(void)context;
	(void)left;
	return 1;
}

static void require_same(const char *whole, char *split)
{
	if (strcmp(whole, split) != 0) {
		fprintf(stderr, "whole:\n%ssplit:\n%s", whole, split);
		abort();
	}
	free(split);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *sent = (const char *)data + 1;
	struct prng p;

	if (bytes < 1)
		return 0;
	char *whole = requests_of(sent, bytes - 1, NULL, NULL);

	prng_seed(&p, data[0]);
	require_same(whole, requests_of(sent, bytes - 1, at_random, &p));
	if (bytes < 300)
		require_same(whole, requests_of(sent, bytes - 1, one_byte, NULL));
	free(whole);
	return 0;
}

#define HEADER(opcode, key, extras, body) \
	"\x80" opcode "\0" key extras "\0\0\0\0\0\0" body "\0\0\0\7\0\0\0\0\0\0\0\x9"

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	static const char binary[] =
	    HEADER("\1", "\1", "\x8", "\xb") "\0\0\0\5\0\0\0\x3c"
					     "ahi" HEADER("\0", "\2", "\0", "\2") "ab";
	static const char *const texts[] = {
	    "get a bb ccc\r\ngets x \r\ngat 10 y z\r\n",
	    "set a 1 2 3\r\nabc\r\nadd b 0 -1 0 noreply\r\n\r\ncas c 0 0 1 77\r\nx\r\n",
	    "append a 0 0 5000\r\nnot all of it",
	    "incr a 1\r\ndecr a 18446744073709551615 noreply\r\ntouch a 60\r\ndelete a 0\r\n",
	    "flush_all 10\r\nstats items\r\nverbosity 1\r\nversion\nquit\r\n",
	    "mg Zm9v b v t k Oxyz q N30 R10 T-1\r\nmn\r\n",
	    "ms a 2 c T60 F5 I C77 MA\r\nhi\r\nmd a I T30\r\nma a MD D10 J7 N0 v\r\nme a\r\n",
	    "bogus\r\n\r\nGET / HTTP/1.0\r\n",
	};
	const char *text = binary;
	size_t bytes = sizeof(binary) - 1;

	if (i > ARRAY_COUNT(texts))
		return 0;
	if (i < ARRAY_COUNT(texts)) {
		text = texts[i];
		bytes = strlen(text);
	}
	buf[0] = (uint8_t)i;
	bytes = min_u64(bytes, room - 1);
	memcpy(buf + 1, text, bytes);
	return bytes + 1;
}
