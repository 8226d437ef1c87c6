/*
 * run.c: whole runs in virtual time: the same seed gives the same run, bit for bit; every value
 * that is read is right, and the pools pass the checker; points that share a warm-up are what each
 * would be alone.
 */
#include "vtime/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "bench/loads.h"

struct scene {
	struct workload_spec spec;
	struct bench_load load;
	struct bench_setup bench;
	struct plan plan;
	struct vt_setup setup;
	struct bench_result *results;
	struct vt_report reports[4];
};

static void make_pool(struct scene *s, const char *workload, const char *policy, uint32_t nodes,
		      uint32_t chunks)
{
	struct plan_wish wish = {
	    .chunk_count = chunks,
	    .object_bytes = 276,
	    .group_objects = 16,
	    .slot_words = policy_find(policy)->slot_words,
	    .cn_max = 3,
	    .policy = policy,
	};
	struct load_error error;
	char text[256];

	*s = (struct scene){0};
	assert_int_equal(workload_parse(&s->spec, workload, &error), 0);
	load_of_workload(&s->load, &s->spec);
	assert_int_equal(plan_make(&wish, &s->plan, text, sizeof(text)), 0);
	s->bench = (struct bench_setup){
	    .processes = 3,
	    .threads = 4,
	    .policy = policy,
	    .warm_up = {.operations = 10000},
	    .measured = {.operations = 20000},
	    .seed = 11,
	    .verify = true,
	};
	s->setup = (struct vt_setup){
	    .bench = &s->bench,
	    .plan = &s->plan,
	    .nodes = nodes,
	    .points = {{vt_profile_find("cx5"), 0}},
	    .point_count = 1,
	};
	s->results = calloc(4, sizeof(*s->results));
	assert_non_null(s->results);
}

static void make_scene(struct scene *s, const char *workload, const char *policy, uint32_t nodes)
{
	make_pool(s, workload, policy, nodes, 160 / nodes);
}

static void run_scene(struct scene *s)
{
	char text[1024] = "";
	int status = vt_run(&s->setup, &s->load, s->results, s->reports, text, sizeof(text));

	if (status)
		print_error("%s\n", text);
	assert_int_equal(status, 0);
}

static void drop_scene(struct scene *s)
{
	workload_spec_free(&s->spec);
	free(s->results);
}

static void test_same_seed_same_run(void **state)
{
	uint64_t hash[3], p99[3];

	for (unsigned i = 0; i < 3; i++) {
		struct scene s;

		make_scene(&s, "ycsb-a:keys=20k,sizes=256", "forge", 1);
		s.bench.seed = i == 2 ? 12 : 11;
		/* Memory that is not the same at the start must not matter. */
		void *shift = malloc(1000 + 5000 * i);

		run_scene(&s);
		free(shift);
		hash[i] = s.reports[0].run_hash;
		p99[i] = hist_percentile_ns(&s.results[0].latency[BENCH_ALL], 99);
		assert_int_equal(s.results[0].tally.operations, 20000);
		drop_scene(&s);
	}
	assert_true(hash[0] == hash[1]);
	assert_true(p99[0] == p99[1]);
	assert_true(hash[0] != hash[2]);
}

/* Every policy, reads verified (the scene does), the pools checked. */
static void test_right_and_clean(void **state)
{
	const struct policy *policy;
	static const char *const workloads[] = {"ycsb-a:keys=20k,sizes=16-600",
						"ycsb-d:keys=20k,sizes=256",
						"uniform:keys=5k,delete=0.2,set=0.3,sizes=64"};

	for (unsigned i = 0; (policy = policy_at(i)); i++) {
		for (unsigned k = 0; k < ARRAY_COUNT(workloads); k++) {
			struct scene s;

			make_scene(&s, workloads[k], policy->name, 1 + k % 2);
			s.setup.check = true;
			run_scene(&s);
			assert_true(s.results[0].tally.verified > 0);
			assert_true(s.results[0].tally.hits > 0);
			assert_int_equal(s.results[0].tally.sets_no_space, 0);
			drop_scene(&s);
		}
	}
}

