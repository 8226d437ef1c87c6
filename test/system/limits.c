/*
 * limits.c: a pool at its edges, through the client interface.
 *
 * Values and keys of every size at which a field, a block or a chunk ends; groups of 2 and of 512
 * objects; one chunk more and fewer than a worker needs; more compute nodes than the registry has
 * lines, more threads than chunks; sessions that come and go; poll intervals from 1 us to hours;
 * and pools of 2 to 8 chunks driven until generations, tags and ring cycles have wrapped.  Every
 * value read is compared, and every pool must be at rest afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/prng.h"
#include "client/client.h"
#include "load/value.h"
#include "made_pool.h"
#include "quiet.h"
#include "stress.h"

static char error[512];
static const char *const policies[] = {"forge", "forge-paper"};

struct rig {
	char pool_name[MADE_POOL_NAME_BYTES];
	struct client *client;
	struct session *session;
};

static void make_pool(struct rig *r, const char *policy, struct plan_wish wish)
{
	wish.policy = policy;
	wish.slot_words = policy_find(policy)->slot_words;
	made_pool_create(&wish, r->pool_name);
}

static void rig_open(struct rig *r, const char *policy, struct plan_wish wish)
{
	struct client_options options = {0};

	make_pool(r, policy, wish);
	assert_int_equal(client_open(r->pool_name, &options, &r->client, error, sizeof(error)), 0);
	assert_int_equal(session_open(r->client, &r->session, error, sizeof(error)), 0);
}

static void check_and_unlink(struct rig *r)
{
	if (quiet_check(r->pool_name, error, sizeof(error))) {
		quiet_print(r->pool_name, stderr);
		fail_msg("%s", error);
	}
	made_pool_unlink(r->pool_name);
}

static void rig_close(struct rig *r)
{
	session_close(r->session);
	client_close(r->client);
	check_and_unlink(r);
}

static int set(struct session *s, uint64_t id, uint64_t version, uint32_t bytes)
{
	static uint8_t value[2 << 20];
	struct cache_item item = {.value = value, .bytes = bytes, .flags = (uint32_t)version};

	if (bytes <= sizeof(value))
		value_fill(value, bytes, id, version, 0);
	return session_set(s, (struct cache_key){&id, sizeof(id)}, &item);
}

/* A miss, or exactly that version. */
static int get(struct session *s, uint64_t id, uint64_t version, uint32_t bytes)
{
	struct cache_value v;
	uint64_t seen;
	int status = session_get(s, (struct cache_key){&id, sizeof(id)}, &v);

	if (status)
		return status;
	assert_int_equal(v.bytes, bytes);
	assert_int_equal(v.flags, (uint32_t)version);
	assert_int_equal(value_verify(v.data, v.bytes, id, &seen), VALUE_GOOD);
	if (bytes >= 16)
		assert_int_equal(seen, version);
	return 0;
}

/* The largest value for a key of 8 bytes. */
static uint32_t largest(const struct plan *p)
{
	uint32_t object = (p->chunk_bytes - TWIM_BYTES) / LAYOUT_UNIT_BYTES * LAYOUT_UNIT_BYTES;
	uint32_t most = LAYOUT_OBJECT_UNITS_MAX * LAYOUT_UNIT_BYTES;

	return (object < most ? object : most) - LAYOUT_OBJECT_HEADER_BYTES - 8;
}

/* ---- values ------------------------------------------------------------------------------- */

