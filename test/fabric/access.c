/*
 * Who is let in at a node's socket, and what he may do there: keys right, wrong, unknown, missing
 * and withdrawn; each role at each verb and request; exchanges that are replayed, stripped or
 * forwarded; TLS on one side only; and garbage, which is bounded, slowed down, and keeps nobody
 * else out.  Nothing that is told or logged holds a secret.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/tcp.h"
#include "fabric/tcp_control.h"
#include "fabric/tcp_server.h"
#include "support/secure.h"
#include "under_test.h"

#define EXPORT_BYTES 4096u
#define DEADLINE_MS  20000u

/* ---- a node ------------------------------------------------------------------------------- */

/* All that was logged or told; secrets are looked for in it at the end. */
static char told[1 << 16];
static size_t told_bytes;
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;

static void tell(const char *line)
{
	pthread_mutex_lock(&told_lock);
	int n = snprintf(told + told_bytes, sizeof(told) - told_bytes, "%s\n", line);

	if (n > 0 && (size_t)n < sizeof(told) - told_bytes)
		told_bytes += (size_t)n;
	pthread_mutex_unlock(&told_lock);
}

static void on_log(void *context, enum log_level level, const char *line)
{
	tell(line);
}

struct node {
	struct secure secure;
	struct tcp_server *server;
	_Alignas(64) uint64_t mem[EXPORT_BYTES / 8];
	unsigned held;
};

static int count_hold(void *context, void **holder, uint64_t cn)
{
	struct node *n = context;

	n->held++;
	return 0;
}

static int count_all(void *context, void **holder, uint64_t count)
{
	return count_hold(context, holder, count);
}

static int is_held(void *context, uint64_t cn)
{
	return 1;
}

static void ended(void *context, void **holder)
{
}

static void node_open(struct node *n, const char *where, int security)
{
	const struct tcp_server_settings settings = {.listen = &where, .listen_count = 1};
	struct tcp_server_settings with_door = settings;
	const struct tcp_server_calls calls = {
	    .context = n,
	    .hold = count_hold,
	    .release = count_hold,
	    .hold_all = count_all,
	    .release_all = count_all,
	    .is_held = is_held,
	    .ended = ended,
	};
	char text[512];

	memset(n, 0, sizeof(*n));
	secure_open(&n->secure, security);
	with_door.door = n->secure.door;
	if (tcp_server_open(&with_door, text, sizeof(text), &n->server) ||
	    tcp_server_start(n->server, n->mem, EXPORT_BYTES, &calls))
		fail_msg("%s", text);
}

static void node_close(struct node *n)
{
	tcp_server_close(n->server);
	secure_close(&n->secure);
}

static struct tcp_settings settings_of(const struct node *n, const struct pass *pass, uint8_t role)
{
	struct tcp_settings s = {
	    .where = tcp_server_address(n->server, 0),
	    .role = role,
	    .deadline_ms = DEADLINE_MS,
	    .pass = pass,
	};

	tcp_instance(s.instance);
	return s;
}

/* Connect with these settings; the status, and what was told in text. */
static int dial(const struct tcp_settings *s, struct fab **out, char *text, size_t bytes)
{
	struct wire_welcome w;

	text[0] = '\0';
	int status = tcp_open(s, &w, text, bytes, out);

	tell(text);
	if (!status)
		assert_int_equal(w.role, s->role ? s->role : WIRE_FULL);
	return status;
}

/* Connect with that line of a key, or none; expect the status and, in what is told, the words. */
static void expect_dial(const struct node *n, const char *line, int tls, uint8_t role, int status,
			const char *words)
{
	struct pass *pass = secure_pass(&n->secure, line, tls);
	struct tcp_settings s = settings_of(n, pass, role);
	struct fab *f = NULL;
	char text[512];

	assert_int_equal(dial(&s, &f, text, sizeof(text)), status);
	if (!strstr(text, words))
		fail_msg("no \"%s\" in \"%s\"", words, text);
	fab_close(f);
	pass_close(pass);
}

/* ---- keys --------------------------------------------------------------------------------- */

