/*
 * forge.h: FORGE, a cache in the memory of other machines, for C programs.
 *
 *	struct forge_client *client;
 *	struct forge_session *session;
 *	struct forge_value value;
 *
 *	if (forge_open("shm:/forge", NULL, &client) || forge_session_open(client, &session))
 *		errx(1, "%s", forge_detail());
 *	forge_set(session, forge_text("sky"), &(struct forge_item){.value = forge_text("blue")});
 *	if (forge_get(session, forge_text("sky"), &value) == FORGE_OK)
 *		printf("%.*s\n", (int)value.bytes, (const char *)value.data);
 *	forge_session_close(session);
 *	forge_close(client);
 *
 * What holds for every call, unless it says otherwise:
 *
 *   result    0 is success; a positive value is an outcome, such as FORGE_MISS; a negative one is
 *             an error, and forge_detail() then says what was wrong and what to do.  Outputs are
 *             written on success only.
 *   memory    What you pass is borrowed until the call returns.  A value you get lies in the
 *             session's memory and is yours to read until the session's next call.
 *   threads   A client is shared by all threads.  A session belongs to the thread that opened it;
 *             any number of sessions work at once, without locks.
 *   waits     A call that takes a session waits for the memory node, on the CPU, for as many round
 *             trips as it needs.  No call sleeps, changes a signal or makes a system call on its
 *             way to the data.  A thread of the client's own, with every signal blocked, reaches
 *             memory nodes again that were lost; it is there once one was, and from the start
 *             where a cache lies on several, or in this host's memory: then it sleeps until the
 *             system tells that the pool's name may not stand for it any more (inotify).
 *   fork()    A child shares nothing: calls on what its parent opened give FORGE_E_FORKED there,
 *             and it may open a client of its own.
 *
 * Manual: forge(3), forge_get(3), forge_set(3), forge_submit(3), forge_scan(3).
 */
#ifndef FORGE_FORGE_H
#define FORGE_FORGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FORGE_VERSION_MAJOR 0
#define FORGE_VERSION_MINOR 1
#define FORGE_VERSION_PATCH 0

/* ---- results ------------------------------------------------------------------------------ */

#ifndef FORGE_STATUS_DEFINED /* FORGE's own sources have it from the table it is made of */
#define FORGE_STATUS_DEFINED
enum forge_status {
	FORGE_OK = 0,

	/* Outcomes. */
	FORGE_MISS = 1,	      /* the key is not in the cache */
	FORGE_NOT_STORED = 2, /* forge_add(): the key is there */
	FORGE_EXISTS = 3,     /* forge_cas(), forge_delete_if(): changed since you looked */

	/* The call: nothing is wrong with the session.  Mend the argument, or try again. */
	FORGE_E_INVAL = -1,
	FORGE_E_KEY_EMPTY = -2,
	FORGE_E_KEY_LONG = -3,
	FORGE_E_VALUE_LARGE = -4,
	FORGE_E_BUFFER_SMALL = -5,
	FORGE_E_AGAIN = -6, /* too many others changed the key at the same time */
	FORGE_E_NO_SPACE = -7,
	FORGE_E_NO_MEMORY = -8,
	FORGE_E_SYSTEM = -9,
	FORGE_E_FORMAT = -10,
	FORGE_E_TRUNCATED = -11,
	FORGE_E_NOT_NUMBER = -12, /* forge_incr(), forge_decr(): the value is not a number */
	FORGE_E_DEADLINE = -13,	  /* the time was up; nothing happened */

	/* The session or client: close it and open another, but for the first. */
	FORGE_E_NODE = -20, /* it is being reached again */
	FORGE_E_BOUNDS = -21,
	FORGE_E_FULL_REGISTRY = -22,
	FORGE_E_FORKED = -23,
	FORGE_E_DENIED = -24,
	FORGE_E_SPREAD = -25, /* memory nodes are being changed for long, or others */

