/*
 * serve.c: `forge serve`: a memcached server on a pool, or on a pool of its own.
 *
 * Without --pool it is a memory node too, for as long as it runs: what memcached does for one
 * host, with a pool that other processes may attach to.
 */
#include "serve/server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/opts.h"
#include "base/text.h"
#include "client/link.h"
#include "node/node.h"
#include "tool/attach.h"
#include "tool/background.h"
#include "tool/memcached_options.h"
#include "tool/names.h"
#include "tool/own_pool.h"
#include "tool/policies.h"
#include "tool/serve_figures.h"

/* As `forge node`: how often to look for dead compute nodes. */
#define LOOK_US 100000
/* How often to look whether somebody else's memory node is still there. */
#define NODE_LOOK_US 1000000
/* Descriptors beside those of connections; and of each worker thread, beside one to each node. */
#define OTHER_FILES  64
#define THREAD_FILES 5

struct config {
	const char *pool, *listen, *unix_path, *unix_mask, *pidfile, *user, *metrics, *policy,
	    *auth;
	const char *tls_certificate, *tls_key, *tls_authority;
	uint64_t memory_mib, port, connections, threads, threads_min, item_bytes, backlog, idle_us,
	    udp_port;
	uint64_t object_bytes, dead_percent;
	unsigned protocol;
	bool verbose, version, daemon, no_flush, tls;
	const char *key_file;
};

static const struct opt options[] = {
    OPT_STRING(struct config, pool, "pool", 0, NULL, "NAME",
	       "The pool: " TOOL_POOL_NAMES ".  Without it the server makes a pool of "
	       "its own in shared memory, and removes it at the end."),
    TOOL_KEY_FILE_OPTION(struct config),
    OPT_U64(struct config, memory_mib, "memory-limit", 'm', "64", "MiB", 1, UINT64_C(1) << 18,
	    "Size of the server's own pool."),
    OPT_U64(struct config, port, "port", 'p', "11211", "PORT", 0, 65535,
	    "TCP port; 0: no TCP, or with port 0 in --listen one that is free."),
    OPT_STRING(struct config, listen, "listen", 'l', "127.0.0.1", "ADDRESS,...",
	       "Addresses to listen on, each with or without :port; * is all of them.  Whoever "
	       "reaches the server reads and writes the whole cache."),
    OPT_STRING(struct config, unix_path, "unix-socket", 's', NULL, "PATH",
	       "Listen on a Unix socket, and on TCP only if --port or --listen is given too."),
    OPT_STRING(struct config, unix_mask, "unix-mask", 'a', "0700", "OCTAL",
	       "Permission bits of the Unix socket."),
    OPT_U64(struct config, connections, "conn-limit", 'c', "1024", "connections", 1, 10000000,
	    "Most connections at once; further ones are told so and closed."),
    OPT_U64(struct config, threads, "threads", 't', "4", "threads", 1, CN_WORKERS_MAX - 1,
	    "Worker threads."),
    OPT_U64(struct config, threads_min, "threads-min", 0, "1", "threads", 0, CN_WORKERS_MAX - 1,
	    "So many of them serve always; others only while requests are answered sooner or "
	    "more of them for it, which is tried where processors are scarce.  0: all of them, "
	    "always."),
    OPT_BYTES(struct config, item_bytes, "max-item-size", 'I', "0", "SIZE", 0, UINT32_MAX,
	      "Largest value; 0: what the pool takes, 1 MiB in its own unless that is small."),
    OPT_U64(struct config, backlog, "listen-backlog", 'b', "1024", "connections", 1, 1000000,
	    "Connections that may wait to be accepted."),
    OPT_DURATION(struct config, idle_us, "idle-timeout", 0, "0", "TIME", 0,
		 UINT64_C(31536000000000),
		 "Close connections on which nothing came for so long; 0: never."),
    OPT_CHOICE(struct config, protocol, "protocol", 'B', "auto", "auto|ascii|binary",
	       "What clients may speak."),
    OPT_STRING(struct config, auth, "auth-file", 'Y', NULL, "FILE",
	       "Let in only clients that name a user and password of FILE, which has a line "
	       "user:password for each: by a set whose value is 'user password', or in binary by "
	       "SASL PLAIN.  Both travel as they are, unless there is TLS.  SIGHUP: read it anew."),
    OPT_FLAG(struct config, tls, "tls", 'Z',
	     "Encrypt TCP connections; needs --tls-cert and --tls-key.  Unix sockets and the "
	     "metrics endpoint stay as they are."),
    OPT_STRING(struct config, tls_certificate, "tls-cert", 0, NULL, "FILE",
	       "The server's certificate in PEM, with those that lead to its authority behind it."),
    OPT_STRING(struct config, tls_key, "tls-key", 0, NULL, "FILE", "Its private key in PEM."),
    OPT_STRING(struct config, tls_authority, "tls-ca", 0, NULL, "FILE",
	       "Let in only clients that show a certificate of this authority."),
    OPT_FLAG(struct config, no_flush, "disable-flush-all", 'F', "Refuse flush_all."),
    OPT_STRING(struct config, metrics, "metrics", 0, NULL, "ADDRESS:PORT",
	       "Answer http://ADDRESS:PORT/metrics, for Prometheus; port 9150 if none is given."),
    OPT_STRING(struct config, policy, "policy", 0, "forge", "NAME",
	       "Policy of its own pool: forge or forge-paper."),
    OPT_U64(struct config, dead_percent, "dead-percent", 0, "0", "%", 0, 100,
	    "Members that may be dead before groups are compacted for it; 0: the policy's share."),
    OPT_BYTES(struct config, object_bytes, "object-bytes", 0, "272", "SIZE", 1, UINT32_MAX,
	      "Expected size of key and value together, for its own pool."),
    OPT_FLAG(struct config, daemon, "daemon", 'd',
	     "Go to the background once clients can connect."),
    OPT_STRING(struct config, pidfile, "pidfile", 'P', NULL, "FILE",
	       "Write the process id there, and remove it at the end."),
    OPT_STRING(struct config, user, "user", 'u', NULL, "NAME",
	       "Become this user first; for those who start as root."),
    OPT_U64(struct config, udp_port, "udp-port", 'U', "0", "PORT", 0, 0,
	    "Only 0 is accepted: there is no UDP."),
    OPT_FLAG(struct config, verbose, "verbose", 'v', "Log what happens, not only what goes wrong."),
    OPT_FLAG(struct config, version, "version", 'V', "Print the version and end."),
};

