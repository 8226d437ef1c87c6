/* rig.c: a small pool on the loop fabric with one compute node on it. */
#include "support/rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/loop.h"

static void join(struct rig *r, const struct policy *policy)
{
	struct layout_registry lines[LAYOUT_CN_MAX];
	struct cn_options options = {0};
	char error[256];

	assert_int_equal(pool_open(&r->worker, &r->pool, error, sizeof(error)), 0);
	assert_int_equal(cn_open(&r->cn, &r->pool, policy, &r->worker, &options, 1, lines), 0);
	assert_int_equal(lane_init(&r->lane, &r->cn), 0);
	assert_int_equal(cache_init(&r->cache, &r->worker, &r->cn, &r->lane), 0);
	assert_int_equal(cache_count_in_pool(&r->cache), 0);
}

void rig_open(struct rig *r, const char *policy_name, uint32_t chunks, uint32_t objects)
{
	rig_open_plan(r, &(struct plan_wish){.chunk_count = chunks,
					     .group_objects = objects,
					     .object_bytes = 80,
					     .policy = policy_name});
}

/* Every pool has an id of its own, as those a memory node makes. */
static uint64_t pools_made;

void rig_open_plan(struct rig *r, const struct plan_wish *wanted)
{
	const struct policy *policy = policy_find(wanted->policy);
	struct plan_wish wish = *wanted;
	struct plan plan;
	char error[256];

	wish.slot_words = policy->slot_words;
	assert_int_equal(plan_make(&wish, &plan, error, sizeof(error)), 0);
	r->memory = aligned_alloc(64, round_up_u64(plan.pool_bytes, 64));
	assert_non_null(r->memory);
	r->owns_memory = 1;
	memset(r->memory, 0xa5, plan.pool_bytes);
	assert_int_equal(loop_open(r->memory, plan.pool_bytes, &r->fab), 0);
	worker_init(&r->worker, r->fab, clock_monotonic(), 1);
	assert_int_equal(pool_format(&r->worker, &plan, 7 + pools_made++), 0);
	join(r, policy);
}

static uint64_t tick(const struct clock *clock)
{
	const struct rig_clock *c = (const void *)clock;

	return *c->now_ns += 1000;
}

void rig_tick(struct rig *r)
{
	r->ticks_ns = clock_now_ns(r->worker.clock);
	r->ticking = (struct rig_clock){.clock = {tick}, .now_ns = &r->ticks_ns};
	r->worker.clock = &r->ticking.clock;
}

void rig_attach(struct rig *r, const struct rig *host, uint64_t seed)
{
	r->memory = host->memory;
	r->owns_memory = 0;
	assert_int_equal(loop_open(r->memory, host->pool.plan.pool_bytes, &r->fab), 0);
	worker_init(&r->worker, r->fab, clock_monotonic(), seed);
	join(r, host->cn.policy);
}

static void release(struct rig *r)
{
	fab_close(r->fab);
	if (r->owns_memory)
		free(r->memory);
}

void rig_close(struct rig *r)
{
	assert_int_equal(cache_drain(&r->cache), 0);
	cache_fini(&r->cache);
	lane_fini(&r->lane);
	cn_close(&r->cn, &r->worker);
	release(r);
}

void rig_kill(struct rig *r)
{
	cache_fini(&r->cache);
	lane_fini(&r->lane);
	cn_memory_destroy(&r->cn);
	release(r);
}

static struct cache_key key_of(char *text, size_t text_bytes, uint32_t id)
{
	return (struct cache_key){text, (uint32_t)snprintf(text, text_bytes, "key-%u", id)};
}

int rig_set(struct rig *r, uint32_t id, uint32_t version, uint32_t bytes)
{
	char key[32];
	uint32_t value[256];

	assert_true(bytes <= sizeof(value));
	for (unsigned i = 0; i < ARRAY_COUNT(value); i++)
		value[i] = id * 2654435761u + version;
	return cache_set(&r->cache, key_of(key, sizeof(key), id),
			 &(struct cache_item){.value = value, .bytes = bytes});
}

int rig_get(struct rig *r, uint32_t id, uint32_t *version)
{
	char key[32];
	struct cache_value v;
	int status = cache_get(&r->cache, key_of(key, sizeof(key), id), &v);

	if (status)
		return status;
	uint32_t first;

	assert_true(v.bytes >= 4);
	memcpy(&first, v.data, 4);
	*version = first - id * 2654435761u;
	for (uint32_t i = 0; i + 4 <= v.bytes; i += 4)
		assert_memory_equal((const char *)v.data + i, &first, 4);
	return 0;
}

int rig_delete(struct rig *r, uint32_t id)
{
	char key[32];

	return cache_delete(&r->cache, key_of(key, sizeof(key), id));
}
