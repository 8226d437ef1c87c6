/*
 * client.h: a process's attachment to a cache, and one session per thread on it.
 *
 * This is what programs use: it reaches the memory nodes that are named, joins their registries,
 * and gives each thread connections, lanes and scratch.  A client is shared by its sessions; a
 * session belongs to one thread.  Close every session before its client.
 *
 * client/name.h says how a pool is named.  A cache on several memory nodes is named by all of them,
 * or, of before a change, by some of which one still belongs; doc/nodes.md has what happens when
 * one is lost.  A client with several, or with one that was lost, has a thread that reaches them
 * again, with every signal blocked.
 */
#ifndef FORGE_CLIENT_CLIENT_H
#define FORGE_CLIENT_CLIENT_H

#include <stddef.h>

#include "cache/cache.h"
#include "fabric/count.h"

struct client;
struct session;

struct pass_wish;

struct client_options {
	const char *policy;	   /* NULL: the pool's own */
	uint32_t session_count;	   /* sessions at once, at most CN_WORKERS_MAX; 0 means 1 */
	uint32_t poll_interval_us; /* 0: the default */
	uint32_t open_groups;	   /* filled at once for each ring; 0: by a session's share */
	uint32_t dead_percent;	   /* of the members may be dead, policy.h; 0: the policy's share */
	uint8_t count_verbs;	   /* keep session_verbs(); costs a few ns per verb */
	/*
	 * Also when the cache is on one node in this host's memory, look whether the pool's name
	 * still stands for it, by a thread; of several that is always done.  For who stays: without
	 * it the memory is used on when its name is gone, which who takes that away himself wants.
	 */
	uint8_t watch_name;
	uint64_t seed;
	/* What the pool's name does not say about access; borrowed until the client is closed. */
	const struct pass_wish *access;
	/*
	 * Tests alone: bits of enum rule, and what goes around each connection to a pool, called
	 * for several nodes behind sockets at once (reach.h).
	 */
	rule_set rules_off;
	int (*wrap)(void *context, uint64_t pool_id, struct fab *inner, struct fab **out);
	void *wrap_context;
};

/*
 * Attach to a pool.  error_text names what is wrong and the remedy.
 * 0; what pool_open() says; FORGE_E_POOL_ABSENT; FORGE_E_FULL_REGISTRY; FORGE_E_INVAL for a
 * policy that does not exist or whose slots are not the pool's; FORGE_E_SPREAD when what is named
 * is not all of one cache; FORGE_E_NODE when too few of several can be reached; FORGE_E_NO_MEMORY;
 * FORGE_E_SYSTEM.
 */
int client_open(const char *pool_name, const struct client_options *, struct client **out,
		char *error_text, size_t error_bytes);

/* Leave the pool.  All sessions are closed. */
void client_close(struct client *);

/*
 * The pool attached to; of several the one with the smallest limit for values.  Of the time when it
 * was opened; valid until close.  Any thread.
 */
const struct pool *client_pool(const struct client *);
const struct policy *client_policy(const struct client *);

/* This compute node's id in the first pool, for reports. */
uint32_t client_cn(const struct client *);

/* Local memory of map, OFM and the like (without sessions), in bytes, of all that are up. */
uint64_t client_memory_bytes(struct client *);

/*
 * The memory nodes it lies on, each called a member.  A member is known by a number that it has as
 * long as it is one; all are below the end, and those between that are none have nothing.  Members
 * come and go while the client runs (doc/nodes.md).  Any thread.
 */
uint32_t client_member_count(struct client *);
uint32_t client_member_end(struct client *);
int client_is_member(struct client *, uint32_t member);

/* Those of them that can be reached.  Any thread. */
uint32_t client_members_up(const struct client *);

struct client_member {
	const char *name; /* NULL: not reached yet */
	int is_up;
	struct pool pool;    /* while it is up */
	uint32_t partitions; /* of SPREAD_PARTITIONS; 0 when it is the only one */
};
void client_member(struct client *, uint32_t member, struct client_member *out);

/*
 * The name of a member, or of the one that key is on, also while that cannot be reached; valid as
 * long as the client.  NULL if it was given under another name than the cache knows it by.  Any
 * thread.
 */
const char *client_member_name(struct client *, uint32_t member);
const char *client_owner_name(struct client *, struct cache_key key);

/* How often a member was lost, and came back. */
void client_losses(const struct client *, uint64_t *losses, uint64_t *returns);

/*
 * A session for the calling thread.  0; FORGE_E_INVAL when session_count of them are open; or as
 * client_open().
 */
int session_open(struct client *, struct session **out, char *error_text, size_t error_bytes);

/*
 * Finish what goes on beside the operations (a chunk fetched before it is needed) and tell the pool
 * what was counted, for who will ask for nothing for long: what that holds is otherwise held as by
 * a thread that sleeps, and nobody else can end it.  Waits.  Nothing in a child of fork().
 */
void session_rest(struct session *);

/* Seal what is open, give chunks back, close the connection. */
void session_close(struct session *);

/*
 * The flows; see cache.h and view.h for results.  A value is valid until the session's next call.
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
 * Session time in ms (pool time, of the first of several), and what to pass as expiry_ms so that a
 * value lives for so long from now, or until a unix time in ms by this host's wall clock, which is
 * asked only here: a value whose time is over already gets an expiry in the past.  A value is gone
 * ttl_ms after the call, at most 1 ms early, for every operation that starts then.  Never 0.  No
 * verb.
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
 * What operations do on the side, for a session that has none: poll if it is due, and
 * session_rest().  A server calls it once a second for each of its sessions.  Waits.
 * 0, FORGE_E_NODE or FORGE_E_FORKED.
 */
int session_tend(struct session *);

/*
 * For those who do operations on fibers of the session's thread, or run flows of their own: the
 * session's view (view.h).  Further ones are opened by flows.h.
 */
struct view;
struct view *session_view(struct session *);
struct client *session_client(const struct session *);

/* Is this a child that fork() made of the process that opened it?  Then no flow may run. */
int client_is_forked(const struct client *);
int session_is_forked(const struct session *);

/* Does no verb of the session ever have to be waited for, so that fibers gain nothing? */
int session_completes_at_post(struct session *);

/*
 * What this session did, without further views, and which verbs it cost (zeroes unless
 * count_verbs). Borrowed; the counters until the next such call.
 */
const struct cache_counters *session_counters(struct session *);
const struct fab_counts *session_verbs(const struct session *);

/* The worker behind a session at the first member that is up, or NULL. */
struct worker *session_worker(struct session *);

/* Add up counters; into may be zeroed. */
void cache_counters_merge(struct cache_counters *into, const struct cache_counters *from);

#endif
