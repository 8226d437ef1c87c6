/*
 * client.h: a process's attachment to a pool, and one session per thread on it.
 *
 * This is what programs use: it opens the pool's name, joins the registry, and gives each thread
 * a connection, a lane and scratch.  A client is shared by its sessions; a session belongs to
 * one thread.  Close every session before its client.
 *
 * client/name.h says how a pool is named.
 */
#ifndef FORGE_CLIENT_CLIENT_H
#define FORGE_CLIENT_CLIENT_H

#include <stddef.h>

#include "cache/cache.h"
#include "fabric/count.h"

struct client;
struct session;

struct client_options {
	const char *policy;	   /* NULL: the pool's own */
	uint32_t session_count;	   /* sessions at once, at most CN_WORKERS_MAX; 0 means 1 */
	uint32_t poll_interval_us; /* 0: the default */
	uint32_t open_groups;	   /* filled at once for each ring; 0: by a session's share */
	uint8_t count_verbs;	   /* keep session_verbs(); costs a few ns per verb */
	uint64_t seed;
};

/*
 * Attach to a pool.  error_text names what is wrong and the remedy.
 * 0; what pool_open() says; FORGE_E_POOL_ABSENT; FORGE_E_FULL_REGISTRY; FORGE_E_INVAL for a
 * policy that does not exist or whose slots are not the pool's; FORGE_E_NO_MEMORY; FORGE_E_SYSTEM.
 */
int client_open(const char *pool_name, const struct client_options *, struct client **out,
		char *error_text, size_t error_bytes);

/* Leave the pool.  All sessions are closed. */
void client_close(struct client *);

/* The pool attached to; valid until close.  Any thread. */
const struct pool *client_pool(const struct client *);
const struct policy *client_policy(const struct client *);

/* This compute node's id, for reports. */
uint32_t client_cn(const struct client *);

/* Local memory of map, OFM and the like (without sessions), in bytes. */
uint64_t client_memory_bytes(const struct client *);

/*
 * A session for the calling thread.  0; FORGE_E_INVAL when session_count of them are open; or as
 * client_open().
 */
int session_open(struct client *, struct session **out, char *error_text, size_t error_bytes);

/* Seal what is open, give chunks back, close the connection. */
void session_close(struct session *);

/*
 * The flows; see cache.h for results.  A value is valid until the session's next call.
 * FORGE_E_FORKED in a child that fork() made: open a client of its own there.
 */
int session_get(struct session *, struct cache_key key, struct cache_value *out);
int session_set(struct session *, struct cache_key key, const struct cache_item *);
int session_delete(struct session *, struct cache_key key);
int session_store(struct session *, struct cache_key key, enum cache_store mode,
		  const struct cache_item *, uint64_t *cas_id);
int session_arithmetic(struct session *, struct cache_key key, const struct cache_arith *,
		       uint64_t *value, uint64_t *cas_id);
int session_touch(struct session *, struct cache_key key, uint64_t expiry_ms,
		  struct cache_value *out);
int session_delete_if(struct session *, struct cache_key key, uint64_t cas_id);
int session_flush(struct session *);
int session_change(struct session *, struct cache_key key, const struct cache_change *,
		   uint64_t *cas_id);

/*
 * Pool time in ms, and what to pass as expiry_ms so that a value lives for so long from now, or
 * until a unix time in ms by this host's wall clock, which is asked only here: a value whose time
 * is over already gets an expiry in the past.  A value is gone ttl_ms after the call, at most 1 ms
 * early, for every operation that starts then.  Never 0.  No verb.
 */
uint64_t session_now_ms(const struct session *);
uint64_t session_expiry_in(const struct session *, uint64_t ttl_ms);
uint64_t session_expiry_at(const struct session *, uint64_t unix_ms);

/*
 * Operations on these keys come next, in whatever order: bring what they will READ closer to the
 * processor, for all of them at once, so that their cache misses overlap.  A hint: no verb, and no
 * effect but on time.  Worth it from two keys on: pipelined Gets of 100 bytes from 100,000 keys
 * went from 1.36 to 1.05 us of a server's processor time, all included, in lines of 32 keys
 * from 1.00 to 0.76 (medians of 5, shared 2-core guest).
 */
void session_expect(struct session *, const struct cache_key *keys, unsigned n);

/*
 * What operations do on the side, for a session that has none: poll if it is due, and tell the pool
 * what was counted.  A server calls it once a second for each of its sessions.  Waits.
 * 0, FORGE_E_NODE or FORGE_E_FORKED.
 */
int session_tend(struct session *);

/*
 * For those who run the flows of cache.h themselves: the session's view of the cache, and further
 * ones on its connection and lane, one for each fiber of its thread that runs a flow beside
 * others.  A further view borrows the worker, which is filled in, and counts in the pool once
 * cache_count_in_pool() was called for it.  flows.h does all that.  Opening gives 0,
 * FORGE_E_NO_MEMORY or what fab_reg() says; closing waits, with the worker's wait.
 */
struct cache *session_cache(struct session *);
int session_cache_open(struct session *, struct worker *, struct cache *out);
MAY_WAIT void session_cache_close(struct session *, struct cache *);

/* Is this a child that fork() made of the process that opened it?  Then no flow may run. */
int client_is_forked(const struct client *);
int session_is_forked(const struct session *);

/* What this session did and which verbs it cost (zeroes unless count_verbs).  Borrowed. */
const struct cache_counters *session_counters(const struct session *);
const struct fab_counts *session_verbs(const struct session *);

/* The worker behind a session, for tools that run verbs of their own (stat, check). */
struct worker *session_worker(struct session *);

/* Add up counters; into may be zeroed. */
void cache_counters_merge(struct cache_counters *into, const struct cache_counters *from);

#endif
