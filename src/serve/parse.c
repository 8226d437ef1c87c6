/* parse.c: states of the parser, words, refusals, and lines of keys. */
#include "serve/parse.h"

#include <string.h>

#include "base/compiler.h"

enum parser_state {
	STATE_START, /* of a request */
	STATE_KEYS,  /* inside a line of keys */
	STATE_SKIP,  /* inside a data block that was refused */
	STATE_LINE,  /* inside a line that was refused */
};

void parser_init(struct parser *p, uint32_t value_bytes_max, enum request_protocol protocol)
{
	*p = (struct parser){.value_bytes_max = value_bytes_max, .protocol = (uint8_t)protocol};
}

/* ---- words -------------------------------------------------------------------------------- */

bool token_is(struct token t, const char *word)
{
	return strlen(word) == t.bytes && memcmp(t.data, word, t.bytes) == 0;
}

bool token_u64(struct token t, uint64_t *out)
{
	uint64_t n = 0;

	if (t.bytes == 0)
		return false;
	for (uint32_t i = 0; i < t.bytes; i++) {
		unsigned digit = (unsigned char)t.data[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, digit, &n))
			return false;
	}
	*out = n;
	return true;
}

bool token_u32(struct token t, uint32_t *out)
{
	uint64_t n;

	if (!token_u64(t, &n) || n > UINT32_MAX)
		return false;
	*out = (uint32_t)n;
	return true;
}

bool token_i64(struct token t, int64_t *out)
{
	bool negative = t.bytes > 0 && t.data[0] == '-';
	struct token digits = {t.data + negative, t.bytes - negative};
	uint64_t n;

	if (!token_u64(digits, &n) || n > INT64_MAX)
		return false;
	*out = negative ? -(int64_t)n : (int64_t)n;
	return true;
}

/* Cut a line of `bytes` bytes, without its end, at spaces. */
static void cut(struct line *l, const char *data, size_t bytes)
{
	const char *at = data, *end = data + bytes;

	l->count = 0;
	while (at < end) {
		const char *space = memchr(at, ' ', (size_t)(end - at));
		const char *stop = space ? space : end;

		if (stop > at) {
			if (l->count < PARSE_TOKENS_MAX)
				l->tokens[l->count] = (struct token){at, (uint32_t)(stop - at)};
			l->count++;
		}
		at = stop + 1;
	}
}

/* ---- refusals ----------------------------------------------------------------------------- */

void parse_skip(struct parser *p, uint64_t bytes)
{
	p->state = bytes ? STATE_SKIP : STATE_START;
	p->skip_bytes = bytes;
}

/* A data block of a text command has a line end behind it. */
static void skip_text_block(struct parser *p, uint64_t bytes)
{
	parse_skip(p, bytes > UINT64_MAX - 2 ? bytes : bytes + 2);
}

enum parse_result parse_refuse(struct parser *p, struct request *r, const char *error, bool quiet,
			       uint64_t skip_bytes)
{
	r->kind = REQUEST_ERROR;
	r->quiet = quiet;
	r->first = true;
	r->error = error;
	if (skip_bytes != PARSE_NO_BLOCK)
		skip_text_block(p, skip_bytes);
	return PARSE_REQUEST;
}

enum parse_result parse_close(struct request *r, const char *error)
{
	r->kind = REQUEST_CLOSE;
	r->quiet = false;
	r->error = error;
	return PARSE_REQUEST;
}

/* Refuse what has gone so far of a line, and skip the rest of it. */
static enum parse_result refuse_rest_of_line(struct parser *p, struct request *r, const char *error)
{
	p->state = STATE_LINE;
	r->kind = REQUEST_ERROR;
	r->quiet = false;
	r->first = p->first;
	r->error = error;
	return PARSE_REQUEST;
}

static enum parse_result more(struct parse_step *step, size_t need)
{
	step->need = need;
	return PARSE_MORE;
}

