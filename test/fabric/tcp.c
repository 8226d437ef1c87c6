/*
 * tcp.c: what the tcp provider promises beyond fabric.h: deadlines, no wait for each other, the
 * fence.
 *
 * Nodes that are killed or stopped are children; the others run in this process, so that a test
 * can look at the memory they serve.
 */
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/pass.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "tcp_world.h"
#include "under_test.h"

/* ---- a node that dies, or says nothing ---------------------------------------------------- */

/* It has answered.  Again while a short deadline passes: the node may not get to run for as long.
 */
static struct fab *must_answer(const struct tcp_settings *s)
{
	for (uint64_t end_ms = now_ms() + 15000;;) {
		struct fab *f = must_open(s);

		if (!is_lost(f))
			return f;
		fab_close(f);
		assert_true(now_ms() < end_ms);
	}
}

/* As many kinds of op as there are, and more bytes than any socket holds, both ways. */
static void post_all_kinds(struct fab *f, struct fab_op *ops, unsigned char *buf)
{
	for (unsigned i = 0; i < 64; i++) {
		unsigned char *at = buf + i * 65536;

		ops[i] = i % 4 == 0   ? fab_read(FAB_DATA, 0, at, 65536)
			 : i % 4 == 1 ? fab_write(FAB_DATA, 65536, at, 65536)
			 : i % 4 == 2 ? fab_faa(FAB_DATA, 8, 1)
				      : fab_cas(FAB_DATA, 16, 0, 1);
		fab_post(f, &ops[i], 1);
	}
	fab_kick(f);
}

/* How late a busy host makes it nothing bounds: a process that was killed may take its time to end.
 */
static void run_dead(const char *place, int sig, unsigned deadline_ms)
{
	static unsigned char buf[64 * 65536];
	struct fab_op ops[64];
	struct world w;

	open_child(&w, place);
	struct tcp_settings s = settings_for(&w);

	s.deadline_ms = 5000;
	struct fab *f = must_open(&s);

	assert_false(is_lost(f));
	s.deadline_ms = deadline_ms;
	struct fab *g = must_open(&s);

	assert_int_equal(kill(w.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(w.pid, NULL, WUNTRACED), w.pid);
	post_all_kinds(g, ops, buf);
	if (sig != SIGSTOP)
		assert_int_equal(kill(w.pid, sig), 0);
	unsigned lost = 0;

	for (unsigned i = 0; i < 64; i++) {
		while (ops[i].status == FAB_PENDING)
			fab_poll(g);
		lost += ops[i].status == FORGE_E_NODE;
	}
	assert_int_equal(lost, 64);
	/* From now on at once, without a poll, whatever is posted. */
	post_all_kinds(g, ops, buf);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(ops[i].status, FORGE_E_NODE);
	fab_close(f);
	fab_close(g);
	close_world(&w);
}

static void test_killed(void **state)
{
	/* It ends because the connection does: ten minutes this test does not have. */
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++)
		run_dead(places[i], SIGKILL, 600000);
}

static void test_stopped(void **state)
{
	/* 4 MiB are out: 2.1 s for them, at the slowest rate that is no failure, and the deadline.
	 */
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++)
		run_dead(places[i], SIGSTOP, 300);
}

/*
 * One connection of an instance has lost the node: the others do not wait for their own deadlines,
 * and nothing of the instance is sent any more, by which it might leave in good order.
 */
static void test_lost_together(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		struct world w;
		_Atomic int lost = 0;
		uint64_t word;

		open_child(&w, places[i]);
		struct tcp_settings s = settings_for(&w);

		s.lost = &lost;
		struct tcp_control *c = must_control(&s);
		struct fab *g = must_open(&s);
		struct fab_op op = fab_read(FAB_DATA, 8, &word, sizeof(word)), other = op;

		/* While the node runs none of them asks it anything within so short a time. */
		s.deadline_ms = 1000;
		struct fab *f = must_open(&s);

		assert_false(is_lost(g));
		assert_int_equal(lost, 0);
		assert_int_equal(kill(w.pid, SIGSTOP), 0);
		assert_int_equal(waitpid(w.pid, NULL, WUNTRACED), w.pid);
		fab_post(f, &op, 1);
		fab_kick(f);
		WAIT_FOR((fab_poll(f), op.status != FAB_PENDING));
		assert_int_equal(op.status, FORGE_E_NODE);
		assert_int_equal(lost, 1);
		fab_post(g, &other, 1);
		assert_int_equal(other.status, FORGE_E_NODE);
		assert_true(tcp_control_is_lost(c));
		assert_int_equal(tcp_control_time(c, &word), FORGE_E_NODE);
		fab_close(f);
		fab_close(g);
		tcp_control_close(c);
		close_world(&w);
	}
}

