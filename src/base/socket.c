/* socket.c: asking the kernel about sockets. */
#include "base/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

uint16_t socket_port(int fd)
{
	struct sockaddr_storage a;
	socklen_t bytes = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &bytes))
		return 0;
	return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
					     : ((struct sockaddr_in *)&a)->sin_port);
}

bool socket_is_left_behind(const struct sockaddr_un *a)
{
	struct stat st;
	int error = errno;

	if (lstat(a->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return false;
	/* One of another type: who is there says so, also when he does not listen yet. */
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused =
	    fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof(*a)) && errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	errno = error;
	return refused;
}
