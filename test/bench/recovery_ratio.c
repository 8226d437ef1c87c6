/*
 * recovery_ratio.c: what compute nodes still do while others die and are recovered.
 *
 *	recovery_ratio [ROUNDS]		20 by default
 *
 * Four processes run a verified load on a pool that evicts all the time.  Slices of 400 ms
 * alternate: in one nobody dies; in the next one node is killed by kill -9 and started again every
 * 40 ms, so its chunks are recovered ten times by the other three or by its successor.  What the
 * three do is counted in both, and the order changes from round to round.
 *
 * A node that is being started leaves its processor to the others, so with fewer processors than
 * processes the rate by the clock favours the slices with deaths.  The rate by the processor time
 * the three used does not: what they wait, they wait running.  Both ratios (of medians) are
 * printed.  Exit status 1 when either is below 0.5, or when a wrong value, a hang or a lost chunk
 * was found.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/parse.h"
#include "herd.h"

#define NODES	   4u
#define SLICE_US   400000u
#define KILL_US	   40000u
#define ROUNDS_MAX 200u
#define RATIO_MIN  0.5
#define VICTIM	   (NODES - 1)

static struct herd herd;
/* Rates of a kind of slice, in operations per millisecond. */
struct rates {
	struct herd_times by_clock, by_cpu;
};

static struct rates normal, disturbed;
static struct herd_times recovery;

static uint64_t survivors_ops(void)
{
	uint64_t ops = 0;

	for (uint32_t node = 0; node < VICTIM; node++)
		ops += stress_node_ops(herd.s, node);
	return ops;
}

static uint64_t survivors_cpu_ns(void)
{
	uint64_t ns = 0;

	for (uint32_t node = 0; node < VICTIM; node++) {
		clockid_t clock;
		struct timespec t;

		if (clock_getcpuclockid(herd.pids[node], &clock) || clock_gettime(clock, &t)) {
			fprintf(stderr, "the processor time of a process cannot be read\n");
			exit(1);
		}
		ns += (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	}
	return ns;
}

/* One death; the rest of its time is for the recovery and its successor. */
static int kill_victim(void)
{
	struct herd_line line = herd_line_of(&herd, herd.pids[VICTIM]);
	uint64_t start_ns = herd_now_ns();
	double ms;

	kill(herd.pids[VICTIM], SIGKILL);
	if (herd_reap(&herd, VICTIM))
		return -1;
	herd_start(&herd, VICTIM);
	if (line.joined) {
		if (herd_recovered(&herd, &line, start_ns, 0, &ms))
			return -1;
		herd_times_add(&recovery, ms);
	}
	uint64_t took_us = (herd_now_ns() - start_ns) / 1000;

	if (took_us < KILL_US)
		herd_sleep_us(KILL_US - took_us);
	return 0;
}

static int slice(int kills, struct rates *rates)
{
	uint64_t start_ns = herd_now_ns(), ops = survivors_ops(), cpu_ns = survivors_cpu_ns();
	uint64_t end_ns;

	do {
		if (kills && kill_victim())
			return -1;
		if (!kills)
			herd_sleep_us(KILL_US);
		end_ns = herd_now_ns();
	} while (end_ns - start_ns < UINT64_C(1000) * SLICE_US);
	double done = 1e6 * (double)(survivors_ops() - ops);

	herd_times_add(&rates->by_clock, done / (double)(end_ns - start_ns));
	herd_times_add(&rates->by_cpu, done / (double)(survivors_cpu_ns() - cpu_ns));
	return 0;
}

static void print_rates(const char *what, struct herd_times *t)
{
	printf("  %s: %.0f operations/ms of the three others (80 %% of slices: %.0f to %.0f)\n",
	       what, herd_times_at(t, 50), herd_times_at(t, 10), herd_times_at(t, 90));
}

/* Is the ratio good enough? */
static int judge(const char *by, struct herd_times *without, struct herd_times *with)
{
	double ratio = herd_times_at(with, 50) / herd_times_at(without, 50);

	printf("by %s:\n", by);
	print_rates("nobody dies", without);
	print_rates("a death every 40 ms", with);
	printf("  with deaths / without: %.2f; target: at least %.1f: %s\n", ratio, RATIO_MIN,
	       ratio >= RATIO_MIN ? "met" : "MISSED");
	return ratio >= RATIO_MIN;
}

int main(int argc, char **argv)
{
	const struct stress_wish wish = {
	    .policy = "forge",
	    .chunks = 1024,
	    .group_objects = 16,
	    .object_bytes = 100,
	    .cn_max = NODES + 2,
	    .nodes = NODES,
	    .threads = 1,
	    .ops = UINT64_MAX,
	    .keys = 40000,
	    .value_bytes_max = 200,
	    .set_percent = 10,
	    .delete_percent = 1,
	    .seed = 1,
	};
	uint64_t rounds = 20;

	if (argc > 1 && (parse_u64(argv[1], &rounds) || rounds < 1 || rounds > ROUNDS_MAX)) {
		fprintf(stderr, "usage: recovery_ratio [ROUNDS]\n");
		return 2;
	}
	int failed = herd_begin(&herd, &wish) || herd_progress(&herd, 200000);

	for (uint64_t round = 0; round < rounds && !failed; round++)
		for (int half = 0; half < 2 && !failed; half++) {
			int kills = half != (int)(round % 2);

			/* The last death of the slice before is over. */
			failed = herd_progress(&herd, 1000) ||
				 slice(kills, kills ? &disturbed : &normal);
		}
	failed = herd_end(&herd) || failed;
	if (failed)
		return 1;
	printf("%u processes, %u chunks of %u objects, %u %% Sets, shm; %" PRIu64
	       " rounds of two slices of %u ms\n",
	       NODES, wish.chunks, wish.group_objects, wish.set_percent, rounds, SLICE_US / 1000);
	printf("%u recoveries, done %.1f ms after the kill at least, %.1f median, %.1f most\n",
	       recovery.count, herd_times_at(&recovery, 0), herd_times_at(&recovery, 50),
	       herd_times_at(&recovery, 100));
	int met = judge("the clock", &normal.by_clock, &disturbed.by_clock);

	met &= judge("processor time", &normal.by_cpu, &disturbed.by_cpu);
	return met ? 0 : 1;
}