static void the_right_key_opens_and_no_other(void **state)
{
	static const char *const wheres[] = {"tcp://127.0.0.1:0", "tcp://[::1]:0",
					     "unix:/tmp/forge-access-test"};
	static struct node n;

	for (unsigned i = 0; i < 3; i++) {
		int tls = i == 1;

		node_open(&n, wheres[i], SECURE_KEYS | (tls ? SECURE_TLS : 0));
		expect_dial(&n, SECURE_FULL, tls, WIRE_FULL, FORGE_OK, "");
		expect_dial(&n, "web full 00112233445566778899aabbccddeefe", tls, WIRE_FULL,
			    FORGE_E_DENIED, "does not know this key");
		expect_dial(&n, "wob full 00112233445566778899aabbccddeeff", tls, WIRE_FULL,
			    FORGE_E_DENIED, "does not know this key");
		expect_dial(&n, NULL, tls, WIRE_FULL, FORGE_E_DENIED, "key-file=");
		expect_dial(&n, SECURE_FULL, tls, WIRE_FULL, FORGE_OK, "");
		node_close(&n);
	}
}

static void a_key_is_good_for_its_role_and_less(void **state)
{
	static const char *const lines[] = {SECURE_FULL, SECURE_READ_ONLY, SECURE_METRICS};
	static struct node n;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (uint8_t key = WIRE_FULL; key <= WIRE_METRICS; key++)
		for (uint8_t role = WIRE_FULL; role <= WIRE_METRICS; role++)
			expect_dial(&n, lines[key - 1], 0, role,
				    key <= role ? FORGE_OK : FORGE_E_DENIED,
				    key <= role ? "" : "use a key with that role");
	node_close(&n);
}

/* A line of the client's own file that says more than the node's is not believed. */
static void the_nodes_file_decides_about_roles(void **state)
{
	static struct node n;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	expect_dial(&n, "grafana full 0123456789abcdef0123456789abcdef", 0, WIRE_FULL,
		    FORGE_E_DENIED, "good for the role metrics, and this needs full");
	node_close(&n);
}

static void a_client_with_a_key_wants_a_node_that_asks(void **state)
{
	static struct node n;

	node_open(&n, "tcp://127.0.0.1:0", 0);
	expect_dial(&n, NULL, 0, WIRE_FULL, FORGE_OK, "");
	expect_dial(&n, SECURE_FULL, 0, WIRE_FULL, FORGE_E_DENIED, "asks for no key");
	node_close(&n);
}

static void an_instance_is_its_keys(void **state)
{
	static struct node n;
	struct fab *first = NULL, *second = NULL;
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	struct pass *other = secure_pass(&n.secure, SECURE_METRICS, 0);
	struct tcp_settings s = settings_of(&n, n.secure.pass, WIRE_FULL);

	assert_int_equal(dial(&s, &first, text, sizeof(text)), FORGE_OK);
	/* With its name, which was heard on the way, one could end it. */
	s.pass = other;
	s.role = WIRE_METRICS;
	assert_int_equal(dial(&s, &second, text, sizeof(text)), FORGE_E_DENIED);
	assert_non_null(strstr(text, "another key"));
	s.pass = n.secure.pass;
	assert_int_equal(dial(&s, &second, text, sizeof(text)), FORGE_OK);
	fab_close(first);
	fab_close(second);
	pass_close(other);
	node_close(&n);
}

static int read_word(struct fab *f)
{
	uint64_t word;
	struct fab_op op = fab_read(FAB_DATA, 0, &word, 8);

	run_ops(f, &op, 1);
	return op.status;
}

static void a_key_that_is_withdrawn_ends_its_connections(void **state)
{
	static struct node n;
	struct fab *web = NULL, *reports = NULL;
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	struct pass *pass = secure_pass(&n.secure, SECURE_READ_ONLY, 0);
	struct tcp_settings s = settings_of(&n, n.secure.pass, WIRE_FULL);
	struct tcp_settings r = settings_of(&n, pass, WIRE_READ_ONLY);

	assert_int_equal(dial(&s, &web, text, sizeof(text)), FORGE_OK);
	assert_int_equal(dial(&r, &reports, text, sizeof(text)), FORGE_OK);
	assert_int_equal(tcp_server_recheck(n.server), 0);
	/* A file that is no good changes nothing. */
	secure_write_keys(&n.secure, "nonsense");
	assert_int_not_equal(door_reload(n.secure.door, text, sizeof(text)), 0);
	tell(text);
	assert_int_equal(tcp_server_recheck(n.server), 0);
	assert_int_equal(read_word(web), FORGE_OK);
	secure_write_keys(&n.secure, SECURE_FULL);
	assert_int_equal(door_reload(n.secure.door, text, sizeof(text)), 0);
	assert_int_equal(tcp_server_recheck(n.server), 1);
	assert_int_equal(read_word(reports), FORGE_E_NODE);
	assert_int_equal(read_word(web), FORGE_OK);
	expect_dial(&n, SECURE_READ_ONLY, 0, WIRE_READ_ONLY, FORGE_E_DENIED, "does not know");
	fab_close(web);
	fab_close(reports);
	pass_close(pass);
	node_close(&n);
}

