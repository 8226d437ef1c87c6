/*
 * world.c: how long verbs take in virtual time, in which order they take effect, and what a run
 * does when it cannot go on.
 *
 * Times are compared with the arithmetic of the profile's constants, repeated here in literals.
 */
#include "vtime/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/compiler.h"
#include "fiber/fiber.h"

#define NODE_BYTES 65536u

struct party {
	struct vt_thread *thread;
	struct fab *fab;
	struct worker worker;
	uint64_t began_ns, ended_ns;
	uint8_t buf[16384];
	struct fab_op ops[64];
	unsigned n;
	uint32_t repeat;
	int status;
};

static struct party parties[8];

static struct vt_world *open_world(uint32_t cns, uint32_t threads)
{
	struct vt_world_options options = {
	    .profile = vt_profile_find("cx5"),
	    .nodes = 1,
	    .node_bytes = NODE_BYTES,
	    .cns = cns,
	    .threads = threads,
	    .seed = 7,
	};
	struct vt_world *w = NULL;

	assert_int_equal(vt_world_create(&options, &w), 0);
	memset(parties, 0, sizeof(parties));
	for (uint32_t i = 0; i < cns * threads; i++) {
		struct party *p = &parties[i];

		p->thread = vt_thread_at(w, i);
		p->repeat = 1;
		assert_int_equal(vt_connect(p->thread, 0, &p->fab), 0);
		vt_worker_init(p->thread, &p->worker, p->fab, i);
	}
	return w;
}

static void close_world(struct vt_world *w, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		fab_close(parties[i].fab);
	vt_world_destroy(w);
}

static void party_main(void *argument)
{
	struct party *p = argument;

	p->began_ns = clock_now_ns(p->worker.clock);
	for (uint32_t i = 0; i < p->repeat && !p->status; i++)
		p->status = flow_run(&p->worker, p->ops, p->n);
	p->ended_ns = clock_now_ns(p->worker.clock);
}

static uint64_t took_ns(const struct party *p)
{
	assert_int_equal(p->status, 0);
	return p->ended_ns - p->began_ns;
}

/* Everybody does what is in his ops, n of them, until nobody has anything left. */
static void run_parties(struct vt_world *w, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		vt_spawn(parties[i].thread, party_main, &parties[i]);
	assert_int_equal(vt_world_run(w), 0);
}

/* What the thread itself works for a batch of n verbs of bytes in all. */
static uint64_t cpu_ns(unsigned n, uint64_t bytes)
{
	const struct vt_profile *p = vt_profile_find("cx5");

	return (p->cpu_wait + n * p->cpu_verb + bytes * p->cpu_kib / 1024) / 1000;
}

static void assert_near(uint64_t ns, uint64_t expected_ns, uint64_t tolerance_ns)
{
	if (ns + tolerance_ns < expected_ns || ns > expected_ns + tolerance_ns)
		print_error("%llu ns, expected %llu\n", (unsigned long long)ns,
			    (unsigned long long)expected_ns);
	assert_true(ns + tolerance_ns >= expected_ns && ns <= expected_ns + tolerance_ns);
}

/* How long one thread takes for n READs of bytes each in a batch, less its own work. */
static uint64_t reads_ns(unsigned n, uint32_t bytes)
{
	struct vt_world *w = open_world(1, 1);
	struct party *p = &parties[0];

	for (unsigned i = 0; i < n; i++)
		p->ops[i] = fab_read(FAB_DATA, bytes * i, p->buf + bytes * i, bytes);
	p->n = n;
	run_parties(w, 1);
	uint64_t ns = took_ns(p) - cpu_ns(n, (uint64_t)n * bytes);

	close_world(w, 1);
	return ns;
}

static void test_unloaded_read(void **state)
{
	assert_near(reads_ns(1, 8), 2000, 2);
}

/* 8 KiB are two packets: 8192 + 2 x 26 + 4 bytes at 80 ps instead of 8 + 26 + 4. */
static void test_long_read(void **state)
{
	assert_near(reads_ns(1, 8192), 2000 + (8248 - 38) * 80 / 1000, 3);
}

/* 16 READs of a batch are on their way at once; the 17th leaves when the first has come back. */
static void test_outstanding(void **state)
{
	assert_near(reads_ns(16, 8), 2000 + 15 * 11, 15);
	assert_near(reads_ns(17, 8), 4000, 5);
}

/* Two threads, one word, one FAA each: how far they are apart.  Both count. */
static uint64_t two_faas_ns(struct vt_world *w)
{
	for (unsigned i = 0; i < 2; i++) {
		parties[i].ops[0] = fab_faa(FAB_INDEX, 128, 1);
		parties[i].n = 1;
	}
	run_parties(w, 2);
	uint64_t a = took_ns(&parties[0]), b = took_ns(&parties[1]);

	assert_int_equal(parties[0].ops[0].old + parties[1].ops[0].old, 1);
	assert_int_equal(((uint64_t *)vt_node_memory(w, 0))[16], 2);
	close_world(w, 2);
	return max_u64(a, b) - min_u64(a, b);
}

static void test_atomics_on_one_word(void **state)
{
	assert_near(two_faas_ns(open_world(2, 1)), 480, 1);
}

static void test_atomics_in_device_memory(void **state)
{
	struct vt_world *w = open_world(2, 1);

	vt_node_set_hot(w, 0, 128, 256);
	assert_near(two_faas_ns(w), 118, 1);
}