/* A point after a shared warm-up is the run that has the warm-up for itself. */
static void test_points(void **state)
{
	struct scene both, alone;

	make_scene(&both, "ycsb-b:keys=20k,sizes=256", "forge", 1);
	both.setup.points[1] = (struct vt_point){vt_profile_find("cx5"), VT_HOUSEKEEPING};
	both.setup.points[2] = both.setup.points[0];
	both.setup.point_count = 3;
	run_scene(&both);
	make_scene(&alone, "ycsb-b:keys=20k,sizes=256", "forge", 1);
	run_scene(&alone);
	assert_true(both.reports[0].run_hash == alone.reports[0].run_hash);
	assert_true(both.reports[2].run_hash == alone.reports[0].run_hash);
	assert_true(both.results[0].seconds == alone.results[0].seconds);
	/* Without housekeeping to pay for it is not slower. */
	assert_true(both.reports[1].run_hash != alone.reports[0].run_hash);
	assert_true(both.results[1].seconds < both.results[0].seconds);
	drop_scene(&both);
	drop_scene(&alone);
}

static void test_penalty_and_time(void **state)
{
	struct scene s;

	make_scene(&s, "uniform:keys=1M,sizes=64", "forge", 1);
	s.bench.miss_penalty_us = 100;
	s.bench.measured = (struct bench_extent){.ns = 20000000};
	run_scene(&s);
	/* 12 threads for 20 ms (looked at every 16 operations), nearly all misses at 100 us and
	 * some. */
	assert_true(s.results[0].seconds >= 0.02 && s.results[0].seconds < 0.022);
	double rate = (double)s.results[0].tally.operations / s.results[0].seconds;

	assert_true(rate > 12 / 115e-6 && rate < 12 / 95e-6);
	assert_true(hist_min_ns(&s.results[0].latency[BENCH_ALL]) < 10000);
	assert_true(hist_percentile_ns(&s.results[0].latency[BENCH_ALL], 50) > 100000);
	drop_scene(&s);
}

/*
 * Open loop: what was asked for is done while there is time, and an operation's latency is that of
 * a closed loop when there is plenty of it; above what the threads can do, latencies grow with the
 * run.
 */
static void test_open_loop(void **state)
{
	double rates[] = {20e3, 500e3, 20e6};
	uint64_t p50[3];

	for (unsigned i = 0; i < 3; i++) {
		struct scene s;

		make_scene(&s, "ycsb-c:keys=20k,sizes=256", "forge", 1);
		s.bench.rate = rates[i];
		s.bench.warm_up.operations = 0;
		run_scene(&s);
		double rate = (double)s.results[0].tally.operations / s.results[0].seconds;

		if (i < 2)
			assert_true(rate > 0.9 * rates[i] && rate < 1.1 * rates[i]);
		else
			assert_true(rate < 0.5 * rates[i]);
		p50[i] = hist_percentile_ns(&s.results[0].latency[BENCH_ALL], 50);
		drop_scene(&s);
	}
	/* Few operations a second poll at nearly each of them. */
	assert_true(p50[0] > 4000 && p50[0] < 10000);
	assert_true(p50[1] > 4000 && p50[1] < 10000);
	assert_true(p50[2] > 100000);
}

/*
 * The margin of the window: at the default interval, and no node stands still, fewer than one group
 * in a thousand is evicted before every node has flushed it, at the highest rate these nodes reach;
 * when nodes stand still for longer than the window lasts, many are, and that is counted.
 */
static void test_window_margin(void **state)
{
	uint64_t unflushed[3], groups[3];

	for (unsigned k = 0; k < 3; k++) {
		struct scene s;

		make_scene(&s, "ycsb-a", "forge", 1);
		s.bench.threads = 12;
		s.bench.measured.operations = 60000;
		s.bench.poll_interval_us = k == 2 ? 1600 : 0;
		s.setup.pause_ns = k == 1 ? 3000000 : 0;
		s.setup.pause_every_ns = 6000000;
		run_scene(&s);
		unflushed[k] = s.results->cache.groups_unflushed;
		groups[k] = s.results->cache.groups_regrouped + s.results->cache.groups_requeued;
		drop_scene(&s);
	}
	for (unsigned k = 0; k < 3; k++) {
		printf("evicted unflushed: %llu of %llu groups\n", (unsigned long long)unflushed[k],
		       (unsigned long long)groups[k]);
		assert_true(groups[k] > 1000);
	}
	assert_true(unflushed[0] * 1000 < groups[0]);
	assert_true(unflushed[1] * 20 > groups[1]);
	assert_true(unflushed[2] * 10 < groups[2]);
}

/*
 * Windows become as long as pauses need: nodes stand still for 0.9 ms every 6 ms, in which more
 * groups leave a ring than the least window has, and are late for no more than the stated share.
 */
