/*
 * nodes_flush.c: a flush of a cache on several memory nodes reaches all of them at once.
 *
 * The verb of a flush ends at no node before it has been posted at every node: whoever flushed one
 * after the other would wait for ever at the first, which is noticed by counting his looks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/flows.h"
#include "support/pools.h"

#define NODES 4u
#define KEYS  400u
/* Looks at one verb: three orders of magnitude more than it takes. */
#define LOOKS_MAX 20000000u

/* What all connections know: the flushes that have begun at each node. */
struct gather {
	uint64_t pool_id[NODES]; /* in the order in which they are met; 0: none yet */
	uint64_t fence;		 /* its address, the same at all */
	unsigned begun[NODES];
	unsigned gave_up;
};

struct gather_fab {
	struct fab_base base;
	struct fab *inner;
	struct gather *gather;
	unsigned node;
	struct fab_op *held; /* posted to nobody yet, or NULL */
	unsigned looks;
};

static void gather_close(struct fab *f)
{
	struct gather_fab *g = (struct gather_fab *)f;

	assert_null(g->held);
	fab_close(g->inner);
	free(g);
}

static int gather_reg(struct fab *f, void *buf, size_t bytes)
{
	return fab_reg(((struct gather_fab *)f)->inner, buf, bytes);
}

static void gather_post(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct gather_fab *g = (struct gather_fab *)f;

	for (unsigned i = 0; i < n; i++) {
		if (ops[i].code != FAB_FAA || ops[i].raddr != g->gather->fence) {
			fab_post(g->inner, &ops[i], 1);
			continue;
		}
		g->gather->begun[g->node]++;
		g->held = &ops[i];
		g->looks = 0;
		ops[i].status = FAB_PENDING;
	}
}

static void gather_kick(struct fab *f)
{
}

static void gather_poll(struct fab *f)
{
	struct gather_fab *g = (struct gather_fab *)f;
	int is_everywhere = 1;

	for (unsigned i = 0; i < NODES; i++)
		is_everywhere &= g->gather->begun[i] >= g->gather->begun[g->node];
	if (!g->held || (!is_everywhere && ++g->looks < LOOKS_MAX))
		return;
	g->gather->gave_up += !is_everywhere;
	fab_post(g->inner, g->held, 1);
	g->held = NULL;
}

static const struct fab_provider provider = {
    .name = "gather",
    .close = gather_close,
    .reg = gather_reg,
    .post = gather_post,
    .kick = gather_kick,
    .poll = gather_poll,
};

static int wrap(void *context, uint64_t pool_id, struct fab *inner, struct fab **out)
{
	struct gather_fab *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	g->gather = context;
	while (g->node < NODES - 1 && g->gather->pool_id[g->node] &&
	       g->gather->pool_id[g->node] != pool_id)
		g->node++;
	assert_true(g->node < NODES);
	g->gather->pool_id[g->node] = pool_id;
	g->base = (struct fab_base){.provider = &provider, .caps = *fab_caps(inner)};
	g->base.caps.completes_at_post = 0;
	g->inner = inner;
	*out = (struct fab *)g;
	return 0;
}

static void fill(struct session *s)
{
	const struct cache_item item = {.value = "v", .bytes = 1};

	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(session_set(s, user_key(n), &item), 0);
}

static void expect_empty(struct session *s)
{
	struct cache_value v;

	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(session_get(s, user_key(n), &v), FORGE_MISS);
}

static int flow_status = 1;

static MAY_WAIT void flush_in_flow(struct flow *f)
{
	flow_status = view_flush(f->view);
	flows_put(f);
}

static void test_flush_at_once(void **state)
{
	struct pools pools;
	struct user user;
	struct gather gather = {0};
	struct client_options options = {.wrap = wrap, .wrap_context = &gather, .seed = 1};
	struct flows flows;

	pools_make_alike(
	    &pools, NODES,
	    &(struct plan_wish){
		.pool_bytes = 8u << 20, .object_bytes = 100, .cn_max = 8, .policy = "forge"});
	gather.fence = plan_fence_address(&pools.pool[0].plan);
	user_attach(&user, pools.list, &options);
	struct session *s = user.session;

	fill(s);
	assert_int_equal(session_flush(s), 0);
	expect_empty(s);
	/* And by one of several flows, which go on beside it. */
	fill(s);
	assert_int_equal(flows_open(&flows, s, 2, sizeof(struct flow)), 0);
	assert_int_equal(flows_start(flows_take(&flows), flush_in_flow), 0);
	flows_finish(&flows);
	assert_int_equal(flow_status, 0);
	flows_close(&flows);
	expect_empty(s);
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(gather.begun[i], 2);
	assert_int_equal(gather.gave_up, 0);
	user_detach(&user);
	pools_end(&pools);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_flush_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