/* The client did not run for longer than the deadline: that was no time the node had. */
static void test_away(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		struct world w;
		uint64_t word;

		open_child(&w, places[i]);
		struct tcp_settings s = settings_for(&w);

		s.deadline_ms = 2000; /* in which the node answers, however busy the host is */
		struct fab *f = must_open(&s);
		struct fab_op op = fab_read(FAB_DATA, 8, &word, sizeof(word));

		assert_int_equal(kill(w.pid, SIGSTOP), 0);
		assert_int_equal(waitpid(w.pid, NULL, WUNTRACED), w.pid);
		fab_post(f, &op, 1);
		fab_kick(f);
		poll(NULL, 0, 2200); /* as if stopped */
		fab_poll(f);
		assert_int_equal(op.status, FAB_PENDING);
		assert_int_equal(kill(w.pid, SIGCONT), 0);
		WAIT_FOR((fab_poll(f), op.status != FAB_PENDING));
		assert_int_equal(op.status, FORGE_OK);
		fab_close(f);
		close_world(&w);
	}
}

/* What has been posted and not kicked yet may leave with a poll for what was posted before. */
static void test_poll_before_the_kick(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		static uint8_t much[1 << 20];
		struct world w;
		uint64_t word;

		open_here(&w, places[i]);
		struct tcp_settings s = settings_for(&w);
		struct fab *f = must_open(&s);

		for (unsigned round = 0; round < 50; round++) {
			struct fab_op first = fab_read(FAB_DATA, 0, much, sizeof(much));
			struct fab_op later = fab_read(FAB_DATA, 8, &word, sizeof(word));

			fab_post(f, &first, 1);
			fab_kick(f);
			fab_post(f, &later, 1);
			while (first.status == FAB_PENDING)
				fab_poll(f);
			fab_kick(f);
			while (later.status == FAB_PENDING)
				fab_poll(f);
			assert_int_equal(first.status, FORGE_OK);
			assert_int_equal(later.status, FORGE_OK);
		}
		fab_close(f);
		close_world(&w);
	}
}

/* One small op, and the deadline is what it says. */
static void test_deadline_of_one(void **state)
{
	struct world w;
	uint64_t word;

	open_child(&w, places[0]);
	struct tcp_settings s = settings_for(&w);

	s.deadline_ms = 1000;
	struct fab *f = must_answer(&s);
	struct fab_op op = fab_read(FAB_DATA, 0, &word, 8);

	kill(w.pid, SIGSTOP);
	assert_int_equal(waitpid(w.pid, NULL, WUNTRACED), w.pid);
	uint64_t start_ms = now_ms();

	run_ops(f, &op, 1);
	uint64_t took_ms = now_ms() - start_ms;

	assert_int_equal(op.status, FORGE_E_NODE);
	assert_in_range(took_ms, 990, UINT64_MAX);
	/* It runs on, but this connection is over. */
	kill(w.pid, SIGCONT);
	run_ops(f, &op, 1);
	assert_int_equal(op.status, FORGE_E_NODE);
	fab_close(f);
	fab_close(must_answer(&s));
	close_world(&w);
}

/*
 * Post to a node that stands still, while others of the instance hear from it for so long.  When
 * they did so last is written down ahead: whoever wrote it in time would have to run in time.  Then
 * this process stands still itself for away_ms.
 */
