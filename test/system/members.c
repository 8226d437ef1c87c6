/*
 * members.c: clients that run while the memory nodes of their cache are changed, in this process
 * and a step at a time (support/respread.h); test/mt/members.c does it at random.
 *
 * Shown: what stays where it was is kept, what moves is a miss, and of what a node had before
 * others had it nothing is found; no operation is done by the new map before none can be done by
 * the old one; a change that is cut off stops everybody, and the next one lets them go on; a cache
 * on one node becomes one on several and back; a new member that cannot be reached costs its own
 * keys alone; who learns of a change while a lost member comes back goes by it at once; names in a
 * record are not believed; and who was taken into another cache stays out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/pools.h"
#include "support/respread.h"

#define NODES 4u
#define KEYS  2000u

static void change_to(struct pools *p, unsigned which)
{
	respread(&(struct respread){.names = p->names, .count = NODES, .which = which});
}

/* What the node `by` says. */
static const struct respread_now *learn(const struct pools *p, unsigned by)
{
	static struct respread_now now;

	respread_learn(p->names[by], &now);
	return &now;
}

static unsigned node_of(const struct pools *p, const struct respread_now *now, unsigned n)
{
	return respread_node_of(now, p->names, NODES, user_key(n));
}

/* ---- what is kept ------------------------------------------------------------------------- */

/*
 * Two nodes, three, two of these, three again, one, and always the same client, which was opened
 * with two.  Whoever gets back what he had is emptied by the change, so the last ones keep nothing.
 */
static void test_comes_and_goes(void **state)
{
	struct pools p;
	struct user u;
	unsigned kept = 0, moved = 0;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&u, n, 1), 0);
	change_to(&p, 7);
	for (unsigned n = 0; n < KEYS; n++) {
		const struct respread_now *s = n ? NULL : learn(&p, 0);
		static const struct respread_now *now;
		int has_moved;

		now = s ? s : now;
		has_moved = node_of(&p, now, n) == 2;
		assert_int_equal(user_get(&u, n), has_moved ? -1 : 1);
		kept += !has_moved;
		moved += has_moved;
		assert_int_equal(user_set(&u, n, 2), 0);
		assert_int_equal(user_get(&u, n), 2);
	}
	assert_true(kept > KEYS / 3 && moved > KEYS / 4);
	assert_int_equal(client_member_count(u.client), 3);
	assert_int_equal(client_members_up(u.client), 3);
	/* The first leaves to the others what they never had, and the second what it once had. */
	change_to(&p, 6);
	for (unsigned n = 0; n < KEYS; n++) {
		int version = user_get(&u, n);

		assert_true(version == -1 || version == 2);
		assert_int_equal(user_set(&u, n, 3), 0);
	}
	change_to(&p, 7);
	for (unsigned n = 0; n < KEYS; n++) {
		int version = user_get(&u, n);

		assert_true(version == -1 || version == 3);
		assert_int_equal(user_set(&u, n, 4), 0);
	}
	change_to(&p, 4);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_get(&u, n), -1);
	assert_int_equal(client_member_count(u.client), 1);
	user_detach(&u);
	pools_end(&p);
}

/* All of them at once are others. */
static void test_all_others(void **state)
{
	struct pools p;
	struct user u;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 3);
	assert_int_equal(user_set(&u, 1, 1), 0);
	change_to(&p, 12);
	assert_int_equal(user_get(&u, 1), -1);
	assert_int_equal(user_set(&u, 1, 2), 0);
	assert_int_equal(user_get(&u, 1), 2);
	user_detach(&u);
	pools_end(&p);
}

/* A cache of its own keeps what does not move, and times mean the same throughout. */
static void test_one_becomes_several(void **state)
{
	struct pools p;
	struct user u, other;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 1);
	uint64_t expiry = session_expiry_in(u.session, 50000);

	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(session_set(u.session, user_key(n),
					     &(struct cache_item){
						 .value = "v", .bytes = 1, .expiry_ms = expiry}),
				 0);
	change_to(&p, 3);
	unsigned kept = 0;

	for (unsigned n = 0; n < KEYS; n++) {
		struct cache_value v;
		int status = session_get(u.session, user_key(n), &v);

		assert_true(status == 0 || status == FORGE_MISS);
		kept += status == 0;
		/* The clock of the node was the session's, and may be known more closely since. */
		if (!status)
			assert_true(v.expiry_ms + 10 > expiry && v.expiry_ms < expiry + 10);
		assert_int_equal(user_set(&u, n, 1), 0);
	}
	assert_true(kept > KEYS / 4 && kept < KEYS * 3 / 4);
	user_attach_to(&other, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_get(&other, n), 1);
	user_detach(&other);
	change_to(&p, 1);
	for (unsigned n = 0; n < 100; n++) {
		assert_int_equal(user_set(&u, n, 2), 0);
		assert_int_equal(user_get(&u, n), 2);
	}
	user_detach(&u);
	pools_end(&p);
}

