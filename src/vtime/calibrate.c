/*
 * calibrate.c: closed loops of single verbs, and the table of what is published.
 *
 * An experiment has threads of one or two kinds.  Each posts batches of its kind's verb, all of one
 * size, to addresses drawn at random from 32 MiB (or always to one), and waits for each batch. They
 * begin at random moments of the first 2 us.  READs beside CASes are as many threads of each, with
 * one verb at a time, so that the two kinds meet the card one by one and not in bursts.
 * After a warm-up of 100 us of virtual time the verbs completed in 400 us are counted (tcp: 100
 * times as long).
 */
#include "vtime/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "vtime/world.h"

#define REGION_BYTES (UINT64_C(32) << 20)
#define SPARE_BYTES  (UINT64_C(1) << 20) /* a verb may begin anywhere in the region */
#define THREADS_MAX  512u
#define DEPTH_MAX    64u
#define CNS	     4u
#define WARM_UP_NS   100000u
#define MEASURED_NS  400000u
#define SPREAD_NS    2000u
#define SLOW_NS	     10000u /* a round trip from which on everything takes 100 times as long */
#define SLOW_TIMES   100u

/* What a kind of threads does. */
struct stream {
	uint32_t threads;
	uint32_t depth; /* verbs of a batch */
	enum fab_code code;
	uint32_t bytes;
	bool device;
	bool one_word;
};

struct experiment {
	struct stream streams[2];
};

/* What is read off an experiment. */
enum reading {
	RATE,	  /* of the first stream, Mops/s */
	GOODPUT,  /* of the first stream, GB/s of payload */
	LATENCY,  /* mean of a batch of the first stream, ns */
	SLOWDOWN, /* of the first stream by the second: its rate alone / beside */
	RELIEF,	  /* the slowdown with the second stream in host memory / in device memory */
};

struct comparison {
	const char *profile, *what;
	enum reading reading;
	struct experiment experiment;
	double low, high;
	const char *source;
};

#define READS(n, d, size)                                                 \
	{                                                                 \
		.threads = n, .depth = d, .code = FAB_READ, .bytes = size \
	}
#define WRITES(n, d, size)                                                 \
	{                                                                  \
		.threads = n, .depth = d, .code = FAB_WRITE, .bytes = size \
	}
#define ATOMICS(n, d, verb, where)                                                  \
	{                                                                           \
		.threads = n, .depth = d, .code = verb, .bytes = 8, .device = where \
	}
#define ONE_WORD(n, verb, where)                                                     \
	{                                                                            \
		.threads = n, .depth = 1, .code = verb, .bytes = 8, .device = where, \
		.one_word = true                                                     \
	}

#define FIGURE_1 "FORGE, figure 1"
#define FIGURE_2 "FORGE, figure 2"
#define WORD	 "design, 480 and 118 ns"
#define LINK	 "12.5 GB/s less headers"

#define ROW(of, text, read_off, stream, number, from)                \
	{                                                            \
		of, text, read_off, {{stream}}, number, number, from \
	}
#define ROW_BESIDE(of, text, read_off, stream, beside, least, most, from) \
	{                                                                 \
		of, text, read_off, {{stream, beside}}, least, most, from \
	}

