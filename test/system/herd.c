/* herd.c: see herd.h. */
#include "herd.h"

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "check/check.h"
#include "support/clean.h"

uint64_t herd_now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

void herd_sleep_us(uint64_t us)
{
	struct timespec t = {.tv_sec = (time_t)(us / 1000000),
			     .tv_nsec = (long)(us % 1000000 * 1000)};

	nanosleep(&t, NULL);
}

PRINTF_LIKE(2, 3) static int give_up(struct herd *h, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	stress_give_up(h->s, text);
	fprintf(stderr, "%s\n", stress_failure(h->s));
	return -1;
}

/* How the nodes of herds reach their pools; no scheme: all of them map it. */
static struct {
	const char *program, *scheme;
	uint64_t nodes;
	int two;
} reach;

void herd_reach_over(const char *program, const char *scheme, uint64_t nodes, int two)
{
	reach.program = program;
	reach.scheme = scheme;
	reach.nodes = nodes;
	reach.two = two;
}

/* A second pool like the first one, and its memory node. */
static int serve_second(struct herd *h, const struct stress_wish *wish)
{
	struct plan_wish plan_wish = {
	    .chunk_count = wish->chunks,
	    .group_objects = wish->group_objects,
	    .object_bytes = wish->object_bytes,
	    .slot_words = h->pool.plan.slot_words,
	    .cn_max = h->pool.plan.cn_max,
	    .value_bytes_max = wish->large_bytes_max,
	    .policy = wish->policy,
	};

	made_pool_create(&plan_wish, h->second_pool);
	return served_start(&h->second, reach.program, h->second_pool, reach.scheme);
}

static int serve(struct herd *h, const struct stress_wish *wish)
{
	char list[sizeof(h->served.name) + sizeof(h->second.name)];

	if (served_start(&h->served, reach.program, stress_pool_name(h->s), reach.scheme) ||
	    (reach.two && serve_second(h, wish)))
		return give_up(h, "no memory node");
	snprintf(list, sizeof(list), "%s%s%s", h->served.name, reach.two ? "," : "",
		 h->second.name);
	stress_reach_by(h->s, list, reach.nodes);
	return 0;
}

/* Whoever died last may not have been recovered there. */
static int end_second(struct herd *h)
{
	const struct check_options crashed = {.crashed = 1};
	int status = served_end(&h->second, SIGTERM);
	uint64_t live = assert_pool_clean(h->second_pool, &crashed);

	made_pool_unlink(h->second_pool);
	if (status)
		return give_up(h, "the second memory node ended with wait status %x",
			       (unsigned)status);
	return live > 0 ? 0 : give_up(h, "nothing is on the second memory node");
}

int herd_begin(struct herd *h, const struct stress_wish *wish)
{
	char error[256] = "";

	*h = (struct herd){.nodes = wish->nodes};
	assert_true(wish->nodes <= HERD_NODES_MAX);
	h->s = stress_begin(wish);
	int status = shm_map_open(stress_pool_name(h->s), 0, error, sizeof(error), &h->map);

	if (!status)
		status = shm_open_connection(h->map, &h->fab);
	if (!status) {
		worker_init(&h->worker, h->fab, clock_monotonic(), 1);
		status = pool_open(&h->worker, &h->pool, error, sizeof(error));
	}
	if (status)
		return give_up(h, "the driver: %s %s", status_name(status), error);
	if (reach.scheme && serve(h, wish))
		return -1;
	for (uint32_t node = 0; node < h->nodes; node++)
		herd_start(h, node);
	return 0;
}

void herd_start(struct herd *h, uint32_t node)
{
	h->pids[node] = stress_start_node(h->s, node);
}

/* ---- watching ----------------------------------------------------------------------------- */

