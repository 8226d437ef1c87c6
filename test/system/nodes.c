/*
 * nodes.c: a cache on several memory nodes, in this process, over shared memory that can be cut
 * off (support/cut.h) while it lives.
 *
 * Shown: keys are where the table says, each on one node; what a lost node costs (misses and
 * refused changes of its keys, and nothing else: no operation of another key fails, and none ever
 * connects); that it comes back warm, but for what was refused meanwhile, whichever verb was the
 * last; that times are converted.  members.c has changes of the members, nodes_names.c names that
 * go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/scan.h"
#include "client/refused.h"
#include "client/view.h"
#include "fabric/fault.h"
#include "fabric/shm.h"
#include "pool/spread.h"
#include "support/pools.h"

#define NODES 3u
#define KEYS  6000u

struct rig {
	struct pools pools;
	char list[POOLS_LIST_BYTES];
	struct user user;
	struct spread_record record;
	uint8_t table[SPREAD_PARTITIONS];
};

static char error[512];

static void make_pools(struct rig *r)
{
	*r = (struct rig){0};
	pools_make(&r->pools, NODES);
	strcpy(r->list, r->pools.list);
}

static void attach(struct rig *r)
{
	const struct client_options options = pools_options(&r->pools);

	user_attach(&r->user, r->list, &options);
}

/* The record as a node has it. */
static void learn(struct rig *r)
{
	struct cache *c;
	static struct spread_view v;

	assert_int_equal(view_cache(session_view(r->user.session), 0, &c), 0);
	assert_int_equal(spread_read(c->worker, c->cn->pool, &v), 0);
	r->record = *v.record;
	spread_table(&r->record, r->table);
}

static void open_rig(struct rig *r)
{
	make_pools(r);
	attach(r);
	learn(r);
}

static void detach(struct rig *r)
{
	user_detach(&r->user);
}

static void close_rig(struct rig *r)
{
	detach(r);
	pools_forget(&r->pools);
}

static unsigned member_of(const struct rig *r, unsigned n)
{
	struct cache_key key = user_key(n);

	return r->table[spread_partition(hash_key(key.data, key.bytes))];
}

/* Pools are formatted with ids that become the members'. */
static struct cut *cut_of(struct rig *r, unsigned member)
{
	return cuts_of(&r->pools.cuts, r->record.member[member].id);
}

static int set(struct rig *r, unsigned n, int version)
{
	return user_set(&r->user, n, version);
}

/* The version of a hit, or -1 for a miss; every other answer fails the test. */
static int version_of(struct rig *r, unsigned n)
{
	int version = user_get(&r->user, n);

	assert_true(version >= -1);
	return version;
}

static void check_pools(struct rig *r, uint64_t stored[NODES])
{
	const struct check_options at_rest = {0};

	pools_check(&r->pools, &at_rest, stored);
}

/* ---- where keys are ----------------------------------------------------------------------- */

static void test_keys(void **state)
{
	struct rig r;
	uint64_t stored[NODES], sum = 0, due[NODES] = {0};

	open_rig(&r);
	for (unsigned n = 0; n < KEYS; n++) {
		assert_int_equal(set(&r, n, 1), 0);
		due[member_of(&r, n)]++;
	}
	for (unsigned n = 0; n < KEYS; n += 3)
		assert_int_equal(set(&r, n, 2), 0);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(version_of(&r, n), n % 3 ? 1 : 2);
	for (unsigned n = 0; n < KEYS; n += 5) {
		assert_int_equal(session_delete(r.user.session, user_key(n)), 0);
		due[member_of(&r, n)]--;
		assert_int_equal(version_of(&r, n), -1);
	}
	const struct cache_counters *count = session_counters(r.user.session);

	assert_int_equal(count->sets, KEYS + KEYS / 3);
	assert_int_equal(count->gets, KEYS + KEYS / 5);
	assert_int_equal(count->gets_lost, 0);
	detach(&r);
	check_pools(&r, stored);
	for (unsigned i = 0; i < NODES; i++) {
		unsigned member = 0;

		sum += stored[i];
		/* Which member a pool is, its weight tells: they are of three sizes. */
		while (r.record.member[member].weight !=
		       spread_weight(r.pools.pool[i].plan.pool_bytes))
			member++;
		assert_int_equal(stored[i], due[member]);
	}
	assert_int_equal(sum, KEYS - KEYS / 5);
	attach(&r);
	assert_int_equal(session_flush(r.user.session), 0);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(version_of(&r, n), -1);
	close_rig(&r);
}

