/*
 * fabric_server.h: what fabric_bench measures, each in a process of its own: a bare echo, the
 * node's server over plain memory, and a memory node with a pool.
 *
 * For fabric_bench alone.  What goes wrong ends the program, with the reason.
 */
#ifndef FORGE_TEST_BENCH_FABRIC_SERVER_H
#define FORGE_TEST_BENCH_FABRIC_SERVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fabric/wait.h"

/* How long each of them looks for more before it sleeps, by fabric/wait.h. */
#define SERVER_SPIN_US 50u

#define SERVER_MEMORY_BYTES (64u << 20)

enum server_kind {
	SERVER_ECHO,  /* sends back what it receives, at once */
	SERVER_VERBS, /* the tcp server over SERVER_MEMORY_BYTES */
	SERVER_NODE,  /* the same over a pool for `forge` */
};

/* Of the child, as of its last look, a millisecond ago at most. */
struct server_seen {
	_Atomic uint64_t cpu_ns, receives;
	_Atomic int is_ready;
	char where[280];
};

struct server {
	pid_t pid;
	struct server_seen *seen; /* seen->where: where it listens */
};

_Noreturn void bench_die(const char *what);

/* Processor time of this process. */
uint64_t bench_cpu_ns(void);

/* Which of the processors that were permitted at first this thread may use, and who it starts. */
enum processor { PROCESSOR_ANY, PROCESSOR_FIRST, PROCESSOR_LAST };
void processor_choose(enum processor);

/* Listen on a TCP address with port 0, or on a Unix socket; threads: of the node. */
void server_start(struct server *, enum server_kind, const char *where, unsigned threads);
void server_stop(struct server *);

/* Receive, with the waits of whoever is measured beside.  0 at the end. */
ssize_t receive_patiently(int fd, unsigned char *buf, size_t bytes, struct fab_wait *);

#endif
