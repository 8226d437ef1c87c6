/*
 * fuzz_node.c: whatever a node answers, a client neither crashes nor waits nor writes elsewhere.
 *
 * A thread plays the node: it takes the hello and answers with the input.  The client's buffers end
 * where pages begin that nobody may touch.  The first byte of an input says how the rest is sent:
 *
 *   bit 0    behind a welcome that is good; otherwise the input brings its own steps
 *   bit 1    with codes, tags and lengths that the client expects, as far as there is room
 *   bit 2    in two pieces
 *   bit 3    the connection stays open when all is sent
 *
 * Every op must complete, with success, a status of the node or FORGE_E_NODE; control requests,
 * too.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/tcp_control.h"
#include "fuzz.h"

#define EXPORT_BYTES 65536u
#define PAGE_BYTES   4096u
#define STREAM_MAX   16384u
#define DEADLINE_MS  30u

#define MODE_WELCOME 0x01u
#define MODE_FITS    0x02u
#define MODE_PIECES  0x04u
#define MODE_STAYS   0x08u

static char where[128];
static int listener;
static unsigned char *buffer_end; /* of PAGE_BYTES that may be touched */

/* What the node says to who comes next. */
static unsigned char answer[STREAM_MAX];
static size_t answer_bytes;
static unsigned answer_mode;

static void send_all(int fd, const unsigned char *bytes, size_t count)
{
	while (count > 0) {
		ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);

		if (n <= 0)
			return;
		bytes += n;
		count -= (size_t)n;
	}
}

static void *play_node(void *argument)
{
	static unsigned char in[65536];

	for (;;) {
		int fd = accept(listener, NULL, NULL);

		require(fd >= 0, "accept");
		if (recv(fd, in, sizeof(struct wire_hello), MSG_WAITALL) > 0) {
			size_t first = answer_mode & MODE_PIECES ? answer_bytes / 2 : 0;

			send_all(fd, answer, first);
			send_all(fd, answer + first, answer_bytes - first);
			if (!(answer_mode & MODE_STAYS))
				shutdown(fd, SHUT_WR);
			while (recv(fd, in, sizeof(in), 0) > 0)
				;
		}
		close(fd);
	}
	return NULL;
}

static void stop(void)
{
	unlink(where + strlen("unix:"));
}