/* Conditional operations, and ids, on each node. */
static void test_changes(void **state)
{
	struct rig r;

	open_rig(&r);
	for (unsigned n = 0; n < 300; n++) {
		struct cache_item item = {.value = "5", .bytes = 1};
		struct cache_arith one = {.delta = 1};
		struct cache_value v;
		uint64_t id = 0, number = 0;

		assert_int_equal(session_store(r.user.session, user_key(n), CACHE_ADD, &item, &id),
				 0);
		assert_int_equal(session_store(r.user.session, user_key(n), CACHE_ADD, &item, NULL),
				 FORGE_NOT_STORED);
		item.cas_id = id;
		assert_int_equal(session_store(r.user.session, user_key(n), CACHE_CAS, &item, &id),
				 0);
		assert_int_equal(session_store(r.user.session, user_key(n), CACHE_CAS, &item, NULL),
				 FORGE_EXISTS);
		assert_int_equal(
		    session_arithmetic(r.user.session, user_key(n), &one, &number, &id), 0);
		assert_int_equal(number, 6);
		assert_int_equal(session_get(r.user.session, user_key(n), &v), 0);
		assert_int_equal(v.cas_id, id);
		assert_int_equal(session_delete_if(r.user.session, user_key(n), id + 1),
				 FORGE_EXISTS);
		assert_int_equal(session_delete_if(r.user.session, user_key(n), id), 0);
	}
	detach(&r);
	check_pools(&r, NULL); /* what came and left is counted in each, and adds up */
	attach(&r);
	close_rig(&r);
}

/* Several form it at the same time, each with an order of its own; all find the same. */
static void test_formed_at_once(void **state)
{
	enum { CHILDREN = 5, ROUNDS = 8 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct rig r;
		pid_t children[CHILDREN];

		make_pools(&r);
		for (unsigned child = 0; child < CHILDREN; child++) {
			children[child] = fork();
			if (children[child])
				continue;
			r.list[0] = '\0';
			for (unsigned i = 0; i < NODES; i++)
				snprintf(r.list + strlen(r.list), 80, "%s%s", i ? "," : "",
					 r.pools.pool[(i + child) % NODES].name);
			attach(&r);
			int wrong = 0;

			for (unsigned n = 0; n < 50; n++)
				wrong |= set(&r, 1000 * child + n, round);
			for (unsigned n = 0; n < 50; n++)
				wrong |= version_of(&r, 1000 * child + n) != (int)round;
			detach(&r);
			_exit(wrong != 0);
		}
		for (unsigned child = 0; child < CHILDREN; child++) {
			int status;

			assert_int_equal(waitpid(children[child], &status, 0), children[child]);
			assert_int_equal(status, 0);
		}
		attach(&r);
		for (unsigned child = 0; child < CHILDREN; child++)
			for (unsigned n = 0; n < 50; n++)
				assert_int_equal(version_of(&r, 1000 * child + n), round);
		close_rig(&r);
	}
}

/* ---- losing one --------------------------------------------------------------------------- */

