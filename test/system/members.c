/*
 * members.c: clients that run while the memory nodes of their cache are changed, in this process
 * and a step at a time (support/respread.h); test/mt/members.c does it at random.
 *
 * Shown: what stays where it was is kept, what moves is a miss, and of what a node had before
 * others had it nothing is found; no operation is done by the new map before none can be done by
 * the old one; a change that is cut off stops everybody, and the next one lets them go on; a cache
 * on one node becomes one on several and back; a new member that cannot be reached costs its own
 * keys alone; names in a record are not believed; and who was taken into another cache stays out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "bench/own_pool.h"
#include "client/client.h"
#include "support/clean.h"
#include "support/cut.h"
#include "support/respread.h"

#define NODES 4u
#define KEYS  2000u

static char error[512];

struct pools {
	struct own_pool pool[NODES];
	const char *names[NODES];
	struct cuts cuts;
};

static void make_pools(struct pools *p)
{
	*p = (struct pools){0};
	for (unsigned i = 0; i < NODES; i++) {
		struct plan_wish wish = {.pool_bytes = (8u + 4u * i) << 20,
					 .object_bytes = 100,
					 .cn_max = 8,
					 .policy = "forge"};

		assert_int_equal(own_pool_create(&p->pool[i], &wish, error, sizeof(error)), 0);
		p->names[i] = p->pool[i].name;
	}
}

/* Of a process of its own, as far as the pools know. */
struct user {
	struct client *client;
	struct session *session;
};

static void attach(struct user *u, struct pools *p, unsigned which)
{
	struct client_options options = {
	    .session_count = 2, .wrap = cuts_wrap, .wrap_context = &p->cuts, .seed = 1};
	char list[NODES * 80] = "";

	for (unsigned i = 0; i < NODES; i++)
		if (which >> i & 1)
			snprintf(list + strlen(list), 80, "%s%s", list[0] ? "," : "", p->names[i]);
	p->cuts.user = pthread_self();
	if (client_open(list, &options, &u->client, error, sizeof(error)) ||
	    session_open(u->client, &u->session, error, sizeof(error)))
		fail_msg("%s", error);
}

static void detach(struct user *u)
{
	session_close(u->session);
	client_close(u->client);
}

static void forget_pools(struct pools *p)
{
	const struct check_options at_rest = {0};

	for (unsigned i = 0; i < NODES; i++) {
		assert_pool_clean(p->names[i], &at_rest);
		own_pool_forget(&p->pool[i]);
	}
}

static void change_to(struct pools *p, unsigned which)
{
	respread(&(struct respread){.names = p->names, .count = NODES, .which = which});
}

static struct cache_key key_of(unsigned n)
{
	static char text[96];

	return (struct cache_key){text, (uint32_t)snprintf(text, sizeof(text), "key-%u", n)};
}

static int set(struct user *u, unsigned n, int version)
{
	return session_set(u->session, key_of(n),
			   &(struct cache_item){.value = &version, .bytes = sizeof(version)});
}

/* -1: a miss; else the version, or what went wrong. */
static int get(struct user *u, unsigned n)
{
	struct cache_value v;
	int version, status = session_get(u->session, key_of(n), &v);

	if (status)
		return status == FORGE_MISS ? -1 : status;
	assert_int_equal(v.bytes, sizeof(version));
	memcpy(&version, v.data, sizeof(version));
	return version;
}

/* The node that has the key, by what the node `by` says. */
struct spread_now {
	struct spread_record record;
	uint8_t table[SPREAD_PARTITIONS];
};

static const struct spread_now *learn(const struct pools *p, unsigned by)
{
	static struct spread_now now;

	respread_record(p->names[by], &now.record);
	spread_table(&now.record, now.table);
	return &now;
}

