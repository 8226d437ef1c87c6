/* run.c: the parts of a run in virtual time, one after the other, and what came of them. */
#include "vtime/run.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "bench/actor.h"
#include "vtime/fault.h"

#define PROGRESS_INTERVAL_NS 250000000u
/* Who is ahead of the others in a trace looks again after so long: a quarter of a Get. */
#define ORDER_NAP_NS 1000u

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
	interrupted = number;
}

/* What this process has used of the host's processor; a forked one begins anew. */
static uint64_t processor_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A virtual thread of the run. */
struct member {
	struct bench_actor actor;
	struct run *run;
	struct vt_thread *thread;
	bool begun;
};

struct run {
	const struct vt_setup *setup;
	const struct bench_load *load;
	struct vt_cluster cluster;
	struct bench_shared *shared;
	struct member *members;
	uint32_t member_count;
	const char *part; /* for the progress line */
	uint64_t begun_ns, printed_ns, printed_verbs;
	uint64_t spent_ns;		     /* of this host's processor, up to the measured part */
	uint64_t pause_at_ns[LAYOUT_CN_MAX]; /* the next one of each compute node; 0: not known */
	bool line;			     /* a progress line stands unfinished */
	uint64_t worked_ns;		     /* all threads together, in the measured part */
	int (*work)(struct member *);
};

/* Stand still now and then: by whichever thread of the compute node begins an operation then. */
static void pause_when_due(struct run *r, struct vt_thread *t)
{
	uint32_t cn = vt_thread_cn(t);
	uint64_t now_ns = clock_now_ns(vt_world_clock(r->cluster.world));

	if (now_ns < r->pause_at_ns[cn])
		return;
	/* The first time they take turns. */
	if (r->pause_at_ns[cn])
		vt_pause(r->cluster.world, cn, now_ns + r->setup->pause_ns);
	else
		now_ns += cn * r->setup->pause_every_ns / r->cluster.options.world.cns;
	r->pause_at_ns[cn] = now_ns + r->setup->pause_every_ns;
}

static struct cache *route(struct bench_actor *a, struct cache_key key)
{
	struct member *m = (struct member *)a;
	struct vt_cluster *c = &m->run->cluster;
	uint32_t node = c->options.world.nodes > 1 ? vt_node_of(c, key) : 0;

	if (m->run->setup->pause_ns)
		pause_when_due(m->run, m->thread);
	vt_work(m->thread, vt_world_profile(c->world)->cpu_operation);
	return &vt_session_at(c, a->index, node)->cache;
}

static void wait_ns(struct bench_actor *a, uint64_t ns)
{
	vt_sleep(((struct member *)a)->thread, ns);
}

static void nap(void *member)
{
	vt_sleep(((struct member *)member)->thread, ORDER_NAP_NS);
}

static void print_progress(void *context)
{
	struct run *r = context;
	uint64_t now_ns = clock_now_ns(clock_monotonic());
	uint64_t verbs = vt_world_verbs(r->cluster.world);
	FILE *out = r->setup->bench->progress;
	struct text count, rate, time;

	if (interrupted)
		atomic_store(&r->shared->stopping, 1);
	if (!out || now_ns - r->printed_ns < PROGRESS_INTERVAL_NS)
		return;
	double seconds = (double)(now_ns - r->printed_ns) / 1e9;

	fprintf(out, "\r%-9s %10s operations  %10s virtual  %12s verbs   ", r->part,
		text_count(&count, (double)r->shared->workers[0].tally.operations),
		text_duration(&time, clock_now_ns(vt_world_clock(r->cluster.world)) - r->begun_ns),
		text_rate(&rate, (double)(verbs - r->printed_verbs) / seconds));
	fflush(out);
	r->line = true;
	r->printed_ns = now_ns;
	r->printed_verbs = verbs;
}

static void member_main(void *argument)
{
	struct member *m = argument;

	m->run->work(m);
}

/* All threads do one part; then the world stands still.  0, or why the run has failed. */
static int do_part(struct run *r, const char *name, int (*work)(struct member *))
{
	r->part = name;
	r->work = work;
	for (uint32_t i = 0; i < r->member_count; i++)
		vt_spawn(r->members[i].thread, member_main, &r->members[i]);
	int status = vt_world_run(r->cluster.world);
	struct bench_worker *out = &r->shared->workers[0];

	if (!status && !atomic_load(&r->shared->failed))
		return interrupted ? FORGE_E_AGAIN : 0;
	if (!status)
		return out->status;
	snprintf(out->error, sizeof(out->error), "%s: %s", name,
		 status == FORGE_E_AGAIN ? "a thread waits for what never comes"
					 : status_sentence(status));
	return status;
}

