/*
 * recover.c: a compute node dies at one verb after the other, each landing not, in part or whole,
 * while it gets, sets, deletes, evicts, compacts and polls.  A survivor recovers it; then the
 * pool is as if nobody had ever died: the checker at rest finds nothing, every chunk is in one
 * place, the id is free again, and what the survivors do gives right values.  Then the survivor
 * itself dies at one verb after the other of that recovery, and the next one finishes it.  Each
 * recovery keeps to the bound in verbs that recover.h states.  Last, the lock of an id: who holds
 * it is never recovered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/count.h"
#include "fabric/fault.h"
#include "pool/recover.h"
#include "support/checked.h"

#define DEATHS 300u /* verbs to die at */
#define MANY   64u  /* chunks: room for four compute nodes */

static const char *const policies[] = {"forge", "forge-paper"};

/* Locks of CN ids as the kernel would keep them. */
struct locks {
	uint64_t held; /* bit per id */
	uint64_t asked;
};

static int lock_hold(void *context, uint32_t cn)
{
	struct locks *l = context;

	l->asked++;
	if (l->held >> cn & 1)
		return FORGE_E_AGAIN;
	l->held |= UINT64_C(1) << cn;
	return 0;
}

static void lock_release(void *context, uint32_t cn)
{
	struct locks *l = context;

	l->held &= ~(UINT64_C(1) << cn);
}

/* Sets, Gets and Deletes until the node is lost; 1 if it was, 0 after many operations. */
static int work_until_lost(struct rig *r, uint64_t seed)
{
	struct prng prng;
	uint32_t version;

	prng_seed(&prng, seed);
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t id = (uint32_t)prng_below(&prng, KEYS / 4);
		uint64_t kind = prng_below(&prng, 10);
		int status = kind == 0	? rig_delete(r, id)
			     : kind < 4 ? rig_get(r, id, &version)
					: rig_set(r, id, i, 60);

		if (status == FORGE_E_NODE)
			return 1;
		assert_true(status == 0 || status == FORGE_MISS);
	}
	return 0;
}

static void lose_later(struct rig *r, struct fault_plan *plan)
{
	assert_int_equal(fault_open(r->fab, plan, &r->fab), 0);
	r->worker.fab = r->fab;
}

/* A pool on which CN 0 has just died at the n-th verb; CN 1 is attached to what it left. */
static void open_bereft(struct rig *dead, struct rig *survivor, struct fault_plan *plan, unsigned n)
{
	*plan = (struct fault_plan){
	    .lose_at = 1 + n / 2, .landing = n / 2 % 3, .part_words = n / 6 % 4};
	rig_open(dead, policies[n % 2], MANY, OBJECTS);
	rig_tick(dead);
	rig_work(dead, 600, n);
	rig_attach(survivor, dead, n);
	/* Two nodes: deaths are published and counts flushed. */
	rig_work(survivor, 200, n);
	lose_later(dead, plan);
	assert_true(work_until_lost(dead, n));
}

static struct recover_report total;
static uint64_t verbs_most;

static uint32_t id_is_taken(struct rig *r, uint32_t cn)
{
	uint64_t id;
	struct fab_op op =
	    fab_read(FAB_CONTROL, plan_registry_address(&r->pool.plan, cn), &id, sizeof(id));

	assert_int_equal(flow_run(&r->worker, &op, 1), 0);
	return registry_state(id) != REGISTRY_FREE;
}

static void recover_all(struct rig *by, struct locks *locks, uint32_t expected_dead)
{
	struct liveness alive = {locks, lock_hold, lock_release};
	struct recover_report report = {0};
	static struct fab_counts counts; /* of every connection since */
	struct fab_counts before = counts;
	uint32_t dead_count = 0;

	assert_int_equal(count_open(by->fab, &counts, &by->fab), 0);
	by->worker.fab = by->fab;
	assert_int_equal(recover_dead_open(&by->pool, &by->worker, &alive, &report, &dead_count),
			 0);
	struct fab_counts mine = fab_counts_since(&counts, &before);
	uint64_t verbs = fab_counts_total(&mine).verbs;
	uint64_t bound = recover_verbs_max(&by->pool.plan, &report, dead_count);

	if (verbs > bound)
		fail_msg("%llu verbs, more than %llu", (unsigned long long)verbs,
			 (unsigned long long)bound);
	verbs_most = max_u64(verbs_most, verbs);
	assert_int_equal(dead_count, expected_dead);
	recover_report_merge(&total, &report);
}

/* As if nobody had died: nothing is found, and nothing belongs to CN 0. */
static void assert_recovered(struct rig *r)
{
	assert_false(id_is_taken(r, 0));
	struct check_report c = assert_clean(r, &check_at_rest);

	assert_int_equal(c.chunks_free + c.chunks_reserved + c.chunks_open + c.chunks_queued +
			     c.chunks_evicting,
			 MANY);
}

