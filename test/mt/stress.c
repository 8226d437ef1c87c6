/*
 * stress.c: the workers of stress.h and what they hold the cache to.
 *
 * The floor of a key is one word, 2 * version for "a Set of version was answered or its value was
 * seen" and 2 * version + 1 for "the Delete of version was answered".  A hit of version v is right
 * when 2 * v >= the floor read before the Get.  It only grows.  A Set that answers FORGE_E_AGAIN
 * may or may not have happened; the floor stays, which is sound for both.
 */
#include "stress.h"

#include "hosts.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/prng.h"
#include "load/value.h"
#include "jitter.h"
#include "made_pool.h"
#include "quiet.h"

struct ledger_key {
	_Atomic uint64_t floor;
	_Atomic uint64_t begun; /* the highest version that was begun */
};

/* One worker's corner of the ledger; others only read it. */
struct ledger_worker {
	_Atomic uint64_t done; /* operations; what the watchdog watches */
	_Atomic uint64_t hits;
	_Atomic uint64_t doom; /* verbs until it kills its process; 0: never */
	_Atomic uint32_t held; /* the last call to hold it has followed */
	_Atomic uint32_t key, doing;
	_Atomic uint32_t finished;
	struct stress_totals totals; /* written once, at the end */
};

struct stress {
	struct stress_wish wish;
	char pool_name[MADE_POOL_NAME_BYTES];
	char other_name[1024]; /* by which the nodes of other_nodes reach it */
	uint64_t other_nodes;
	_Atomic uint32_t ready; /* workers with a session; all start together */
	_Atomic uint32_t stop;
	_Atomic uint32_t hold;	 /* which call to hold, or 0 */
	uint32_t holds;		 /* how many there were; the driver's */
	_Atomic uint32_t failed; /* 1: somebody is writing failure[], 2: it is there */
	char failure[1024];
	struct ledger_worker workers[STRESS_WORKERS_MAX];
	size_t bytes;
	struct stress_totals sum;
	struct ledger_key keys[];
};

struct stress_worker {
	struct stress *s;
	struct client *client;
	struct session *session;
	struct fab *jitter; /* between the session and its connection, or NULL */
	struct ledger_worker *mine;
	struct stress_totals totals;
	struct prng prng;
	uint32_t number, of;
	uint8_t *value; /* [value_bytes_max or large_bytes_max] */
};

static const char *const doing_names[] = {"nothing", "Get", "Set", "Delete", "open", "close"};

PRINTF_LIKE(2, 3) static void give_failure(struct stress *s, const char *format, ...)
{
	uint32_t none = 0;
	va_list arguments;

	if (!atomic_compare_exchange_strong(&s->failed, &none, 1))
		return;
	va_start(arguments, format);
	vsnprintf(s->failure, sizeof(s->failure), format, arguments);
	va_end(arguments);
	atomic_store(&s->failed, 2);
}

/* ---- keys and values ---------------------------------------------------------------------- */

/* Keys of every length from 9 to 40 bytes, with zeroes in them; the id alone tells them apart. */
static uint32_t key_of(uint32_t id, uint8_t buf[64])
{
	uint64_t state = id, pattern = prng_splitmix64(&state);
	uint32_t bytes = 9 + (uint32_t)(pattern % 32);

	for (uint32_t i = 4; i < bytes; i++)
		buf[i] = (uint8_t)(pattern >> 8 * (i % 8));
	memcpy(buf, &id, 4);
	return bytes;
}

/* The length of a version of a key, so that a reader can tell. */
static uint32_t value_bytes_of(const struct stress_wish *w, uint32_t id, uint64_t version)
{
	uint64_t state = (uint64_t)id << 32 ^ version;

	if (w->large_bytes_max && prng_splitmix64(&state) % 100 < w->large_percent) {
		uint64_t length = prng_splitmix64(&state);

		/* Every eighth is as long as can be. */
		return length % 8 ? (uint32_t)(length / 8 % w->large_bytes_max) + 1
				  : w->large_bytes_max;
	}
	return (uint32_t)(prng_splitmix64(&state) % (w->value_bytes_max + 1));
}

static void raise_floor(struct ledger_key *k, uint64_t floor)
{
	uint64_t seen = atomic_load_explicit(&k->floor, memory_order_relaxed);

	/* Release: whoever reads it (A1) starts after what it tells about. */
	while (seen < floor &&
	       !atomic_compare_exchange_weak_explicit(&k->floor, &seen, floor, memory_order_release,
						      memory_order_relaxed))
		;
}

/* ---- operations --------------------------------------------------------------------------- */