/* Has a node that should run ended, or a worker found something wrong? */
static int someone_failed(struct herd *h)
{
	if (stress_failure(h->s)[0]) {
		fprintf(stderr, "%s\n", stress_failure(h->s));
		return -1;
	}
	for (uint32_t node = 0; node < h->nodes; node++) {
		siginfo_t info = {0};

		if (h->pids[node] &&
		    !waitid(P_PID, (id_t)h->pids[node], &info, WEXITED | WNOHANG | WNOWAIT) &&
		    info.si_pid)
			return give_up(h, "node %u ended by itself: code %d, status %d", node,
				       info.si_code, info.si_status);
	}
	return 0;
}

/* ---- patience ----------------------------------------------------------------------------- */

/* From now on one waits for a process to go on; 0: for anybody. */
static void begin_waiting(struct herd *h, pid_t pid)
{
	uint64_t now_ns = herd_now_ns();

	h->patience = (struct herd_patience){
	    .pid = pid, .began_ns = now_ns, .looked_ns = now_ns, .end_ns = now_ns + HERD_STALL_NS};
}

/* It went on, as this number tells that changes then: it has all its time again. */
static void see_progress(struct herd *h, uint64_t progress)
{
	struct herd_patience *p = &h->patience;

	if (progress == p->progress)
		return;
	p->progress = progress;
	p->end_ns = p->looked_ns + HERD_STALL_NS;
	p->witness.noted_ns = 0;
}

static void note_all(struct herd *h)
{
	struct witness *w = &h->patience.witness;

	witness_begin(w);
	witness_add(w, h->patience.pid);
	for (uint32_t node = 0; node < h->nodes; node++)
		if (h->pids[node] != h->patience.pid)
			witness_add(w, h->pids[node]);
	witness_add(w, h->served.pid);
	witness_add(w, h->second.pid);
	witness_add(w, getpid());
	witness_note(w);
}

static int host_is_to_blame(const struct herd *h)
{
	const struct witness *w = &h->patience.witness;
	int blamed = 0;

	if (h->patience.pid)
		return witness_blames_host(w, h->patience.pid) ||
		       (h->served.pid && witness_blames_host(w, h->served.pid));
	for (unsigned i = 0; i < w->pid_count; i++)
		blamed |= w->pids[i] != getpid() && witness_blames_host(w, w->pids[i]);
	return blamed;
}

/*
 * Has whoever we wait for had all its time?  Then everybody's state is printed.  Time in which this
 * process did not run is none that others had: the host was away, or whoever stopped us stopped
 * them, too.  Nor is time in which the host kept it from going on, up to a bound.
 */
static int is_late(struct herd *h)
{
	struct herd_patience *p = &h->patience;
	uint64_t now_ns = herd_now_ns(), gone_ns = now_ns - p->looked_ns;

	p->looked_ns = now_ns;
	p->away_ns = max_u64(p->away_ns, gone_ns);
	h->waited_ns = max_u64(h->waited_ns, now_ns - p->began_ns);
	if (gone_ns > HERD_AWAY_NS)
		p->end_ns += gone_ns;
	if (!p->witness.noted_ns && (int64_t)(p->end_ns - now_ns) < (int64_t)HERD_STALL_NS / 2)
		note_all(h);
	if (now_ns < p->end_ns)
		return 0;
	if (p->extensions < HERD_EXTENSIONS_MAX && host_is_to_blame(h)) {
		p->extensions++;
		p->end_ns = now_ns + HERD_STALL_NS;
		p->witness.noted_ns = 0;
		return 0;
	}
	fprintf(stderr,
		"no progress for %d s, %u times more because of the host; the driver looked every "
		"%.1f ms at least\n",
		HERD_STALL_S, p->extensions, 1e-6 * (double)p->away_ns);
	witness_print(&p->witness, stderr);
	return 1;
}

