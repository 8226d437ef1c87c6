/* under_test.c: the providers that the conformance suite runs over. */
#include "under_test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/count.h"
#include "fabric/delay.h"
#include "fabric/fault.h"
#include "fabric/loop.h"
#include "fabric/shm.h"
#include "fabric/tcp.h"
#include "fabric/tcp_server.h"
#include "fabric/trace.h"
#include "late.h"
#include "support/secure.h"
#include "vtime/world.h"

void run_ops(struct fab *f, struct fab_op *ops, unsigned n)
{
	struct pollfd sleeps;

	fab_post(f, ops, n);
	fab_kick(f);
	for (unsigned i = 0; i < n; i++)
		while (ops[i].status == FAB_PENDING && !(ops[i].flags & FAB_DETACHED)) {
			fab_poll(f);
			if (ops[i].status == FAB_PENDING && fab_sleep_on(f, &sleeps))
				poll(&sleeps, 1, 5);
		}
}

/* loop: the world is the buffer, shared by all connections. */

struct loop_world {
	void *mem;
	uint64_t bytes;
};

static void *loop_open_world(uint64_t bytes)
{
	struct loop_world *w = malloc(sizeof(*w));

	w->mem = calloc(1, bytes);
	w->bytes = bytes;
	return w;
}

static struct fab *loop_connect(void *world)
{
	struct loop_world *w = world;
	struct fab *f = NULL;

	return loop_open(w->mem, w->bytes, &f) == FORGE_OK ? f : NULL;
}

static void loop_close_world(void *world)
{
	struct loop_world *w = world;

	free(w->mem);
	free(w);
}

/*
 * shm: the world is a mapping.  Its name goes at once, so that a failed test leaves nothing behind;
 * forked children have the mapping.
 */

static void *shm_open_world(const char *prefix, uint64_t bytes)
{
	static unsigned serial;
	struct shm_map *map = NULL;
	char where[128], error[256];

	snprintf(where, sizeof(where), "%s-%ld-%u", prefix, (long)getpid(), serial++);
	if (shm_export_create(where, bytes, 0, error, sizeof(error)) != FORGE_OK) {
		fprintf(stderr, "%s\n", error);
		return NULL;
	}
	if (shm_map_open(where, 0, error, sizeof(error), &map) != FORGE_OK)
		fprintf(stderr, "%s\n", error);
	if (shm_export_unlink(where, error, sizeof(error)) != FORGE_OK)
		fprintf(stderr, "%s\n", error);
	return map;
}

static void *shm_open_world_posix(uint64_t bytes)
{
	return shm_open_world("shm:/forge-test", bytes);
}

static void *shm_open_world_file(uint64_t bytes)
{
	return shm_open_world("/tmp/forge-test", bytes);
}

static struct fab *shm_connect(void *world)
{
	struct fab *f = NULL;

	return shm_open_connection(world, &f) == FORGE_OK ? f : NULL;
}

static void shm_close_world(void *world)
{
	shm_map_close(world);
}

/*
 * tcp and unix: the world is a server of two threads over a private buffer, in this process; forked
 * children come to it through the socket.  Each connection is an instance of its own.  With a key
 * and with TLS the same must hold.
 */

struct tcp_world {
	struct tcp_server *server;
	struct secure secure;
	int security; /* flags of secure_open(); 0: no door */
	void *mem;
};

static void *tcp_open_world_at(const char *where, int security, uint64_t bytes)
{
	struct tcp_server_settings settings = {
	    .listen = &where, .listen_count = 1, .threads = 2, .spin_us = 50};
	struct tcp_server_calls calls = {0};
	struct tcp_world *w = calloc(1, sizeof(*w));
	char error[256];

	w->security = security;
	if (security) {
		secure_open(&w->secure, security);
		settings.door = w->secure.door;
	}
	w->mem = aligned_alloc(64, bytes);
	memset(w->mem, 0, bytes);
	if (tcp_server_open(&settings, error, sizeof(error), &w->server) != FORGE_OK) {
		fprintf(stderr, "%s\n", error);
		return NULL;
	}
	return tcp_server_start(w->server, w->mem, bytes, &calls) == FORGE_OK ? w : NULL;
}

