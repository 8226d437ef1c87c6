/*
 * witness.c: support/witness.h tells those who sleep, those who starve and those who are dead
 * apart, and finds what nobody has read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/witness.h"

static pid_t child(void (*life)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		life();
		_exit(0);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void sleep_on(void)
{
	pause();
}

static void spin_on_one_processor(void)
{
	cpu_set_t all, one;
	int cpu = 0;

	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (;;)
		;
}

static void spin_behind_others(void)
{
	setpriority(PRIO_PROCESS, 0, 19);
	spin_on_one_processor();
}

static void die(void)
{
}

static void watch(struct witness *w, pid_t pid)
{
	witness_begin(w);
	witness_add(w, pid);
	witness_note(w);
}

static void test_sleeper(void **state)
{
	struct witness w;
	pid_t pid = child(sleep_on);
	int blamed = 1;

	/* It may have to wait for a processor before it sleeps. */
	for (unsigned i = 0; i < 100 && blamed; i++) {
		watch(&w, pid);
		poll(NULL, 0, 300);
		blamed = witness_blames_host(&w, pid);
	}
	assert_false(blamed);
	end(pid);
}

/* As long as nobody has asked what became of it the kernel may not be done with it. */
static void test_dead(void **state)
{
	struct witness w;
	siginfo_t info;
	pid_t pid = child(die);

	watch(&w, pid);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(witness_blames_host(&w, pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(witness_blames_host(&w, pid));
}

static void test_starving(void **state)
{
	struct witness w;
	pid_t busy = child(spin_on_one_processor), starving = child(spin_behind_others);
	int blamed = 0;

	poll(NULL, 0, 100); /* by now both are on that processor */
	for (unsigned i = 0; i < 100 && !blamed; i++) {
		watch(&w, starving);
		poll(NULL, 0, 300);
		blamed = witness_blames_host(&w, starving);
	}
	assert_true(blamed);
	end(starving);
	end(busy);
}

/* Five bytes lie in the kernel, and the report says where. */
static void test_unread(void **state)
{
	struct sockaddr_in here = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(here);
	int listener = socket(AF_INET, SOCK_STREAM, 0), out = socket(AF_INET, SOCK_STREAM, 0);
	struct witness w;
	char *text = NULL;
	size_t text_bytes = 0;

	assert_int_equal(bind(listener, (struct sockaddr *)&here, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&here, &bytes), 0);
	assert_int_equal(connect(out, (struct sockaddr *)&here, bytes), 0);
	int in = accept(listener, NULL, NULL);

	assert_true(in >= 0);
	pid_t pid = child(sleep_on);

	assert_int_equal(send(out, "hello", 5, 0), 5);
	watch(&w, pid);
	FILE *f = open_memstream(&text, &text_bytes);

	assert_non_null(f);
	witness_print(&w, f);
	fclose(f);
	if (!strstr(text, "unread 5,"))
		fail_msg("%s", text);
	free(text);
	end(pid);
	close(in);
	close(out);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_sleeper),
	    cmocka_unit_test(test_dead),
	    cmocka_unit_test(test_starving),
	    cmocka_unit_test(test_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
