/*
 * serve_share.c: connections of a server that change their worker all the time.
 *
 * How many workers serve is changed every fraction of a millisecond, so that connections are handed
 * over between requests, in the middle of pipelines, and with half a request in their socket.
 * Clients have keys of their own, and so know every reply to the byte: replies come in the order of
 * the requests, none is lost or doubled, and a get sees the set before it, whichever workers
 *carried them out.  When the server is told to end, what a client has received is whole.  Under
 *TSan a connection that two workers hold would show; the cases are a Unix socket, TLS, and a fabric
 *on which every request waits.
 *
 *	mt_serve_share [BATCHES]	of requests, of each client; 3000 by default
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/tls.h"
#include "base/parse.h"
#include "base/prng.h"
#include "bench/own_pool.h"
#include "fabric/delay.h"
#include "serve/server_inside.h"
#include "support/certs.h"
#include "support/clean.h"
#include "support/tempdir.h"

#define WORKERS	    4u
#define CLIENTS	    4u
#define CONNECTIONS 5u /* of a client */
#define KEYS	    7u /* of a connection */
#define BATCH_MAX   24u
#define BYTES_MAX   (BATCH_MAX * 256)

static uint64_t batches_wanted = 3000;

struct world {
	struct own_pool pool;
	struct tempdir directory;
	char unix_path[96];
	uint16_t port; /* of TLS, or 0 */
	struct cert authority, cert;
	struct tls *tls, *client_tls;
	struct client *client;
	struct server *server;
	pthread_t running;
	uint64_t latency_ns;
	_Atomic bool is_stopping; /* the toggling */
	_Atomic bool is_ending;	  /* the server has been told to */
	_Atomic uint64_t requests;
};

/* A connection of a client. */
struct link {
	int fd;
	struct tls_conn *tls;
	unsigned told[KEYS]; /* version that the key was set to; 0: not in this life */
	unsigned version;
	char want[BYTES_MAX], sent[BYTES_MAX], got[BYTES_MAX];
	size_t want_bytes, sent_bytes, got_bytes;
	size_t boundaries[BATCH_MAX]; /* where replies end in want */
	unsigned count;
};

struct user {
	struct world *world;
	unsigned index;
	pthread_t thread;
	struct prng prng;
	int segment_bytes; /* of TCP, at most; 0: whatever the kernel takes */
	struct link links[CONNECTIONS];
	char failure[400];
};

/* ---- the server --------------------------------------------------------------------------- */

static int wrap(void *context, uint64_t pool_id, struct fab *inner, struct fab **out)
{
	const struct world *w = context;

	if (w->latency_ns)
		return delay_open(inner, w->latency_ns, clock_monotonic(), out);
	*out = inner;
	return 0;
}

static void *run(void *server)
{
	server_run(server);
	return NULL;
}

static void make_certificates(struct world *w)
{
	struct tls_files server = {NULL, NULL, NULL}, client = {NULL, NULL, NULL};
	char error[512];

	cert_authority(w->directory.path, "authority", &w->authority);
	cert_issue(w->directory.path, "server", &w->authority, "IP:127.0.0.1", -60, 3600, &w->cert);
	server.certificate = w->cert.certificate;
	server.key = w->cert.key;
	client.authority = w->authority.certificate;
	assert_int_equal(tls_open(&server, TLS_SERVER, &w->tls, error, sizeof(error)), 0);
	assert_int_equal(tls_open(&client, 0, &w->client_tls, error, sizeof(error)), 0);
}

