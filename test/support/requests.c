/* requests.c: feeding a parser as a connection does, and printing what it gives. */
#include "requests.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "serve/binary.h"
#include "serve/parse.h"

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "%s\n", what);
	abort();
}

static const char *const names[] = {
    [REQUEST_GET] = "get",
    [REQUEST_GAT] = "gat",
    [REQUEST_KEYS_END] = "end",
    [REQUEST_STORE] = "store",
    [REQUEST_ARITHMETIC] = "arithmetic",
    [REQUEST_TOUCH] = "touch",
    [REQUEST_DELETE] = "delete",
    [REQUEST_FLUSH] = "flush",
    [REQUEST_VERBOSITY] = "verbosity",
    [REQUEST_VERSION] = "version",
    [REQUEST_STATS] = "stats",
    [REQUEST_QUIT] = "quit",
    [REQUEST_META_GET] = "mg",
    [REQUEST_META_SET] = "ms",
    [REQUEST_META_DELETE] = "md",
    [REQUEST_META_ARITHMETIC] = "ma",
    [REQUEST_META_DEBUG] = "me",
    [REQUEST_META_NOOP] = "mn",
    [REQUEST_TOO_LARGE] = "too-large",
    [REQUEST_ERROR] = "error",
    [REQUEST_CLOSE] = "close",
    [REQUEST_BINARY] = "binary",
};

static void print_bytes(FILE *f, const char *name, const char *data, uint32_t bytes)
{
	fprintf(f, " %s=", name);
	for (uint32_t i = 0; i < bytes; i++) {
		unsigned char c = (unsigned char)data[i];

		if (c > ' ' && c < 127 && c != '\\')
			fputc(c, f);
		else
			fprintf(f, "\\%02x", c);
	}
}

static void print_meta(FILE *f, const struct request_meta *m)
{
	require(m->count <= META_FLAGS_MAX, "too many flags");
	fprintf(f, " flags=%.*s", (int)m->count, m->order);
	if (meta_has(m, 'M'))
		fprintf(f, " M=%c", m->mode);
	if (meta_has(m, 'F'))
		fprintf(f, " F=%" PRIu32, m->client_flags);
	if (meta_has(m, 'T'))
		fprintf(f, " T=%" PRId64, m->ttl);
	if (meta_has(m, 'N'))
		fprintf(f, " N=%" PRId64, m->vivify_ttl);
	if (meta_has(m, 'R'))
		fprintf(f, " R=%" PRId64, m->recache_ttl);
	if (meta_has(m, 'C'))
		fprintf(f, " C=%" PRIu64, m->cas);
	if (meta_has(m, 'D'))
		fprintf(f, " D=%" PRIu64, m->delta);
	if (meta_has(m, 'J'))
		fprintf(f, " J=%" PRIu64, m->initial);
	if (meta_has(m, 'O'))
		print_bytes(f, "O", m->opaque, m->opaque_bytes);
	if (meta_has(m, 'b'))
		print_bytes(f, "sent", m->sent_key, m->sent_key_bytes);
}

static void print_key(FILE *f, const struct request *r)
{
	require(r->key_bytes <= REQUEST_KEY_BYTES_MAX, "a key beyond the limit");
	print_bytes(f, "key", r->key, r->key_bytes);
}

static void print_value(FILE *f, const struct request *r)
{
	require(r->value_bytes <= REQUESTS_VALUE_BYTES_MAX, "a value beyond the limit");
	print_bytes(f, "value", r->value, r->value_bytes);
}

static void print_binary(FILE *f, const struct request *r)
{
	const struct request_binary *b = &r->binary;

	fprintf(f, " opcode=%02x opaque=%" PRIu32 " cas=%" PRIu64, b->opcode, b->opaque, b->cas);
	if (b->fault) {
		fprintf(f, " fault=%02x", b->fault);
		return;
	}
	fprintf(f, " exptime=%" PRId64, r->exptime);
	switch (b->opcode) {
	case BINARY_SET:
	case BINARY_ADD:
	case BINARY_REPLACE:
		fprintf(f, " flags=%" PRIu32, r->flags);
		break;
	case BINARY_INCREMENT:
	case BINARY_DECREMENT:
		fprintf(f, " delta=%" PRIu64 " initial=%" PRIu64, r->number, b->initial);
		break;
	default:
		break;
	}
	if (r->key_bytes)
		print_key(f, r);
	if (r->value_bytes)
		print_value(f, r);
}