static void *tcp_open_world(uint64_t bytes)
{
	return tcp_open_world_at("tcp://127.0.0.1:0", 0, bytes);
}

static void *tcp6_open_world(uint64_t bytes)
{
	return tcp_open_world_at("tcp://[::1]:0", 0, bytes);
}

static void *tcp_key_open_world(uint64_t bytes)
{
	return tcp_open_world_at("tcp://127.0.0.1:0", SECURE_KEYS, bytes);
}

static void *tls_key_open_world(uint64_t bytes)
{
	return tcp_open_world_at("tcp://127.0.0.1:0", SECURE_KEYS | SECURE_TLS, bytes);
}

static void *unix_open_world(uint64_t bytes)
{
	static unsigned serial;
	char where[128];

	snprintf(where, sizeof(where), "unix:/tmp/forge-test-%ld-%u", (long)getpid(), serial++);
	return tcp_open_world_at(where, 0, bytes);
}

static struct fab *tcp_connect(void *world)
{
	const struct tcp_world *w = world;
	/* Beside others on few processors a thread may well not run for longer than a second. */
	struct tcp_settings settings = {
	    .where = tcp_server_address(w->server, 0),
	    .deadline_ms = 20000,
	    .pass = w->secure.pass,
	};
	struct wire_welcome welcome;
	struct fab *f = NULL;
	char error[512];

	tcp_instance(settings.instance);
	if (tcp_open(&settings, &welcome, error, sizeof(error), &f) == FORGE_OK)
		return f;
	fprintf(stderr, "%s\n", error);
	return NULL;
}

static void tcp_close_world(void *world)
{
	struct tcp_world *w = world;

	tcp_server_close(w->server);
	if (w->security)
		secure_close(&w->secure);
	free(w->mem);
	free(w);
}

/* Wrappers that let everything pass, alone and on top of each other, over loop and late. */

static struct fab *wrap_in_trace(struct fab *inner)
{
	static _Thread_local FILE *nowhere;
	struct trace_settings settings = {.connection = "test", .line = trace_line_to_file};
	struct fab *f = NULL;

	if (!nowhere)
		nowhere = fopen("/dev/null", "w");
	settings.line_context = nowhere;
	return inner && trace_open(inner, &settings, &f) == FORGE_OK ? f : NULL;
}

static struct fab *wrap_in_count(struct fab *inner)
{
	static _Thread_local struct fab_counts counts;
	struct fab *f = NULL;

	return inner && count_open(inner, &counts, &f) == FORGE_OK ? f : NULL;
}

static struct fab *wrap_in_fault(struct fab *inner)
{
	static _Thread_local struct fault_plan plan;
	struct fab *f = NULL;

	return inner && fault_open(inner, &plan, &f) == FORGE_OK ? f : NULL;
}

static struct fab *wrap_in_late(struct fab *inner)
{
	struct fab *f = NULL;

	return inner && late_open(inner, &f) == FORGE_OK ? f : NULL;
}

/* Short, so that the suite is soon done, and longer than a poll, so that ops are out for some. */
#define DELAY_NS 500

static struct fab *wrap_in_delay(struct fab *inner)
{
	struct fab *f = NULL;

	return inner && delay_open(inner, DELAY_NS, clock_monotonic(), &f) == FORGE_OK ? f : NULL;
}

static struct fab *delay_connect(void *world)
{
	return wrap_in_delay(loop_connect(world));
}

static struct fab *delay_wrapped_connect(void *world)
{
	return wrap_in_count(wrap_in_fault(wrap_in_delay(shm_connect(world))));
}

