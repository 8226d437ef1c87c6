/* shm_place.c: names of shared memory, what they stand for, and sentences about them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/shm_inside.h"

int shm_fail(struct error_out e, int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(e.text, e.bytes, format, args);
	va_end(args);
	return status;
}

/* From here, or from the root, and something behind it. */
static int is_place(const struct shm_place *p)
{
	const char *path = p->path;

	if (!p->is_posix && path[0] == '.')
		path++;
	return path[0] == '/' && path[1] != '\0';
}

int shm_place_parse(const char *where, struct error_out e, struct shm_place *out)
{
	struct shm_place p = {.where = where};

	if (strncmp(where, "shm:", 4) == 0) {
		p.path = where + 4;
		p.is_posix = 1;
	} else if (strncmp(where, "file:", 5) == 0) {
		p.path = where + 5;
	} else {
		p.path = where;
	}
	if (!is_place(&p))
		return shm_fail(
		    e, FORGE_E_INVAL,
		    "'%s' names no shared memory: write shm:/name, file:/path, /path or "
		    "./path",
		    where);
	if (p.is_posix && strchr(p.path + 1, '/'))
		return shm_fail(e, FORGE_E_INVAL,
				"'%s' has a slash inside the name: for a file write file:/path",
				where);
	if (p.is_posix && strlen(p.path + 1) > NAME_MAX)
		return shm_fail(e, FORGE_E_INVAL, "'%.20s...' is longer than %d bytes: shorten it",
				where, NAME_MAX);
	if (p.is_posix && strchr(p.path, '?'))
		return shm_fail(
		    e, FORGE_E_INVAL,
		    "'%s' has a '?', but a memory node's own name has no options: leave it "
		    "out",
		    where);
	if (p.is_posix && (strcmp(p.path, "/.") == 0 || strcmp(p.path, "/..") == 0))
		return shm_fail(e, FORGE_E_INVAL, "'%s' is a directory: choose another name",
				where);
	*out = p;
	return FORGE_OK;
}

/* A name may stand for anything: without O_NONBLOCK a FIFO would wait for its other end. */
int shm_place_open(const struct shm_place *p, int flags)
{
	flags |= O_NONBLOCK;
	if (p->is_posix)
		return shm_open(p->path, flags | O_CLOEXEC, 0660);
	return open(p->path, flags | O_CLOEXEC, 0660);
}

int shm_place_unlink(const struct shm_place *p)
{
	return p->is_posix ? shm_unlink(p->path) : unlink(p->path);
}

/* Is a file's path wrong before its last slash? */
static int directory_is_absent(const struct shm_place *p)
{
	const char *slash = strrchr(p->path, '/');
	char directory[PATH_MAX];
	struct stat st;

	if (p->is_posix || slash == p->path || (size_t)(slash - p->path) >= sizeof(directory))
		return 0;
	memcpy(directory, p->path, (size_t)(slash - p->path));
	directory[slash - p->path] = '\0';
	return stat(directory, &st) != 0 || !S_ISDIR(st.st_mode);
}

/* Turn the errno of a failed open, create or unlink into a status and a sentence. */
int shm_place_fail(const struct shm_place *p, int error, const char *what, struct error_out e)
{
	switch (error) {
	case EEXIST:
		return shm_fail(e, FORGE_E_POOL_EXISTS,
				"%s exists already: choose another name or remove it first",
				p->where);
	case ENAMETOOLONG:
		return shm_fail(e, FORGE_E_INVAL, "cannot %s %s: the name is too long: shorten it",
				what, p->where);
	case ENOENT:
	case ENOTDIR:
		if (directory_is_absent(p))
			return shm_fail(
			    e, FORGE_E_POOL_ABSENT,
			    "there is no directory for %s: check the path, or make it with "
			    "mkdir",
			    p->where);
		return shm_fail(e, FORGE_E_POOL_ABSENT,
				"there is no %s: check the name, or start its memory node with "
				"'forge node'",
				p->where);
	case EACCES:
	case EPERM:
		return shm_fail(e, FORGE_E_SYSTEM,
				"no permission to %s %s: run as its owner or change its mode", what,
				p->where);
	case EMFILE:
	case ENFILE:
		return shm_fail(e, FORGE_E_SYSTEM, "cannot %s %s: %s; raise the limit (ulimit -n)",
				what, p->where, strerror(error));
	default:
		return shm_fail(e, FORGE_E_SYSTEM, "cannot %s %s: %s", what, p->where,
				strerror(error));
	}
}

/* Open the place and make sure that it is a file; the descriptor, or an error. */
int shm_place_open_file(const struct shm_place *p, int flags, struct error_out e)
{
	struct stat s;
	int fd = shm_place_open(p, flags);

	if (fd < 0 && errno != EISDIR)
		return shm_place_fail(p, errno, "open", e);
	if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	return shm_fail(e, FORGE_E_INVAL, "%s is not a regular file: name the pool's file",
			p->where);
}

/*
 * Does the name stand for that file?  1, 0, or an error.  One without links has no name any more,
 * though it may be found by it a moment longer: inotify tells of an unlink() in that moment.
 */
int shm_place_is_named(const struct shm_place *p, dev_t device, ino_t inode, struct error_out e)
{
	struct stat named;
	int fd = shm_place_open_file(p, O_RDONLY, e), same;

	if (fd < 0)
		return fd;
	same = fstat(fd, &named) == 0 && device == named.st_dev && inode == named.st_ino &&
	       named.st_nlink > 0;
	close(fd);
	return same;
}