static void test_loss(void **state)
{
	struct rig r;
	unsigned lost_keys = 0, refused = 0;

	open_rig(&r);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&r, n, 1), 0);
	atomic_store(&r.pools.cuts.connects_by_user, 0);
	cut_down(cut_of(&r, 1));
	for (unsigned n = 0; n < KEYS; n++) {
		int is_lost = member_of(&r, n) == 1;

		lost_keys += (unsigned)is_lost;
		assert_int_equal(version_of(&r, n), is_lost ? -1 : 1);
		if (n % 4 == 0) {
			assert_int_equal(set(&r, n, 2), is_lost ? FORGE_E_NODE : 0);
			refused += (unsigned)is_lost;
		}
		if (n % 4 == 1) {
			assert_int_equal(session_delete(r.user.session, user_key(n)),
					 is_lost ? FORGE_E_NODE : 0);
			refused += (unsigned)is_lost;
		}
	}
	const struct cache_counters *count = session_counters(r.user.session);

	assert_int_equal(count->gets_lost, lost_keys);
	assert_int_equal(count->changes_refused, refused);
	assert_true(lost_keys > KEYS / 5 && refused > KEYS / 10);
	cut_up(cut_of(&r, 1));
	user_wait_for_return(&r.user, 1);
	/* Warm, and of what was refused neither the old nor the new. */
	for (unsigned n = 0; n < KEYS; n++) {
		int is_lost = member_of(&r, n) == 1, due = 1;

		if (n % 4 == 0)
			due = is_lost ? -1 : 2;
		else if (n % 4 == 1)
			due = -1;
		assert_int_equal(version_of(&r, n), due);
		assert_int_equal(set(&r, n, 3), 0);
		assert_int_equal(version_of(&r, n), 3);
	}
	/* All that was spent on coming back the client's thread did. */
	assert_int_equal(atomic_load(&r.pools.cuts.connects_by_user), 0);
	assert_true(atomic_load(&r.pools.cuts.connects_by_others) > 0);
	detach(&r);
	check_pools(&r, NULL);
	attach(&r);
	close_rig(&r);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/*
 * The node is back when there is a connection for each session, and not before: whoever opens one
 * meanwhile takes nobody's, and when none can be made its keys miss, and no operation tries.
 */
static void test_connected_ahead(void **state)
{
	struct rig r;
	struct session *second;
	uint64_t losses, returns = 0;
	unsigned n = 0;

	open_rig(&r);
	while (member_of(&r, n) != 1)
		n++;
	struct cut *cut = cut_of(&r, 1);

	for (unsigned round = 1; round <= 2; round++) {
		assert_int_equal(set(&r, n, round), 0);
		cut_down(cut);
		assert_int_equal(version_of(&r, n), -1);
		/* What the connections held is let go of. */
		session_tend(r.user.session);
		if (round == 2) {
			session_tend(second);
			uint32_t refused = atomic_load(&r.pools.cuts.connects_refused);

			/* One to look, one to delete by, none for the two sessions. */
			atomic_store(&cut->connects_left, 3);
			atomic_store(&r.pools.cuts.connects_by_user, 0);
			atomic_store(&cut->is_down, 0);
			while (atomic_load(&r.pools.cuts.connects_refused) == refused)
				nap();
			for (unsigned i = 0; i < KEYS; i++)
				assert_int_equal(version_of(&r, i), -1);
			assert_int_equal(atomic_load(&r.pools.cuts.connects_by_user), 0);
			client_losses(r.user.client, &losses, &returns);
			assert_int_equal(returns, 1);
			atomic_store(&cut->connects_left, 0);
		}
		cut_up(cut);
		for (unsigned i = 0; i < 20000 && returns < round; i++) {
			client_losses(r.user.client, &losses, &returns);
			nap();
		}
		assert_int_equal(returns, round);
		if (round == 1 && session_open(r.user.client, &second, error, sizeof(error)))
			fail_msg("%s", error);
		atomic_store(&r.pools.cuts.connects_by_user, 0);
		assert_int_equal(version_of(&r, n), round);
		assert_int_equal(session_tend(second), 0);
		assert_int_equal(atomic_load(&r.pools.cuts.connects_by_user), 0);
	}
	session_close(second);
	detach(&r);
	check_pools(&r, NULL);
	attach(&r);
	close_rig(&r);
}

/* More refused keys than are kept: the node comes back empty rather than with something old. */
static void test_too_many_refused(void **state)
{
	struct rig r;
	unsigned refused = 0, n = KEYS;

	open_rig(&r);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(set(&r, i, 1), 0);
	cut_down(cut_of(&r, 2));
	for (; refused <= REFUSED_KEYS_MAX; n++)
		if (member_of(&r, n) == 2) {
			assert_int_equal(session_delete(r.user.session, user_key(n)), FORGE_E_NODE);
			refused++;
		}
	cut_up(cut_of(&r, 2));
	user_wait_for_return(&r.user, 1);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(version_of(&r, i), member_of(&r, i) == 2 ? -1 : 1);
	close_rig(&r);
}

