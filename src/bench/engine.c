/* engine.c: forks the compute nodes of a run, watches over them, and merges what they report. */
#include "bench/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "bench/shared.h"

#define WATCH_INTERVAL_US    5000u
#define PROGRESS_INTERVAL_NS 250000000u

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

const char *bench_latency_name(enum bench_latency l)
{
	static const char *const name[BENCH_LATENCIES] = {
	    [BENCH_GET_HIT] = "get_hit", [BENCH_GET_MISS] = "get_miss", [BENCH_SET] = "set",
	    [BENCH_DELETE] = "delete",	 [BENCH_FILL] = "fill",		[BENCH_ALL] = "all",
	};

	return name[l];
}

uint32_t bench_key(const struct bench_load *load, uint64_t key, void *buf)
{
	if (!load->binary_keys)
		return (uint32_t)load_key_text(key, buf);
	memcpy(buf, &key, sizeof(key));
	return sizeof(key);
}

void bench_space_add(struct bench_space *s, const struct plan *p)
{
	s->nodes++;
	s->pool_bytes += p->pool_bytes;
	s->metadata_bytes += plan_metadata_bytes(p);
	s->chunks += p->chunk_count;
	s->chunk_bytes += (uint64_t)p->chunk_count * p->chunk_bytes;
	s->objects += plan_capacity_objects(p);
}

struct bench_space bench_space_of(const struct bench_result *r)
{
	struct bench_space s = r->space;

	if (s.nodes == 0)
		bench_space_add(&s, &r->plan);
	return s;
}

/* The parent's view of its children. */
struct watch {
	struct bench_shared *shared;
	const struct bench_setup *setup;
	pid_t *pids; /* 0: has ended */
	uint32_t alive;
	uint64_t printed_ns;
	uint64_t printed_operations;
	bool line; /* a progress line stands unfinished */
	bool attached;
	int died; /* wait status of the first child that died, or 0 */
	pid_t died_pid;
};

static bool passed(const struct bench_shared *s, enum bench_barrier b)
{
	return atomic_load(&s->arrived[b]) >= s->worker_count;
}

static void print_progress(struct watch *w)
{
	const struct bench_shared *s = w->shared;
	uint64_t now = clock_now_ns(clock_monotonic());
	uint64_t operations = 0;
	struct text count, rate;

	if (!w->setup->progress || now - w->printed_ns < PROGRESS_INTERVAL_NS)
		return;
	for (uint32_t i = 0; i < s->worker_count; i++)
		operations += atomic_load_explicit(&s->workers[i].progress, memory_order_relaxed);
	double seconds = (double)(now - w->printed_ns) / 1e9;
	uint64_t more = operations > w->printed_operations ? operations - w->printed_operations : 0;

	fprintf(w->setup->progress, "\r%-9s %10s operations  %12s   ",
		passed(s, BARRIER_MEASURED)   ? "measured"
		: passed(s, BARRIER_WARM_UP)  ? "warm-up"
		: passed(s, BARRIER_ATTACHED) ? "preload"
					      : "attaching",
		text_count(&count, (double)operations), text_rate(&rate, (double)more / seconds));
	fflush(w->setup->progress);
	w->line = true;
	w->printed_ns = now;
	w->printed_operations = operations;
}

static void reap(struct watch *w, uint32_t process, int status)
{
	if ((!WIFEXITED(status) || WEXITSTATUS(status) != 0) && !w->died) {
		w->died = status;
		w->died_pid = w->pids[process];
		atomic_store(&w->shared->stopping, 1);
	}
	w->pids[process] = 0;
	w->alive--;
}

/* Until every child has ended, whatever happens to them. */
static void watch(struct watch *w)
{
	const struct timespec nap = {.tv_nsec = WATCH_INTERVAL_US * 1000};

	while (w->alive > 0) {
		int status;

		for (uint32_t i = 0; i < w->setup->processes; i++)
			if (w->pids[i] && waitpid(w->pids[i], &status, WNOHANG) == w->pids[i])
				reap(w, i, status);
		if (interrupted)
			atomic_store(&w->shared->stopping, 1);
		if (!w->attached && passed(w->shared, BARRIER_ATTACHED)) {
			w->attached = true;
			if (w->setup->attached)
				w->setup->attached(w->setup->attached_context);
		}
		print_progress(w);
		if (w->alive)
			nanosleep(&nap, NULL);
	}
	if (w->line)
		fprintf(w->setup->progress, "\r%60s\r", "");
}