static const struct opts_table table = {
    .command = "forge serve",
    .sentence =
	"Serve a pool to clients of memcached, by its text, meta and binary protocols, until "
	"SIGTERM or SIGINT; then answer what has been received, and end.  Every server on a pool "
	"is the same cache.  Short options are memcached's.  Prints one line, which begins with "
	"'ready', when clients may connect.  Exit status: 0 ended by a signal, 2 error.",
    .options = options,
    .option_count = ARRAY_COUNT(options),
    .foreign = memcached_options,
    .foreign_count = ARRAY_COUNT(memcached_options),
};

static int run(int argc, char **argv);

const struct command command_serve = {"serve", "Serve a pool to clients of memcached.", run};

/* What a server consists of. */
struct serving {
	const struct config *config;
	const char *pool_name; /* as given, or own_name */
	char own_name[64];
	struct node *node; /* of its own pool, or NULL */
	struct client *client;
	struct auth *auth;
	struct tls *tls;
	struct server *server;
	int recover_status;
	uint64_t gone; /* memory nodes that have ended, by member; each is told once */
};

/* ---- statistics --------------------------------------------------------------------------- */

static int take_figures(void *context, struct view *v, struct server_figures *out)
{
	const struct serving *s = context;

	return serve_figures(s->client, v, out);
}

/* The server is its pool's memory node. */
static void look_for_dead(void *context)
{
	struct serving *s = context;
	struct recover_report report;
	uint32_t dead_count;
	int status = node_recover(s->node, &report, &dead_count);

	if (dead_count)
		log_warn("%s: %u compute node%s ended without leaving; taken back", s->pool_name,
			 dead_count, dead_count == 1 ? "" : "s");
	if (status && status != s->recover_status)
		log_error("%s: looking for dead compute nodes: %s", s->pool_name,
			  status_sentence(status));
	s->recover_status = status;
}

