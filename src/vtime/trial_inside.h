/*
 * trial_inside.h: what the files of a trial share.  Private to this folder.
 *
 * trial.c runs it and lets faults happen, trial_process.c is a compute node's life, trial_ops.c
 * what its threads do, trial_judge.c the oracles.
 */
#ifndef FORGE_VTIME_TRIAL_INSIDE_H
#define FORGE_VTIME_TRIAL_INSIDE_H

#include "fabric/count.h"
#include "pool/time.h"
#include "sim/history.h"
#include "vtime/fault.h"
#include "vtime/trial.h"

#define TRIAL_CNS_MAX	  4u
#define TRIAL_THREADS_MAX 4u
#define TRIAL_KEYS_MAX	  64u
#define TRIAL_IDS_MAX	  (TRIAL_CNS_MAX + 2)
#define TRIAL_OPS	  60000u /* of one trial, as a rule */
#define TRIAL_OPS_MAX	  (TRIAL_OPS << 7)
#define TRIAL_WORDS_MAX	  512u /* of a value */

struct trial;

/* What the seed chose. */
struct trial_shape {
	const char *policy;
	uint32_t cns, threads, keys, group_objects, chunk_count, words_most;
	uint32_t parts_words; /* of a value that is larger than a chunk; 0: there are none */
	uint64_t load_ns;
	uint32_t think_ns; /* between operations, at most */
	uint32_t flush_trust_us, poll_interval_us;
	uint32_t get_percent;	 /* of all operations */
	uint32_t filler_percent; /* Sets of ever new keys, of the rest */
	uint32_t delete_percent; /* of what is left then */
	uint32_t buckets;	 /* the keys' homes are in so many; 0: anywhere */
	uint64_t first_position, first_fence;
	uint32_t first_generation;
	bool timed; /* values with an expiry, and flushes */
};

/* A thread of a process. */
struct trial_session {
	struct trial_process *process;
	struct vt_thread *thread;
	struct fab *fab;
	struct fab_counts verbs;
	struct worker worker;
	struct lane lane;
	struct cache cache;
	struct prng prng;
	bool ready, ended;
	uint64_t seen[TRIAL_KEYS_MAX], seen_id[TRIAL_KEYS_MAX]; /* what it saw last */
};

enum process_state {
	PROCESS_ATTACHING,
	PROCESS_WORKING,
	PROCESS_ENDED, /* all threads came to an end */
};

/* A compute node's process, from its start to its end. */
struct trial_process {
	struct trial *trial;
	uint32_t slot;	  /* which compute node it is for the schedule */
	uint32_t machine; /* its compute node of the world: its own */
	enum process_state state;
	bool leaving; /* in order */
	bool lost;    /* its connections were cut */
	bool killed;  /* and it is dead: its operations never return */
	bool dropped; /* its locks have fallen */
	bool has_pool, has_cn;
	struct pool pool;
	struct pool_clock clock;
	struct cn cn;
	struct liveness alive;
	uint32_t running;   /* threads */
	uint64_t paused_ns; /* by schedule, until now */
	struct trial_session sessions[TRIAL_THREADS_MAX];
};

/* What will happen beside the schedule's faults. */
struct trial_plan {
	uint64_t at_ns;
	uint32_t slot; /* a process for it starts; TRIAL_NODE: the memory node is back */
	bool wipe;
};
#define TRIAL_NODE	UINT32_MAX
#define TRIAL_PLANS_MAX (SCHEDULE_FAULTS_MAX * (TRIAL_CNS_MAX + 1))

/* The memory node's process; another one after each restart. */
struct trial_node {
	struct trial *trial;
	uint32_t machine;
	struct fab *fab;
	struct fab_counts verbs;
	struct worker worker;
	bool works, lost;
};
#define TRIAL_NODES_MAX (SCHEDULE_FAULTS_MAX + 1)

/* Of a fault that was let happen: whom it hit, and what that one had felt before. */
struct trial_hit {
	enum fault_kind kind;
	uint32_t machine;
	struct vt_felt felt;
};

/* trial_hits.c: the rows, verb by verb. */
struct trial_rows {
	uint64_t from, to; /* addresses */
	uint32_t words, machines;
	uint64_t *before; /* [words] of the verb under way */
	uint64_t *known;  /* [machines][words] as each READ them last */
};

struct trial {
	struct trial_options options;
	struct trial_result *result;
	struct trial_shape shape;
	struct plan plan;
	struct vt_world *world;
	struct history history;
	char key_text[TRIAL_KEYS_MAX][16];
	struct trial_process **processes;
	uint32_t process_count, process_max;
	uint32_t alive_count; /* processes that have not ended */
	struct trial_process *holder[TRIAL_IDS_MAX];
	bool node_holds[TRIAL_IDS_MAX]; /* the memory node, or who looks in the end */
	struct trial_process *present[TRIAL_CNS_MAX];
	uint64_t begin_ns, end_ns; /* of the load */
	uint64_t base_ms;
	struct pool pool; /* as the memory node has it */
	struct trial_node nodes[TRIAL_NODES_MAX];
	uint32_t node_count;
	bool node_is_up, fate_works;
	struct trial_hit hits[SCHEDULE_FAULTS_MAX];
	uint32_t hit_count;
	struct trial_rows rows;
	struct trial_plan plans[TRIAL_PLANS_MAX];
	uint32_t plan_count;
	uint64_t next_value, next_filler;
	int status; /* the first thing that went wrong */
};

/* Note what went wrong; the first is kept. */
void trial_fail(struct trial *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* trial_shape.c */
void trial_choose_shape(struct trial *);
int trial_make_pool(struct trial *);
/* A worker for which no time passes; its fab is closed by the caller.  Format the pool anew. */
int trial_setter(struct trial *, struct worker *);
int trial_format(struct trial *);

/* trial_process.c: start one on the slot; its id's lock; the end. */
void trial_start(struct trial *, uint32_t slot);
void trial_kill(struct trial *, struct trial_process *);
void trial_lose(struct trial *, struct trial_process *);
struct liveness trial_liveness(struct trial *, struct trial_process *);
void trial_process_destroy(struct trial_process *);

/* trial_ops.c: an operation at random; a recorded Get, also by who looks in the end. */
MAY_WAIT int trial_operation(struct trial_session *);
MAY_WAIT int trial_get(struct trial_session *, uint32_t key);

/* Cost of a flow that began then, at so many verbs. */
void trial_note_cost(struct trial *, enum trial_flow, uint64_t verbs, uint64_t ns);
uint64_t trial_verbs(const struct fab_counts *);

/* trial_hits.c: 0 or FORGE_E_NO_MEMORY.  The memory is about to be formatted anew.  The sums. */
int trial_watch_rows(struct trial *, uint32_t machines);
void trial_wipe_rows(struct trial *);
void trial_judge_hits(struct trial *);

/* trial_judge.c: when nothing moves any more. */
void trial_judge(struct trial *);

static inline uint64_t trial_now_ns(const struct trial *t)
{
	return clock_now_ns(vt_world_clock(t->world));
}

#endif