static int start(struct watch *w, const struct bench_load *load)
{
	pid_t parent = getpid();

	fflush(NULL); /* or the children would print it again */
	for (uint32_t i = 0; i < w->setup->processes; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			atomic_store(&w->shared->stopping, 1);
			return FORGE_E_SYSTEM;
		}
		if (pid == 0) {
			/* The parent says when to stop, also after Ctrl-C; without it nobody. */
			signal(SIGINT, SIG_IGN);
			signal(SIGTERM, SIG_DFL);
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() == parent)
				bench_process(w->shared, w->setup, load, i);
			exit(0); /* not _exit(): sanitizers report at the end */
		}
		w->pids[i] = pid;
		w->alive++;
	}
	return 0;
}

void bench_result_add(struct bench_result *out, const struct bench_worker *w)
{
#define TALLY(name, sentence) out->tally.name += w->tally.name;
	BENCH_TALLIES(TALLY)
#undef TALLY
	cache_counters_merge(&out->cache, &w->cache);
	fab_counts_merge(&out->verbs, &w->verbs);
	for (unsigned i = 0; i < BENCH_LATENCIES; i++)
		hist_merge(&out->latency[i], &w->latency[i]);
	if (w->value_bytes_max > 0 &&
	    (out->value_bytes_max == 0 || w->value_bytes_min < out->value_bytes_min))
		out->value_bytes_min = w->value_bytes_min;
	out->value_bytes_max = max_u64(out->value_bytes_max, w->value_bytes_max);
}

static void merge(struct bench_result *out, const struct bench_setup *setup,
		  const struct bench_shared *s)
{
	uint64_t first = UINT64_MAX, last = 0, warm_up = 0;

	memset(out, 0, sizeof(*out));
	for (uint32_t i = 0; i < s->worker_count; i++) {
		const struct bench_worker *w = &s->workers[i];

		bench_result_add(out, w);
		first = min_u64(first, w->start_ns);
		last = max_u64(last, w->end_ns);
		warm_up = max_u64(warm_up, w->warm_up_ns);
	}
	out->rate = setup->rate;
	out->workers = s->worker_count;
	out->seconds = (double)(last - first) / 1e9;
	out->warm_up_seconds = (double)warm_up / 1e9;
	out->plan = s->workers[0].plan;
	out->space = s->workers[0].space;
	out->client_memory_bytes = s->workers[0].client_memory_bytes;
	memcpy(out->policy, s->workers[0].policy, sizeof(out->policy));
}

/* What went wrong first, if anything. */
static int verdict(const struct watch *w, int start_status, char *error_text, size_t error_bytes)
{
	uint32_t failed = atomic_load(&w->shared->failed);

	if (failed) {
		const struct bench_worker *worker = &w->shared->workers[failed - 1];

		snprintf(error_text, error_bytes, "worker %u: %s", failed - 1, worker->error);
		return worker->status;
	}
	if (start_status) {
		snprintf(
		    error_text, error_bytes,
		    "cannot start a process: lower --processes or raise the limit (ulimit -u)");
		return start_status;
	}
	if (w->died && WIFSIGNALED(w->died))
		snprintf(error_text, error_bytes, "compute node %d was killed by signal %d (%s)",
			 (int)w->died_pid, WTERMSIG(w->died), strsignal(WTERMSIG(w->died)));
	else if (w->died)
		snprintf(error_text, error_bytes, "compute node %d ended with status %d",
			 (int)w->died_pid, WEXITSTATUS(w->died));
	if (w->died)
		return FORGE_E_SYSTEM;
	if (interrupted) {
		snprintf(error_text, error_bytes, "stopped by signal %d", (int)interrupted);
		return FORGE_E_AGAIN;
	}
	return 0;
}

int bench_run(const struct bench_setup *setup, const struct bench_load *load,
	      struct bench_result *out, char *error_text, size_t error_bytes)
{
	struct sigaction catch = {.sa_handler = on_signal}, old[2];
	struct watch w = {.setup = setup};
	int status;

	w.shared = shared_create(setup, load, false);
	w.pids = calloc(setup->processes, sizeof(*w.pids));
	if (!w.shared || !w.pids) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		shared_destroy(w.shared);
		free(w.pids);
		return FORGE_E_NO_MEMORY;
	}
	interrupted = 0;
	sigaction(SIGINT, &catch, &old[0]);
	sigaction(SIGTERM, &catch, &old[1]);
	w.printed_ns = clock_now_ns(clock_monotonic());
	status = start(&w, load);
	watch(&w);
	sigaction(SIGINT, &old[0], NULL);
	sigaction(SIGTERM, &old[1], NULL);
	status = verdict(&w, status, error_text, error_bytes);
	if (!status)
		merge(out, setup, w.shared);
	shared_destroy(w.shared);
	free(w.pids);
	return status;
}
