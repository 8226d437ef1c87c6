/*
 * tcp_world.h: a tcp server and its clients, for the tests of both.
 *
 * A world is a server in this process, whose memory a test may look at, or in a child that can be
 * killed and stopped.  Whatever fails in here fails the test.
 */
#ifndef FORGE_TEST_FABRIC_TCP_WORLD_H
#define FORGE_TEST_FABRIC_TCP_WORLD_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "fabric/tcp_control.h"
#include "fabric/tcp_server.h"

#define MEMORY_BYTES (4u << 20)
#define FINGERPRINT  77u

/* A TCP and a Unix socket. */
extern const char *const places[2];

/* What the server's owner sees: instances ended, and the memory at that moment. */
struct owner {
	unsigned char *mem;
	pthread_mutex_t lock;
	unsigned holds, ended;
	unsigned char *snapshot; /* of the memory when the last instance ended, or NULL */
};

struct world {
	struct tcp_server *server;
	struct owner owner;
	char where[300];
	pid_t pid; /* of a child that serves; 0: this process does */
};

/* Listen; listen, and serve with two threads; the same in a child. */
void open_world(struct world *, const char *place, struct tcp_server_settings);
void open_here(struct world *, const char *place);
void open_child(struct world *, const char *place);

/* Serve a world that only listens. */
void serve(struct world *);
void close_world(struct world *);

/* How many instances that held something have ended. */
unsigned owner_ended_count(struct world *);

/* A client's settings, with an instance of its own; and connections that must succeed. */
struct tcp_settings settings_for(const struct world *);
struct fab *must_open(const struct tcp_settings *);
struct tcp_control *must_control(const struct tcp_settings *);

/* Somebody who connects: by itself, or on a thread, while the test goes on. */
struct dialler {
	struct tcp_settings settings; /* whose place is the following, if there is one */
	char where[80];
	struct tcp_control *control; /* to ask over, or NULL: dial */
	pthread_t thread;
	int status;
	char error[512];
};

void dial(struct dialler *);
void dial_begin(struct dialler *);
void dial_end(struct dialler *);

/* A connected socket that has said nothing, in blocking mode; one that is welcome. */
int bare(const struct world *);
struct wire_hello hello_of(const struct tcp_settings *, enum wire_kind kind);
int bare_welcome(const struct world *, const struct tcp_settings *, enum wire_kind kind);

/* Whatever is sent, the node closes the connection, and sends at most this much before. */
size_t read_to_end(int fd, void *buf, size_t bytes);

/* Does a READ fail with FORGE_E_NODE? */
int is_lost(struct fab *f);

uint64_t now_ms(void);

/* WRITE for as long as the node is there; a thread's function, whose argument is a struct fab. */
void *write_for_ever(void *argument);

/* Until something becomes true, with a bound that only a failure reaches. */
#define WAIT_FOR(condition)                                \
	do {                                               \
		uint64_t end_ms_ = now_ms() + 15000;       \
		while (!(condition) && now_ms() < end_ms_) \
			poll(NULL, 0, 1);                  \
		assert_true(condition);                    \
	} while (0)

#endif
