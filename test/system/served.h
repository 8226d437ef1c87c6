/*
 * served.h: a memory node, as a process, that serves a pool of a test over a socket.
 *
 * For tests: the one process that starts it, and ends it by served_end() or by a signal of its own.
 */
#ifndef FORGE_TEST_SYSTEM_SERVED_H
#define FORGE_TEST_SYSTEM_SERVED_H

#include <sys/types.h>

struct served {
	pid_t pid;	/* 0: none */
	char url[128];	/* where it listens */
	char name[448]; /* of the pool, by which it is reached; with time for a busy host */
	char path[96];	/* of its Unix socket, or "" */
};

/*
 * Start `program node` over the pool of that name, which is there, and wait until it is ready.
 * scheme: "unix", "tcp", "tls" (with keys and certificates made for it), or a whole URL to listen
 * on.  0, or -1 with the reason printed.
 */
int served_start(struct served *, const char *program, const char *pool_name, const char *scheme);

/* Send a signal and wait for its end; its wait status. */
int served_end(struct served *, int signal_number);

#endif