static uint64_t ms_until_lost(struct world *w, uint64_t others_ms, uint64_t away_ms)
{
	_Atomic uint64_t heard_ns = 0;
	uint64_t word;
	struct tcp_settings s = settings_for(w);

	s.deadline_ms = 300;
	s.heard_ns = &heard_ns;
	struct fab *f = must_answer(&s);
	struct fab_op op = fab_read(FAB_DATA, 0, &word, 8);

	assert_true(heard_ns > 0);
	kill(w->pid, SIGSTOP);
	assert_int_equal(waitpid(w->pid, NULL, WUNTRACED), w->pid);
	uint64_t start_ms = now_ms();

	heard_ns = clock_now_ns(clock_monotonic()) + others_ms * 1000000;
	fab_post(f, &op, 1);
	fab_kick(f);
	while (op.status == FAB_PENDING) {
		if (away_ms > 0 && now_ms() - start_ms >= others_ms) {
			poll(NULL, 0, (int)away_ms);
			away_ms = 0;
		}
		fab_poll(f);
	}
	uint64_t took_ms = now_ms() - start_ms;

	assert_int_equal(op.status, FORGE_E_NODE);
	kill(w->pid, SIGCONT);
	fab_close(f);
	return took_ms;
}

/* A node that answers others of the instance is busy: that is waited for, but not for ever. */
static void test_busy_is_not_silent(void **state)
{
	struct world w;

	open_child(&w, places[0]);
	/* Nothing bounds how late a busy machine makes it, only how early it may be. */
	assert_in_range(ms_until_lost(&w, 0, 0), 299, UINT64_MAX);
	assert_in_range(ms_until_lost(&w, 1500, 0), 1799, UINT64_MAX);
	assert_in_range(ms_until_lost(&w, 600000, 0), 2999, 599999);
	/* That nobody heard while one was away says nothing of the node. */
	assert_in_range(ms_until_lost(&w, 1000, 600), 1899, UINT64_MAX);
	close_world(&w);
}

/* A listener that never answers, nobody at all, and names that are none. */
static void test_no_node(void **state)
{
	struct world w;
	struct wire_welcome welcome;
	struct fab *f = NULL;
	char error[512], where[300];

	open_world(&w, places[0], (struct tcp_server_settings){0});
	struct tcp_settings s = settings_for(&w);

	s.deadline_ms = 200;
	uint64_t start_ms = now_ms();

	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_NODE);
	assert_in_range(now_ms() - start_ms, 190, UINT64_MAX);
	assert_non_null(strstr(error, "said nothing"));
	snprintf(where, sizeof(where), "%s", w.where);
	close_world(&w);
	s.where = where;
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_NODE);
	assert_non_null(strstr(error, "no node listens"));
	static const char *const bad[] = {"tcp://",
					  "tcp://host",
					  "tcp://host:99999",
					  "tcp://host:x",
					  "tcp://::1:80",
					  "tcp://[::1]",
					  "unix:",
					  "unix:/",
					  "unix:x",
					  "udp://x:1",
					  ""};

	for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
		s.where = bad[i];
		assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_INVAL);
	}
	assert_null(f);
}

/* ---- giving up ---------------------------------------------------------------------------- */

/* A listener whom nobody serves, with room for one that nobody accepted. */
static int silent_listener(char *where, size_t bytes)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	snprintf(where, bytes, "tcp://127.0.0.1:%u", ntohs(address.sin_port));
	return fd;
}

/* Of this process.  By name, since other threads open and close theirs meanwhile. */
static unsigned sockets_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++) {
		char name[32], what[8] = "";

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		if (readlink(name, what, sizeof(what)) > 0)
			count += memcmp(what, "socket:", 7) == 0;
	}
	return count;
}

/* How far one comes with a node that says nothing. */
enum silence { BACKLOG_FULL, AFTER_CONNECT, IN_TLS };

/*
 * The deadline is ten minutes, which this test does not have: it ends because the wait does.  What
 * is listened to with a full backlog answers no SYN.
 */