static struct fab *trace_connect(void *world)
{
	return wrap_in_trace(loop_connect(world));
}

static struct fab *count_connect(void *world)
{
	return wrap_in_count(loop_connect(world));
}

static struct fab *fault_connect(void *world)
{
	return wrap_in_fault(loop_connect(world));
}

static struct fab *late_connect(void *world)
{
	return wrap_in_late(loop_connect(world));
}

static struct fab *late_wrapped_connect(void *world)
{
	return wrap_in_trace(wrap_in_count(wrap_in_fault(wrap_in_late(loop_connect(world)))));
}

static struct fab *tcp_wrapped_connect(void *world)
{
	return wrap_in_trace(wrap_in_count(wrap_in_fault(tcp_connect(world))));
}

static struct fab *shm_wrapped_connect(void *world)
{
	return wrap_in_count(wrap_in_fault(wrap_in_trace(shm_connect(world))));
}

/* sim: a world of one thread; outside it, a poll lets time pass. */

static void *sim_open_world(uint64_t bytes)
{
	struct vt_world_options options = {
	    .profile = vt_profile_find("cx5"),
	    .nodes = 1,
	    .node_bytes = bytes,
	    .cns = 1,
	    .threads = 1,
	    .seed = 1,
	};
	struct vt_world *w = NULL;

	return vt_world_create(&options, &w) == FORGE_OK ? w : NULL;
}

static struct fab *sim_connect(void *world)
{
	struct fab *f = NULL;

	return vt_connect(vt_thread_at(world, 0), 0, &f) == FORGE_OK ? f : NULL;
}

static struct fab *sim_wrapped_connect(void *world)
{
	return wrap_in_trace(wrap_in_count(wrap_in_fault(sim_connect(world))));
}

static void sim_close_world(void *world)
{
	vt_world_destroy(world);
}

const struct under_test providers_under_test[] = {
    {"loop", loop_open_world, loop_connect, loop_close_world, 0, 0, 0},
    {"shm", shm_open_world_posix, shm_connect, shm_close_world, 1, 0, 0},
    {"shm-file", shm_open_world_file, shm_connect, shm_close_world, 1, 0, 0},
    {"trace", loop_open_world, trace_connect, loop_close_world, 0, 0, 0},
    {"count", loop_open_world, count_connect, loop_close_world, 0, 0, 0},
    {"fault", loop_open_world, fault_connect, loop_close_world, 0, 0, 0},
    {"late", loop_open_world, late_connect, loop_close_world, 0, 0, 0},
    {"trace-count-fault-late", loop_open_world, late_wrapped_connect, loop_close_world, 0, 0, 0},
    {"count-fault-trace-shm", shm_open_world_posix, shm_wrapped_connect, shm_close_world, 1, 0, 0},
    {"delay", loop_open_world, delay_connect, loop_close_world, 0, 0, 0},
    {"count-fault-delay-shm", shm_open_world_posix, delay_wrapped_connect, shm_close_world, 1, 0,
     0},
    {"sim", sim_open_world, sim_connect, sim_close_world, 0, 1, 0},
    {"trace-count-fault-sim", sim_open_world, sim_wrapped_connect, sim_close_world, 0, 1, 0},
    {"tcp", tcp_open_world, tcp_connect, tcp_close_world, 1, 0, 1},
    {"tcp6", tcp6_open_world, tcp_connect, tcp_close_world, 1, 0, 1},
    {"tcp-key", tcp_key_open_world, tcp_connect, tcp_close_world, 1, 0, 1},
    {"tls-key", tls_key_open_world, tcp_connect, tcp_close_world, 1, 0, 1},
    {"unix", unix_open_world, tcp_connect, tcp_close_world, 1, 0, 1},
    {"trace-count-fault-unix", unix_open_world, tcp_wrapped_connect, tcp_close_world, 1, 0, 1},
};

const unsigned providers_under_test_count = ARRAY_COUNT(providers_under_test);