static void test_death_at_each_verb(void **state)
{
	for (unsigned n = 0; n < 2 * DEATHS; n++) {
		struct rig dead, survivor, next;
		struct fault_plan plan;
		struct locks locks = {.held = 1u << 1};

		open_bereft(&dead, &survivor, &plan, n);
		recover_all(&survivor, &locks, 1);
		assert_recovered(&survivor);
		/* The id may be joined again, and both go on with right values. */
		rig_attach(&next, &dead, n);
		assert_int_equal(next.cn.member.cn, 0);
		rig_work(&next, 200, n);
		rig_work(&survivor, 200, n + 1);
		assert_clean(&next, &check_at_rest);
		rig_close(&next);
		rig_close(&survivor);
		rig_kill(&dead);
	}
#define FIELD(name, sentence) print_message("%6llu %s\n", (unsigned long long)total.name, sentence);
	RECOVER_FIELDS(FIELD)
#undef FIELD
	print_message("%6llu verbs at most for a recovery\n", (unsigned long long)verbs_most);
	/* Each kind of remains was met. */
	assert_true(total.reserved_freed && total.open_freed && total.evicting_freed);
	assert_true(total.queued_again + total.queued_freed > 0);
}

/* The recoverer dies at the k-th verb of the recovery; the next survivor does the rest. */
static void test_death_while_recovering(void **state)
{
	unsigned recoveries = 0;

	for (unsigned n = 0; n < 2 * DEATHS; n += 23) {
		for (unsigned k = 1;; k++) {
			struct rig dead, recoverer, survivor;
			struct fault_plan plan, again = {.lose_at = k, .landing = k % 3};
			struct locks locks = {0};
			struct liveness alive = {&locks, lock_hold, lock_release};
			struct recover_report report = {0};
			uint32_t dead_count;

			open_bereft(&dead, &recoverer, &plan, n);
			rig_attach(&survivor, &dead, n);
			locks.held = 1u << 1 | 1u << 2;
			lose_later(&recoverer, &again);
			int status = recover_dead_open(&recoverer.pool, &recoverer.worker, &alive,
						       &report, &dead_count);

			recoveries++;
			if (status == FORGE_E_NODE) {
				/* It is dead, too, and the kernel dropped its locks. */
				locks.held = 1u << 2;
				recover_all(&survivor, &locks, 1 + id_is_taken(&survivor, 0));
			}
			if (status == FORGE_E_NODE)
				assert_recovered(&survivor);
			rig_work(&survivor, 100, n);
			rig_close(&survivor);
			rig_kill(&recoverer);
			rig_kill(&dead);
			if (status == 0)
				break;
		}
	}
	print_message("%u recoveries cut short\n", recoveries);
}

/* A node that sleeps holds its lock: nothing of it is touched. */
static void test_sleeper(void **state)
{
	struct rig sleeper, other;
	struct locks locks = {.held = 3};

	rig_open(&sleeper, "forge", MANY, OBJECTS);
	rig_work(&sleeper, 300, 1);
	rig_attach(&other, &sleeper, 2);
	struct check_report before = run_check(&other, &check_at_rest, NULL);

	recover_all(&other, &locks, 0);
	struct check_report after = run_check(&other, &check_at_rest, NULL);

	assert_int_equal(locks.held, 3);
	assert_memory_equal(&before, &after, sizeof(before));
	rig_work(&sleeper, 300, 1);
	assert_clean(&sleeper, &check_at_rest);
	rig_close(&other);
	rig_close(&sleeper);
}

/* An eviction that waits in vain for a dead node finds out and takes back its chunks. */
static void test_found_by_an_eviction(void **state)
{
	struct rig dead, survivor;
	struct locks locks = {.held = 1u << 1};
	struct liveness alive = {&locks, lock_hold, lock_release};

	rig_open(&dead, "forge", MANY, OBJECTS);
	rig_tick(&dead);
	rig_work(&dead, 400, 3);
	rig_attach(&survivor, &dead, 3);
	survivor.cn.alive = &alive;
	for (unsigned i = 0; survivor.cache.count.nodes_recovered == 0; i++) {
		assert_true(i < 10000);
		rig_work(&survivor, 10, i);
	}
	assert_recovered(&survivor);
	survivor.cn.alive = NULL;
	rig_close(&survivor);
	rig_kill(&dead);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_death_at_each_verb),
	    cmocka_unit_test(test_death_while_recovering),
	    cmocka_unit_test(test_sleeper),
	    cmocka_unit_test(test_found_by_an_eviction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