int herd_progress(struct herd *h, uint64_t ops)
{
	uint64_t from[HERD_NODES_MAX], done;

	for (uint32_t node = 0; node < h->nodes; node++)
		from[node] = stress_node_ops(h->s, node);
	for (uint32_t node = 0; node < h->nodes; node++) {
		begin_waiting(h, h->pids[node]);
		while (h->pids[node] && (done = stress_node_ops(h->s, node)) - from[node] < ops) {
			see_progress(h, done);
			if (someone_failed(h))
				return -1;
			if (is_late(h))
				return give_up(h, "node %u makes no progress", node);
			herd_sleep_us(200);
		}
	}
	return someone_failed(h);
}

static void read_lines(struct herd *h)
{
	assert_int_equal(registry_read(&h->pool, &h->worker, FAB_CONTROL, h->lines), 0);
}

struct herd_line herd_line_of(struct herd *h, pid_t pid)
{
	read_lines(h);
	for (uint32_t cn = 0; cn < h->pool.plan.cn_max; cn++)
		if (registry_state(h->lines[cn].id) != REGISTRY_FREE &&
		    registry_pid(h->lines[cn].id) == (uint32_t)pid)
			return (struct herd_line){1, cn, h->lines[cn].id};
	return (struct herd_line){0};
}

int herd_line_stands(struct herd *h, const struct herd_line *line)
{
	read_lines(h);
	return h->lines[line->cn].id == line->id;
}

int herd_reap(struct herd *h, uint32_t node)
{
	pid_t pid = h->pids[node], ended;
	int status = 0;

	begin_waiting(h, pid);
	h->pids[node] = 0;
	while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
		/* One that is doomed has some way to go. */
		see_progress(h, stress_doom_left(h->s, node));
		if (is_late(h)) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return give_up(h, "node %u did not die", node);
		}
		herd_sleep_us(50);
	}
	if (ended != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return give_up(h, "node %u ended with wait status %x", node, (unsigned)status);
	return 0;
}

static int carries(uint64_t word, uint32_t cn)
{
	uint32_t state = chunk_state(word);

	return (state == CHUNK_RESERVED || state == CHUNK_OPEN || state == CHUNK_EVICTING) &&
	       chunk_owner(word) == cn;
}

