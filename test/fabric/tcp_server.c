/*
 * tcp_server.c: what a client can say to a tcp server, and what it cannot do to it.
 *
 * Clients that break the protocol are bare sockets.  The server runs in this process, whose
 * descriptors and memory are counted.
 */
#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "tcp_world.h"
#include "under_test.h"

/* ---- hello, roles, control ---------------------------------------------------------------- */

static void test_hello(void **state)
{
	struct wire_welcome welcome;
	struct fab *f = NULL;
	char error[512];
	struct world w;

	open_here(&w, places[0]);
	struct tcp_settings s = settings_for(&w);

	s.fingerprint = FINGERPRINT;
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_OK);
	assert_int_equal(welcome.version, WIRE_VERSION);
	assert_int_equal(welcome.export_bytes, MEMORY_BYTES);
	assert_int_equal(welcome.pool_id, 11);
	assert_int_equal(welcome.cn_max, 5);
	assert_true(welcome.boot != 0);
	fab_close(f);
	s.fingerprint = FINGERPRINT + 1;
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_LAYOUT);
	assert_non_null(strstr(error, "another layout"));

	/* Hellos that are none are closed without a word. */
	struct tcp_settings t = settings_for(&w);
	struct wire_hello hellos[9];

	for (unsigned i = 0; i < ARRAY_COUNT(hellos); i++)
		hellos[i] = hello_of(&t, WIRE_DATA);
	hellos[0].magic ^= 1;
	hellos[1].magic ^= UINT64_C(1) << 56;
	hellos[2].version = 0;
	hellos[3].kind = 0;
	hellos[4].kind = 3;
	hellos[5].role = 0;
	hellos[6].role = 9;
	hellos[7].zero[1] = 1;
	hellos[8].flags = WIRE_HELLO_FLAGS + 1;
	for (unsigned i = 0; i < ARRAY_COUNT(hellos); i++) {
		int fd = bare(&w);

		assert_int_equal(send(fd, &hellos[i], sizeof(hellos[i]), MSG_NOSIGNAL), 64);
		assert_int_equal(read_to_end(fd, error, sizeof(error)), 0);
	}
	/* A later version is answered with ours. */
	hellos[0] = hello_of(&t, WIRE_DATA);
	hellos[0].version = 999;
	int fd = bare(&w);
	unsigned char reply[sizeof(struct wire_step) + sizeof(struct wire_welcome)];

	assert_int_equal(send(fd, &hellos[0], 64, MSG_NOSIGNAL), 64);
	assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
	memcpy(&welcome, reply + sizeof(struct wire_step), sizeof(welcome));
	assert_int_equal(welcome.version, WIRE_VERSION);
	close(fd);
	close_world(&w);
}

static void test_roles(void **state)
{
	struct world w;
	uint64_t word = 5;

	open_here(&w, places[1]);
	struct tcp_settings s = settings_for(&w);

	s.role = WIRE_READ_ONLY;
	struct fab *f = must_open(&s);
	struct tcp_control *c = must_control(&s);
	struct fab_op ops[] = {
	    fab_read(FAB_DATA, 0, &word, 8),
	    fab_write(FAB_DATA, 0, &word, 8),
	    fab_read(FAB_DATA, 0, &word, 8),
	};
	struct fab_op cas = fab_cas(FAB_DATA, 0, 0, 1), faa = fab_faa(FAB_DATA, 0, 1);

	run_ops(f, ops, 3);
	assert_int_equal(ops[0].status, FORGE_OK);
	assert_int_equal(word, 0);
	assert_int_equal(ops[1].status, FORGE_E_DENIED);
	assert_int_equal(ops[2].status, FORGE_E_DENIED);
	run_ops(f, &cas, 1);
	run_ops(f, &faa, 1);
	assert_int_equal(cas.status, FORGE_E_DENIED);
	assert_int_equal(faa.status, FORGE_E_DENIED);
	assert_int_equal(*(uint64_t *)w.owner.mem, 0);
	assert_int_equal(tcp_control_hold(c, 1), FORGE_E_DENIED);
	assert_int_equal(tcp_control_is_held(c, 3), 1);
	assert_int_equal(tcp_control_is_held(c, 2), 0);
	fab_close(f);
	tcp_control_close(c);
	s = settings_for(&w);
	s.role = WIRE_METRICS;
	f = must_open(&s);
	run_ops(f, ops, 1);
	assert_int_equal(ops[0].status, FORGE_E_DENIED);
	c = must_control(&s);
	assert_int_equal(tcp_control_is_held(c, 3), FORGE_E_DENIED);
	assert_int_equal(tcp_control_time(c, &word), FORGE_OK);
	fab_close(f);
	tcp_control_close(c);
	assert_int_equal(w.owner.holds, 0);
	close_world(&w);
}

