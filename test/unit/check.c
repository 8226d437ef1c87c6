/*
 * check.c: the checker.  Pools that the cache worked on, with both policies, are clean at rest,
 * after generations wrapped, after a drain, after a death at any verb and beside running traffic,
 * and the numbers add up; thousands of seeded random damages neither crash nor hang it;
 * doc/check.md lists every rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fault.h"
#include "support/checked.h"

#define DEATHS 200u /* verbs to die at */

static const char *const policies[] = {"forge", "forge-paper"};

/* ---- clean pools -------------------------------------------------------------------------- */

static void assert_adds_up(const struct rig *r, const struct check_report *c)
{
	const struct plan *p = &r->pool.plan;

	assert_int_equal(c->chunks_free + c->chunks_reserved + c->chunks_open + c->chunks_queued +
			     c->chunks_evicting + c->chunks_part,
			 p->chunk_count);
	assert_int_equal(c->nodes_full, c->chunks_free + c->chunks_queued);
	assert_int_equal(c->nodes_full + c->nodes_stale + c->nodes_passed + c->nodes_empty,
			 RING_COUNT * p->ring_nodes);
	assert_int_equal(c->slots_empty + c->slots_live + c->slots_stale + c->slots_aliased,
			 plan_slot_count(p));
	assert_int_equal(c->groups_small + c->groups_main, c->chunks_queued);
	assert_true(c->slots_live <= c->objects_capacity);
	assert_true(c->live_bytes <= c->capacity_bytes);
	assert_true(c->used_bytes <= c->sealed_bytes);
	assert_true(c->payload_bytes < c->live_bytes || c->slots_live == 0);
}

static void test_clean(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;

		rig_open(&r, policies[i], CHUNKS, OBJECTS);
		struct check_report fresh = assert_clean(&r, &check_at_rest);

		assert_adds_up(&r, &fresh);
		assert_int_equal(fresh.chunks_free, CHUNKS);
		assert_int_equal(fresh.cns_live, 1);
		assert_int_equal(fresh.slots_empty, fresh.slots);
		for (uint32_t round = 0; round < 40; round++) {
			rig_work(&r, 500, round);
			struct check_report c = assert_clean(&r, &check_at_rest);

			assert_adds_up(&r, &c);
			assert_int_equal(c.group_words_late, 0);
			assert_int_equal(c.unstable, 0);
		}
		/* Everything that can be got is a live slot, and the other way round. */
		struct check_report c = assert_clean(&r, &check_at_rest);
		uint32_t found = 0, version;

		for (uint32_t id = 0; id < KEYS; id++)
			found += rig_get(&r, id, &version) == 0;
		assert_int_equal(found, c.slots_live);
		assert_true(found > KEYS / 20 && c.slots_stale > 0 && c.objects_dead > 0);
		assert_int_equal(cache_drain(&r.cache), 0);
		c = assert_clean(&r, &check_at_rest);
		assert_int_equal(c.chunks_open + c.chunks_reserved, 0);
		assert_int_equal(c.slots_live, found);
		check_print(stdout, &r.pool, &c);
		rig_close(&r);
	}
}

/* So many re-uses that generations wrap in 16-byte slots, and then deletes of everything. */
static void test_long(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;

		rig_open(&r, policies[i], 16, 4);
		for (uint32_t round = 0; round < 10; round++) {
			rig_work(&r, 20000, round);
			assert_clean(&r, &check_at_rest);
		}
		for (uint32_t id = 0; id < KEYS; id++)
			rig_delete(&r, id);
		struct check_report c = assert_clean(&r, &check_at_rest);

		assert_int_equal(c.slots_live, 0);
		assert_int_equal(c.live_bytes, 0);
		rig_close(&r);
	}
}

static void test_names(void **state)
{
	struct check_report report = {.findings = 3};
	static char doc[65536];
	FILE *file = fopen(SOURCE_ROOT "/doc/check.md", "r");
	unsigned n = 0;

	assert_non_null(file);
	doc[fread(doc, 1, sizeof(doc) - 1, file)] = 0;
	fclose(file);
	for (unsigned i = 0; i < CHECK_RULE_COUNT; i++) {
		char row[256];

		snprintf(row, sizeof(row), "| `%s` | %s |\n", check_rule_name(i),
			 check_rule_sentence(i));
		if (!strstr(doc, row))
			fail_msg("doc/check.md does not have the row %s", row);
	}
	assert_null(check_rule_name(CHECK_RULE_COUNT));
	assert_null(check_rule_sentence(CHECK_RULE_COUNT));
	while (check_counter_name(n)) {
		assert_non_null(check_counter_sentence(n));
		n++;
	}
	assert_string_equal(check_counter_name(n - 1), "findings");
	assert_int_equal(check_counter(&report, n - 1), 3);
}

/* ---- after a death ------------------------------------------------------------------------ */

/* Sets, until the node is lost. */
static void work_until_lost(struct rig *r, uint64_t seed)
{
	struct prng prng;
	int status = 0;

	prng_seed(&prng, seed);
	for (uint32_t i = 0; status != FORGE_E_NODE; i++) {
		uint32_t id = (uint32_t)prng_below(&prng, KEYS);

		status = prng_below(&prng, 8) ? rig_set(r, id, i, 60) : rig_delete(r, id);
		assert_true(status == 0 || status == FORGE_MISS || status == FORGE_E_NODE);
	}
}

/*
 * A node dies at one verb after the other, which lands not, in part or whole.  What it leaves is
 * tolerated, and so is what a survivor makes of it; without the permission it is reported.
 */
