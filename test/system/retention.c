/*
 * retention.c: who stays when sizes are mixed, and what a Set costs when the pool becomes full,
 * through the client interface (doc/scenarios.md, M03 and M07).
 *
 * M03: keys of four sizes are stored in turn, far more than fit, and nobody reads them; then the
 * ages of what is left must be alike for all sizes: none is driven out by the others.
 * M07: a pool is filled from empty to five times what fits; no Set is refused, and the verbs of
 * the dearest Set stay within what one eviction costs, however full the pool is.  Verbs, not
 * time: they are the same on a busy machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"
#include "client/client.h"
#include "load/value.h"
#include "made_pool.h"
#include "quiet.h"

#define CLASSES 4u
#define THREADS 3u

static const uint32_t sizes[CLASSES] = {64, 700, 3000, 12000};
static const char *const policies[] = {"forge", "forge-paper"};
static char error[512];

struct rig {
	char name[MADE_POOL_NAME_BYTES];
	struct client *client;
	struct session *session[THREADS];
	uint32_t sessions;
};

static void open_rig(struct rig *r, const char *policy, struct plan_wish wish, uint32_t sessions)
{
	struct client_options options = {.session_count = sessions, .count_verbs = 1};

	wish.policy = policy;
	wish.slot_words = policy_find(policy)->slot_words;
	made_pool_create(&wish, r->name);
	assert_int_equal(client_open(r->name, &options, &r->client, error, sizeof(error)), 0);
	r->sessions = sessions;
	for (uint32_t i = 0; i < sessions; i++)
		assert_int_equal(session_open(r->client, &r->session[i], error, sizeof(error)), 0);
}

static void close_rig(struct rig *r)
{
	for (uint32_t i = 0; i < r->sessions; i++)
		session_close(r->session[i]);
	client_close(r->client);
	if (quiet_check(r->name, error, sizeof(error)))
		fail_msg("%s", error);
	made_pool_unlink(r->name);
}

static int set(struct session *s, uint64_t id, uint32_t bytes)
{
	static _Thread_local uint8_t value[16384];
	struct cache_item item = {.value = value, .bytes = bytes};

	value_fill(value, bytes, id, 1, 0);
	return session_set(s, (struct cache_key){&id, sizeof(id)}, &item);
}

static bool is_there(struct session *s, uint64_t id)
{
	struct cache_value v;

	return session_get(s, (struct cache_key){&id, sizeof(id)}, &v) == 0;
}

/* ---- M03 ---------------------------------------------------------------------------------- */

static void ages(const char *policy)
{
	struct rig r;
	struct plan_wish wish = {.chunk_count = 600,
				 .object_bytes = 4000,
				 .object_bytes_median = 1800,
				 .group_objects = 16,
				 .cn_max = 2};
	uint64_t left[CLASSES] = {0}, oldest[CLASSES] = {0};

	open_rig(&r, policy, wish, 1);
	uint64_t fit = plan_capacity_objects(&client_pool(r.client)->plan), keys = 6 * fit;

	for (uint64_t id = 0; id < keys; id++)
		assert_int_equal(set(r.session[0], id, sizes[id % CLASSES]), 0);
	for (uint64_t id = keys; id-- > 0;)
		if (is_there(r.session[0], id)) {
			left[id % CLASSES]++;
			oldest[id % CLASSES] = keys - id;
		}
	uint64_t least = UINT64_MAX, most = 0, youngest = UINT64_MAX, age = 0;

	for (uint32_t k = 0; k < CLASSES; k++) {
		print_message("%s, %5u bytes: %" PRIu64 " left, the oldest %" PRIu64
			      " Sets old of %" PRIu64 "\n",
			      policy, sizes[k], left[k], oldest[k], keys);
		least = min_u64(least, left[k]);
		most = max_u64(most, left[k]);
		youngest = min_u64(youngest, oldest[k]);
		age = max_u64(age, oldest[k]);
	}
	assert_true(most > fit / CLASSES / 2);
	/* All alike, to within a few groups. */
	assert_true(least * 100 >= most * 95);
	assert_true(youngest * 100 >= age * 80);
	close_rig(&r);
}

static void test_m03(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++)
		ages(policies[i]);
}

/* ---- M07 ---------------------------------------------------------------------------------- */

struct filler {
	pthread_t thread;
	struct session *session;
	uint64_t first, count;
	uint64_t refused, verbs_most, verbs_before, verbs_after, sets_before, sets_after;
	uint64_t full_from; /* this many of the Sets fit into the empty pool */
};

static uint64_t verbs_of(const struct session *s)
{
	return fab_counts_total(session_verbs(s)).verbs;
}

static void *fill(void *arg)
{
	struct filler *f = arg;
	uint64_t before = verbs_of(f->session);

	for (uint64_t i = 0; i < f->count; i++) {
		f->refused += set(f->session, f->first + i, sizes[i % (CLASSES - 1)]) != 0;
		uint64_t now = verbs_of(f->session), cost = now - before;

		before = now;
		f->verbs_most = max_u64(f->verbs_most, cost);
		if (i < f->full_from) {
			f->verbs_before += cost;
			f->sets_before++;
		} else {
			f->verbs_after += cost;
			f->sets_after++;
		}
	}
	return NULL;
}

/* What a Set may cost that evicts: nobody reads, so nothing is rescued, only claimed and freed. */
#define VERBS_MOST (RING_CLAIM_MAX * UINT64_C(16))

static void cross_the_mark(const char *policy)
{
	struct rig r;
	struct plan_wish wish = {.chunk_count = 400,
				 .object_bytes = 1300,
				 .object_bytes_median = 700,
				 .group_objects = 16,
				 .cn_max = 2};
	struct filler f[THREADS];

	open_rig(&r, policy, wish, THREADS);
	const struct plan *p = &client_pool(r.client)->plan;
	uint64_t fit = plan_capacity_objects(p);

	for (uint32_t i = 0; i < THREADS; i++) {
		f[i] = (struct filler){.session = r.session[i],
				       .first = (uint64_t)i << 40,
				       .count = 5 * fit / THREADS,
				       .full_from = fit / THREADS / 2};
		assert_int_equal(pthread_create(&f[i].thread, NULL, fill, &f[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(f[i].thread, NULL), 0);
		double before = (double)f[i].verbs_before / (double)f[i].sets_before;
		double after = (double)f[i].verbs_after / (double)f[i].sets_after;

		print_message(
		    "%s, thread %u: %.2f verbs a Set while there was room, %.2f then, the "
		    "dearest %" PRIu64 " of at most %" PRIu64 "; %" PRIu64 " refused\n",
		    policy, i, before, after, f[i].verbs_most, VERBS_MOST, f[i].refused);
		assert_int_equal(f[i].refused, 0);
		assert_true(f[i].verbs_most <= VERBS_MOST);
		assert_true(after < 2 * before);
	}
	close_rig(&r);
}

static void test_m07(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++)
		cross_the_mark(policies[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_m03),
	    cmocka_unit_test(test_m07),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