static void value_sizes(const char *policy)
{
	struct rig r;

	/* Chunks of a bit more than 1 MiB: the largest object is limited by its TWIM entry. */
	rig_open(&r, policy,
		 (struct plan_wish){.chunk_count = 16, .group_objects = 8, .object_bytes = 131100});
	const uint32_t top = largest(&client_pool(r.client)->plan);
	const uint32_t limit = plan_value_limit(&client_pool(r.client)->plan);
	const uint32_t sizes[] = {
	    0,	   1,	  7,	 8,	15,	16,	31,	 32,	63,	 64,	65,
	    71,	   72,	  73,	 135,	136,	137,	16127,	 16128, 16135,	 16136, 16137,
	    16200, 20000, 65535, 65536, 131072, 500000, top - 1, top,	top + 1, limit,
	};
	const struct fab_caps *caps = fab_caps(session_worker(r.session)->fab);

	assert_true(caps->export_bytes > 16u << 20);
	for (uint64_t round = 1; round <= 3; round++)
		for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
			uint32_t before = sizes[(i + 1) % ARRAY_COUNT(sizes)];

			assert_int_equal(set(r.session, 1, 2 * round, before), 0);
			assert_int_equal(get(r.session, 1, 2 * round, before), 0);
			assert_int_equal(set(r.session, 1, 2 * round + 1, sizes[i]), 0);
			assert_int_equal(get(r.session, 1, 2 * round + 1, sizes[i]), 0);
			/* Each size as a key of its own, which others evict. */
			assert_int_equal(set(r.session, 100 + i, round, sizes[i]), 0);
			for (unsigned k = 0; k < ARRAY_COUNT(sizes); k++)
				get(r.session, 100 + k, k <= i ? round : round - 1, sizes[k]);
		}
	assert_true(limit > top);
	assert_int_equal(set(r.session, 1, 9, limit + 1), FORGE_E_VALUE_LARGE);
	assert_int_equal(set(r.session, 1, 9, UINT32_MAX), FORGE_E_VALUE_LARGE);
	get(r.session, 1, 7, sizes[ARRAY_COUNT(sizes) - 1]);
	rig_close(&r);
}

static void test_value_sizes(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++)
		value_sizes(policies[i]);
}

/* Objects that fill a chunk each, in small chunks: every Set seals a group. */
static void test_whole_chunks(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		uint64_t latest[20] = {0};
		unsigned hits = 0;

		rig_open(
		    &r, policies[i],
		    (struct plan_wish){.chunk_count = 8, .group_objects = 2, .object_bytes = 16});
		uint32_t top = largest(&client_pool(r.client)->plan);

		for (uint64_t op = 1; op < 20000; op++) {
			uint64_t id = op * 7 % 13;

			assert_int_equal(set(r.session, id, op, top), 0);
			latest[id] = op;
			for (uint64_t k = 0; k < 3; k++)
				hits +=
				    get(r.session, (id + k) % 13, latest[(id + k) % 13], top) == 0;
		}
		assert_true(hits > 19000);
		rig_close(&r);
	}
}

static void test_group_sizes(void **state)
{
	static const uint32_t groups[] = {2, 3, 63, 64, 65, 511, 512};

	for (unsigned i = 0; i < 2 * ARRAY_COUNT(groups); i++) {
		struct rig r;
		uint32_t objects = groups[i / 2], keys = objects * 40;
		uint64_t *latest = calloc(keys, sizeof(*latest));
		struct prng prng;
		unsigned hits = 0;

		assert_non_null(latest);
		prng_seed(&prng, i);
		rig_open(&r, policies[i % 2],
			 (struct plan_wish){
			     .chunk_count = 20, .group_objects = objects, .object_bytes = 40});
		for (uint64_t op = 1; op < 20 * (uint64_t)keys + 5000; op++) {
			uint64_t id = prng_below(&prng, 1 + prng_below(&prng, keys));

			/* Smaller objects than planned, too: the count limits the group. */
			if (prng_below(&prng, 3) == 0) {
				assert_int_equal(set(r.session, id, op, (uint32_t)(op % 33)), 0);
				latest[id] = op;
			} else {
				hits += get(r.session, id, latest[id],
					    (uint32_t)(latest[id] % 33)) == 0;
			}
		}
		assert_true(hits > keys);
		free(latest);
		rig_close(&r);
	}
}

/* ---- keys --------------------------------------------------------------------------------- */