	/* The pool: it must be mended or replaced. */
	FORGE_E_NOT_A_POOL = -40,
	FORGE_E_LAYOUT = -41,
	FORGE_E_CORRUPT = -42,
	FORGE_E_POOL_TRUNCATED = -43,
	FORGE_E_POOL_SPACE = -44,
	FORGE_E_POOL_EXISTS = -45,
	FORGE_E_POOL_ABSENT = -46,
};
#endif

/* "FORGE_E_NODE", and "the memory node is gone".  Never NULL; static memory; any thread. */
const char *forge_status_name(int status);
const char *forge_status_text(int status);

/*
 * What the last call of this thread that failed has to say: one sentence that names the thing
 * and the remedy.  Valid until the thread's next call that fails; never NULL.
 */
const char *forge_detail(void);

/* Of the library that runs, e.g. "0.1.0". */
const char *forge_version(void);

/* ---- clients and sessions ----------------------------------------------------------------- */

struct forge_client;  /* this process in a pool */
struct forge_session; /* one thread's way into it */

struct forge_options {		/* zero means the default */
	unsigned sessions_max;	/* sessions open at once; 1.  Each has its share of open chunks */
	unsigned in_flight_max; /* operations of a session under way at once; 32 */
	uint64_t timeout_us;	/* of every operation; none.  See forge_session_timeout() */
	const char *policy;	/* the pool's */
	const char *key_file;	/* a key for nodes behind sockets; of the environment */
	const char *ca_file;	/* who vouches for nodes behind tls://; the system's authorities */
	/* Members that may be dead before groups are compacted for it, in %; the policy's share */
	unsigned dead_percent;
};

/*
 * Attach to a pool: "shm:/name", or the path of a file, where "?latency=2us" behind it makes it as
 * slow as a network, for tests; or "tcp://host:port", "tls://host:port" or "unix:/path" of a node
 * that listens, where "?timeout=200ms" says how long it may be silent; a cache on several memory
 * nodes by all of them, with commas between; of a list of before a change of the nodes one that
 * still belongs is enough.  options may be NULL.  Makes system calls; may take half a second while
 * others leave.  Any thread. 0, or an error of any kind.
 */
int forge_open(const char *pool, const struct forge_options *options, struct forge_client **client);

/*
 * Leave the pool.  NULL is permitted.  Any thread, once.
 * 0, or FORGE_E_INVAL while sessions are open: then nothing is closed.
 */
int forge_close(struct forge_client *client);

/* 0; FORGE_E_INVAL when sessions_max are open; FORGE_E_FORKED; FORGE_E_NO_MEMORY. */
int forge_session_open(struct forge_client *client, struct forge_session **session);

/*
 * Finish what is in flight, give back what the session holds of the pool, and free it.  Operations
 * submitted and not yet polled are finished, too, and never reported.  NULL is permitted.
 */
void forge_session_close(struct forge_session *session);

/*
 * From now on an operation of the session that has not taken effect after so many microseconds
 * gives up with FORGE_E_DEADLINE, and nothing happened; 0: it never does.  The time is looked at
 * when an operation begins and whenever it has to look at the key again, so it may last a few round
 * trips, or the eviction of a few groups, longer.
 */
int forge_session_timeout(struct forge_session *session, uint64_t timeout_us);

struct forge_limits {
	size_t key_bytes;
	size_t value_bytes; /* of any key */
};

/* What the pool accepts.  Any thread. */
int forge_get_limits(const struct forge_client *client, struct forge_limits *limits);

/* ---- keys, values, time ------------------------------------------------------------------- */

struct forge_bytes {
	const void *data;
	size_t bytes;
};

static inline struct forge_bytes forge_text(const char *text)
{
	struct forge_bytes b = {text, strlen(text)};
	return b;
}

static inline struct forge_bytes forge_bytes(const void *data, size_t bytes)
{
	struct forge_bytes b = {data, bytes};
	return b;
}

