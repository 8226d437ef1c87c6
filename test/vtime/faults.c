/*
 * faults.c: fault schedules as text, single faults on a world, and trials under faults.
 *
 *   vtime_faults [RUNS [SEED]]     trials; 300 from seed 1 if nothing is said
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "vtime/fault.h"
#include "vtime/trial.h"

#define NODE_BYTES 4096u

static uint64_t runs = 300, first_seed = 1;

/* ---- text ---------------------------------------------------------------------------------- */

static void test_schedules_as_text(void **state)
{
	const struct schedule_wish wish = {
	    .cns = 4, .threads = 4, .span_ns = 5000000, .faults_most = 20};
	char text[4096], again[4096], error_text[256];
	struct schedule s, parsed;
	struct prng p;

	prng_seed(&p, 3);
	for (unsigned i = 0; i < 500; i++) {
		schedule_make(&s, &p, &wish);
		assert_true(schedule_print(&s, text, sizeof(text)) < sizeof(text));
		assert_int_equal(schedule_parse(&parsed, text, error_text, sizeof(error_text)), 0);
		assert_int_equal(parsed.count, s.count);
		schedule_print(&parsed, again, sizeof(again));
		assert_string_equal(text, again);
	}
	assert_int_equal(schedule_parse(&s, " at=1.5ms pause cn=1 for=3ms ;\nat=0 kill cn=0;",
					error_text, sizeof(error_text)),
			 0);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.faults[0].kind, FAULT_KILL);
	assert_int_equal(s.faults[1].at_ns, 1500000);
	assert_int_equal(s.faults[1].for_ns, 3000000);
}

/* What is wrong is named, and what there is instead. */
static void test_bad_schedules(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
	    {"at=1ms sleep cn=0", "there are pause, slow"},
	    {"at=1ms", "without a kind"},
	    {"at=1ms kill cn=0 by=3ms", "'by=3ms' is no setting of the fault kill"},
	    {"cn=0 kill", "'cn=0' is no setting of a fault without a kind"},
	    {"at=1 pause cn=0 for=3ms", "'at=1'"},
	    {"at=-1ms pause cn=0", "'at=-1ms'"},
	    {"at=1ms pause cn=x", "'cn=x'"},
	    {"at=1ms restart cn=0", "'cn=0'"},
	    {"at=0 skew cn=0 drift=100000", "'drift=100000'"},
	    {"at=1ms kill kill", "'kill' is no kind"},
	    {"at=1ms pause cn=0 for=99999999ms", "with times up to 1s"},
	    {"at=2s kill cn=0", "'at=2s'"},
	    {"at=0 skew cn=0 by=-1e14s", "'by=-1e14s'"},
	    {"at=0 slow cn=0 by=1001 for=1ms", "factors up to 1000"},
	    {"at=0 slow cn=0 for=1ms", "write e.g. by=8"},
	    {"at=0 delay cn=0 by=1us", "write e.g. for=3ms"},
	    {"at=0 skew cn=0", "a skew without how much"},
	};
	char error_text[256];
	struct schedule s;

	for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
		assert_int_equal(schedule_parse(&s, bad[i].text, error_text, sizeof(error_text)),
				 FORGE_E_INVAL);
		if (!strstr(error_text, bad[i].says))
			fail_msg("%s: %s", bad[i].text, error_text);
	}
}

/* Who is not there cannot be hit. */
static void test_schedules_name_who_is_there(void **state)
{
	char error_text[256];
	struct schedule s;

	assert_int_equal(schedule_parse(&s,
					"at=0 kill cn=1; at=1us pause cn=0 thread=2 for=1us;"
					"at=2us wipe for=1us",
					error_text, sizeof(error_text)),
			 0);
	assert_int_equal(schedule_check(&s, 2, 3, error_text, sizeof(error_text)), 0);
	assert_int_equal(schedule_check(&s, 1, 3, error_text, sizeof(error_text)), FORGE_E_INVAL);
	assert_non_null(strstr(error_text, "kill cn=1: the cluster has 1 compute node,"));
	assert_int_equal(schedule_check(&s, 2, 2, error_text, sizeof(error_text)), FORGE_E_INVAL);
	assert_non_null(strstr(error_text, "pause thread=2: a compute node has 2 threads"));
}

