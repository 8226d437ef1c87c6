/*
 * nodes_names.c: a client on one memory node in this host's memory, whose name is removed or taken
 * by another pool while the memory lives on.
 *
 * Shown: it notices, goes on in the pool that has the name, and finds nothing of the old one there;
 * both where the system tells of such things and where it does not, because it is out of what it
 * tells by.  Where it does, the client does not look while nothing happens, and so it is again once
 * the system can tell.  This program stands between the library and the C library where
 * the system is asked, so that it can refuse, count, and leave out the looks now and then.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "node/node.h"
#include "support/pools.h"

static char error[512];
static pthread_t test_thread;

/* ---- between the library and the system --------------------------------------------------- */

static _Atomic int tells_nothing;
static _Atomic unsigned looks;	    /* files that the client's thread opened */
static _Atomic unsigned long_waits; /* of somebody who is told */

static int look(const char *path, int flags, mode_t mode)
{
	if (!pthread_equal(pthread_self(), test_thread))
		atomic_fetch_add(&looks, 1);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int shm_open(const char *name, int flags, mode_t mode)
{
	char path[256];

	snprintf(path, sizeof(path), "/dev/shm%s", name);
	return look(path, flags | O_CLOEXEC, mode);
}

/* Who is told needs no look now and then: it waits for ever. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *patience, const sigset_t *mask)
{
	const struct timespec *p =
	    atomic_load(&tells_nothing) || (patience && patience->tv_sec < 5) ? patience : NULL;
	struct timespec left = p ? *p : (struct timespec){0};

	if (!p)
		atomic_fetch_add(&long_waits, 1);
	return (int)syscall(SYS_ppoll, fds, count, p ? &left : NULL, mask, _NSIG / 8);
}

int inotify_init1(int flags)
{
	if (!atomic_load(&tells_nothing))
		return (int)syscall(SYS_inotify_init1, flags);
	errno = EMFILE;
	return -1;
}

/* ---- a node and a client ------------------------------------------------------------------ */

static struct node *start_node(const char *where, bool force)
{
	struct node_wish wish = {
	    .where = where,
	    .plan = {.pool_bytes = 8u << 20, .object_bytes = 100, .cn_max = 8, .policy = "forge"},
	    .plan_given = true,
	    .force = force,
	};
	struct node *n;

	wish.plan.slot_words = 1;
	if (node_open(&wish, &n, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(node_ready(n), 0);
	return n;
}

static void end_node(struct node *n, bool keep)
{
	assert_int_equal(node_close(n, keep, error, sizeof(error)), 0);
}

static void attach(struct user *u, const char *where)
{
	user_attach(u, where, &(struct client_options){.session_count = 2, .watch_name = 1});
}

static int set(struct user *u, int version)
{
	return user_set(u, 1, version);
}

/* Or -1: a miss. */
static void finds(struct user *u, int version)
{
	assert_int_equal(user_get(u, 1), version);
}

/* By a client that comes now. */
static void another_finds(const char *where, int version)
{
	struct user other;

	attach(&other, where);
	finds(&other, version);
	user_detach(&other);
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* It has 20 s. */
static void wait_for_loss(struct user *u)
{
	struct cache_value v;
	int status = 0;

	for (unsigned i = 0; i < 20000 && status != FORGE_E_NODE; i++) {
		nap();
		status = session_get(u->session, user_key(1), &v);
	}
	assert_int_equal(status, FORGE_E_NODE);
	assert_int_equal(client_members_up(u->client), 0);
}

/* ---- tests -------------------------------------------------------------------------------- */

static void name_of(char where[64])
{
	snprintf(where, 64, "shm:/forge-names-%ld", (long)getpid());
}

/*
 * Memory that is mapped goes on when its name does not.  Who stays by it alone would have a cache
 * of its own when another pool has the name: others would not see what it is told, nor it them.
 */
static void go_and_come(void)
{
	struct user u;
	char where[64];

	name_of(where);
	struct node *node = start_node(where, false);

	attach(&u, where);
	assert_int_equal(set(&u, 1), 0);
	/* A node that leaves its pool is no loss, nor is the next one. */
	end_node(node, true);
	node = start_node(where, false);
	finds(&u, 1);
	another_finds(where, 1);
	/* In order: the pool is gone. */
	end_node(node, false);
	wait_for_loss(&u);
	assert_int_equal(set(&u, 2), FORGE_E_NODE);
	node = start_node(where, false);
	user_wait_for_return(&u, 1);
	finds(&u, -1);
	assert_int_equal(set(&u, 3), 0);
	another_finds(where, 3);
	/* Replaced at once: there is always a pool of that name. */
	end_node(node, true);
	node = start_node(where, true);
	user_wait_for_return(&u, 2);
	finds(&u, -1);
	assert_int_equal(set(&u, 4), 0);
	another_finds(where, 4);
	user_detach(&u);
	end_node(node, false);
}

static void test_told(void **state)
{
	go_and_come();
}

static void test_not_told(void **state)
{
	atomic_store(&tells_nothing, 1);
	go_and_come();
	atomic_store(&tells_nothing, 0);
}

/* The pool moves to another name and back, and a pool that was made elsewhere takes the name. */
static void test_moved(void **state)
{
	char where[64], other[80], path[96], other_path[112];
	struct user u;

	name_of(where);
	snprintf(other, sizeof(other), "%s-2", where);
	snprintf(path, sizeof(path), "/dev/shm%s", where + 4);
	snprintf(other_path, sizeof(other_path), "/dev/shm%s", other + 4);
	end_node(start_node(where, false), true);
	attach(&u, where);
	assert_int_equal(set(&u, 1), 0);
	assert_int_equal(rename(path, other_path), 0);
	wait_for_loss(&u);
	assert_int_equal(rename(other_path, path), 0);
	user_wait_for_return(&u, 1);
	finds(&u, 1);
	end_node(start_node(other, false), true);
	assert_int_equal(rename(other_path, path), 0);
	user_wait_for_return(&u, 2);
	finds(&u, -1);
	assert_int_equal(set(&u, 2), 0);
	another_finds(where, 2);
	user_detach(&u);
	end_node(start_node(where, false), false);
}

/*
 * Others work with the pool, and with names beside it: nobody has to look for that.  Each look
 * opens two files (alive.c), and the first one is when the thread begins.
 */
static void test_does_not_look(void **state)
{
	const struct timespec several_looks = {.tv_nsec = 350000000};
	char where[64], other[80];
	struct user u, neighbour;

	name_of(where);
	snprintf(other, sizeof(other), "%s-2", where);
	struct node *node = start_node(where, false);

	atomic_store(&looks, 0);
	attach(&u, where);
	for (unsigned i = 0; i < 20000 && atomic_load(&looks) < 2; i++)
		nap();
	assert_int_equal(atomic_load(&looks), 2);
	end_node(start_node(other, false), false);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(set(&u, 1), 0);
	nanosleep(&several_looks, NULL);
	assert_int_equal(atomic_load(&looks), 2);
	/* A neighbour has a thread that looks as well. */
	attach(&neighbour, where);
	for (unsigned i = 0; i < 20000 && atomic_load(&looks) < 4; i++)
		nap();
	assert_int_equal(set(&neighbour, 2), 0);
	user_detach(&neighbour);
	nanosleep(&several_looks, NULL);
	assert_int_equal(atomic_load(&looks), 4);
	user_detach(&u);
	end_node(node, false);
}

/* How many inotify instances this process's user namespace permits; -1: it cannot be said. */
static int permit_instances(const char *count)
{
	int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);
	int status = fd < 0 || write(fd, count, strlen(count)) < 0 ? -1 : 0;

	if (fd >= 0)
		close(fd);
	return status;
}

/*
 * The system itself has no instance left, and then it has: in a user namespace of its own, so that
 * nobody else goes short.  The process cannot leave that again: this is the last test.
 */
static void test_no_instance(void **state)
{
	char where[64];
	struct user u;

	if (unshare(CLONE_NEWUSER) || permit_instances("0"))
		skip();
	assert_int_equal(inotify_init1(0), -1);
	assert_int_equal(errno, EMFILE);
	go_and_come();
	name_of(where);
	struct node *node = start_node(where, false);

	atomic_store(&looks, 0);
	atomic_store(&long_waits, 0);
	attach(&u, where);
	/* Two files each. */
	for (unsigned i = 0; i < 20000 && atomic_load(&looks) < 6; i++)
		nap();
	assert_true(atomic_load(&looks) >= 6);
	assert_int_equal(atomic_load(&long_waits), 0);
	assert_int_equal(permit_instances("100"), 0);
	for (unsigned i = 0; i < 20000 && !atomic_load(&long_waits); i++)
		nap();
	assert_true(atomic_load(&long_waits) > 0);
	end_node(node, false);
	wait_for_loss(&u);
	user_detach(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_told),	cmocka_unit_test(test_not_told),
	    cmocka_unit_test(test_moved),	cmocka_unit_test(test_does_not_look),
	    cmocka_unit_test(test_no_instance),
	};

	test_thread = pthread_self();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