static void test_deaths(void **state)
{
	static const struct check_options died = {.crashed = 1, .dead_cns = {1}};
	static const struct check_options unexpected = {.dead_cns = {1}};

	for (unsigned i = 0; i < 2 * DEATHS; i++) {
		struct fault_plan plan = {.lose_at = 1 + i / 2, .landing = i / 2 % 3};
		struct rig r, survivor;

		plan.part_words = i / 6 % 4;
		rig_open(&r, policies[i % 2], CHUNKS, OBJECTS);
		rig_tick(&r);
		rig_work(&r, 600, i);
		assert_int_equal(fault_open(r.fab, &plan, &r.fab), 0);
		r.worker.fab = r.fab;
		work_until_lost(&r, i);
		rig_attach(&survivor, &r, i);
		struct check_report c = assert_clean(&survivor, &died);

		if (c.chunks_open + c.chunks_reserved + c.chunks_evicting > 0)
			assert_true(
			    run_check(&survivor, &unexpected, NULL).found[CHECK_CHUNK_OWNER] > 0);
		rig_work(&survivor, 300, i);
		assert_clean(&survivor, &died);
		rig_close(&survivor);
		rig_kill(&r);
	}
}

static const struct check_options live = {.live = 1};

/* ---- random damage ------------------------------------------------------------------------ */

#define FUZZ_SEEDS 2000u

static void test_random_damage(void **state)
{
	static const struct check_options options[] = {
	    {0}, {.live = 1}, {.crashed = 1}, {.live = 1, .crashed = 1, .dead_cns = {1}}};
	uint32_t noticed = 0;

	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig r;

		rig_open_worked(&r, policies[i]);
		const struct plan *p = &r.pool.plan;
		const uint64_t from[] = {0,
					 p->cursors_offset,
					 p->chunk_table_offset,
					 p->index_offset,
					 p->chunks_offset,
					 p->pool_bytes};
		void *good = malloc(p->pool_bytes);

		assert_non_null(good);
		memcpy(good, r.memory, p->pool_bytes);
		for (uint32_t seed = i; seed < FUZZ_SEEDS; seed += 2) {
			struct prng prng;
			uint8_t *bytes = r.memory;

			prng_seed(&prng, seed);
			/* Every region of the export is as likely as every other. */
			for (uint64_t n = 1 + prng_below(&prng, 16); n > 0; n--) {
				uint64_t region = prng_below(&prng, ARRAY_COUNT(from) - 1);
				uint64_t at = from[region] +
					      prng_below(&prng, from[region + 1] - from[region]);

				if (prng_below(&prng, 2))
					bytes[at] ^= (uint8_t)(1u << prng_below(&prng, 8));
				else
					*word_at(&r, at & ~UINT64_C(7)) = prng_u64(&prng);
			}
			noticed += run_check(&r, &options[seed / 2 % 4], NULL).findings > 0;
			memcpy(r.memory, good, p->pool_bytes);
		}
		assert_clean(&r, &check_at_rest);
		free(good);
		rig_close(&r);
	}
	print_message("%u of %u damages were noticed\n", noticed, FUZZ_SEEDS);
	assert_true(noticed > FUZZ_SEEDS / 2);
}

/* Every word of the pool is random. */
static void test_noise(void **state)
{
	struct rig r;
	struct prng prng;

	rig_open(&r, "forge", CHUNKS, OBJECTS);
	for (uint64_t seed = 0; seed < 8; seed++) {
		prng_seed(&prng, seed);
		for (uint64_t at = 0; at < r.pool.plan.pool_bytes; at += 8)
			*word_at(&r, at) = prng_u64(&prng);
		assert_true(run_check(&r, seed % 2 ? &live : &check_at_rest, NULL).findings >
			    CHUNKS);
	}
	rig_kill(&r);
}

/* ---- beside traffic ----------------------------------------------------------------------- */

struct traffic {
	struct rig rig;
	atomic_int stop;
	uint64_t operations;
};

static void *run_traffic(void *argument)
{
	struct traffic *t = argument;

	for (uint64_t seed = 100; !atomic_load(&t->stop); seed++) {
		rig_work(&t->rig, 200, seed);
		t->operations += 200;
	}
	return NULL;
}

static void test_live(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(policies); i++) {
		struct rig host;
		struct traffic traffic = {.operations = 0};
		pthread_t thread;
		uint64_t unstable = 0, slots = 0, transit = 0;

		rig_open_worked(&host, policies[i]);
		host.worker.clock = clock_monotonic();
		rig_attach(&traffic.rig, &host, 2);
		assert_int_equal(pthread_create(&thread, NULL, run_traffic, &traffic), 0);
		for (unsigned n = 0; n < 300; n++) {
			struct check_report c = assert_clean(&host, &live);

			unstable += c.unstable;
			slots += c.slots_live;
			transit += c.chunks_in_transit + c.chunks_evicting;
			if (n % 8 == 0)
				rig_work(&host, 20, n);
		}
		atomic_store(&traffic.stop, 1);
		assert_int_equal(pthread_join(thread, NULL), 0);
		print_message("%s: 300 checks beside %llu operations: %llu live slots verified, "
			      "%llu looks at something that changed, %llu chunks in transit\n",
			      policies[i], (unsigned long long)traffic.operations,
			      (unsigned long long)slots, (unsigned long long)unstable,
			      (unsigned long long)transit);
		assert_true(slots > 0);
		assert_clean(&host, &check_at_rest);
		rig_close(&traffic.rig);
		assert_clean(&host, &check_at_rest);
		rig_close(&host);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_clean),	  cmocka_unit_test(test_long),
	    cmocka_unit_test(test_names),	  cmocka_unit_test(test_deaths),
	    cmocka_unit_test(test_random_damage), cmocka_unit_test(test_noise),
	    cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