enum parse_result parse_block(struct parser *p, const struct line *l, uint64_t value_bytes,
			      struct request *r, struct parse_step *step)
{
	step->used = l->bytes;
	if (value_bytes > p->value_bytes_max) {
		r->kind = REQUEST_TOO_LARGE;
		skip_text_block(p, value_bytes);
		return PARSE_REQUEST;
	}
	if (l->after_bytes < value_bytes + 2) {
		step->used = 0;
		return more(step, l->bytes + value_bytes + 2);
	}
	step->used += value_bytes + 2;
	if (l->after[value_bytes] != '\r' || l->after[value_bytes + 1] != '\n')
		return parse_refuse(p, r, "CLIENT_ERROR bad data chunk", r->quiet, PARSE_NO_BLOCK);
	r->value = l->after;
	r->value_bytes = (uint32_t)value_bytes;
	return PARSE_REQUEST;
}

/* ---- lines of keys ------------------------------------------------------------------------ */

/* Where the first space or line feed stands in data from `from` on; bytes when there is none. */
static size_t find_word_end(const char *data, size_t from, size_t bytes)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;

	/* Eight at once: a byte that is zero borrows, and only bytes behind it can seem to be zero.
	 */
	for (; bytes - from >= 8; from += 8) {
		uint64_t word;

		memcpy(&word, data + from, 8);
		uint64_t space = word ^ ones * ' ', feed = word ^ ones * '\n';
		uint64_t hit = (((space - ones) & ~space) | ((feed - ones) & ~feed)) & highs;

		if (hit)
			return from + (unsigned)__builtin_ctzll(hit) / 8;
	}
	while (from < bytes && data[from] != ' ' && data[from] != '\n')
		from++;
	return from;
}

/* The key at *at if it is complete; *bytes 0 when there is none before the end of the line. */
enum key_found { KEY_PARTIAL, KEY_WHOLE, KEY_LONG };

static enum key_found find_key(const char *data, size_t bytes, size_t *at, uint32_t *key_bytes,
			       bool *line_ends)
{
	size_t start = *at, end;

	while (start < bytes && data[start] == ' ')
		start++;
	*at = start;
	/* The last byte may be the return of the line end. */
	size_t limit = min_u64(bytes, start + REQUEST_KEY_BYTES_MAX + 2);

	end = find_word_end(data, start, limit);
	if (end == limit)
		return limit - start > REQUEST_KEY_BYTES_MAX + 1 ? KEY_LONG : KEY_PARTIAL;
	*line_ends = data[end] == '\n';
	*key_bytes = (uint32_t)(end - start);
	if (*line_ends && *key_bytes > 0 && data[end - 1] == '\r')
		--*key_bytes;
	return *key_bytes > REQUEST_KEY_BYTES_MAX ? KEY_LONG : KEY_WHOLE;
}

/* The next key of the line; data goes on behind the command or the key before. */
static enum parse_result parse_key(struct parser *p, const char *data, size_t bytes,
				   struct request *r, struct parse_step *step)
{
	size_t at = 0;
	uint32_t key_bytes = 0;
	bool line_ends = false;

	switch (find_key(data, bytes, &at, &key_bytes, &line_ends)) {
	case KEY_PARTIAL:
		step->used = at; /* the spaces before it */
		return more(step, bytes - at + 1);
	case KEY_LONG:
		step->used = at;
		return refuse_rest_of_line(p, r, PARSE_BAD_LINE);
	case KEY_WHOLE:
		break;
	}
	step->used = at + key_bytes;
	if (line_ends) {
		step->used = (size_t)((const char *)memchr(data + step->used, '\n', 2) - data) + 1;
		p->state = STATE_START;
	}
	if (key_bytes == 0 && p->first)
		return parse_refuse(p, r, PARSE_BAD_LINE, false, PARSE_NO_BLOCK);
	r->quiet = false;
	if (key_bytes == 0) {
		r->kind = REQUEST_KEYS_END;
		return PARSE_REQUEST;
	}
	r->kind = (enum request_kind)p->kind;
	r->key = data + at;
	r->key_bytes = key_bytes;
	r->with_cas = p->with_cas;
	r->exptime = p->exptime;
	r->first = p->first;
	r->last = line_ends;
	p->first = false;
	return PARSE_REQUEST;
}