/*
 * When an item expires.  Made by the three functions below and by nothing else, so that "in an
 * hour" and "at this hour" cannot be mixed up; all zeroes is forge_expire_never().
 * A time that has passed, or 0 ms from now, is permitted: the item has expired when it is stored.
 * The clock is the pool's: a step of the wall clock later on moves nothing.
 */
struct forge_expiry {
	uint64_t opaque[2];
};

struct forge_expiry forge_expire_never(void);
struct forge_expiry forge_expire_after_ms(uint64_t ms);
struct forge_expiry forge_expire_at_unix_ms(uint64_t unix_ms);

struct forge_item { /* what is stored */
	struct forge_bytes value;
	uint32_t flags; /* yours; comes back with the value */
	struct forge_expiry expiry;
};

#define FORGE_TTL_NEVER UINT64_MAX

struct forge_value { /* what is found */
	const void *data;
	size_t bytes;
	uint32_t flags;
	uint64_t cas;	 /* every change of the value changes it; for forge_cas() */
	uint64_t ttl_ms; /* time left, or FORGE_TTL_NEVER */
};

/* ---- one operation, waited for ------------------------------------------------------------ */

/*
 * A key has 1 to 250 bytes of any kind.  Beside what is listed each of these may give
 * FORGE_E_KEY_EMPTY, FORGE_E_KEY_LONG, FORGE_E_INVAL, FORGE_E_DEADLINE, FORGE_E_FORKED and
 * FORGE_E_NODE; those that change something FORGE_E_AGAIN, and those that store something
 * FORGE_E_VALUE_LARGE and FORGE_E_NO_SPACE as well.
 * While the memory node of a key is lost a Get is a FORGE_MISS, if the cache has another that is
 * up; whatever changes the key gives FORGE_E_NODE, and once the node is back nothing older is
 * found. After FORGE_E_NODE a change may have happened or not, and so it may after FORGE_E_AGAIN
 * from forge_set() and forge_delete(); after every other error it has not.
 */

/* Find a value.  0 or FORGE_MISS. */
int forge_get(struct forge_session *, struct forge_bytes key, struct forge_value *value);

/*
 * The same, copied to buffer, to which value->data then points.  With FORGE_E_BUFFER_SMALL *value
 * is written, too, without data: value->bytes is the room it takes.
 */
int forge_get_copy(struct forge_session *, struct forge_bytes key, void *buffer,
		   size_t buffer_bytes, struct forge_value *value);

/*
 * Find n values; their round trips overlap, so it takes little longer than finding one.  Writes
 * all n values: data is NULL where the key is not in the cache.  *hits may be NULL.
 * 0, or the first error of a key, whose value's data is NULL, too.
 */
int forge_get_many(struct forge_session *, const struct forge_bytes *keys, size_t n,
		   struct forge_value *values, size_t *hits);

/* Give an item another expiry, and find it.  0 or FORGE_MISS. */
int forge_touch(struct forge_session *, struct forge_bytes key, struct forge_expiry expiry);
int forge_get_and_touch(struct forge_session *, struct forge_bytes key, struct forge_expiry expiry,
			struct forge_value *value);

/* Store an item: always; if there is none, else FORGE_NOT_STORED; if there is, else FORGE_MISS. */
int forge_set(struct forge_session *, struct forge_bytes key, const struct forge_item *item);
int forge_add(struct forge_session *, struct forge_bytes key, const struct forge_item *item);
int forge_replace(struct forge_session *, struct forge_bytes key, const struct forge_item *item);

/* Store if nobody has changed it since cas was read, else FORGE_EXISTS or FORGE_MISS. */
int forge_cas(struct forge_session *, struct forge_bytes key, const struct forge_item *item,
	      uint64_t cas);

/* Lengthen a value; its flags and expiry stay.  0 or FORGE_MISS. */
int forge_append(struct forge_session *, struct forge_bytes key, struct forge_bytes tail);
int forge_prepend(struct forge_session *, struct forge_bytes key, struct forge_bytes head);

