/*
 * core.h: what the scheduler and its strategies share; private to src/sim.
 *
 * A strategy sees the run as events (struct sim_event): what each step touched.  Two events that
 * sim_events_dependent() calls independent may change places without anybody noticing; on that
 * rests the reduction in explore.c.
 */
#ifndef FORGE_SIM_CORE_H
#define FORGE_SIM_CORE_H

#include "fiber/fiber.h"
#include "sim/sched.h"

#define SIM_QUEUE_MAX	  128 /* verbs posted and not yet executed, per worker */
#define SIM_BATCH_OPS_MAX 64
#define SIM_RANGES_MAX	  4
#define SIM_ABANDON	  (-1) /* a strategy's answer: give this run up */

/* Bytes [lo, hi) of the memory. */
struct sim_range {
	uint64_t lo, hi;
	bool writes;
};

/* A few ranges; when there are more, neighbours are merged, which only errs to the safe side. */
struct sim_ranges {
	struct sim_range range[SIM_RANGES_MAX];
	uint32_t count;
};

enum sim_event_kind {
	SIM_EVENT_VERB,
	SIM_EVENT_BEGIN,
	SIM_EVENT_CALL,
	SIM_EVENT_PAUSE,
	SIM_EVENT_KILL
};

/* Where sim_touch_cell()'s cells lie, behind any memory. */
#define SIM_CELLS_ADDRESS (UINT64_C(1) << 62)

/* What one step did: its verb, and what the worker did locally right after it. */
struct sim_event {
	uint8_t worker, cn, kind;
	bool resumed;	     /* the worker's own code ran */
	bool resumed_shared; /* ... and others of its CN can see what it did */
	bool counted;	     /* a kill of this CN counts its verbs */
	bool forced;	     /* a pause that ended because nobody else could run */
	struct sim_ranges touched;
	uint64_t begun, ended;	     /* keys (mod 64) on which operations began or ended */
	uint32_t cns_seen, cns_died; /* liveness looked at, CNs killed */
};

/* A verb in a worker's queue. */
struct sim_verb {
	struct fab_op *op; /* the caller's, or &copy */
	struct fab_op copy;
	uint8_t data[FAB_DETACHED_BYTES_MAX];
	bool detached, refused;
	uint8_t piece_count, piece_index;
	uint64_t cut; /* how the words fall into pieces */
};

enum sim_worker_state {
	SIM_RUNNING,
	SIM_WAITING,
	SIM_BEGINNING,
	SIM_CALLING,
	SIM_PAUSED,
	SIM_DONE,
	SIM_DEAD,
	SIM_UNWINDING /* every verb fails, nothing waits */
};

struct sim_worker {
	struct worker worker;
	struct clock clock;
	struct sim *sim;
	struct fiber *fiber;
	uint32_t index, cn;
	enum sim_worker_state state;
	struct sim_verb queue[SIM_QUEUE_MAX]; /* a ring */
	uint32_t queue_head, queue_count;
	uint32_t wait_left; /* verbs from the head on that must finish before it resumes */
	bool started;	    /* its function, in this run */
	uint64_t verbs_posted;
	uint64_t step_count;
	struct sim_ranges watched; /* read since the last pause */
	bool watch_hit;		   /* ... and changed by others since */
	uint32_t paused_at_step, forced_count;
	struct hist_op begin; /* the operation to begin */
	uint32_t begun_index;
};

struct sim_cn {
	uint32_t verb_count;
	bool killed;
};

/* The memory node's memory, restored block by block to its initial image. */
struct sim_memory {
	uint8_t *bytes, *image;
	size_t size;
	uint8_t *dirty; /* one flag per block */
	uint32_t *dirty_list;
	uint32_t dirty_count;
};

struct sim_strategy {
	/* The worker to step next: one of the bits of enabled, or SIM_ABANDON. */
	int (*pick)(struct sim_strategy *, const struct sim *, uint32_t enabled);
	/* It has stepped: see sim->event.  May be NULL. */
	void (*stepped)(struct sim_strategy *, const struct sim *);
};

