/*
 * serve_load.c: a load of Gets or Sets on any server that speaks memcached's protocol or Redis's.
 *
 *	serve_load --connect PLACE --protocol text|meta|redis --op get|set --connections N
 *		   --depth N --keys N --value-bytes N --seconds S --pid PID[,PID] --load
 *
 * Closed loop on one thread: each connection sends a batch of `depth` requests, or with --multi
 * one request for so many keys, reads all replies, and sends the next.  --load sets every key
 * once and ends.  Neutral: the same bytes and the same work whatever the server, keys drawn by
 * the same generator from the same seed.  Prints one line of JSON: requests (keys) a second,
 * hits, the latency of batches, and the processor time that the server's processes and this one
 * took, from the scheduler's nanosecond counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/hist.h"
#include "base/opts.h"
#include "base/prng.h"

#define READ_BYTES (256u << 10)

struct config {
	const char *connect, *pid;
	unsigned protocol, op;
	uint64_t connections, depth, multi, keys, value_bytes, us, seed;
	bool load;
};

enum { TEXT, META, REDIS };
enum { GET, SET };

static const struct opt options[] = {
    OPT_STRING(struct config, connect, "connect", 0, NULL, "PLACE",
	       "A Unix socket's path, or a TCP port of this host."),
    OPT_STRING(struct config, pid, "pid", 0, NULL, "PID,...", "The server's processes."),
    OPT_CHOICE(struct config, protocol, "protocol", 0, "text", "text|meta|redis", "Protocol."),
    OPT_CHOICE(struct config, op, "op", 0, "get", "get|set", "What to do."),
    OPT_U64(struct config, connections, "connections", 0, "1", "connections", 1, 10000,
	    "Connections."),
    OPT_U64(struct config, depth, "depth", 0, "1", "requests", 1, 1000, "Requests in a batch."),
    OPT_U64(struct config, multi, "multi", 0, "0", "keys", 0, 1000, "Keys of one Get, 0: one."),
    OPT_U64(struct config, keys, "keys", 0, "100000", "keys", 1, 100000000, "Different keys."),
    OPT_BYTES(struct config, value_bytes, "value-bytes", 0, "100", "SIZE", 1, 1000000, "Value."),
    OPT_DURATION(struct config, us, "seconds", 0, "1s", "TIME", 0, 0, "How long."),
    OPT_U64(struct config, seed, "seed", 0, "1", "NUMBER", 0, 0, "Of the keys."),
    OPT_FLAG(struct config, load, "load", 0, "Set every key once, and end."),
};

static const struct opts_table table = {
    .command = "serve_load",
    .sentence = "Put load on a server.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
};

struct conn {
	int fd;
	uint64_t sent_ns;
	uint64_t waiting; /* replies to come */
	char *held;	  /* a line or block that is not whole */
	size_t held_bytes;
};

struct load {
	struct config config;
	struct prng prng;
	struct conn *conns;
	int epoll;
	char *out, *in, *value;
	size_t out_bytes;
	uint64_t next_key; /* of --load */
	uint64_t done, hits;
	struct hist batch_ns;
};