/*
 * Count in a value that is a decimal number below 2^64.  Up, it wraps round; down, it stops at 0.
 * *number, which may be NULL, receives the new value.  0, FORGE_MISS or FORGE_E_NOT_NUMBER.
 * (To begin where there is no such key: `create` of struct forge_op.)
 */
int forge_incr(struct forge_session *, struct forge_bytes key, uint64_t delta, uint64_t *number);
int forge_decr(struct forge_session *, struct forge_bytes key, uint64_t delta, uint64_t *number);

/* Remove an item: in any case; if nobody has changed it, else FORGE_EXISTS.  0 or FORGE_MISS. */
int forge_delete(struct forge_session *, struct forge_bytes key);
int forge_delete_if(struct forge_session *, struct forge_bytes key, uint64_t cas);

/* Remove everything that was stored before, for all clients of the pool. */
int forge_flush(struct forge_session *);

/* ---- many operations at once -------------------------------------------------------------- */

enum forge_verb {
	FORGE_GET,
	FORGE_TOUCH,
	FORGE_GET_AND_TOUCH,
	FORGE_SET,
	FORGE_ADD,
	FORGE_REPLACE,
	FORGE_CAS,
	FORGE_APPEND,
	FORGE_PREPEND,
	FORGE_INCR,
	FORGE_DECR,
	FORGE_DELETE,
	FORGE_DELETE_IF,
	FORGE_FLUSH,
};

/*
 * An operation as a value: fill in what the verb needs, leave the rest zero, read the answer.
 *
 *	struct forge_op op = {.verb = FORGE_SET, .key = forge_text("sky"),
 *			      .item.value = forge_text("blue"),
 *			      .item.expiry = forge_expire_after_ms(60000)};
 */
struct forge_op {
	enum forge_verb verb;
	uint8_t create; /* incr, decr: store `initial` and the item's flags and expiry on a miss */
	struct forge_bytes key;
	struct forge_item item; /* value: what is stored, appended, prepended; expiry: touch too */
	uint64_t cas;		/* cas, delete_if: the one it must have */
	uint64_t delta;		/* incr, decr */
	uint64_t initial;
	void *buffer; /* gets: copy the value here; NULL: leave it in the session */
	size_t buffer_bytes;
	uint64_t timeout_us; /* 0: the session's */
	void *user;	     /* yours */

	/* The answer. */
	int status;
	struct forge_value found; /* gets; whatever stores: cas alone */
	uint64_t number;	  /* incr, decr */

	/* FORGE's until it is done. */
	struct forge_op *next;
	uint64_t opaque[2];
};

/*
 * Do n operations and wait for all; their round trips overlap.  Operations on one key may take
 * effect in any order.  Each has its own status.
 * 0 when each has been answered, whatever the answer; FORGE_E_INVAL, FORGE_E_FORKED.
 */
int forge_run(struct forge_session *, struct forge_op *ops, size_t n);

/*
 * Hand over n operations, which go on whenever the session is in a call.  ops, keys and values
 * stay borrowed until forge_poll() gives the op back; until then it cannot be handed over again.
 * Does not wait, and never for lack of room: beyond in_flight_max they queue up.  Two operations on
 * one key that are both out may take effect in any order.
 * 0, FORGE_E_INVAL, FORGE_E_FORKED: then none is taken.
 */
int forge_submit(struct forge_session *, struct forge_op *ops, size_t n);

/*
 * Collect operations that are done, up to max of them.  Waits for the first one at most wait_us
 * (0: goes on and looks once; FORGE_WAIT_FOREVER); not when none is out.  With max 0 it collects
 * none, and does what forge_rest() does.  A value in the session's memory is valid until the next
 * forge_poll().
 * How many, or FORGE_E_INVAL, FORGE_E_FORKED.
 */
int forge_poll(struct forge_session *, struct forge_op **done, unsigned max, uint64_t wait_us);

