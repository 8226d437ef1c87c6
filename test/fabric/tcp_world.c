/* tcp_world.c: servers and clients for the tests of the tcp provider. */
#include "tcp_world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "fabric/tcp_dial.h"
#include "fabric/tcp_place.h"
#include "fabric/tcp_server_inside.h"
#include "under_test.h"

const char *const places[2] = {"tcp://127.0.0.1:0", "unix:/tmp/forge-tcp-test"};

/* ---- a server ----------------------------------------------------------------------------- */

static int owner_hold(void *context, void **holder, uint64_t cn)
{
	struct owner *o = context;

	pthread_mutex_lock(&o->lock);
	o->holds++;
	pthread_mutex_unlock(&o->lock);
	*holder = o;
	return cn == 99 ? FORGE_E_AGAIN : FORGE_OK;
}

static int owner_release(void *context, void **holder, uint64_t cn)
{
	return FORGE_OK;
}

static int owner_is_held(void *context, uint64_t cn)
{
	return cn == 3;
}

static void owner_ended(void *context, void **holder)
{
	struct owner *o = context;

	assert(*holder == o);
	pthread_mutex_lock(&o->lock);
	o->ended++;
	if (o->snapshot)
		memcpy(o->snapshot, o->mem, MEMORY_BYTES);
	pthread_mutex_unlock(&o->lock);
	*holder = NULL;
}

static void owner_describe(void *context, struct wire_welcome *w)
{
	w->fingerprint = FINGERPRINT;
	w->pool_id = 11;
	w->cn_max = 5;
}

unsigned owner_ended_count(struct world *w)
{
	pthread_mutex_lock(&w->owner.lock);
	unsigned n = w->owner.ended;

	pthread_mutex_unlock(&w->owner.lock);
	return n;
}

void serve(struct world *w)
{
	const struct tcp_server_calls calls = {
	    .context = &w->owner,
	    .hold = owner_hold,
	    .release = owner_release,
	    .hold_all = owner_hold,
	    .release_all = owner_release,
	    .is_held = owner_is_held,
	    .ended = owner_ended,
	    .describe = owner_describe,
	};

	assert_int_equal(tcp_server_start(w->server, w->owner.mem, MEMORY_BYTES, &calls), FORGE_OK);
}

void open_world(struct world *w, const char *place, struct tcp_server_settings settings)
{
	static unsigned serial;
	char where[300], error[512];
	const char *list = where;

	*w = (struct world){0};
	pthread_mutex_init(&w->owner.lock, NULL);
	snprintf(where, sizeof(where), strncmp(place, "unix:", 5) ? "%s" : "%s-%ld-%u", place,
		 (long)getpid(), serial++);
	settings.listen = &list;
	settings.listen_count = 1;
	w->owner.mem =
	    mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (tcp_server_open(&settings, error, sizeof(error), &w->server))
		fail_msg("%s", error);
	/* As one that serves does, ahead: a client need not wait until it does. */
	assert_int_equal(tcp_listen_begin(&w->server->listeners[0]), FORGE_OK);
	snprintf(w->where, sizeof(w->where), "%s", tcp_server_address(w->server, 0));
}

void close_world(struct world *w)
{
	if (w->pid) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	tcp_server_close(w->server);
	munmap(w->owner.mem, MEMORY_BYTES);
	free(w->owner.snapshot);
	pthread_mutex_destroy(&w->owner.lock);
}

void open_here(struct world *w, const char *place)
{
	open_world(w, place, (struct tcp_server_settings){.threads = 2});
	serve(w);
}