static void wrong_value(struct stress_worker *w, uint32_t id, const struct cache_value *v,
			const char *what, uint64_t version, uint64_t floor)
{
	char text[256];

	value_describe(v->data, v->bytes, id, text, sizeof(text));
	give_failure(w->s,
		     "worker %u, op %" PRIu64 ": key %u: %s: %u bytes, version %" PRIu64
		     " (flags %u), floor %" PRIu64 "%s, begun %" PRIu64 "; %s",
		     w->number, atomic_load(&w->mine->done), id, what, v->bytes, version, v->flags,
		     floor / 2, floor % 2 ? " deleted" : "", atomic_load(&w->s->keys[id].begun),
		     text);
}

static void check_hit(struct stress_worker *w, uint32_t id, const struct cache_value *v,
		      uint64_t floor)
{
	struct ledger_key *k = &w->s->keys[id];
	uint64_t version = 0, begun;

	if (value_verify(v->data, v->bytes, id, &version) != VALUE_GOOD) {
		wrong_value(w, id, v, "not a value of this key", 0, floor);
		return;
	}
	begun = atomic_load_explicit(&k->begun, memory_order_acquire);
	/* Short values cannot hold a version of 64 bits; all versions here fit the flags. */
	if (v->bytes >= 16 && (uint32_t)version != v->flags) {
		wrong_value(w, id, v, "flags of another version", version, floor);
		return;
	}
	version = v->flags;
	if (v->bytes != value_bytes_of(&w->s->wish, id, version))
		wrong_value(w, id, v, "length of another version", version, floor);
	else if (version > begun || version == 0)
		wrong_value(w, id, v, "a version nobody has begun", version, floor);
	else if (!w->s->wish.many_writers && 2 * version < floor)
		wrong_value(w, id, v, "an older value came back", version, floor);
	else if (!w->s->wish.many_writers)
		raise_floor(k, 2 * version);
}

/* Statuses that are no failure but an answer. */
static int status_permitted(struct stress_worker *w, int status)
{
	w->totals.no_space += status == FORGE_E_NO_SPACE;
	w->totals.again += status == FORGE_E_AGAIN;
	return status == FORGE_E_AGAIN || (status == FORGE_E_NO_SPACE && w->s->wish.may_run_dry);
}

static void op_get(struct stress_worker *w, uint32_t id)
{
	uint8_t text[64];
	struct cache_key key = {text, key_of(id, text)};
	/* A1 */
	uint64_t floor = atomic_load_explicit(&w->s->keys[id].floor, memory_order_acquire);
	struct cache_value v;
	int status = session_get(w->session, key, &v);

	w->totals.gets++;
	if (status == 0) {
		w->totals.hits++;
		check_hit(w, id, &v, floor);
	} else if (status != FORGE_MISS && !status_permitted(w, status)) {
		give_failure(w->s, "worker %u: Get: %s", w->number, status_name(status));
	}
}

static void op_set(struct stress_worker *w, uint32_t id)
{
	struct ledger_key *k = &w->s->keys[id];
	uint8_t text[64];
	struct cache_key key = {text, key_of(id, text)};
	uint64_t version = atomic_fetch_add_explicit(&k->begun, 1, memory_order_acq_rel) + 1;
	struct cache_item item = {
	    .value = w->value,
	    .bytes = value_bytes_of(&w->s->wish, id, version),
	    .flags = (uint32_t)version,
	};

	value_fill(w->value, item.bytes, id, version, w->number);
	int status = session_set(w->session, key, &item);

	w->totals.sets++;
	if (status == 0)
		raise_floor(k, 2 * version);
	else if (!status_permitted(w, status))
		give_failure(w->s, "worker %u: Set: %s", w->number, status_name(status));
}

static void op_delete(struct stress_worker *w, uint32_t id)
{
	struct ledger_key *k = &w->s->keys[id];
	uint8_t text[64];
	struct cache_key key = {text, key_of(id, text)};
	uint64_t version = atomic_fetch_add_explicit(&k->begun, 1, memory_order_acq_rel) + 1;
	int status = session_delete(w->session, key);

	w->totals.deletes++;
	if (status == 0 || status == FORGE_MISS)
		raise_floor(k, 2 * version + 1);
	else if (!status_permitted(w, status))
		give_failure(w->s, "worker %u: Delete: %s", w->number, status_name(status));
}

/* Skewed: the rank is uniform below a uniform bound, twice. */
static uint32_t some_key(struct stress_worker *w)
{
	uint64_t bound = 1 + prng_below(&w->prng, w->s->wish.keys);

	return (uint32_t)prng_below(&w->prng, 1 + prng_below(&w->prng, bound));
}

