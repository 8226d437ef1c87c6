/*
 * run.c: flow_run gives the same results whatever the wait: at post, by polling, on fibers.
 *
 * A side goes on while its lead waits, and costs it no round trip.
 *
 * Flows run over loop (completes at post) and over late (one op per poll, 12 per batch), as a
 * thread and as many fibers of one loop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "fabric/fault.h"
#include "fabric/loop.h"
#include "late.h"
#include "run/fiber_loop.h"
#include "run/run.h"
#include "run/side.h"

#define EXPORT_BYTES 4096u
#define FLOWS	     30

static uint64_t mem[EXPORT_BYTES / 8];

static struct fab *open_fab(int is_late)
{
	struct fab *f = NULL;

	assert_int_equal(loop_open(mem, sizeof(mem), &f), FORGE_OK);
	if (is_late)
		assert_int_equal(late_open(f, &f), FORGE_OK);
	return f;
}

static int clear(void **state)
{
	memset(mem, 0, sizeof(mem));
	return 0;
}

static void check_batches(int is_late)
{
	struct worker w;
	struct fab *f = open_fab(is_late);
	struct fab_op ops[100];
	uint64_t total = 0;

	worker_init(&w, f, clock_monotonic(), 1);
	assert_int_equal(flow_run(&w, ops, 0), FORGE_OK);
	for (unsigned n = 1; n <= ARRAY_COUNT(ops); n++) {
		for (unsigned i = 0; i < n; i++)
			ops[i] = fab_faa(FAB_CONTROL, 0, 1);
		assert_int_equal(flow_run(&w, ops, n), FORGE_OK);
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(ops[i].old, total++);
	}
	fab_close(f);
}

static void test_batches_at_post(void **state)
{
	check_batches(0);
}

static void test_batches_polled(void **state)
{
	check_batches(1);
}

/* A failed CAS is no error; one out of bounds is, and stops all that follows, in any part. */
static void check_errors(int is_late)
{
	struct worker w;
	struct fab *f = open_fab(is_late);

	worker_init(&w, f, clock_monotonic(), 1);
	for (unsigned bad = 0; bad < 40; bad++) {
		struct fab_op ops[40];

		memset(mem, 0, sizeof(mem));
		for (unsigned i = 0; i < 40; i++)
			ops[i] = fab_cas(FAB_CONTROL, i * 8, i % 2, 1);
		assert_int_equal(flow_run(&w, ops, 40), FORGE_OK);
		for (unsigned i = 0; i < 40; i++)
			ops[i] = fab_faa(FAB_CONTROL, i == bad ? EXPORT_BYTES : i * 8, 1);
		memset(mem, 0, sizeof(mem));
		assert_int_equal(flow_run(&w, ops, 40), FORGE_E_BOUNDS);
		for (unsigned i = 0; i < 40; i++) {
			assert_int_equal(ops[i].status, i < bad ? FORGE_OK : FORGE_E_BOUNDS);
			assert_int_equal(mem[i], i < bad);
		}
	}
	fab_close(f);
}

static void test_errors_at_post(void **state)
{
	check_errors(0);
}

static void test_errors_polled(void **state)
{
	check_errors(1);
}

/* Detached ops are not waited for and their untouched status is not an error. */
static void check_detached(int is_late)
{
	struct worker w;
	struct fab *f = open_fab(is_late);
	struct fab_op ops[2] = {fab_faa(FAB_HOTNESS, 8, 3), fab_faa(FAB_HOTNESS, 8, 4)};

	worker_init(&w, f, clock_monotonic(), 1);
	ops[0].flags = FAB_DETACHED;
	ops[0].status = FAB_PENDING;
	assert_int_equal(flow_run(&w, ops, 1), FORGE_OK);
	ops[0].status = FORGE_E_NODE;
	assert_int_equal(flow_run(&w, ops, 2), FORGE_OK);
	assert_int_equal(ops[1].old, 6);
	fab_close(f);
}

static void test_detached_at_post(void **state)
{
	check_detached(0);
}

static void test_detached_polled(void **state)
{
	check_detached(1);
}

static void test_lost_node(void **state)
{
	for (int is_late = 0; is_late <= 1; is_late++) {
		struct fault_plan plan = {.lose_at = 20};
		struct fab_op ops[30];
		struct worker w;
		struct fab *f;

		memset(mem, 0, sizeof(mem));
		assert_int_equal(fault_open(open_fab(is_late), &plan, &f), FORGE_OK);
		worker_init(&w, f, clock_monotonic(), 1);
		for (unsigned i = 0; i < 30; i++)
			ops[i] = fab_faa(FAB_CONTROL, 0, 1);
		assert_int_equal(flow_run(&w, ops, 30), FORGE_E_NODE);
		for (unsigned i = 0; i < 30; i++)
			assert_int_equal(ops[i].status, i < 19 ? FORGE_OK : FORGE_E_NODE);
		assert_int_equal(mem[0], 19);
		fab_close(f);
	}
}

