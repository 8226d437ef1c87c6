/*
 * text.h: numbers and tables for people.
 *
 * For the programs and their reports; nothing on the data path needs it.  The formatters write
 * into a caller's struct text and return its characters, so that several fit one printf; they
 * keep no state and any thread may call them.  A text_table belongs to one thread.
 */
#ifndef FORGE_BASE_TEXT_H
#define FORGE_BASE_TEXT_H

#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

struct text {
	char s[48];
};

/* "0 B", "640 B", "1.5 KiB", "128 MiB": three significant digits, powers of 1024. */
const char *text_bytes(struct text *t, uint64_t bytes);

/* "999", "1.23 k", "45.6 M": three significant digits, powers of 1000. */
const char *text_count(struct text *t, double count);

/* text_count with "/s". */
const char *text_rate(struct text *t, double per_second);

/* "12.3 %" of a share in [0, 1]; two decimals below 1 %. */
const char *text_percent(struct text *t, double share);

/* "850 ns", "1.23 us", "45.6 ms", "12.0 s". */
const char *text_duration(struct text *t, uint64_t ns);

/* "1,234,567" */
const char *text_grouped(struct text *t, uint64_t n);

/*
 * Append "sentence: n" to a list in text, of which used characters are written, behind "; " unless
 * it is the first; nothing when n is 0.  Cut where text is full.  The characters used then.
 */
size_t text_list(char *text, size_t text_bytes, size_t used, const char *sentence, uint64_t n);

/*
 * Print a sentence from column indent (where the cursor stands) on, broken at spaces so that no
 * line passes column columns; continuation lines are indented, and a line feed ends it.
 */
void text_wrap(FILE *out, const char *sentence, unsigned indent, unsigned columns);

/*
 * A table of aligned columns.  align has a letter per column, 'l' or 'r', at most 64.  Cells are
 *added row by row, left to right; a row is complete with its last column.
 *
 *	struct text_table *t = text_table_open("lr");
 *	text_table_cell(t, "policy");
 *	text_table_cell(t, "hit ratio");
 *	text_table_rule(t);
 *	...
 *	text_table_print(t, stdout);
 *	text_table_close(t);
 */
struct text_table;

/* NULL when out of memory, and then the functions below do nothing.  Close it. */
struct text_table *text_table_open(const char *align);

void text_table_cell(struct text_table *t, const char *format, ...) PRINTF_LIKE(2, 3);

/* A line of dashes after the rows so far.  The row before it is complete. */
void text_table_rule(struct text_table *t);

/* 0, or FORGE_E_NO_MEMORY if a cell was lost, or FORGE_E_SYSTEM if out refused to be written. */
int text_table_print(const struct text_table *t, FILE *out);

void text_table_close(struct text_table *t);

#endif