/* A key this worker may write. */
static uint32_t own_key(struct stress_worker *w, uint32_t id)
{
	if (w->s->wish.many_writers)
		return id;
	id = id - id % w->of + w->number;
	return id < w->s->wish.keys ? id : w->number;
}

static void note_doing(struct stress_worker *w, uint32_t doing, uint32_t key)
{
	atomic_store_explicit(&w->mine->doing, doing, memory_order_relaxed);
	atomic_store_explicit(&w->mine->key, key, memory_order_relaxed);
}

static void one_op(struct stress_worker *w)
{
	const struct stress_wish *wish = &w->s->wish;
	uint64_t dice = prng_below(&w->prng, 100);
	uint32_t id = some_key(w);

	if (dice >= wish->set_percent + wish->delete_percent) {
		note_doing(w, 1, id);
		op_get(w, id);
		return;
	}
	id = own_key(w, id);
	note_doing(w, dice < wish->set_percent ? 2 : 3, id);
	if (dice < wish->set_percent)
		op_set(w, id);
	else
		op_delete(w, id);
}

static int worker_open_session(struct stress_worker *w)
{
	char error[256];

	note_doing(w, 4, 0);
	int status = session_open(w->client, &w->session, error, sizeof(error));

	if (status)
		give_failure(w->s, "worker %u: %s", w->number, error);
	if (!status && w->s->wish.jitter) {
		struct worker *below = session_worker(w->session);

		w->jitter = jitter_open(below->fab, prng_u64(&w->prng), &w->mine->doom);
		if (w->jitter)
			below->fab = w->jitter;
	}
	return status;
}

static void worker_close_session(struct stress_worker *w)
{
	note_doing(w, 5, 0);
	cache_counters_merge(&w->totals.count, session_counters(w->session));
	session_close(w->session);
	fab_close(w->jitter);
	w->session = NULL;
	w->jitter = NULL;
}

/* Between two operations nothing is half done. */
static void wait_while_held(struct stress_worker *w)
{
	const struct timespec pause = {.tv_nsec = 100000};
	uint32_t hold;

	while ((hold = atomic_load(&w->s->hold)) != 0 && !atomic_load(&w->s->failed)) {
		if (w->session)
			session_rest(w->session);
		atomic_store(&w->mine->held, hold);
		nanosleep(&pause, NULL);
	}
}

static int goes_on(struct stress_worker *w, uint64_t i)
{
	wait_while_held(w);
	return i < w->s->wish.ops && !atomic_load_explicit(&w->s->stop, memory_order_relaxed) &&
	       !atomic_load_explicit(&w->s->failed, memory_order_relaxed);
}

