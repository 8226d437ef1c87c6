/*
 * scan_rounds.c: a scan by several flows needs as many round trips less.
 *
 * What is posted waits for the next look at the connection, and then takes effect all at once: that
 * is a round trip.  They are counted for a scan by one flow and for one by 32; both find every key
 * once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/own_pool.h"
#include "client/scan.h"
#include "support/clean.h"

#define KEYS	  2000u
#define POSTS_MAX 64u /* one for each flow, and some */

struct rounds_fab {
	struct fab_base base;
	struct fab *inner;
	uint64_t *rounds;
	struct {
		struct fab_op *ops;
		unsigned n;
	} posts[POSTS_MAX];
	unsigned posted;
};

static void rounds_close(struct fab *f)
{
	struct rounds_fab *r = (struct rounds_fab *)f;

	assert_int_equal(r->posted, 0);
	fab_close(r->inner);
	free(r);
}

static int rounds_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct rounds_fab *)f)->inner, buf, bytes);
}

static void rounds_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct rounds_fab *r = (struct rounds_fab *)f;

	assert_in_range(r->posted, 0, POSTS_MAX - 1);
	for (unsigned i = 0; i < n; i++)
		ops[i].status = FAB_PENDING;
	r->posts[r->posted].ops = ops;
	r->posts[r->posted++].n = n;
}

static void rounds_kick(struct fab *f)
{
}

static void rounds_poll(struct fab *f)
{
	struct rounds_fab *r = (struct rounds_fab *)f;

	*r->rounds += r->posted > 0;
	for (unsigned i = 0; i < r->posted; i++)
		fab_post(r->inner, r->posts[i].ops, r->posts[i].n);
	r->posted = 0;
}

static const struct fab_provider provider = {
    .name = "rounds",
    .close = rounds_close,
    .reg = rounds_reg,
    .post = rounds_post,
    .kick = rounds_kick,
    .poll = rounds_poll,
};

static int wrap(void *context, uint64_t pool_id, struct fab *inner, struct fab **out)
{
	struct rounds_fab *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->base = (struct fab_base){.provider = &provider, .caps = *fab_caps(inner)};
	r->base.caps.completes_at_post = 0;
	r->inner = inner;
	r->rounds = context;
	*out = (struct fab *)r;
	return 0;
}

static void note(void *context, struct cache_key key, const struct cache_value *value,
		 uint64_t now_ms)
{
	uint8_t *seen = context;
	unsigned n;

	assert_int_equal(sscanf(key.data, "key-%u", &n), 1);
	assert_in_range(n, 0, KEYS - 1);
	assert_int_equal(value->bytes, 1);
	seen[n]++;
}

/* How many round trips a scan takes by so many flows. */
static uint64_t scan(struct session *s, uint64_t *rounds, unsigned flow_max)
{
	static uint8_t seen[KEYS];
	struct scan at = {0};
	struct flows flows;
	double progress = 0;

	memset(seen, 0, sizeof(seen));
	assert_int_equal(flows_open(&flows, s, flow_max, sizeof(struct flow)), 0);
	uint64_t before = *rounds;

	while (!scan_is_over(&at, session_client(s))) {
		assert_int_equal(scan_page(&at, &flows, note, seen), 0);
		assert_true(scan_progress(&at, session_client(s)) > progress);
		progress = scan_progress(&at, session_client(s));
	}
	uint64_t taken = *rounds - before;

	assert_true(progress == 1);
	flows_close(&flows);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(seen[n], 1);
	return taken;
}

static void test_rounds(void **state)
{
	uint64_t rounds = 0;
	struct plan_wish wish = {.pool_bytes = 2u << 20, .object_bytes = 100, .cn_max = 8};
	struct client_options options = {.wrap = wrap, .wrap_context = &rounds, .seed = 1};
	struct own_pool pool;
	struct client *client;
	struct session *s;
	char error[512], text[16];

	assert_int_equal(own_pool_create(&pool, &wish, error, sizeof(error)), 0);
	if (client_open(pool.name, &options, &client, error, sizeof(error)) ||
	    session_open(client, &s, error, sizeof(error)))
		fail_msg("%s", error);
	for (unsigned n = 0; n < KEYS; n++) {
		/* With its zero, so that it can be parsed. */
		int bytes = snprintf(text, sizeof(text), "key-%u", n) + 1;

		assert_int_equal(session_set(s, (struct cache_key){text, (uint32_t)bytes},
					     &(struct cache_item){.value = "v", .bytes = 1}),
				 0);
	}
	uint64_t by_one = scan(s, &rounds, 1), by_many = scan(s, &rounds, 32);

	print_message("%u keys, %u buckets: %llu round trips by one flow, %llu by 32\n", KEYS,
		      pool.plan.bucket_count, (unsigned long long)by_one,
		      (unsigned long long)by_many);
	/* One to READ the slots of a bucket, one for each object. */
	assert_true(by_one >= KEYS + pool.plan.bucket_count);
	/* At the end of a page some have nothing to do. */
	assert_true(by_many * 16 <= by_one);
	session_close(s);
	client_close(client);
	assert_pool_clean(pool.name, &(struct check_options){0});
	own_pool_forget(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