/*
 * What is mapped is served on while its name stands for it, whatever becomes of the node, but
 * nobody can attach any more, and nobody takes back what the dead held.  Once the name is gone the
 * client gives it up, and says so.
 */
static void look_at_node(void *context)
{
	struct serving *s = context;
	char text[512], remedy[512];

	for (uint32_t i = 0; i < client_member_end(s->client); i++) {
		struct client_member m;

		client_member(s->client, i, &m);
		if (!m.is_up)
			continue; /* the client says so itself */
		int served = link_probe(m.name, text, sizeof(text));
		bool gone = served != 1 && served != FORGE_E_POOL_ABSENT;

		tool_node_remedy(m.name, remedy, sizeof(remedy));

		if (gone && !(s->gone >> i & 1) && served == 0)
			log_warn("%s: its memory node has ended: %s, or end this server", m.name,
				 remedy);
		else if (gone && !(s->gone >> i & 1))
			log_warn("its memory node does not answer: %s", text);
		s->gone = (s->gone & ~(UINT64_C(1) << i)) | (uint64_t)gone << i;
	}
}

/* ---- the pool ----------------------------------------------------------------------------- */

static int make_pool(struct serving *s)
{
	const struct config *c = s->config;
	const struct policy *policy = tool_policy(&command_serve, c->policy);
	char text[1024];

	if (!policy)
		return TOOL_ERROR;
	struct node_wish wish = {
	    .where = s->pool_name,
	    .plan = {.pool_bytes = c->memory_mib << 20,
		     .object_bytes = (uint32_t)c->object_bytes,
		     /* As forge node does. */
		     .object_bytes_median = (uint32_t)max_u64(c->object_bytes * 5 / 8, 1),
		     .slot_words = policy->slot_words,
		     .value_bytes_max = (uint32_t)c->item_bytes,
		     .value_option = "--max-item-size (-I)",
		     .policy = policy->name},
	    .plan_given = true,
	    /* A pool of that name that nobody serves is what a killed server left. */
	    .force = true,
	};

	if (node_open(&wish, &s->node, text, sizeof(text)))
		return tool_fail(&command_serve, "%s%s", text,
				 strstr(text, "--max-item-size") ? " (-m is in MiB)" : "");
	return 0;
}

static int attach(struct serving *s)
{
	struct timespec now;
	char text[512];

	clock_gettime(CLOCK_REALTIME, &now);
	struct client_options wish = {
	    .session_count = (uint32_t)s->config->threads + 1,
	    .count_verbs = 1,
	    .watch_name = !s->node,
	    .dead_percent = (uint32_t)s->config->dead_percent,
	    .seed = (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec << 32 ^ (uint64_t)getpid(),
	};

	if (client_open(s->pool_name, &wish, &s->client, text, sizeof(text)) == 0)
		return 0;
	return tool_attach_error(&command_serve, s->pool_name, text);
}

/*
 * A pool that is there has its size and policy.  The environment may be for memory nodes, too: an
 * option which they share and that is only there is no contradiction.
 */
static int check_own_options(const struct config *c, const struct opts_parsed *parsed)
{
	static const char *const own[] = {"memory-limit", "policy", "object-bytes"};
	bool by_environment = opts_origin(&table, parsed, "pool") == OPTS_ENVIRONMENT;

	for (unsigned i = 0; i < ARRAY_COUNT(own) && c->pool; i++) {
		enum opts_origin from = opts_origin(&table, parsed, own[i]);

		if (from != OPTS_DEFAULT && (from != OPTS_ENVIRONMENT || i == 0))
			return tool_fail(&command_serve,
					 "--%s%s is for a pool of the server's own, but %s names "
					 "%s, which forge node makes: leave out one of the two",
					 own[i], i == 0 ? " (-m)" : "",
					 by_environment ? "FORGE_POOL" : "--pool", c->pool);
	}
	return TOOL_OK;
}

static int open_pool(struct serving *s)
{
	const struct config *c = s->config;
	int status;

	if (c->pool) {
		s->pool_name = c->pool;
		status = tool_check_served(&command_serve, c->pool, true);
	} else {
		own_pool_name(s->own_name, sizeof(s->own_name));
		s->pool_name = s->own_name;
		own_pool_collect();
		own_pool_watch(s->own_name);
		status = make_pool(s);
	}
	return status ? status : attach(s);
}

/* Of all memory nodes that are up. */
static void sum_pools(const struct serving *s, uint64_t *bytes, uint64_t *objects)
{
	*bytes = *objects = 0;
	for (uint32_t i = 0; i < client_member_end(s->client); i++) {
		struct client_member m;

		client_member(s->client, i, &m);
		*bytes += m.is_up ? m.pool.plan.pool_bytes : 0;
		*objects += m.is_up ? plan_capacity_objects(&m.pool.plan) : 0;
	}
}

/* ---- the server --------------------------------------------------------------------------- */

/* Every connection is a descriptor, and every thread has some. */
static void raise_file_limit(const struct serving *s)
{
	uint64_t connections = s->config->connections;
	uint64_t wanted = connections + OTHER_FILES +
			  s->config->threads * (THREAD_FILES + client_member_count(s->client));
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
		return;
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < wanted)
		log_warn("--conn-limit=%" PRIu64 " needs %" PRIu64 " open files, %" PRIu64
			 " are permitted: raise ulimit -n",
			 connections, wanted, (uint64_t)limit.rlim_cur);
}

