/* key.c: ids to key texts and back. */
#include "load/key.h"

#include <string.h>

#define PREFIX	     "user"
#define PREFIX_BYTES 4
#define DIGITS_MIN   16
#define DIGITS_MAX   20

size_t load_key_text(uint64_t id, char buf[LOAD_KEY_TEXT_MAX])
{
	char digits[DIGITS_MAX];
	unsigned n = 0;

	while (id != 0 || n < DIGITS_MIN) {
		digits[DIGITS_MAX - 1 - n++] = (char)('0' + id % 10);
		id /= 10;
	}
	memcpy(buf, PREFIX, PREFIX_BYTES);
	memcpy(buf + PREFIX_BYTES, digits + DIGITS_MAX - n, n);
	return PREFIX_BYTES + n;
}

bool load_key_parse(const char *text, size_t bytes, uint64_t *id)
{
	uint64_t value = 0;

	if (bytes < PREFIX_BYTES + DIGITS_MIN || bytes > PREFIX_BYTES + DIGITS_MAX ||
	    memcmp(text, PREFIX, PREFIX_BYTES) != 0)
		return false;
	if (bytes > PREFIX_BYTES + DIGITS_MIN && text[PREFIX_BYTES] == '0')
		return false; /* padded beyond the 16 digits: a second text of the same id */
	for (size_t i = PREFIX_BYTES; i < bytes; i++) {
		unsigned digit = (unsigned)(text[i] - '0');

		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*id = value;
	return true;
}