/* Is one of the keys too long in what is left of a line, without its end? */
static bool has_long_key(const char *data, size_t bytes)
{
	const size_t window = REQUEST_KEY_BYTES_MAX + 1;

	/* A key, or the spaces before one, begins at data. */
	while (bytes >= window) {
		const char *space = memrchr(data, ' ', window);

		if (!space)
			return true;
		bytes -= (size_t)(space + 1 - data);
		data = space + 1;
	}
	return false;
}

/*
 * A command that takes keys, its space or line feed included in command_bytes; for gat the
 * exptime comes before the keys.  A line is looked at as a whole before its first key is answered,
 * because an error replaces all of the reply; only one that is longer than PARSE_KEYS_BYTES_MAX is
 * answered while it comes in.
 */
static enum parse_result parse_keys(struct parser *p, const char *data, size_t bytes,
				    size_t command_bytes, struct request *r,
				    struct parse_step *step)
{
	const char *feed = memchr(data, '\n', min_u64(bytes, PARSE_KEYS_BYTES_MAX));
	size_t at = command_bytes;
	uint32_t word_bytes;
	bool line_ends;

	if (!feed && bytes < PARSE_KEYS_BYTES_MAX)
		return more(step, bytes + 1);
	p->kind = data[1] == 'a' ? REQUEST_GAT : REQUEST_GET;
	p->with_cas = data[command_bytes - 2] == 's';
	p->first = true;
	p->exptime = 0;
	if (p->kind == REQUEST_GAT) {
		enum key_found found = find_key(data, bytes, &at, &word_bytes, &line_ends);

		if (found == KEY_PARTIAL)
			return at > PARSE_LINE_BYTES_MAX ? refuse_rest_of_line(p, r, PARSE_BAD_LINE)
							 : more(step, bytes + 1);
		step->used = at;
		if (found == KEY_WHOLE && word_bytes == 0)
			return refuse_rest_of_line(p, r, PARSE_BAD_LINE);
		struct token word = {data + at, word_bytes};

		if (found == KEY_LONG || !token_i64(word, &p->exptime))
			return refuse_rest_of_line(p, r, "CLIENT_ERROR invalid exptime argument");
		at += word_bytes;
	}
	if (feed && has_long_key(data + at, (size_t)(feed - data) - at - (feed[-1] == '\r'))) {
		step->used = at;
		return refuse_rest_of_line(p, r, PARSE_BAD_LINE);
	}
	p->state = STATE_KEYS;
	enum parse_result result = parse_key(p, data + at, bytes - at, r, step);

	step->used += at;
	return result;
}

/* How long is the command that takes keys, with the space behind it?  0: it is another one. */
static size_t keys_command(const char *data, size_t bytes)
{
	if (bytes < 4 || data[0] != 'g' || data[2] != 't' || (data[1] != 'e' && data[1] != 'a'))
		return 0;
	if (data[3] == ' ')
		return 4;
	return bytes >= 5 && data[3] == 's' && data[4] == ' ' ? 5 : 0;
}

/* ---- other lines -------------------------------------------------------------------------- */

/* Somebody who takes us for a web server would read our errors as if they were a page. */
static bool is_http(const char *data, size_t bytes)
{
	return (bytes >= 5 && memcmp(data, "GET /", 5) == 0) ||
	       (bytes >= 6 && memcmp(data, "POST /", 6) == 0);
}

static enum parse_result parse_line(struct parser *p, const char *data, size_t bytes,
				    struct request *r, struct parse_step *step)
{
	const char *feed = memchr(data, '\n', min_u64(bytes, PARSE_LINE_BYTES_MAX));
	struct line l;