static void run_cancelled(enum silence where_silent)
{
	const struct pass_wish with_tls = {.tls = 1};
	struct dialler d = {.settings = {.deadline_ms = 600000}};
	struct cancel cancel;
	unsigned char byte;
	unsigned before = sockets_open();
	int fd = silent_listener(d.where, sizeof(d.where)), peer = -1;
	struct pass *pass = NULL;
	struct dialler filler[2];

	assert_int_equal(cancel_open(&cancel), 0);
	tcp_instance(d.settings.instance);
	d.settings.cancel = &cancel;
	if (where_silent == IN_TLS)
		assert_int_equal(pass_open(&with_tls, &pass, d.error, sizeof(d.error)), 0);
	d.settings.pass = pass;
	for (unsigned i = 0; i < 2 && where_silent == BACKLOG_FULL; i++) {
		filler[i] = d;
		dial_begin(&filler[i]);
	}
	dial_begin(&d);
	if (where_silent != BACKLOG_FULL) {
		peer = accept(fd, NULL, NULL);
		assert_true(peer >= 0);
		/* It has begun to say something. */
		assert_int_equal(recv(peer, &byte, 1, 0), 1);
		assert_int_equal(byte == WIRE_TLS_FIRST, where_silent == IN_TLS);
	}
	/* A child has no copy of what is connected meanwhile: the node would wait for its end, too.
	 */
	unsigned not_mine = peer >= 0 ? 2 : 1, mine = where_silent == BACKLOG_FULL ? 3 : 1;

	WAIT_FOR(sockets_open() == before + not_mine + mine);
	pid_t child = fork();

	if (child == 0)
		_exit(sockets_open() != before + not_mine);
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	cancel_fire(&cancel);
	for (unsigned i = 0; i < 2 && where_silent == BACKLOG_FULL; i++)
		dial_end(&filler[i]);
	dial_end(&d);
	assert_int_equal(d.status, FORGE_E_NODE);
	assert_non_null(strstr(d.error, "given up"));
	/* Nor does anybody begin to wait when it has been fired. */
	dial(&d);
	assert_int_equal(d.status, FORGE_E_NODE);
	if (peer >= 0)
		close(peer);
	close(fd);
	pass_close(pass);
	cancel_close(&cancel);
}

/* A node that freezes when one was welcome: what is asked of it ends, too. */
static void run_cancelled_when_frozen(void)
{
	struct dialler d = {0};
	struct cancel cancel;
	_Atomic int lost = 0;
	struct world w;

	open_child(&w, places[0]);
	d.settings = settings_for(&w);
	d.settings.deadline_ms = 600000;
	d.settings.lost = &lost;
	d.settings.cancel = &cancel;
	assert_int_equal(cancel_open(&cancel), 0);
	cancel_watch(&cancel, &lost);
	d.control = must_control(&d.settings);
	struct fab *f = must_open(&d.settings);
	uint64_t word;
	struct fab_op op = fab_read(FAB_DATA, 8, &word, sizeof(word));

	assert_int_equal(kill(w.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(w.pid, NULL, WUNTRACED), w.pid);
	dial_begin(&d);
	fab_post(f, &op, 1);
	fab_kick(f);
	fab_poll(f);
	assert_int_equal(op.status, FAB_PENDING);
	cancel_fire(&cancel);
	dial_end(&d);
	assert_int_equal(d.status, FORGE_E_NODE);
	fab_poll(f);
	assert_int_equal(op.status, FORGE_E_NODE);
	/* What is taken back is not touched any more; who comes late is told at once. */
	cancel_watch(&cancel, NULL);
	lost = 0;
	cancel_watch(&cancel, &lost);
	assert_int_equal(lost, 1);
	fab_close(f);
	tcp_control_close(d.control);
	cancel_close(&cancel);
	close_world(&w);
}

static void test_cancelled(void **state)
{
	run_cancelled(BACKLOG_FULL);
	run_cancelled(AFTER_CONNECT);
	run_cancelled(IN_TLS);
	run_cancelled_when_frozen();
}

/* ---- much at once ------------------------------------------------------------------------- */

/* Far more than both sockets hold, both ways at once, in one go: nobody waits for the other. */
static void run_full_both_ways(const char *place)
{
	static unsigned char from[1 << 20], to[8][1 << 20];
	struct fab_op ops[16];
	struct world w;

	open_here(&w, place);
	struct tcp_settings s = settings_for(&w);
	struct fab *f = must_open(&s);

	s.deadline_ms = 15000;
	for (unsigned i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 255);
	for (unsigned i = 0; i < 16; i++) {
		uint64_t raddr = (i / 2 % 2) * sizeof(from) + i;

		ops[i] = i % 2 ? fab_read(FAB_DATA, raddr - 1, to[i / 2], sizeof(from))
			       : fab_write(FAB_DATA, raddr, from, sizeof(from));
	}
	run_ops(f, ops, 16);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(ops[i].status, FORGE_OK);
	for (unsigned i = 0; i < 8; i++)
		assert_memory_equal(to[i], from, sizeof(from));
	fab_close(f);
	close_world(&w);
}

static void test_full_both_ways(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++)
		run_full_both_ways(places[i]);
}