/* ---- roles -------------------------------------------------------------------------------- */

static void each_role_at_each_verb(void **state)
{
	static const char *const lines[] = {SECURE_FULL, SECURE_READ_ONLY, SECURE_METRICS};
	static struct node n;
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (uint8_t role = WIRE_FULL; role <= WIRE_METRICS; role++) {
		struct pass *pass = secure_pass(&n.secure, lines[role - 1], 0);
		struct tcp_settings s = settings_of(&n, pass, role);
		uint64_t word = 0;
		const uint64_t ours = 99;
		struct fab_op ops[] = {
		    fab_read(FAB_DATA, 64, &word, 8),
		    fab_write(FAB_DATA, 64, &ours, 8),
		    fab_cas(FAB_DATA, 72, 0, 7),
		    fab_faa(FAB_DATA, 80, 5),
		};
		struct fab *f = NULL;

		n.mem[8] = 42;
		n.mem[9] = n.mem[10] = 0;
		assert_int_equal(dial(&s, &f, text, sizeof(text)), FORGE_OK);
		for (unsigned i = 0; i < 4; i++) {
			int may = role == WIRE_FULL || (role == WIRE_READ_ONLY && i == 0);

			run_ops(f, &ops[i], 1);
			assert_int_equal(ops[i].status, may ? FORGE_OK : FORGE_E_DENIED);
		}
		/* The connection goes on, and nothing was touched. */
		assert_int_equal(read_word(f), role <= WIRE_READ_ONLY ? FORGE_OK : FORGE_E_DENIED);
		assert_int_equal(word, role <= WIRE_READ_ONLY ? 42 : 0);
		assert_int_equal(n.mem[8], role == WIRE_FULL ? 99 : 42);
		assert_int_equal(n.mem[9], role == WIRE_FULL ? 7 : 0);
		assert_int_equal(n.mem[10], role == WIRE_FULL ? 5 : 0);
		fab_close(f);
		pass_close(pass);
	}
	node_close(&n);
}

static void each_role_at_each_request(void **state)
{
	static const char *const lines[] = {SECURE_FULL, SECURE_READ_ONLY, SECURE_METRICS};
	static const struct {
		enum wire_code code;
		uint8_t least;
	} requests[] = {
	    {WIRE_HOLD, WIRE_FULL},	    {WIRE_RELEASE, WIRE_FULL},
	    {WIRE_HOLD_ALL, WIRE_FULL},	    {WIRE_RELEASE_ALL, WIRE_FULL},
	    {WIRE_IS_HELD, WIRE_READ_ONLY}, {WIRE_TIME, WIRE_METRICS},
	    {WIRE_INFO, WIRE_METRICS},	    {WIRE_STAT, WIRE_METRICS},
	    {WIRE_PING, WIRE_METRICS},
	};
	static struct node n;
	static unsigned char reply[WIRE_STAT_BYTES_MAX];
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (uint8_t role = WIRE_FULL; role <= WIRE_METRICS; role++) {
		struct pass *pass = secure_pass(&n.secure, lines[role - 1], 0);
		struct tcp_settings s = settings_of(&n, pass, role);
		struct wire_welcome w;
		struct tcp_control *c;

		assert_int_equal(tcp_control_open(&s, &w, text, sizeof(text), &c), FORGE_OK);
		n.held = 0;
		for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
			assert_int_equal(
			    tcp_control_call(c, requests[i].code, 0, reply, sizeof(reply), NULL),
			    role <= requests[i].least ? FORGE_OK : FORGE_E_DENIED);
		assert_int_equal(n.held, role == WIRE_FULL ? 4 : 0);
		tcp_control_close(c);
		pass_close(pass);
	}
	node_close(&n);
}

/* ---- TLS ---------------------------------------------------------------------------------- */

