/* hosts.c: see hosts.h. */
#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void enter(const char *name, int bytes)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "/run/netns/%.*s", bytes, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET)) {
		perror(path);
		_exit(126);
	}
	close(fd);
}

void host_enter(const char *variable, unsigned index)
{
	const char *list = getenv(variable), *at = list;
	unsigned count = 1;

	if (!list)
		return;
	while ((at = strchr(at, ','))) {
		at++;
		count++;
	}
	at = list;
	for (unsigned i = 0; i < index % count; i++)
		at = strchr(at, ',') + 1;
	enter(at, (int)strcspn(at, ","));
}
