/*
 * parse.h: bytes from a memcached client into requests, one at a time.
 *
 * Pure and incremental: no I/O, no allocation, no clock.  The caller collects bytes as they come,
 * asks for requests until there is none, and drops what was used.  How the bytes were split makes
 * no difference to the requests.  A line of keys gives one request per key, so that a line may be
 * of any length; unless it is very long, it is whole before its first key is given, and an error in
 * it comes first and alone.  Every other line is bounded, and so is a value: what is longer is
 * refused and skipped while it comes in, never stored.  The first byte decides between text and
 * binary.
 *
 * A parser belongs to one connection and one thread.
 */
#ifndef FORGE_SERVE_PARSE_H
#define FORGE_SERVE_PARSE_H

#include <stddef.h>

#include "serve/request.h"

/* Longest line that is no line of keys, as memcached's. */
#define PARSE_LINE_BYTES_MAX 2048u
/* Longest line of keys that is collected before it is answered. */
#define PARSE_KEYS_BYTES_MAX (64u << 10)
/* What a caller must be able to hold beside a value of the longest length permitted. */
#define PARSE_OVERHEAD_BYTES (PARSE_LINE_BYTES_MAX + 2u)

struct parser {
	uint32_t value_bytes_max;
	uint8_t protocol;
	uint8_t state;
	/* Within a line of keys. */
	uint8_t kind;
	bool with_cas, first;
	int64_t exptime;
	uint64_t skip_bytes; /* of a data block that was refused */
};

/* protocol: UNKNOWN, and the first byte decides, or the one to insist on. */
void parser_init(struct parser *, uint32_t value_bytes_max, enum request_protocol protocol);

enum parse_result {
	PARSE_MORE,    /* the request is not complete */
	PARSE_REQUEST, /* out is one; it refers to data */
};

/* What became of the bytes. */
struct parse_step {
	size_t used; /* to be dropped once the request has been carried out; also of PARSE_MORE */
	size_t need; /* PARSE_MORE: how many bytes there must be behind the used ones, at least */
};

/*
 * The next request from data, which goes on where the used bytes of the last call ended.
 * After REQUEST_CLOSE or REQUEST_QUIT the caller does not call again.
 */
enum parse_result parse_next(struct parser *, const char *data, size_t bytes, struct request *out,
			     struct parse_step *step);

/* ---- between the files of the parser ------------------------------------------------------ */

struct token {
	const char *data;
	uint32_t bytes;
};

/* Most words of a line that is no line of keys; the rest are counted, not kept. */
#define PARSE_TOKENS_MAX 40u

/* A line without its end, cut at spaces.  after: the bytes behind its line feed. */
struct line {
	struct token tokens[PARSE_TOKENS_MAX];
	uint32_t count; /* all of them, those beyond PARSE_TOKENS_MAX too */
	size_t bytes;	/* with the line feed */
	const char *after;
	size_t after_bytes;
};

bool token_is(struct token, const char *word);
/* Whole tokens: digits, with a sign if signed; false when it is no number or does not fit. */
bool token_u64(struct token, uint64_t *out);
bool token_u32(struct token, uint32_t *out);
bool token_i64(struct token, int64_t *out);

/* Answer with an error, and skip the data block of that many bytes if there is one. */
enum parse_result parse_refuse(struct parser *, struct request *, const char *error, bool quiet,
			       uint64_t skip_bytes);

/* Close the connection, with an error unless that is NULL. */
enum parse_result parse_close(struct request *, const char *error);

/* Skip that many bytes as they come. */
void parse_skip(struct parser *, uint64_t bytes);

/* A data block of that length follows the line.  Fills in value, or refuses. */
enum parse_result parse_block(struct parser *, const struct line *, uint64_t value_bytes,
			      struct request *, struct parse_step *);

#define PARSE_BAD_LINE "CLIENT_ERROR bad command line format"
/* No data block to be skipped. */
#define PARSE_NO_BLOCK UINT64_MAX

/* Any command but those whose keys follow on their line; the line has a word. */
enum parse_result parse_text(struct parser *, const struct line *, struct request *,
			     struct parse_step *);

/* A meta command; the line's first word has two letters, of which the first is an m. */
bool parse_meta(struct parser *, const struct line *, struct request *, struct parse_step *,
		enum parse_result *);

enum parse_result parse_binary(struct parser *, const char *data, size_t bytes, struct request *,
			       struct parse_step *);

/*
 * Decode base64 of at most room bytes.  How many bytes it gave, or -1 when it is not base64 as
 * RFC 4648 has it (padding included) or does not fit.
 */
int base64_decode(struct token, char *out, uint32_t room);

#endif
