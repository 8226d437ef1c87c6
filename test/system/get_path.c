/*
 * get_path.c: a Get makes no system call and allocates nothing.
 *
 * A child attaches, warms up, and then installs a seccomp filter which kills it on any system
 * call but write and exit; after that it does Gets, hits and misses, polls included.  malloc and
 * its family are this program's own and count.  Controls: the same filter does kill a child that
 * makes a call, and the count does see an allocation.  Skipped where seccomp is not available,
 * where the clock needs a system call (no vDSO), and under a sanitizer, which makes calls itself.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/sanitizer.h"
#include "bench/own_pool.h"
#include "client/client.h"

#define KEYS  4096u
#define GETS  200000u
#define FINE  0
#define UNFIT 2

#if !ASAN_BUILD && !TSAN_BUILD
/* glibc's own, under the names it keeps for replacements of malloc. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static _Atomic uint64_t allocations;

void *malloc(size_t bytes)
{
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes)
{
	atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
	return __libc_realloc(p, bytes);
}
#else
static _Atomic uint64_t allocations;
#endif

/* From here on only write, exit and perhaps sched_yield; false when the kernel does not let us. */
static bool forbid_system_calls(bool may_yield)
{
	struct sock_filter code[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 2, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, may_yield ? SYS_sched_yield : SYS_exit, 1, 0),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_COUNT(code), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Run body in a child; its wait status. */
static int in_child(int (*body)(void))
{
	int status = -1;

	fflush(NULL);
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static bool was_killed_by_filter(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static int make_a_call(void)
{
	if (!forbid_system_calls(false))
		return UNFIT;
	syscall(SYS_getppid);
	return FINE;
}

static int read_the_clock(void)
{
	if (!forbid_system_calls(false))
		return UNFIT;
	for (int i = 0; i < 1000; i++)
		clock_now_ns(clock_monotonic());
	return FINE;
}

/* Says why and skips if this cannot be tested here. */
static void skip_if_unfit(void)
{
	int status;

	if (ASAN_BUILD || TSAN_BUILD) {
		print_message("skipped: a sanitizer makes system calls of its own\n");
		skip();
	}
	status = in_child(make_a_call);
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNFIT) {
		print_message("skipped: this kernel or container permits no seccomp filter\n");
		skip();
	}
	assert_true(was_killed_by_filter(status)); /* or the test below could not fail */
	if (was_killed_by_filter(in_child(read_the_clock))) {
		print_message("skipped: reading the clock is a system call here (no vDSO)\n");
		skip();
	}
}

static struct own_pool pool;
static bool with_sets;

static int set(struct session *s, uint64_t id)
{
	uint64_t value[4] = {id, id, id, id};

	return session_set(s, (struct cache_key){.data = &id, .bytes = sizeof(id)},
			   &(struct cache_item){.value = value, .bytes = sizeof(value)});
}

static int get(struct session *s, uint64_t id, uint64_t *hits)
{
	struct cache_value value;
	int status = session_get(s, (struct cache_key){.data = &id, .bytes = sizeof(id)}, &value);

	*hits += status == 0;
	return status == FORGE_MISS ? 0 : status;
}

/* Exit status 0 when all went well; a wrong one tells the line. */
static int gets_under_the_filter(void)
{
	struct client_options options = {.session_count = 1, .count_verbs = 1};
	struct client *client;
	struct session *session;
	uint64_t hits = 0;
	char text[256];

	if (client_open(pool.name, &options, &client, text, sizeof(text)) ||
	    session_open(client, &session, text, sizeof(text)))
		return 10;
	for (uint64_t id = 0; id < 2 * KEYS; id++)
		if (set(session, id) || get(session, id, &hits))
			return 11;
	uint64_t before = atomic_load(&allocations);

	void *volatile seen = malloc(1);

	free(seen);
	if (!ASAN_BUILD && !TSAN_BUILD && atomic_load(&allocations) == before)
		return 12; /* the count is blind */
	if (!forbid_system_calls(with_sets))
		return UNFIT;
	before = atomic_load(&allocations);
	hits = 0;
	for (uint64_t i = 0; i < GETS; i++) {
		uint64_t id = i * 2654435761u % (4 * KEYS);

		if (get(session, id, &hits))
			return 13;
		if (with_sets && i % 4 == 0 && set(session, id))
			return 14;
	}
	if (atomic_load(&allocations) != before)
		return 15;
	if (hits == 0 || hits == GETS)
		return 16; /* both paths were to be taken */
	return session_counters(session)->polls > 10 ? FINE : 17;
}

static void run_case(void)
{
	struct plan_wish wish = {.chunk_count = KEYS / PLAN_GROUP_OBJECTS_DEFAULT,
				 .object_bytes = 40};
	char text[256];

	skip_if_unfit();
	assert_int_equal(own_pool_create(&pool, &wish, text, sizeof(text)), 0);
	int status = in_child(gets_under_the_filter);

	own_pool_forget(&pool);
	if (was_killed_by_filter(status))
		fail_msg("an operation made a system call");
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), FINE);
}

static void get_makes_no_system_call_and_allocates_nothing(void **state)
{
	with_sets = false;
	run_case();
}

/*
 * Evictions and compaction included.  A Set for which the first groups it claimed left no space
 * tries again, and gives up its processor at every sixteenth try: that alone is permitted.
 */
static void set_makes_no_system_call_and_allocates_nothing(void **state)
{
	with_sets = true;
	run_case();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(get_makes_no_system_call_and_allocates_nothing),
	    cmocka_unit_test(set_makes_no_system_call_and_allocates_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