static void fail(const char *what)
{
	fprintf(stderr, "serve_load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
	exit(2);
}

/* ---- requests ----------------------------------------------------------------------------- */

static void put(struct load *l, const char *data, size_t bytes)
{
	memcpy(l->out + l->out_bytes, data, bytes);
	l->out_bytes += bytes;
}

#define KEY_BYTES 16

static void put_key(struct load *l)
{
	char key[KEY_BYTES] = "key-";
	uint64_t n =
	    l->config.load ? l->next_key++ % l->config.keys : prng_below(&l->prng, l->config.keys);

	for (unsigned at = KEY_BYTES; at-- > 4; n /= 10)
		key[at] = (char)('0' + n % 10);
	put(l, key, KEY_BYTES);
}

#define PUT(text) put(l, text, sizeof(text) - 1)

static void put_get(struct load *l, uint64_t keys)
{
	char head[64];

	switch (l->config.protocol) {
	case TEXT:
		PUT("get");
		for (uint64_t i = 0; i < keys; i++) {
			PUT(" ");
			put_key(l);
		}
		PUT("\r\n");
		break;
	case META:
		/* Memcached has no multi-get in meta: a pipeline is one. */
		for (uint64_t i = 0; i < keys; i++) {
			PUT("mg ");
			put_key(l);
			PUT(" v\r\n");
		}
		break;
	default:
		put(l, head,
		    (size_t)snprintf(head, sizeof(head), "*%" PRIu64 "\r\n$%d\r\n%s\r\n", keys + 1,
				     keys > 1 ? 4 : 3, keys > 1 ? "MGET" : "GET"));
		for (uint64_t i = 0; i < keys; i++) {
			PUT("$16\r\n");
			put_key(l);
			PUT("\r\n");
		}
		break;
	}
}

static void put_set(struct load *l)
{
	char head[64];
	uint64_t bytes = l->config.value_bytes;

	switch (l->config.protocol) {
	case TEXT:
		PUT("set ");
		put_key(l);
		put(l, head, (size_t)snprintf(head, sizeof(head), " 0 0 %" PRIu64 "\r\n", bytes));
		break;
	case META:
		PUT("ms ");
		put_key(l);
		put(l, head, (size_t)snprintf(head, sizeof(head), " %" PRIu64 "\r\n", bytes));
		break;
	default:
		PUT("*3\r\n$3\r\nSET\r\n$16\r\n");
		put_key(l);
		put(l, head, (size_t)snprintf(head, sizeof(head), "\r\n$%" PRIu64 "\r\n", bytes));
		break;
	}
	put(l, l->value, bytes);
	PUT("\r\n");
}

static void send_batch(struct load *l, struct conn *c)
{
	const struct config *o = &l->config;
	uint64_t keys = o->multi ? o->multi : 1;

	l->out_bytes = 0;
	for (uint64_t i = 0; i < o->depth; i++) {
		if (o->op == SET)
			put_set(l);
		else
			put_get(l, keys);
	}
	/* A line of text answers all its keys at once, and so does an MGET. */
	c->waiting = o->depth * (o->op == GET && o->protocol == META ? keys : 1);
	c->sent_ns = clock_now_ns(clock_monotonic());
	for (size_t at = 0; at < l->out_bytes;) {
		ssize_t n = send(c->fd, l->out + at, l->out_bytes - at, MSG_NOSIGNAL);

		if (n < 0)
			fail("send");
		at += (size_t)n;
	}
}

/* ---- replies ------------------------------------------------------------------------------ */

/* Where the length of a value stands: behind the code, or at the end of the line. */
static const char *length_of(const char *data, size_t line)
{
	const char *at = data + 3;

	if (data[2] != ' ')
		for (const char *c = data; c < data + line; c++)
			if (*c == ' ')
				at = c + 1;
	return at;
}

/* How many bytes the reply that begins here has; 0 if it is not whole.  *ends: of a request. */
static size_t reply_bytes(struct load *l, const char *data, size_t bytes, bool *ends)
{
	const char *feed = memchr(data, '\n', bytes);
	size_t line, block = 0;

	if (!feed)
		return 0;
	line = (size_t)(feed - data) + 1;
	*ends = true;
	switch (data[0]) {
	case 'V': /* VALUE key flags bytes, VA bytes */
		block = strtoul(length_of(data, line), NULL, 10) + 2;
		*ends = data[2] == ' ';
		l->hits++;
		break;
	case '$':
		if (data[1] == '-')
			break;
		block = strtoul(data + 1, NULL, 10) + 2;
		l->hits++;
		break;
	case '*': { /* MGET: bulk strings, all of which must be here */
		uint64_t parts = strtoul(data + 1, NULL, 10), hits = l->hits;
		size_t at = line;

		for (uint64_t i = 0; i < parts; i++) {
			bool ignored;
			size_t part =
			    at < bytes ? reply_bytes(l, data + at, bytes - at, &ignored) : 0;

			if (!part) {
				l->hits = hits;
				return 0;
			}
			at += part;
		}
		return at;
	}
	case 'E': /* END, EN; but ERROR */
		if (data[1] == 'N')
			break;
		/* fall through */
	case 'C':
	case '-':
		fprintf(stderr, "serve_load: the server says %.*s", (int)line, data);
		exit(2);
	case 'S': /* STORED; but SERVER_ERROR */
		if (data[1] == 'T')
			break;
		fprintf(stderr, "serve_load: the server says %.*s", (int)line, data);
		exit(2);
	case 'H': /* HD */
	case '+':
		break;
	default:
		errno = 0;
		fail("a reply");
	}
	if (line + block <= bytes)
		return line + block;
	if (block)
		l->hits--;
	return 0;
}

/* The batch is answered. */
static bool finish(struct load *l, struct conn *c)
{
	const struct config *o = &l->config;
	uint64_t now_ns = clock_now_ns(clock_monotonic());

	hist_record(&l->batch_ns, now_ns - c->sent_ns);
	l->done += o->depth * (o->op == GET && o->multi ? o->multi : 1);
	return true;
}

/* Read once.  Is the batch answered? */
static bool receive(struct load *l, struct conn *c)
{
	size_t at = 0, bytes;
	ssize_t n;

	memcpy(l->in, c->held, c->held_bytes);
	n = recv(c->fd, l->in + c->held_bytes, READ_BYTES - c->held_bytes, 0);
	if (n <= 0)
		fail("the server closed a connection");
	bytes = c->held_bytes + (size_t)n;
	while (at < bytes && c->waiting) {
		bool ends;
		size_t reply = reply_bytes(l, l->in + at, bytes - at, &ends);

		if (!reply)
			break;
		at += reply;
		c->waiting -= ends;
	}
	c->held_bytes = bytes - at;
	memcpy(c->held, l->in + at, c->held_bytes);
	return c->waiting == 0 && finish(l, c);
}

/* ---- processor time ----------------------------------------------------------------------- */

/* Nanoseconds that all threads of a process ran. */
static uint64_t ran_ns(const char *pid)
{
	char path[300];
	uint64_t sum = 0;
	struct dirent *entry;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%s/task", pid);
	d = opendir(path);
	if (!d)
		fail(path);
	while ((entry = readdir(d))) {
		uint64_t ns = 0;
		FILE *f;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/task/%.20s/schedstat", pid,
			 entry->d_name);
		f = fopen(path, "r");
		if (!f)
			continue;
		if (fscanf(f, "%" SCNu64, &ns) == 1)
			sum += ns;
		fclose(f);
	}
	closedir(d);
	return sum;
}