/* More ops than may be out: posts wait for the oldest, and all are done in order. */
static void test_many_posts(void **state)
{
	static struct fab_op ops[3 * TCP_OPS_OUT_MAX];
	struct world w;

	open_here(&w, places[0]);
	struct tcp_settings s = settings_for(&w);
	struct fab *f = must_open(&s);

	for (unsigned i = 0; i < ARRAY_COUNT(ops); i++) {
		ops[i] = fab_faa(FAB_DATA, 0, 1);
		fab_post(f, &ops[i], 1);
	}
	fab_kick(f);
	for (unsigned i = 0; i < ARRAY_COUNT(ops); i++) {
		while (ops[i].status == FAB_PENDING)
			fab_poll(f);
		assert_int_equal(ops[i].status, FORGE_OK);
		assert_int_equal(ops[i].old, i);
	}
	fab_close(f);
	close_world(&w);
}

/* A client that asks for gigabytes and takes nothing; the others do not notice. */
static void test_slow_reader(void **state)
{
	struct wire_request r = {.code = WIRE_READ, .len = MEMORY_BYTES};
	struct world w;
	unsigned asked = 0;

	open_world(&w, places[0], (struct tcp_server_settings){.threads = 1});
	serve(&w);
	struct tcp_settings s = settings_for(&w), t = settings_for(&w);
	int fd = bare_welcome(&w, &s, WIRE_DATA);
	struct mallinfo2 before = mallinfo2();

	/* Until it is not read from any more, its socket is full, too. */
	for (; asked < 1000000; asked++, r.tag++)
		if (send(fd, &r, sizeof(r), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(r))
			break;
	assert_true(asked > 10 && asked < 1000000);
	struct fab *f = must_open(&t);

	for (unsigned i = 0; i < 100; i++)
		assert_false(is_lost(f));
	/* A client of some 200 KiB was opened; one that may be owed 4 TiB added two buffers. */
	assert_true(mallinfo2().uordblks - before.uordblks < 1 << 20);
	fab_close(f);
	close(fd);
	struct tcp_server_counts n;

	WAIT_FOR((tcp_server_count(w.server, &n), n.connections == 0));
	close_world(&w);
}

/* ---- the fence ---------------------------------------------------------------------------- */

/*
 * An instance writes without pause over several connections when its control connection ends.
 * After its locks are given up the memory does not change any more: what the owner saw then is
 * what is there later.
 */
static void run_fence(const char *place)
{
	struct world w;
	struct fab *f[3];
	pthread_t threads[3];

	open_here(&w, place);
	w.owner.snapshot = malloc(MEMORY_BYTES);
	struct tcp_settings s = settings_for(&w), t = settings_for(&w);
	struct tcp_control *c = must_control(&s);
	struct fab *other = must_open(&t);

	assert_int_equal(tcp_control_hold(c, 1), FORGE_OK);
	assert_int_equal(tcp_control_hold(c, 99), FORGE_E_AGAIN);
	for (unsigned i = 0; i < 3; i++) {
		f[i] = must_open(&s);
		pthread_create(&threads[i], NULL, write_for_ever, f[i]);
	}
	poll(NULL, 0, 20);
	assert_int_equal(owner_ended_count(&w), 0);
	tcp_control_close(c);
	for (unsigned i = 0; i < 3; i++) {
		void *status;

		pthread_join(threads[i], &status);
		assert_int_equal((intptr_t)status, FORGE_E_NODE);
	}
	WAIT_FOR(owner_ended_count(&w) == 1);
	poll(NULL, 0, 30);
	assert_memory_equal(w.owner.snapshot, w.owner.mem, MEMORY_BYTES);
	assert_false(is_lost(other));
	for (unsigned i = 0; i < 3; i++)
		fab_close(f[i]);
	fab_close(other);
	close_world(&w);
}

static void test_fence(void **state)
{
	for (unsigned i = 0; i < ARRAY_COUNT(places); i++)
		for (unsigned round = 0; round < 5; round++)
			run_fence(places[i]);
}

/* An orderly close of a data connection ends nothing; breaking the protocol on one ends all. */
static void test_what_ends_an_instance(void **state)
{
	const struct wire_request nonsense = {.code = 200};
	struct wire_welcome welcome;
	struct tcp_server_counts n;
	struct fab *g = NULL;
	char error[512];
	struct world w;

	open_here(&w, places[0]);
	struct tcp_settings s = settings_for(&w);
	struct tcp_control *c = must_control(&s);
	struct fab *f = must_open(&s);

	assert_int_equal(tcp_control_hold(c, 1), FORGE_OK);
	fab_close(must_open(&s));
	close(bare_welcome(&w, &s, WIRE_DATA));
	WAIT_FOR((tcp_server_count(w.server, &n), n.connections == 2));
	assert_false(is_lost(f));
	assert_int_equal(n.fenced, 0);
	/* A second control connection is not welcome. */
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &g), FORGE_OK);
	fab_close(g);
	struct tcp_control *d = NULL;

	assert_int_equal(tcp_control_open(&s, &welcome, error, sizeof(error), &d), FORGE_E_AGAIN);
	assert_null(d);
	int fd = bare_welcome(&w, &s, WIRE_DATA);

	assert_int_equal(send(fd, &nonsense, sizeof(nonsense), MSG_NOSIGNAL), sizeof(nonsense));
	read_to_end(fd, error, sizeof(error));
	WAIT_FOR(owner_ended_count(&w) == 1);
	assert_true(is_lost(f));
	WAIT_FOR(tcp_control_is_lost(c));
	assert_int_equal(tcp_control_hold(c, 2), FORGE_E_NODE);
	tcp_server_count(w.server, &n);
	assert_int_equal(n.fenced, 1);
	assert_int_equal(n.instances, 0);
	fab_close(f);
	tcp_control_close(c);
	close_world(&w);
}