/* The child alone serves: the parent's copy of the listener is never accepted from. */
void open_child(struct world *w, const char *place)
{
	open_world(w, place, (struct tcp_server_settings){.threads = 1});
	w->pid = fork();
	assert_true(w->pid >= 0);
	if (w->pid == 0) {
		/* A test that fails forgets it. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(w);
		for (;;)
			pause();
	}
}

/* ---- clients ------------------------------------------------------------------------------ */

struct tcp_settings settings_for(const struct world *w)
{
	struct tcp_settings s = {.where = w->where, .deadline_ms = 5000};

	tcp_instance(s.instance);
	return s;
}

struct fab *must_open(const struct tcp_settings *s)
{
	struct wire_welcome welcome;
	struct fab *f = NULL;
	char error[512];

	/* A short deadline may pass on a busy host, on which the node does not get to run. */
	for (uint64_t end_ms = now_ms() + 15000; tcp_open(s, &welcome, error, sizeof(error), &f);)
		if (now_ms() > end_ms)
			fail_msg("%s", error);
	return f;
}

struct tcp_control *must_control(const struct tcp_settings *s)
{
	struct wire_welcome welcome;
	struct tcp_control *c = NULL;
	char error[512];

	if (tcp_control_open(s, &welcome, error, sizeof(error), &c))
		fail_msg("%s", error);
	return c;
}

uint64_t now_ms(void)
{
	return clock_now_ns(clock_monotonic()) / 1000000;
}

int is_lost(struct fab *f)
{
	uint64_t word;
	struct fab_op op = fab_read(FAB_DATA, 0, &word, 8);

	run_ops(f, &op, 1);
	assert_true(op.status == FORGE_OK || op.status == FORGE_E_NODE);
	return op.status == FORGE_E_NODE;
}

/* A bare connection that has said hello, or not even that. */
int bare(const struct world *w)
{
	struct tcp_settings s = settings_for(w);
	char error[512];
	struct tcp_place place;
	struct tcp_stream stream;

	assert_int_equal(tcp_dial_socket(&s, &stream, &place, error, sizeof(error)), FORGE_OK);
	int fd = dup(stream.fd);

	tcp_stream_close(&stream);
	assert_true(fd >= 0);
	fcntl(fd, F_SETFL, 0);
	return fd;
}

struct wire_hello hello_of(const struct tcp_settings *s, enum wire_kind kind)
{
	struct wire_hello h = {
	    .magic = WIRE_MAGIC, .version = WIRE_VERSION, .kind = (uint8_t)kind, .role = WIRE_FULL};

	memcpy(h.instance, s->instance, sizeof(h.instance));
	return h;
}

int bare_welcome(const struct world *w, const struct tcp_settings *s, enum wire_kind kind)
{
	struct wire_hello h = hello_of(s, kind);
	unsigned char reply[sizeof(struct wire_step) + sizeof(struct wire_welcome)];
	int fd = bare(w);

	assert_int_equal(send(fd, &h, sizeof(h), MSG_NOSIGNAL), sizeof(h));
	assert_int_equal(recv(fd, reply, sizeof(reply), MSG_WAITALL), sizeof(reply));
	assert_int_equal(reply[0], WIRE_STEP_WELCOME);
	return fd;
}

/* Whatever is sent, the node closes the connection, and sends at most this much before. */
size_t read_to_end(int fd, void *buf, size_t bytes)
{
	size_t n = 0;
	ssize_t got;

	while ((got = recv(fd, (char *)buf + n, bytes - n, 0)) > 0)
		n += (size_t)got;
	assert_true(got == 0 || errno == ECONNRESET);
	close(fd);
	return n;
}

void *write_for_ever(void *argument)
{
	struct fab *f = argument;
	static _Thread_local unsigned char buf[65536];
	struct fab_op ops[8];
	int status = 0;

	for (unsigned round = 0; !status; round++) {
		memset(buf, (int)round, sizeof(buf));
		for (unsigned i = 0; i < 8; i++)
			ops[i] = fab_write(FAB_DATA, i * 131072 + 8, buf, sizeof(buf));
		run_ops(f, ops, 8);
		status = ops[7].status;
	}
	return (void *)(intptr_t)status;
}

/* ---- who connects ------------------------------------------------------------------------- */

void dial(struct dialler *d)
{
	struct wire_welcome welcome;
	uint64_t node_ns;
	struct fab *f;

	if (d->where[0])
		d->settings.where = d->where;
	if (d->control) {
		d->status = tcp_control_time(d->control, &node_ns);
		return;
	}
	d->status = tcp_open(&d->settings, &welcome, d->error, sizeof(d->error), &f);
	if (!d->status)
		fab_close(f);
}

static void *dialling(void *argument)
{
	dial(argument);
	return NULL;
}

void dial_begin(struct dialler *d)
{
	assert_int_equal(pthread_create(&d->thread, NULL, dialling, d), 0);
}

void dial_end(struct dialler *d)
{
	assert_int_equal(pthread_join(d->thread, NULL), 0);
}