static void tls_is_spoken_by_both_or_refused(void **state)
{
	static struct node n;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS | SECURE_TLS);
	expect_dial(&n, SECURE_FULL, 1, WIRE_FULL, FORGE_OK, "");
	/* Nothing is proved in clear, so nobody learns anything of the key. */
	expect_dial(&n, SECURE_FULL, 0, WIRE_FULL, FORGE_E_DENIED, "tls://");
	node_close(&n);
	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	expect_dial(&n, SECURE_FULL, 1, WIRE_FULL, FORGE_E_NODE, "--tls-cert");
	node_close(&n);
}

static void a_node_of_another_authority_is_not_trusted(void **state)
{
	static struct node n, other;
	struct fab *f = NULL;
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS | SECURE_TLS);
	node_open(&other, "tcp://127.0.0.1:0", SECURE_KEYS | SECURE_TLS);
	struct tcp_settings s = settings_of(&n, other.secure.pass, WIRE_FULL);

	assert_int_equal(dial(&s, &f, text, sizeof(text)), FORGE_E_DENIED);
	assert_non_null(strstr(text, "cannot be trusted"));
	assert_non_null(strstr(text, "ca="));
	node_close(&n);
	node_close(&other);
}

/* ---- in between --------------------------------------------------------------------------- */

/* A listening socket on 127.0.0.1, and its name. */
static int listen_local(char *where, size_t bytes)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
	snprintf(where, bytes, "tcp://127.0.0.1:%u", ntohs(a.sin_port));
	return fd;
}

static int connect_raw(const struct node *n)
{
	const char *port = strrchr(tcp_server_address(n->server, 0), ':') + 1;
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr = {htonl(INADDR_LOOPBACK)},
				.sin_port = htons((uint16_t)atoi(port))};
	const struct timeval patience = {.tv_sec = DEADLINE_MS / 1000};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

/* What somebody in between does with a connection; it has a client and a node. */
struct middle {
	const struct node *node;
	int listener;
	/* Copy from the client (0) or the node (1) what changed hands; may change it. */
	void (*change)(struct middle *, int from_node, unsigned char *bytes, size_t count);
	unsigned char client[4096], from_node[4096];
	size_t client_bytes, from_node_bytes;
	int tampered;
};

/* Whatever comes, to the other side, until one ends. */
static void *forward(void *argument)
{
	struct middle *m = argument;
	int fds[2] = {accept(m->listener, NULL, NULL), connect_raw(m->node)};
	struct pollfd polls[2] = {{fds[0], POLLIN, 0}, {fds[1], POLLIN, 0}};
	unsigned char bytes[4096];

	for (int ended_side = 0; !ended_side;) {
		poll(polls, 2, -1);
		for (int i = 0; i < 2 && !ended_side; i++) {
			ssize_t n = polls[i].revents ? read(fds[i], bytes, sizeof(bytes)) : -2;

			if (n == -2)
				continue;
			if (n <= 0) {
				ended_side = 1;
				continue;
			}
			unsigned char *to = i ? m->from_node : m->client;
			size_t *to_bytes = i ? &m->from_node_bytes : &m->client_bytes;

			if (*to_bytes + (size_t)n <= 4096) {
				memcpy(to + *to_bytes, bytes, (size_t)n);
				*to_bytes += (size_t)n;
			}
			if (m->change)
				m->change(m, i, bytes, (size_t)n);
			if (send(fds[1 - i], bytes, (size_t)n, MSG_NOSIGNAL) != n)
				ended_side = 1;
		}
	}
	close(fds[0]);
	close(fds[1]);
	return NULL;
}

/* Let a client come to the node through m, as what; how that ends. */
static int through(struct middle *m, const struct node *n, uint8_t role, char *text, size_t bytes)
{
	char where[64];
	struct tcp_settings s = settings_of(n, n->secure.pass, role);
	struct fab *f = NULL;
	pthread_t thread;

	m->node = n;
	m->listener = listen_local(where, sizeof(where));
	s.where = where;
	assert_int_equal(pthread_create(&thread, NULL, forward, m), 0);
	int status = dial(&s, &f, text, bytes);

	if (!status)
		assert_int_equal(read_word(f), FORGE_OK);
	fab_close(f);
	pthread_join(thread, NULL);
	close(m->listener);
	return status;
}