static uint64_t ran_all_ns(const char *pids)
{
	char list[256], *rest = list, *pid;
	uint64_t sum = 0;

	snprintf(list, sizeof(list), "%s", pids ? pids : "");
	while ((pid = strsep(&rest, ",")))
		if (*pid)
			sum += ran_ns(pid);
	return sum;
}

/* ---- the run ------------------------------------------------------------------------------ */

static int connect_to(const char *place)
{
	struct sockaddr_un u = {.sun_family = AF_UNIX};
	struct sockaddr_in i = {
	    .sin_family = AF_INET,
	    .sin_port = htons((uint16_t)atoi(place)),
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	bool local = strchr(place, '/');
	int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		fail("socket");
	snprintf(u.sun_path, sizeof(u.sun_path), "%s", place);
	if (connect(fd, local ? (struct sockaddr *)&u : (struct sockaddr *)&i,
		    local ? sizeof(u) : sizeof(i)))
		fail(place);
	if (!local)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void open_all(struct load *l)
{
	const struct config *o = &l->config;
	size_t request = 128 + o->value_bytes + 32 * (o->multi + 1);

	l->conns = calloc(o->connections, sizeof(*l->conns));
	l->out = malloc(o->depth * request);
	l->in = malloc(READ_BYTES);
	l->value = malloc(o->value_bytes);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!l->conns || !l->out || !l->in || !l->value || l->epoll < 0)
		fail("setting up");
	memset(l->value, 'v', o->value_bytes);
	for (uint64_t i = 0; i < o->connections; i++) {
		struct conn *c = &l->conns[i];
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};

		c->fd = connect_to(o->connect);
		c->held = malloc(READ_BYTES);
		if (!c->held || epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e))
			fail("setting up");
	}
}

static void run(struct load *l)
{
	uint64_t start_ns = clock_now_ns(clock_monotonic());
	uint64_t end_ns = start_ns + 1000 * l->config.us;
	struct epoll_event events[64];

	for (uint64_t i = 0; i < l->config.connections; i++)
		send_batch(l, &l->conns[i]);
	while (l->config.load ? l->done < l->config.keys
			      : clock_now_ns(clock_monotonic()) < end_ns) {
		int n = epoll_wait(l->epoll, events, ARRAY_COUNT(events), 1000);

		for (int i = 0; i < n; i++)
			if (receive(l, events[i].data.ptr))
				send_batch(l, events[i].data.ptr);
	}
}

int main(int argc, char **argv)
{
	static struct load l;
	struct opts_parsed parsed;
	int status = opts_parse_main(&table, argc, argv, &l.config, &parsed);

	if (status >= 0)
		return status;
	if (!l.config.connect) {
		fprintf(stderr, "serve_load: --connect is missing\n");
		return 2;
	}
	prng_seed(&l.prng, l.config.seed);
	open_all(&l);
	uint64_t server_ns = ran_all_ns(l.config.pid), own_ns = ran_ns("self");
	uint64_t start_ns = clock_now_ns(clock_monotonic());

	run(&l);
	double seconds = (double)(clock_now_ns(clock_monotonic()) - start_ns) / 1e9;
	double requests = (double)max_u64(l.done, 1);

	server_ns = ran_all_ns(l.config.pid) - server_ns;
	own_ns = ran_ns("self") - own_ns;
	printf("{\"per_second\": %.0f, \"hit_ratio\": %.4f, \"server_ns\": %.0f, "
	       "\"client_ns\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
	       (double)l.done / seconds, (double)l.hits / requests, (double)server_ns / requests,
	       (double)own_ns / requests, (double)hist_percentile_ns(&l.batch_ns, 50) / 1e3,
	       (double)hist_percentile_ns(&l.batch_ns, 99) / 1e3);
	return 0;
}