static int attach(struct member *m)
{
	struct bench_place place = {.pause = nap, .pause_context = m};
	int status = vt_sessions_begin(&m->run->cluster, m->actor.index);

	if (status)
		return actor_fail(&m->actor, status, "attaching: %s", status_sentence(status));
	m->begun = true;
	return actor_begin(&m->actor, &place);
}

static int preload(struct member *m)
{
	return actor_preload(&m->actor);
}

static int warm_up(struct member *m)
{
	return actor_part(&m->actor, &m->actor.setup->warm_up);
}

static int measure(struct member *m)
{
	struct bench_worker *out = m->actor.out;
	int status;

	m->actor.measured = true;
	status = actor_part(&m->actor, &m->actor.setup->measured);
	uint64_t now_ns = clock_now_ns(m->actor.clock);

	out->end_ns = max_u64(out->end_ns, now_ns);
	m->run->worked_ns += now_ns - out->start_ns;
	return status;
}

static int open_members(struct run *r)
{
	const struct bench_setup *bench = r->setup->bench;

	r->member_count = bench->processes * bench->threads;
	r->members = calloc(r->member_count, sizeof(*r->members));
	r->shared = shared_create(bench, r->load, true);
	if (!r->members || !r->shared)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < r->member_count; i++) {
		struct vt_thread *t = vt_thread_at(r->cluster.world, i);

		r->members[i] = (struct member){
		    .actor = {.shared = r->shared,
			      .setup = bench,
			      .load = r->load,
			      .out = &r->shared->workers[0],
			      .index = i,
			      .clock = vt_thread_clock(t),
			      .route = route,
			      .wait_ns = wait_ns},
		    .run = r,
		    .thread = t,
		};
	}
	return 0;
}

static int prepare(struct run *r, char *error_text, size_t error_bytes)
{
	const struct vt_setup *s = r->setup;
	struct vt_cluster_options options = {
	    .world = {.profile = s->points[0].profile,
		      .nodes = s->nodes,
		      .cns = s->bench->processes,
		      .threads = s->bench->threads,
		      .cores = s->cores,
		      .seed = s->bench->seed},
	    .plan = *s->plan,
	    .policy = s->bench->policy ? s->bench->policy : s->plan->policy,
	    .poll_interval_us = s->bench->poll_interval_us,
	    .open_groups = s->bench->open_groups,
	    .dead_percent = s->bench->dead_percent,
	    .host_memory = s->host_memory,
	    .trace = s->trace,
	};
	int status = vt_cluster_open(&r->cluster, &options, error_text, error_bytes);

	if (!status && open_members(r)) {
		status = FORGE_E_NO_MEMORY;
		snprintf(error_text, error_bytes, "%s", status_sentence(status));
	}
	if (status)
		return status;
	r->begun_ns = clock_now_ns(vt_world_clock(r->cluster.world));
	vt_world_set_progress(r->cluster.world, print_progress, r);
	return 0;
}

/* Everything up to the measured part. */
static int lead_up(struct run *r)
{
	int status = do_part(r, "attaching", attach);
	uint64_t start_ns;

	if (!status && r->setup->bench->preload)
		status = do_part(r, "preload", preload);
	start_ns = clock_now_ns(vt_world_clock(r->cluster.world));
	if (!status && bench_warms_up(r->setup->bench, r->load))
		status = do_part(r, "warm-up", warm_up);
	r->shared->workers[0].warm_up_ns =
	    clock_now_ns(vt_world_clock(r->cluster.world)) - start_ns;
	actor_forget(&r->members[0].actor);
	return status;
}

static void fill_result(struct run *r, const struct cache_counters *cache_before,
			const struct fab_counts *verbs_before, struct bench_result *out)
{
	struct bench_worker *w = &r->shared->workers[0];
	struct cache_counters now;

	vt_cluster_counts(&r->cluster, &now);
#define COUNTER(name, sentence) w->cache.name = now.name - cache_before->name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	w->verbs = fab_counts_since(vt_world_counts(r->cluster.world), verbs_before);
	memset(out, 0, sizeof(*out));
	bench_result_add(out, w);
	out->rate = r->setup->bench->rate;
	out->workers = r->member_count;
	/*
	 * Of a part that lasts so long, and not so many operations: the mean over threads, lest one
	 * whose last operation takes long count as if all had stood still meanwhile.
	 */
	out->seconds = r->setup->bench->measured.ns ? (double)r->worked_ns / r->member_count / 1e9
						    : (double)(w->end_ns - w->start_ns) / 1e9;
	out->warm_up_seconds = (double)w->warm_up_ns / 1e9;
	out->plan = *r->setup->plan;
	out->client_memory_bytes = r->setup->nodes * cn_memory_bytes(r->setup->plan);
	snprintf(out->policy, sizeof(out->policy), "%s", r->cluster.policy->name);
}

