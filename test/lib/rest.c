/*
 * rest.c: a session that rests leaves nothing half done: no chunk between two places, and no count
 * untold, on each memory node of its cache.
 *
 * What is half done is seen by the checker, which is asked while the session stands between two
 * calls.  Each test first goes on until it finds something, so that it shows what rest ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "client/link.h"
#include "policy/policy.h"
#include "rig.h"

#define NODES_MAX 3u
/* Calls until something is half done after one of them; with 8 objects a chunk every few are. */
#define TRIES_MAX 20000u

/* A way into a pool for the checker. */
struct eye {
	struct link *link;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
};

struct rig {
	char pool[NODES_MAX][MADE_POOL_NAME_BYTES];
	struct eye eye[NODES_MAX];
	unsigned nodes;
	struct forge_client *client;
	struct forge_session *session;
	unsigned next; /* key */
};

static void eye_open(struct eye *e, const char *pool_name)
{
	char text[256];

	assert_int_equal(link_open(pool_name, LINK_READ_ONLY, &e->link, text, sizeof(text)), 0);
	assert_int_equal(link_connect(e->link, &e->fab), 0);
	worker_init(&e->worker, e->fab, clock_monotonic(), 1);
	assert_int_equal(pool_open(&e->worker, &e->pool, text, sizeof(text)), 0);
}

static void eye_close(struct eye *e)
{
	fab_close(e->fab);
	link_close(e->link);
}

static void rig_open(struct rig *r, unsigned nodes)
{
	char list[NODES_MAX * 128] = "";

	*r = (struct rig){.nodes = nodes};
	for (unsigned i = 0; i < nodes; i++) {
		made_pool_create(&(struct plan_wish){.chunk_count = 32,
						     .group_objects = 8,
						     .object_bytes = 120,
						     .cn_max = 4,
						     .slot_words = policy_find("forge")->slot_words,
						     .policy = "forge"},
				 r->pool[i]);
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s?latency=2us",
			 i ? "," : "", r->pool[i]);
	}
	OK(forge_open(list, NULL, &r->client));
	OK(forge_session_open(r->client, &r->session));
	for (unsigned i = 0; i < nodes; i++)
		eye_open(&r->eye[i], r->pool[i]);
}

static void rig_close(struct rig *r)
{
	forge_session_close(r->session);
	OK(forge_close(r->client));
	for (unsigned i = 0; i < r->nodes; i++) {
		eye_close(&r->eye[i]);
		made_pool_unlink(r->pool[i]);
	}
}

/* ---- looking ------------------------------------------------------------------------------ */

struct seen {
	uint64_t half_done, untold;
	char text[256]; /* one of them */
};

static void note(void *context, const struct check_finding *f)
{
	struct seen *s = context;

	snprintf(s->text, sizeof(s->text), "%s: %s", check_rule_name(f->rule), f->text);
}

static struct seen look(struct rig *r)
{
	const struct check_options at_rest = {0};
	struct check_report report;
	struct seen s = {0};

	for (unsigned i = 0; i < r->nodes; i++) {
		struct eye *e = &r->eye[i];

		assert_int_equal(check_pool(&e->worker, &e->pool, &at_rest, &report, note, &s), 0);
		s.half_done += report.findings;
		s.untold += report.words_unaccounted;
	}
	return s;
}

static void expect_at_rest(struct rig *r)
{
	struct seen s = look(r);

	if (s.half_done)
		fail_msg("after %u values: %s", r->next, s.text);
	if (s.untold)
		fail_msg("after %u values: %" PRIu64 " counts are untold", r->next, s.untold);
}

/* ---- working ------------------------------------------------------------------------------ */

#define IN_FLIGHT 8u

struct work {
	char key[IN_FLIGHT][16];
	struct forge_op ops[IN_FLIGHT];
	unsigned count;
};

static struct forge_op *fill(struct rig *r, struct work *w, unsigned count)
{
	w->count = count;
	for (unsigned i = 0; i < count; i++) {
		snprintf(w->key[i], sizeof(w->key[i]), "k%u", r->next++);
		w->ops[i] = (struct forge_op){.verb = FORGE_SET,
					      .key = forge_text(w->key[i]),
					      .item.value = forge_text("a value as any")};
	}
	return w->ops;
}

static void collect(struct rig *r)
{
	struct forge_op *done[IN_FLIGHT];

	while (forge_pending(r->session) > 0) {
		int n = forge_poll(r->session, done, IN_FLIGHT, FORGE_WAIT_FOREVER);

		assert_true(n > 0);
		for (int i = 0; i < n; i++)
			OK(done[i]->status);
	}
}

static void set_one(struct rig *r, struct work *w)
{
	const struct forge_op *op = fill(r, w, 1);

	OK(forge_set(r->session, op->key, &op->item));
}

static void submit_and_collect(struct rig *r, struct work *w)
{
	OK(forge_submit(r->session, fill(r, w, IN_FLIGHT), IN_FLIGHT));
	collect(r);
}

/* They have begun, and are in the middle of what they do. */
static void submit_and_look_once(struct rig *r, struct work *w)
{
	struct forge_op *done;

	collect(r);
	OK(forge_submit(r->session, fill(r, w, IN_FLIGHT), IN_FLIGHT));
	assert_true(forge_poll(r->session, &done, 1, 0) >= 0);
}

static int rest(struct forge_session *s)
{
	return forge_rest(s);
}

static int poll_none(struct forge_session *s)
{
	return forge_poll(s, NULL, 0, 0);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void try(unsigned nodes, void (*work)(struct rig *, struct work *),
		int (*end)(struct forge_session *))
{
	struct work *w = calloc(1, sizeof(*w));
	unsigned met = 0;
	struct rig r;

	assert_non_null(w);
	rig_open(&r, nodes);
	for (unsigned i = 0; i < TRIES_MAX && met < 4; i++) {
		work(&r, w);
		if (!look(&r).half_done)
			continue;
		met++;
		OK(end(r.session));
		expect_at_rest(&r);
	}
	/* What was out is given back as ever. */
	collect(&r);
	OK(end(r.session));
	expect_at_rest(&r);
	assert_int_equal(met, 4);
	rig_close(&r);
	free(w);
}

static void test_after_calls(void **state)
{
	try(1, set_one, rest);
	try(3, set_one, rest);
}

static void test_after_operations_in_flight(void **state)
{
	try(1, submit_and_collect, rest);
	try(3, submit_and_collect, rest);
}

static void test_with_operations_out(void **state)
{
	try(1, submit_and_look_once, rest);
	try(3, submit_and_look_once, rest);
}

static void test_by_poll(void **state)
{
	try(3, set_one, poll_none);
	try(3, submit_and_collect, poll_none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_after_calls),
	    cmocka_unit_test(test_after_operations_in_flight),
	    cmocka_unit_test(test_with_operations_out),
	    cmocka_unit_test(test_by_poll),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
