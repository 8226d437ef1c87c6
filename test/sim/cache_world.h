/*
 * cache_world.h: small caches as worlds of the deterministic scheduler.
 *
 * A world is a tiny pool and a few workers, each with a script; the workers run the very flows
 * that production runs.  What the set-up leaves, on the memory node and in the compute nodes
 * alike, is the state every run starts from.  After each run the world is examined (see
 * world_examine() below), every CN that lives Gets every key with the map it has by then, and
 * the history is checked for linearizability, key by key.
 *
 * A script is words separated by blanks.  A key is a letter; an upper-case letter is another key
 * with the same home bucket and the same fingerprint as the lower-case one, and all other keys
 * share the home bucket but not the fingerprint.
 *
 *   Sa  Set a to a new value    Ga  Get a    Da  Delete a
 *   Ka  scan the bucket, and see a, which is there all the time
 *   Y   poll                    Rn  n random operations on the world's keys
 *   Q   fetch a chunk ahead of need
 *   Nn  n Sets of the keys n to z in turn, whose homes are elsewhere
 *   Aa  add: a new value if absent           Pa  replace: a new value if present
 *   Ia  a new value made of the present one, as an increment does
 *   Ua  the same, or a new value if absent, as an increment that creates
 *   Ca  a new value if it is the one that this worker saw last
 *   Oa  remove it if it is the one that this worker saw last
 *   Ba  a new value that takes three parts if the present one's number is odd, else none, as an
 *       append hangs on what it lengthens
 *   Ea  Set a to a new value that expires when the clock goes on
 *   Ta  touch: it expires when the clock goes on     Ha  touch: it never expires
 *   +   the clock goes on       F   flush everything
 *   Mn  n random operations of all these kinds
 *   J   join the pool, and recover who is dead first   L   leave it
 *   Wn  wait until CN n is killed, or until nobody else can go on
 *   V   recover the dead    X   the same, and repair what is nobody's
 *
 * For test programs.  A struct cache_world belongs to its simulation's thread; it is made by
 * cache_world_build() and lives until cache_world_destroy().
 */
#ifndef FORGE_TEST_SIM_CACHE_WORLD_H
#define FORGE_TEST_SIM_CACHE_WORLD_H

#include "cache/cache.h"
#include "pool/recover.h"
#include "sim/locks.h"
#include "sim/sched.h"

#define WORLD_WORKERS_MAX 6
#define WORLD_CNS_MAX	  4
#define WORLD_KEYS	  52
#define WORLD_BEFORE_MAX  10

struct cache_world;

/* A script of a worker, or one that the set-up runs in a CN's name. */
struct world_script {
	uint8_t cn;
	const char *text;
};

/* What the test programs do with a world beside what they name it for. */
enum world_search {
	WORLD_EXPLORE,	    /* all schedules, all kills */
	WORLD_EXPLORE_LONG, /* the same in the long suite only */
	WORLD_RANDOM,	    /* too large for that: random schedules */
	WORLD_RECOVERY,	    /* cache_recover.c's */
};

/* What of a recovery world is tried in random schedules, because all of them are too many. */
enum world_sampling {
	SAMPLED_NOTHING,
	SAMPLED_PAIRS,	/* two deaths */
	SAMPLED_DEATHS, /* one, too */
	SAMPLED_ALL,	/* nobody's, too */
};

struct world_spec {
	const char *name;
	const char *policy; /* NULL: forge */
	const char *keys;   /* letters of the keys Rn uses and the end Gets */
	const char *large;  /* letters of the keys whose values are thrice as long; NULL: none */
	/*
	 * Letters of the keys whose values take three parts, but for every eighth value, which is
	 * no longer than the list of those; or NULL.
	 */
	const char *parts;
	uint32_t chunk_count, group_objects;
	uint32_t open_groups;			      /* 0: by the share, which makes it 1 */
	uint32_t cn_max;			      /* 0: as many as there are */
	uint32_t poll_interval_us;		      /* 0: poll only where the script says so */
	uint32_t map_trust_us;			      /* 0: the default */
	struct world_script before[WORLD_BEFORE_MAX]; /* in this order */
	struct world_script workers[WORLD_WORKERS_MAX];
	/* The last part of the set-up; may touch anything of the world and its memory.  NULL. */
	void (*prepare)(struct cache_world *, uint8_t *memory);
	/* Demanded at the end of each run without a kill, before the last Gets.  NULL. */
	int (*expect)(struct cache_world *, struct sim *, char *why, size_t why_bytes);
	uint8_t search;	 /* enum world_search */
	bool kills_long; /* explored with kills in the long suite only */
	bool no_kills;	 /* never: what lies in the pool before the flow is damaged */
	/* Where the rings' cursors and the chunks' generations start. */
	uint64_t first_position;
	uint32_t first_generation;
	bool impatient; /* late producers are skipped at once */
	/* OVERLONG_SPARED is off: a ring is a trip long, and what lies at its head is evicted. */
	bool overlong_evicts;
	bool flush_waits;      /* an evictor waits for CNs that have not flushed */
	bool space_promised;   /* FORGE_E_NO_SPACE is a failure, even after a kill */
	bool answers_promised; /* FORGE_E_AGAIN is a failure, even after a kill */
	/* No value is ever lost: a miss says that there is none (lin.h). */
	bool exact;
	/* The clock goes on only where a script says so, and the flush generation is READ each
	 * time. */
	bool timed;
	/*
	 * Who is dead can be proven (locks.h), and when a run is over all who are are recovered;
	 * then the pool must be as if nobody had died.
	 */
	bool recovers;
	uint8_t late;	  /* bit per CN: attached from its word J on, or never */
	uint8_t vigilant; /* ... whose own flows look for the dead */
	/* enum world_sampling: by default, and in the long suite */
	uint8_t sampling, sampling_long;
	/*
	 * Who repairs is no compute node, so its own death is nobody's to find: what is left half
	 * done is for the next repair.
	 */
	bool last_repairs;
};

