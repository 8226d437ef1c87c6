/*
 * trace_csv.c: traces in text, a request a line.
 *
 * Lines end with LF or CR LF; empty lines and lines whose first character is # are skipped.
 * Fields may be quoted, a quote inside being doubled; a quoted field cannot contain a line
 * break.  With a blank as the delimiter, several of them count as one.
 *
 * Which column is what is said by csv_columns ("time,key,size,op", "-" for one to ignore), or
 * by the names in the header, or, lacking both, guessed from how many columns the first
 * line has: key; time,key; time,key,size; time,key,size,op.  What lies behind the last named
 * column is ignored.
 *
 *	time	a number; a fraction is dropped
 *	key	a decimal number below 2^64 without leading zeros stands for itself, anything
 *		else for a 64-bit hash of the text (XXH3), with the check described in trace.h
 *	size	a whole number of bytes
 *	op	a word of op_words below; SCSI's opcodes (28, 2a) count as words
 */
#include "load/trace_reader.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/status.h"

#define LINE_MAX_BYTES (TRACE_INPUT_PEEK_MAX - 1)
#define COLUMNS_MAX    64
#define TEXT_SHOWN     60 /* of a field in an error */

enum meaning {
	COLUMN_TIME,
	COLUMN_KEY,
	COLUMN_SIZE,
	COLUMN_OP,
	MEANINGS,
	COLUMN_IGNORED = MEANINGS,
};

struct trace_csv {
	char delimiter;
	bool has_header;
	bool columns_known;
	int column_of[MEANINGS]; /* -1: none */
	unsigned columns_needed;
	uint64_t line;	   /* the number of the line last taken */
	size_t line_bytes; /* of the line looked at, with its end */
	unsigned field_count;
	char *fields[COLUMNS_MAX];
	char text[LINE_MAX_BYTES + 1];
};

/* The names people give to the columns; those of csv_columns come first. */
static const struct {
	const char *name;
	enum meaning meaning;
} header_words[] = {
    {"time", COLUMN_TIME},	 {"key", COLUMN_KEY},	       {"size", COLUMN_SIZE},
    {"op", COLUMN_OP},		 {"timestamp", COLUMN_TIME},   {"ts", COLUMN_TIME},
    {"op_time", COLUMN_TIME},	 {"id", COLUMN_KEY},	       {"obj_id", COLUMN_KEY},
    {"object_id", COLUMN_KEY},	 {"objid", COLUMN_KEY},	       {"block_id", COLUMN_KEY},
    {"lbn", COLUMN_KEY},	 {"lba", COLUMN_KEY},	       {"cache_key", COLUMN_KEY},
    {"obj_size", COLUMN_SIZE},	 {"object_size", COLUMN_SIZE}, {"objsize", COLUMN_SIZE},
    {"value_size", COLUMN_SIZE}, {"bytes", COLUMN_SIZE},       {"op_name", COLUMN_OP},
    {"operation", COLUMN_OP},	 {"opcode", COLUMN_OP},
};

static const struct {
	const char *word;
	enum load_op_kind op;
} op_words[] = {
    {"get", LOAD_GET},	      {"gets", LOAD_GET},      {"read", LOAD_GET},
    {"r", LOAD_GET},	      {"get_lease", LOAD_GET}, {"28", LOAD_GET},
    {"88", LOAD_GET},	      {"set", LOAD_SET},       {"put", LOAD_SET},
    {"write", LOAD_SET},      {"w", LOAD_SET},	       {"set_lease", LOAD_SET},
    {"2a", LOAD_SET},	      {"8a", LOAD_SET},	       {"update", LOAD_UPDATE},
    {"replace", LOAD_UPDATE}, {"cas", LOAD_UPDATE},    {"insert", LOAD_INSERT},
    {"add", LOAD_INSERT},     {"rmw", LOAD_RMW},       {"incr", LOAD_RMW},
    {"decr", LOAD_RMW},	      {"append", LOAD_RMW},    {"prepend", LOAD_RMW},
    {"delete", LOAD_DELETE},  {"del", LOAD_DELETE},    {"remove", LOAD_DELETE},
};

bool trace_csv_has_sizes(const struct trace_csv *c)
{
	return c != NULL && c->column_of[COLUMN_SIZE] >= 0;
}

bool trace_csv_has_ops(const struct trace_csv *c)
{
	return c != NULL && c->column_of[COLUMN_OP] >= 0;
}

/*
 * Look at the next line: a copy in c->text without its end, its length with the end in
 * c->line_bytes.  TRACE_RECORD, TRACE_END or an error, which calls it line c->line + 1.
 */