static void begin(struct world *w, uint64_t latency_ns, bool tls)
{
	struct plan_wish wish = {
	    .pool_bytes = 32u << 20, .object_bytes = 80, .cn_max = 16, .policy = "forge"};
	struct client_options options = {
	    .session_count = WORKERS + 1, .wrap = wrap, .wrap_context = w, .seed = 3};
	char error[512];

	memset(w, 0, sizeof(*w));
	w->latency_ns = latency_ns;
	assert_int_equal(tempdir_make(&w->directory), 0);
	snprintf(w->unix_path, sizeof(w->unix_path), "%s/socket", w->directory.path);
	if (tls)
		make_certificates(w);
	assert_int_equal(own_pool_create(&w->pool, &wish, error, sizeof(error)), 0);
	if (client_open(w->pool.name, &options, &w->client, error, sizeof(error)))
		fail_msg("%s", error);
	struct server_options o = {
	    .client = w->client,
	    .pool_name = w->pool.name,
	    .version = "test",
	    .thread_count = WORKERS,
	    .connections_max = 1000,
	    .idle_timeout_us = 3600000000, /* longer than a case, with a sanitizer */
	    .value_bytes_max = 1000,
	    .reply_value_bytes = 1000,
	    .protocol = PROTOCOL_UNKNOWN,
	    .tls = w->tls,
	    .backlog = 100,
	    .listen = tls ? "127.0.0.1:0" : NULL,
	    .unix_path = w->unix_path,
	    .unix_mode = 0700,
	};

	if (server_open(&o, &w->server, error, sizeof(error)))
		fail_msg("%s", error);
	if (tls)
		sscanf(strchr(w->server->listeners[0].name, ':'), ":%" SCNu16, &w->port);
	assert_int_equal(pthread_create(&w->running, NULL, run, w->server), 0);
}

static void end(struct world *w)
{
	const struct check_options clean = {0};

	server_close(w->server);
	client_close(w->client);
	assert_pool_clean(w->pool.name, &clean);
	own_pool_forget(&w->pool);
	if (w->tls) {
		tls_close(w->tls);
		tls_close(w->client_tls);
	}
	tempdir_remove(&w->directory);
}

/* ---- a client ----------------------------------------------------------------------------- */

static int fail_user(struct user *u, const char *what, const struct link *l)
{
	snprintf(u->failure, sizeof(u->failure),
		 "client %u, connection %u: %s: got %zu of %zu bytes: %.120s instead of %.120s",
		 u->index, (unsigned)(l - u->links), what, l->got_bytes, l->want_bytes, l->got,
		 l->want);
	return -1;
}

