/* attachment.c: attaching a process to one memory node. */
#include "client/attachment.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "client/forked.h"
#include "client/host.h"
#include "pool/recover.h"

/*
 * While somebody recovers a dead node he holds the lock of its id, and for a moment also when he
 * only looks: an id that will be free soon cannot be told from one that is in use.  So a joiner
 * that finds none tries for half a second, many times what a recovery takes (doc/recovery.md).
 * It is the time that bounds this, for a try asks for every lock, which behind a socket is a round
 * trip each; and between tries it naps as long as the last one took, lest joiners keep the node
 * from those it serves.  A few tries are made however long they take.
 */
#define JOIN_NAP_NS    UINT64_C(2000000)
#define JOIN_NS	       UINT64_C(500000000)
#define JOIN_TRIES_MIN 3u

static int choose_policy(struct attachment *a, char *error_text, size_t error_bytes)
{
	const struct plan *p = &a->pool.plan;
	const char *name = a->options->policy ? a->options->policy : p->policy;

	a->policy = policy_find(name);
	if (!a->policy) {
		char list[256];

		snprintf(error_text, error_bytes,
			 "there is no policy \"%s\" in this build; there are %s", name,
			 policy_names(list, sizeof(list)));
		return FORGE_E_INVAL;
	}
	if (a->policy->slot_words != p->slot_words) {
		snprintf(error_text, error_bytes,
			 "policy %s needs slots of %u bytes, the pool was formatted for %s with "
			 "slots of %u: leave the policy out, or make another pool with --policy "
			 "%s",
			 name, 8 * a->policy->slot_words, p->policy, 8 * p->slot_words, name);
		return FORGE_E_INVAL;
	}
	return 0;
}

int attachment_connect(struct attachment *a, struct fab **out)
{
	int status = link_connect(a->link, out);

	if (!status && a->options->wrap) {
		struct fab *inner = *out;

		*out = NULL;
		status = a->options->wrap(a->options->wrap_context, a->pool.pool_id, inner, out);
	}
	return status;
}

static int look(struct attachment *a, char *error_text, size_t error_bytes)
{
	int status = link_connect(a->link, &a->fab);

	if (status) {
		snprintf(error_text, error_bytes, "connecting: %s", attachment_why(status));
		return status;
	}
	worker_init(&a->worker, a->fab, clock_monotonic(), a->options->seed);
	status = pool_open(&a->worker, &a->pool, error_text, error_bytes);
	a->pool.clock = link_clock(a->link);
	a->pool.rules_off = a->options->rules_off;
	if (!status && link_base(a->link))
		status = host_check(&a->pool, error_text, error_bytes);
	if (!status)
		status = choose_policy(a, error_text, error_bytes);
	if (status || !a->options->wrap)
		return status;
	/* Now it is known whose connection it is. */
	struct fab *inner = a->fab;

	a->fab = NULL;
	status = a->options->wrap(a->options->wrap_context, a->pool.pool_id, inner, &a->fab);
	a->worker.fab = a->fab;
	if (status)
		snprintf(error_text, error_bytes, "connecting: %s", attachment_why(status));
	return status;
}

int attachment_open(const char *name, const struct client_options *options, struct cancel *cancel,
		    struct attachment **out, char *error_text, size_t error_bytes)
{
	struct attachment *a = calloc(1, sizeof(*a));

	if (!a) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	a->options = options;
	a->forked_mark = forked_mark();
	atomic_store(&a->counts, 1);
	int status =
	    link_open_with(name, 0, options->access, cancel, &a->link, error_text, error_bytes);

	if (!status) {
		char why[384];

		status = look(a, why, sizeof(why));
		if (status)
			snprintf(error_text, error_bytes, "%s: %s", name, why);
	}
	if (status) {
		attachment_drop(a);
		return status;
	}
	*out = a;
	return 0;
}

/* Who died before us left chunks and ids behind; ours may be among them. */
static int try_to_join(struct attachment *a, uint32_t spread_epoch, struct layout_registry *lines)
{
	const struct cn_options options = {
	    .worker_count = a->options->session_count,
	    .poll_interval_us = a->options->poll_interval_us,
	    .open_groups = a->options->open_groups,
	    .dead_percent = a->options->dead_percent,
	    .spread_epoch = spread_epoch,
	    .alive = link_liveness(a->link),
	};
	struct recover_report report = {0};
	uint32_t dead_count;
	int status = recover_dead_open(&a->pool, &a->worker, options.alive, &report, &dead_count);

	return status ? status
		      : cn_open(&a->cn, &a->pool, a->policy, &a->worker, &options,
				(uint32_t)getpid(), lines);
}

static void nap(uint64_t ns)
{
	const struct timespec t = {.tv_nsec = (long)ns};

	nanosleep(&t, NULL);
}

static int join(struct attachment *a, uint32_t spread_epoch)
{
	struct layout_registry *lines = calloc(a->pool.plan.cn_max, sizeof(*lines));
	uint64_t began_ns = clock_now_ns(clock_monotonic()), try_ns = began_ns, now_ns;
	int status = lines ? try_to_join(a, spread_epoch, lines) : FORGE_E_NO_MEMORY;

	for (unsigned tries = 1; status == FORGE_E_FULL_REGISTRY; tries++) {
		now_ns = clock_now_ns(clock_monotonic());
		if (tries >= JOIN_TRIES_MIN && now_ns - began_ns >= JOIN_NS)
			break;
		nap(max_u64(JOIN_NAP_NS, min_u64(now_ns - try_ns, JOIN_NS / 8)));
		try_ns = clock_now_ns(clock_monotonic());
		status = try_to_join(a, spread_epoch, lines);
	}
	free(lines);
	return status;
}

int attachment_join(struct attachment *a, uint32_t spread_epoch, char *error_text,
		    size_t error_bytes)
{
	int status = join(a, spread_epoch);

	a->is_joined = status == 0;
	if (status == FORGE_E_FULL_REGISTRY)
		snprintf(error_text, error_bytes,
			 "all %u compute-node ids of the memory node are taken: close a client, or "
			 "start the node anew, and no other, with an empty pool and a larger "
			 "--cn-max",
			 a->pool.plan.cn_max);
	else if (status == FORGE_E_INVAL)
		snprintf(error_text, error_bytes,
			 "a compute node has at most %u sessions, not %u: use several processes",
			 CN_WORKERS_MAX, a->options->session_count);
	else if (status)
		snprintf(error_text, error_bytes, "joining the pool: %s", status_sentence(status));
	return status;
}

static void leave(struct attachment *a)
{
	if (!a->is_joined)
		return;
	if (forked_since(a->forked_mark) || atomic_load(&a->is_lost))
		cn_memory_destroy(&a->cn); /* the parent's, or nobody's any more */
	else
		cn_close(&a->cn, &a->worker);
}

void attachment_drop(struct attachment *a)
{
	if (!a || atomic_fetch_sub_explicit(&a->counts, 1, memory_order_acq_rel) != 1)
		return;
	leave(a);
	for (uint32_t i = 0; i < a->spare_count; i++)
		fab_close(a->spares[i]);
	free(a->spares);
	fab_close(a->fab);
	link_close(a->link);
	free(a);
}
