/* runqueue.c: reading schedstat. */
#include "base/runqueue.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int runqueue_open(pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/schedstat", (long)tid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

uint64_t runqueue_waited_ns(int fd)
{
	char text[96];
	uint64_t waited_ns;
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%*u %" SCNu64, &waited_ns) == 1 ? waited_ns : 0;
}