/* SIGHUP, as memcached takes it.  Who is in stays in. */
static void read_users_anew(void *context)
{
	struct serving *s = context;
	char text[512];

	if (auth_reopen(s->auth, s->config->auth, text, sizeof(text)))
		log_error("--auth-file: %s; users are as before", text);
	else
		log_info("--auth-file: %s was read anew", s->config->auth);
}

/* Who may come in, and how. */
static int open_doors(struct serving *s)
{
	const struct config *c = s->config;
	const struct tls_files files = {c->tls_certificate, c->tls_key, c->tls_authority};
	char text[512];

	if (c->auth && auth_open(c->auth, &s->auth, text, sizeof(text)))
		return tool_fail(&command_serve, "--auth-file: %s", text);
	if (!c->tls && (files.certificate || files.key || files.authority))
		return tool_fail(&command_serve,
				 "files for TLS are named, but no --tls: add it, or "
				 "leave them out");
	if (!c->tls)
		return 0;
	if (!files.certificate || !files.key)
		return tool_fail(&command_serve, "--tls needs --tls-cert and --tls-key");
	if (tls_open(&files, TLS_SERVER, &s->tls, text, sizeof(text)))
		return tool_fail(&command_serve, "--tls: %s", text);
	return 0;
}

static int open_server(struct serving *s, const struct opts_parsed *parsed)
{
	const struct config *c = s->config;
	const struct plan *p = &client_pool(s->client)->plan;
	uint64_t largest = plan_value_limit(p), pool_bytes, pool_objects;
	bool tcp = !c->unix_path || opts_given(&table, parsed, "port") ||
		   opts_given(&table, parsed, "listen");
	char *end, text[512];
	unsigned long mode = strtoul(c->unix_mask, &end, 8);

	if (!*c->unix_mask || *end || mode > 0777)
		return tool_fail(&command_serve,
				 "--unix-mask=%s: not permission bits in octal, such as 0700",
				 c->unix_mask);
	if (c->threads_min > c->threads)
		return tool_fail(&command_serve,
				 "--threads-min=%" PRIu64 " is more than --threads=%" PRIu64
				 ": lower one, or raise the other",
				 c->threads_min, c->threads);
	if (open_doors(s))
		return TOOL_ERROR;
	sum_pools(s, &pool_bytes, &pool_objects);
	struct server_options o = {
	    .client = s->client,
	    .pool_name = s->pool_name,
	    .version = FORGE_VERSION,
	    .thread_count = (uint32_t)c->threads,
	    .thread_min = (uint32_t)c->threads_min,
	    .connections_max = (uint32_t)c->connections,
	    .idle_timeout_us = c->idle_us,
	    .value_bytes_max =
		(uint32_t)(c->item_bytes ? min_u64(c->item_bytes, largest) : largest),
	    .reply_value_bytes = (uint32_t)largest,
	    .limit_bytes = pool_bytes,
	    .protocol = (enum request_protocol)c->protocol,
	    .flush_permitted = !c->no_flush,
	    .tls = s->tls,
	    .auth = s->auth,
	    .backlog = (int)c->backlog,
	    .listen = tcp && (c->port || strchr(c->listen, ':')) ? c->listen : NULL,
	    .port = (uint16_t)c->port,
	    .unix_path = c->unix_path,
	    .unix_mode = (unsigned)mode,
	    .metrics = c->metrics,
	    .figures = take_figures,
	    .chore = s->node ? look_for_dead : look_at_node,
	    .chore_us = s->node ? LOOK_US : NODE_LOOK_US,
	    .reopen = s->auth ? read_users_anew : NULL,
	    .context = s,
	};

	if (!o.listen && !o.unix_path)
		return tool_fail(&command_serve,
				 "--port=0 and no --unix-socket: nobody could connect; give one");
	raise_file_limit(s);
	if (server_open(&o, &s->server, text, sizeof(text)))
		return tool_fail(&command_serve, "%s", text);
	return 0;
}