static int drain(struct member *m)
{
	int status = vt_sessions_drain(&m->run->cluster, m->actor.index);

	return status ? actor_fail(&m->actor, status, "leaving: %s", status_sentence(status)) : 0;
}

static int check(struct run *r)
{
	struct bench_worker *w = &r->shared->workers[0];
	int status = do_part(r, "leaving", drain);

	return status ? status : vt_cluster_check(&r->cluster, w->error, sizeof(w->error));
}

static int measure_point(struct run *r, const struct vt_point *point, struct bench_result *result,
			 struct vt_report *report)
{
	struct vt_world *world = r->cluster.world;
	struct bench_worker *w = &r->shared->workers[0];
	struct cache_counters cache;
	struct fab_counts verbs = *vt_world_counts(world);
	struct vt_busy before, after;
	uint64_t start_ns = processor_ns();

	vt_world_set_profile(world, point->profile);
	vt_world_set_free_purposes(world, point->free_purposes);
	vt_cluster_counts(&r->cluster, &cache);
	vt_world_busy(world, &before);
	w->start_ns = w->end_ns = clock_now_ns(vt_world_clock(world));
	int status = do_part(r, "measured", measure);

	if (status)
		return status;
	vt_world_busy(world, &after);
	fill_result(r, &cache, &verbs, result);
	/* What was busy, as a share of the time that the result says it took. */
	after.now_ps = before.now_ps + (uint64_t)(result->seconds * 1e12);
	vt_report_fill(report, r->setup, point, &before, &after, &result->verbs);
	report->run_hash = vt_world_hash(world);
	report->verbs = vt_world_verbs(world);
	report->events = vt_world_events(world);
	report->host_seconds = (double)(r->spent_ns + processor_ns() - start_ns) / 1e9;
	return r->setup->check ? check(r) : 0;
}

/* What a forked child leaves for its parent. */
struct outcome {
	int status;
	char error[512];
	struct bench_result result;
	struct vt_report report;
};

static int fork_point(struct run *r, const struct vt_point *point, struct outcome *o)
{
	int wait_status;

	fflush(NULL); /* or the child would print it again */
	pid_t pid = fork();

	if (pid < 0) {
		snprintf(o->error, sizeof(o->error), "cannot start a process for a point");
		return FORGE_E_SYSTEM;
	}
	if (pid == 0) {
		o->status = measure_point(r, point, &o->result, &o->report);
		memcpy(o->error, r->shared->workers[0].error, sizeof(o->error));
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &wait_status, 0) != pid)
		;
	if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
		return o->status;
	snprintf(o->error, sizeof(o->error), "the process of a point died");
	return FORGE_E_SYSTEM;
}

static int measure_points(struct run *r, struct bench_result *results, struct vt_report *reports)
{
	const struct vt_setup *s = r->setup;
	int status = 0;

	if (s->point_count == 1)
		return measure_point(r, &s->points[0], results, reports);
	struct outcome *o =
	    mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (o == MAP_FAILED)
		return FORGE_E_NO_MEMORY;
	for (uint32_t i = 0; i < s->point_count && !status; i++) {
		status = fork_point(r, &s->points[i], o);
		memcpy(r->shared->workers[0].error, o->error, sizeof(o->error));
		results[i] = o->result;
		reports[i] = o->report;
	}
	munmap(o, sizeof(*o));
	return status;
}

static void close_run(struct run *r)
{
	if (r->line)
		fprintf(r->setup->bench->progress, "\r%70s\r", "");
	for (uint32_t i = 0; r->members && i < r->member_count; i++)
		actor_end(&r->members[i].actor);
	free(r->members);
	shared_destroy(r->shared);
	vt_cluster_close(&r->cluster);
}

int vt_run(const struct vt_setup *setup, const struct bench_load *load,
	   struct bench_result *results, struct vt_report *reports, char *error_text,
	   size_t error_bytes)
{
	struct run r = {.setup = setup, .load = load};
	struct sigaction catch = {.sa_handler = on_signal}, old[2];
	uint64_t start_ns = processor_ns();

	interrupted = 0;
	sigaction(SIGINT, &catch, &old[0]);
	sigaction(SIGTERM, &catch, &old[1]);
	int status = prepare(&r, error_text, error_bytes);

	if (!status) {
		status = lead_up(&r);
		r.spent_ns = processor_ns() - start_ns;
		if (!status)
			status = measure_points(&r, results, reports);
		if (status)
			snprintf(error_text, error_bytes, "%s",
				 interrupted			 ? "stopped by a signal"
				 : r.shared->workers[0].error[0] ? r.shared->workers[0].error
								 : status_sentence(status));
	}
	sigaction(SIGINT, &old[0], NULL);
	sigaction(SIGTERM, &old[1], NULL);
	close_run(&r);
	return status;
}
