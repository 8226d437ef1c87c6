/* child.c: a process of its own. */
#include "support/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int child_run(int (*run)(void *context), void *context)
{
	int status;

	fflush(stdout);
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit no_core = {0, 0};

		setrlimit(RLIMIT_CORE, &no_core);
		fclose(stderr); /* what an assertion says */
		signal(SIGABRT, SIG_DFL);
		_exit(run(context));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGABRT);
		return CHILD_ASSERTED;
	}
	return WEXITSTATUS(status);
}