static void what_was_recorded_is_worth_nothing(void **state)
{
	static struct node n;
	static struct middle m;
	static unsigned char reply[4096];
	char text[512];
	struct wire_step step;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	memset(&m, 0, sizeof(m));
	assert_int_equal(through(&m, &n, WIRE_FULL, text, sizeof(text)), FORGE_OK);
	assert_true(m.client_bytes >= 64 + 8 + sizeof(struct proof_answer));
	/* All that the client said, once more, to the same node. */
	int fd = connect_raw(&n);

	assert_int_equal(send(fd, m.client, m.client_bytes, MSG_NOSIGNAL), m.client_bytes);
	ssize_t got, sum = 0;

	while ((got = recv(fd, reply + sum, sizeof(reply) - (size_t)sum, 0)) > 0)
		sum += got;
	/* Its challenge, then no proof and no welcome, but a refusal and the end. */
	memcpy(&step, reply, sizeof(step));
	assert_int_equal(step.step, WIRE_STEP_CHALLENGE);
	memcpy(&step, reply + sizeof(step) + step.bytes, sizeof(step));
	assert_int_equal(step.step, WIRE_STEP_REFUSAL);
	assert_int_equal(sum, 2 * sizeof(step) + sizeof(struct proof_challenge) + step.bytes);
	close(fd);
	/* And what the node said, to a client with the same key: it does not believe it. */
	char where[64];
	int listener = listen_local(where, sizeof(where));
	struct tcp_settings s = settings_of(&n, n.secure.pass, WIRE_FULL);
	struct fab *f = NULL;

	s.where = where;
	pid_t child = fork();

	if (child == 0) {
		int client = accept(listener, NULL, NULL);

		if (send(client, m.from_node, m.from_node_bytes, MSG_NOSIGNAL) < 0)
			_exit(1);
		while (recv(client, reply, sizeof(reply), 0) > 0)
			continue;
		_exit(0);
	}
	assert_int_equal(dial(&s, &f, text, sizeof(text)), FORGE_E_DENIED);
	assert_non_null(strstr(text, "does not prove"));
	close(listener);
	waitpid(child, NULL, 0);
	node_close(&n);
}

/* The hello's role, on its way to the node: the client asks for less than it gets. */
static void raise_role(struct middle *m, int from_node, unsigned char *bytes, size_t count)
{
	if (from_node || m->tampered)
		return;
	bytes[offsetof(struct wire_hello, role)] = WIRE_FULL;
	m->tampered = 1;
}

/* The welcome's export, on its way to the client. */
static void shrink_export(struct middle *m, int from_node, unsigned char *bytes, size_t count)
{
	size_t at = sizeof(struct wire_step) + sizeof(struct proof_confirm) +
		    sizeof(struct wire_step) + offsetof(struct wire_welcome, export_bytes);

	if (!from_node || count < at + 8 || bytes[0] != WIRE_STEP_PROOF)
		return;
	bytes[at] ^= 8;
	m->tampered = 1;
}

/* The challenge becomes a welcome: no proof is needed, it says. */
static void strip_challenge(struct middle *m, int from_node, unsigned char *bytes, size_t count)
{
	if (!from_node || bytes[0] != WIRE_STEP_CHALLENGE)
		return;
	const struct wire_step step = {.step = WIRE_STEP_WELCOME,
				       .bytes = sizeof(struct proof_challenge)};

	memcpy(bytes, &step, sizeof(step));
	m->tampered = 1;
}

static void who_changes_anything_in_between_is_noticed(void **state)
{
	static const struct {
		void (*change)(struct middle *, int, unsigned char *, size_t);
		int status;
	} changes[] = {
	    {raise_role, FORGE_E_DENIED},
	    {shrink_export, FORGE_E_DENIED},
	    {strip_challenge, FORGE_E_NODE},
	};
	static struct node n;
	static struct middle m;
	char text[512];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		memset(&m, 0, sizeof(m));
		m.change = changes[i].change;
		assert_int_equal(through(&m, &n, WIRE_READ_ONLY, text, sizeof(text)),
				 changes[i].status);
		assert_int_equal(m.tampered, 1);
	}
	node_close(&n);
}