static int open_link(struct user *u, struct link *l)
{
	const struct world *w = u->world;
	struct sockaddr_un local = {.sun_family = AF_UNIX};
	struct sockaddr_in tcp = {
	    .sin_family = AF_INET,
	    .sin_port = htons(w->port),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const int kind = SOCK_STREAM | SOCK_CLOEXEC;

	memset(l, 0, sizeof(*l));
	l->fd = socket(w->port ? AF_INET : AF_UNIX, kind, 0);
	strcpy(local.sun_path, w->unix_path);
	/* Little room, so that replies come in pieces and a client that does not read stops soon.
	 */
	setsockopt(l->fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
	/* The server has room for a number of segments, not of bytes. */
	if (w->port && u->segment_bytes)
		setsockopt(l->fd, IPPROTO_TCP, TCP_MAXSEG, &u->segment_bytes, sizeof(int));
	if (connect(l->fd, w->port ? (struct sockaddr *)&tcp : (struct sockaddr *)&local,
		    w->port ? sizeof(tcp) : sizeof(local)))
		return -1;
	/* A part does not wait until the one before has been acknowledged. */
	if (w->port)
		setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (w->port)
		l->tls = tls_conn_create(w->client_tls, l->fd, "127.0.0.1");
	return 0;
}

static void close_link(struct link *l)
{
	tls_conn_destroy(l->tls);
	if (l->fd >= 0)
		close(l->fd);
	l->tls = NULL;
	l->fd = -1;
}

static void PRINTF_LIKE(3, 4) put(char *text, size_t *used, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	*used += (size_t)vsnprintf(text + *used, BYTES_MAX - *used, format, args);
	va_end(args);
}

/* One request, and what will be the answer.  Keys are this connection's. */
static void put_request(struct user *u, struct link *l)
{
	unsigned number = (unsigned)(l - u->links), k = (unsigned)prng_below(&u->prng, KEYS);
	char key[32], value[100];

	snprintf(key, sizeof(key), "%u.%u.%u", u->index, number, k);
	switch (prng_below(&u->prng, l->told[k] ? 4 : 1)) {
	case 0:
		l->told[k] = ++l->version;
		snprintf(value, sizeof(value), "%u.%0*u", l->told[k], 1 + (int)(l->version % 60),
			 k);
		put(l->sent, &l->sent_bytes, "set %s %u 0 %zu\r\n%s\r\n", key, k, strlen(value),
		    value);
		put(l->want, &l->want_bytes, "STORED\r\n");
		break;
	case 1:
		put(l->sent, &l->sent_bytes, "mn\r\n");
		put(l->want, &l->want_bytes, "MN\r\n");
		break;
	default:
		snprintf(value, sizeof(value), "%u.%0*u", l->told[k], 1 + (int)(l->told[k] % 60),
			 k);
		put(l->sent, &l->sent_bytes, "get %s\r\n", key);
		put(l->want, &l->want_bytes, "VALUE %s %u %zu\r\n%s\r\nEND\r\n", key, k,
		    strlen(value), value);
		break;
	}
	l->boundaries[l->count++] = l->want_bytes;
}

/* Wait until it can be read or written, for a minute. */
static bool await(const struct link *l, short what)
{
	struct pollfd p = {.fd = l->fd, .events = what};

	return (l->tls && tls_has_pending(l->tls)) || poll(&p, 1, 60000) > 0;
}

/* 0; or -1: the server does not take it. */
static int send_part(const struct link *l, size_t from, size_t to)
{
	while (from < to) {
		ssize_t n =
		    l->tls ? tls_send(l->tls, l->sent + from, to - from)
			   : send(l->fd, l->sent + from, to - from, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN && await(l, POLLOUT))
			continue;
		if (n <= 0)
			return -1;
		from += (size_t)n;
	}
	return 0;
}

/* What has come so far ends with a reply. */
static bool is_whole(const struct link *l)
{
	for (unsigned i = 0; i < l->count; i++)
		if (l->boundaries[i] == l->got_bytes)
			return true;
	return l->got_bytes == 0;
}

/* 0; 1: the server has ended, as it was told; -1: failed. */
static int receive(struct user *u, struct link *l)
{
	while (l->got_bytes < l->want_bytes) {
		size_t room = sizeof(l->got) - 1 - l->got_bytes;
		ssize_t n = l->tls ? tls_recv(l->tls, l->got + l->got_bytes, room)
				   : recv(l->fd, l->got + l->got_bytes, room, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN) {
			if (!await(l, POLLIN))
				return fail_user(u, "no reply for a minute", l);
			continue;
		}
		if (n <= 0 && atomic_load(&u->world->is_ending) && is_whole(l))
			return 1;
		if (n <= 0)
			return fail_user(u, "the connection ended", l);
		l->got_bytes += (size_t)n;
		l->got[l->got_bytes] = '\0';
		if (l->got_bytes > l->want_bytes || memcmp(l->got, l->want, l->got_bytes) != 0)
			return fail_user(u, "another reply", l);
	}
	return 0;
}

static void begin_batch(struct link *l)
{
	l->want_bytes = l->sent_bytes = l->got_bytes = 0;
	l->count = 0;
	memset(l->got, 0, sizeof(l->got));
}

/* Some requests on one connection, in two parts that may be cut anywhere, and their replies. */
static int batch(struct user *u, struct link *l)
{
	unsigned n = 1 + (unsigned)prng_below(&u->prng, prng_below(&u->prng, 3) ? 1 : BATCH_MAX);
	size_t cut;

	begin_batch(l);
	for (unsigned i = 0; i < n; i++)
		put_request(u, l);
	cut = prng_below(&u->prng, 2) ? l->sent_bytes : prng_below(&u->prng, l->sent_bytes + 1);
	atomic_fetch_add(&u->world->requests, n);
	if (send_part(l, 0, cut))
		return atomic_load(&u->world->is_ending) ? 1 : fail_user(u, "not taken", l);
	if (cut < l->sent_bytes && prng_below(&u->prng, 2))
		sched_yield();
	if (send_part(l, cut, l->sent_bytes))
		return atomic_load(&u->world->is_ending) ? 1 : fail_user(u, "not taken", l);
	return receive(u, l);
}

static uint64_t sum_handed_over(const struct world *w)
{
	struct serve_counts sum;

	server_sum_counts(w->server, &sum);
	return atomic_load(&sum.handed_over);
}

static bool is_handed_over_enough(const struct world *w)
{
	return sum_handed_over(w) > batches_wanted / 100;
}

static void *use(void *user)
{
	struct user *u = user;
	int status = 0;

	for (unsigned i = 0; i < CONNECTIONS; i++)
		u->links[i].fd = -1;
	/* On a busy host the thread that changes how many serve may not have had a turn yet. */
	for (uint64_t i = 0; !status && (i < batches_wanted || (i < 1000 * batches_wanted &&
								!is_handed_over_enough(u->world)));
	     i++) {
		struct link *l = &u->links[prng_below(&u->prng, CONNECTIONS)];

		if (l->fd >= 0 && prng_below(&u->prng, 200) == 0)
			close_link(l);
		if (l->fd < 0 && open_link(u, l)) {
			status = atomic_load(&u->world->is_ending)
				     ? 1
				     : fail_user(u, "cannot connect", l);
			break;
		}
		status = batch(u, l);
	}
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close_link(&u->links[i]);
	return NULL;
}

/* ---- cases -------------------------------------------------------------------------------- */

static void *toggle(void *world)
{
	struct world *w = world;
	struct prng prng;

	prng_seed(&prng, 5);
	while (!atomic_load(&w->is_stopping)) {
		const struct timespec pause = {.tv_nsec = 1 + (long)prng_below(&prng, 300000)};

		atomic_store(&w->server->share.serving, 1 + (uint32_t)prng_below(&prng, WORKERS));
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* enough: the server is told to end after so many requests; 0: when all clients have gone. */
static void run_world(uint64_t latency_ns, bool tls, uint64_t enough)
{
	static struct world w;
	static struct user users[CLIENTS];
	struct serve_counts sum;
	pthread_t toggling;

	begin(&w, latency_ns, tls);
	assert_int_equal(pthread_create(&toggling, NULL, toggle, &w), 0);
	for (unsigned i = 0; i < CLIENTS; i++) {
		users[i] = (struct user){.world = &w, .index = i};
		prng_seed(&users[i].prng, 10 + i);
		assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
	}
	/* Whoever changes how many serve may get a processor late. */
	while (enough && (atomic_load(&w.requests) < enough || sum_handed_over(&w) <= enough / 100))
		sched_yield();
	if (enough) {
		atomic_store(&w.is_ending, true);
		kill(getpid(), SIGTERM);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		pthread_join(users[i].thread, NULL);
	if (!enough)
		kill(getpid(), SIGTERM);
	pthread_join(w.running, NULL);
	atomic_store(&w.is_stopping, true);
	pthread_join(toggling, NULL);
	server_sum_counts(w.server, &sum);
	print_message("%llu requests, %llu connections, %llu handed over\n",
		      (unsigned long long)atomic_load(&w.requests),
		      (unsigned long long)atomic_load(&sum.connections_opened),
		      (unsigned long long)sum_handed_over(&w));
	for (unsigned i = 0; i < CLIENTS; i++)
		if (users[i].failure[0])
			print_error("%s\n", users[i].failure);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_int_equal(users[i].failure[0], 0);
	assert_int_equal(atomic_load(&sum.connections_opened),
			 atomic_load(&sum.connections_closed));
	assert_int_equal(atomic_load(&w.server->open_count), 0);
	assert_true(sum_handed_over(&w) > (enough ? enough : batches_wanted) / 100);
	end(&w);
}

static void unix_socket(void **state)
{
	run_world(0, false, 0);
}

static void encrypted(void **state)
{
	run_world(0, true, 0);
}

static void slow_fabric(void **state)
{
	run_world(20000, false, 0);
}

static void told_to_end(void **state)
{
	for (unsigned i = 0; i < 10; i++) {
		uint64_t batches = batches_wanted;

		batches_wanted = UINT64_MAX;
		run_world(i % 2 ? 20000 : 0, i % 4 >= 2, 2000 + 100 * i);
		batches_wanted = batches;
	}
}

static uint64_t sum_wakeups(const struct world *w)
{
	struct serve_counts sum;

	server_sum_counts(w->server, &sum);
	return atomic_load(&sum.wakeups);
}

/* It asks for new keys until its server, whose answers it does not read, takes no more. */
static void ask_for_keys(struct link *l)
{
	SSL *ssl = (SSL *)l->tls;
	unsigned refused = 0, taken = 0;

	assert_int_equal(fcntl(l->fd, F_SETFL, O_NONBLOCK), 0);
	while (tls_handshake(l->tls) && errno == EAGAIN)
		assert_true(await(l, tls_wants_out(l->tls) ? POLLOUT : POLLIN));
	while (refused < 20) {
		struct pollfd p = {.fd = l->fd, .events = POLLOUT};

		SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
		int done = SSL_do_handshake(ssl);

		/* Whoever ends this program by a signal ends the server in it first. */
		if (done != 1 && SSL_get_error(ssl, done) != SSL_ERROR_WANT_WRITE)
			fail_msg("the server has ended");
		taken += done == 1;
		refused = done == 1 ? 0 : refused + (poll(&p, 1, 50) == 0);
	}
	print_message("%u keys asked for\n", taken);
}

/* A connection of which nothing can be read until TLS has sent is not looked at all the time. */
static void keys_that_nobody_reads(void **state)
{
	static struct world w;
	static struct user user;
	struct link *l = user.links, *other = l + 1;
	const uint64_t batches = 500;
	uint64_t before;

	begin(&w, 0, true);
	atomic_store(&w.server->share.serving, 1);
	/* With the segments of a loopback it would be asked for more than twice as many keys. */
	user = (struct user){.world = &w, .segment_bytes = 536};
	prng_seed(&user.prng, 1);
	assert_int_equal(open_link(&user, l), 0);
	assert_int_equal(open_link(&user, other), 0);
	ask_for_keys(l);
	assert_int_equal(batch(&user, other), 0);
	before = sum_wakeups(&w);
	for (uint64_t i = 0; i < batches; i++)
		assert_int_equal(batch(&user, other), 0);
	print_message("%llu wakeups\n", (unsigned long long)(sum_wakeups(&w) - before));
	/* A batch comes in two parts. */
	assert_true(sum_wakeups(&w) - before <= 2 * batches + 10);
	close_link(l);
	close_link(other);
	kill(getpid(), SIGTERM);
	pthread_join(w.running, NULL);
	end(&w);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unix_socket),
	    cmocka_unit_test(encrypted),
	    cmocka_unit_test(slow_fabric),
	    cmocka_unit_test(told_to_end),
	    cmocka_unit_test(keys_that_nobody_reads),
	};

	if (argc > 1 && (parse_u64(argv[1], &batches_wanted) || batches_wanted == 0)) {
		fprintf(stderr, "usage: %s [BATCHES]\n", argv[0]);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
