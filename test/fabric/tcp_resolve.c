/*
 * tcp_resolve.c: a name server that is silent keeps nobody.
 *
 * This program's own getaddrinfo() answers for names that end in .test: all are the loopback
 * address, and nobody learns it before the test says so.  So whoever comes back before that did not
 * wait for it; deadlines are ten minutes, which no test has, or in the past.
 */
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/sanitizer.h"
#include "fabric/tcp_resolve.h"
#include "tcp_world.h"
#include "under_test.h"

#define LONG_MS 600000u

/* ---- the name server ---------------------------------------------------------------------- */

static pthread_mutex_t server_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t server_speaks = PTHREAD_COND_INITIALIZER;
static int is_silent;
static _Atomic unsigned asked, answered;
static const char *first_address; /* NULL, or what it says before the loopback address */

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *,
			      struct addrinfo **);

static int real_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			    struct addrinfo **found)
{
	getaddrinfo_fn real = (getaddrinfo_fn)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");

	return real(node, service, hints, found);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	const char *end = node ? strstr(node, ".test") : NULL;

	if (!end || (hints && hints->ai_flags & AI_NUMERICHOST))
		return real_getaddrinfo(node, service, hints, found);
	atomic_fetch_add(&asked, 1);
	pthread_mutex_lock(&server_lock);
	while (is_silent)
		pthread_cond_wait(&server_speaks, &server_lock);
	pthread_mutex_unlock(&server_lock);
	int error = strcmp(node, "none.test") ? 0 : EAI_NONAME;

	if (!error)
		error = real_getaddrinfo(first_address ? first_address : "127.0.0.1", service,
					 hints, found);
	if (!error && first_address)
		error = real_getaddrinfo("127.0.0.1", service, hints, &(*found)->ai_next);
	atomic_fetch_add(&answered, 1);
	return error;
}

static void silence(int is)
{
	pthread_mutex_lock(&server_lock);
	is_silent = is;
	pthread_cond_broadcast(&server_speaks);
	pthread_mutex_unlock(&server_lock);
}

/* ---- who asks ----------------------------------------------------------------------------- */

static struct dialler dialler_of(const struct world *w, const char *host)
{
	struct dialler d = {.settings = {.deadline_ms = LONG_MS}};

	tcp_instance(d.settings.instance);
	snprintf(d.where, sizeof(d.where), "tcp://%s:%s", host, strrchr(w->where, ':') + 1);
	return d;
}

/* Whose time is over when it asks. */
static int ask_briefly(const char *host, struct resolved *out)
{
	uint64_t left_ns = 0;

	return tcp_resolve(host, 1, &left_ns, NULL, out);
}

/* What comes of it in the end. */
static int ask_again_and_again(const char *host, struct resolved *out)
{
	int error = ask_briefly(host, out);

	for (uint64_t end_ms = now_ms() + 15000; error == EAI_SYSTEM && now_ms() < end_ms;) {
		poll(NULL, 0, 1);
		error = ask_briefly(host, out);
	}
	return error;
}

static int set_up(void **state)
{
	atomic_store(&asked, 0);
	atomic_store(&answered, 0);
	silence(1);
	first_address = NULL;
	return 0;
}

/* ---- tests -------------------------------------------------------------------------------- */