/* A node without the key that welcomes whoever comes. */
static void a_welcome_without_a_challenge_is_refused(void **state)
{
	static struct node n;
	char where[64], text[512];
	int listener = listen_local(where, sizeof(where));
	struct fab *f = NULL;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	struct tcp_settings s = settings_of(&n, n.secure.pass, WIRE_FULL);
	pid_t child = fork();

	s.where = where;
	if (child == 0) {
		struct {
			struct wire_step step;
			struct wire_welcome welcome;
		} message = {{.step = WIRE_STEP_WELCOME, .bytes = sizeof(message.welcome)},
			     {.version = WIRE_VERSION,
			      .kind = WIRE_DATA,
			      .role = WIRE_FULL,
			      .export_bytes = EXPORT_BYTES}};
		int client = accept(listener, NULL, NULL);

		if (send(client, &message, sizeof(message), MSG_NOSIGNAL) < 0)
			_exit(1);
		while (recv(client, text, sizeof(text), 0) > 0)
			continue;
		_exit(0);
	}
	assert_int_equal(dial(&s, &f, text, sizeof(text)), FORGE_E_DENIED);
	assert_non_null(strstr(text, "asks for no key"));
	close(listener);
	waitpid(child, NULL, 0);
	node_close(&n);
}

/* ---- garbage ------------------------------------------------------------------------------ */

/* Read until the end; how much came. */
static size_t read_all(int fd, unsigned char *to, size_t room)
{
	size_t sum = 0;
	ssize_t n;

	while (sum < room && (n = recv(fd, to + sum, room - sum, 0)) > 0)
		sum += (size_t)n;
	return sum;
}

