/* options.c: what the options of a client may be, and what one of them changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "rig.h"

static void expect_refused(const struct lib_rig *r, struct forge_options options, const char *says)
{
	struct forge_client *c = NULL;

	assert_int_equal(forge_open(r->pool, &options, &c), FORGE_E_INVAL);
	assert_non_null(strstr(forge_detail(), says));
	assert_null(c);
}

static void test_refused(void **state)
{
	struct lib_rig r;

	lib_rig_open(&r, 64, NULL, NULL);
	expect_refused(&r, (struct forge_options){.sessions_max = 1025}, "1024");
	expect_refused(&r, (struct forge_options){.in_flight_max = 1025}, "1024");
	expect_refused(&r, (struct forge_options){.sessions_max = 1000, .in_flight_max = 1000},
		       "lower");
	expect_refused(&r, (struct forge_options){.policy = "nope"}, "nope");
	expect_refused(&r, (struct forge_options){.dead_percent = 101}, "dead_percent is 101");
	lib_rig_close(&r);
}

#define KEYS 448u /* the pool has room for 512 objects */

static void note_compacted(void *context, const char *name, uint64_t value, const char *sentence)
{
	if (strcmp(name, "groups_compacted") == 0)
		*(uint64_t *)context = value;
}

/* Keys are updated at random, so that each group dies slowly: how many are compacted for it? */
static uint64_t compacted_at(unsigned dead_percent)
{
	struct lib_rig r;
	uint64_t compacted = UINT64_MAX;
	uint32_t random = 1;
	char text[16];

	lib_rig_open(&r, 64, NULL, &(struct forge_options){.dead_percent = dead_percent});
	for (unsigned i = 0; i < 16 * KEYS; i++) {
		random = random * 1103515245u + 12345u;
		snprintf(text, sizeof(text), "key-%u", (random >> 16) % KEYS);
		OK(put_text(r.session, text, "value"));
	}
	OK(forge_session_stats(r.session, note_compacted, &compacted));
	lib_rig_close(&r);
	return compacted;
}

static void test_dead_percent(void **state)
{
	uint64_t seldom = compacted_at(100), by_policy = compacted_at(0), often = compacted_at(5);

	print_message("compacted at 100 %%: %llu, as the policy has it: %llu, at 5 %%: %llu\n",
		      (unsigned long long)seldom, (unsigned long long)by_policy,
		      (unsigned long long)often);
	assert_true(seldom < by_policy && by_policy < often);
	/* Forge's share; polls go by time, so not to a group. */
	assert_in_range(compacted_at(19), by_policy - by_policy / 16, by_policy + by_policy / 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_dead_percent),
	};

	return cmocka_run_group_tests_name("library options", tests, NULL, NULL);
}