static void test_digits_ask_nobody(void **state)
{
	struct resolved found;
	uint64_t left_ns = 0;

	assert_int_equal(tcp_resolve("127.0.0.1", 80, &left_ns, NULL, &found), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(found.address[0].in.sin_port, htons(80));
	assert_int_equal(found.address[0].in.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
	assert_int_equal(tcp_resolve("::1", 81, &left_ns, NULL, &found), 0);
	assert_int_equal(found.address[0].in6.sin6_port, htons(81));
	assert_int_equal(asked, 0);
}

/* Many wait for one answer, and who is cancelled leaves the others to it. */
static void test_cancelled(void **state)
{
	struct dialler d[4];
	struct cancel cancel;
	struct world w;

	open_here(&w, places[0]);
	assert_int_equal(cancel_open(&cancel), 0);
	for (unsigned i = 0; i < ARRAY_COUNT(d); i++) {
		d[i] = dialler_of(&w, "many.test");
		d[i].settings.cancel = i % 2 ? &cancel : NULL;
		dial_begin(&d[i]);
	}
	WAIT_FOR(asked == 1);
	cancel_fire(&cancel);
	for (unsigned i = 1; i < ARRAY_COUNT(d); i += 2) {
		dial_end(&d[i]);
		assert_int_equal(d[i].status, FORGE_E_NODE);
		assert_non_null(strstr(d[i].error, "given up"));
	}
	assert_int_equal(answered, 0);
	silence(0);
	for (unsigned i = 0; i < ARRAY_COUNT(d); i += 2) {
		dial_end(&d[i]);
		assert_int_equal(d[i].status, 0);
	}
	/* One may have begun when the others had been answered. */
	assert_in_range(asked, 1, 2);
	/* Nor does anybody begin to wait when it has been fired. */
	silence(1);
	d[1].settings.cancel = &cancel;
	dial(&d[1]);
	assert_int_equal(d[1].status, FORGE_E_NODE);
	silence(0);
	cancel_close(&cancel);
	close_world(&w);
}

/* A deadline ends the wait; what is answered later is there for who asks again. */
static void test_late_answer(void **state)
{
	struct resolved found;
	struct dialler d;
	struct world w;

	open_here(&w, places[0]);
	d = dialler_of(&w, "late.test");
	d.settings.deadline_ms = 1;
	for (unsigned i = 0; i < 3; i++) {
		dial(&d);
		assert_int_equal(d.status, FORGE_E_NODE);
		assert_non_null(strstr(d.error, "no name server said within 1 ms"));
	}
	assert_int_equal(ask_briefly("none.test", &found), EAI_SYSTEM);
	assert_int_equal(errno, ETIMEDOUT);
	WAIT_FOR(asked == 2);
	assert_int_equal(answered, 0);
	silence(0);
	d.settings.deadline_ms = LONG_MS;
	dial(&d);
	assert_int_equal(d.status, 0);
	WAIT_FOR(answered == 2);
	assert_int_equal(ask_again_and_again("none.test", &found), EAI_NONAME);
	assert_int_equal(asked, 2);
	/* It has been taken; the next one asks anew. */
	d = dialler_of(&w, "late.test");
	dial(&d);
	assert_int_equal(d.status, 0);
	assert_int_equal(asked, 3);
	close_world(&w);
}

/* A child has no thread that would answer, and no descriptor of what its parent waits for. */
static void test_fork(void **state)
{
	struct resolved found;
	char name[64], what[64];
	int status;

	assert_int_equal(ask_briefly("forked.test", &found), EAI_SYSTEM);
	WAIT_FOR(asked == 1);
	pid_t child = fork();

	if (child == 0) {
		for (int fd = 0; fd < 256; fd++) {
			ssize_t n;

			snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
			n = readlink(name, what, sizeof(what) - 1);
			what[n > 0 ? n : 0] = '\0';
			if (strstr(what, "eventfd"))
				_exit(1);
		}
		/* ThreadSanitizer lets no child of several threads start one. */
		if (TSAN_BUILD)
			_exit(0);
		is_silent = 0;
		uint64_t left_ns = UINT64_MAX;

		_exit(tcp_resolve("forked.test", 1, &left_ns, NULL, &found) ? 2 : 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	silence(0);
	assert_int_equal(ask_again_and_again("forked.test", &found), 0);
	assert_int_equal(asked, 1);
}

/* Threads are bounded, and an answer that nobody fetched makes way. */
static void test_bound(void **state)
{
	struct resolved found;
	char host[32];

	for (unsigned i = 0; i <= RESOLVE_HOSTS_MAX; i++) {
		snprintf(host, sizeof(host), "host-%u.test", i);
		assert_int_equal(ask_briefly(host, &found), EAI_SYSTEM);
		assert_int_equal(errno, i < RESOLVE_HOSTS_MAX ? ETIMEDOUT : EBUSY);
	}
	WAIT_FOR(asked == RESOLVE_HOSTS_MAX);
	silence(0);
	/* One of them makes way, as soon as there is one. */
	assert_int_equal(ask_again_and_again("one-more.test", &found), 0);
	for (unsigned i = 0; i < RESOLVE_HOSTS_MAX; i++) {
		snprintf(host, sizeof(host), "host-%u.test", i);
		assert_int_equal(ask_again_and_again(host, &found), 0);
	}
	assert_int_equal(asked, RESOLVE_HOSTS_MAX + 2);
}

/* A host with a dead address is reached by its other one, within the deadline of both. */
static void test_dead_address(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)};
	int dead = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), filler[3];
	struct dialler d;
	struct world w;

	open_here(&w, places[0]);
	d = dialler_of(&w, "two.test");
	d.settings.deadline_ms = 0;
	address.sin_port = htons((uint16_t)atoi(strrchr(w.where, ':') + 1));
	assert_int_equal(bind(dead, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(dead, 0), 0);
	for (unsigned i = 0; i < ARRAY_COUNT(filler); i++) {
		filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(filler[i], (struct sockaddr *)&address, sizeof(address));
	}
	first_address = "127.0.0.2";
	silence(0);
	dial(&d);
	assert_int_equal(d.status, 0);
	for (unsigned i = 0; i < ARRAY_COUNT(filler); i++)
		close(filler[i]);
	close(dead);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(test_digits_ask_nobody, set_up),
	    cmocka_unit_test_setup(test_cancelled, set_up),
	    cmocka_unit_test_setup(test_late_answer, set_up),
	    cmocka_unit_test_setup(test_fork, set_up),
	    cmocka_unit_test_setup(test_bound, set_up),
	    cmocka_unit_test_setup(test_dead_address, set_up),
	};

	return cmocka_run_group_tests_name("tcp_resolve", tests, NULL, NULL);
}