static void fail_by_nonsense(const struct node *n)
{
	unsigned char reply[512];
	int fd = connect_raw(n);

	assert_int_equal(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
	assert_int_equal(read_all(fd, reply, sizeof(reply)), 0);
	close(fd);
}

static void fail_by_proof(const struct node *n)
{
	expect_dial(n, "web full ffffffffffffffffffffffffffffffff", 0, WIRE_FULL, FORGE_E_DENIED,
		    "does not know this key");
}

/*
 * Fail as often as is free at a node that is new; then a good client is told to come back, after
 * somebody who says nothing if there is to be one.  A quarter of a second later it would not be,
 * and a busy host may take longer than that: then once more.
 */
static void open_and_be_turned_away(struct node *n, void (*fail_once)(const struct node *),
				    int somebody_first)
{
	unsigned char reply[512];
	int is_turned_away = 0;

	for (unsigned tries = 0; !is_turned_away; tries++) {
		struct gate_counts counts;

		assert_true(tries < 50);
		if (tries)
			node_close(n);
		node_open(n, "tcp://127.0.0.1:0", SECURE_KEYS);
		for (unsigned i = 0; i < GATE_FAILURES_FREE; i++)
			fail_once(n);
		gate_count(door_gate(n->secure.door), &counts);
		assert_int_equal(counts.failed, GATE_FAILURES_FREE);
		if (somebody_first) {
			int fd = connect_raw(n);
			size_t bytes = read_all(fd, reply, sizeof(reply));

			close(fd);
			if (bytes == 0) /* it was heard, until it had said nothing for too long */
				continue;
			assert_true(bytes > 16);
			assert_int_equal(reply[0], WIRE_STEP_REFUSAL);
		}
		struct pass *pass = secure_pass(&n->secure, SECURE_FULL, 0);
		struct tcp_settings s = settings_of(n, pass, WIRE_FULL);
		struct fab *f = NULL;
		char text[512];
		int status = dial(&s, &f, text, sizeof(text));

		fab_close(f);
		pass_close(pass);
		if (status == FORGE_OK)
			continue;
		assert_int_equal(status, FORGE_E_AGAIN);
		assert_non_null(strstr(text, "too many failures"));
		is_turned_away = 1;
	}
}

static void who_fails_again_and_again_is_turned_away(void **state)
{
	static struct node n;
	struct gate_counts counts;

	open_and_be_turned_away(&n, fail_by_nonsense, 1);
	gate_count(door_gate(n.secure.door), &counts);
	assert_int_equal(counts.turned_away, 2);
	/* When the time is over a good client may come. */
	poll(NULL, 0, GATE_TURNED_AWAY_MS + 10);
	expect_dial(&n, SECURE_FULL, 0, WIRE_FULL, FORGE_OK, "");
	node_close(&n);
}

/* A wrong secret is a failure; a key that is not good for this, or none at all, is not one. */
static void only_wrong_proofs_are_failures(void **state)
{
	static struct node n;
	struct gate_counts counts;

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (unsigned i = 0; i < 2 * GATE_FAILURES_FREE; i++)
		expect_dial(&n, SECURE_METRICS, 0, WIRE_FULL, FORGE_E_DENIED, "good for the role");
	gate_count(door_gate(n.secure.door), &counts);
	assert_int_equal(counts.failed, 0);
	node_close(&n);
	open_and_be_turned_away(&n, fail_by_proof, 0);
	node_close(&n);
}

static void strangers_do_not_take_all_the_room(void **state)
{
	static struct node n;
	struct gate_counts counts;
	struct tcp_server_counts server;
	int fds[2 * SECURE_STRANGERS_MAX];

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	for (unsigned i = 0; i < 2 * SECURE_STRANGERS_MAX; i++)
		fds[i] = connect_raw(&n);
	/* The last was accepted when it was answered or is pending; all but half are closed. */
	do {
		poll(NULL, 0, 1);
		tcp_server_count(n.server, &server);
	} while (server.connections_total < 2 * SECURE_STRANGERS_MAX);
	gate_count(door_gate(n.secure.door), &counts);
	assert_int_equal(counts.pending, SECURE_STRANGERS_MAX / 2);
	assert_int_equal(counts.full, 2 * SECURE_STRANGERS_MAX - SECURE_STRANGERS_MAX / 2);
	for (unsigned i = 0; i < 2 * SECURE_STRANGERS_MAX; i++)
		close(fds[i]);
	/* They said nothing wrong, so nobody is turned away. */
	do {
		poll(NULL, 0, 1);
		gate_count(door_gate(n.secure.door), &counts);
	} while (counts.pending > 0);
	assert_int_equal(counts.failed, 0);
	expect_dial(&n, SECURE_FULL, 0, WIRE_FULL, FORGE_OK, "");
	node_close(&n);
}

/* A hello, then nothing: it costs a place for WIRE_HELLO_MS. */
static void who_is_silent_is_closed(void **state)
{
	static struct node n;
	struct gate_counts counts;
	unsigned char reply[512];
	struct wire_hello hello = {
	    .magic = WIRE_MAGIC, .version = WIRE_VERSION, .kind = WIRE_DATA, .role = WIRE_FULL};
	uint64_t start_ns = clock_now_ns(clock_monotonic());

	node_open(&n, "tcp://127.0.0.1:0", SECURE_KEYS);
	int fd = connect_raw(&n);

	assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	assert_int_equal(read_all(fd, reply, sizeof(reply)),
			 sizeof(struct wire_step) + sizeof(struct proof_challenge));
	assert_true(clock_now_ns(clock_monotonic()) - start_ns >=
		    UINT64_C(1000000) * WIRE_HELLO_MS);
	do {
		poll(NULL, 0, 1);
		gate_count(door_gate(n.secure.door), &counts);
	} while (counts.pending > 0);
	assert_int_equal(counts.failed, 1);
	close(fd);
	node_close(&n);
}

/* Last: after everything else has been told. */
static void no_secret_was_told(void **state)
{
	static const char *const secrets[] = {"00112233445566778899", "ffeeddccbbaa99887766",
					      "0123456789abcdef0123"};

	assert_true(told_bytes > 1000);
	for (unsigned i = 0; i < 3; i++)
		assert_null(strstr(told, secrets[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_right_key_opens_and_no_other),
	    cmocka_unit_test(a_key_is_good_for_its_role_and_less),
	    cmocka_unit_test(the_nodes_file_decides_about_roles),
	    cmocka_unit_test(a_client_with_a_key_wants_a_node_that_asks),
	    cmocka_unit_test(an_instance_is_its_keys),
	    cmocka_unit_test(a_key_that_is_withdrawn_ends_its_connections),
	    cmocka_unit_test(each_role_at_each_verb),
	    cmocka_unit_test(each_role_at_each_request),
	    cmocka_unit_test(tls_is_spoken_by_both_or_refused),
	    cmocka_unit_test(a_node_of_another_authority_is_not_trusted),
	    cmocka_unit_test(what_was_recorded_is_worth_nothing),
	    cmocka_unit_test(who_changes_anything_in_between_is_noticed),
	    cmocka_unit_test(a_welcome_without_a_challenge_is_refused),
	    cmocka_unit_test(who_fails_again_and_again_is_turned_away),
	    cmocka_unit_test(only_wrong_proofs_are_failures),
	    cmocka_unit_test(strangers_do_not_take_all_the_room),
	    cmocka_unit_test(who_is_silent_is_closed),
	    cmocka_unit_test(no_secret_was_told),
	};

	log_set_level(LOG_DEBUG);
	log_set_hook(on_log, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
