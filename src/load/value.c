/* value.c: stamping and verifying values; the format is in value.h. */
#include "load/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"

#define HEADER_WORDS 4
#define STEP	     0x9e3779b97f4a7c15u /* odd, so seed + i * STEP never repeats within a value */

struct header {
	uint64_t key;
	uint64_t version;
	uint32_t writer;
	uint32_t length;
	uint64_t seed;
};

_Static_assert(sizeof(struct header) == VALUE_STAMP_BYTES, "the header has no padding");

static uint64_t seed_of(uint64_t key, uint64_t version, uint64_t writer, uint64_t bytes)
{
	uint64_t state = key;

	/* Each input passes a full mixing step, so that equal sums do not give equal seeds. */
	state = prng_splitmix64(&state) ^ version;
	state = prng_splitmix64(&state) ^ (writer << 32 ^ bytes);
	return prng_splitmix64(&state);
}

static void pattern_fill(unsigned char *to, size_t bytes, uint64_t seed)
{
	uint64_t word = seed;
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8, word += STEP)
		memcpy(to + i, &word, 8);
	memcpy(to + i, &word, bytes - i);
}

/* The offset of the first byte that differs from the pattern; bytes when none does. */
static size_t pattern_check(const unsigned char *from, size_t bytes, uint64_t seed)
{
	uint64_t word = seed;
	size_t i = 0;

	for (; i + 8 <= bytes; i += 8, word += STEP) {
		uint64_t found;

		memcpy(&found, from + i, 8);
		if (unlikely(found != word))
			return i + (unsigned)__builtin_ctzll(found ^ word) / 8;
	}
	for (size_t k = 0; i + k < bytes; k++) {
		if (from[i + k] != (unsigned char)(word >> (8 * k)))
			return i + k;
	}
	return bytes;
}

static void short_fill(unsigned char *to, size_t bytes, uint64_t key, uint64_t version)
{
	if (bytes >= 16) {
		memcpy(to, &version, 8);
		pattern_fill(to + 8, bytes - 8, seed_of(key, version, 0, bytes));
	} else if (bytes >= 8) {
		uint32_t low = (uint32_t)version;

		memcpy(to, &low, 4);
		pattern_fill(to + 4, bytes - 4, seed_of(key, low, 0, bytes));
	} else {
		pattern_fill(to, bytes, seed_of(key, 0, 0, bytes));
	}
}

void value_fill(void *buf, size_t bytes, uint64_t key, uint64_t version, uint32_t writer)
{
	struct header h = {key, version, writer, (uint32_t)bytes, 0};

	if (bytes < VALUE_STAMP_BYTES) {
		short_fill(buf, bytes, key, version);
		return;
	}
	h.seed = seed_of(key, version, writer, bytes);
	memcpy(buf, &h, sizeof(h));
	pattern_fill((unsigned char *)buf + sizeof(h), bytes - sizeof(h), h.seed + STEP);
}

static enum value_verdict short_verify(const unsigned char *from, size_t bytes, uint64_t key,
				       uint64_t *version, size_t *wrong_offset)
{
	size_t skip = bytes >= 16 ? 8 : bytes >= 8 ? 4 : 0;
	uint64_t claimed = 0;

	memcpy(&claimed, from, skip);
	*wrong_offset =
	    skip + pattern_check(from + skip, bytes - skip, seed_of(key, claimed, 0, bytes));
	if (*wrong_offset != bytes)
		return VALUE_TORN;
	*version = claimed;
	return VALUE_GOOD;
}

static enum value_verdict verify(const void *buf, size_t bytes, uint64_t key, uint64_t *version,
				 size_t *wrong_offset)
{
	const unsigned char *from = buf;
	struct header h;

	if (bytes < VALUE_STAMP_BYTES)
		return short_verify(from, bytes, key, version, wrong_offset);
	memcpy(&h, from, sizeof(h));
	*wrong_offset = offsetof(struct header, seed);
	if (h.length != (uint32_t)bytes) {
		*wrong_offset = offsetof(struct header, length);
		/* A length that the seed confirms was written so; otherwise it is damage. */
		return h.seed == seed_of(h.key, h.version, h.writer, h.length) ? VALUE_OTHER_LENGTH
									       : VALUE_TORN;
	}
	if (h.seed != seed_of(h.key, h.version, h.writer, bytes))
		return VALUE_TORN;
	*wrong_offset =
	    sizeof(h) + pattern_check(from + sizeof(h), bytes - sizeof(h), h.seed + STEP);
	if (*wrong_offset != bytes)
		return VALUE_TORN;
	if (h.key != key) {
		*wrong_offset = 0;
		return VALUE_OTHER_KEY;
	}
	*version = h.version;
	return VALUE_GOOD;
}

enum value_verdict value_verify(const void *buf, size_t bytes, uint64_t key, uint64_t *version)
{
	size_t wrong_offset;
	uint64_t found;
	enum value_verdict verdict = verify(buf, bytes, key, &found, &wrong_offset);

	if (verdict == VALUE_GOOD && version != NULL)
		*version = found;
	return verdict;
}

uint32_t value_writer(const void *buf, size_t bytes)
{
	struct header h;

	if (bytes < VALUE_STAMP_BYTES)
		return 0;
	memcpy(&h, buf, sizeof(h));
	return h.writer;
}

void value_describe(const void *buf, size_t bytes, uint64_t key, char *text, size_t text_bytes)
{
	static const char *const sentences[] = {
	    [VALUE_GOOD] = "good",
	    [VALUE_OTHER_KEY] = "the value of another key",
	    [VALUE_OTHER_LENGTH] = "a value written with another length",
	    [VALUE_TORN] = "torn or mixed",
	};
	struct header h;
	size_t wrong_offset = 0;
	uint64_t version;
	enum value_verdict verdict = verify(buf, bytes, key, &version, &wrong_offset);

	if (bytes < VALUE_STAMP_BYTES) {
		snprintf(text, text_bytes,
			 "key %" PRIu64 ", %zu bytes: %s, first wrong byte at %zu", key, bytes,
			 sentences[verdict], wrong_offset);
		return;
	}
	memcpy(&h, buf, sizeof(h));
	snprintf(
	    text, text_bytes,
	    "key %" PRIu64 ", %zu bytes: %s, first wrong byte at %zu; the header says key %" PRIu64
	    ", version %" PRIu64 ", writer %" PRIu32 ", %" PRIu32 " bytes",
	    key, bytes, sentences[verdict], wrong_offset, h.key, h.version, h.writer, h.length);
}