static void *worker_main(void *argument)
{
	struct stress_worker *w = argument;
	const struct stress_wish *wish = &w->s->wish;
	/* What the node did before it was killed and started again stays counted. */
	uint64_t done = atomic_load(&w->mine->done), hits = atomic_load(&w->mine->hits);

	if (worker_open_session(w))
		return NULL;
	atomic_fetch_add(&w->s->ready, 1);
	while (atomic_load(&w->s->ready) < w->of && !atomic_load(&w->s->failed))
		sched_yield();
	for (uint64_t i = 0; goes_on(w, i); i++) {
		if (wish->reopen_ops && i % wish->reopen_ops == wish->reopen_ops - 1) {
			worker_close_session(w);
			if (worker_open_session(w))
				return NULL;
		}
		one_op(w);
		atomic_store_explicit(&w->mine->done, done + i + 1, memory_order_relaxed);
		atomic_store_explicit(&w->mine->hits, hits + w->totals.hits, memory_order_relaxed);
	}
	worker_close_session(w);
	w->mine->totals = w->totals;
	return NULL;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static void node_threads(struct stress *s, struct client *client, uint32_t node)
{
	const struct stress_wish *wish = &s->wish;
	struct stress_worker *workers = calloc(wish->threads, sizeof(*workers));
	pthread_t *threads = calloc(wish->threads, sizeof(*threads));
	uint32_t started = 0;

	for (; workers && threads && started < wish->threads; started++) {
		struct stress_worker *w = &workers[started];

		w->s = s;
		w->client = client;
		w->number = node * wish->threads + started;
		w->of = wish->nodes * wish->threads;
		w->mine = &s->workers[w->number];
		w->value = malloc(max_u64(wish->value_bytes_max, wish->large_bytes_max) + 1);
		prng_seed(&w->prng, wish->seed * 1000 + w->number);
		if (!w->value || pthread_create(&threads[started], NULL, worker_main, w))
			break;
	}
	if (started < wish->threads)
		give_failure(s, "node %u: only %u threads could be started", node, started);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	for (uint32_t i = 0; workers && i < wish->threads; i++)
		free(workers[i].value);
	free(workers);
	free(threads);
}

void stress_node(struct stress *s, uint32_t node)
{
	struct client_options options = {
	    .policy = s->wish.policy,
	    .session_count = s->wish.threads,
	    .poll_interval_us = s->wish.poll_interval_us,
	    .seed = s->wish.seed + node,
	    .rules_off = s->wish.rules_off,
	};
	struct client *client;
	char error[256];

	const char *name = s->other_nodes >> node & 1 ? s->other_name : s->pool_name;

	if (client_open(name, &options, &client, error, sizeof(error))) {
		give_failure(s, "node %u: %s", node, error);
	} else {
		node_threads(s, client, node);
		client_close(client);
	}
	for (uint32_t i = 0; i < s->wish.threads; i++)
		atomic_store(&s->workers[node * s->wish.threads + i].finished, 1);
}

/* ---- watching ----------------------------------------------------------------------------- */

static uint64_t ops_done(const struct stress *s, uint32_t *unfinished)
{
	uint64_t done = 0;

	*unfinished = 0;
	for (uint32_t i = 0; i < s->wish.nodes * s->wish.threads; i++) {
		done += atomic_load_explicit(&s->workers[i].done, memory_order_relaxed);
		*unfinished += !atomic_load(&s->workers[i].finished);
	}
	return done;
}

void stress_give_up(struct stress *s, const char *why)
{
	char text[sizeof(s->failure)];
	int at = snprintf(text, sizeof(text), "%s;", why);

	for (uint32_t i = 0; i < s->wish.nodes * s->wish.threads; i++) {
		struct ledger_worker *w = &s->workers[i];

		if (at < (int)sizeof(text) && !atomic_load(&w->finished))
			at += snprintf(text + at, sizeof(text) - (size_t)at,
				       " worker %u: %s of key %u after %" PRIu64 " ops;", i,
				       doing_names[atomic_load(&w->doing)], atomic_load(&w->key),
				       atomic_load(&w->done));
	}
	give_failure(s, "%s", text);
	quiet_print(s->pool_name, stderr);
}

/* Watch until every worker has finished, or a child of ours has died of something, or a stall. */
static int watch(struct stress *s, const pid_t *children)
{
	uint64_t done = 0;
	unsigned still = 0;

	for (;;) {
		struct timespec interval = {.tv_nsec = 20000000};
		uint32_t unfinished;
		uint64_t now = ops_done(s, &unfinished);

		if (!unfinished)
			return 0;
		still = now == done ? still + 1 : 0;
		done = now;
		if (still > STRESS_STALL_S * 50) {
			stress_give_up(s, "no operation ended for a minute");
			return -1;
		}
		for (uint32_t i = 0; children && i < s->wish.nodes; i++) {
			siginfo_t info = {0};

			if (!waitid(P_PID, (id_t)children[i], &info, WEXITED | WNOHANG | WNOWAIT) &&
			    info.si_pid && (info.si_code != CLD_EXITED || info.si_status)) {
				give_failure(s, "node %u died: code %d, status %d", i, info.si_code,
					     info.si_status);
				return -1;
			}
		}
		nanosleep(&interval, NULL);
	}
}

struct node_start {
	struct stress *s;
	uint32_t node;
};

static void *node_main(void *argument)
{
	struct node_start *start = argument;

	stress_node(start->s, start->node);
	return NULL;
}

int stress_run_threads(struct stress *s)
{
	struct node_start starts[STRESS_WORKERS_MAX];
	pthread_t threads[STRESS_WORKERS_MAX];

	for (uint32_t node = 0; node < s->wish.nodes; node++) {
		starts[node] = (struct node_start){s, node};
		assert_int_equal(pthread_create(&threads[node], NULL, node_main, &starts[node]), 0);
	}
	if (watch(s, NULL)) {
		/* Threads that hang cannot be ended one by one. */
		fprintf(stderr, "%s\n", s->failure);
		abort();
	}
	for (uint32_t node = 0; node < s->wish.nodes; node++)
		pthread_join(threads[node], NULL);
	return atomic_load(&s->failed) ? -1 : 0;
}

pid_t stress_start_node(struct stress *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->wish.threads; i++)
		atomic_store(&s->workers[node * s->wish.threads + i].finished, 0);
	fflush(NULL);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		host_enter("FORGE_TEST_HOSTS", node);
		stress_node(s, node);
		fflush(NULL);
		_exit(0);
	}
	return pid;
}