static void print(FILE *f, const struct request *r)
{
	require((unsigned)r->kind < REQUEST_KINDS, "a kind that does not exist");
	fprintf(f, "%s%s", names[r->kind], r->quiet ? " quiet" : "");
	switch (r->kind) {
	case REQUEST_GAT:
		fprintf(f, " exptime=%" PRId64, r->exptime);
		/* fall through */
	case REQUEST_GET:
		fprintf(f, "%s%s%s", r->with_cas ? " cas" : "", r->first ? " first" : "",
			r->last ? " last" : "");
		require(r->key_bytes > 0, "an empty key");
		print_key(f, r);
		break;
	case REQUEST_STORE:
		fprintf(f, " %u flags=%" PRIu32 " exptime=%" PRId64 " number=%" PRIu64, r->store,
			r->flags, r->exptime, r->number);
		print_key(f, r);
		print_value(f, r);
		break;
	case REQUEST_ARITHMETIC:
		fprintf(f, "%s number=%" PRIu64, r->decrement ? " decrement" : "", r->number);
		print_key(f, r);
		break;
	case REQUEST_TOUCH:
		fprintf(f, " exptime=%" PRId64, r->exptime);
		print_key(f, r);
		break;
	case REQUEST_DELETE:
		print_key(f, r);
		break;
	case REQUEST_FLUSH:
		fprintf(f, " exptime=%" PRId64, r->exptime);
		break;
	case REQUEST_STATS:
		print_bytes(f, "group", r->key, r->key_bytes);
		break;
	case REQUEST_META_SET:
		print_value(f, r);
		/* fall through */
	case REQUEST_META_GET:
	case REQUEST_META_DELETE:
	case REQUEST_META_ARITHMETIC:
	case REQUEST_META_DEBUG:
		require(r->key_bytes > 0, "an empty key");
		print_key(f, r);
		print_meta(f, &r->meta);
		break;
	case REQUEST_TOO_LARGE:
		fprintf(f, " %u", r->store);
		print_key(f, r);
		break;
	case REQUEST_ERROR:
		fprintf(f, "%s: %s", r->first ? "" : " later", r->error);
		break;
	case REQUEST_CLOSE:
		fprintf(f, ": %s", r->error ? r->error : "");
		break;
	case REQUEST_BINARY:
		print_binary(f, r);
		break;
	default:
		break;
	}
	fputc('\n', f);
}

/* A connection: what has come and not been used. */
struct feed {
	struct parser parser;
	const char *data; /* the part not used */
	size_t there, wanted;
	FILE *out;
};

/* All requests that are complete.  false: the connection is at its end. */
static bool take(struct feed *f)
{
	while (true) {
		struct parse_step step;
		struct request r;
		char *copy = malloc(f->there + 1), *own = copy + 1;

		/* Nothing readable behind it, and nothing aligned before it. */
		require(copy != NULL, "no memory");
		memcpy(own, f->data, f->there);
		enum parse_result result = parse_next(&f->parser, own, f->there, &r, &step);

		require(step.used <= f->there, "more used than there was");
		require(result == PARSE_MORE || f->there >= f->wanted, "needed less than it said");
		if (result == PARSE_REQUEST)
			print(f->out, &r);
		free(copy);
		f->data += step.used;
		f->there -= step.used;
		f->wanted = result == PARSE_MORE ? step.need : 0;
		require(f->wanted <= max_u64(PARSE_OVERHEAD_BYTES + REQUESTS_VALUE_BYTES_MAX,
					     PARSE_KEYS_BYTES_MAX),
			"more needed than a connection holds");
		require(result == PARSE_REQUEST || f->there < f->wanted, "needs what is there");
		if (result == PARSE_MORE)
			return true;
		if (r.kind == REQUEST_CLOSE || r.kind == REQUEST_QUIT)
			return false;
	}
}

char *requests_of(const char *data, size_t bytes, requests_split_fn split, void *context)
{
	struct feed f = {.data = data};
	char *text = NULL;
	size_t text_bytes;

	parser_init(&f.parser, REQUESTS_VALUE_BYTES_MAX, PROTOCOL_UNKNOWN);
	f.out = open_memstream(&text, &text_bytes);
	require(f.out != NULL, "no memory");
	while (bytes > 0) {
		size_t part = split ? split(context, bytes) : bytes;

		f.there += part;
		bytes -= part;
		if (!take(&f))
			break;
	}
	fclose(f.out);
	return text;
}
