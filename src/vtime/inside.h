/*
 * inside.h: what the files of a virtual world share.  Private to this folder.
 *
 * Owned by world.c; fab.c books verbs and queues events, thread.c parks and wakes.
 */
#ifndef FORGE_VTIME_INSIDE_H
#define FORGE_VTIME_INSIDE_H

#include "base/prng.h"
#include "fiber/fiber.h"
#include "vtime/fault.h"
#include "vtime/nic.h"
#include "vtime/queue.h"
#include "vtime/world.h"

#define VT_NONE		   UINT32_MAX
#define VT_OUTSTANDING_MAX 64u
#define VT_BATCH_OPS_MAX   128u

/* What an event is about: the verb of that index arrives, or the thread of that index goes on. */
#define VT_WAKE 0x80000000u

/* Where the clock starts: not at 0, which may mean "never". */
#define VT_CLOCK_START_NS 1000000000u

struct vt_conn;

/* What a detached verb needs when its sender has gone on. */
struct vt_copy {
	struct fab_op op;
	uint8_t payload[FAB_DETACHED_BYTES_MAX];
};

/* A verb on its way; small, because many are. */
struct vt_verb {
	struct fab_op *op; /* the sender's, or that of copy */
	struct vt_copy *copy;
	struct vt_conn *conn;
	uint64_t ready_ps; /* it could leave */
	uint64_t post;	   /* of its connection */
	uint32_t next;	   /* of the list it is in: held back, or unused */
	bool first, free;
};

static_assert(sizeof(struct vt_verb) <= 64, "a verb is one cache line");

struct vt_conn {
	struct fab_base base; /* must be first */
	struct vt_world *world;
	struct vt_thread *thread;
	uint32_t node, index;
	uint64_t posts;
	uint64_t failed_post; /* the rest of it fails too */
	int failed_status;    /* with this */
	uint32_t flying;      /* verbs that have left and not arrived */
	uint32_t waiting;     /* verbs posted, not detached, that have not arrived */
	uint64_t complete_ps; /* the last of those that have */
	uint64_t arrive_ps;   /* of the last that left */
	uint64_t done_ps;     /* at the node, of the last that arrived */
	/* READs and atomics (or all) that have left, and those of which the end is known. */
	uint64_t left, known;
	uint64_t ended_ps[VT_OUTSTANDING_MAX]; /* a ring */
	uint32_t held_first, held_last;	       /* verbs that may not leave yet */
	struct vt_conn *next;		       /* of the world's open ones */
	bool lost;			       /* fault.h: it was cut, and */
	uint32_t landing;		       /* so many more verbs land, */
	bool half;			       /* and perhaps one in part */
};

struct vt_node {
	uint8_t *memory;
	uint64_t bytes;
	uint64_t hot_from, hot_to;
	struct vt_port port;
};

struct vt_cn {
	struct vt_server out, in, card;
	struct vt_server cpu; /* all cores together */
	/* fault.c: what is wrong with it, and until when. */
	uint32_t slow_factor;
	uint64_t slow_until_ps, delay_ps, delay_until_ps;
	/* The clock its threads go by: the world's, faster by so much, and ahead. */
	int32_t drift_ppm;
	int64_t offset_ns;
	bool cut;
	struct vt_felt felt;
};

struct vt_thread {
	struct clock clock; /* must be first */
	struct vt_world *world;
	struct fiber *fiber;
	uint32_t index, cn;
	uint64_t debt_ps; /* worked since it last waited */
	void (*fn)(void *argument);
	void *argument;
	bool busy; /* has something to run that has not returned */
	bool parked_for_verbs;
	uint64_t paused_until_ps;
};

struct vt_world {
	struct clock clock; /* must be first */
	struct vt_world_options options;
	const struct vt_profile *profile;
	uint64_t delay_ps;
	uint64_t now_ps;
	struct vt_queue queue;
	uint64_t hash, verb_count, event_count;
	struct fab_counts counts;
	struct vt_node *nodes;
	struct vt_cn *cns;
	struct vt_thread *threads;
	uint32_t thread_count, conn_count;
	struct vt_verb **verbs; /* blocks of VT_VERB_BLOCK */
	uint32_t verb_blocks;
	uint32_t unused; /* first of the list */
	int status;
	struct vt_conn *conns; /* open ones */
	struct prng chance;    /* of faults */
	bool faulty;	       /* there was one, so they are looked for */
	void (*progress)(void *context);
	void *progress_context;
	vt_watch_fn watch;
	void *watch_context;
};

#define VT_VERB_BLOCK 1024u

static inline struct vt_verb *vt_verb_at(const struct vt_world *w, uint32_t index)
{
	return &w->verbs[index / VT_VERB_BLOCK][index % VT_VERB_BLOCK];
}

/* world.c: queue an event; when there is no memory the world's status says so. */
static inline void vt_at(struct vt_world *w, uint64_t time_ps, uint32_t what)
{
	if (unlikely(!vt_queue_push(&w->queue, time_ps, what)))
		w->status = FORGE_E_NO_MEMORY;
}

/* Does the verb cost nothing? */
static inline bool vt_is_free(const struct vt_world *w, const struct fab_op *op)
{
	return w->options.free_purposes >> op->purpose & 1;
}

/* world.c: let the next event happen.  False when there is none, or no memory. */
bool vt_world_step(struct vt_world *);

/* fault.c: how much longer is that compute node's verb under way? */
uint64_t vt_fault_delay_ps(struct vt_world *, uint32_t cn);

/* fault.c: a verb of a connection that was cut reaches its node: 0 or FORGE_E_NODE. */
int vt_fault_arrives(struct vt_conn *, struct fab_op *);

/* fab.c: the verb reaches its node. */
void vt_verb_arrives(struct vt_world *, uint32_t index);

/* memory.c: carry out a verb on a node's memory.  0 or FORGE_E_BOUNDS. */
int vt_memory_run(struct vt_node *, struct fab_op *);

/* thread.c: 0 or FORGE_E_NO_MEMORY. */
int vt_thread_init(struct vt_thread *, struct vt_world *, uint32_t index);

/* thread.c: let the fiber of the thread run, which is not running. */
void vt_thread_resume(struct vt_thread *);

/* A good mixing of one more word into a running hash. */
static inline uint64_t vt_mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

#endif