/* A batch takes effect in order, atomics on a busy word included. */
static void test_order_of_a_batch(void **state)
{
	struct vt_world *w = open_world(2, 1);
	struct party *busy = &parties[0], *p = &parties[1];
	uint64_t value = 41;

	busy->ops[0] = fab_faa(FAB_INDEX, 128, 0);
	busy->n = 1;
	busy->repeat = 20;
	p->ops[0] = fab_write(FAB_DATA, 128, &value, 8);
	p->ops[1] = fab_faa(FAB_DATA, 128, 1);
	p->ops[2] = fab_read(FAB_DATA, 128, p->buf, 8);
	p->ops[3] = fab_cas(FAB_DATA, 128, 42, 43);
	p->n = 4;
	run_parties(w, 2);
	memcpy(&value, p->buf, 8);
	assert_int_equal(value, 42);
	assert_true(fab_cas_won(&p->ops[3]));
	close_world(w, 2);
}

/* Housekeeping that costs nothing takes no time, and its batch is carried out all the same. */
static void test_free_housekeeping(void **state)
{
	struct vt_world *w = open_world(1, 1);
	struct party *p = &parties[0];

	vt_world_set_free_purposes(w, VT_HOUSEKEEPING);
	p->ops[0] = fab_faa(FAB_EVICTION, 128, 5);
	p->ops[1] = fab_read(FAB_HOTNESS, 128, p->buf, 8);
	p->n = 2;
	run_parties(w, 1);
	assert_int_equal(took_ns(p), 0);
	assert_int_equal(p->buf[0], 5);
	/* Between two that cost: in order, and as long as those two alone. */
	uint64_t took[2];

	for (unsigned k = 0; k < 2; k++) {
		p->ops[0] = fab_faa(FAB_INDEX, 128, 1);
		p->ops[1] = fab_faa(FAB_SPACE, 128, 10);
		p->ops[k == 0 ? 2 : 1] = fab_read(FAB_INDEX, 128, p->buf, 8);
		p->n = k == 0 ? 3 : 2;
		run_parties(w, 1);
		took[k] = took_ns(p);
		assert_int_equal(p->buf[0], k == 0 ? 16 : 17);
	}
	assert_true(took[0] > 2000);
	assert_near(took[0], took[1], 1);
	close_world(w, 1);
}

static void sleeper(void *argument)
{
	struct party *p = argument;

	p->began_ns = clock_now_ns(p->worker.clock);
	vt_work(p->thread, 1500 * 1000);
	assert_int_equal(clock_now_ns(p->worker.clock) - p->began_ns, 1500);
	vt_sleep(p->thread, 1000000);
	p->ended_ns = clock_now_ns(p->worker.clock);
}

static void test_work_and_sleep(void **state)
{
	struct vt_world *w = open_world(1, 2);

	for (unsigned i = 0; i < 2; i++)
		vt_spawn(parties[i].thread, sleeper, &parties[i]);
	assert_int_equal(vt_world_run(w), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(took_ns(&parties[i]), 1001500);
	close_world(w, 2);
}

/* Two threads on one processor work one after the other. */
static void test_one_core(void **state)
{
	struct vt_world_options options = {
	    .profile = vt_profile_find("cx5"),
	    .nodes = 1,
	    .node_bytes = NODE_BYTES,
	    .cns = 1,
	    .threads = 2,
	    .cores = 1,
	};
	struct vt_world *w = NULL;
	struct vt_busy busy;

	assert_int_equal(vt_world_create(&options, &w), 0);
	vt_work(vt_thread_at(w, 0), 1000);
	vt_work(vt_thread_at(w, 1), 1000);
	assert_int_equal(clock_now_ns(vt_thread_clock(vt_thread_at(w, 0))) + 1,
			 clock_now_ns(vt_thread_clock(vt_thread_at(w, 1))));
	vt_world_busy(w, &busy);
	assert_int_equal(busy.cn_cpu_ps, 2000);
	vt_world_destroy(w);
}

static void waits_for_ever(void *argument)
{
	fiber_yield();
}

/* A world in which nothing can happen any more says so, instead of going round for ever. */
static void test_nobody_can_go_on(void **state)
{
	struct vt_world *w = open_world(1, 1);

	vt_spawn(parties[0].thread, waits_for_ever, NULL);
	assert_int_equal(vt_world_run(w), FORGE_E_AGAIN);
	close_world(w, 1);
}

static void test_bad_options(void **state)
{
	struct vt_world_options options = {.nodes = 1, .node_bytes = 8, .cns = 1, .threads = 1};
	struct vt_world *w = NULL;

	assert_int_equal(vt_world_create(&options, &w), FORGE_E_INVAL);
	options.profile = vt_profile_find("cx5");
	options.threads = 0;
	assert_int_equal(vt_world_create(&options, &w), FORGE_E_INVAL);
	assert_null(w);
}

/* Any constant is in the hash; names and sentences are not. */
static void test_profile_hash(void **state)
{
	struct vt_profile p = *vt_profile_find("cx5");
	uint64_t hash = vt_profile_hash(&p);

	p.name = "other";
	assert_true(vt_profile_hash(&p) == hash);
#define FIELD(field, unit, sentence)              \
	p.field++;                                \
	assert_true(vt_profile_hash(&p) != hash); \
	p.field--;
	VT_PROFILE_FIELDS(FIELD)
#undef FIELD
	assert_null(vt_profile_find("no such one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_unloaded_read),
	    cmocka_unit_test(test_long_read),
	    cmocka_unit_test(test_outstanding),
	    cmocka_unit_test(test_atomics_on_one_word),
	    cmocka_unit_test(test_atomics_in_device_memory),
	    cmocka_unit_test(test_order_of_a_batch),
	    cmocka_unit_test(test_free_housekeeping),
	    cmocka_unit_test(test_work_and_sleep),
	    cmocka_unit_test(test_one_core),
	    cmocka_unit_test(test_nobody_can_go_on),
	    cmocka_unit_test(test_bad_options),
	    cmocka_unit_test(test_profile_hash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