static void print_ready(const struct serving *s)
{
	const struct plan *p = &client_pool(s->client)->plan;
	uint64_t pool_bytes, pool_objects;
	char where[2048];
	struct text bytes, objects;

	sum_pools(s, &pool_bytes, &pool_objects);
	server_describe(s->server, where, sizeof(where));
	printf("ready %s on %s: %s, %s objects of %u bytes\n", where, s->pool_name,
	       text_bytes(&bytes, pool_bytes), text_grouped(&objects, pool_objects),
	       p->object_bytes);
	fflush(stdout);
}

/* ---- the process -------------------------------------------------------------------------- */

static int serve(struct serving *s, const struct opts_parsed *parsed, int ready)
{
	const struct config *c = s->config;
	int status = c->user ? background_become(&command_serve, c->user) : 0;

	if (!status)
		status = open_pool(s);
	if (!status)
		status = open_server(s, parsed);
	if (!status && c->pidfile)
		status = background_write_pid(&command_serve, c->pidfile);
	if (status)
		return status;
	print_ready(s);
	if (ready >= 0)
		background_ready(ready);
	log_info("%s: ended by signal %d", s->pool_name, server_run(s->server));
	if (c->pidfile)
		unlink(c->pidfile);
	return TOOL_OK;
}

static int run(int argc, char **argv)
{
	struct config config;
	struct opts_parsed parsed;
	struct serving s = {.config = &config};
	char text[512];
	int ready = -1, status = opts_parse_main(&table, argc, argv, &config, &parsed);

	if (status >= 0)
		return status;
	tool_use_key_file(config.key_file);
	if (config.version) {
		printf("forge %s, memcached protocol %s\n", FORGE_VERSION, SERVER_PROTOCOL_VERSION);
		return TOOL_OK;
	}
	if (config.udp_port)
		return tool_fail(&command_serve, "--udp-port=%" PRIu64 ": there is no UDP, only 0",
				 config.udp_port);
	if (check_own_options(&config, &parsed))
		return TOOL_ERROR;
	if (config.verbose && log_get_level() < LOG_INFO)
		log_set_level(LOG_INFO);
	if (config.daemon) {
		status = background_start(&command_serve, &ready);
		if (status >= 0)
			return status;
	}
	/* OpenSSL, and libevent for the metrics, write to who has gone as to anybody else. */
	signal(SIGPIPE, SIG_IGN);
	status = serve(&s, &parsed, ready);
	server_close(s.server);
	client_close(s.client);
	auth_close(s.auth);
	tls_close(s.tls);
	if (node_close(s.node, false, text, sizeof(text)) && !status)
		status = tool_fail(&command_serve, "%s", text);
	return status;
}