struct flow {
	struct worker w;
	unsigned index;
	unsigned overlaps; /* saw another's increment between its own READ and CAS */
	struct fiber_loop *loop;
};

static void second_flow(struct worker *w, void *argument)
{
	struct fab_op op = fab_faa(FAB_CONTROL, 16, 1);

	assert_int_equal(flow_run(w, &op, 1), FORGE_OK);
}

/* Ten increments by READ and CAS; then another flow with the same worker. */
static void cas_flow(struct worker *w, void *argument)
{
	struct flow *flow = argument;

	for (unsigned done = 0; done < 10;) {
		uint64_t seen;
		struct fab_op read = fab_read(FAB_CONTROL, 0, &seen, 8), cas;

		assert_int_equal(flow_run(w, &read, 1), FORGE_OK);
		cas = fab_cas(FAB_CONTROL, 0, seen, seen + 1);
		assert_int_equal(flow_run(w, &cas, 1), FORGE_OK);
		if (fab_cas_won(&cas))
			done++;
		else
			flow->overlaps++;
	}
	flow_pause(w);
	mem[100 + flow->index]++;
	assert_int_equal(fiber_loop_spawn(flow->loop, w, second_flow, NULL), FORGE_OK);
}

/* Flows on connections of their own, or all on one, overlap and yet lose no increment. */
static void check_fibers(int is_late, int shared)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	static struct flow flows[FLOWS];
	struct fab *f = open_fab(is_late);
	unsigned overlaps = 0;

	memset(mem, 0, sizeof(mem));
	memset(flows, 0, sizeof(flows));
	for (unsigned i = 0; i < FLOWS; i++) {
		struct flow *flow = &flows[i];

		worker_init(&flow->w, shared ? f : open_fab(is_late), clock_monotonic(), i);
		flow->index = i;
		flow->loop = loop;
		assert_int_equal(fiber_loop_spawn(loop, &flow->w, cas_flow, flow), FORGE_OK);
	}
	fiber_loop_run(loop);
	for (unsigned i = 0; i < FLOWS; i++) {
		overlaps += flows[i].overlaps;
		assert_int_equal(mem[100 + i], 1);
		if (!shared)
			fab_close(flows[i].w.fab);
	}
	assert_int_equal(mem[0], FLOWS * 10);
	assert_int_equal(mem[2], FLOWS);
	/* At post nothing is parked between READ and CAS; later, everybody is. */
	assert_int_equal(overlaps > 0, is_late);
	fab_close(f);
	fiber_loop_destroy(loop);
}

static void test_fibers(void **state)
{
	check_fibers(0, 0);
	check_fibers(0, 1);
	check_fibers(1, 0);
	check_fibers(1, 1);
}

/* A batch of several parts on a fiber. */
static void read_flow(struct worker *w, void *argument)
{
	uint64_t word;
	struct fab_op op = fab_read(FAB_CONTROL, 0, &word, 8);

	assert_int_equal(flow_run(w, &op, 1), FORGE_OK);
}

/* So many fibers of a loop post a READ each in its first turn; how many kicks that takes. */
static unsigned kicks_of_a_turn(uint8_t kick_posts, unsigned fibers)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	struct fab *f = open_fab(1);
	struct worker workers[64];
	unsigned kicks;

	assert_in_range(fibers, 1, ARRAY_COUNT(workers));
	fab_base(f)->caps.kick_posts = kick_posts;
	for (unsigned i = 0; i < fibers; i++) {
		worker_init(&workers[i], f, clock_monotonic(), i);
		assert_int_equal(fiber_loop_spawn(loop, &workers[i], read_flow, NULL), FORGE_OK);
	}
	fiber_loop_turn(loop);
	kicks = late_kicks(f);
	fiber_loop_run(loop);
	fiber_loop_destroy(loop);
	fab_close(f);
	return kicks;
}

/* Eight posts share one, or as many as the fabric asks for; nothing waits for the next turn. */
static void test_posts_of_fibers_share_kicks(void **state)
{
	assert_int_equal(kicks_of_a_turn(0, 64), 8);
	assert_int_equal(kicks_of_a_turn(0, 9), 2);
	assert_int_equal(kicks_of_a_turn(32, 64), 2);
	assert_int_equal(kicks_of_a_turn(32, 33), 2);
	assert_int_equal(kicks_of_a_turn(32, 5), 1);
}

