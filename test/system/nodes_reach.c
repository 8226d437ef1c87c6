/*
 * nodes_reach.c: a list with memory nodes that accept a connection and then say nothing.
 *
 * They are listeners of this test, so that it sees who dials; deadlines are ten minutes, which no
 * test has.  Shown: all of them are dialled at once, for the hello of each is there while none has
 * been answered; what can be reached is used when they have ended; and a mistake in the list, or
 * the end of the client, does not wait for them.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "node/serve.h"

#define NODES 4u

/* A place that a node serves, or where somebody only listens. */
struct place {
	char pool[64], listen[64];
	struct node *node; /* NULL: none */
	struct node_server *server;
	int fd; /* the silent listener; -1: none */
};

/* Somebody opens a client meanwhile. */
struct opener {
	char list[NODES * 128];
	pthread_t thread;
	struct client *client;
	int status;
	char error[512];
	_Atomic int is_done;
};

static struct place places[NODES];

static void start_node(struct place *p)
{
	static char error[1024];
	const struct tcp_server_settings settings = {.threads = 1};
	const struct node_wish wish = {
	    .where = p->pool,
	    .plan = {.pool_bytes = 8 << 20, .object_bytes = 100, .cn_max = 8, .policy = "forge"},
	    .plan_given = true,
	};

	if (node_server_open(p->listen, &settings, &p->server, error, sizeof(error)) ||
	    node_open(&wish, &p->node, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(node_ready(p->node), 0);
	assert_int_equal(node_server_start(p->server, p->node), 0);
}

static void stop_node(struct place *p)
{
	char error[1024];

	node_server_close(p->server);
	if (p->node)
		assert_int_equal(node_close(p->node, false, error, sizeof(error)), 0);
	p->server = NULL;
	p->node = NULL;
}

static void fall_silent(struct place *p)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	stop_node(p);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", p->listen + strlen("unix:"));
	p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(p->fd, 64), 0);
}

static void end_silence(struct place *p)
{
	if (p->fd < 0)
		return;
	close(p->fd);
	unlink(p->listen + strlen("unix:"));
	p->fd = -1;
}

static int set_up(void **state)
{
	static unsigned serial;

	for (unsigned i = 0; i < NODES; i++) {
		places[i] = (struct place){.fd = -1};
		snprintf(places[i].pool, sizeof(places[i].pool), "shm:/forge-reach-%ld-%u",
			 (long)getpid(), serial);
		snprintf(places[i].listen, sizeof(places[i].listen), "unix:/tmp/forge-reach-%ld-%u",
			 (long)getpid(), serial++);
	}
	return 0;
}

static int tear_down(void **state)
{
	for (unsigned i = 0; i < NODES; i++) {
		end_silence(&places[i]);
		stop_node(&places[i]);
	}
	return 0;
}

/* ---- who opens a client ------------------------------------------------------------------- */

static void name_all(char *list, size_t bytes)
{
	size_t at = 0;

	for (unsigned i = 0; i < NODES; i++)
		at += (size_t)snprintf(list + at, bytes - at, "%s%s?timeout=10m", i ? "," : "",
				       places[i].listen);
}

static void *open_client(void *argument)
{
	const struct client_options options = {.session_count = 1, .seed = 1};
	struct opener *o = argument;

	o->status = client_open(o->list, &options, &o->client, o->error, sizeof(o->error));
	atomic_store(&o->is_done, 1);
	return NULL;
}

static void begin_opening(struct opener *o)
{
	o->client = NULL;
	atomic_store(&o->is_done, 0);
	assert_int_equal(pthread_create(&o->thread, NULL, open_client, o), 0);
}

/* With a bound that only a failure reaches; then it is not waited for any more. */
static void await_client(struct opener *o)
{
	for (unsigned i = 0; i < 15000 && !atomic_load(&o->is_done); i++)
		poll(NULL, 0, 1);
	assert_int_equal(atomic_load(&o->is_done), 1);
	pthread_join(o->thread, NULL);
}

/* Somebody has come and said something; the connection. */
static int await_dial(const struct place *p)
{
	struct pollfd come = {.fd = p->fd, .events = POLLIN};
	unsigned char byte;

	assert_int_equal(poll(&come, 1, 15000), 1);
	int fd = accept(p->fd, NULL, NULL);

	assert_true(fd >= 0);
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	return fd;
}

/* Each of the places from `first` on is dialled before any of them has done anything; then end. */
static void await_dials_and_end(unsigned first)
{
	int fd[NODES];

	for (unsigned i = first; i < NODES; i++)
		fd[i] = await_dial(&places[i]);
	for (unsigned i = first; i < NODES; i++) {
		end_silence(&places[i]);
		close(fd[i]);
	}
}

/* ---- tests -------------------------------------------------------------------------------- */

static void form_cache(struct opener *o)
{
	for (unsigned i = 0; i < NODES; i++)
		start_node(&places[i]);
	name_all(o->list, sizeof(o->list));
	begin_opening(o);
	await_client(o);
	if (o->status)
		fail_msg("%s", o->error);
	client_close(o->client);
}

/* Half of them live: that is enough.  The client ends beside those that are silent again. */
static void test_half_is_silent(void **state)
{
	static struct opener o;

	form_cache(&o);
	fall_silent(&places[2]);
	fall_silent(&places[3]);
	begin_opening(&o);
	await_dials_and_end(2);
	await_client(&o);
	if (o.status)
		fail_msg("%s", o.error);
	assert_int_equal(client_members_up(o.client), 2);
	fall_silent(&places[3]);
	close(await_dial(&places[3]));
	int again = await_dial(&places[3]);

	client_close(o.client);
	close(again);
}

/* Fewer are not; it is said as soon as all have been asked. */
static void test_most_are_silent(void **state)
{
	static struct opener o;

	form_cache(&o);
	for (unsigned i = 1; i < NODES; i++)
		fall_silent(&places[i]);
	begin_opening(&o);
	await_dials_and_end(1);
	await_client(&o);
	assert_int_equal(o.status, FORGE_E_NODE);
	assert_non_null(strstr(o.error, "1 of the 4 memory nodes can be reached"));
}

/* Nobody is there at all. */
static void test_all_are_silent(void **state)
{
	static struct opener o;

	for (unsigned i = 0; i < NODES; i++)
		fall_silent(&places[i]);
	name_all(o.list, sizeof(o.list));
	begin_opening(&o);
	await_dials_and_end(0);
	await_client(&o);
	assert_int_equal(o.status, FORGE_E_NODE);
	assert_non_null(strstr(o.error, "none of the 4 memory nodes can be reached"));
	assert_non_null(strstr(o.error, places[0].listen));
}

/* What no waiting mends ends it at once, and is what is told: behind a socket, and in memory. */
static void test_mistake_among_silent(void **state)
{
	static const char *const mistakes[] = {"tls://127.0.0.1:1?ca=/nowhere/at-all",
					       "file:/dev/null"};
	static struct opener o;

	for (unsigned i = 0; i < NODES - 1; i++)
		fall_silent(&places[i]);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(places[NODES - 1].listen, sizeof(places[0].listen), "%s", mistakes[i]);
		name_all(o.list, sizeof(o.list));
		*strrchr(o.list, '?') = i ? '\0' : '&';
		begin_opening(&o);
		await_client(&o);
		assert_int_not_equal(o.status, FORGE_E_NODE);
		assert_true(o.status < 0);
		assert_null(strstr(o.error, "given up"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_half_is_silent, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_most_are_silent, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_all_are_silent, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(test_mistake_among_silent, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("nodes_reach", tests, NULL, NULL);
}