/* What a rule that was switched off makes of the world. */
int cache_world_build(const struct world_spec *, rule_set rules_off, struct cache_world **,
		      struct sim **);
void cache_world_destroy(struct cache_world *, struct sim *);

/* One worker: its view of the cache and what it noticed. */
struct world_worker {
	struct cache cache;
	const char *script;
	uint32_t ops_begun;
	uint64_t seen_id[WORLD_KEYS]; /* of the value this worker saw last */
	uint64_t seen[WORLD_KEYS];    /* that value; 0 none */
};

struct world_saved {
	void *live, *image;
	size_t bytes;
};

#define WORLD_SAVED_MAX 80

struct cache_world {
	const struct world_spec *spec;
	struct sim_world_ops ops;
	struct pool pool;
	const struct policy *policy;
	uint32_t cn_count, worker_count;
	struct cn cns[WORLD_CNS_MAX];
	struct lane lanes[WORLD_CNS_MAX];
	struct world_worker workers[WORLD_WORKERS_MAX];
	/* A view for what the set-up and the end do in a CN's name. */
	struct cache visitors[WORLD_CNS_MAX];
	/* Local state as the set-up left it, copied back before each run. */
	struct world_saved saved[WORLD_SAVED_MAX];
	uint32_t saved_count;
	struct sim_locks locks;
	bool joined[WORLD_CNS_MAX]; /* in this run: what it allocated has to be freed */
	bool left[WORLD_CNS_MAX];
	uint64_t prefilled[WORLD_KEYS]; /* value of a key after the set-up; 0 none */
	struct clock clock;		/* of timed worlds; shows steps, in ms */
	uint64_t clock_steps;
	uint32_t next_value;
	char key_text[WORLD_KEYS][8];
	uint32_t rows_max; /* most a byte of a hotness row may hold at the end */
	/* What went wrong while workers ran; the first is kept. */
	int status;
	char why[256];
	/* Sums over all runs. */
	struct cache_counters total;
	struct recover_report recovered;
	uint64_t no_space, undecided, nodes_recovered;
};

/* The slot and word of the lowest live word of a key, by the memory alone; false: none. */
bool world_find(const struct cache_world *, const uint8_t *memory, uint32_t key_index,
		uint64_t *slot, uint64_t *word);

uint32_t world_key_index(char letter);
struct cache_key world_key(const struct cache_world *, uint32_t key_index);

/* ---- between world_ops.c and its neighbours ------------------------------------------------- */

/* A value has so many words, of a large one three times as many. */
#define WORLD_VALUE_WORDS 3u
/* Of chunks of 384 bytes, as wide as the list of three parts asks for. */
#define WORLD_PARTS_WORDS 137u
/* As long as that list, so that a small value takes as much room as the head of a large one. */
#define WORLD_LIST_WORDS 5u

/* What a worker of the world does: its script. */
void world_worker(void *context, struct worker *);

/* Of timed worlds: the clock. */
uint64_t world_now_ns(const struct clock *);

/* A recorded Get.  The worker, which remembers what it saw, may be NULL. */
void world_get(struct cache_world *, struct world_worker *, struct cache *, uint32_t key);

/* Has the CN joined, and not left? */
bool world_is_attached(const struct cache_world *, uint32_t cn);

/* Run a script in a CN's name on a worker without a fiber (set-up, end); no history. */
int world_visit(struct cache_world *, struct worker *, uint32_t cn, const char *script);

/* Is the CN attached, as its own worker sees it, and not killed? */
bool world_cn_lives(const struct cache_world *, const struct sim *, uint32_t cn);

/* What went wrong while workers ran; the first is kept. */
void world_note(struct cache_world *, int status, const char *text, uint32_t key);

/* Attach a CN: local state, membership and lane, and the views of its workers. */
int world_open_cn(struct cache_world *, struct worker *, uint32_t cn);

/* world_recover.c: the words J, L, W, V and X, and the end of a run of a world that recovers. */
void world_recovery_word(struct cache_world *, struct world_worker *, struct worker *, char verb,
			 uint32_t cn);
int world_last_recovery(struct cache_world *, struct sim *, char *why, size_t why_bytes);
int world_nothing_to_mend(struct cache_world *, struct sim *, char *why, size_t why_bytes);
/* Give back what CNs that joined in the last run have allocated. */
void world_forget_joined(struct cache_world *);

/*
 * Examine the pool at rest: the pool checker finds nothing, no counter of a hotness row is larger
 * than rows_max, and, if no CN was killed, what chunks the CNs have in hand is what the table says.
 * 0 or FORGE_E_CORRUPT with the reason in why.
 */
int world_examine(const struct cache_world *, struct sim *, char *why, size_t why_bytes);

/* The same after a recovery, when everything must be as if nobody had died. */
int world_examine_recovered(const struct cache_world *, struct sim *, char *why, size_t why_bytes);

#endif
