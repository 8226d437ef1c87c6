/*
 * nodes_fork.c: fork() with a cache on several memory nodes open, one of them mapped, one behind a
 * Unix socket and one behind TCP.
 *
 *	system_nodes_fork PROGRAM
 *
 * Every session call in the child says FORGE_E_FORKED, whether its key's node is there or lost;
 * closing everything there, or just ending, takes nothing of the parent's: it goes on at every
 *node, and so does the thread that brings back a lost one, in whose midst the process is forked
 *again and again.  A child that opens the nodes for itself is a client like any other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "made_pool.h"
#include "policy/policy.h"
#include "served.h"
#include "support/clean.h"
#include "support/pools.h"

#define NODES 3u
#define KEYS  60u
#define FORKS 40u

static const char *program;

struct rig {
	char pool[NODES][MADE_POOL_NAME_BYTES];
	struct served served[NODES]; /* but for the first */
	char list[1024];
	struct user user;
};

static const char *const schemes[NODES] = {NULL, "unix", "tcp"};

static void attach(struct rig *r)
{
	const struct client_options options = {.session_count = 1};

	user_attach(&r->user, r->list, &options);
}

static void detach(struct rig *r)
{
	user_detach(&r->user);
}

static void rig_open(struct rig *r)
{
	*r = (struct rig){0};
	for (unsigned i = 0; i < NODES; i++) {
		made_pool_create(&(struct plan_wish){.chunk_count = 64,
						     .group_objects = 8,
						     .object_bytes = 60,
						     .cn_max = 4,
						     .slot_words = policy_find("forge")->slot_words,
						     .policy = "forge"},
				 r->pool[i]);
		if (schemes[i])
			assert_int_equal(
			    served_start(&r->served[i], program, r->pool[i], schemes[i]), 0);
		size_t at = strlen(r->list);

		snprintf(r->list + at, sizeof(r->list) - at, "%s%s", i ? "," : "",
			 schemes[i] ? r->served[i].name : r->pool[i]);
	}
	attach(r);
}

static void rig_close(struct rig *r)
{
	/* Attachments that were lost did not leave. */
	const struct check_options crashed = {.crashed = 1};

	detach(r);
	for (unsigned i = 0; i < NODES; i++) {
		if (r->served[i].pid)
			assert_int_equal(served_end(&r->served[i], SIGTERM), 0);
		assert_pool_clean(r->pool[i], &crashed);
		made_pool_unlink(r->pool[i]);
	}
}

static int set(struct rig *r, unsigned n, int version)
{
	return user_set(&r->user, n, version);
}

/* -1 for a miss; else the version, or an error. */
static int version_of(struct rig *r, unsigned n)
{
	return user_get(&r->user, n);
}

/* Of keys on every node.  How many calls were not refused. */
static int not_refused(struct rig *r)
{
	struct cache_value v;
	int wrong = 0;

	for (unsigned n = 0; n < KEYS; n++) {
		wrong += session_get(r->user.session, user_key(n), &v) != FORGE_E_FORKED;
		wrong += set(r, n, 99) != FORGE_E_FORKED;
		wrong += session_delete(r->user.session, user_key(n)) != FORGE_E_FORKED;
		wrong +=
		    session_touch(r->user.session, user_key(n), 0, NULL) != FORGE_E_FORKED;
	}
	wrong += session_flush(r->user.session) != FORGE_E_FORKED;
	wrong += session_tend(r->user.session) != FORGE_E_FORKED;
	return wrong;
}

static void expect_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void fork_and_refuse(struct rig *r, int closes)
{
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		int wrong = not_refused(r);

		if (closes)
			detach(r);
		_exit(wrong != 0);
	}
	expect_child(pid);
}

static void test_child_is_refused(void **state)
{
	struct rig r;

	rig_open(&r);
	for (int version = 1; version <= 4; version++) {
		for (unsigned n = 0; n < KEYS; n++)
			assert_int_equal(set(&r, n, version), 0);
		fork_and_refuse(&r, version % 2);
		for (unsigned n = 0; n < KEYS; n++)
			assert_int_equal(version_of(&r, n), version);
	}
	uint64_t losses, returns;

	client_losses(r.user.client, &losses, &returns);
	assert_int_equal(losses, 0);
	rig_close(&r);
}

static void test_child_opens_its_own(void **state)
{
	struct rig r;

	rig_open(&r);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&r, n, 1), 0);
	fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		struct rig own = r;
		int wrong = 0;

		attach(&own);
		for (unsigned n = 0; n < KEYS; n++)
			wrong += version_of(&own, n) != 1 || set(&own, n, 2) != 0;
		detach(&own);
		_exit((wrong + not_refused(&r)) != 0);
	}
	expect_child(pid);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(version_of(&r, n), 2);
	rig_close(&r);
}

/* The client's thread is at it all the time, and the child has none. */
static void test_while_a_node_is_lost(void **state)
{
	struct rig r;
	uint64_t losses = 0, returns = 0;
	unsigned lost = 0;

	rig_open(&r);
	for (unsigned n = 0; n < KEYS; n++)
		assert_int_equal(set(&r, n, 1), 0);
	served_end(&r.served[1], SIGKILL);
	for (unsigned n = 0; n < KEYS; n++)
		lost += version_of(&r, n) == -1;
	assert_true(lost > 0 && lost < KEYS);
	for (unsigned i = 0; i < FORKS; i++)
		fork_and_refuse(&r, i % 2);
	const char *scheme = r.served[1].url;
	struct served again;

	assert_int_equal(served_start(&again, program, r.pool[1], scheme), 0);
	memcpy(again.path, r.served[1].path, sizeof(again.path));
	r.served[1] = again;
	for (unsigned i = 0; i < 20000 && returns == 0; i++) {
		fork_and_refuse(&r, i % 2);
		session_tend(r.user.session);
		client_losses(r.user.client, &losses, &returns);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_int_equal(losses, 1);
	assert_int_equal(returns, 1);
	for (unsigned n = 0; n < KEYS; n++) {
		assert_int_equal(set(&r, n, 2), 0);
		fork_and_refuse(&r, 1);
		assert_int_equal(version_of(&r, n), 2);
	}
	rig_close(&r);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_child_is_refused),
	    cmocka_unit_test(test_child_opens_its_own),
	    cmocka_unit_test(test_while_a_node_is_lost),
	};

	if (argc != 2)
		return 2;
	program = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
