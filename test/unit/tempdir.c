/*
 * tempdir.c: temporary directories of tests: that of a test that was killed is removed by the next
 * one, and those of tests that live, and of their children, are not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/tempdir.h"

static int is_there(const struct tempdir *t)
{
	struct stat s;

	return stat(t->path, &s) == 0;
}

static void fill(const struct tempdir *t)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/inner", t->path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/inner/file", t->path);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* A process with a directory, which then does nothing. */
static pid_t start(struct tempdir *t)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();

	if (pid == 0) {
		struct tempdir own;

		if (tempdir_make(&own))
			_exit(1);
		fill(&own);
		if (write(ends[1], &own, sizeof(own)) != sizeof(own))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ends[0], t, sizeof(*t)), sizeof(*t));
	close(ends[0]);
	close(ends[1]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_of_the_dead(void **state)
{
	struct tempdir mine, dead, living;
	char name[48];

	assert_int_equal(tempdir_make(&mine), 0);
	snprintf(name, sizeof(name), "/tmp/forge-tmp-%ld-", (long)getpid());
	assert_int_equal(strncmp(mine.path, name, strlen(name)), 0);
	fill(&mine);
	pid_t lives = start(&living), dies = start(&dead);

	tempdir_sweep();
	assert_true(is_there(&mine) && is_there(&living) && is_there(&dead));
	end(dies);
	tempdir_sweep();
	assert_true(is_there(&mine) && is_there(&living) && !is_there(&dead));
	end(lives);
	tempdir_sweep();
	assert_true(is_there(&mine) && !is_there(&living));
	assert_int_equal(tempdir_remove(&mine), 0);
	assert_false(is_there(&mine));
}

/* What a child that was forked still uses stays as long as it lives. */
static void test_of_a_child(void **state)
{
	struct tempdir mine;

	assert_int_equal(tempdir_make(&mine), 0);
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	close(mine.lock);
	tempdir_sweep();
	assert_true(is_there(&mine));
	end(child);
	tempdir_sweep();
	assert_false(is_there(&mine));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_of_the_dead),
	    cmocka_unit_test(test_of_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
