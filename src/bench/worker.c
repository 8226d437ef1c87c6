/*
 * worker.c: one compute node of a run, and what each of its threads does: an actor over a session
 * of the client, in the host's time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "bench/actor.h"

struct task {
	struct bench_actor actor;
	struct client *client;
	struct session *session;
	pthread_t thread;
};

static uint64_t now_ns(void)
{
	return clock_now_ns(clock_monotonic());
}

/* What a backend would take to give the value. */
static void penalty(struct bench_actor *a, uint64_t ns)
{
	uint64_t until = now_ns() + ns;
	struct timespec at = {.tv_sec = (time_t)(until / 1000000000u),
			      .tv_nsec = (long)(until % 1000000000u)};

	if (ns < 100000) /* a sleep takes longer than that */
		while (now_ns() < until)
			;
	else
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
}

static void settle(struct task *t, const struct cache_counters *cache,
		   const struct fab_counts *verbs)
{
	const struct cache_counters *now = session_counters(t->session);
	struct bench_worker *out = t->actor.out;

#define COUNTER(name, sentence) out->cache.name = now->name - cache->name;
	CACHE_COUNTERS(COUNTER)
#undef COUNTER
	out->verbs = fab_counts_since(session_verbs(t->session), verbs);
}

static void measure(struct task *t)
{
	struct bench_actor *a = &t->actor;
	const struct bench_setup *setup = a->setup;

	if (setup->preload && actor_preload(a))
		return;
	/* Who waits for the others must not hold what they need. */
	session_rest(t->session);
	if (!shared_barrier(a->shared, BARRIER_WARM_UP))
		return;
	uint64_t start = now_ns();

	if (bench_warms_up(setup, a->load) && actor_part(a, &setup->warm_up))
		return;
	a->out->warm_up_ns = now_ns() - start;
	actor_forget(a);
	session_rest(t->session);
	struct cache_counters cache = *session_counters(t->session);
	struct fab_counts verbs = *session_verbs(t->session);

	if (!shared_barrier(a->shared, BARRIER_MEASURED))
		return;
	a->measured = true;
	a->out->start_ns = now_ns();
	if (actor_part(a, &setup->measured))
		return;
	a->out->end_ns = now_ns();
	settle(t, &cache, &verbs);
	session_rest(t->session);
	/* Leaving seals and gives chunks back; not while others are measured. */
	shared_barrier(a->shared, BARRIER_DONE);
}

static void *task_main(void *argument)
{
	struct task *t = argument;
	struct bench_actor *a = &t->actor;
	struct bench_place place = {0};
	char text[sizeof(a->out->error)];
	int status = session_open(t->client, &t->session, text, sizeof(text));

	if (status) {
		actor_fail(a, status, "%s", text);
		return NULL;
	}
	a->view = session_view(t->session);
	a->may_lose_nodes = client_member_count(t->client) > 1;
	if (!actor_begin(a, &place) && shared_barrier(a->shared, BARRIER_ATTACHED))
		measure(t);
	/* Whoever waits for this worker's place in the trace must not wait for ever. */
	atomic_store(&a->shared->positions[(uint64_t)a->index * BENCH_POSITION_STRIDE], UINT64_MAX);
	session_close(t->session);
	actor_end(a);
	return NULL;
}

static void run_tasks(struct task *tasks, uint32_t count)
{
	uint32_t started = 0;

	while (started < count) {
		int error =
		    pthread_create(&tasks[started].thread, NULL, task_main, &tasks[started]);

		if (error) {
			actor_fail(&tasks[started].actor, FORGE_E_SYSTEM, "starting a thread: %s",
				   strerror(error));
			break;
		}
		started++;
	}
	for (uint32_t i = 0; i < started; i++)
		pthread_join(tasks[i].thread, NULL);
}

void bench_process(struct bench_shared *s, const struct bench_setup *setup,
		   const struct bench_load *load, uint32_t process)
{
	struct task *tasks = calloc(setup->threads, sizeof(*tasks));
	uint32_t first = process * setup->threads;
	struct bench_actor alone = {.shared = s, .out = &s->workers[first], .index = first};
	struct client_options options = {
	    .policy = setup->policy,
	    .session_count = setup->threads,
	    .poll_interval_us = setup->poll_interval_us,
	    .open_groups = setup->open_groups,
	    .dead_percent = setup->dead_percent,
	    .count_verbs = !setup->no_verb_counts,
	    .seed = setup->seed * 1000 + first,
	};
	char text[400];
	struct client *client = NULL;
	int status = tasks ? client_open(setup->pool, &options, &client, text, sizeof(text))
			   : FORGE_E_NO_MEMORY;

	if (!tasks || status) {
		actor_fail(&alone, status, "%s", tasks ? text : status_sentence(status));
		free(tasks);
		return;
	}
	alone.out->plan = client_pool(client)->plan;
	for (uint32_t i = 0; i < client_member_end(client); i++) {
		struct client_member member;

		client_member(client, i, &member);
		if (member.is_up)
			bench_space_add(&alone.out->space, &member.pool.plan);
	}
	alone.out->client_memory_bytes = client_memory_bytes(client);
	snprintf(alone.out->policy, sizeof(alone.out->policy), "%s", client_policy(client)->name);
	for (uint32_t i = 0; i < setup->threads; i++)
		tasks[i] = (struct task){
		    .actor = {.shared = s,
			      .setup = setup,
			      .load = load,
			      .out = &s->workers[first + i],
			      .index = first + i,
			      .clock = clock_monotonic(),
			      .wait_ns = penalty},
		    .client = client,
		};
	run_tasks(tasks, setup->threads);
	client_close(client);
	free(tasks);
}
