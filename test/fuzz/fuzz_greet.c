/*
 * fuzz_greet.c: who knows no key is never welcome, whatever is said, in either direction.
 *
 * The first byte of an input says who says the rest:
 *
 *   0  a client, to a node that asks for keys
 *   1  the same behind a good hello, so that it is the answer to a challenge
 *   2  the same behind the head of an answer, and as long as one
 *   3  a node, to a client that has a key
 *   4  the same behind a good challenge, to which the client answers
 *   5  nobody: it is a file of keys
 *
 * A node must send no proof and no welcome and go on serving who has the key; a client must not
 * accept the node; a file must be taken or refused in words that repeat nothing of it.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/door.h"
#include "access/pass.h"
#include "base/compiler.h"
#include "fabric/tcp.h"
#include "fabric/tcp_server.h"
#include "fuzz.h"

#define KEY_PIECE   "00112233"
#define KEY	    "web full " KEY_PIECE "445566778899aabbccddeeff"
#define STREAM_MAX  16384u
#define DEADLINE_MS 40u
/* As much of a line as would give a secret away. */
#define SECRET_PIECE 12u

enum mode { SAID_RAW, SAID_PROOF, SAID_ANSWER, NODE_RAW, NODE_CHALLENGED, KEY_FILE, MODES };

static _Alignas(64) uint64_t mem[64];
static struct tcp_server *server;
static struct door *door;
static struct pass *pass;
static char node_path[64], fake_path[72];
static int fake_listener;

static int listen_on(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	unlink(path);
	require(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 4) == 0,
		"there is no socket to listen on");
	return fd;
}

static void clean_up(void)
{
	unlink(node_path);
	unlink(fake_path);
}

static void set_up(void)
{
	char key_path[72], where[120], text[256];
	const char *listen = where;
	const struct tcp_server_calls calls = {0};

	snprintf(node_path, sizeof(node_path), "/tmp/forge-fuzz-greet-%ld", (long)getpid());
	snprintf(fake_path, sizeof(fake_path), "%s-fake", node_path);
	snprintf(key_path, sizeof(key_path), "%s-keys", node_path);
	snprintf(where, sizeof(where), "unix:%s", node_path);
	FILE *f = fopen(key_path, "w");

	require(f && fchmod(fileno(f), 0600) == 0 && fputs(KEY "\n", f) >= 0 && fclose(f) == 0,
		"no key file can be written");
	const struct door_wish wish = {.key_file = key_path, .strangers_max = 64};
	const struct pass_wish shown = {.key_line = KEY};

	require(door_open(&wish, &door, text, sizeof(text)) == 0, text);
	require(pass_open(&shown, &pass, text, sizeof(text)) == 0, text);
	unlink(key_path);
	const struct tcp_server_settings settings = {
	    .listen = &listen, .listen_count = 1, .door = door};

	require(tcp_server_open(&settings, text, sizeof(text), &server) == 0, text);
	require(tcp_server_start(server, mem, sizeof(mem), &calls) == 0, "no thread to serve");
	fake_listener = listen_on(fake_path);
	atexit(clean_up);
}

/* ---- to a node ---------------------------------------------------------------------------- */

static int connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	require(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "the node is gone");
	return fd;
}

/* A node that takes bytes no more closes: what is left to send then is nobody's. */
static void send_all(int fd, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;
	ssize_t n;

	while (count > 0 && (n = send(fd, at, count, MSG_NOSIGNAL)) > 0) {
		at += n;
		count -= (size_t)n;
	}
}

static struct wire_hello good_hello(void)
{
	return (struct wire_hello){.magic = WIRE_MAGIC,
				   .version = WIRE_VERSION,
				   .kind = WIRE_DATA,
				   .role = WIRE_METRICS,
				   .instance = {1}};
}