/* ---- who wins ----------------------------------------------------------------------------- */

/* After more than a second it is looked for ten times a second, and nobody waits any more. */
static void wait_for_map(struct user *u)
{
	for (unsigned i = 0; i < 2000 && user_get(u, 0) == FORGE_E_SPREAD; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

struct early {
	struct pools *p;
	struct user old, new;
	struct respread_now before, after;
	unsigned calls, key;
};

/* The first key that moves from one node to the other. */
static unsigned moving(const struct early *e, unsigned from, unsigned to)
{
	unsigned n = 0;

	while (n < KEYS &&
	       (node_of(e->p, &e->before, n) != from || node_of(e->p, &e->after, n) != to))
		n++;
	assert_true(n < KEYS);
	return n;
}

/*
 * The third node and the first are of the new epoch, the second is not.  Who has seen the new one
 * must not store at the third yet, for who has not finds the old value at the second.
 */
static void in_between(void *context)
{
	struct early *e = context;

	if (++e->calls != 3)
		return;
	e->after = *learn(e->p, 2);
	assert_int_equal(user_get(&e->new, moving(e, 0, 0)), FORGE_E_SPREAD);
	e->key = moving(e, 1, 2);
	assert_int_equal(user_set(&e->new, e->key, 2), FORGE_E_SPREAD);
	assert_int_equal(user_get(&e->old, e->key), 1);
}

static void test_not_before_its_time(void **state)
{
	static struct early e;
	struct pools p;

	pools_make(&p, NODES);
	e.p = &p;
	/* In the order in which they are raised. */
	const char *names[] = {p.names[2], p.names[0], p.names[1]};

	user_attach_to(&e.old, &p, 3);
	user_attach_to(&e.new, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&e.old, n, 1), 0);
	e.before = *learn(&p, 0);
	respread(&(struct respread){
	    .names = names, .count = 3, .which = 7, .pause = in_between, .context = &e});
	assert_int_equal(e.calls, 4);
	int found = user_get(&e.old, e.key);

	assert_int_equal(found, -1);
	wait_for_map(&e.new);
	assert_int_equal(user_set(&e.new, e.key, 3), 0);
	assert_int_equal(user_get(&e.new, e.key), 3);
	assert_int_equal(user_set(&e.old, e.key, 4), 0);
	assert_int_equal(user_get(&e.new, e.key), 4);
	user_detach(&e.old);
	user_detach(&e.new);
	pools_end(&p);
}

/* Who changed them ended in the middle: nobody goes on until another one has done it. */
static void test_cut_off(void **state)
{
	struct pools p;
	struct user u;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&u, n, 1), 0);
	respread(&(struct respread){.names = p.names, .count = NODES, .which = 7, .is_cut_off = 1});
	for (unsigned n = 0; n < KEYS; n++) {
		assert_int_equal(user_get(&u, n), FORGE_E_SPREAD);
		assert_int_equal(user_set(&u, n, 9), FORGE_E_SPREAD);
	}
	assert_int_equal(session_flush(u.session), FORGE_E_SPREAD);
	respread(&(struct respread){.names = p.names, .count = NODES, .which = 11, .is_forced = 1});
	wait_for_map(&u);
	for (unsigned n = 0; n < KEYS; n++) {
		int found = user_get(&u, n);

		assert_true(found == -1 || found == 1);
		assert_int_equal(user_set(&u, n, 2), 0);
		assert_int_equal(user_get(&u, n), 2);
	}
	assert_int_equal(session_flush(u.session), 0);
	assert_int_equal(user_get(&u, 0), -1);
	user_detach(&u);
	pools_end(&p);
}

/* ---- what a record may do ----------------------------------------------------------------- */