/* A signal's handler ends a run that would go on for long. */
static void test_a_trial_can_be_stopped(void **state)
{
	static volatile sig_atomic_t stop = 1;
	struct trial_options o = {.seed = 1, .cns = 1, .load_ns = 1000000000, .stop = &stop};
	struct trial_result *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(trial_run(&o, r), FORGE_E_AGAIN);
	free(r);
}

/* ---- single faults ------------------------------------------------------------------------- */

struct party {
	struct vt_thread *thread;
	struct fab *fab;
	struct worker worker;
	uint64_t buf[64], ended_ns;
	struct fab_op ops[16];
	unsigned n;
	int status;
};

static struct party parties[2];

static struct vt_world *open_world(uint64_t seed)
{
	struct vt_world_options options = {
	    .profile = vt_profile_find("cx5"),
	    .nodes = 1,
	    .node_bytes = NODE_BYTES,
	    .cns = 2,
	    .threads = 1,
	    .seed = seed,
	};
	struct vt_world *w = NULL;

	assert_int_equal(vt_world_create(&options, &w), 0);
	memset(parties, 0, sizeof(parties));
	for (uint32_t i = 0; i < 2; i++) {
		struct party *p = &parties[i];

		p->thread = vt_thread_at(w, i);
		assert_int_equal(vt_connect(p->thread, 0, &p->fab), 0);
		vt_worker_init(p->thread, &p->worker, p->fab, i);
	}
	return w;
}

static void close_world(struct vt_world *w)
{
	fab_close(parties[0].fab);
	fab_close(parties[1].fab);
	vt_world_destroy(w);
}

static void party_main(void *argument)
{
	struct party *p = argument;

	p->status = flow_run(&p->worker, p->ops, p->n);
	p->ended_ns = clock_now_ns(p->worker.clock);
}

static void test_pause(void **state)
{
	struct vt_world *w = open_world(1);
	uint64_t until_ns = clock_now_ns(vt_world_clock(w)) + 500000;
	struct party *p = &parties[0];

	p->ops[0] = fab_read(FAB_DATA, 0, p->buf, 8);
	p->n = 1;
	vt_spawn(p->thread, party_main, p);
	vt_pause(w, 0, until_ns);
	assert_int_equal(vt_world_run(w), 0);
	assert_int_equal(p->status, 0);
	assert_true(p->ended_ns >= until_ns && p->ended_ns < until_ns + 5000);
	assert_true(vt_felt_by(w, 0).held_up > 0);
	assert_int_equal(vt_felt_by(w, 1).held_up, 0);
	close_world(w);
}

static void test_skew(void **state)
{
	struct vt_world *w = open_world(1);
	const struct clock *clock = vt_thread_clock(parties[0].thread);
	uint64_t now_ns = clock_now_ns(vt_world_clock(w));

	vt_skew(w, 0, -5000, 0);
	assert_int_equal(clock_now_ns(clock), now_ns - 5000);
	vt_skew(w, 0, 0, 100);
	assert_int_equal(clock_now_ns(clock), now_ns + now_ns / 10000);
	assert_int_equal(clock_now_ns(vt_thread_clock(parties[1].thread)), now_ns);
	close_world(w);
}

