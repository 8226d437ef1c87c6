/*
 * shm_watch.c: being told by the system that an export may have lost its name.
 *
 * A watch is on the file (inotify(7)), not on its directory, so what others do to names beside it
 * is not heard.  The kernel tells of a file's attributes when its last or any other name is removed
 * or another file takes it, and of a move when the file itself gets another one; writing to it,
 * mapped or not, and locking it say nothing.  It tells of a rename after it, and of an unlink()
 * between that the file has a link less and that the name is not found any more: who looks at once
 * therefore looks at the links, too (shm_place_is_named()).  What is not told: that a directory
 * above it was moved or covered, that a symbolic link on the way leads elsewhere, and what another
 * host, or the other side of an overlay, does to it; and the look may come too soon for an unlink()
 * of a file that has further links.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "fabric/shm.h"
#include "fabric/shm_inside.h"

/* Where shm_open() has its names on Linux. */
#define POSIX_DIRECTORY "/dev/shm"

int shm_watch_open(void)
{
	return inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

int shm_watch_add(int fd, const char *where)
{
	char ignored[64], path[PATH_MAX];
	struct shm_place p;

	if (fd < 0 || shm_place_parse(where, (struct error_out){ignored, sizeof(ignored)}, &p))
		return 0;
	int n = snprintf(path, sizeof(path), "%s%s", p.is_posix ? POSIX_DIRECTORY : "", p.path);

	/* Of a file that is watched already it changes nothing. */
	return n > 0 && (size_t)n < sizeof(path) &&
	       inotify_add_watch(fd, path, IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF) >= 0;
}

void shm_watch_drain(int fd)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));

	while (fd >= 0 && read(fd, events, sizeof(events)) > 0)
		;
}