static void long_flow(struct worker *w, void *argument)
{
	struct fab_op ops[50];
	int *status = argument;

	for (unsigned i = 0; i < 50; i++)
		ops[i] = fab_faa(FAB_CONTROL, i == 40 ? EXPORT_BYTES : 24, 1);
	*status = flow_run(w, ops, 50);
}

static void test_fiber_long_batch(void **state)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	struct fab *f = open_fab(1);
	struct worker w;
	int status = 0;

	worker_init(&w, f, clock_monotonic(), 1);
	assert_int_equal(fiber_loop_spawn(loop, &w, long_flow, &status), FORGE_OK);
	fiber_loop_run(loop);
	assert_int_equal(status, FORGE_E_BOUNDS);
	assert_int_equal(mem[3], 40);
	fiber_loop_destroy(loop);
	fab_close(f);
}

/* A loop that was never run drops its fibers. */
static void test_destroy_unrun(void **state)
{
	struct fiber_loop *loop = fiber_loop_create(0);
	struct fab *f = open_fab(1);
	struct worker w;
	int status = 1;

	worker_init(&w, f, clock_monotonic(), 1);
	assert_int_equal(fiber_loop_spawn(loop, &w, long_flow, &status), FORGE_OK);
	fiber_loop_destroy(loop);
	assert_int_equal(status, 1);
	fab_close(f);
}

#define SIDE_STEPS 5u

struct sided {
	struct side side;
	unsigned steps;
	int pauses; /* between them */
};

static MAY_WAIT void side_flow(void *argument)
{
	struct sided *s = argument;

	for (unsigned i = 0; i < SIDE_STEPS; i++) {
		struct fab_op ops[] = {fab_faa(FAB_CONTROL, 8, 1), fab_faa(FAB_CONTROL, 16, 2)};

		assert_int_equal(flow_run(&s->side.worker, ops, 2), FORGE_OK);
		assert_int_equal(ops[0].old, i);
		assert_int_equal(ops[1].old, 2 * i);
		s->steps++;
		if (s->pauses)
			flow_pause(&s->side.worker);
	}
}

/* One step of the side with each batch of its lead; twice, and then by its lead's help alone. */
static void test_side(void **state)
{
	struct sided s = {0};
	struct worker w;
	struct fab *f = open_fab(1);

	worker_init(&w, f, clock_monotonic(), 1);
	assert_int_equal(side_init(&s.side, &w), FORGE_OK);
	for (unsigned round = 0; round < 2; round++) {
		s.pauses = (int)round;
		memset(mem, 0, sizeof(mem));
		s.steps = 0;
		side_start(&s.side, side_flow, &s);
		for (unsigned i = 0; i < SIDE_STEPS + 1 || round; i++) {
			struct fab_op op = fab_faa(FAB_CONTROL, 0, 1);

			assert_true(side_is_busy(&s.side) || round);
			if (!side_is_busy(&s.side))
				break;
			assert_int_equal(flow_run(&w, &op, 1), FORGE_OK);
			assert_int_equal(op.old, i);
			assert_int_equal(mem[0], i + 1);
		}
		assert_int_equal(s.steps, SIDE_STEPS);
		assert_false(side_is_busy(&s.side));
	}
	memset(mem, 0, sizeof(mem));
	s.steps = 0;
	side_start(&s.side, side_flow, &s);
	while (side_is_busy(&s.side))
		side_help(&s.side, &w);
	assert_int_equal(s.steps, SIDE_STEPS);
	/* What has not finished is dropped. */
	memset(mem, 0, sizeof(mem));
	side_start(&s.side, side_flow, &s);
	side_fini(&s.side);
	assert_null(w.side);
	fab_close(f);
}

static void test_pause_of_a_thread(void **state)
{
	struct worker w;
	struct fab *f = open_fab(0);

	worker_init(&w, f, clock_monotonic(), 1);
	for (unsigned i = 0; i < 100; i++)
		flow_pause(&w);
	assert_int_equal(w.pauses, 100);
	fab_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_batches_at_post, clear),
	    cmocka_unit_test_setup(test_batches_polled, clear),
	    cmocka_unit_test_setup(test_errors_at_post, clear),
	    cmocka_unit_test_setup(test_errors_polled, clear),
	    cmocka_unit_test_setup(test_detached_at_post, clear),
	    cmocka_unit_test_setup(test_detached_polled, clear),
	    cmocka_unit_test_setup(test_lost_node, clear),
	    cmocka_unit_test_setup(test_fibers, clear),
	    cmocka_unit_test_setup(test_posts_of_fibers_share_kicks, clear),
	    cmocka_unit_test_setup(test_fiber_long_batch, clear),
	    cmocka_unit_test_setup(test_destroy_unrun, clear),
	    cmocka_unit_test(test_side),
	    cmocka_unit_test_setup(test_pause_of_a_thread, clear),
	};

	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