/* A thread that connects when its instance has ended and is forgotten brings nothing of it back. */
static void test_late_joiner(void **state)
{
	struct wire_welcome welcome;
	struct tcp_server_counts n;
	struct fab *f = NULL;
	char error[512];
	struct world w;

	open_here(&w, places[0]);
	struct tcp_settings s = settings_for(&w);

	s.joins = 1;
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_AGAIN);
	struct tcp_control *c = must_control(&s);

	fab_close(must_open(&s));
	f = must_open(&s);
	assert_false(is_lost(f));
	tcp_control_close(c);
	WAIT_FOR((tcp_server_count(w.server, &n), n.instances == 0));
	assert_true(is_lost(f));
	fab_close(f);
	assert_int_equal(tcp_open(&s, &welcome, error, sizeof(error), &f), FORGE_E_AGAIN);
	assert_non_null(strstr(error, "has ended"));
	close_world(&w);
}

/* A client is killed while a child of it lives on, which must not keep its locks. */
static void test_killed_client_with_a_child(void **state)
{
	struct world w;
	int ready[2];
	pid_t grandchild = 0;

	open_here(&w, places[1]);
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();

	if (pid == 0) {
		struct tcp_settings s = settings_for(&w);
		struct tcp_control *c = must_control(&s);
		struct fab *f = must_open(&s);

		if (tcp_control_hold(c, 1) || is_lost(f))
			_exit(1);
		grandchild = fork();
		if (grandchild == 0) {
			int good = is_lost(f) && tcp_control_hold(c, 2) == FORGE_E_NODE;

			grandchild = good ? getpid() : -1;
			if (write(ready[1], &grandchild, sizeof(grandchild)) < 0)
				_exit(1);
			for (;;)
				pause();
		}
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
	assert_true(grandchild > 0);
	assert_int_equal(owner_ended_count(&w), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	WAIT_FOR(owner_ended_count(&w) == 1);
	kill(grandchild, SIGKILL);
	close(ready[0]);
	close(ready[1]);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_killed),
	    cmocka_unit_test(test_stopped),
	    cmocka_unit_test(test_lost_together),
	    cmocka_unit_test(test_away),
	    cmocka_unit_test(test_poll_before_the_kick),
	    cmocka_unit_test(test_deadline_of_one),
	    cmocka_unit_test(test_busy_is_not_silent),
	    cmocka_unit_test(test_no_node),
	    cmocka_unit_test(test_cancelled),
	    cmocka_unit_test(test_full_both_ways),
	    cmocka_unit_test(test_many_posts),
	    cmocka_unit_test(test_slow_reader),
	    cmocka_unit_test(test_fence),
	    cmocka_unit_test(test_what_ends_an_instance),
	    cmocka_unit_test(test_late_joiner),
	    cmocka_unit_test(test_killed_client_with_a_child),
	};

	return cmocka_run_group_tests_name("tcp", tests, NULL, NULL);
}