static void test_window_fits(void **state)
{
	struct scene s;

	make_pool(&s, "ycsb-a", "forge", 1, 1600);
	s.bench.threads = 12;
	s.bench.warm_up.operations = 150000;
	s.bench.measured.operations = 150000;
	s.setup.pause_ns = 900000;
	s.setup.pause_every_ns = 6000000;
	run_scene(&s);
	const struct cache_counters *c = &s.results->cache;
	uint64_t groups = c->groups_regrouped + c->groups_requeued;

	printf("evicted unflushed: %llu of %llu groups; hits late: %llu of %llu\n",
	       (unsigned long long)c->groups_unflushed, (unsigned long long)groups,
	       (unsigned long long)c->hits_late, (unsigned long long)c->hits_flushed);
	assert_true(groups > 2000);
	assert_true(c->hits_late > 0); /* there were such pauses */
	assert_true(c->groups_unflushed * CN_UNFLUSHED_ONE_IN <= groups);
	drop_scene(&s);
}

/*
 * Where everything fits twice hardly anybody is evicted, though each of three nodes saw a third of
 * the deaths alone: who needs its first chunk is told of the others' before it evicts.  (37 in
 * 1,000 Gets missed, before.)
 */
static void test_fits(void **state)
{
	struct scene s;

	make_pool(&s, "ycsb-a:keys=20k,sizes=256", "forge", 1, 2500);
	s.bench.preload = true;
	s.bench.measured.operations = 60000;
	run_scene(&s);
	const struct bench_tally *t = &s.results->tally;

	printf("Gets that missed: %llu of %llu; groups evicted: %llu, compacted: %llu\n",
	       (unsigned long long)(t->gets - t->hits), (unsigned long long)t->gets,
	       (unsigned long long)s.results->cache.groups_regrouped,
	       (unsigned long long)s.results->cache.groups_compacted);
	assert_true(s.results->cache.groups_compacted > 500);
	assert_true((t->gets - t->hits) * 200 < t->gets);
	drop_scene(&s);
}

/*
 * Threads that Set one key at once do not fight for it: whoever loses the slot is absorbed by who
 * won, so that nearly no CAS is tried again.  (Of 60,000 operations on 1,000 keys 7,500 CASes were,
 * before.)
 */
static void test_hot_key(void **state)
{
	struct scene s;

	make_scene(&s, "ycsb-a:keys=1000,sizes=256", "forge", 1);
	s.bench.threads = 32;
	s.bench.measured.operations = 60000;
	run_scene(&s);
	const struct cache_counters *c = &s.results->cache;

	printf("Sets %llu, absorbed %llu, races lost %llu\n", (unsigned long long)c->sets,
	       (unsigned long long)c->sets_absorbed, (unsigned long long)c->sets_restarted);
	assert_true(c->sets_absorbed * 20 > c->sets);
	assert_true((c->sets_restarted - c->sets_absorbed) * 50 < c->sets);
	drop_scene(&s);
}

/*
 * Where each thread could hold a group for either ring and nearly no chunk is left for evictions,
 * nobody waits for long for what a thread holds that has no more to do: the last operation is over
 * soon after the others.  (It once took 14 times as long as a thread has operations for.)
 */
static void test_few_chunks(void **state)
{
	struct scene s;

	make_pool(&s, "ycsb-b:keys=20k,sizes=256", "forge", 1, 200);
	s.bench.threads = 32;
	s.bench.warm_up.operations = 60000;
	s.bench.measured.operations = 60000;
	run_scene(&s);
	const struct hist *all = &s.results->latency[BENCH_ALL];
	double busy = hist_mean_ns(all) * 60000 / (3 * 32) / 1e9;

	printf("seconds %.4f, of a thread's operations %.4f; longest %.1f us\n", s.results->seconds,
	       busy, (double)hist_max_ns(all) / 1000);
	assert_int_equal(s.results->tally.sets_no_space, 0);
	assert_true(s.results->seconds < 2 * busy);
	drop_scene(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_window_margin),    cmocka_unit_test(test_window_fits),
	    cmocka_unit_test(test_hot_key),	     cmocka_unit_test(test_same_seed_same_run),
	    cmocka_unit_test(test_right_and_clean),  cmocka_unit_test(test_points),
	    cmocka_unit_test(test_penalty_and_time), cmocka_unit_test(test_open_loop),
	    cmocka_unit_test(test_few_chunks),	     cmocka_unit_test(test_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