/* One that nobody can connect to: its keys are lost ones, the others' are not. */
static void test_cannot_be_reached(void **state)
{
	struct pools p;
	struct user u, stranger;
	unsigned lost = 0;

	pools_make(&p, NODES);
	user_attach_to(&stranger, &p, 8);
	assert_int_equal(user_set(&stranger, 0, 1), 0);
	user_attach_to(&u, &p, 3);
	struct cut *cut = cuts_of(&p.cuts, client_pool(stranger.client)->pool_id);

	user_detach(&stranger);
	cut_down(cut);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&u, n, 1), 0);
	change_to(&p, 11);
	const struct respread_now *s = NULL;

	for (unsigned n = 0; n < KEYS; n++) {
		int found = user_get(&u, n), status = user_set(&u, n, 2);

		s = s ? s : learn(&p, 0);
		if (node_of(&p, s, n) == 3) {
			assert_int_equal(found, -1);
			assert_int_equal(status, FORGE_E_NODE);
			lost++;
		} else {
			assert_int_equal(found, 1);
			assert_int_equal(status, 0);
		}
	}
	assert_true(lost > KEYS / 4);
	assert_int_equal(client_members_up(u.client), 2);
	cut_up(cut);
	user_wait_for_members(&u, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&u, n, 3), 0);
	user_detach(&u);
	pools_end(&p);
}

struct again {
	struct pools *p;
	unsigned calls;
};

static void change_again(void *context)
{
	struct again *a = context;

	a->calls++;
	change_to(a->p, 5);
}

/*
 * The third comes, and when the client is about to reach it another one leaves, so that the third
 * is of the next epoch already.  Changes of its keys wait all the same: it is not lost.
 */
static void test_changed_while_coming(void **state)
{
	struct pools p;
	struct user u;
	struct again again = {.p = &p};
	unsigned n = 0;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 3);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(user_set(&u, i, 1), 0);
	change_to(&p, 7);
	const struct respread_now *now = learn(&p, 0);

	while (node_of(&p, now, n) != 2)
		n++;
	struct cut *cut = cuts_of(&p.cuts, respread_id_of(now, p.names[2]));

	cut->interlude_context = &again;
	atomic_store(&cut->connect_interlude, change_again);
	assert_int_equal(user_set(&u, n, 2), 0);
	assert_int_equal(again.calls, 1);
	assert_int_equal(user_get(&u, n), 2);
	assert_int_equal(client_member_count(u.client), 2);
	user_detach(&u);
	pools_end(&p);
}

/*
 * A member that was lost comes back, has a key deleted whose change was refused meanwhile, and is
 * of the next epoch by then, by which a third node has that key.  The client is told so by the
 * delete, and no operation of that key, which goes nowhere as long as the member is lost, tells it.
 */
struct returning {
	struct pools *p;
	struct user u;
	struct cut *cut;
	struct respread_now before;
	_Atomic int is_trying, is_up, has_changed, is_over;
};