static void test_keys(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		uint8_t key[LAYOUT_KEY_BYTES_MAX + 1];
		struct cache_value v;

		rig_open(&r, policies[i],
			 (struct plan_wish){
			     .chunk_count = 64, .group_objects = 64, .object_bytes = 300});
		/* All zeroes, all ones, and NULs in the middle; a prefix is another key. */
		for (uint32_t bytes = 1; bytes <= LAYOUT_KEY_BYTES_MAX; bytes++)
			for (uint32_t kind = 0; kind < 3; kind++) {
				uint32_t value = 1000 * bytes + kind;
				struct cache_item item = {.value = &value, .bytes = 4};

				memset(key, kind == 1 ? 0xff : 0, sizeof(key));
				key[bytes - 1] = (uint8_t)(kind == 2 ? '\n' : key[0]);
				assert_int_equal(
				    session_set(r.session, (struct cache_key){key, bytes}, &item),
				    0);
			}
		for (uint32_t bytes = 1; bytes <= LAYOUT_KEY_BYTES_MAX; bytes++)
			for (uint32_t kind = 0; kind < 3; kind++) {
				uint32_t value = 1000 * bytes + kind;

				memset(key, kind == 1 ? 0xff : 0, sizeof(key));
				key[bytes - 1] = (uint8_t)(kind == 2 ? '\n' : key[0]);
				struct cache_key k = {key, bytes};

				assert_int_equal(session_get(r.session, k, &v), 0);
				assert_int_equal(v.bytes, 4);
				assert_memory_equal(v.data, &value, 4);
				if (bytes % 2)
					assert_int_equal(session_delete(r.session, k), 0);
				assert_int_equal(session_get(r.session, k, &v),
						 bytes % 2 ? FORGE_MISS : 0);
			}
		struct cache_key none = {key, 0}, longer = {key, LAYOUT_KEY_BYTES_MAX + 1};

		assert_int_equal(session_get(r.session, none, &v), FORGE_E_KEY_EMPTY);
		assert_int_equal(session_delete(r.session, none), FORGE_E_KEY_EMPTY);
		assert_int_equal(session_get(r.session, longer, &v), FORGE_E_KEY_LONG);
		assert_int_equal(session_delete(r.session, longer), FORGE_E_KEY_LONG);
		rig_close(&r);
	}
}

/* ---- nodes and sessions ------------------------------------------------------------------- */

static void test_registry_full(void **state)
{
	static const uint32_t maxima[] = {1, 2, LAYOUT_CN_MAX};

	for (unsigned i = 0; i < ARRAY_COUNT(maxima); i++) {
		struct rig r;
		struct client *clients[LAYOUT_CN_MAX], *one_more = NULL;
		struct client_options options = {0};
		struct session *s;

		make_pool(&r, policies[i % 2],
			  (struct plan_wish){.chunk_count = 300,
					     .group_objects = 4,
					     .object_bytes = 40,
					     .cn_max = maxima[i]});
		for (uint32_t cn = 0; cn < maxima[i]; cn++) {
			assert_int_equal(
			    client_open(r.pool_name, &options, &clients[cn], error, sizeof(error)),
			    0);
			assert_int_equal(client_cn(clients[cn]), cn);
		}
		assert_int_equal(
		    client_open(r.pool_name, &options, &one_more, error, sizeof(error)),
		    FORGE_E_FULL_REGISTRY);
		assert_null(one_more);
		assert_non_null(strstr(error, "cn-max"));
		for (uint32_t bit = 11; bit < 33; bit++) {
			options.session_count = (uint32_t)((UINT64_C(1) << bit) - (bit > 31));
			assert_int_equal(
			    client_open(r.pool_name, &options, &one_more, error, sizeof(error)),
			    FORGE_E_INVAL);
			assert_non_null(strstr(error, "sessions"));
		}
		options.session_count = 0;
		/* Who is in works, and who leaves makes room. */
		assert_int_equal(session_open(clients[0], &s, error, sizeof(error)), 0);
		for (uint64_t id = 0; id < 5000; id++)
			assert_int_equal(set(s, id, 1, 20), 0);
		session_close(s);
		client_close(clients[maxima[i] / 2]);
		assert_int_equal(client_open(r.pool_name, &options, &clients[maxima[i] / 2], error,
					     sizeof(error)),
				 0);
		for (uint32_t cn = 0; cn < maxima[i]; cn++)
			client_close(clients[cn]);
		check_and_unlink(&r);
	}
}

