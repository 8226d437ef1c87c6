/*
 * node_serve.c: compute nodes over sockets and in the memory of the host share one set of locks.
 *
 * A node of this process serves a pool; clients hold the locks of compute-node ids through its
 * control requests, and directly, as a process that maps the pool does.  Each must see the other.
 */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "client/alive.h"
#include "client/host.h"
#include "fabric/shm.h"
#include "fabric/tcp_control.h"
#include "node/serve.h"
#include "under_test.h"

static uint64_t reserved_bytes;

/* In place of the C library's. */
int fallocate(int fd, int mode, off_t at, off_t bytes)
{
	/* A byte is the beginning of a huge page that is asked for (shm_huge.c). */
	if (bytes > 1)
		reserved_bytes += (uint64_t)bytes;
	return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

struct bench {
	char where[64];
	struct node *node;
	struct node_server *server;
	struct shm_map *map;
	struct alive *local; /* as a process on this host */
};

static int open_bench(void **state)
{
	static unsigned serial;
	struct bench *b = calloc(1, sizeof(*b));
	struct node_wish wish = {
	    .where = b->where,
	    .plan = {.pool_bytes = 8 << 20,
		     .object_bytes = 272,
		     .slot_words = 1,
		     .policy = "forge"},
	    .plan_given = true,
	};
	struct tcp_server_settings settings = {.threads = 2};
	char error[1024];

	snprintf(b->where, sizeof(b->where), "shm:/forge-tcp-test-%ld-%u", (long)getpid(),
		 serial++);
	if (node_server_open("tcp://:0,tcp://[::1]:0", &settings, &b->server, error,
			     sizeof(error)) ||
	    node_open(&wish, &b->node, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(node_ready(b->node), 0);
	assert_int_equal(node_server_start(b->server, b->node), 0);
	if (shm_map_open(b->where, 0, error, sizeof(error), &b->map))
		fail_msg("%s", error);
	assert_int_equal(alive_open(b->where, b->map, &b->local), 0);
	*state = b;
	return 0;
}

static int close_bench(void **state)
{
	struct bench *b = *state;
	char error[1024];

	node_server_close(b->server);
	alive_close(b->local);
	shm_map_close(b->map);
	assert_int_equal(node_close(b->node, false, error, sizeof(error)), 0);
	free(b);
	return 0;
}

static struct tcp_control *connect_control(struct bench *b, unsigned address,
					   struct wire_welcome *welcome)
{
	struct tcp_settings s = {.where = node_server_address(b->server, address),
				 .deadline_ms = 10000};
	struct tcp_control *c = NULL;
	char error[512];

	tcp_instance(s.instance);
	if (tcp_control_open(&s, welcome, error, sizeof(error), &c))
		fail_msg("%s", error);
	return c;
}

static int hold_here(struct bench *b, uint32_t cn)
{
	const struct liveness *l = alive_liveness(b->local);

	return l->hold(l->context, cn);
}

static void release_here(struct bench *b, uint32_t cn)
{
	const struct liveness *l = alive_liveness(b->local);

	l->release(l->context, cn);
}

/* The node notices the end of a connection soon, not at once. */
static int hold_here_soon(struct bench *b, uint32_t cn)
{
	int status = FORGE_E_AGAIN;

	for (unsigned i = 0; i < 10000 && status; i++) {
		status = hold_here(b, cn);
		if (status)
			poll(NULL, 0, 1);
	}
	return status;
}

static void test_locks_are_shared(void **state)
{
	struct bench *b = *state;
	struct wire_welcome welcome;
	struct tcp_control *c = connect_control(b, 0, &welcome);
	struct tcp_control *d = connect_control(b, 1, &welcome);

	assert_int_equal(tcp_control_hold(c, 0), FORGE_OK);
	assert_int_equal(hold_here(b, 0), FORGE_E_AGAIN);
	assert_int_equal(alive_is_held(b->local, 0), 1);
	assert_int_equal(tcp_control_hold(d, 0), FORGE_E_AGAIN);
	assert_int_equal(tcp_control_hold(c, 0), FORGE_E_AGAIN);
	assert_int_equal(tcp_control_is_held(d, 0), 1);
	assert_int_equal(node_attached_count(b->node), 1);

	/* What another holds cannot be given back. */
	assert_int_equal(tcp_control_release(d, 0), FORGE_OK);
	assert_int_equal(tcp_control_is_held(c, 0), 1);

	assert_int_equal(hold_here(b, 1), FORGE_OK);
	assert_int_equal(tcp_control_hold(c, 1), FORGE_E_AGAIN);
	assert_int_equal(tcp_control_is_held(c, 1), 1);
	release_here(b, 1);
	assert_int_equal(tcp_control_hold(c, 1), FORGE_OK);
	assert_int_equal(tcp_control_release(c, 1), FORGE_OK);
	assert_int_equal(hold_here(b, 1), FORGE_OK);
	release_here(b, 1);

	/* The end of an instance gives back what it had, and not what others have. */
	assert_int_equal(tcp_control_hold(d, 2), FORGE_OK);
	tcp_control_close(c);
	assert_int_equal(hold_here_soon(b, 0), FORGE_OK);
	assert_int_equal(hold_here(b, 2), FORGE_E_AGAIN);
	release_here(b, 0);
	tcp_control_close(d);
	assert_int_equal(hold_here_soon(b, 2), FORGE_OK);
	release_here(b, 2);
	assert_int_equal(node_attached_count(b->node), 0);
}

static void test_all_locks(void **state)
{
	struct bench *b = *state;
	struct wire_welcome welcome;
	struct tcp_control *c = connect_control(b, 0, &welcome);
	uint32_t cn_max = node_pool(b->node)->plan.cn_max;

	assert_int_equal(welcome.cn_max, cn_max);
	assert_int_equal(hold_here(b, cn_max - 1), FORGE_OK);
	assert_int_equal(tcp_control_call(c, WIRE_HOLD_ALL, cn_max, NULL, 0, NULL), FORGE_E_AGAIN);
	/* None is kept of those that were free. */
	assert_int_equal(hold_here(b, 0), FORGE_OK);
	release_here(b, 0);
	release_here(b, cn_max - 1);
	assert_int_equal(tcp_control_call(c, WIRE_HOLD_ALL, cn_max, NULL, 0, NULL), FORGE_OK);
	assert_int_equal(alive_hold_all(b->local, cn_max), FORGE_E_AGAIN);
	assert_int_equal(node_attached_count(b->node), cn_max);
	assert_int_equal(tcp_control_call(c, WIRE_RELEASE_ALL, cn_max, NULL, 0, NULL), FORGE_OK);
	assert_int_equal(alive_hold_all(b->local, cn_max), 0);
	alive_release_all(b->local, cn_max);

	/* Ids that no pool of this plan has. */
	assert_int_equal(tcp_control_hold(c, cn_max), FORGE_E_INVAL);
	assert_int_equal(tcp_control_release(c, cn_max), FORGE_E_INVAL);
	assert_int_equal(tcp_control_is_held(c, cn_max), FORGE_E_INVAL);
	assert_int_equal(tcp_control_call(c, WIRE_HOLD, UINT64_MAX, NULL, 0, NULL), FORGE_E_INVAL);
	assert_int_equal(tcp_control_call(c, WIRE_HOLD_ALL, cn_max + 1, NULL, 0, NULL),
			 FORGE_E_INVAL);
	assert_int_equal(tcp_control_call(c, WIRE_RELEASE_ALL, UINT64_MAX, NULL, 0, NULL),
			 FORGE_E_INVAL);
	tcp_control_close(c);
}

/* The welcome says which pool it is; verbs reach the very bytes that are mapped. */
static void test_the_pool(void **state)
{
	struct bench *b = *state;
	const struct pool *pool = node_pool(b->node);
	struct wire_welcome welcome;
	struct tcp_control *c = connect_control(b, 1, &welcome);
	struct tcp_settings s = {.where = node_server_address(b->server, 0),
				 .fingerprint = layout_fingerprint(),
				 .deadline_ms = 10000};
	struct layout_superblock there;
	struct fab *f = NULL;
	char error[512];

	assert_true(welcome.pool_id == pool->pool_id);
	assert_true(welcome.epoch == pool->epoch);
	assert_true(welcome.fingerprint == layout_fingerprint());
	assert_true(welcome.host == host_boot());
	assert_true(welcome.export_bytes == shm_map_bytes(b->map));
	tcp_instance(s.instance);
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_OK);
	struct fab_op op = fab_read(FAB_CONTROL, 0, &there, sizeof(there));

	run_ops(f, &op, 1);
	assert_int_equal(op.status, FORGE_OK);
	assert_memory_equal(&there, shm_map_base(b->map), sizeof(there));
	assert_true(there.plan_checksum == welcome.plan_checksum);
	fab_close(f);
	tcp_control_close(c);
}

/* It takes seconds for each GiB, so a node that makes a pool does it once; who comes looks anew. */
static void test_reserved_once(void **state)
{
	char where[64], error[1024];
	const struct node_wish wish = {
	    .where = where,
	    .plan = {.pool_bytes = 8 << 20,
		     .object_bytes = 272,
		     .slot_words = 1,
		     .policy = "forge"},
	    .plan_given = true,
	};
	struct node *node;
	struct shm_map *map;

	snprintf(where, sizeof(where), "shm:/forge-tcp-test-%ld-once", (long)getpid());
	reserved_bytes = 0;
	if (node_open(&wish, &node, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(reserved_bytes, shm_map_bytes(node_map(node)));
	assert_int_equal(shm_map_open(wish.where, 0, error, sizeof(error), &map), 0);
	assert_int_equal(reserved_bytes, 2 * shm_map_bytes(map));
	shm_map_close(map);
	assert_int_equal(node_close(node, false, error, sizeof(error)), 0);
}

static void test_lists_of_addresses(void **state)
{
	static const char *const bad[] = {"",	       ",",	     "shm:/x",
					  "tcp://:0,", "tcp://:0,x", "tcp://1.2.3.4"};
	struct tcp_server_settings settings = {0};
	char many[1000] = "", error[512];

	for (unsigned i = 0; i < 17; i++)
		strcat(many, "tcp://:0,");
	for (unsigned i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		struct node_server *server = NULL;
		const char *list = i < sizeof(bad) / sizeof(bad[0]) ? bad[i] : many;
		int status = node_server_open(list, &settings, &server, error, sizeof(error));

		assert_int_equal(status, FORGE_E_INVAL);
		assert_null(server);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_locks_are_shared, open_bench, close_bench),
	    cmocka_unit_test_setup_teardown(test_all_locks, open_bench, close_bench),
	    cmocka_unit_test_setup_teardown(test_the_pool, open_bench, close_bench),
	    cmocka_unit_test(test_reserved_once),
	    cmocka_unit_test(test_lists_of_addresses),
	};

	return cmocka_run_group_tests_name("node_serve", tests, NULL, NULL);
}