/* A flush that did not reach a node is made up for. */
static void test_refused_flush(void **state)
{
	struct rig r;

	open_rig(&r);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(set(&r, i, 1), 0);
	cut_down(cut_of(&r, 0));
	assert_int_equal(session_flush(r.user.session), FORGE_E_NODE);
	cut_up(cut_of(&r, 0));
	user_wait_for_return(&r.user, 1);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(version_of(&r, i), -1);
	close_rig(&r);
}

/*
 * The connection ends at each verb of a Set and of a Delete in turn, that verb landing or not.
 * Whatever the node has then, after its return the old value is not read again by who was refused.
 */
static void test_half_way(void **state)
{
	struct rig r;
	uint64_t losses, returns = 0;
	unsigned n = 0, cuts = 0;

	open_rig(&r);
	while (member_of(&r, n) != 0)
		n++;
	for (unsigned kind = 0; kind < 4; kind++) {
		int status = FORGE_E_NODE;

		for (uint64_t verb = 1; status == FORGE_E_NODE; verb++) {
			struct cut *cut = cut_of(&r, 0);

			assert_int_equal(set(&r, n, 1), 0);
			atomic_store(&cut->last_lands, (int)(kind & 1));
			atomic_store(&cut->verbs_left, verb);
			status =
			    kind & 2 ? session_delete(r.user.session, user_key(n)) : set(&r, n, 2);
			atomic_store(&cut->verbs_left, 0);
			client_losses(r.user.client, &losses, &returns);
			if (status != FORGE_E_NODE)
				break;
			cuts++;
			cut_up(cut);
			user_wait_for_return(&r.user, returns + 1);
			assert_int_equal(version_of(&r, n), -1);
		}
		assert_int_equal(status, 0);
		assert_int_equal(version_of(&r, n), kind & 2 ? -1 : 2);
	}
	assert_true(cuts >= 8);
	detach(&r);
	check_pools(&r, NULL);
	attach(&r);
	close_rig(&r);
}

/* With no node left there is nobody to go on with: an error, and not a cache that always misses. */
static void test_all_lost(void **state)
{
	struct rig r;
	struct cache_value v;

	open_rig(&r);
	assert_int_equal(set(&r, 1, 1), 0);
	for (unsigned i = 0; i < NODES; i++)
		cut_down(cut_of(&r, i));
	for (unsigned n = 0; n < 100; n++)
		session_get(r.user.session, user_key(n), &v);
	for (unsigned n = 0; n < 100; n++)
		assert_int_equal(session_get(r.user.session, user_key(n), &v), FORGE_E_NODE);
	assert_int_equal(session_tend(r.user.session), FORGE_E_NODE);
	for (unsigned i = 0; i < NODES; i++)
		cut_up(cut_of(&r, i));
	user_wait_for_return(&r.user, NODES);
	assert_int_equal(version_of(&r, 1), 1);
	close_rig(&r);
}

/* A cache on one node comes back as well. */
static void test_alone(void **state)
{
	struct rig r;
	struct cache_value v;

	make_pools(&r);
	snprintf(r.list, sizeof(r.list), "%s", r.pools.pool[0].name);
	attach(&r);
	assert_int_equal(set(&r, 1, 1), 0);
	assert_int_equal(set(&r, 2, 1), 0);
	struct cut *cut = cuts_of(&r.pools.cuts, client_pool(r.user.client)->pool_id);

	cut_down(cut);
	assert_int_equal(session_get(r.user.session, user_key(1), &v), FORGE_E_NODE);
	assert_int_equal(session_delete(r.user.session, user_key(2)), FORGE_E_NODE);
	cut_up(cut);
	user_wait_for_return(&r.user, 1);
	assert_int_equal(version_of(&r, 1), 1);
	assert_int_equal(version_of(&r, 2), -1);
	close_rig(&r);
}