int stress_run_processes(struct stress *s)
{
	pid_t children[STRESS_WORKERS_MAX];

	for (uint32_t node = 0; node < s->wish.nodes; node++)
		children[node] = stress_start_node(s, node);
	int hung = watch(s, children);

	for (uint32_t node = 0; node < s->wish.nodes; node++) {
		int status;

		if (hung)
			kill(children[node], SIGKILL);
		waitpid(children[node], &status, 0);
		if (status)
			give_failure(s, "node %u ended with wait status %x", node, status);
	}
	return atomic_load(&s->failed) ? -1 : 0;
}

/* ---- driving ------------------------------------------------------------------------------ */

void stress_stop(struct stress *s)
{
	atomic_store(&s->stop, 1);
}

void stress_hold(struct stress *s, int hold)
{
	atomic_store(&s->hold, hold ? ++s->holds : 0);
}

int stress_is_held(const struct stress *s, uint32_t node)
{
	uint32_t hold = atomic_load(&s->hold);

	for (uint32_t i = 0; i < s->wish.threads; i++)
		if (atomic_load(&s->workers[node * s->wish.threads + i].held) != hold)
			return 0;
	return 1;
}

uint64_t stress_node_ops(const struct stress *s, uint32_t node)
{
	uint64_t ops = 0;

	for (uint32_t i = 0; i < s->wish.threads; i++)
		ops += atomic_load(&s->workers[node * s->wish.threads + i].done);
	return ops;
}

uint64_t stress_node_hits(const struct stress *s, uint32_t node)
{
	uint64_t hits = 0;

	for (uint32_t i = 0; i < s->wish.threads; i++)
		hits += atomic_load(&s->workers[node * s->wish.threads + i].hits);
	return hits;
}

void stress_doom(struct stress *s, uint32_t node, uint64_t n)
{
	assert_true(s->wish.jitter);
	atomic_store(&s->workers[node * s->wish.threads].doom, n);
}

uint64_t stress_doom_left(const struct stress *s, uint32_t node)
{
	return atomic_load(&s->workers[node * s->wish.threads].doom);
}

/* ---- begin and end ------------------------------------------------------------------------ */

struct stress *stress_begin(const struct stress_wish *wish)
{
	const struct policy *policy = policy_find(wish->policy);
	size_t bytes = sizeof(struct stress) + wish->keys * sizeof(struct ledger_key);
	struct stress *s =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(s != MAP_FAILED);
	assert_non_null(policy);
	assert_true(wish->nodes * wish->threads <= STRESS_WORKERS_MAX);
	assert_true(wish->keys >= wish->nodes * wish->threads);
	struct plan_wish plan_wish = {
	    .chunk_count = wish->chunks,
	    .group_objects = wish->group_objects,
	    .object_bytes = wish->object_bytes,
	    .slot_words = policy->slot_words,
	    .cn_max = wish->cn_max ? wish->cn_max : wish->nodes,
	    .slots_per_object = wish->slots_per_object,
	    .value_bytes_max = wish->large_bytes_max,
	    .policy = wish->policy,
	};

	s->wish = *wish;
	s->bytes = bytes;
	made_pool_create(&plan_wish, s->pool_name);
	return s;
}

const char *stress_failure(const struct stress *s)
{
	return s->failure;
}

void stress_reach_by(struct stress *s, const char *name, uint64_t nodes)
{
	assert_true(strlen(name) < sizeof(s->other_name));
	strcpy(s->other_name, name);
	s->other_nodes = nodes;
}

const char *stress_pool_name(const struct stress *s)
{
	return s->pool_name;
}

int stress_at_rest(struct stress *s)
{
	char reason[512];
	int result = quiet_check(s->pool_name, reason, sizeof(reason));

	if (result)
		give_failure(s, "the pool at rest: %s", reason);
	return result;
}

int stress_check_pool(struct stress *s)
{
	int result = stress_at_rest(s);

	if (result)
		quiet_print(s->pool_name, stderr);
	return result;
}

const struct stress_totals *stress_sum(struct stress *s)
{
	struct stress_totals *sum = &s->sum;

	memset(sum, 0, sizeof(*sum));
	for (uint32_t i = 0; i < s->wish.nodes * s->wish.threads; i++) {
		const struct stress_totals *t = &s->workers[i].totals;

		sum->gets += t->gets;
		sum->hits += t->hits;
		sum->sets += t->sets;
		sum->deletes += t->deletes;
		sum->no_space += t->no_space;
		sum->again += t->again;
		cache_counters_merge(&sum->count, &t->count);
	}
	return sum;
}

void stress_end(struct stress *s)
{
	made_pool_unlink(s->pool_name);
	munmap(s, s->bytes);
}