static void start(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	unsigned char *all =
	    mmap(NULL, 2 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	require(all != MAP_FAILED && mprotect(all, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0,
		"no memory");
	buffer_end = all + PAGE_BYTES;
	snprintf(a.sun_path, sizeof(a.sun_path), "/tmp/forge-fuzz-node-%ld", (long)getpid());
	snprintf(where, sizeof(where), "unix:%s", a.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	require(listener >= 0 && bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0 &&
		    listen(listener, 16) == 0,
		"listen");
	atexit(stop);
	require(pthread_create(&thread, NULL, play_node, NULL) == 0, "pthread_create");
}

/* ---- what the client does ----------------------------------------------------------------- */

#define OPS 8u

/* As long as a page, or ending where it ends. */
static void make_ops(struct fab_op ops[OPS])
{
	ops[0] = fab_read(FAB_DATA, 0, buffer_end - 8, 8);
	ops[1] = fab_read(FAB_DATA, 8, buffer_end - PAGE_BYTES, PAGE_BYTES);
	ops[2] = fab_cas(FAB_DATA, 16, 1, 2);
	ops[3] = fab_write(FAB_DATA, 24, buffer_end - 3000, 3000);
	ops[4] = fab_faa(FAB_DATA, 32, 1);
	ops[5] = fab_read(FAB_DATA, 40, buffer_end, 0);
	ops[6] = fab_read(FAB_DATA, 48, buffer_end - 1, 1);
	ops[7] = fab_write(FAB_DATA, 56, buffer_end - 1, 1);
}

static uint32_t reply_len(const struct fab_op *op)
{
	return op->code == FAB_READ ? op->len : op->code == FAB_WRITE ? 0 : 8;
}

static void run_verbs(struct fab *f)
{
	struct fab_op ops[OPS];
	struct pollfd sleep;

	make_ops(ops);
	fab_post(f, ops, OPS / 2);
	fab_post(f, ops + OPS / 2, OPS / 2);
	fab_kick(f);
	for (unsigned i = 0; i < OPS; i++) {
		while (ops[i].status == FAB_PENDING) {
			fab_poll(f);
			if (ops[i].status == FAB_PENDING && fab_sleep_on(f, &sleep))
				poll(&sleep, 1, 5);
		}
		require(ops[i].status <= 0, "a status that is none");
	}
	fab_close(f);
}

static void run_control(struct tcp_control *c)
{
	unsigned char *stat = buffer_end - 100;
	size_t bytes = 0;

	for (unsigned code = WIRE_HOLD; code <= WIRE_PING; code++)
		require(tcp_control_call(c, (enum wire_code)code, 1, stat, 100, &bytes) <= 0,
			"a status that is none");
	tcp_control_close(c);
}

/* ---- what the node says ------------------------------------------------------------------- */

static void put(const void *bytes, size_t count)
{
	count = (size_t)min_u64(count, sizeof(answer) - answer_bytes);
	memcpy(answer + answer_bytes, bytes, count);
	answer_bytes += count;
}

static void put_welcome(unsigned kind)
{
	const struct wire_step step = {.step = WIRE_STEP_WELCOME,
				       .bytes = sizeof(struct wire_welcome)};
	const struct wire_welcome w = {.version = WIRE_VERSION,
				       .kind = (uint8_t)kind,
				       .role = WIRE_FULL,
				       .export_bytes = EXPORT_BYTES};

	put(&step, sizeof(step));
	put(&w, sizeof(w));
}

/* Replies to the ops; the input says which fail, and what data they bring. */
static void put_fitting(struct input *in)
{
	struct fab_op ops[OPS];

	make_ops(ops);
	for (unsigned i = 0; i < OPS; i++) {
		struct wire_reply r = {.code = (uint8_t)(ops[i].code + WIRE_READ),
				       .status = (int8_t)take(in),
				       .tag = (uint16_t)i,
				       .len = reply_len(&ops[i])};
		unsigned char fill[PAGE_BYTES];

		if (r.status > 0)
			r.status = 0;
		if (r.status)
			r.len = 0;
		put(&r, sizeof(r));
		memset(fill, take(in), sizeof(fill));
		put(fill, r.len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct tcp_settings s = {.where = where, .deadline_ms = DEADLINE_MS};
	struct input in = {data, data + bytes};
	struct wire_welcome welcome;
	char error[512];

	if (!where[0])
		start();
	tcp_instance(s.instance);
	answer_mode = take(&in);
	for (unsigned kind = WIRE_DATA; kind <= WIRE_CONTROL; kind++) {
		struct input rest = in;
		struct tcp_control *c = NULL;
		struct fab *f = NULL;

		/* Nobody is connected, so the thread looks at none of it. */
		answer_bytes = 0;
		if (answer_mode & MODE_WELCOME)
			put_welcome(kind);
		if ((answer_mode & MODE_FITS) && kind == WIRE_DATA)
			put_fitting(&rest);
		put(rest.at, (size_t)(rest.end - rest.at));
		error[0] = '\0';
		int status = kind == WIRE_DATA
				 ? tcp_open(&s, &welcome, error, sizeof(error), &f)
				 : tcp_control_open(&s, &welcome, error, sizeof(error), &c);

		require(status <= 0 && (status == 0) == (f || c), "a status that is none");
		require(status == 0 || error[0], "a refusal without a sentence");
		if (f)
			run_verbs(f);
		if (c)
			run_control(c);
	}
	return 0;
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	static const uint8_t modes[] = {MODE_WELCOME | MODE_FITS,
					MODE_WELCOME | MODE_FITS | MODE_PIECES,
					MODE_WELCOME,
					MODE_WELCOME | MODE_STAYS,
					0,
					MODE_PIECES};
	static const struct wire_reply replies[] = {
	    {.code = WIRE_READ, .len = 8},
	    {.code = WIRE_HOLD},
	    {.code = WIRE_HOLD, .status = FORGE_E_AGAIN},
	    {.code = WIRE_READ, .status = -21},
	};

	if (i >= 2 * ARRAY_COUNT(modes) || room < 1000)
		return 0;
	buf[0] = modes[i / 2];
	answer_bytes = 0;
	if (!(buf[0] & MODE_WELCOME)) {
		put_welcome(1 + i % 2);
		if (i % 2)
			answer[0] = WIRE_STEP_REFUSAL;
	} else if (!(buf[0] & MODE_FITS)) {
		put(&replies[i % ARRAY_COUNT(replies)], sizeof(replies[0]));
	}
	put("data of a READ, which may be some more", 38);
	memcpy(buf + 1, answer, answer_bytes);
	return answer_bytes + 1;
}