/* What the process has had of processors; 0: it is gone. */
static uint64_t cpu_ns_of(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int herd_recovered(struct herd *h, const struct herd_line *line, uint64_t since_ns, int alone,
		   double *ms)
{
	const struct plan *p = &h->pool.plan;
	uint64_t cpu_ns[HERD_NODES_MAX] = {0};

	for (uint32_t node = 0; node < h->nodes; node++)
		if (h->pids[node])
			cpu_ns[node] = cpu_ns_of(h->pids[node]);

	begin_waiting(h, 0);
	while (herd_line_stands(h, line)) {
		if (someone_failed(h))
			return -1;
		if (is_late(h))
			return give_up(h, "nobody recovers CN %u", line->cn);
		herd_sleep_us(50);
	}
	*ms = 1e-6 * (double)(herd_now_ns() - since_ns);
	for (uint32_t node = 0; node < h->nodes; node++)
		if (h->pids[node])
			h->recovery_cpu_ns =
			    max_u64(h->recovery_cpu_ns, cpu_ns_of(h->pids[node]) - cpu_ns[node]);
	for (uint32_t chunk = 0; alone && chunk < p->chunk_count; chunk++) {
		uint64_t word;
		struct fab_op op =
		    fab_read(FAB_CONTROL, plan_chunk_word_address(p, chunk), &word, 8);

		assert_int_equal(flow_run(&h->worker, &op, 1), 0);
		if (carries(word, line->cn))
			return give_up(h, "CN %u was recovered, but chunk %u is %016" PRIx64,
				       line->cn, chunk, word);
	}
	return 0;
}

/* ---- conservation ------------------------------------------------------------------------- */

static void found(void *context, const struct check_finding *f)
{
	struct herd *h = context;

	if (!stress_failure(h->s)[0])
		give_up(h, "%s at %" PRIx64 ": %s", check_rule_name(f->rule), f->address, f->text);
}

static int check_at_rest(struct herd *h)
{
	const struct check_options options = {0};
	struct check_report r;

	int status = check_pool(&h->worker, &h->pool, &options, &r, found, h);
	uint64_t chunks =
	    r.chunks_free + r.chunks_reserved + r.chunks_open + r.chunks_queued + r.chunks_part;
	uint64_t running = 0;

	if (status)
		return give_up(h, "the checker: %s", status_name(status));
	if (r.findings)
		return -1;
	for (uint32_t node = 0; node < h->nodes; node++)
		running += h->pids[node] != 0;
	if (chunks != h->pool.plan.chunk_count)
		return give_up(h, "%u chunks, but %" PRIu64 " are in their places",
			       h->pool.plan.chunk_count, chunks);
	if (r.cns_dead || r.cns_live != running)
		return give_up(h,
			       "%" PRIu64 " nodes run, the registry knows %" PRIu64
			       " live and %" PRIu64 " dead",
			       running, r.cns_live, r.cns_dead);
	return 0;
}

int herd_conserved(struct herd *h)
{
	int result = 0;

	stress_hold(h->s, 1);
	for (uint32_t node = 0; node < h->nodes && !result; node++) {
		begin_waiting(h, h->pids[node]);
		while (h->pids[node] && !stress_is_held(h->s, node) && !result) {
			result = someone_failed(h);
			if (is_late(h))
				result = give_up(h, "node %u does not end its operation", node);
			herd_sleep_us(100);
		}
	}
	if (!result)
		result = check_at_rest(h);
	stress_hold(h->s, 0);
	return result;
}

/* ---- the end ------------------------------------------------------------------------------ */

static int is_running(pid_t pid)
{
	siginfo_t info = {0};

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

int herd_finish(struct herd *h)
{
	int result = someone_failed(h);

	stress_stop(h->s);
	for (uint32_t node = 0; node < h->nodes; node++) {
		int status = 0;

		if (!h->pids[node])
			continue;
		begin_waiting(h, h->pids[node]);
		/* After a failure nobody can be trusted to end. */
		while (!result && is_running(h->pids[node])) {
			if (is_late(h))
				result = give_up(h, "node %u does not end", node);
			herd_sleep_us(1000);
		}
		if (result)
			kill(h->pids[node], SIGKILL);
		waitpid(h->pids[node], &status, 0);
		h->pids[node] = 0;
		if (!result && status)
			result =
			    give_up(h, "node %u ended with wait status %x", node, (unsigned)status);
	}
	fab_close(h->fab);
	shm_map_close(h->map);
	if (h->served.pid) {
		int status = served_end(&h->served, SIGTERM);

		if (!result && status)
			result = give_up(h, "the memory node ended with wait status %x",
					 (unsigned)status);
	}
	if (h->second.pid && end_second(h))
		result = -1;
	if (!result && stress_check_pool(h->s)) {
		fprintf(stderr, "%s\n", stress_failure(h->s));
		result = -1;
	}
	return result;
}

void herd_forget(struct herd *h)
{
	stress_end(h->s);
}

int herd_end(struct herd *h)
{
	int result = herd_finish(h);

	herd_forget(h);
	return result;
}

uint64_t herd_ops(const struct herd *h)
{
	uint64_t ops = 0;

	for (uint32_t node = 0; node < h->nodes; node++)
		ops += stress_node_ops(h->s, node);
	return ops;
}

uint64_t herd_hits(const struct herd *h)
{
	uint64_t hits = 0;

	for (uint32_t node = 0; node < h->nodes; node++)
		hits += stress_node_hits(h->s, node);
	return hits;
}

void herd_times_add(struct herd_times *t, double ms)
{
	if (t->count < HERD_TIMES_MAX)
		t->ms[t->count++] = ms;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double herd_times_at(struct herd_times *t, unsigned percent)
{
	if (!t->count)
		return 0;
	qsort(t->ms, t->count, sizeof(t->ms[0]), compare);
	return t->ms[(uint64_t)(t->count - 1) * percent / 100];
}
