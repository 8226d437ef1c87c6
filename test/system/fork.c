/*
 * fork.c: what a process with sessions and its children may do to each other.
 *
 * A child that fork() made has copies of the sessions and of the descriptors behind the locks
 * that prove its parent alive.  Shown here: every session call in the child says FORGE_E_FORKED;
 * closing the sessions, or just ending, changes nothing in the pool; the parent's lock stays while
 * it lives, whatever the child or the parent itself opens and closes, and goes when the parent is
 * killed, though the child lives on; a client that the child opens for itself is like any other.
 *
 *	system_fork [PROGRAM unix|tcp]
 *
 * With a program, `PROGRAM node` serves the pools and everybody reaches them over such a socket:
 *the child's copies are then sockets, and the memory node keeps the locks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/alive.h"
#include "client/client.h"
#include "fabric/shm.h"
#include "made_pool.h"
#include "quiet.h"
#include "served.h"

static char error[512];
static const struct cache_key key = {"key", 3};

/* Over a socket it takes a moment until the node has noticed an end. */
#define NOTICE_TRIES 5000u
#define NOTICE_US    1000u

static const char *program, *scheme; /* NULL: shared memory */

struct rig {
	char name[MADE_POOL_NAME_BYTES];
	struct served served;
	struct client *client;
	struct session *session;
};

static void attach(struct rig *r)
{
	struct client_options options = {0};

	const char *name = scheme ? r->served.name : r->name;

	assert_int_equal(client_open(name, &options, &r->client, error, sizeof(error)), 0);
	assert_int_equal(session_open(r->client, &r->session, error, sizeof(error)), 0);
}

static void detach(struct rig *r)
{
	session_close(r->session);
	client_close(r->client);
}

static int set(struct rig *r, const char *value)
{
	struct cache_item item = {.value = value, .bytes = (uint32_t)strlen(value)};

	return session_set(r->session, key, &item);
}

static int says(struct rig *r, const char *value)
{
	struct cache_value v;

	return session_get(r->session, key, &v) == 0 && v.bytes == strlen(value) &&
	       memcmp(v.data, value, v.bytes) == 0;
}

static void rig_open(struct rig *r)
{
	made_pool_create(&(struct plan_wish){.chunk_count = 64,
					     .group_objects = 8,
					     .object_bytes = 60,
					     .cn_max = 2,
					     .slot_words = policy_find("forge")->slot_words,
					     .policy = "forge"},
			 r->name);
	if (scheme)
		assert_int_equal(served_start(&r->served, program, r->name, scheme), 0);
	attach(r);
	assert_int_equal(set(r, "parent's"), 0);
}

static void rig_close(struct rig *r)
{
	detach(r);
	if (scheme)
		assert_int_equal(served_end(&r->served, SIGTERM), 0);
	if (quiet_check(r->name, error, sizeof(error)))
		fail_msg("%s", error);
	made_pool_unlink(r->name);
}

static int is_held(struct rig *r, uint32_t cn)
{
	return shm_is_held(r->name, alive_cn_byte(cn), error, sizeof(error));
}

static int is_let_go(struct rig *r, uint32_t cn)
{
	for (unsigned i = 0; scheme && i < NOTICE_TRIES && is_held(r, cn); i++)
		usleep(NOTICE_US);
	return is_held(r, cn) == 0;
}

/* The exit status of a child is a bit for each thing that is not as it should be. */
static void expect_child(pid_t pid, int status_expected)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), status_expected);
}

static int refuses_everything(struct rig *r)
{
	struct cache_item item = {.value = "", .bytes = 0};
	struct cache_arith arith = {.delta = 1};
	struct cache_change change = {0};
	struct cache_value v;
	uint64_t value;

	return (session_get(r->session, key, &v) != FORGE_E_FORKED) |
	       (set(r, "child's") != FORGE_E_FORKED) << 1 |
	       (session_delete(r->session, key) != FORGE_E_FORKED) << 2 |
	       (session_store(r->session, key, CACHE_ADD, &item, NULL) != FORGE_E_FORKED) << 3 |
	       (session_arithmetic(r->session, key, &arith, &value, NULL) != FORGE_E_FORKED) << 4 |
	       (session_touch(r->session, key, 0, NULL) != FORGE_E_FORKED ||
		session_change(r->session, key, &change, NULL) != FORGE_E_FORKED)
		   << 5 |
	       (session_delete_if(r->session, key, 1) != FORGE_E_FORKED) << 6 |
	       (session_flush(r->session) != FORGE_E_FORKED) << 7;
}

