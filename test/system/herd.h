/*
 * herd.h: compute nodes as processes that are killed, stopped and started again under load.
 *
 * For tests: the one process that drives them.  It owns a struct herd between herd_begin() and
 * herd_end(), and the nodes are its children.  Each node runs the verified load of
 * test/mt/stress.h until the end.  The driver attaches to the pool without joining it, so that it
 * can look at the registry and the chunk table, and let the checker run.
 *
 * Functions that return int: 0, or -1 with the reason printed and kept as stress_failure().
 */
#ifndef FORGE_TEST_SYSTEM_HERD_H
#define FORGE_TEST_SYSTEM_HERD_H

#include "fabric/shm.h"
#include "made_pool.h"
#include "served.h"
#include "stress.h"
#include "support/witness.h"

#define HERD_NODES_MAX 8u
/* Who does nothing for so long, not even end one operation, hangs. */
#ifndef HERD_STALL_S
#define HERD_STALL_S 30
#endif
#define HERD_STALL_NS (HERD_STALL_S * UINT64_C(1000000000))
/* So many times more, while it is the host that keeps it from doing anything (witness.h). */
#define HERD_EXTENSIONS_MAX 4u
/* A driver that did not look for so long was not there. */
#define HERD_AWAY_NS UINT64_C(1000000000)

/* While the driver waits. */
struct herd_patience {
	pid_t pid;	   /* whom for; 0: anybody */
	uint64_t progress; /* of it */
	uint64_t began_ns, looked_ns, end_ns;
	uint64_t away_ns;	/* the longest time between two looks */
	unsigned extensions;	/* of end_ns */
	struct witness witness; /* noted when half of the time is over */
};

struct herd {
	struct stress *s;
	uint32_t nodes;
	pid_t pids[HERD_NODES_MAX]; /* 0: not running */
	struct shm_map *map;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct herd_patience patience;
	uint64_t waited_ns;	  /* for one thing, at most */
	uint64_t recovery_cpu_ns; /* of processors, that a node had during a recovery, at most */
	struct served served;	  /* the memory node, if there is one */
	struct served second;	  /* that of a second pool, of which only the end is looked at */
	char second_pool[MADE_POOL_NAME_BYTES];
};

/* A compute node's membership, as the registry says. */
struct herd_line {
	int joined;
	uint32_t cn;
	uint64_t id;
};

/*
 * From now on a memory node serves the pool of every herd, and the compute nodes of that mask
 * reach it over a socket; scheme as served_start() has it.  With `two` the cache lies on the pool
 * and on another one, which a memory node of its own serves; then the mask is all of them.
 */
void herd_reach_over(const char *program, const char *scheme, uint64_t nodes, int two);

/* Make the pool and start wish->nodes nodes. */
int herd_begin(struct herd *, const struct stress_wish *);

void herd_start(struct herd *, uint32_t node);

/* Stop all, wait for all; the pool must be at rest and everybody's values right.  Prints why not.
 */
int herd_end(struct herd *);

/* As herd_end(), but leaves the pool; stress_sum() may be called.  Then herd_forget(). */
int herd_finish(struct herd *);
void herd_forget(struct herd *);

/* Every running node makes so many operations from now on, and none dies. */
int herd_progress(struct herd *, uint64_t ops);

/* The line of the process in the registry, if it has one. */
struct herd_line herd_line_of(struct herd *, pid_t);

/* Is the line still that of the same life of that node? */
int herd_line_stands(struct herd *, const struct herd_line *);

/* Wait until the process has ended, by SIGKILL. */
int herd_reap(struct herd *, uint32_t node);

/*
 * Wait until somebody has recovered a dead node; *ms is the time since since_ns.  With `alone`
 * nobody can have taken the id since, so no chunk word may carry it.
 */
int herd_recovered(struct herd *, const struct herd_line *, uint64_t since_ns, int alone,
		   double *ms);

/*
 * Let every running node wait between two operations, and let the checker look at rest: nothing
 * is found, every chunk is in one place, and nobody in the registry is dead.
 */
int herd_conserved(struct herd *);

uint64_t herd_ops(const struct herd *);
uint64_t herd_hits(const struct herd *);
uint64_t herd_now_ns(void);
void herd_sleep_us(uint64_t us);

/* Times of recoveries, to be summed up. */
#define HERD_TIMES_MAX 4096u
struct herd_times {
	uint32_t count;
	double ms[HERD_TIMES_MAX];
};

void herd_times_add(struct herd_times *, double ms);
/* Sorts.  percent 0 is the least, 100 the most. */
double herd_times_at(struct herd_times *, unsigned percent);

#endif
