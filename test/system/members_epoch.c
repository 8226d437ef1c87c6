/*
 * members_epoch.c: operations that one map of the keys leads to a node when the client has the next
 * one already (client/follow.c, "who wins"): a map is used only at nodes that are of its epoch.
 *
 * The interleaving is scripted.  Two clients know a key at one of two nodes; a third node comes,
 * and takes it.  One client follows and stores a newer version at the new owner; the other has
 * noticed nothing.  One of its threads begins an operation by its old map, and is held where it
 * arrives at the old owner for the first time; meanwhile another thread of the same client finds
 * out, and the client takes the new map.  So when the first goes on, its client is of the node's
 * epoch, and so is what the client knows of the node's fence: only the map that led the operation
 * is not.  Whoever asked for the client's epoch instead, or for the node's fence of before, would
 * find the version that is over, or acknowledge what nobody else will ever see.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "client/view.h"
#include "support/pools.h"
#include "support/respread.h"

#define NODES 3u
#define KEYS  300u

struct world {
	struct pools pools;
	struct user quick;	/* has followed, and was first at the new owner */
	struct user slow;	/* the thread that notices */
	struct session *second; /* of the same client: the one that is held */
	struct view held;
	struct respread_now before, after;
	unsigned key, other; /* two that move from the first node to the third, */
	unsigned stays;	     /* and one that does not */
	unsigned interludes;
};

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/*
 * Operations end with FORGE_E_SPREAD only when that takes more than a second: then again.  There is
 * a bound of 20 s that only a failure reaches.
 */
static void follow(struct user *u, unsigned n)
{
	unsigned i = 0;

	for (; i < 20000 && user_get(u, n) == FORGE_E_SPREAD; i++)
		nap();
	assert_true(i < 20000);
	user_wait_for_members(u, NODES);
}

/* While the held thread is between its map and its first verb at the old owner. */
static void interlude(void *context)
{
	struct world *w = context;

	assert_int_equal(client_member_count(w->slow.client), 2);
	follow(&w->slow, w->stays);
	assert_int_equal(client_member_count(w->slow.client), 3);
	w->interludes++;
}

static void open_users(struct world *w)
{
	char error[512];

	user_attach_to(&w->quick, &w->pools, 3);
	user_attach_to(&w->slow, &w->pools, 3);
	if (session_open(w->slow.client, &w->second, error, sizeof(error)))
		fail_msg("%s", error);
	/* Of a flow, say: it has been nowhere yet. */
	view_open(&w->held, w->second);
}

/* The first key from n on that went from the first node to that one. */
static unsigned find_key(const struct world *w, unsigned n, unsigned to)
{
	while (n < KEYS && (respread_node_of(&w->before, w->pools.names, NODES, user_key(n)) != 0 ||
			    respread_node_of(&w->after, w->pools.names, NODES, user_key(n)) != to))
		n++;
	assert_true(n < KEYS);
	return n;
}

/* All that is done before an operation is held. */
static void open_world(struct world *w)
{
	*w = (struct world){0};
	pools_make(&w->pools, NODES);
	open_users(w);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(user_set(&w->quick, n, 1), 0);
	respread_learn(w->pools.names[0], &w->before);
	respread(&(struct respread){.names = w->pools.names, .count = NODES, .which = 7});
	respread_learn(w->pools.names[0], &w->after);
	w->key = find_key(w, 0, 2);
	w->other = find_key(w, w->key + 1, 2);
	w->stays = find_key(w, 0, 0);
	follow(&w->quick, w->stays);
	assert_int_equal(user_set(&w->quick, w->key, 2), 0);
	assert_int_equal(user_get(&w->quick, w->key), 2);
	assert_int_equal(user_get(&w->quick, w->other), -1);
}

static void close_world(struct world *w)
{
	view_close(&w->held);
	session_close(w->second);
	user_detach(&w->slow);
	user_detach(&w->quick);
	pools_end(&w->pools);
}

/* Others have keys of their own meanwhile. */
static struct cache_key held_key(unsigned n)
{
	static char text[32];
	struct cache_key key = user_key(n);

	assert_true(key.bytes < sizeof(text));
	memcpy(text, key.data, key.bytes);
	return (struct cache_key){text, key.bytes};
}

static int get_held(struct world *w, unsigned n, int *version)
{
	struct user_value value;
	struct cache_value v;
	int status = view_get(&w->held, held_key(n), &v);

	if (status)
		return status;
	assert_int_equal(v.bytes, sizeof(value));
	memcpy(&value, v.data, sizeof(value));
	*version = value.version;
	return 0;
}

static int store_held(struct world *w, unsigned n, enum cache_store mode, int version)
{
	const struct user_value value = {n, version};

	return view_store(&w->held, held_key(n), mode,
			  &(struct cache_item){.value = &value, .bytes = sizeof(value)}, NULL);
}

/* ---- what is held ------------------------------------------------------------------------- */

static void held_get(struct world *w)
{
	int version = 0;

	assert_int_equal(get_held(w, w->key, &version), 0);
	assert_int_equal(version, 2);
}

static void held_set(struct world *w)
{
	assert_int_equal(store_held(w, w->key, CACHE_SET, 3), 0);
	assert_int_equal(user_get(&w->quick, w->key), 3);
}

static void held_delete(struct world *w)
{
	assert_int_equal(view_delete(&w->held, held_key(w->key)), 0);
	assert_int_equal(user_get(&w->quick, w->key), -1);
}

/* What is absent here was there at the old owner, and the other way round. */
static void held_add(struct world *w)
{
	assert_int_equal(store_held(w, w->other, CACHE_ADD, 5), 0);
	assert_int_equal(user_get(&w->quick, w->other), 5);
}

static void held_replace(struct world *w)
{
	assert_int_equal(store_held(w, w->other, CACHE_REPLACE, 5), FORGE_MISS);
	assert_int_equal(user_get(&w->quick, w->other), -1);
}

static void held_touch(struct world *w)
{
	assert_int_equal(view_touch(&w->held, held_key(w->other), 0, NULL), FORGE_MISS);
}

static void held_flush(struct world *w)
{
	assert_int_equal(view_flush(&w->held), 0);
	assert_int_equal(user_get(&w->quick, w->key), -1);
}

static void (*const held[])(struct world *) = {held_get,     held_set,	 held_delete, held_add,
					       held_replace, held_touch, held_flush};

static void test_held_at_the_old_owner(void **state)
{
	for (unsigned i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
		static struct world w;

		open_world(&w);
		struct cut *cut =
		    cuts_of(&w.pools.cuts, respread_id_of(&w.before, w.pools.names[0]));

		cut->interlude_context = &w;
		cut->interlude = interlude;
		held[i](&w);
		assert_int_equal(w.interludes, 1);
		close_world(&w);
	}
}

/* Who has done nothing since long before the change looks before it goes by what it knows. */
static void test_was_away(void **state)
{
	static struct world w;

	open_world(&w);
	assert_int_equal(client_member_count(w.slow.client), 2);
	int version = user_get(&w.slow, w.key);

	/* The third may not be reached yet; and a busy machine may take more than a second. */
	assert_true(version == 2 || version == -1 || version == FORGE_E_SPREAD);
	follow(&w.slow, w.stays);
	assert_int_equal(user_get(&w.slow, w.key), 2);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_held_at_the_old_owner),
	    cmocka_unit_test(test_was_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