/* There is a bound of 20 s that only a failure reaches. */
static void wait_until(const struct returning *r, int (*is_so)(const struct returning *))
{
	for (unsigned i = 0; i < 20000 && !is_so(r); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int is_trying(const struct returning *r)
{
	return atomic_load(&r->is_trying);
}

static int is_up(const struct returning *r)
{
	return atomic_load(&r->is_up);
}

static int has_changed(const struct returning *r)
{
	return atomic_load(&r->has_changed);
}

static int has_followed(const struct returning *r)
{
	return atomic_load(&r->is_over) || client_member_count(r->u.client) == 3;
}

/* Before it tries to reach the member once more: it would find out by that. */
static void on_next_try(void *context)
{
	wait_until(context, has_followed);
}

/* It is about to delete. */
static void on_third_connection(void *context)
{
	struct returning *r = context;

	change_to(r->p, 7);
	atomic_store(&r->cut->connect_interlude, on_next_try);
	atomic_store(&r->has_changed, 1);
}

static void on_second_connection(void *context)
{
	struct returning *r = context;

	atomic_store(&r->cut->connect_interlude, on_third_connection);
}

/* To recognise the member and join its pool; then come the mender's seat and the session's. */
static void on_try(void *context)
{
	struct returning *r = context;

	atomic_store(&r->cut->connect_interlude, on_second_connection);
	atomic_store(&r->is_trying, 1);
	wait_until(r, is_up);
}

/* Changes at the second node are refused, and the third gets some of their keys. */
static unsigned refuse_and_change(struct returning *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(user_set(&r->u, i, 1), 0);
	r->cut->interlude_context = r;
	atomic_store(&r->cut->connect_interlude, on_try);
	cut_down(r->cut);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(user_set(&r->u, i, 2),
				 node_of(r->p, &r->before, i) == 1 ? FORGE_E_NODE : 0);
	wait_until(r, is_trying);
	cut_up(r->cut);
	atomic_store(&r->is_up, 1);
	wait_until(r, has_changed);
	const struct respread_now *after = learn(r->p, 0);

	while (node_of(r->p, &r->before, n) != 1 || node_of(r->p, after, n) != 2)
		n++;
	return n;
}

static void test_changed_while_returning(void **state)
{
	static struct returning r;
	struct pools p;
	unsigned tries = 0;

	pools_make(&p, NODES);
	r.p = &p;
	user_attach_to(&r.u, &p, 3);
	r.before = *learn(&p, 0);
	r.cut = cuts_of(&p.cuts, respread_id_of(&r.before, p.names[1]));
	unsigned n = refuse_and_change(&r);

	while (user_set(&r.u, n, 3) && tries++ < 20000)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	atomic_store(&r.is_over, 1);
	assert_true(tries < 20000);
	assert_int_equal(user_get(&r.u, n), 3);
	user_wait_for_members(&r.u, 3);
	for (unsigned i = 0; i < KEYS; i++)
		assert_int_equal(user_set(&r.u, i, 4), 0);
	user_detach(&r.u);
	pools_end(&p);
}

/* Whole, of the right epoch, and with a name of the third node that is not what it seems. */
static void with_name(const char *text, int is_followed)
{
	struct pools p;
	struct user u;
	char name[SPREAD_NAME_BYTES_MAX];

	pools_make(&p, NODES);
	snprintf(name, sizeof(name), text, p.names[2]);
	user_attach_to(&u, &p, 3);
	assert_int_equal(user_set(&u, 0, 1), 0);
	respread(
	    &(struct respread){.names = p.names, .count = NODES, .which = 7, .third_name = name});
	for (unsigned n = 0; n < 100; n++)
		user_get(&u, n);
	user_wait_for_members(&u, is_followed ? 3 : 2);
	user_detach(&u);
	pools_end(&p);
}

static void test_names_are_not_believed(void **state)
{
	with_name("%s", 1);
	with_name("", 0);
	with_name("%s?latency=1s", 0);	     /* an option */
	with_name("%s,shm:/another", 0);     /* a list */
	with_name("shm:/somewhere-else", 0); /* another place than the hash says */
	with_name("nonsense", 0);
}

/* Taken into another cache by force: what it holds is forgotten, and so is who used it. */
static void test_taken_by_another_cache(void **state)
{
	struct pools p;
	struct user u, other;

	pools_make(&p, NODES);
	user_attach_to(&u, &p, 1);
	user_attach_to(&other, &p, 6);
	assert_int_equal(user_set(&u, 1, 1), 0);
	assert_int_equal(user_set(&other, 1, 2), 0);
	change_to(&p, 7);
	assert_int_equal(user_get(&u, 1), FORGE_E_SPREAD);
	assert_int_equal(user_set(&u, 1, 3), FORGE_E_SPREAD);
	int found = user_get(&other, 1);

	assert_true(found == 2 || found == -1);
	assert_int_equal(user_set(&other, 1, 4), 0);
	assert_int_equal(user_get(&u, 1), FORGE_E_SPREAD);
	assert_int_equal(user_get(&other, 1), 4);
	user_detach(&u);
	user_detach(&other);
	pools_end(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_comes_and_goes),
	    cmocka_unit_test(test_all_others),
	    cmocka_unit_test(test_one_becomes_several),
	    cmocka_unit_test(test_not_before_its_time),
	    cmocka_unit_test(test_cut_off),
	    cmocka_unit_test(test_cannot_be_reached),
	    cmocka_unit_test(test_changed_while_coming),
	    cmocka_unit_test(test_changed_while_returning),
	    cmocka_unit_test(test_names_are_not_believed),
	    cmocka_unit_test(test_taken_by_another_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