/* Of five verbs under way a prefix lands, then perhaps some words of one WRITE, and no more. */
static void test_cut(void **state)
{
	unsigned prefixes[6] = {0}, halves = 0;

	for (uint64_t seed = 0; seed < 200; seed++) {
		struct vt_world *w = open_world(seed);
		struct party *p = &parties[0];
		uint64_t *memory = vt_node_memory(w, 0);
		unsigned landed = 0;

		for (unsigned i = 0; i < 64; i++)
			p->buf[i] = ~UINT64_C(0);
		for (unsigned i = 0; i < 5; i++)
			p->ops[i] = fab_write(FAB_DATA, 64 * i, p->buf, 64);
		p->n = 5;
		fab_post(p->fab, p->ops, 5);
		assert_int_equal(vt_cut(w, 0), 5);
		assert_int_equal(vt_world_run(w), 0);
		assert_true(vt_has_settled(w, 0));
		for (unsigned i = 0; i < 5; i++) {
			unsigned words = 0;

			assert_int_equal(p->ops[i].status, FORGE_E_NODE);
			for (unsigned k = 0; k < 8; k++)
				words += memory[8 * i + k] != 0;
			if (words == 8 && landed == i)
				landed++;
			else if (landed == i)
				halves += words != 0;
			else
				assert_int_equal(words, 0);
		}
		prefixes[landed]++;
		/* Nor ever again. */
		p->ops[0] = fab_write(FAB_DATA, 1024, p->buf, 8);
		fab_post(p->fab, p->ops, 1);
		assert_int_equal(vt_world_run(w), 0);
		assert_int_equal(p->ops[0].status, FORGE_E_NODE);
		assert_int_equal(memory[128], 0);
		close_world(w);
	}
	for (unsigned i = 0; i < 6; i++)
		assert_true(prefixes[i] > 10);
	assert_true(halves > 20);
}

/* ---- trials -------------------------------------------------------------------------------- */

static void complain(const struct trial_result *r, uint64_t seed)
{
	char text[4096];

	schedule_print(&r->schedule, text, sizeof(text));
	fail_msg("%s: %s\n%s\nforge sim faults --runs 1 --seed %llu --faults '%s'",
		 status_name(r->status), r->why, r->shape, (unsigned long long)seed, text);
}

static void test_trials(void **state)
{
	struct trial_result *sum = test_calloc(2, sizeof(*sum)), *r = sum + 1;

	for (uint64_t i = 0; i < runs; i++) {
		struct trial_options o = {.seed = first_seed + i};

		if (trial_run(&o, r))
			complain(r, o.seed);
		trial_result_add(sum, r);
	}
	/* Each fault did something, and somebody was recovered. */
	for (unsigned i = 0; i < FAULT_KINDS && runs >= 100; i++)
		if (!sum->effective[i])
			fail_msg("no %s had an effect", fault_kind_name(i));
	assert_true(runs < 100 || sum->nodes_recovered > runs / 10);
	assert_true(runs < 100 || sum->cache.chunks_ahead > runs);
	printf("%llu trials, %llu operations, %llu verbs, hash %016llx\n", (unsigned long long)runs,
	       (unsigned long long)sum->operations, (unsigned long long)sum->verbs,
	       (unsigned long long)sum->hash);
	test_free(sum);
}

/*
 * Seeds that found something.  595: past 2^36 positions a node did not see the tail move on by what
 * it queued itself, so that it compacted where the ring was overlong, until its nodes ran out.
 */
static void test_seeds_that_found(void **state)
{
	static const uint64_t seeds[] = {595};
	struct trial_result *r = test_calloc(1, sizeof(*r));

	for (size_t i = 0; i < ARRAY_COUNT(seeds); i++) {
		struct trial_options o = {.seed = seeds[i]};

		if (trial_run(&o, r))
			complain(r, o.seed);
	}
	test_free(r);
}

/* Bit for bit, also when the schedule is given as the text that was printed. */
static void test_repeats(void **state)
{
	struct trial_result *a = test_calloc(2, sizeof(*a)), *b = a + 1;
	char text[4096], error_text[256];
	struct schedule s;

	for (uint64_t seed = 20; seed < 25; seed++) {
		struct trial_options o = {.seed = seed, .cns = 3, .threads = 2};

		assert_int_equal(trial_run(&o, a), 0);
		schedule_print(&a->schedule, text, sizeof(text));
		assert_int_equal(schedule_parse(&s, text, error_text, sizeof(error_text)), 0);
		o.schedule = &s;
		assert_int_equal(trial_run(&o, b), 0);
		assert_true(a->hash == b->hash);
		o.seed++;
		assert_int_equal(trial_run(&o, b), 0);
		assert_true(a->hash != b->hash);
	}
	test_free(a);
}