static const struct comparison comparisons[] = {
    ROW("cx5", "one READ of 8 bytes", LATENCY, READS(1, 1, 8), 2000, FIGURE_1),
    ROW("cx5", "WRITE alone", RATE, WRITES(64, 16, 8), 107, FIGURE_2),
    ROW("cx5", "READ alone", RATE, READS(64, 16, 8), 88, FIGURE_2),
    ROW("cx5", "CAS alone, host memory", RATE, ATOMICS(64, 16, FAB_CAS, false), 20, FIGURE_2),
    ROW("cx5", "FAA alone, host memory", RATE, ATOMICS(64, 16, FAB_FAA, false), 20, FIGURE_2),
    ROW("cx5", "CAS alone, device memory", RATE, ATOMICS(64, 16, FAB_CAS, true), 98, FIGURE_2),
    ROW_BESIDE("cx5", "READ beside CAS in host memory, slower", SLOWDOWN, READS(256, 1, 8),
	       ATOMICS(256, 1, FAB_CAS, false), 4.3, 4.3, FIGURE_2),
    ROW_BESIDE("cx5", "... in device memory, better than that", RELIEF, READS(256, 1, 8),
	       ATOMICS(256, 1, FAB_CAS, true), 2.4, 3.0, FIGURE_2),
    ROW("cx5", "FAA on one word of host memory", RATE, ONE_WORD(32, FAB_FAA, false), 1 / .480,
	WORD),
    ROW("cx5", "FAA on one word of device memory", RATE, ONE_WORD(32, FAB_FAA, true), 1 / .118,
	WORD),
    ROW("cx5", "READ of 64 bytes", RATE, READS(64, 16, 64), 88, FIGURE_2),
    ROW("cx5", "READ of 256 bytes", GOODPUT, READS(64, 16, 256), 12.5 * 256 / 286, LINK),
    ROW("cx5", "READ of 1 KiB", GOODPUT, READS(64, 16, 1024), 12.5 * 1024 / 1054, LINK),
    ROW("cx5", "READ of 4 KiB", GOODPUT, READS(64, 16, 4096), 12.5 * 4096 / 4126, LINK),
    ROW("cx5", "READ of 64 KiB", GOODPUT, READS(16, 1, 65536), 12.5 * 4096 / 4122, LINK),
    ROW("cx5", "WRITE of 1 KiB", GOODPUT, WRITES(64, 16, 1024), 12.5 * 1024 / 1066, LINK),
    ROW("cx5", "READ, one thread, depth 1", RATE, READS(1, 1, 8), 1 / 2.0, "1 in 2 us"),
    ROW("cx5", "READ, one thread, depth 4", RATE, READS(1, 4, 8), 4 / 2.0, "4 in 2 us"),
    ROW("cx5", "READ, one thread, depth 16", RATE, READS(1, 16, 8), 16 / 2.17,
	"16 in 2 us and 15 x 11.4 ns"),
    ROW("cx5", "READ, one thread, depth 64", RATE, READS(1, 64, 8), 16 / 2.17, "16 outstanding"),
    ROW("cx6", "WRITE alone", RATE, WRITES(128, 16, 8), 215, "ConnectX-6 manual"),
    ROW("cx6", "READ of 4 KiB", GOODPUT, READS(64, 16, 4096), 25.0 * 4096 / 4126,
	"25 GB/s less headers"),
    ROW("cxl", "one READ of 8 bytes", LATENCY, READS(1, 1, 8), 350, FIGURE_1),
    ROW("cxl", "READ of 4 KiB", GOODPUT, READS(64, 1, 4096), 32.0 * 64 / 68, "32 GB/s, flits"),
    ROW("tcp", "one READ of 256 bytes", LATENCY, READS(1, 1, 256), 21000, "cpu_cost, tcp"),
};

struct loop {
	struct lab *lab;
	const struct stream *stream;
	struct vt_thread *thread;
	struct fab *fab;
	struct worker worker;
	uint8_t *buf;
	struct fab_op ops[DEPTH_MAX];
};

struct lab {
	const struct experiment *experiment;
	uint64_t from_ns, until_ns; /* what is counted */
	struct loop loops[THREADS_MAX];
	uint32_t loop_count;
	uint64_t verbs[2], batches[2], batch_ns[2]; /* of each stream */
	int status;
};

static void fill_batch(struct loop *l)
{
	const struct stream *s = l->stream;

	for (uint32_t i = 0; i < s->depth; i++) {
		uint64_t at = s->one_word ? 0 : prng_below(&l->worker.prng, REGION_BYTES / 64) * 64;
		uint64_t address = s->device ? REGION_BYTES + SPARE_BYTES + at : at;

		l->ops[i] = s->code == FAB_READ	   ? fab_read(FAB_DATA, address, l->buf, s->bytes)
			    : s->code == FAB_WRITE ? fab_write(FAB_DATA, address, l->buf, s->bytes)
			    : s->code == FAB_CAS   ? fab_cas(FAB_DATA, address, 0, 1)
						   : fab_faa(FAB_DATA, address, 1);
	}
}

static void loop_main(void *argument)
{
	struct loop *l = argument;
	struct lab *lab = l->lab;
	const unsigned which = l->stream == &lab->experiment->streams[1];

	/* Not one kind after the other, nor in step. */
	vt_sleep(l->thread, prng_below(&l->worker.prng, SPREAD_NS));
	for (;;) {
		uint64_t start_ns = clock_now_ns(l->worker.clock);

		fill_batch(l);
		if (flow_run(&l->worker, l->ops, l->stream->depth)) {
			lab->status = FORGE_E_BOUNDS;
			return;
		}
		uint64_t now_ns = clock_now_ns(l->worker.clock);

		if (now_ns >= lab->until_ns)
			return;
		if (now_ns < lab->from_ns)
			continue;
		lab->verbs[which] += l->stream->depth;
		lab->batches[which]++;
		lab->batch_ns[which] += now_ns - start_ns;
	}
}

static uint32_t threads_of_cn(const struct experiment *e)
{
	return (e->streams[0].threads + e->streams[1].threads + CNS - 1) / CNS;
}

