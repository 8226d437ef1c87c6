/*
 * engine.h: runs a load with threads x processes against a pool, and adds up what came of it.
 *
 * For the bench and replay commands, the demo and tests; not for the data path.  Each process is
 * one compute node with its own client, each of its threads has one session.  The caller's
 * process forks them, has no threads of its own then, and waits for every child whatever
 * happens: a child that dies makes the others stop and the run fail.  Everything the children
 * report lies in one anonymous shared mapping, which belongs to the result.
 *
 * A run has four parts, with a barrier before each: attach (and store every key, if asked for),
 * warm-up, the measured part, leave.  Only the measured part is counted and timed.
 */
#ifndef FORGE_BENCH_ENGINE_H
#define FORGE_BENCH_ENGINE_H

#include <stdbool.h>
#include <stdio.h>

#include "base/hist.h"
#include "client/client.h"
#include "load/key.h"
#include "load/workload.h"

enum bench_latency {
	BENCH_GET_HIT,
	BENCH_GET_MISS, /* the Get alone, without what follows the miss */
	BENCH_SET,	/* one of the load's own, not one that fills a miss */
	BENCH_DELETE,
	BENCH_FILL, /* the Set that fills a miss */
	BENCH_ALL,  /* a whole operation as its caller waits for it, fill and penalty included */
	BENCH_LATENCIES,
};

/* "get_hit", ...: as the JSON report names them. */
const char *bench_latency_name(enum bench_latency);

/* What the workers did.  TALLY(name, sentence) */
#define BENCH_TALLIES(TALLY)                                                                  \
	TALLY(operations, "operations; a Set that fills a miss is part of its Get")           \
	TALLY(gets, "Gets, also of read-modify-writes")                                       \
	TALLY(hits, "Gets that found their key")                                              \
	TALLY(get_bytes, "value bytes asked for by Gets")                                     \
	TALLY(hit_bytes, "value bytes of Gets that found their key")                          \
	TALLY(sets, "Sets of the load, also of read-modify-writes")                           \
	TALLY(fills, "Sets that filled a miss")                                               \
	TALLY(deletes, "Deletes")                                                             \
	TALLY(set_bytes, "value bytes of all Sets")                                           \
	TALLY(sets_again, "Sets given up because too many others changed the key")            \
	TALLY(sets_no_space, "Sets refused because no chunk could be freed")                  \
	TALLY(sets_too_large, "Sets refused because the value is larger than the pool takes") \
	TALLY(refused, "changes refused because the memory node of their key was lost")       \
	TALLY(distinct, "distinct keys touched")                                              \
	TALLY(verified, "values verified")                                                    \
	TALLY(fresh, "values found not older than the last one acknowledged (--stress)")      \
	TALLY(lag_waits, "waits for another worker, to stay near the trace's order")

struct bench_tally {
#define TALLY(name, sentence) uint64_t name;
	BENCH_TALLIES(TALLY)
#undef TALLY
};

/* Which worker asks, and what the workers share. */
struct bench_place {
	uint64_t seed;
	uint32_t index; /* 0-based, over all threads of all processes */
	uint32_t count;
	_Atomic uint64_t *key_count;	  /* for workload_init() */
	const _Atomic uint32_t *stopping; /* non-zero: end */
	_Atomic uint64_t *positions;	  /* [count x BENCH_POSITION_STRIDE], at first 0 */
	uint64_t *lag_waits;
	/* Let others run for a moment; NULL: sched_yield(). */
	void (*pause)(void *context);
	void *pause_context;
};

#define BENCH_POSITION_STRIDE 8u /* words: a cache line each */

struct bench_op {
	enum load_op_kind kind;
	uint32_t value_bytes; /* of the value to store, now or when a Get misses */
	uint64_t key;
	uint64_t slot; /* a small number for the key, to count distinct ones by */
};

#define BENCH_OP  1
#define BENCH_END 0