/* A client may begin while a node is lost, if at least half are there. */
static void test_open_without(void **state)
{
	struct rig r;
	struct client_options options = {
	    .session_count = 1, .wrap = cuts_wrap, .wrap_context = &r.pools.cuts, .seed = 2};
	struct client *other;

	open_rig(&r);
	for (unsigned n = 0; n < 300; n++)
		assert_int_equal(set(&r, n, 1), 0);
	cut_down(cut_of(&r, 1));
	detach(&r);
	attach(&r);
	for (unsigned n = 0; n < 300; n++)
		assert_int_equal(version_of(&r, n), member_of(&r, n) == 1 ? -1 : 1);
	cut_down(cut_of(&r, 2));
	assert_int_equal(client_open(r.list, &options, &other, error, sizeof(error)), FORGE_E_NODE);
	assert_non_null(strstr(error, "at least half"));
	cut_up(cut_of(&r, 1));
	cut_up(cut_of(&r, 2));
	user_wait_for_return(&r.user, 2);
	for (unsigned n = 0; n < 300; n++)
		if (member_of(&r, n) == 1)
			assert_int_equal(version_of(&r, n), 1);
	close_rig(&r);
}

/* ---- time --------------------------------------------------------------------------------- */

/* Each node counts its own time; values live as long as the caller said on all of them. */
/* Everything on the way to one of the nodes is lost at a verb. */
struct loss {
	uint64_t pool_id;
	struct fault_plan plan;
};

static int lose_one(void *context, uint64_t pool_id, struct fab *inner, struct fab **out)
{
	struct loss *l = context;

	*out = inner;
	return pool_id == l->pool_id ? fault_open(inner, &l->plan, out) : 0;
}

/* Whichever verb is the last, from the first look at who it is to the joining of it. */
static void test_lost_at_opening(void **state)
{
	struct loss l;
	struct rig r;

	open_rig(&r);
	detach(&r);
	l.pool_id = r.record.member[1].id;
	l.plan.lost = 1;
	for (uint64_t at = 1; l.plan.lost; at++) {
		struct client_options options = {
		    .session_count = 1, .wrap = lose_one, .wrap_context = &l, .seed = 1};
		struct client *client;

		l.plan = (struct fault_plan){.lose_at = at};
		if (client_open(r.list, &options, &client, error, sizeof(error)))
			fail_msg("lost at verb %u: %s", (unsigned)at, error);
		client_close(client);
		assert_true(at < 1000);
	}
	pools_forget(&r.pools);
}

static void test_times(void **state)
{
	struct rig r;

	make_pools(&r);
	for (unsigned i = 0; i < NODES; i++) {
		struct shm_map *map;

		assert_int_equal(shm_map_open(r.pools.pool[i].name, 0, error, sizeof(error), &map),
				 0);
		((struct layout_superblock *)shm_map_base(map))->time.base_ms =
		    UINT64_C(1000000) * (i * i + 1);
		shm_map_close(map);
	}
	attach(&r);
	/* It ends early enough, but not before one on a busy host has looked at it. */
	for (unsigned n = 0; n < 60; n++) {
		uint64_t expiry = session_expiry_in(r.user.session, n % 2 ? 2000 : 500000);
		struct cache_value v;

		assert_int_equal(session_set(r.user.session, user_key(n),
					     &(struct cache_item){
						 .value = "v", .bytes = 1, .expiry_ms = expiry}),
				 0);
		assert_int_equal(session_get(r.user.session, user_key(n), &v), 0);
		assert_int_equal(v.expiry_ms, expiry);
		assert_int_equal(session_touch(r.user.session, user_key(n), expiry + 1, &v), 0);
		assert_int_equal(session_get(r.user.session, user_key(n), &v), 0);
		assert_int_equal(v.expiry_ms, expiry + 1);
	}
	for (unsigned n = 0; n < 60; n++) {
		struct cache_value v;

		for (unsigned i = 0; n % 2 && i < 20000; i++) {
			if (session_get(r.user.session, user_key(n), &v) == FORGE_MISS)
				break;
			nap();
		}
		assert_int_equal(session_get(r.user.session, user_key(n), &v),
				 n % 2 ? FORGE_MISS : 0);
	}
	close_rig(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_changes),
	    cmocka_unit_test(test_formed_at_once),
	    cmocka_unit_test(test_loss),
	    cmocka_unit_test(test_connected_ahead),
	    cmocka_unit_test(test_too_many_refused),
	    cmocka_unit_test(test_refused_flush),
	    cmocka_unit_test(test_half_way),
	    cmocka_unit_test(test_all_lost),
	    cmocka_unit_test(test_alone),
	    cmocka_unit_test(test_open_without),
	    cmocka_unit_test(test_lost_at_opening),
	    cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