static int open_loops(struct lab *lab, struct vt_world *w)
{
	for (unsigned s = 0; s < 2; s++) {
		for (uint32_t i = 0; i < lab->experiment->streams[s].threads; i++) {
			struct loop *l = &lab->loops[lab->loop_count];

			assert(lab->loop_count < THREADS_MAX);
			l->lab = lab;
			l->stream = &lab->experiment->streams[s];
			/* Threads of a kind are spread over the compute nodes. */
			l->thread =
			    vt_thread_at(w, lab->loop_count % CNS * threads_of_cn(lab->experiment) +
						lab->loop_count / CNS);
			l->buf = calloc(1, l->stream->bytes);
			if (!l->buf || vt_connect(l->thread, 0, &l->fab))
				return FORGE_E_NO_MEMORY;
			vt_worker_init(l->thread, &l->worker, l->fab, lab->loop_count + 1);
			vt_spawn(l->thread, loop_main, l);
			lab->loop_count++;
		}
	}
	return 0;
}

static void close_loops(struct lab *lab)
{
	/* The last one may have got no further than its buffer. */
	for (uint32_t i = 0; i < THREADS_MAX; i++) {
		fab_close(lab->loops[i].fab);
		free(lab->loops[i].buf);
	}
}

/* Run; counts are in lab afterwards, and the time they took in *ns. */
static int run(const struct vt_profile *p, const struct experiment *e, struct lab *lab, double *ns)
{
	struct vt_world_options options = {
	    .profile = p,
	    .nodes = 1,
	    .node_bytes = 2 * (REGION_BYTES + SPARE_BYTES),
	    .cns = CNS,
	    .threads = threads_of_cn(e),
	    .seed = 1,
	};
	uint64_t times = p->round_trip >= SLOW_NS ? SLOW_TIMES : 1;
	struct vt_world *w = NULL;
	int status = vt_world_create(&options, &w);

	if (status)
		return status;
	memset(lab, 0, sizeof(*lab));
	lab->experiment = e;
	lab->from_ns = clock_now_ns(vt_world_clock(w)) + times * WARM_UP_NS;
	lab->until_ns = lab->from_ns + times * MEASURED_NS;
	*ns = (double)(times * MEASURED_NS);
	vt_node_set_hot(w, 0, REGION_BYTES + SPARE_BYTES, options.node_bytes);
	status = open_loops(lab, w);
	if (!status)
		status = vt_world_run(w);
	close_loops(lab);
	vt_world_destroy(w);
	return status ? status : lab->status;
}

static int measure(const struct vt_profile *p, const struct experiment *e, enum reading reading,
		   struct lab *lab, double *out)
{
	double ns, alone, host;
	struct experiment other = *e;
	int status;

	if (reading == SLOWDOWN) {
		other.streams[1] = (struct stream){0};
		status = measure(p, &other, RATE, lab, &alone);
		if (!status)
			status = measure(p, e, RATE, lab, out);
		if (!status)
			*out = alone / *out;
		return status;
	}
	if (reading == RELIEF) {
		other.streams[1].device = false;
		status = measure(p, &other, SLOWDOWN, lab, &host);
		if (!status)
			status = measure(p, e, SLOWDOWN, lab, out);
		if (!status)
			*out = host / *out;
		return status;
	}
	status = run(p, e, lab, &ns);
	if (status)
		return status;
	*out = reading == LATENCY ? (double)lab->batch_ns[0] / (double)lab->batches[0]
	       : reading == RATE  ? (double)lab->verbs[0] / ns * 1000
				  : (double)lab->verbs[0] * e->streams[0].bytes / ns;
	return 0;
}

static double distance(double model, double low, double high)
{
	return model < low ? (low - model) / low : model > high ? (model - high) / high : 0;
}

int vt_calibrate(const struct vt_profile *p, void (*found)(void *, const struct vt_calibration *),
		 void *context)
{
	static const char *const unit[] = {
	    [RATE] = "Mops/s",	  [GOODPUT] = "GB/s", [LATENCY] = "ns",
	    [SLOWDOWN] = "times", [RELIEF] = "times",
	};
	struct lab *lab = calloc(1, sizeof(*lab));
	int status = lab ? 0 : FORGE_E_NO_MEMORY, off = 0;

	for (unsigned i = 0; i < ARRAY_COUNT(comparisons) && !status; i++) {
		const struct comparison *c = &comparisons[i];
		struct vt_calibration row = {
		    .what = c->what,
		    .unit = unit[c->reading],
		    .low = c->low,
		    .high = c->high,
		    .source = c->source,
		};

		if (strcmp(c->profile, p->name) != 0)
			continue;
		status = measure(p, &c->experiment, c->reading, lab, &row.model);
		row.off = distance(row.model, c->low, c->high);
		off += row.off > VT_CALIBRATION_TOLERANCE;
		if (!status)
			found(context, &row);
	}
	free(lab);
	return status ? status : off;
}
