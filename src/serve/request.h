/*
 * request.h: one request of a memcached client, whatever protocol it came in.
 *
 * The parser (parse.h) fills it in and the executor (execute.h) carries it out; nobody else needs
 * it.  Everything it points to is in the connection's input, except a key that was sent in
 * base64, which is decoded into the request itself; so it is valid while both stay where they
 * are.  A field that the kind does not name is not written.
 */
#ifndef FORGE_SERVE_REQUEST_H
#define FORGE_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REQUEST_KEY_BYTES_MAX	 250u
#define REQUEST_OPAQUE_BYTES_MAX 32u

/* What each kind brings with it is named beside it; every kind has protocol and quiet. */
enum request_kind {
	REQUEST_GET,	    /* key, with_cas, first, last: one key of a get or gets */
	REQUEST_GAT,	    /* the same, exptime: one key of a gat or gats */
	REQUEST_KEYS_END,   /* the line of keys is over */
	REQUEST_STORE,	    /* key, value, store, flags, exptime, number: the cas id */
	REQUEST_ARITHMETIC, /* key, decrement, number: the delta */
	REQUEST_TOUCH,	    /* key, exptime */
	REQUEST_DELETE,	    /* key, number: the cas id, 0 any */
	REQUEST_FLUSH,	    /* exptime: the delay in seconds, or when */
	REQUEST_VERBOSITY,
	REQUEST_VERSION,
	REQUEST_STATS, /* key: the group, empty for the general ones */
	REQUEST_QUIT,
	REQUEST_META_GET,	 /* key, meta */
	REQUEST_META_SET,	 /* key, value, meta */
	REQUEST_META_DELETE,	 /* key, meta */
	REQUEST_META_ARITHMETIC, /* key, meta */
	REQUEST_META_DEBUG,	 /* key, meta */
	REQUEST_META_NOOP,
	REQUEST_TOO_LARGE, /* key, store: a value beyond the limit, which is being skipped */
	REQUEST_ERROR,	   /* error: the line to answer with; first: nothing of it was answered */
	REQUEST_CLOSE,	   /* the connection makes no sense any more; error, or NULL */
	REQUEST_BINARY,	   /* key, value, binary: what only the binary protocol can say */
};
#define REQUEST_KINDS (REQUEST_BINARY + 1)

enum request_protocol { PROTOCOL_UNKNOWN, PROTOCOL_TEXT, PROTOCOL_BINARY };

enum request_store { STORE_SET, STORE_ADD, STORE_REPLACE, STORE_APPEND, STORE_PREPEND, STORE_CAS };

/* The flags of a meta command: letters, in the order given, none twice. */
#define META_FLAGS_MAX 32u

struct request_meta {
	uint64_t given; /* META_BIT() of each letter */
	uint32_t count;
	char order[META_FLAGS_MAX];
	char mode;	       /* of M, in upper case, 0 without */
	uint32_t client_flags; /* F */
	int64_t ttl;	       /* T */
	int64_t vivify_ttl;    /* N */
	int64_t recache_ttl;   /* R */
	uint64_t cas;	       /* C */
	uint64_t new_cas;      /* E */
	uint64_t delta;	       /* D, 1 without */
	uint64_t initial;      /* J, 0 without */
	const char *opaque;    /* O */
	uint32_t opaque_bytes;
	/* The key as it was sent, for k. */
	const char *sent_key;
	uint32_t sent_key_bytes;
};

/* A bit for each letter. */
static inline uint64_t meta_bit(char letter)
{
	return UINT64_C(1) << (letter & 63);
}

static inline bool meta_has(const struct request_meta *m, char letter)
{
	return m->given & meta_bit(letter);
}

/* What a binary request's header says beside lengths, and its extras as numbers. */
struct request_binary {
	uint8_t opcode;
	uint8_t fault; /* a BINARY_ status to answer with, 0 none */
	uint32_t opaque;
	uint64_t cas;
	uint64_t initial; /* arithmetic */
};

struct request {
	enum request_kind kind;
	uint8_t protocol;
	bool quiet; /* noreply, or the meta flag q */
	bool with_cas, first, last;
	bool decrement;
	uint8_t store; /* enum request_store */
	uint32_t flags;
	uint32_t key_bytes;
	uint32_t value_bytes;
	const char *key;
	const char *value;
	int64_t exptime; /* as the client wrote it */
	uint64_t number;
	const char *error; /* without line feed; static */
	struct request_meta meta;
	struct request_binary binary;
	char key_room[REQUEST_KEY_BYTES_MAX];
};

/* Does the kind name a key, which is there unless key_bytes is 0? */
static inline bool request_names_key(const struct request *r)
{
	switch (r->kind) {
	case REQUEST_GET:
	case REQUEST_GAT:
	case REQUEST_STORE:
	case REQUEST_ARITHMETIC:
	case REQUEST_TOUCH:
	case REQUEST_DELETE:
	case REQUEST_STATS:
	case REQUEST_META_GET:
	case REQUEST_META_SET:
	case REQUEST_META_DELETE:
	case REQUEST_META_ARITHMETIC:
	case REQUEST_META_DEBUG:
	case REQUEST_TOO_LARGE:
	case REQUEST_BINARY:
		return true;
	default:
		return false;
	}
}

/* Will the session be asked for its key? */
bool request_looks_up_key(const struct request *);

/* How many bytes a request refers to, and a copy of it that refers to them in room. */
size_t request_room_bytes(const struct request *);
void request_copy(const struct request *from, char *room, struct request *to);

#endif
