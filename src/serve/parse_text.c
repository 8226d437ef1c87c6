/* parse_text.c: the commands of the text protocol, but for those that take any number of keys. */
#include "base/compiler.h"
#include "serve/parse.h"

static bool take_key(struct request *r, struct token t)
{
	r->key = t.data;
	r->key_bytes = t.bytes;
	return t.bytes <= REQUEST_KEY_BYTES_MAX;
}

static bool last_is_noreply(const struct line *l)
{
	return l->count <= PARSE_TOKENS_MAX && token_is(l->tokens[l->count - 1], "noreply");
}

/* set|add|replace|append|prepend key flags exptime bytes [noreply], cas: id before noreply */
static enum parse_result parse_store(struct parser *p, const struct line *l, struct request *r,
				     struct parse_step *step)
{
	uint32_t words = r->store == STORE_CAS ? 6 : 5;
	uint64_t value_bytes, skip = PARSE_NO_BLOCK;

	r->kind = REQUEST_STORE;
	r->quiet = last_is_noreply(l);
	r->number = 0;
	/* Whatever else is wrong, the block that comes is no command. */
	if (l->count >= 5 && token_u64(l->tokens[4], &value_bytes))
		skip = value_bytes;
	if (l->count < words || l->count > words + 1 || skip == PARSE_NO_BLOCK ||
	    !take_key(r, l->tokens[1]) || !token_u32(l->tokens[2], &r->flags) ||
	    !token_i64(l->tokens[3], &r->exptime) ||
	    (r->store == STORE_CAS && !token_u64(l->tokens[5], &r->number)))
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, skip);
	return parse_block(p, l, value_bytes, r, step);
}

/* incr|decr key delta [noreply] */
static enum parse_result parse_arithmetic(struct parser *p, const struct line *l, struct request *r)
{
	r->kind = REQUEST_ARITHMETIC;
	r->quiet = last_is_noreply(l);
	if (l->count < 3 || l->count > 4 || !take_key(r, l->tokens[1]))
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, PARSE_NO_BLOCK);
	if (!token_u64(l->tokens[2], &r->number))
		return parse_refuse(p, r, "CLIENT_ERROR invalid numeric delta argument", r->quiet,
				    PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

/* touch key exptime [noreply] */
static enum parse_result parse_touch(struct parser *p, const struct line *l, struct request *r)
{
	r->kind = REQUEST_TOUCH;
	r->quiet = last_is_noreply(l);
	if (l->count < 3 || l->count > 4 || !take_key(r, l->tokens[1]))
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, PARSE_NO_BLOCK);
	if (!token_i64(l->tokens[2], &r->exptime))
		return parse_refuse(p, r, "CLIENT_ERROR invalid exptime argument", r->quiet,
				    PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

/* delete key [0] [noreply]; the 0 is from a time when there was a delay */
static enum parse_result parse_delete(struct parser *p, const struct line *l, struct request *r)
{
	static const char usage[] =
	    "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";

	r->kind = REQUEST_DELETE;
	r->number = 0;
	r->quiet = l->count > 2 && last_is_noreply(l);
	if (l->count < 2 || l->count > 4 || !take_key(r, l->tokens[1]))
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, PARSE_NO_BLOCK);
	if (l->count - r->quiet > 2 && (l->count - r->quiet > 3 || !token_is(l->tokens[2], "0")))
		return parse_refuse(p, r, usage, r->quiet, PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

/* flush_all [delay] [noreply] */
static enum parse_result parse_flush(struct parser *p, const struct line *l, struct request *r)
{
	r->kind = REQUEST_FLUSH;
	r->quiet = last_is_noreply(l);
	r->exptime = 0;
	if (l->count - r->quiet > 2)
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, PARSE_NO_BLOCK);
	if (l->count - r->quiet == 2 && !token_i64(l->tokens[1], &r->exptime))
		return parse_refuse(p, r, "CLIENT_ERROR invalid exptime argument", r->quiet,
				    PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

/* verbosity level [noreply] */
static enum parse_result parse_verbosity(struct parser *p, const struct line *l, struct request *r)
{
	uint64_t level;

	r->kind = REQUEST_VERBOSITY;
	r->quiet = last_is_noreply(l);
	if (l->count > 3)
		return parse_refuse(p, r, "ERROR", r->quiet, PARSE_NO_BLOCK);
	if (l->count - r->quiet != 2 || !token_u64(l->tokens[1], &level))
		return parse_refuse(p, r, PARSE_BAD_LINE, r->quiet, PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

/*
 * Keys are not dumped by commands: what a memcached with -X says.  memcached-tool waits for END or
 * the end of the connection, whatever the line says, and END alone would be an empty cache.
 */
static bool is_metadump(const struct line *l)
{
	return token_is(l->tokens[0], "lru_crawler") && l->count > 1 &&
	       (token_is(l->tokens[1], "metadump") || token_is(l->tokens[1], "mgdump"));
}

/* stats [group] */
static enum parse_result parse_stats(struct parser *p, const struct line *l, struct request *r)
{
	r->kind = REQUEST_STATS;
	r->quiet = false;
	r->key_bytes = 0;
	if (l->count > 1 && token_is(l->tokens[1], "cachedump"))
		return parse_refuse(p, r, "CLIENT_ERROR stats cachedump not allowed", false,
				    PARSE_NO_BLOCK);
	if (l->count > 1 && !take_key(r, l->tokens[1]))
		return parse_refuse(p, r, PARSE_BAD_LINE, false, PARSE_NO_BLOCK);
	return PARSE_REQUEST;
}

static const char *const store_words[] = {
    [STORE_SET] = "set",       [STORE_ADD] = "add",	    [STORE_REPLACE] = "replace",
    [STORE_APPEND] = "append", [STORE_PREPEND] = "prepend", [STORE_CAS] = "cas",
};

enum parse_result parse_text(struct parser *p, const struct line *l, struct request *r,
			     struct parse_step *step)
{
	struct token command = l->tokens[0];
	enum parse_result result;

	r->quiet = false;
	for (unsigned i = 0; i < ARRAY_COUNT(store_words); i++) {
		if (token_is(command, store_words[i])) {
			r->store = (uint8_t)i;
			return parse_store(p, l, r, step);
		}
	}
	if (command.bytes == 2 && command.data[0] == 'm' && parse_meta(p, l, r, step, &result))
		return result;
	r->decrement = token_is(command, "decr");
	if (r->decrement || token_is(command, "incr"))
		return parse_arithmetic(p, l, r);
	if (token_is(command, "delete"))
		return parse_delete(p, l, r);
	if (token_is(command, "touch"))
		return parse_touch(p, l, r);
	if (token_is(command, "flush_all"))
		return parse_flush(p, l, r);
	if (token_is(command, "stats"))
		return parse_stats(p, l, r);
	if (token_is(command, "verbosity"))
		return parse_verbosity(p, l, r);
	if (token_is(command, "version")) {
		r->kind = REQUEST_VERSION;
		return PARSE_REQUEST;
	}
	if (token_is(command, "quit")) {
		r->kind = REQUEST_QUIT;
		return PARSE_REQUEST;
	}
	if (is_metadump(l))
		return parse_close(r, "ERROR metadump not allowed");
	/* Those which take keys come here only without any. */
	if (token_is(command, "get") || token_is(command, "gets") || token_is(command, "gat") ||
	    token_is(command, "gats"))
		return parse_refuse(p, r, PARSE_BAD_LINE, false, PARSE_NO_BLOCK);
	return parse_refuse(p, r, "ERROR", false, PARSE_NO_BLOCK);
}