static unsigned node_of(const struct pools *p, const struct spread_now *s, unsigned n)
{
	struct cache_key key = key_of(n);
	uint32_t member = s->table[spread_partition(hash_key(key.data, key.bytes))];

	for (unsigned i = 0; i < NODES; i++)
		if (strcmp(spread_record_name(&s->record, member), p->names[i]) == 0)
			return i;
	fail_msg("no node has key %u", n);
	return 0;
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

	make_pools(&p);
	attach(&u, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&u, n, 1), 0);
	change_to(&p, 7);
	for (unsigned n = 0; n < KEYS; n++) {
		const struct spread_now *s = n ? NULL : learn(&p, 0);
		static const struct spread_now *now;
		int has_moved;

		now = s ? s : now;
		has_moved = node_of(&p, now, n) == 2;
		assert_int_equal(get(&u, n), has_moved ? -1 : 1);
		kept += !has_moved;
		moved += has_moved;
		assert_int_equal(set(&u, n, 2), 0);
		assert_int_equal(get(&u, n), 2);
	}
	assert_true(kept > KEYS / 3 && moved > KEYS / 4);
	assert_int_equal(client_member_count(u.client), 3);
	assert_int_equal(client_members_up(u.client), 3);
	/* The first leaves to the others what they never had, and the second what it once had. */
	change_to(&p, 6);
	for (unsigned n = 0; n < KEYS; n++) {
		int version = get(&u, n);

		assert_true(version == -1 || version == 2);
		assert_int_equal(set(&u, n, 3), 0);
	}
	change_to(&p, 7);
	for (unsigned n = 0; n < KEYS; n++) {
		int version = get(&u, n);

		assert_true(version == -1 || version == 3);
		assert_int_equal(set(&u, n, 4), 0);
	}
	change_to(&p, 4);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(get(&u, n), -1);
	assert_int_equal(client_member_count(u.client), 1);
	detach(&u);
	forget_pools(&p);
}

/* All of them at once are others. */
static void test_all_others(void **state)
{
	struct pools p;
	struct user u;

	make_pools(&p);
	attach(&u, &p, 3);
	assert_int_equal(set(&u, 1, 1), 0);
	change_to(&p, 12);
	assert_int_equal(get(&u, 1), -1);
	assert_int_equal(set(&u, 1, 2), 0);
	assert_int_equal(get(&u, 1), 2);
	detach(&u);
	forget_pools(&p);
}

/* A cache of its own keeps what does not move, and times mean the same throughout. */
static void test_one_becomes_several(void **state)
{
	struct pools p;
	struct user u, other;

	make_pools(&p);
	attach(&u, &p, 1);
	uint64_t expiry = session_expiry_in(u.session, 50000);

	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(session_set(u.session, key_of(n),
					     &(struct cache_item){
						 .value = "v", .bytes = 1, .expiry_ms = expiry}),
				 0);
	change_to(&p, 3);
	unsigned kept = 0;

	for (unsigned n = 0; n < KEYS; n++) {
		struct cache_value v;
		int status = session_get(u.session, key_of(n), &v);

		assert_true(status == 0 || status == FORGE_MISS);
		kept += status == 0;
		/* The clock of the node was the session's, and may be known more closely since. */
		if (!status)
			assert_true(v.expiry_ms + 10 > expiry && v.expiry_ms < expiry + 10);
		assert_int_equal(set(&u, n, 1), 0);
	}
	assert_true(kept > KEYS / 4 && kept < KEYS * 3 / 4);
	attach(&other, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(get(&other, n), 1);
	detach(&other);
	change_to(&p, 1);
	for (unsigned n = 0; n < 100; n++) {
		assert_int_equal(set(&u, n, 2), 0);
		assert_int_equal(get(&u, n), 2);
	}
	detach(&u);
	forget_pools(&p);
}

/* ---- who wins ----------------------------------------------------------------------------- */

/* After more than a second it is looked for ten times a second, and nobody waits any more. */
static void wait_for_map(struct user *u)
{
	for (unsigned i = 0; i < 2000 && get(u, 0) == FORGE_E_SPREAD; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

struct early {
	struct pools *p;
	struct user old, new;
	struct spread_now before, after;
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
	assert_int_equal(get(&e->new, moving(e, 0, 0)), FORGE_E_SPREAD);
	e->key = moving(e, 1, 2);
	assert_int_equal(set(&e->new, e->key, 2), FORGE_E_SPREAD);
	assert_int_equal(get(&e->old, e->key), 1);
}

static void test_not_before_its_time(void **state)
{
	static struct early e;
	struct pools p;

	make_pools(&p);
	e.p = &p;
	/* In the order in which they are raised. */
	const char *names[] = {p.names[2], p.names[0], p.names[1]};

	attach(&e.old, &p, 3);
	attach(&e.new, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&e.old, n, 1), 0);
	e.before = *learn(&p, 0);
	respread(&(struct respread){
	    .names = names, .count = 3, .which = 7, .pause = in_between, .context = &e});
	assert_int_equal(e.calls, 4);
	int found = get(&e.old, e.key);

	assert_int_equal(found, -1);
	wait_for_map(&e.new);
	assert_int_equal(set(&e.new, e.key, 3), 0);
	assert_int_equal(get(&e.new, e.key), 3);
	assert_int_equal(set(&e.old, e.key, 4), 0);
	assert_int_equal(get(&e.new, e.key), 4);
	detach(&e.old);
	detach(&e.new);
	forget_pools(&p);
}

/* Who changed them ended in the middle: nobody goes on until another one has done it. */
static void test_cut_off(void **state)
{
	struct pools p;
	struct user u;

	make_pools(&p);
	attach(&u, &p, 3);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&u, n, 1), 0);
	respread(&(struct respread){.names = p.names, .count = NODES, .which = 7, .is_cut_off = 1});
	for (unsigned n = 0; n < KEYS; n++) {
		assert_int_equal(get(&u, n), FORGE_E_SPREAD);
		assert_int_equal(set(&u, n, 9), FORGE_E_SPREAD);
	}
	assert_int_equal(session_flush(u.session), FORGE_E_SPREAD);
	respread(&(struct respread){.names = p.names, .count = NODES, .which = 11, .is_forced = 1});
	wait_for_map(&u);
	for (unsigned n = 0; n < KEYS; n++) {
		int found = get(&u, n);

		assert_true(found == -1 || found == 1);
		assert_int_equal(set(&u, n, 2), 0);
		assert_int_equal(get(&u, n), 2);
	}
	assert_int_equal(session_flush(u.session), 0);
	assert_int_equal(get(&u, 0), -1);
	detach(&u);
	forget_pools(&p);
}