/* Nothing but challenges and refusals. */
static void expect_no_welcome(int fd)
{
	static uint8_t reply[STREAM_MAX];
	size_t sum = 0, at = 0;
	ssize_t n;
	struct wire_step step;

	while (sum < sizeof(reply) && (n = recv(fd, reply + sum, sizeof(reply) - sum, 0)) > 0)
		sum += (size_t)n;
	for (; sum - at >= sizeof(step); at += sizeof(step) + step.bytes) {
		memcpy(&step, reply + at, sizeof(step));
		require(step.step == WIRE_STEP_CHALLENGE || step.step == WIRE_STEP_REFUSAL,
			"the node welcomes who knows no key");
		require(step.bytes <= sum - at - sizeof(step), "the node sends half a step");
	}
	require(at == sum, "the node sends half a step");
}

static void say_to_node(enum mode mode, const uint8_t *data, size_t bytes)
{
	const struct wire_hello hello = good_hello();
	const struct wire_step step = {.step = WIRE_STEP_PROOF,
				       .bytes = sizeof(struct proof_answer)};
	uint8_t answer[sizeof(struct proof_answer)] = {PROOF_METHOD_HMAC_SHA256};
	int fd = connect_to(node_path);

	if (mode != SAID_RAW)
		send_all(fd, &hello, sizeof(hello));
	if (mode == SAID_ANSWER) {
		memcpy(answer + 1, data, min_u64(bytes, sizeof(answer) - 1));
		send_all(fd, &step, sizeof(step));
		send_all(fd, answer, sizeof(answer));
	} else {
		send_all(fd, data, bytes);
	}
	shutdown(fd, SHUT_WR);
	expect_no_welcome(fd);
	close(fd);
}

/* Who has the key is welcome all the time. */
static void expect_served(void)
{
	char where[120], text[256];
	struct tcp_settings s = {.where = where, .deadline_ms = 20000, .pass = pass};
	struct wire_welcome w;
	struct fab *f;

	snprintf(where, sizeof(where), "unix:%s", node_path);
	tcp_instance(s.instance);
	require(tcp_open(&s, &w, text, sizeof(text), &f) == 0, text);
	fab_close(f);
}

/* ---- to a client -------------------------------------------------------------------------- */

struct speech {
	enum mode mode;
	const uint8_t *data;
	size_t bytes;
};

static void *play_node(void *argument)
{
	const struct speech *s = argument;
	const struct {
		struct wire_step step;
		struct proof_challenge challenge;
	} asked = {{.step = WIRE_STEP_CHALLENGE, .bytes = sizeof(asked.challenge)},
		   {.method = PROOF_METHOD_HMAC_SHA256}};
	int fd = accept(fake_listener, NULL, NULL);
	uint8_t ignored[256];

	if (s->mode == NODE_CHALLENGED)
		send_all(fd, &asked, sizeof(asked));
	send_all(fd, s->data, s->bytes);
	shutdown(fd, SHUT_WR);
	while (recv(fd, ignored, sizeof(ignored), 0) > 0)
		continue;
	close(fd);
	return NULL;
}

/* Over a Unix socket who asks for no key may be believed; who asks must prove that he knows it. */
static void say_to_client(const struct speech *s)
{
	char where[120], text[512] = "";
	struct tcp_settings settings = {.where = where, .deadline_ms = DEADLINE_MS, .pass = pass};
	struct wire_welcome w;
	struct fab *f = NULL;
	pthread_t thread;

	snprintf(where, sizeof(where), "unix:%s", fake_path);
	tcp_instance(settings.instance);
	require(pthread_create(&thread, NULL, play_node, (void *)(uintptr_t)s) == 0, "no thread");
	int status = tcp_open(&settings, &w, text, sizeof(text), &f);

	require(status || s->mode == NODE_RAW, "the client believes a node that knows no key");
	/* A refusal is repeated with the node's own words, which may be these. */
	require(!strstr(text, KEY_PIECE) || memmem(s->data, s->bytes, KEY_PIECE, strlen(KEY_PIECE)),
		"the client tells its secret");
	fab_close(f);
	pthread_join(thread, NULL);
}