/* Counts flushed by nodes to whom nothing happens. */
static uint64_t flushed_from(uint64_t position)
{
	const struct schedule none = {.count = 0};
	struct trial_result *r = test_calloc(1, sizeof(*r));
	uint64_t flushed = 0;

	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct trial_options o = {.seed = seed,
					  .schedule = &none,
					  .policy = "forge",
					  .cns = 2,
					  .threads = 2,
					  .load_ns = 3000000,
					  .first_position = position};

		if (trial_run(&o, r))
			complain(r, seed);
		flushed += r->hits.flushed;
	}
	test_free(r);
	return flushed;
}

/*
 * A chunk word has 36 bits for the position: hits are flushed on both sides of where they wrap.
 * (They were not: a position was compared with the bits of one.)
 */
static void test_flushes_beyond_36_bits(void **state)
{
	uint64_t before = flushed_from((UINT64_C(1) << 36) - (UINT64_C(1) << 20));
	uint64_t across = flushed_from((UINT64_C(1) << 36) - 4);
	uint64_t after = flushed_from((UINT64_C(1) << 36) + (UINT64_C(1) << 20));

	printf("flushed: %llu, %llu, %llu\n", (unsigned long long)before,
	       (unsigned long long)across, (unsigned long long)after);
	assert_true(before > 100);
	assert_true(across > before / 2);
	assert_true(after > before / 2);
}

/*
 * Without the proof of death nodes are recovered that live: found, and shortened to a schedule that
 * needs no fault at all or very few.
 */
static void test_finds_and_shrinks(void **state)
{
	struct trial_result *r = test_calloc(1, sizeof(*r));
	struct trial_options o = {.rules_off = rule_bit(RULE_RECOVER_NEEDS_PROOF)};
	uint32_t before;

	do {
		assert_true(++o.seed < 200);
	} while (!trial_run(&o, r));
	assert_int_equal(r->status, FORGE_E_CORRUPT);
	before = r->schedule.count;
	trial_shrink(&o, r, 60);
	assert_int_equal(r->status, FORGE_E_CORRUPT);
	assert_true(r->schedule.count <= before);
	o.schedule = &r->schedule;
	struct trial_result *again = test_calloc(1, sizeof(*again));

	assert_int_equal(trial_run(&o, again), FORGE_E_CORRUPT);
	assert_true(again->hash == r->hash);
	test_free(again);
	test_free(r);
}

/* A load beyond the usual length: the history grows with it. */
static void test_long_load(void **state)
{
	struct trial_result *r = test_calloc(1, sizeof(*r));
	struct trial_options o = {.seed = 3, .load_ns = 150000000};

	if (trial_run(&o, r))
		fail_msg("%s", r->why);
	assert_true(r->operations > 80000);
	test_free(r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_schedules_as_text),
	    cmocka_unit_test(test_bad_schedules),
	    cmocka_unit_test(test_schedules_name_who_is_there),
	    cmocka_unit_test(test_a_trial_can_be_stopped),
	    cmocka_unit_test(test_pause),
	    cmocka_unit_test(test_skew),
	    cmocka_unit_test(test_cut),
	    cmocka_unit_test(test_trials),
	    cmocka_unit_test(test_seeds_that_found),
	    cmocka_unit_test(test_repeats),
	    cmocka_unit_test(test_flushes_beyond_36_bits),
	    cmocka_unit_test(test_finds_and_shrinks),
	    cmocka_unit_test(test_long_load),
	};

	if (argc > 1)
		runs = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		first_seed = strtoull(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
