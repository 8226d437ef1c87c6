/*
 * parse.h: numbers as people write them, checked.
 *
 * For options, environment and text traces; pure functions without state, any thread.  Each
 * reads a whole NUL-terminated string and returns 0 with *out written, FORGE_E_INVAL if the
 * string is not such a number, or FORGE_E_NO_SPACE if it is one that does not fit the type.
 * Signs, white space and trailing characters are refused.
 */
#ifndef FORGE_BASE_PARSE_H
#define FORGE_BASE_PARSE_H

#include <stdint.h>

/* Decimal, or hexadecimal after 0x. */
int parse_u64(const char *s, uint64_t *out);

/* As parse_u64(), or decimal with k, M or G behind it; powers of 1000, because things are counted.
 */
int parse_count(const char *s, uint64_t *out);

/*
 * Decimal, possibly with a fraction, and a suffix: none or B, K, M, G, T, each also as Ki or KiB
 * and in lower case; powers of 1024.  A fraction of a byte is dropped.
 */
int parse_bytes(const char *s, uint64_t *out);

/*
 * Decimal, possibly with a fraction, and a suffix: us, ms, s, m (minutes), h.  Only 0 needs none:
 * "10" is refused, because one reader takes it for seconds and the next for microseconds.
 */
int parse_duration_us(const char *s, uint64_t *out);

/* A finite decimal number, with a sign and an exponent if need be. */
int parse_double(const char *s, double *out);

#endif
