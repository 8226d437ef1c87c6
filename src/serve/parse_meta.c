/* parse_meta.c: the meta commands mg, ms, md, ma, mn and me, their flags and base64 keys. */
#include <string.h>

#include "base/compiler.h"
#include "serve/parse.h"

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct token t, char *out, uint32_t room)
{
	uint32_t padding = 0, bits = 0, n = 0;

	if (t.bytes == 0 || t.bytes % 4 != 0)
		return -1;
	while (padding < 2 && t.data[t.bytes - 1 - padding] == '=')
		padding++;
	for (uint32_t i = 0; i < t.bytes - padding; i++) {
		int six = sextet(t.data[i]);

		if (six < 0)
			return -1;
		bits = bits << 6 | (uint32_t)six;
		if (i % 4 == 0)
			continue;
		if (n == room)
			return -1;
		/* Of the 6 (i % 4 + 1) bits of this quartet, those that make another byte. */
		out[n++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	/* What is left over of the last digit must be zero, or two texts would be one key. */
	uint32_t left = padding == 2 ? 4 : padding == 1 ? 2 : 0;

	return bits & ((1u << left) - 1) ? -1 : (int)n;
}

#define BAD_TOKEN "CLIENT_ERROR bad token in command line format"

/*
 * Flags of any command: one that another command understands is ignored, as memcached does.  P and
 * L are for proxies; doc/serve.md says what h and l mean here.
 */
static const char flags_known[] = "bcCDEfFhIJklLMNOPqRstTuvx";

/* NULL, or what is wrong with the flag. */
static const char *take_flag(struct request *r, struct token flag)
{
	struct request_meta *m = &r->meta;
	struct token value = {flag.data + 1, flag.bytes - 1};

	switch (flag.data[0]) {
	case 'T':
		return token_i64(value, &m->ttl) ? NULL : BAD_TOKEN;
	case 'N':
		return token_i64(value, &m->vivify_ttl) ? NULL : BAD_TOKEN;
	case 'R':
		return token_i64(value, &m->recache_ttl) ? NULL : BAD_TOKEN;
	case 'C':
		return token_u64(value, &m->cas) ? NULL : BAD_TOKEN;
	case 'E':
		return token_u64(value, &m->new_cas) ? NULL : BAD_TOKEN;
	case 'F':
		return token_u32(value, &m->client_flags) ? NULL : PARSE_BAD_LINE;
	case 'D':
		return token_u64(value, &m->delta) ? NULL
						   : "CLIENT_ERROR invalid numeric delta value";
	case 'J':
		return token_u64(value, &m->initial) ? NULL
						     : "CLIENT_ERROR invalid numeric initial value";
	case 'M':
		if (value.bytes != 1)
			return "CLIENT_ERROR incorrect length for M token";
		m->mode = value.data[0];
		return NULL;
	case 'O':
		if (value.bytes > REQUEST_OPAQUE_BYTES_MAX)
			return "CLIENT_ERROR opaque token too long";
		m->opaque = value.data;
		m->opaque_bytes = value.bytes;
		return NULL;
	case 'q':
		r->quiet = true;
		return NULL;
	default:
		return NULL;
	}
}

/* The flags from word `from` on.  NULL, or what is wrong; the rest is then not looked at. */
static const char *take_flags(struct request *r, const struct line *l, uint32_t from)
{
	struct request_meta *m = &r->meta;

	if (l->count > PARSE_TOKENS_MAX || l->count - min_u64(from, l->count) > META_FLAGS_MAX)
		return "CLIENT_ERROR options flags are too long";
	for (uint32_t i = from; i < l->count; i++) {
		char letter = l->tokens[i].data[0];
		const char *error;

		if (letter < 'A' || letter > 'z' || !strchr(flags_known, letter))
			return "CLIENT_ERROR invalid flag";
		if (meta_has(m, letter))
			return "CLIENT_ERROR duplicate flag";
		m->given |= meta_bit(letter);
		m->order[m->count++] = letter;
		error = take_flag(r, l->tokens[i]);
		if (error)
			return error;
	}
	return NULL;
}

/* After the flags, which say how the key is to be read. */
static const char *take_meta_key(struct request *r, struct token sent)
{
	r->meta.sent_key = r->key = sent.data;
	r->meta.sent_key_bytes = r->key_bytes = sent.bytes;
	if (meta_has(&r->meta, 'b')) {
		int bytes = base64_decode(sent, r->key_room, sizeof(r->key_room));

		if (bytes <= 0)
			return "CLIENT_ERROR error decoding key";
		r->key = r->key_room;
		r->key_bytes = (uint32_t)bytes;
	}
	return NULL;
}

static const char *take_arguments(struct request *r, const struct line *l, uint32_t flags_from)
{
	const char *error = NULL;

	r->meta = (struct request_meta){.delta = 1};
	r->quiet = false;
	if (l->count < 2 || l->tokens[1].bytes > REQUEST_KEY_BYTES_MAX)
		return PARSE_BAD_LINE;
	error = take_flags(r, l, flags_from);
	return error ? error : take_meta_key(r, l->tokens[1]);
}

/* The letters of M, however they are written, as one. */
static bool take_mode(struct request *r, const char *letters, const char *meanings)
{
	const char *found;

	if (!meta_has(&r->meta, 'M')) {
		r->meta.mode = meanings[0];
		return true;
	}
	found = strchr(letters, r->meta.mode);
	if (!found || !*found)
		return false;
	r->meta.mode = meanings[found - letters];
	return true;
}

/* ms key bytes flags* */
static enum parse_result parse_meta_set(struct parser *p, const struct line *l, struct request *r,
					struct parse_step *step)
{
	uint64_t value_bytes = 0, skip = PARSE_NO_BLOCK;
	const char *error;

	r->kind = REQUEST_META_SET;
	r->store = STORE_SET;
	if (l->count > 2 && token_u64(l->tokens[2], &value_bytes))
		skip = value_bytes;
	error = take_arguments(r, l, 3);
	if (skip == PARSE_NO_BLOCK)
		error = PARSE_BAD_LINE;
	if (!error && !take_mode(r, "SEAPRseapr", "SEAPRSEAPR"))
		error = "CLIENT_ERROR invalid mode for ms M token";
	if (error)
		return parse_refuse(p, r, error, false, skip);
	/* A value that does not fit takes an old one with it only where it would have replaced it.
	 */
	r->store = r->meta.mode == 'S' ? STORE_SET : STORE_REPLACE;
	bool quiet = r->quiet;

	r->quiet = false; /* q hides no error */
	enum parse_result result = parse_block(p, l, value_bytes, r, step);

	r->quiet = quiet && r->kind == REQUEST_META_SET;
	return result;
}

static enum parse_result parse_meta_arithmetic(struct parser *p, const struct line *l,
					       struct request *r)
{
	const char *error = take_arguments(r, l, 2);

	r->kind = REQUEST_META_ARITHMETIC;
	if (!error && !take_mode(r, "Ii+Dd-", "IIIDDD"))
		error = "CLIENT_ERROR invalid mode for ma M token";
	return error ? parse_refuse(p, r, error, false, PARSE_NO_BLOCK) : PARSE_REQUEST;
}

bool parse_meta(struct parser *p, const struct line *l, struct request *r, struct parse_step *step,
		enum parse_result *result)
{
	const char *error = NULL;

	switch (l->tokens[0].data[1]) {
	case 'g':
		r->kind = REQUEST_META_GET;
		error = take_arguments(r, l, 2);
		break;
	case 's':
		*result = parse_meta_set(p, l, r, step);
		return true;
	case 'd':
		r->kind = REQUEST_META_DELETE;
		error = take_arguments(r, l, 2);
		break;
	case 'a':
		*result = parse_meta_arithmetic(p, l, r);
		return true;
	case 'e':
		r->kind = REQUEST_META_DEBUG;
		error = take_arguments(r, l, 2);
		break;
	case 'n':
		r->kind = REQUEST_META_NOOP;
		break;
	default:
		return false;
	}
	*result = error ? parse_refuse(p, r, error, false, PARSE_NO_BLOCK) : PARSE_REQUEST;
	return true;
}