static int line_look(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = t->csv;
	unsigned char *bytes;
	unsigned char *end = NULL;
	size_t count;
	size_t wanted = 1;
	size_t length;

	for (;;) {
		int status = trace_input_peek(t->input, wanted, &bytes, &count, error);

		if (status != 0)
			return status;
		end = memchr(bytes, '\n', count);
		if (end != NULL || count < wanted || count > LINE_MAX_BYTES)
			break;
		wanted = min_u64(count * 2, LINE_MAX_BYTES + 1);
	}
	if (count == 0)
		return TRACE_END;
	length = end == NULL ? count : (size_t)(end - bytes);
	if (length > LINE_MAX_BYTES)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: line %" PRIu64
				      " is longer than %u bytes; is it a text trace?",
				      t->path, c->line + 1, LINE_MAX_BYTES);
	if (memchr(bytes, '\0', length) != NULL)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: line %" PRIu64 " holds a NUL byte; if this is a binary "
				      "trace, give its format by name",
				      t->path, c->line + 1);
	c->line_bytes = length + (end != NULL);
	memcpy(c->text, bytes, length);
	if (length > 0 && c->text[length - 1] == '\r')
		length--;
	c->text[length] = '\0';
	/* Some editors put a byte-order mark first. */
	if (c->line == 0 && length >= 3 && memcmp(c->text, "\xef\xbb\xbf", 3) == 0)
		memmove(c->text, c->text + 3, length - 2);
	return TRACE_RECORD;
}

static void line_take(struct trace *t)
{
	trace_input_take(t->input, t->csv->line_bytes);
	t->csv->line++;
}

/* Go to the next line that is neither empty nor a comment, and look at it. */
static int content_look(struct trace *t, struct load_error *error)
{
	int result;

	while ((result = line_look(t, error)) == TRACE_RECORD) {
		const char *first = t->csv->text + strspn(t->csv->text, " \t");

		if (*first != '\0' && *first != '#')
			return TRACE_RECORD;
		line_take(t);
	}
	return result;
}

/* Undo a quoted field in place; at stands on its opening quote.  NULL when it is malformed. */
static char *unquote(struct trace_csv *c, char *at, const char **why)
{
	char *to = at;

	for (at++; *at != '\0'; at++) {
		if (*at == '"' && at[1] != '"') {
			at++;
			*why = "has characters behind a closing quote";
			if (*at != '\0' && *at != c->delimiter)
				return NULL;
			/* to < at here, so this does not overwrite the delimiter. */
			*to = '\0';
			return at;
		}
		if (*at == '"')
			at++;
		*to++ = *at;
	}
	*why = "has a quote that is not closed (a field cannot hold a line break)";
	return NULL;
}

