/* text.c: numbers with units, wrapped sentences and aligned tables. */
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

#define CELL_BYTES_MAX 256
#define COLUMNS_MAX    64

/*
 * Three significant digits of value with the largest unit that keeps it at or above 1.  A value
 * that would round up to a whole next unit (999.7) moves on to that unit.
 */
static const char *scaled(struct text *t, double value, double step, const char *const *units,
			  unsigned unit_count)
{
	unsigned unit = 0;

	while (unit + 1 < unit_count && fabs(value) >= step - 0.5) {
		value /= step;
		unit++;
	}
	if (unit == 0 && value == floor(value))
		snprintf(t->s, sizeof(t->s), "%.0f%s", value, units[unit]);
	else if (fabs(value) < 9.995)
		snprintf(t->s, sizeof(t->s), "%.2f%s", value, units[unit]);
	else if (fabs(value) < 99.95)
		snprintf(t->s, sizeof(t->s), "%.1f%s", value, units[unit]);
	else
		snprintf(t->s, sizeof(t->s), "%.0f%s", value, units[unit]);
	return t->s;
}

const char *text_bytes(struct text *t, uint64_t bytes)
{
	static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};

	return scaled(t, (double)bytes, 1024, units, ARRAY_COUNT(units));
}

const char *text_count(struct text *t, double count)
{
	static const char *const units[] = {"", " k", " M", " G", " T"};

	return scaled(t, count, 1000, units, ARRAY_COUNT(units));
}

const char *text_rate(struct text *t, double per_second)
{
	static const char *const units[] = {"/s", " k/s", " M/s", " G/s", " T/s"};

	return scaled(t, per_second, 1000, units, ARRAY_COUNT(units));
}

const char *text_percent(struct text *t, double share)
{
	double percent = share * 100;
	int decimals = percent != 0 && fabs(percent) < 0.995 ? 2 : 1;

	snprintf(t->s, sizeof(t->s), "%.*f %%", decimals, percent);
	return t->s;
}

const char *text_duration(struct text *t, uint64_t ns)
{
	static const char *const units[] = {" ns", " us", " ms", " s"};

	return scaled(t, (double)ns, 1000, units, ARRAY_COUNT(units));
}

const char *text_grouped(struct text *t, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *to = t->s;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return t->s;
}

size_t text_list(char *text, size_t text_bytes, size_t used, const char *sentence, uint64_t n)
{
	if (n && used < text_bytes)
		used += (size_t)snprintf(text + used, text_bytes - used, "%s%s: %" PRIu64,
					 used ? "; " : "", sentence, n);
	return used;
}

void text_wrap(FILE *out, const char *sentence, unsigned indent, unsigned columns)
{
	unsigned at = indent;

	for (;;) {
		size_t len;

		sentence += strspn(sentence, " ");
		len = strcspn(sentence, " ");
		if (len == 0)
			break;
		if (at > indent && at + 1 + len > columns) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (at > indent) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)len, sentence);
		at += (unsigned)len;
		sentence += len;
	}
	fputc('\n', out);
}

/* A cell; a rule is a row of its own whose first cell has text NULL. */
struct text_table {
	char *align;
	unsigned columns;
	char **cells; /* rows of columns entries; a NULL first entry is a rule */
	size_t cell_count, cell_room;
	bool lost; /* an allocation failed */
};

struct text_table *text_table_open(const char *align)
{
	struct text_table *t = calloc(1, sizeof(*t));

	assert(*align && strlen(align) <= COLUMNS_MAX);
	if (!t)
		return NULL;
	t->align = strdup(align);
	t->columns = (unsigned)strlen(align);
	if (!t->align) {
		free(t);
		return NULL;
	}
	return t;
}

static bool table_append(struct text_table *t, char *cell)
{
	if (t->cell_count == t->cell_room) {
		size_t room = t->cell_room ? 2 * t->cell_room : 64;
		char **cells = realloc(t->cells, room * sizeof(*cells));

		if (!cells) {
			t->lost = true;
			return false;
		}
		t->cells = cells;
		t->cell_room = room;
	}
	t->cells[t->cell_count++] = cell;
	return true;
}

void text_table_cell(struct text_table *t, const char *format, ...)
{
	char s[CELL_BYTES_MAX];
	va_list args;
	char *cell;

	if (!t)
		return;
	va_start(args, format);
	vsnprintf(s, sizeof(s), format, args);
	va_end(args);
	cell = strdup(s);
	if (!cell) {
		t->lost = true;
		return;
	}
	if (!table_append(t, cell))
		free(cell);
}

void text_table_rule(struct text_table *t)
{
	if (!t)
		return;
	assert(t->lost || t->cell_count % t->columns == 0);
	for (unsigned i = 0; i < t->columns; i++)
		if (!table_append(t, NULL))
			return;
}

/* Columns on a terminal: UTF-8 continuation bytes take none. */
static unsigned width(const char *s)
{
	unsigned n = 0;

	for (; s && *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void measure_columns(const struct text_table *t, unsigned *widths)
{
	memset(widths, 0, t->columns * sizeof(*widths));
	for (size_t i = 0; i < t->cell_count; i++) {
		unsigned *w = &widths[i % t->columns];

		*w = (unsigned)max_u64(*w, width(t->cells[i]));
	}
}

static void print_rule(FILE *out, unsigned columns)
{
	for (unsigned i = 0; i < columns; i++)
		fputc('-', out);
}

static void print_cell(FILE *out, const char *s, char align, unsigned columns, bool last)
{
	int pad = (int)(columns - width(s));

	if (align == 'r')
		fprintf(out, "%*s%s", pad, "", s);
	else
		fprintf(out, "%s%*s", s, last ? 0 : pad, "");
}

int text_table_print(const struct text_table *t, FILE *out)
{
	unsigned widths[COLUMNS_MAX];

	if (!t || t->lost)
		return FORGE_E_NO_MEMORY;
	measure_columns(t, widths);
	for (size_t i = 0; i < t->cell_count; i++) {
		unsigned column = (unsigned)(i % t->columns);
		bool last = column + 1 == t->columns || i + 1 == t->cell_count;
		unsigned columns = widths[column];

		if (column > 0)
			fputs("  ", out);
		if (t->cells[i])
			print_cell(out, t->cells[i], t->align[column], columns, last);
		else
			print_rule(out, columns);
		if (last)
			fputc('\n', out);
	}
	return ferror(out) ? FORGE_E_SYSTEM : 0;
}

void text_table_close(struct text_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->cell_count; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->align);
	free(t);
}