static void test_come_and_go(void **state)
{
	struct rig r;
	struct client_options options = {.session_count = 2};

	make_pool(&r, "forge",
		  (struct plan_wish){
		      .chunk_count = 24, .group_objects = 8, .object_bytes = 60, .cn_max = 3});
	for (uint64_t round = 1; round <= 3000; round++) {
		struct client *client;
		struct session *a, *b;

		assert_int_equal(client_open(r.pool_name, &options, &client, error, sizeof(error)),
				 0);
		assert_int_equal(session_open(client, &a, error, sizeof(error)), 0);
		assert_int_equal(session_open(client, &b, error, sizeof(error)), 0);
		if (round == 1) {
			struct session *third;

			/* As many as it was opened for. */
			assert_int_equal(session_open(client, &third, error, sizeof(error)),
					 FORGE_E_INVAL);
			assert_non_null(strstr(error, "2 sessions"));
			session_close(b);
			assert_int_equal(session_open(client, &b, error, sizeof(error)), 0);
		}
		for (uint64_t k = 0; k < round % 20; k++) {
			uint64_t id = (round + k) % 200;

			assert_int_equal(set(k % 2 ? a : b, id, round * 100 + k, 40), 0);
			assert_int_equal(get(k % 2 ? b : a, id, round * 100 + k, 40), 0);
		}
		/* Nothing, one Set, or a chunk in hand: all of it goes back. */
		session_close(round % 3 ? a : b);
		session_close(round % 3 ? b : a);
		client_close(client);
		if (round % 100 == 1 && quiet_check(r.pool_name, error, sizeof(error)))
			fail_msg("round %" PRIu64 ": %s", round, error);
	}
	check_and_unlink(&r);
}

static void test_policies_refused(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;
		struct client_options options = {.policy = policies[1 - i]};
		struct client *client = NULL;

		make_pool(&r, policies[i], (struct plan_wish){.chunk_count = 8});
		assert_int_equal(client_open(r.pool_name, &options, &client, error, sizeof(error)),
				 FORGE_E_INVAL);
		assert_null(client);
		assert_non_null(strstr(error, policies[i]));
		options.policy = "no-such-policy";
		assert_int_equal(client_open(r.pool_name, &options, &client, error, sizeof(error)),
				 FORGE_E_INVAL);
		assert_non_null(strstr(error, "no-such-policy"));
		options.policy = policies[i];
		assert_int_equal(client_open(r.pool_name, &options, &client, error, sizeof(error)),
				 0);
		client_close(client);
		check_and_unlink(&r);
	}
}

/* ---- few chunks --------------------------------------------------------------------------- */

static void stress_threads(struct stress_wish wish, uint32_t *hits, uint32_t *no_space)
{
	struct stress *s = stress_begin(&wish);
	int failed = stress_run_threads(s) || stress_check_pool(s);
	const struct stress_totals *t = stress_sum(s);

	if (failed)
		print_error("%s, %u chunks, %u x %u threads: %s\n", wish.policy, wish.chunks,
			    wish.nodes, wish.threads, stress_failure(s));
	*hits = (uint32_t)t->hits;
	*no_space = (uint32_t)t->no_space;
	stress_end(s);
	assert_false(failed);
}