static void test_control(void **state)
{
	struct wire_welcome first, second;
	struct tcp_control *c = NULL;
	char text[WIRE_STAT_BYTES_MAX + 1], error[512];
	uint64_t before_ns, node_ns, after_ns;
	size_t bytes;
	struct world w;

	open_here(&w, places[1]);
	struct tcp_settings s = settings_for(&w);

	assert_int_equal(tcp_control_open(&s, &first, error, sizeof(error), &c), FORGE_OK);
	before_ns = clock_now_ns(clock_monotonic());
	assert_int_equal(tcp_control_time(c, &node_ns), FORGE_OK);
	after_ns = clock_now_ns(clock_monotonic());
	assert_in_range(node_ns, before_ns, after_ns);
	assert_int_equal(tcp_control_info(c, &second), FORGE_OK);
	assert_true(second.clock_ns > first.clock_ns);
	second.clock_ns = first.clock_ns;
	assert_memory_equal(&first, &second, sizeof(first));
	assert_int_equal(tcp_control_call(c, WIRE_PING, 0, NULL, 0, NULL), FORGE_OK);
	assert_int_equal(tcp_control_call(c, WIRE_STAT, 0, text, sizeof(text) - 1, &bytes),
			 FORGE_OK);
	text[bytes] = '\0';
	assert_non_null(strstr(text, "connections 1\n"));
	assert_non_null(strstr(text, "control_requests 3\n"));
	/* A caller with less room gets a part, and the connection goes on. */
	assert_int_equal(tcp_control_call(c, WIRE_STAT, 0, text, 4, &bytes), FORGE_OK);
	assert_true(bytes > 4);
	assert_int_equal(tcp_control_call(c, WIRE_PING, 0, NULL, 0, NULL), FORGE_OK);
	/* What is no control request ends the instance. */
	assert_int_equal(tcp_control_call(c, WIRE_READ, 0, NULL, 0, NULL), FORGE_E_NODE);
	assert_true(tcp_control_is_lost(c));
	tcp_control_close(c);
	close_world(&w);
}

/* ---- many clients ------------------------------------------------------------------------- */

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* 10,000 clients come and go, in good order, in mid-request, and without a hello. */
static void test_10000_connects_leak_nothing(void **state)
{
	struct tcp_server_counts n;
	struct world w;
	size_t memory = 0;
	unsigned descriptors = 0;

	open_here(&w, places[1]);
	for (unsigned i = 0; i < 10100; i++) {
		struct tcp_settings s = settings_for(&w);
		const struct wire_request write_request = {.code = WIRE_WRITE, .len = 4096};
		int fd;

		/* The first ones pay for what stays: tables, stacks, arenas. */
		if (i == 100) {
			WAIT_FOR((tcp_server_count(w.server, &n), n.connections == 0));
			descriptors = open_descriptors();
			memory = mallinfo2().uordblks;
		}
		switch (i % 4) {
		case 0:
			close(bare(&w));
			break;
		case 1:
			close(bare_welcome(&w, &s, WIRE_DATA));
			break;
		case 2:
			fd = bare_welcome(&w, &s, WIRE_CONTROL);
			assert_true(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
			close(fd);
			break;
		default:
			fd = bare_welcome(&w, &s, WIRE_DATA);
			assert_true(send(fd, &write_request, sizeof(write_request), MSG_NOSIGNAL) >
				    0);
			assert_true(send(fd, "half of it", 10, MSG_NOSIGNAL) == 10);
			close(fd);
		}
	}
	WAIT_FOR((tcp_server_count(w.server, &n), n.connections == 0));
	assert_int_equal(n.instances, 0);
	assert_int_equal(n.connections_total, 10100);
	assert_int_equal(open_descriptors(), descriptors);
	assert_true(mallinfo2().uordblks <= memory + 65536);
	close_world(&w);
}

/* More than are permitted are turned away; when some leave, others may come. */
static void test_connections_max(void **state)
{
	struct tcp_server_counts n;
	struct wire_welcome welcome;
	struct fab *f[8], *more = NULL;
	char error[512];
	struct world w;

	open_world(&w, places[1], (struct tcp_server_settings){.threads = 3, .connections_max = 8});
	serve(&w);
	for (unsigned i = 0; i < 8; i++) {
		struct tcp_settings s = settings_for(&w);

		f[i] = must_open(&s);
	}
	struct tcp_settings s = settings_for(&w);

	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &more), FORGE_E_NODE);
	for (unsigned i = 0; i < 8; i++)
		assert_false(is_lost(f[i]));
	fab_close(f[0]);
	WAIT_FOR((tcp_server_count(w.server, &n), n.connections == 7));
	f[0] = must_open(&s);
	assert_int_equal(n.refused, 1);
	for (unsigned i = 0; i < 8; i++)
		fab_close(f[i]);
	close_world(&w);
}

static int open_at(const char *where, struct tcp_server **out)
{
	struct tcp_server_settings settings = {.listen = &where, .listen_count = 1, .threads = 1};
	char error[512];
	int status = tcp_server_open(&settings, error, sizeof(error), out);

	if (status)
		assert_non_null(strstr(error, "another server listen"));
	return status;
}

