/*
 * run.h: runs a load of bench/ in virtual time.
 *
 * The same loads, the same actors (bench/actor.h), the same result as an engine's run of processes;
 * only that each thread is virtual, and that what the network and the processors did is reported
 * beside it.  Points that share a warm-up: after it, this process is forked for each point and the
 * child measures, so every point starts from the very same memory and local state.
 *
 * For the tool, benchmarks and tests; on one thread, of a process that has no others if there is
 * more than one point.
 */
#ifndef FORGE_VTIME_RUN_H
#define FORGE_VTIME_RUN_H

#include "bench/engine.h"
#include "vtime/cluster.h"

/* What differs between points. */
struct vt_point {
	const struct vt_profile *profile;
	uint32_t free_purposes;
};

#define VT_POINTS_MAX 64u

struct vt_setup {
	const struct bench_setup *bench; /* processes: compute nodes; pool is not looked at */
	const struct plan *plan;	 /* of each memory node */
	uint32_t nodes;
	uint32_t cores; /* of a compute node; 0: one for each thread */
	/* Each compute node in turn stands still for pause_ns, each once in pause_every_ns; 0:
	 * none. */
	uint64_t pause_ns, pause_every_ns;
	bool check;	  /* after each point everybody drains, and the pools are checked */
	bool host_memory; /* hot words are in host memory, whatever the card has */
	FILE *trace;
	struct vt_point points[VT_POINTS_MAX];
	uint32_t point_count;
};

/* What stood in the way of more: the first part that was busy for so much of the time. */
enum vt_bound {
	VT_BOUND_LATENCY, /* nothing: threads waited for round trips */
	VT_BOUND_OPERATIONS,
	VT_BOUND_ATOMICS,
	VT_BOUND_LINK,
	VT_BOUND_CN_CARD,
	VT_BOUND_CN_LINK,
	VT_BOUND_CPU,
	VT_BOUNDS,
};

#define VT_BUSY_BOUND 0.9

/* "latency", ...; and a sentence. */
const char *vt_bound_name(enum vt_bound);
const char *vt_bound_sentence(enum vt_bound);

/* Of the measured part; shares of its time, of the busiest machine of each kind. */
struct vt_report {
	double card, held_up, atomics, link_in, link_out; /* memory node */
	double cn_card, cn_link_in, cn_link_out, cpu;	  /* compute node */
	double word_wait_ns; /* mean wait of an atomic for others on its word */
	enum vt_bound bound;
	uint64_t profile_hash;
	uint64_t run_hash; /* from the start of the world to the end of the measured part */
	uint64_t verbs;	   /* in all, warm-up included */
	uint64_t events;
	double
	    host_seconds; /* of this host's processor, for all of it; the only figure that varies */
};

/* What the world's parts did between two moments; verbs: meanwhile.  For run.c. */
void vt_report_fill(struct vt_report *, const struct vt_setup *, const struct vt_point *,
		    const struct vt_busy *before, const struct vt_busy *after,
		    const struct fab_counts *verbs);

/*
 * Run.  results and reports have point_count entries; a result is large (hundreds of KB).
 * error_text names what went wrong first.  0; as vt_cluster_open(); FORGE_E_CORRUPT for a wrong
 * value; FORGE_E_AGAIN when a signal stopped the run; FORGE_E_SYSTEM when a point's process died.
 */
int vt_run(const struct vt_setup *, const struct bench_load *, struct bench_result *results,
	   struct vt_report *reports, char *error_text, size_t error_bytes);

#endif