/* Each worker would fill two groups and needs a chunk to evict into: what if there are fewer? */
static void test_few_chunks(void **state)
{
	for (uint32_t chunks = 2; chunks <= 16; chunks += 1 + chunks / 8)
		for (uint32_t threads = 1; threads <= 8; threads *= 2)
			for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
				uint32_t hits, no_space;
				struct stress_wish wish = {
				    .policy = policies[i],
				    .chunks = chunks,
				    .group_objects = 4,
				    .object_bytes = 60,
				    .cn_max = 1,
				    .nodes = 1,
				    .threads = threads,
				    .ops = 3000 / threads,
				    .keys = 60,
				    .value_bytes_max = 30,
				    .set_percent = 40,
				    .delete_percent = 5,
				    .may_run_dry = chunks<3 * threads, .jitter = threads> 1,
				};

				stress_threads(wish, &hits, &no_space);
				print_message("%s: %u chunks, %u threads: %u hits, %u no space\n",
					      policies[i], chunks, threads, hits, no_space);
			}
}

static void test_poll_intervals(void **state)
{
	static const uint32_t intervals[] = {1, 10, 100000, UINT32_MAX};

	for (unsigned i = 0; i < ARRAY_COUNT(intervals); i++) {
		uint32_t hits, no_space;
		struct stress_wish wish = {
		    .policy = policies[i % 2],
		    .chunks = 64,
		    .group_objects = 8,
		    .object_bytes = 60,
		    .nodes = 2,
		    .threads = 2,
		    .ops = 20000,
		    .keys = 800,
		    .value_bytes_max = 60,
		    .set_percent = 30,
		    .delete_percent = 5,
		    .poll_interval_us = intervals[i],
		};

		stress_threads(wish, &hits, &no_space);
		assert_true(hits > 1000);
	}
}

/* ---- counters that wrap ------------------------------------------------------------------- */

/*
 * A pool of a few chunks with two objects each is re-used once per two Sets, so that a million
 * Sets take a chunk of 8 through more than 3 x 16,384 generations and the rings through as many
 * cycles.  Keys that are set rarely leave stale slots whose generation comes round again.
 */
static void wrap(const char *policy, uint32_t chunks, uint64_t sets)
{
	struct rig r;
	uint64_t latest[64] = {0}, deleted = 0;
	struct prng prng;
	unsigned hits = 0;

	prng_seed(&prng, chunks);
	rig_open(&r, policy,
		 (struct plan_wish){.chunk_count = chunks,
				    .group_objects = 2,
				    .object_bytes = 40,
				    .slots_per_object = 16});
	for (uint64_t op = 1; op <= sets; op++) {
		/* Half of the keys once in thousands of operations. */
		uint64_t id =
		    prng_below(&prng, 5000) ? prng_below(&prng, 32) : 32 + prng_below(&prng, 32);

		assert_int_equal(set(r.session, id, op, (uint32_t)(op % 32)), 0);
		latest[id] = op;
		deleted &= ~(UINT64_C(1) << id);
		if (op % 16 == 0) {
			id = prng_below(&prng, 64);
			assert_true(
			    session_delete(r.session, (struct cache_key){&id, sizeof(id)}) >= 0);
			deleted |= UINT64_C(1) << id;
		}
		id = prng_below(&prng, 64);
		if (get(r.session, id, latest[id], (uint32_t)(latest[id] % 32)) == 0) {
			hits++;
			assert_false(deleted >> id & 1);
		}
	}
	print_message("%s, %u chunks: %u hits, %" PRIu64 " groups sealed\n", policy, chunks, hits,
		      session_counters(r.session)->groups_sealed);
	assert_true(hits > 0);
	assert_true(session_counters(r.session)->groups_sealed > chunks * UINT64_C(16384));
	rig_close(&r);
}

static void test_wrap(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		wrap(policies[i], 4, 300000);
		wrap(policies[i], 8, 500000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_value_sizes),	     cmocka_unit_test(test_whole_chunks),
	    cmocka_unit_test(test_group_sizes),	     cmocka_unit_test(test_keys),
	    cmocka_unit_test(test_registry_full),    cmocka_unit_test(test_come_and_go),
	    cmocka_unit_test(test_policies_refused), cmocka_unit_test(test_few_chunks),
	    cmocka_unit_test(test_poll_intervals),   cmocka_unit_test(test_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
