/*
 * fuzz_wire.c: whatever a client sends to a node, it reaches nothing but the exported bytes.
 *
 * The export lies between pages that nobody may touch, so that a verb one byte outside ends the
 * process.  The first byte of an input says how the rest is sent:
 *
 *   bit 0    behind a hello that is good, for verbs
 *   bit 1    the same for control requests; neither: the input brings its own hello
 *   bit 2    in pieces of a few bytes
 *   bit 3    with the tags that the node expects, as far as the input is made of requests
 *   bit 4    as a client that may only read: then not a byte of the export may change
 *   bit 5    the client goes away when all is sent, without taking its replies
 *
 * Besides: each reply must be one that the protocol knows, a client that behaves goes on being
 * served, and when one is gone nothing of it is left at the node.
 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "fabric/tcp.h"
#include "fabric/tcp_server.h"
#include "fuzz.h"

#define EXPORT_BYTES 65536u
#define GUARD_BYTES  65536u
#define CN_MAX	     7u
#define STREAM_MAX   16384u

/* More replies than this are not taken: the client goes away in the middle. */
#define REPLIES_MAX (1u << 20)

/* Times that another client is served before one that waits. */
#define FELLOWS_FIRST 5u

#define MODE_DATA      0x01u
#define MODE_CONTROL   0x02u
#define MODE_PIECES    0x04u
#define MODE_TAGS      0x08u
#define MODE_READ_ONLY 0x10u
#define MODE_LEAVES    0x20u

static unsigned char *export_mem;
static struct tcp_server *server;
static struct fab *fellow; /* the client that behaves */
static uint64_t clients;   /* the others, so far */
static char path[108];
static _Atomic uint32_t locks[CN_MAX];

/* ---- the node ----------------------------------------------------------------------------- */

/* Each instance has a bit map of its own, by which locks that are left behind are noticed. */
static int node_hold(void *context, void **holder, uint64_t cn)
{
	uint32_t expected = 0;

	if (cn >= CN_MAX)
		return FORGE_E_INVAL;
	if (!*holder)
		*holder = calloc(CN_MAX, 1);
	require(*holder != NULL, "no memory");
	if (!atomic_compare_exchange_strong(&locks[cn], &expected, 1))
		return FORGE_E_AGAIN;
	((unsigned char *)*holder)[cn] = 1;
	return FORGE_OK;
}

static int node_release(void *context, void **holder, uint64_t cn)
{
	unsigned char *held = *holder;

	if (cn >= CN_MAX)
		return FORGE_E_INVAL;
	if (held && held[cn]) {
		held[cn] = 0;
		atomic_store(&locks[cn], 0);
	}
	return FORGE_OK;
}

static int node_hold_all(void *context, void **holder, uint64_t count)
{
	return count <= CN_MAX ? FORGE_E_AGAIN : FORGE_E_INVAL;
}

static int node_is_held(void *context, uint64_t cn)
{
	return cn < CN_MAX ? atomic_load(&locks[cn]) != 0 : FORGE_E_INVAL;
}

static void node_ended(void *context, void **holder)
{
	for (uint64_t cn = 0; cn < CN_MAX; cn++)
		node_release(context, holder, cn);
	free(*holder);
	*holder = NULL;
}

static void stop(void)
{
	fab_close(fellow);
	tcp_server_close(server);
}