/* ---- what a record may do ----------------------------------------------------------------- */

/* One that nobody can connect to: its keys are lost ones, the others' are not. */
static void test_cannot_be_reached(void **state)
{
	struct pools p;
	struct user u, stranger;
	unsigned lost = 0;

	make_pools(&p);
	attach(&stranger, &p, 8);
	assert_int_equal(set(&stranger, 0, 1), 0);
	attach(&u, &p, 3);
	struct cut *cut = cuts_of(&p.cuts, client_pool(stranger.client)->pool_id);

	detach(&stranger);
	cut_down(cut);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&u, n, 1), 0);
	change_to(&p, 11);
	const struct spread_now *s = NULL;

	for (unsigned n = 0; n < KEYS; n++) {
		int found = get(&u, n), status = set(&u, n, 2);

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
	for (unsigned i = 0; i < 2000 && client_members_up(u.client) < 3; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&u, n, 3), 0);
	detach(&u);
	forget_pools(&p);
}

/* Whole, of the right epoch, and with a name of the third node that is not what it seems. */
static void with_name(const char *text, int is_followed)
{
	struct pools p;
	struct user u;
	char name[SPREAD_NAME_BYTES_MAX];

	make_pools(&p);
	snprintf(name, sizeof(name), text, p.names[2]);
	attach(&u, &p, 3);
	assert_int_equal(set(&u, 0, 1), 0);
	respread(
	    &(struct respread){.names = p.names, .count = NODES, .which = 7, .third_name = name});
	for (unsigned n = 0; n < 100; n++)
		get(&u, n);
	for (unsigned i = 0; is_followed && i < 2000 && client_members_up(u.client) < 3; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	assert_int_equal(client_members_up(u.client), is_followed ? 3 : 2);
	detach(&u);
	forget_pools(&p);
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

	make_pools(&p);
	attach(&u, &p, 1);
	attach(&other, &p, 6);
	assert_int_equal(set(&u, 1, 1), 0);
	assert_int_equal(set(&other, 1, 2), 0);
	change_to(&p, 7);
	assert_int_equal(get(&u, 1), FORGE_E_SPREAD);
	assert_int_equal(set(&u, 1, 3), FORGE_E_SPREAD);
	int found = get(&other, 1);

	assert_true(found == 2 || found == -1);
	assert_int_equal(set(&other, 1, 4), 0);
	assert_int_equal(get(&u, 1), FORGE_E_SPREAD);
	assert_int_equal(get(&other, 1), 4);
	detach(&u);
	detach(&other);
	forget_pools(&p);
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
	    cmocka_unit_test(test_names_are_not_believed),
	    cmocka_unit_test(test_taken_by_another_cache),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