static void test_child_is_refused(void **state)
{
	struct rig r;

	rig_open(&r);
	for (int closes = 0; closes < 2; closes++) {
		pid_t pid = fork();

		if (pid == 0) {
			int wrong = refuses_everything(&r);

			if (closes)
				detach(&r);
			_exit(wrong);
		}
		expect_child(pid, 0);
		assert_int_equal(is_held(&r, client_cn(r.client)), 1);
		assert_true(says(&r, "parent's"));
		for (unsigned i = 0; i < 1000; i++)
			assert_int_equal(set(&r, "parent's"), 0);
	}
	rig_close(&r);
}

static void test_child_opens_its_own(void **state)
{
	struct rig r;

	rig_open(&r);
	pid_t pid = fork();

	if (pid == 0) {
		struct rig own = r;
		int wrong;

		attach(&own);
		wrong = client_cn(own.client) != 1 || !says(&own, "parent's") ||
			set(&own, "child's") != 0;
		detach(&own);
		_exit(wrong | refuses_everything(&r) << 1);
	}
	expect_child(pid, 0);
	assert_true(says(&r, "child's"));
	assert_true(is_let_go(&r, 1));
	rig_close(&r);
}

/* A record lock of the process would be gone after any of these. */
static void test_other_descriptors(void **state)
{
	struct rig r;
	struct shm_map *map;

	rig_open(&r);
	int fd = shm_open(r.name + strlen("shm:"), O_RDWR, 0);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(shm_map_open(r.name, 0, error, sizeof(error), &map), 0);
	shm_map_close(map);
	assert_int_equal(is_held(&r, 0), 1);
	assert_int_equal(is_held(&r, 0), 1); /* asking closes one, too */

	struct rig second = r;

	attach(&second);
	assert_int_equal(client_cn(second.client), 1);
	detach(&second);
	assert_true(is_let_go(&r, 1));
	assert_int_equal(is_held(&r, 0), 1);
	rig_close(&r);
}

/* Its child has copies of everything and lives: the killed parent is dead all the same. */
static void test_killed_parent_of_a_living_child(void **state)
{
	struct rig r;
	int ready[2], end[2];
	char byte;

	rig_open(&r);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid_t parent = fork();

	if (parent == 0) {
		attach(&r);
		if (client_cn(r.client) != 1 || set(&r, "of the dead"))
			_exit(1);
		if (fork() == 0) {
			close(end[1]);
			/* Lives until the test lets it go. */
			_exit(write(ready[1], "r", 1) != 1 || read(end[0], &byte, 1) != 0);
		}
		pause();
		_exit(1);
	}
	close(end[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(is_held(&r, 1), 1);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	assert_true(is_let_go(&r, 1));
	/* Whoever comes recovers it and gets its id. */
	struct rig next = r;

	attach(&next);
	assert_int_equal(client_cn(next.client), 1);
	/* The last value or, as if evicted with the dead node's open group, none; never an older.
	 */
	assert_true(session_get(next.session, key, &(struct cache_value){0}) == FORGE_MISS ||
		    says(&next, "of the dead"));
	detach(&next);
	close(end[1]);
	close(ready[0]);
	close(ready[1]);
	rig_close(&r);
}

/* Locks of another pool that took the name prove nothing about ours. */
static void test_replaced_pool(void **state)
{
	struct rig r;
	struct shm_map *map;
	struct alive *alive;

	if (scheme)
		skip(); /* the node's own affair */
	rig_open(&r);
	assert_int_equal(shm_map_open(r.name, 0, error, sizeof(error), &map), 0);
	assert_int_equal(alive_open(r.name, map, &alive), 0);
	const struct liveness *l = alive_liveness(alive);

	assert_int_equal(alive_is_held(alive, 0), 1);
	assert_int_equal(alive_is_held(alive, 1), 0);
	assert_int_equal(l->hold(l->context, 0), FORGE_E_AGAIN);
	assert_int_equal(l->hold(l->context, 1), 0);
	l->release(l->context, 1);

	assert_int_equal(shm_export_unlink(r.name, error, sizeof(error)), 0);
	assert_true(alive_is_held(alive, 0) < 0);
	assert_int_equal(l->hold(l->context, 1), FORGE_E_AGAIN);
	assert_int_equal(shm_export_create(r.name, 1 << 20, 0, error, sizeof(error)), 0);
	assert_int_equal(shm_is_held(r.name, alive_cn_byte(0), error, sizeof(error)), 0);
	assert_true(alive_is_held(alive, 0) < 0);
	assert_int_equal(l->hold(l->context, 0), FORGE_E_AGAIN);
	alive_close(alive);
	shm_map_close(map);
	detach(&r);
	made_pool_unlink(r.name);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_child_is_refused),
	    cmocka_unit_test(test_child_opens_its_own),
	    cmocka_unit_test(test_other_descriptors),
	    cmocka_unit_test(test_killed_parent_of_a_living_child),
	    cmocka_unit_test(test_replaced_pool),
	};

	if (argc == 3) {
		program = argv[1];
		scheme = argv[2];
	} else if (argc != 1) {
		return 2;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