/* Long before it serves a node has its address: it refuses who connects, and who wants it, too. */
static void refuse_until_started(const char *where)
{
	struct tcp_settings s = {.where = where, .deadline_ms = 5000};
	const struct tcp_server_calls calls = {0};
	struct tcp_server *server, *other = NULL;
	struct wire_welcome welcome;
	struct fab *f = NULL;
	uint64_t mem[8] = {0};
	char error[512];

	tcp_instance(s.instance);
	assert_int_equal(open_at(where, &server), FORGE_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(open_at(where, &other), FORGE_E_SYSTEM);
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_NODE);
	assert_non_null(strstr(error, "wait until it is ready"));
	assert_int_equal(tcp_server_start(server, mem, sizeof(mem), &calls), FORGE_OK);
	f = must_open(&s);
	assert_int_equal(open_at(where, &other), FORGE_E_SYSTEM);
	/* The node ends first, so its side of the connection lingers. */
	tcp_server_close(server);
	fab_close(f);
}

static void test_refused_until_started(void **state)
{
	struct tcp_server *any;
	char where[300], path[300];

	assert_int_equal(open_at(places[0], &any), FORGE_OK);
	snprintf(where, sizeof(where), "%s", tcp_server_address(any, 0));
	tcp_server_close(any);
	snprintf(path, sizeof(path), "%s-refuse-%ld", places[1], (long)getpid());
	/* The second time there are old connections about. */
	for (unsigned i = 0; i < 2; i++) {
		refuse_until_started(where);
		refuse_until_started(path);
	}
}

/* Who says nothing is not waited for; others come and go meanwhile. */
static void test_silent_client(void **state)
{
	struct world w;
	char byte;

	open_here(&w, places[1]);
	uint64_t start_ms = now_ms();
	int silent = bare(&w), half = bare(&w);

	assert_int_equal(send(half, "Forge", 5, MSG_NOSIGNAL), 5);
	struct tcp_settings s = settings_for(&w);
	struct fab *f = must_open(&s);

	assert_int_equal(read_to_end(silent, &byte, 1), 0);
	assert_int_equal(read_to_end(half, &byte, 1), 0);
	assert_in_range(now_ms() - start_ms, WIRE_HELLO_MS - 100, UINT64_MAX);
	assert_false(is_lost(f));
	fab_close(f);
	close_world(&w);
}

static void read_in_turn(struct fab *f, unsigned count)
{
	uint64_t word;

	for (unsigned i = 0; i < count; i++) {
		struct fab_op op = fab_read(FAB_DATA, 8, &word, sizeof(word));

		run_ops(f, &op, 1);
		assert_int_equal(op.status, FORGE_OK);
	}
}

/*
 * Who asks alone is looked at without epoll (tcp_thread.c).  It is served when the node has gone to
 * sleep meanwhile, and others are while it is; and its end is noticed.
 */
static void test_alone(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		struct world w;

		open_world(&w, places[i],
			   (struct tcp_server_settings){.threads = 1, .spin_us = 300});
		serve(&w);
		struct tcp_settings s = settings_for(&w);
		struct tcp_control *c = must_control(&s);
		struct fab *f = must_open(&s), *other = must_open(&s);

		assert_int_equal(tcp_control_hold(c, 1), FORGE_OK);
		for (unsigned round = 0; round < 40; round++) {
			read_in_turn(f, 200);
			if (round % 2)
				read_in_turn(other, 1);
			else
				poll(NULL, 0, 2);
		}
		read_in_turn(f, 200);
		fab_close(f);
		fab_close(other);
		tcp_control_close(c);
		/* Not before the last of them is gone. */
		WAIT_FOR(owner_ended_count(&w) == 1);
		close_world(&w);
	}
}

/* The end of the server is the end of each instance, locks included, even in the middle of work. */
static void test_close_amid_work(void **state)
{
	struct world w;
	pthread_t thread;
	void *status;

	open_here(&w, places[0]);
	struct tcp_settings s = settings_for(&w);
	struct tcp_control *c = must_control(&s);
	struct fab *f = must_open(&s);

	assert_int_equal(tcp_control_hold(c, 1), FORGE_OK);
	pthread_create(&thread, NULL, write_for_ever, f);
	poll(NULL, 0, 20);
	tcp_server_close(w.server);
	w.server = NULL;
	assert_int_equal(w.owner.ended, 1);
	pthread_join(thread, &status);
	assert_int_equal((intptr_t)status, FORGE_E_NODE);
	assert_int_equal(tcp_control_hold(c, 2), FORGE_E_NODE);
	fab_close(f);
	tcp_control_close(c);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_hello),
	    cmocka_unit_test(test_roles),
	    cmocka_unit_test(test_control),
	    cmocka_unit_test(test_10000_connects_leak_nothing),
	    cmocka_unit_test(test_connections_max),
	    cmocka_unit_test(test_refused_until_started),
	    cmocka_unit_test(test_silent_client),
	    cmocka_unit_test(test_alone),
	    cmocka_unit_test(test_close_amid_work),
	};

	return cmocka_run_group_tests_name("tcp_server", tests, NULL, NULL);
}