static char *trim(char *field, char *end)
{
	while (end > field && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return field + strspn(field, " \t");
}

/* Split c->text in place. */
static int split(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = t->csv;
	char *at = c->text;
	const char *why;

	c->field_count = 0;
	for (;;) {
		char *field = at;
		char *end;

		if (c->delimiter == ' ') {
			field += strspn(field, " ");
			if (*field == '\0')
				return 0;
		}
		if (*field == '"') {
			end = unquote(c, field, &why);
			if (end == NULL)
				return load_error_set(error, FORGE_E_FORMAT,
						      "%s: line %" PRIu64 " %s; mend the line",
						      t->path, c->line + 1, why);
			at = *end == '\0' ? NULL : end + 1;
		} else {
			end = strchr(field, c->delimiter);
			if (end == NULL)
				end = field + strlen(field);
			at = *end == '\0' ? NULL : end + 1;
			field = trim(field, end);
		}
		c->fields[c->field_count++] = field;
		if (at == NULL || c->field_count == COLUMNS_MAX)
			return 0;
	}
}

static enum meaning word_meaning(const char *word)
{
	for (size_t i = 0; i < ARRAY_COUNT(header_words); i++) {
		if (strcasecmp(word, header_words[i].name) == 0)
			return header_words[i].meaning;
	}
	return COLUMN_IGNORED;
}

static void column_set(struct trace_csv *c, enum meaning meaning, unsigned column)
{
	c->column_of[meaning] = (int)column;
	if (column + 1 > c->columns_needed)
		c->columns_needed = column + 1;
}

/* csv_columns: its four words and "-", each word once, key among them. */
static int columns_parse(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = t->csv;
	const char *at = t->options.csv_columns;

	for (unsigned column = 0; column < COLUMNS_MAX; column++) {
		size_t n = strcspn(at, ",");
		enum meaning meaning = MEANINGS;

		for (unsigned i = 0; i < MEANINGS; i++) {
			if (strlen(header_words[i].name) == n &&
			    strncmp(header_words[i].name, at, n) == 0)
				meaning = header_words[i].meaning;
		}
		if (meaning == COLUMN_IGNORED ? n != 1 || *at != '-' : c->column_of[meaning] >= 0)
			return load_error_set(
			    error, FORGE_E_INVAL,
			    "csv columns '%s': '%.*s' is %s; write time, key, size, op, each "
			    "at most once, and - for a column to ignore",
			    t->options.csv_columns, (int)min_u64(n, TEXT_SHOWN), at,
			    meaning == COLUMN_IGNORED ? "not known" : "there twice");
		if (meaning != COLUMN_IGNORED)
			column_set(c, meaning, column);
		at += n;
		if (*at == '\0')
			break;
		at++;
	}
	if (c->column_of[COLUMN_KEY] < 0 || strchr(at, ',') != NULL)
		return load_error_set(error, FORGE_E_INVAL,
				      "csv columns '%s': must name the key, within %d columns",
				      t->options.csv_columns, COLUMNS_MAX);
	c->columns_known = true;
	return 0;
}

static bool number_like(const char *field)
{
	double number;

	return parse_double(field, &number) == 0;
}

/* Whether the line just split is a header: a known name, or a name where a number belongs. */
static bool is_header(const struct trace *t)
{
	const struct trace_csv *c = t->csv;

	if (t->options.csv_header != TRACE_HEADER_AUTO)
		return t->options.csv_header == TRACE_HEADER_YES;
	if (!c->columns_known) {
		for (unsigned i = 0; i < c->field_count; i++) {
			enum meaning meaning = word_meaning(c->fields[i]);

			if (meaning != COLUMN_IGNORED)
				return true;
		}
		return false;
	}
	for (unsigned m = 0; m < MEANINGS; m++) {
		int column = c->column_of[m];

		if (column < 0 || (unsigned)column >= c->field_count)
			continue;
		if (m == COLUMN_KEY || m == COLUMN_OP) {
			if (word_meaning(c->fields[column]) == (enum meaning)m)
				return true;
		} else if (!number_like(c->fields[column])) {
			return isalpha((unsigned char)c->fields[column][0]) != 0;
		}
	}
	return false;
}

static int columns_from_header(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = t->csv;

	for (unsigned i = 0; i < c->field_count; i++) {
		enum meaning meaning = word_meaning(c->fields[i]);

		/* The first of several that would do. */
		if (meaning != COLUMN_IGNORED && c->column_of[meaning] < 0)
			column_set(c, meaning, i);
	}
	if (c->column_of[COLUMN_KEY] < 0)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: no column of the header in line %" PRIu64
				      " is known to be the key; name the columns, as in "
				      "--columns time,-,key,size",
				      t->path, c->line + 1);
	return 0;
}

static void columns_guess(struct trace_csv *c)
{
	if (c->field_count == 1) {
		column_set(c, COLUMN_KEY, 0);
		return;
	}
	column_set(c, COLUMN_TIME, 0);
	column_set(c, COLUMN_KEY, 1);
	if (c->field_count >= 3)
		column_set(c, COLUMN_SIZE, 2);
	if (c->field_count >= 4)
		column_set(c, COLUMN_OP, 3);
}

/* At the beginning of the file: find the columns out, and pass the header. */
static int start(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = t->csv;
	int result = content_look(t, error);

	if (result != TRACE_RECORD)
		return result;
	result = split(t, error);
	if (result != 0)
		return result;
	c->has_header = is_header(t);
	if (!c->columns_known) {
		if (c->has_header)
			result = columns_from_header(t, error);
		else
			columns_guess(c);
		if (result != 0)
			return result;
		c->columns_known = true;
	}
	if (c->has_header)
		line_take(t);
	return 0;
}

static int open_csv(struct trace *t, struct load_error *error)
{
	struct trace_csv *c = calloc(1, sizeof(*c));
	int status;

	if (c == NULL)
		return load_error_set(error, FORGE_E_NO_MEMORY, "%s: out of memory", t->path);
	t->csv = c;
	c->delimiter = t->options.csv_delimiter == 0 ? ',' : t->options.csv_delimiter;
	for (unsigned i = 0; i < MEANINGS; i++)
		c->column_of[i] = -1;
	if (strchr("\"#\r\n.-+_", c->delimiter) != NULL || isalnum((unsigned char)c->delimiter))
		return load_error_set(
		    error, FORGE_E_INVAL,
		    "csv delimiter '%c': it may occur in a field; use one of , ; | "
		    "tab blank",
		    c->delimiter);
	if (t->options.csv_columns != NULL) {
		status = columns_parse(t, error);
		if (status != 0)
			return status;
	}
	return start(t, error);
}