/* ---- key files ---------------------------------------------------------------------------- */

static void read_keys(const uint8_t *data, size_t bytes)
{
	static char file[STREAM_MAX + 1];
	char text[512] = "";
	struct keys *keys;

	memcpy(file, data, bytes);
	file[bytes] = '\0';
	int status = keys_open_text(file, "the file", &keys, text, sizeof(text));

	require(status == 0 || status == FORGE_E_FORMAT, "a file of keys gives another error");
	if (status == 0) {
		require(keys_count(keys) > 0, "a file without a key is taken");
		keys_close(keys);
		return;
	}
	for (char *at = file; strlen(at) >= SECRET_PIECE; at++) {
		char piece[SECRET_PIECE + 1];

		memcpy(piece, at, SECRET_PIECE);
		piece[SECRET_PIECE] = '\0';
		require(strspn(piece, "0123456789abcdefABCDEF") < SECRET_PIECE ||
			    !strstr(text, piece),
			"an error repeats what may be a secret");
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (!server)
		set_up();
	if (bytes < 1 || bytes > STREAM_MAX)
		return 0;
	enum mode mode = data[0] % MODES;
	const struct speech speech = {mode, data + 1, bytes - 1};

	if (mode <= SAID_ANSWER) {
		say_to_node(mode, data + 1, bytes - 1);
		expect_served();
	} else if (mode == KEY_FILE) {
		read_keys(data + 1, bytes - 1);
	} else {
		say_to_client(&speech);
	}
	return 0;
}

/* ---- seeds -------------------------------------------------------------------------------- */

static size_t put(uint8_t *buf, size_t at, const void *bytes, size_t count)
{
	memcpy(buf + at, bytes, count);
	return at + count;
}

/* What an honest exchange looks like, of each mode. */
size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	const struct wire_hello hello = good_hello();
	const struct wire_step proof = {.step = WIRE_STEP_PROOF,
					.bytes = sizeof(struct proof_answer)};
	const struct wire_step confirm = {.step = WIRE_STEP_PROOF,
					  .bytes = sizeof(struct proof_confirm)};
	const struct wire_step welcome = {.step = WIRE_STEP_WELCOME,
					  .bytes = sizeof(struct wire_welcome)};
	const struct proof_answer answer = {.method = PROOF_METHOD_HMAC_SHA256, .name = "web"};
	const struct proof_confirm confirmed = {.method = PROOF_METHOD_HMAC_SHA256};
	const struct wire_welcome w = {
	    .version = WIRE_VERSION, .kind = WIRE_DATA, .role = WIRE_FULL, .export_bytes = 512};
	static const char keys[] =
	    "# keys\n" KEY "\nreports read-only ffeeddccbbaa99887766554433\n";
	size_t n = 1;

	buf[0] = (uint8_t)i;
	switch (i) {
	case SAID_RAW:
		n = put(buf, n, &hello, sizeof(hello));
		n = put(buf, n, &proof, sizeof(proof));
		return put(buf, n, &answer, sizeof(answer));
	case SAID_PROOF:
		n = put(buf, n, &proof, sizeof(proof));
		return put(buf, n, &answer, sizeof(answer));
	case SAID_ANSWER:
		return put(buf, n, (const uint8_t *)&answer + 1, sizeof(answer) - 1);
	case NODE_RAW:
	case NODE_CHALLENGED:
		n = put(buf, n, &confirm, sizeof(confirm));
		n = put(buf, n, &confirmed, sizeof(confirmed));
		n = put(buf, n, &welcome, sizeof(welcome));
		return put(buf, n, &w, sizeof(w));
	case KEY_FILE:
		return put(buf, n, keys, sizeof(keys) - 1);
	default:
		return 0;
	}
}