	if (!feed) {
		if (bytes < PARSE_LINE_BYTES_MAX)
			return more(step, bytes + 1);
		step->used = bytes;
		return parse_close(r, "CLIENT_ERROR line too long");
	}
	size_t text_bytes = (size_t)(feed - data);

	l.bytes = text_bytes + 1;
	l.after = feed + 1;
	l.after_bytes = bytes - l.bytes;
	step->used = l.bytes;
	if (is_http(data, text_bytes))
		return parse_close(r, NULL);
	if (text_bytes > 0 && data[text_bytes - 1] == '\r')
		text_bytes--;
	cut(&l, data, text_bytes);
	if (l.count == 0)
		return parse_refuse(p, r, PARSE_BAD_LINE, false, PARSE_NO_BLOCK);
	return parse_text(p, &l, r, step);
}

/* ---- states ------------------------------------------------------------------------------- */

/* Drop what has come of a refused block.  Is it over? */
static bool skip_block(struct parser *p, size_t bytes, struct parse_step *step)
{
	step->used = min_u64(bytes, p->skip_bytes);
	p->skip_bytes -= step->used;
	step->need = 1;
	return p->skip_bytes == 0;
}

static bool skip_line(const char *data, size_t bytes, struct parse_step *step)
{
	const char *feed = memchr(data, '\n', bytes);

	step->used = feed ? (size_t)(feed - data) + 1 : bytes;
	step->need = 1;
	return feed;
}

static enum parse_result parse_command(struct parser *p, const char *data, size_t bytes,
				       struct request *r, struct parse_step *step)
{
	size_t command_bytes = keys_command(data, bytes);

	if (command_bytes)
		return parse_keys(p, data, bytes, command_bytes, r, step);
	return parse_line(p, data, bytes, r, step);
}

/* A line that begins with spaces: they are dropped as they come, of whatever command. */
static enum parse_result parse_indented(struct parser *p, const char *data, size_t bytes,
					struct request *r, struct parse_step *step)
{
	enum parse_result result;
	size_t spaces = 0;

	while (spaces < bytes && data[spaces] == ' ')
		spaces++;
	result = spaces < bytes ? parse_command(p, data + spaces, bytes - spaces, r, step)
				: more(step, 1);
	step->used += spaces;
	return result;
}

static enum parse_result parse_start(struct parser *p, const char *data, size_t bytes,
				     struct request *r, struct parse_step *step)
{
	if (bytes == 0)
		return more(step, 1);
	if (unlikely(p->protocol == PROTOCOL_UNKNOWN))
		p->protocol = (unsigned char)data[0] == 0x80 ? PROTOCOL_BINARY : PROTOCOL_TEXT;
	r->protocol = p->protocol;
	if (p->protocol == PROTOCOL_BINARY)
		return parse_binary(p, data, bytes, r, step);
	if (unlikely(data[0] == ' '))
		return parse_indented(p, data, bytes, r, step);
	return parse_command(p, data, bytes, r, step);
}

enum parse_result parse_next(struct parser *p, const char *data, size_t bytes, struct request *r,
			     struct parse_step *step)
{
	size_t skipped = 0;
	enum parse_result result;

	*step = (struct parse_step){0};
	if (unlikely(p->state == STATE_SKIP || p->state == STATE_LINE)) {
		bool over = p->state == STATE_SKIP ? skip_block(p, bytes, step)
						   : skip_line(data, bytes, step);

		if (!over)
			return PARSE_MORE;
		p->state = STATE_START;
		skipped = step->used;
		*step = (struct parse_step){0};
	}
	data += skipped;
	bytes -= skipped;
	r->protocol = p->protocol;
	result = p->state == STATE_KEYS ? parse_key(p, data, bytes, r, step)
					: parse_start(p, data, bytes, r, step);
	step->used += skipped;
	return result;
}
