/*
 * ahead.c: who fetches chunks ahead of need, on the side of its operations, and who does not: a
 * thread whose operations come seldom would let groups stand half evicted between two of them.
 *
 * One thread stores values one after the other, with pauses of virtual time between them, and after
 * each operation the chunk words tell whether a group is in nobody's reach.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "vtime/cluster.h"

#define CHUNKS	      128u
#define GROUP_OBJECTS 16u
#define SETS	      (4 * CHUNKS * GROUP_OBJECTS)

struct scene {
	struct vt_cluster cluster;
	uint64_t pause_ns;
	uint64_t standing; /* operations that left a group half evicted */
	uint64_t longest;  /* one after the other */
	int status;
};

static int is_any_evicting(struct scene *s)
{
	const struct plan *p = &s->cluster.options.plan;
	const char *memory = vt_node_memory(s->cluster.world, 0);

	for (uint32_t chunk = 0; chunk < p->chunk_count; chunk++) {
		const uint64_t *word = (const void *)(memory + plan_chunk_word_address(p, chunk));

		if (chunk_state(*word) == CHUNK_EVICTING)
			return 1;
	}
	return 0;
}

static void work(void *argument)
{
	struct scene *s = argument;
	struct vt_session *session = vt_session_at(&s->cluster, 0, 0);
	struct vt_thread *thread = vt_thread_at(s->cluster.world, 0);
	uint64_t run = 0;

	s->status = vt_sessions_begin(&s->cluster, 0);
	for (unsigned i = 0; i < SETS && !s->status; i++) {
		char key[16];
		struct cache_item item = {.value = key, .bytes = sizeof(key)};
		struct cache_value value;

		/* A third is found again, so that evictions have something to copy. */
		snprintf(key, sizeof(key), "%015u", i % 3 == 2 ? i / 3 % (CHUNKS * 4) : i);
		if (i % 3 == 2)
			s->status = cache_get(&session->cache, (struct cache_key){key, 15}, &value);
		if (i % 3 != 2 || s->status == FORGE_MISS)
			s->status = cache_set(&session->cache, (struct cache_key){key, 15}, &item);
		run = is_any_evicting(s) ? run + 1 : 0;
		s->standing += run > 0;
		s->longest = max_u64(s->longest, run);
		vt_sleep(thread, s->pause_ns);
	}
	if (!s->status)
		s->status = vt_sessions_drain(&s->cluster, 0);
}

static void run(struct scene *s, uint64_t pause_ns, struct cache_counters *counts)
{
	struct plan_wish wish = {
	    .chunk_count = CHUNKS,
	    .object_bytes = 64,
	    .group_objects = GROUP_OBJECTS,
	    .slot_words = policy_find("forge")->slot_words,
	    .cn_max = 2,
	    .policy = "forge",
	};
	struct vt_cluster_options options = {
	    .world =
		{.profile = vt_profile_find("tcp"), .nodes = 1, .cns = 1, .threads = 1, .seed = 1},
	    .policy = "forge",
	};
	char text[256];

	*s = (struct scene){.pause_ns = pause_ns};
	assert_int_equal(plan_make(&wish, &options.plan, text, sizeof(text)), 0);
	assert_int_equal(vt_cluster_open(&s->cluster, &options, text, sizeof(text)), 0);
	vt_spawn(vt_thread_at(s->cluster.world, 0), work, s);
	assert_int_equal(vt_world_run(s->cluster.world), 0);
	assert_int_equal(s->status, 0);
	assert_int_equal(vt_cluster_check(&s->cluster, text, sizeof(text)), 0);
	*counts = (struct cache_counters){0};
	vt_cluster_counts(&s->cluster, counts);
	vt_cluster_close(&s->cluster);
}

static void test_busy(void **state)
{
	struct cache_counters counts;
	struct scene s;

	run(&s, 0, &counts);
	assert_in_range(counts.chunks_ahead, CHUNKS, SETS);
	/* Groups stand from one operation to the next, and what was begun is done after a few. */
	assert_in_range(s.standing, 1, SETS);
	assert_in_range(s.longest, 1, 8);
}

/* Below the limit by a little: what is begun is still done in time. */
static void test_just_often_enough(void **state)
{
	struct cache_counters counts;
	struct scene s;

	run(&s, 9000000, &counts);
	assert_in_range(counts.chunks_ahead, CHUNKS, SETS);
	assert_in_range(s.longest, 1, 8);
}

static void test_seldom(void **state)
{
	struct cache_counters counts;
	struct scene s;

	run(&s, 20000000, &counts);
	assert_true(counts.evictions + counts.groups_compacted > 0);
	assert_int_equal(s.standing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_busy),
	    cmocka_unit_test(test_just_often_enough),
	    cmocka_unit_test(test_seldom),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