#define FORGE_WAIT_FOREVER UINT64_MAX

/*
 * Leave nothing half done: for a session that will have nothing to do for a while, of a thread that
 * waits for something else.  Over a network operations leave work to the next call: a Set begins to
 * evict the groups that the Sets after it will need room of, and until that is done nobody else can
 * have them.  Now that is ended, what was counted is told to the pool, and operations that are out
 * and have begun are done, for forge_poll() to give back.  Open groups stay the session's.
 * Who stays idle calls it again about once a second: it learns what others did, and lets go of
 * memory nodes that have left the cache.  Takes some round trips, or none if nothing was begun.
 * 0; FORGE_E_INVAL, FORGE_E_FORKED; FORGE_E_NODE, FORGE_E_SPREAD as from an operation.
 */
int forge_rest(struct forge_session *);

/* Operations that were submitted and not given back. */
size_t forge_pending(const struct forge_session *);

/* ---- every key ---------------------------------------------------------------------------- */

struct forge_scan;

struct forge_entry {
	struct forge_bytes key; /* valid until the scan's next call */
	size_t value_bytes;
	uint32_t flags;
	uint64_t cas;
	uint64_t ttl_ms;
};

/*
 * Walk through the keys of the pool while others change it.  A key that is in the cache from the
 * first call to the last is seen at least once; one that comes, goes or moves meanwhile may be
 * seen, or not, or twice.  Each was there when it was READ.
 * The session may be used between the calls, e.g. to delete what was seen.  Close the scan
 * before the session.  0, FORGE_E_NO_MEMORY.
 */
int forge_scan_open(struct forge_session *, struct forge_scan **scan);

/*
 * The next key.  0, FORGE_MISS when there is none, FORGE_E_NODE, FORGE_E_FORKED.  Of several memory
 * nodes the keys of those that live come before FORGE_E_NODE; called again it goes on with the lost
 * ones.
 */
int forge_scan_next(struct forge_scan *, struct forge_entry *entry);

/* How far it is, from 0 to 1. */
double forge_scan_progress(const struct forge_scan *);

void forge_scan_close(struct forge_scan *);

/* ---- looking inside ----------------------------------------------------------------------- */

/* Called once per counter.  name and sentence are static.  It must not call FORGE. */
typedef void (*forge_stat_fn)(void *context, const char *name, uint64_t value,
			      const char *sentence);

/* What the session did since it was opened: 64-bit counters that only grow. */
int forge_session_stats(const struct forge_session *, forge_stat_fn each, void *context);

enum forge_log_level { FORGE_LOG_ERROR, FORGE_LOG_WARN, FORGE_LOG_INFO, FORGE_LOG_DEBUG };

/*
 * Send what FORGE has to report to log instead of standard error (NULL: back to it), up to a
 * level; without this call warnings and errors.  line has no line feed, is borrowed, and comes
 * on the thread that reports.  The hook must not call FORGE.  Before the first client; one thread.
 */
typedef void (*forge_log_fn)(void *context, enum forge_log_level level, const char *line);
void forge_set_log(forge_log_fn log, void *context, enum forge_log_level level);

/*
 * Where FORGE's memory comes from, but for the pool's mapping and the stacks of operations in
 * flight, which are mapped.  alignment is a power of two; resize keeps what was there and needs
 * no more alignment than malloc(); NULL from either is FORGE_E_NO_MEMORY.  Called when things are
 * opened and closed and when an operation is the first to need so much, on any thread.
 * Before any other call; one thread.  NULL: back to malloc().
 * 0, or FORGE_E_INVAL unless all three functions are given.
 */
struct forge_allocator {
	void *(*allocate)(void *context, size_t alignment, size_t bytes);
	void *(*resize)(void *context, void *memory, size_t bytes);
	void (*release)(void *context, void *memory);
	void *context;
};

int forge_set_allocator(const struct forge_allocator *allocator);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
