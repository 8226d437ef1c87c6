/* parse.c: integers, sizes, durations and decimals out of strings. */
#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/status.h"

#define FRACTION_DIGITS_MAX 9

struct suffix {
	const char *name;
	uint64_t factor;
};

static int parse_hex(const char *s, uint64_t *out)
{
	uint64_t v = 0;

	if (!*s)
		return FORGE_E_INVAL;
	for (const char *p = s; *p; p++)
		if (!isxdigit((unsigned char)*p))
			return FORGE_E_INVAL;
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (v >> 60)
			return FORGE_E_NO_SPACE;
		v = v << 4 | (uint64_t)(isdigit(c) ? c - '0' : tolower(c) - 'a' + 10);
	}
	*out = v;
	return 0;
}

/* Read digits at *s and move on behind them; at least one. */
static int take_decimal(const char **s, uint64_t *out)
{
	uint64_t v = 0;
	int status = 0;

	if (!isdigit((unsigned char)**s))
		return FORGE_E_INVAL;
	for (; isdigit((unsigned char)**s); (*s)++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(**s - '0'), &v))
			status = FORGE_E_NO_SPACE;
	*out = v;
	return status;
}

int parse_u64(const char *s, uint64_t *out)
{
	uint64_t v;
	int status;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		return parse_hex(s + 2, out);
	status = take_decimal(&s, &v);
	if (status == FORGE_E_INVAL || *s)
		return FORGE_E_INVAL;
	if (status == 0)
		*out = v;
	return status;
}

static int find_suffix(const char *s, const struct suffix *table, unsigned n, uint64_t *factor)
{
	for (unsigned i = 0; i < n; i++) {
		if (strcasecmp(s, table[i].name) == 0) {
			*factor = table[i].factor;
			return 0;
		}
	}
	return FORGE_E_INVAL;
}

/* A decimal with at most FRACTION_DIGITS_MAX digits of fraction, times the factor of its suffix. */
static int parse_scaled(const char *s, const struct suffix *table, unsigned n, uint64_t *out)
{
	uint64_t whole, fraction = 0, scale = 1, factor;
	unsigned __int128 v;
	int status;

	status = take_decimal(&s, &whole);
	if (status == FORGE_E_INVAL)
		return status;
	if (*s == '.') {
		const char *from = ++s;

		if (take_decimal(&s, &fraction) || s - from > FRACTION_DIGITS_MAX)
			return FORGE_E_INVAL;
		for (; from < s; from++)
			scale *= 10;
	}
	if (find_suffix(s, table, n, &factor))
		return FORGE_E_INVAL;
	v = (unsigned __int128)whole * factor + (unsigned __int128)fraction * factor / scale;
	if (status || v > UINT64_MAX)
		return FORGE_E_NO_SPACE;
	*out = (uint64_t)v;
	return 0;
}

int parse_count(const char *s, uint64_t *out)
{
	static const struct suffix table[] = {{"k", 1000}, {"m", 1000000}, {"g", 1000000000}};
	int status = parse_u64(s, out);

	return status == FORGE_E_INVAL ? parse_scaled(s, table, ARRAY_COUNT(table), out) : status;
}

int parse_bytes(const char *s, uint64_t *out)
{
	static const struct suffix table[] = {
	    {"", 1},
	    {"b", 1},
	    {"k", UINT64_C(1) << 10},
	    {"ki", UINT64_C(1) << 10},
	    {"kib", UINT64_C(1) << 10},
	    {"m", UINT64_C(1) << 20},
	    {"mi", UINT64_C(1) << 20},
	    {"mib", UINT64_C(1) << 20},
	    {"g", UINT64_C(1) << 30},
	    {"gi", UINT64_C(1) << 30},
	    {"gib", UINT64_C(1) << 30},
	    {"t", UINT64_C(1) << 40},
	    {"ti", UINT64_C(1) << 40},
	    {"tib", UINT64_C(1) << 40},
	};

	return parse_scaled(s, table, ARRAY_COUNT(table), out);
}

int parse_duration_us(const char *s, uint64_t *out)
{
	static const struct suffix table[] = {
	    {"us", 1},		 {"ms", 1000},		{"s", 1000000},
	    {"m", 60 * 1000000}, {"min", 60 * 1000000}, {"h", 3600000000},
	};

	if (strcmp(s, "0") == 0) {
		*out = 0;
		return 0;
	}
	return parse_scaled(s, table, ARRAY_COUNT(table), out);
}

int parse_double(const char *s, double *out)
{
	char *end;
	double v;

	/* strtod also takes white space, hexadecimal, "inf" and "nan". */
	if (!*s || s[strspn(s, "0123456789+-.eE")])
		return FORGE_E_INVAL;
	v = strtod(s, &end);
	if (*end || end == s)
		return FORGE_E_INVAL;
	if (!isfinite(v))
		return FORGE_E_NO_SPACE;
	*out = v;
	return 0;
}
