/*
 * execute.h: carries out requests on a session and writes the replies.
 *
 * An executor carries out one request at a time on a view of its thread's session, and writes the
 * replies to its out buffer in the order of the requests: one executor per worker thread, and
 * where requests wait for the fabric one per flow.  Everything about connections is the caller's.
 */
#ifndef FORGE_SERVE_EXECUTE_H
#define FORGE_SERVE_EXECUTE_H

#include "client/client.h"
#include "client/view.h"
#include "serve/auth.h"
#include "serve/out.h"
#include "serve/request.h"
#include "serve/counts.h"

/* Where a line of keys began in out, when it has been sent in part already. */
#define KEYS_ARE_SENT SIZE_MAX

struct executor {
	struct session *session; /* for the time */
	struct view *view;
	struct out *out;
	struct serve_counts *counts;
	uint32_t value_bytes_max;
	bool flush_permitted;
	struct auth *auth;	 /* NULL: everybody may do everything */
	bool is_authorised;	 /* the connection whose requests come next */
	size_t keys_start;	 /* where the replies to the line of keys under way begin in out */
	struct execute_got *got; /* of this key; NULL: every lookup is made */
	/* What needs the whole server; context is passed to each. */
	void *context;
	/* Flush everything in so many seconds, unless another flush comes first. */
	void (*flush_later)(void *context, uint64_t seconds);
	/*
	 * Write "STAT name value" lines of a group ("" for the general one), or for binary the
	 * same as responses, with stat_write().  false: there is no such group.
	 */
	bool (*stats)(void *context, struct executor *, const struct request *);
};

/*
 * What a lookup has found, for the next request of the same key: valid until the view, which has
 * the value, is used again.  Whoever changes the key makes it invalid.
 */
struct execute_got {
	bool is_valid;
	int status; /* 0 or FORGE_MISS */
	struct cache_value value;
};

enum execute_result {
	EXECUTE_ON,
	EXECUTE_CLOSE, /* send the replies and close the connection */
};

/* out has room for OUT_REPLY_BYTES_MAX.  Waits. */
MAY_WAIT enum execute_result execute(struct executor *, const struct request *);

/* A statistic, in the protocol of the request. */
void stat_write(struct executor *, const struct request *, const char *name, const char *value);

/* ---- between the files of the executor ---------------------------------------------------- */

/* An exptime that lies in the past. */
#define EXPIRY_PAST_MS UINT64_C(1)

/*
 * A client's exptime as pool time: 0 never, negative at once, up to 30 days from now on, beyond
 * that a Unix time.  Relative ones follow the pool's clock, absolute ones the wall clock at the
 * time of the request.
 */
uint64_t execute_expiry_ms(const struct executor *, int64_t exptime);

/* As view_get(), but for what has just been got. */
MAY_WAIT int execute_get(struct executor *, struct cache_key, struct cache_value *);

/* Is it a lookup by execute_get(), whatever else it does? */
bool execute_is_get(const struct request *);

/* The general ways to store; what the session's own modes do not say. */
struct store_want {
	uint8_t mode; /* enum request_store, but not CAS */
	bool has_cas;
	bool stale_if_changed; /* with has_cas: store it, marked stale, when the id is another */
	bool vivify;	       /* append and prepend store it when there is nothing */
	uint64_t cas;
	uint64_t new_cas; /* the id it gets; 0 one of its own */
	struct cache_item item;
};

/*
 * As view_change() and view_store(), but who was too slow for others tries again, longer than the
 * cache does: memcached has no such answer, and where verbs take long, its clients would see it.
 */
MAY_WAIT int execute_change(struct executor *, struct cache_key, const struct cache_change *,
			    uint64_t *cas_id);
MAY_WAIT int execute_cache_store(struct executor *, struct cache_key, enum cache_store,
				 const struct cache_item *, uint64_t *cas_id);

/* As execute_cache_store(), and *cas_id is always given. */
MAY_WAIT int execute_store(struct executor *, struct cache_key, const struct store_want *,
			   uint64_t *cas_id);

struct arithmetic_want {
	uint64_t delta;
	bool decrement, create, has_cas, has_expiry;
	uint64_t initial, cas;
	uint64_t expiry_ms;	   /* with has_expiry: of a number that was there */
	uint64_t create_expiry_ms; /* of one that was not */
	uint64_t new_cas;
};

struct arithmetic_result {
	uint64_t number, cas_id, expiry_ms;
};

/* 0, FORGE_MISS, FORGE_EXISTS, FORGE_E_NOT_NUMBER, or as cache_change(). */
MAY_WAIT int execute_arithmetic(struct executor *, struct cache_key, const struct arithmetic_want *,
				struct arithmetic_result *);

/* The value that was to replace this one could not be stored: the old one must not be read on. */
MAY_WAIT void execute_forget(struct executor *, struct cache_key);

/*
 * Carry out a flush order that is permitted, now or when its delay is over; a delay that names a
 * time in the past means now.  0, or as cache_flush().
 */
MAY_WAIT int execute_flush_order(struct executor *, const struct request *);

/* Count a store by what came of it. */
void execute_count_store(struct executor *, int status, bool is_cas);
/* Count and give the line that a client gets for an error. */
const char *execute_error_line(struct executor *, int status);

/* A binary request of who has not proved who he is; and the SASL commands of who has. */
enum execute_result execute_binary_stranger(struct executor *, const struct request *);

MAY_WAIT void execute_meta(struct executor *, const struct request *);
void execute_binary_stat(struct executor *, const struct request *, const char *name,
			 const char *value);
MAY_WAIT enum execute_result execute_binary(struct executor *, const struct request *);
bool execute_binary_is_get(const struct request *);

/* What marks say; the time is that of the last store or of a meta get that looked at it. */
#define MARK_STALE     1u
#define MARK_WIN_SENT  2u
#define MARK_FETCHED   4u
#define MARK_TIME_BITS 29u

static inline uint32_t marks_of_now(uint64_t pool_ms)
{
	return (uint32_t)(pool_ms / 1000) << (32 - MARK_TIME_BITS);
}

/* Seconds since the time in marks, which wraps after 17 years. */
static inline uint32_t marks_age_s(uint32_t marks, uint64_t pool_ms)
{
	return (marks_of_now(pool_ms) - (marks & ~7u)) >> (32 - MARK_TIME_BITS);
}

static inline struct cache_key request_key(const struct request *r)
{
	return (struct cache_key){.data = r->key, .bytes = r->key_bytes};
}

#endif
