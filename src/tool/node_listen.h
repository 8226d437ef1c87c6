/*
 * node_listen.h: how `forge node` is reached from other hosts, and by whom: the options of --listen
 * and of access, the server behind them, and reading keys anew.
 *
 * For node.c alone, on the main thread.  Errors are printed for `forge node`.
 */
#ifndef FORGE_TOOL_NODE_LISTEN_H
#define FORGE_TOOL_NODE_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "access/door.h"
#include "base/opts.h"
#include "node/serve.h"

struct listen_config {
	const char *list;
	uint64_t threads, connections_max, spin_us, client_timeout_us;
	const char *key_file, *tls_certificate, *tls_key, *tls_authority;
	uint64_t strangers_max;
	bool insecure;
};

/* Rows for a table of options whose struct config has a struct listen_config named listen. */
#define NODE_LISTEN_OPTIONS                                                                        \
	OPT_STRING(struct config, listen.list, "listen", 'l', NULL, "LIST",                        \
		   "Where compute nodes on other hosts reach the pool: tcp://ADDRESS:PORT, "       \
		   "tcp://[IPV6]:PORT and unix:/PATH, with commas between several.  Without an "   \
		   "address (tcp://:PORT) it is this host's 127.0.0.1; port 0 is any that is "     \
		   "free."),                                                                       \
	    OPT_U64(struct config, listen.threads, "threads", 0, "1", "threads", 1,                \
		    TCP_SERVER_THREADS_MAX, "Threads that serve those who connect."),              \
	    OPT_U64(struct config, listen.connections_max, "connections-max", 0, "16384",          \
		    "connections", 1, 1000000,                                                     \
		    "How many connections there may be at once; a thread of a compute node has "   \
		    "one."),                                                                       \
	    OPT_DURATION(struct config, listen.spin_us, "spin", 0, "50us", "TIME", 0, 1000000,     \
			 "How long a thread that has served looks for more before it sleeps."),    \
	    OPT_DURATION(struct config, listen.client_timeout_us, "client-timeout", 0, "10s",      \
			 "TIME", 1000000, 3600000000,                                              \
			 "A compute node whose host is silent for so long has ended; one that "    \
			 "merely does nothing has not."),                                          \
	    OPT_STRING(struct config, listen.key_file, "key-file", 0, NULL, "FILE",                \
		       "Let in only who proves to know a key of this file, a line NAME ROLE "      \
		       "SECRET each; ROLE is full, read-only or metrics.  Read anew at SIGHUP."),  \
	    OPT_STRING(struct config, listen.tls_certificate, "tls-cert", 0, NULL, "FILE",         \
		       "Take only TLS 1.3 over TCP, with this certificate, in PEM, and the chain " \
		       "behind it.  Read anew at SIGHUP."),                                        \
	    OPT_STRING(struct config, listen.tls_key, "tls-key", 0, NULL, "FILE",                  \
		       "Its private key, in PEM."),                                                \
	    OPT_STRING(struct config, listen.tls_authority, "tls-ca", 0, NULL, "FILE",             \
		       "Let in only who shows a certificate of this authority, in PEM."),          \
	    OPT_U64(struct config, listen.strangers_max, "strangers-max", 0, "1024",               \
		    "connections", 2, 1000000,                                                     \
		    "How many connections there may be that have not yet said who they are; of "   \
		    "one address half of them."),                                                  \
	    OPT_FLAG(struct config, listen.insecure, "insecure", 0,                                \
		     "Let everybody in who reaches an address that other hosts reach, with "       \
		     "neither --key-file nor --tls-ca: they read and change the whole cache.")

/* Its server and its door; both NULL without --listen. */
struct node_listen {
	struct node_server *server;
	struct door *door;
};

/*
 * Bind and listen, before anything is made: an address that cannot be had is no reason to replace
 * a pool.  0, or the exit status.
 */
int node_listen_open(const struct listen_config *, struct node_listen *out);
void node_listen_close(struct node_listen *);

/* Print a line for each address. */
void node_listen_print(const struct node_listen *);

/* Does SIGHUP mean to read something anew? */
bool node_listen_reloads(const struct listen_config *);

/* Do it, and log what came of it; name: the pool's. */
void node_listen_reload(struct node_listen *, const char *name);

#endif
