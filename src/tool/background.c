/* background.c: becoming a user, and a process of the background. */
#include "tool/background.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

int background_become(const struct command *c, const char *name)
{
	const struct passwd *user;

	if (geteuid() != 0)
		return 0; /* as memcached: it is for root only */
	errno = 0;
	user = getpwnam(name);
	if (!user)
		return tool_fail(c, "--user=%s: there is no such user", name);
	if (initgroups(name, user->pw_gid) || setgid(user->pw_gid) || setuid(user->pw_uid))
		return tool_fail(c, "cannot become the user %s: %m", name);
	return 0;
}

int background_write_pid(const struct command *c, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f))
		return tool_fail(c, "cannot write --pidfile %s: %m", path);
	return 0;
}

int background_start(const struct command *c, int *ready)
{
	int ends[2];
	char byte;

	if (pipe2(ends, O_CLOEXEC))
		return tool_fail(c, "cannot go to the background: %m");
	pid_t child = fork();

	if (child < 0)
		return tool_fail(c, "cannot go to the background: %m");
	if (child > 0) {
		close(ends[1]);
		return read(ends[0], &byte, 1) == 1 ? TOOL_OK : TOOL_ERROR;
	}
	close(ends[0]);
	setsid();
	*ready = ends[1];
	return -1;
}

void background_ready(int ready)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (write(ready, "r", 1) != 1)
		log_debug("nobody waited for the server");
	close(ready);
	for (int fd = 0; fd < 3 && null >= 0; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}