static void start(void)
{
	const struct tcp_server_calls calls = {
	    .hold = node_hold,
	    .release = node_release,
	    .hold_all = node_hold_all,
	    .release_all = node_hold_all,
	    .is_held = node_is_held,
	    .ended = node_ended,
	};
	char where[128], error[512];
	const char *list = where;
	struct tcp_server_settings settings = {.listen = &list, .listen_count = 1, .threads = 1};
	struct tcp_settings client = {.where = where, .deadline_ms = 600000};
	struct wire_welcome welcome;
	unsigned char *all = mmap(NULL, EXPORT_BYTES + 2 * GUARD_BYTES, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	require(all != MAP_FAILED, "no memory");
	export_mem = all + GUARD_BYTES;
	require(mprotect(export_mem, EXPORT_BYTES, PROT_READ | PROT_WRITE) == 0, "mprotect");
	snprintf(path, sizeof(path), "/tmp/forge-fuzz-wire-%ld", (long)getpid());
	snprintf(where, sizeof(where), "unix:%s", path);
	require(tcp_server_open(&settings, error, sizeof(error), &server) == 0, error);
	require(tcp_server_start(server, export_mem, EXPORT_BYTES, &calls) == 0, "start");
	tcp_instance(client.instance);
	require(tcp_open(&client, &welcome, error, sizeof(error), &fellow) == 0, error);
	atexit(stop);
}

/* ---- the client --------------------------------------------------------------------------- */

/* How long a request is, by what its head says. */
static size_t request_bytes(const struct wire_request *r)
{
	return sizeof(*r) + (r->code == WIRE_WRITE ? r->len
			     : r->code == WIRE_CAS ? 16
			     : r->code == WIRE_FAA ? 8
						   : 0);
}

static void number(unsigned char *stream, size_t bytes)
{
	struct wire_request r;
	uint16_t tag = 0;

	for (size_t at = 0; at < bytes && bytes - at >= sizeof(r); at += request_bytes(&r)) {
		memcpy(&r, stream + at, sizeof(r));
		r.tag = tag++;
		memcpy(stream + at, &r, sizeof(r));
	}
}

static size_t put_hello(unsigned char *to, unsigned mode)
{
	struct wire_hello h = {
	    .magic = WIRE_MAGIC,
	    .version = WIRE_VERSION,
	    .kind = mode & MODE_CONTROL ? WIRE_CONTROL : WIRE_DATA,
	    .role = mode & MODE_READ_ONLY ? WIRE_READ_ONLY : WIRE_FULL,
	};

	tcp_instance(h.instance);
	memcpy(to, &h, sizeof(h));
	return sizeof(h);
}

/* Replies, taken apart as they come. */
struct replies {
	size_t bytes; /* of all */
	size_t rest;  /* of the data of the one that is being received */
	unsigned char head[8];
	size_t head_bytes;
	int is_welcome; /* steps are over */
};

static void take_head(struct replies *r)
{
	struct wire_reply reply;
	struct wire_step step;

	r->head_bytes = 0;
	if (!r->is_welcome) {
		memcpy(&step, r->head, sizeof(step));
		require(step.step == WIRE_STEP_WELCOME || step.step == WIRE_STEP_REFUSAL ||
			    step.step == WIRE_STEP_CHALLENGE,
			"a step that is none");
		require(step.bytes <= WIRE_STEP_BYTES_MAX, "a step that is too long");
		r->is_welcome = step.step == WIRE_STEP_WELCOME;
		r->rest = step.bytes;
		return;
	}
	memcpy(&reply, r->head, sizeof(reply));
	require((reply.code >= WIRE_READ && reply.code <= WIRE_FAA) ||
		    (reply.code >= WIRE_HOLD && reply.code <= WIRE_PING),
		"a reply to a request that is none");
	require(reply.status <= 0 && (reply.status == 0 || reply.len == 0),
		"a status that is none");
	require(reply.len <= EXPORT_BYTES, "more data than there are");
	r->rest = reply.len;
}

static void take_replies(struct replies *r, const unsigned char *in, size_t bytes)
{
	r->bytes += bytes;
	while (bytes > 0) {
		size_t n;

		if (r->rest > 0) {
			n = (size_t)min_u64(r->rest, bytes);
			r->rest -= n;
		} else {
			n = (size_t)min_u64(sizeof(r->head) - r->head_bytes, bytes);
			memcpy(r->head + r->head_bytes, in, n);
			r->head_bytes += n;
			if (r->head_bytes == sizeof(r->head))
				take_head(r);
		}
		in += n;
		bytes -= n;
	}
}

/* A READ by the client that behaves. */
static void serve_fellow(void)
{
	uint64_t word = 0;
	struct fab_op op = fab_read(FAB_CONTROL, EXPORT_BYTES - 8, &word, 8);
	struct pollfd sleep;

	fab_post(fellow, &op, 1);
	fab_kick(fellow);
	for (fab_poll(fellow); op.status == FAB_PENDING; fab_poll(fellow))
		if (fab_sleep_on(fellow, &sleep))
			poll(&sleep, 1, 5);
	require(op.status == FORGE_OK, "a client that behaves is not served");
}

/*
 * Wait for the node, however long that takes on a busy host: as long as it serves nobody else
 * either.  Who was served between two looks came after this one, whose turn it was meanwhile.
 */
static void wait_for_node(struct pollfd *p)
{
	for (unsigned others = 0; poll(p, 1, 1000) == 0; others++) {
		require(others < FELLOWS_FIRST, "the node does not answer, nor does it close");
		serve_fellow();
	}
}

/* Send all, and take what comes, until the node closes or, with MODE_LEAVES, all is sent. */
static void converse(int fd, const unsigned char *stream, size_t bytes, unsigned mode)
{
	static unsigned char in[65536];
	struct replies replies = {0};
	size_t sent = 0;

	/* Who never says anything is cut off after some seconds, which another test waits for. */
	if (bytes == 0)
		shutdown(fd, SHUT_WR);
	while (replies.bytes < REPLIES_MAX) {
		struct pollfd p = {.fd = fd, .events = sent < bytes ? POLLIN | POLLOUT : POLLIN};

		wait_for_node(&p);
		if (sent < bytes && (p.revents & POLLOUT)) {
			size_t most = mode & MODE_PIECES ? 1 + sent % 11 : bytes - sent;
			ssize_t n = send(fd, stream + sent, (size_t)min_u64(most, bytes - sent),
					 MSG_NOSIGNAL | MSG_DONTWAIT);

			if (n < 0 && errno != EAGAIN)
				break;
			sent += n > 0 ? (size_t)n : 0;
			if (sent == bytes && (mode & MODE_LEAVES))
				return;
			if (sent == bytes)
				shutdown(fd, SHUT_WR);
		}
		ssize_t n = recv(fd, in, sizeof(in), MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			break;
		if (n > 0)
			take_replies(&replies, in, (size_t)n);
	}
}

static int connect_to_node(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	require(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0, "connect");
	clients++;
	return fd;
}

/*
 * The client that behaves is served; and when the other is gone, nothing of it is left.  One that
 * went away at once may not even have come yet, as the node sees it.
 */
static void look_after(void)
{
	struct tcp_server_counts n;

	serve_fellow();
	for (unsigned i = 0;; i++) {
		tcp_server_count(server, &n);
		if (n.connections_total == 1 + clients && n.connections == 1 && n.instances == 1)
			break;
		require(i < 100000, "a connection or an instance is left behind");
		if (i > 100)
			poll(NULL, 0, i > 1000);
	}
	for (unsigned cn = 0; cn < CN_MAX; cn++)
		require(atomic_load(&locks[cn]) == 0, "a lock is left behind");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static unsigned char stream[STREAM_MAX];
	struct input in = {data, data + bytes};
	unsigned mode = take(&in);
	size_t n = 0;
	uint64_t before = 0;

	if (!server)
		start();
	if (mode & (MODE_DATA | MODE_CONTROL))
		n = put_hello(stream, mode);
	size_t room = (size_t)min_u64((uint64_t)(in.end - in.at), sizeof(stream) - n);

	memcpy(stream + n, in.at, room);
	if (mode & MODE_TAGS)
		number(stream + n, room);
	int only_reads = (mode & MODE_READ_ONLY) && (mode & (MODE_DATA | MODE_CONTROL));

	if (only_reads)
		before = hash_key(export_mem, EXPORT_BYTES);
	int fd = connect_to_node();

	converse(fd, stream, n + room, mode);
	close(fd);
	look_after();
	if (only_reads)
		require(hash_key(export_mem, EXPORT_BYTES) == before,
			"a client that may only read has written");
	return 0;
}

/* ---- seeds -------------------------------------------------------------------------------- */

struct writer {
	uint8_t *buf;
	size_t bytes, room;
};

static void put_bytes(struct writer *w, const void *from, size_t n)
{
	if (n > w->room - w->bytes)
		return;
	memcpy(w->buf + w->bytes, from, n);
	w->bytes += n;
}

static void put_request(struct writer *w, uint8_t code, uint8_t flags, uint32_t len, uint64_t raddr)
{
	static const unsigned char payload[64] = "what a WRITE brings, or the words of a CAS";
	const struct wire_request r = {.code = code, .flags = flags, .len = len, .raddr = raddr};
	size_t rest = request_bytes(&r) - sizeof(r);

	put_bytes(w, &r, sizeof(r));
	for (; rest > 0; rest -= min_u64(rest, sizeof(payload)))
		put_bytes(w, payload, (size_t)min_u64(rest, sizeof(payload)));
}

static void put_verbs(struct writer *w)
{
	static const uint64_t places[] = {
	    0, 1, 8, 4095, EXPORT_BYTES - 8, EXPORT_BYTES - 1, EXPORT_BYTES};

	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		put_request(w, WIRE_READ, 0, 8, places[i]);
		put_request(w, WIRE_WRITE, i % 2 ? WIRE_CHAINED : 0, 8 + i, places[i]);
		put_request(w, WIRE_CAS, i % 3 ? 0 : WIRE_DETACHED, 8, places[i] & ~UINT64_C(7));
		put_request(w, WIRE_FAA, 0, 8, places[i]);
	}
}

static void put_edges(struct writer *w)
{
	put_request(w, WIRE_READ, 0, EXPORT_BYTES, 0);
	put_request(w, WIRE_READ, 0, UINT32_MAX, 0);
	put_request(w, WIRE_READ, 0, 0, EXPORT_BYTES);
	put_request(w, WIRE_READ, 0, 16, UINT64_MAX - 7);
	put_request(w, WIRE_WRITE, 0, 0, UINT64_MAX);
	put_request(w, WIRE_WRITE, WIRE_DETACHED, 3000, EXPORT_BYTES - 2999);
	put_request(w, WIRE_WRITE, WIRE_DETACHED, 3000, EXPORT_BYTES - 3000);
	put_request(w, WIRE_CAS, WIRE_CHAINED, 8, EXPORT_BYTES);
	put_request(w, WIRE_FAA, WIRE_CHAINED, 8, 4);
	put_request(w, WIRE_TIME, 0, 0, 0);
	put_request(w, WIRE_PING, 0, 0, 0);
}

static void put_controls(struct writer *w)
{
	for (uint8_t code = WIRE_HOLD; code <= WIRE_PING; code++)
		for (uint64_t cn = 0; cn < 3; cn++)
			put_request(w, code, 0, 0, cn * (CN_MAX / 2));
	put_request(w, WIRE_HOLD, 0, 0, UINT64_MAX);
}

size_t fuzz_seed(unsigned i, uint8_t *buf, size_t room)
{
	static const uint8_t modes[] = {
	    MODE_DATA | MODE_TAGS,
	    MODE_DATA | MODE_TAGS | MODE_PIECES,
	    MODE_DATA | MODE_TAGS | MODE_READ_ONLY,
	    MODE_DATA | MODE_TAGS | MODE_LEAVES,
	    MODE_DATA,
	    MODE_CONTROL | MODE_TAGS,
	    MODE_CONTROL | MODE_TAGS | MODE_PIECES | MODE_READ_ONLY,
	    0,
	};
	struct writer w = {buf, 0, room};

	if (i >= 2 * ARRAY_COUNT(modes))
		return 0;
	uint8_t mode = modes[i / 2];

	put_bytes(&w, &mode, 1);
	if (!(mode & (MODE_DATA | MODE_CONTROL))) {
		unsigned char hello[sizeof(struct wire_hello)];

		put_hello(hello, i % 2 ? MODE_CONTROL : MODE_DATA);
		put_bytes(&w, hello, sizeof(hello));
	}
	if (mode & MODE_CONTROL)
		put_controls(&w);
	else if (i % 2)
		put_edges(&w);
	else
		put_verbs(&w);
	return w.bytes;
}