/* Where operations come from.  state is state_bytes of zeroes per worker. */
struct bench_load {
	const void *context;
	size_t state_bytes;
	int (*begin)(const struct bench_load *, const struct bench_place *, void *state);
	/* BENCH_OP with *op written, BENCH_END, or an error.  measured: past the warm-up. */
	int (*next)(void *state, bool measured, struct bench_op *op);
	uint64_t key_count;  /* that exist at the start; the first value of place.key_count */
	uint64_t slot_count; /* bench_op.slot is below, or not counted as distinct */
	uint32_t value_bytes_max;
	bool binary_keys;	  /* 8 bytes; else text of 20 to 24 bytes, as YCSB's */
	bool sets_warm_up_itself; /* next() ends the warm-up, not an option */
	/* The value size of key for the preload; NULL: there is none. */
	uint32_t (*preload_bytes)(const struct bench_load *, uint64_t key);
};

#define BENCH_KEY_BYTES_MAX LOAD_KEY_TEXT_MAX

/* The bytes of a key, to buf (BENCH_KEY_BYTES_MAX); gives how many. */
uint32_t bench_key(const struct bench_load *, uint64_t key, void *buf);

enum bench_on_miss {
	BENCH_MISS_FILL,
	BENCH_MISS_IGNORE,
};

/* How long a part of the run lasts: so many operations of all workers, or so long. */
struct bench_extent {
	uint64_t operations;
	uint64_t ns;
};

struct bench_setup {
	const char *pool;   /* its name */
	const char *policy; /* NULL: the pool's */
	uint32_t processes;
	uint32_t threads; /* of each process */
	struct bench_extent warm_up;
	struct bench_extent measured; /* both 0: until the load ends */
	enum bench_on_miss on_miss;
	double rate; /* open loop: operations begin so often, of all workers; 0: closed */
	uint64_t miss_penalty_us; /* the time a backend takes; slept, or spun below 100 us */
	uint32_t poll_interval_us;
	uint32_t open_groups;  /* 0: the default */
	uint32_t dead_percent; /* the same */
	uint64_t seed;
	bool preload;
	bool verify; /* check every byte of every value that a Get returns */
	bool stress; /* verify, and that no value is older than what was acknowledged; fresh.h */
	bool no_verb_counts;
	FILE *progress; /* a line that is rewritten; NULL: none */
	/* Called when all have attached, e.g. to remove the pool's name; may be NULL. */
	void (*attached)(void *context);
	void *attached_context;
};

/* The sum over the memory nodes of the cache. */
struct bench_space {
	uint32_t nodes; /* 0: the one whose plan is given beside */
	uint64_t pool_bytes, metadata_bytes;
	uint64_t chunks, chunk_bytes; /* and all bytes of them */
	uint64_t objects;	      /* of the expected size that fit */
};

void bench_space_add(struct bench_space *, const struct plan *);

/* The sum over all workers, of the measured part. */
struct bench_result {
	double rate; /* that was asked for; 0: a closed loop */
	uint32_t workers;
	double seconds; /* from the first worker's start to the last one's end */
	double warm_up_seconds;
	struct bench_tally tally;
	struct cache_counters cache;
	struct fab_counts verbs;
	struct hist latency[BENCH_LATENCIES];
	struct plan plan; /* of the pool, of several of one */
	struct bench_space space;
	char policy[16];
	uint64_t client_memory_bytes; /* of one compute node, without sessions */
	uint64_t value_bytes_min;     /* stored or asked for */
	uint64_t value_bytes_max;
};

/*
 * Run.  The result is large (hundreds of KB): allocate it.  error_text names what went wrong
 * first.  Any status of client.h; FORGE_E_CORRUPT for a wrong value; FORGE_E_SYSTEM when a
 * worker died; FORGE_E_AGAIN when a signal stopped the run.
 */
int bench_run(const struct bench_setup *, const struct bench_load *, struct bench_result *out,
	      char *error_text, size_t error_bytes);

/* Is there a part before the measured one? */
static inline bool bench_warms_up(const struct bench_setup *setup, const struct bench_load *load)
{
	return setup->warm_up.operations || setup->warm_up.ns || load->sets_warm_up_itself;
}

/* Of all memory nodes. */
struct bench_space bench_space_of(const struct bench_result *);

static inline double bench_ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

#endif