/* How a run ended. */
enum sim_end { SIM_END_CHECKED, SIM_END_ABANDONED };

struct sim {
	struct fab_base fab; /* must be first: the workers' connection */
	const struct sim_world_ops *ops;
	void *context;
	struct sim_config config;
	struct sim_memory memory;
	struct history history;
	struct lin lin;
	struct sim_worker *workers;
	struct sim_worker observer;
	struct sim_cn cns[SIM_CNS_MAX];
	uint32_t kills_done; /* a bit per entry of config.kills */
	struct sim_worker *current;
	struct sim_event event; /* of the step being executed */
	uint8_t *choices;
	uint32_t choice_capacity;
	uint64_t start_ns;    /* of the clock, behind all that setup did */
	uint64_t reset_steps; /* of the observer, in the world's reset: before everybody's */
	uint32_t step_count;
	uint32_t forced_count, killed_count;
	uint32_t killed_writing_count; /* of those, with a WRITE next that can land in part */
	uint64_t hash;
	int status;
	char why[2048];
	FILE *trace;
};

/* wait.c: a worker's fiber (the observer has none), and its state at the start of a run. */
int sim_worker_create(struct sim *, struct sim_worker *, uint32_t index);
void sim_worker_reset(struct sim_worker *);

/* sched.c: tell the paused that bytes they have read are others now. */
void sim_announce(struct sim *, const struct sim_worker *by, struct sim_range);

/* The verb that is offset behind the head of the worker's queue. */
static inline struct sim_verb *sim_queue_at(struct sim_worker *w, uint32_t offset)
{
	return &w->queue[(w->queue_head + offset) % SIM_QUEUE_MAX];
}

/* Where the clock starts: not at 0, which may mean "never". */
#define SIM_CLOCK_START_NS  1000000000u
#define SIM_TICK_NS_DEFAULT 1000u

/* sched.c: one run.  sim->status and sim->why say how it went if it was checked. */
enum sim_end sim_run(struct sim *, const struct sim_config *, struct sim_strategy *);

/* Book the run just made into the report, and describe it there if it is the first to fail. */
void sim_report_run(struct sim_report *, const struct sim *, enum sim_end, const char *strategy);

/* memory.c */
int sim_memory_create(struct sim_memory *, size_t size);
void sim_memory_destroy(struct sim_memory *);
void sim_memory_keep_image(struct sim_memory *);
void sim_memory_restore(struct sim_memory *);
bool sim_memory_accepts(const struct sim_memory *, const struct fab_op *);

/* What a piece of a verb did. */
struct sim_effect {
	struct sim_range range;
	bool changed;	 /* some byte is another now */
	uint64_t digest; /* of what was read or written */
};

void sim_verb_cut(struct sim_verb *, enum sim_tear, uint64_t random);
void sim_verb_step(struct sim_memory *, struct sim_verb *, struct sim_effect *);
uint64_t sim_op_word_count(const struct fab_op *);

/* ranges.c */
void sim_ranges_add(struct sim_ranges *, struct sim_range);
bool sim_ranges_conflict(const struct sim_ranges *, const struct sim_ranges *);
bool sim_ranges_overlap(const struct sim_ranges *, struct sim_range);
bool sim_events_dependent(const struct sim_event *earlier, const struct sim_event *later);

/* trace.c */
void sim_trace_step(const struct sim *, const struct sim_worker *, const struct sim_verb *,
		    const struct sim_effect *);
void sim_trace_note(const struct sim *, uint32_t worker_index, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* A key as begun and ended note it. */
static inline uint64_t sim_key_bits(uint64_t key)
{
	return key == HIST_EVERY_KEY ? UINT64_MAX : (uint64_t)1 << (key & 63);
}

/* A good mixing of one more word into a running hash. */
static inline uint64_t sim_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

#endif