static void close_csv(struct trace *t)
{
	free(t->csv);
	t->csv = NULL;
}

static int rewind_csv(struct trace *t, struct load_error *error)
{
	int result;

	t->csv->line = 0;
	if (!t->csv->has_header)
		return 0;
	/* What was a header is one again, whatever the columns are called by now. */
	result = content_look(t, error);
	if (result == TRACE_RECORD)
		line_take(t);
	return result < 0 ? result : 0;
}

static int bad_field(const struct trace *t, const char *what, const char *field, const char *remedy,
		     struct load_error *error)
{
	return load_error_set(error, FORGE_E_FORMAT, "%s: line %" PRIu64 ": %s '%.*s' %s", t->path,
			      t->csv->line + 1, what, TEXT_SHOWN, field, remedy);
}

/* A whole number, possibly with a fraction, which is dropped. */
static bool time_parse(char *field, uint64_t *out)
{
	char *point = strchr(field, '.');
	bool good;

	if (point != NULL) {
		if (point[1 + strspn(point + 1, "0123456789")] != '\0')
			return false;
		*point = '\0';
	}
	good = parse_u64(field, out) == 0;
	if (point != NULL)
		*point = '.';
	return good;
}

static void key_parse(const char *field, struct trace_record *record)
{
	size_t bytes = strlen(field);
	XXH128_hash_t hash;

	/* parse_u64() would also take hexadecimal; one text, one meaning. */
	if (strspn(field, "0123456789") == bytes && (field[0] != '0' || bytes == 1) &&
	    parse_u64(field, &record->id) == 0)
		return;
	hash = XXH3_128bits(field, bytes);
	record->id = hash.low64;
	record->check = (uint32_t)hash.high64 | 1; /* never 0, which stands for a number */
}

static bool op_parse(const char *field, enum load_op_kind *op)
{
	for (size_t i = 0; i < ARRAY_COUNT(op_words); i++) {
		if (strcasecmp(field, op_words[i].word) == 0) {
			*op = op_words[i].op;
			return true;
		}
	}
	/* Meta's block traces write getChunkData.Permanent, putChunk.NotInitialized and so on. */
	if (strncmp(field, "getChunk", 8) == 0)
		*op = LOAD_GET;
	else if (strncmp(field, "putChunk", 8) == 0)
		*op = LOAD_SET;
	else
		return false;
	return true;
}

static int next(struct trace *t, struct trace_record *record, struct load_error *error)
{
	struct trace_csv *c = t->csv;
	const int *column_of = c->column_of;
	int result = content_look(t, error);

	if (result != TRACE_RECORD)
		return result;
	result = split(t, error);
	if (result != 0)
		return result;
	if (c->field_count < c->columns_needed)
		return load_error_set(error, FORGE_E_FORMAT,
				      "%s: line %" PRIu64
				      " has %u of the %u columns; mend it, or name "
				      "the columns, as in --columns time,key",
				      t->path, c->line + 1, c->field_count, c->columns_needed);
	if (column_of[COLUMN_TIME] >= 0 &&
	    !time_parse(c->fields[column_of[COLUMN_TIME]], &record->time))
		return bad_field(t, "time", c->fields[column_of[COLUMN_TIME]],
				 "is no number; mend it, or name the columns (- ignores one)",
				 error);
	if (column_of[COLUMN_SIZE] >= 0 &&
	    parse_u64(c->fields[column_of[COLUMN_SIZE]], &record->size) != 0)
		return bad_field(t, "size", c->fields[column_of[COLUMN_SIZE]],
				 "is no whole number below 2^64; mend it, or name the columns (- "
				 "ignores one)",
				 error);
	if (column_of[COLUMN_OP] >= 0 && !op_parse(c->fields[column_of[COLUMN_OP]], &record->op))
		return bad_field(t, "operation", c->fields[column_of[COLUMN_OP]],
				 "is not known; write get, set, update, insert, rmw or delete, or "
				 "ignore the column with -",
				 error);
	if (c->fields[column_of[COLUMN_KEY]][0] == '\0')
		return bad_field(t, "key", "", "is empty; mend the line, or name the columns",
				 error);
	key_parse(c->fields[column_of[COLUMN_KEY]], record);
	line_take(t);
	return TRACE_RECORD;
}

const struct trace_reader trace_reader_csv = {
    .name = "csv",
    .extensions = ".csv",
    .open = open_csv,
    .close = close_csv,
    .rewind = rewind_csv,
    .next = next,
};
