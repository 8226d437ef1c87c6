/*
 * tempdir.c: locks on directories.
 *
 * The argument.  Who makes a directory has no lock on it for a moment, and somebody who sweeps may
 * lock and remove it then.  So the maker waits for its shared lock, and then looks whether the
 * directory is still there; if not it makes another one.  Once it has the lock nobody else gets one
 * of his own, which is what removing needs.
 */
#include "support/tempdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHERE  "/tmp"
#define PREFIX "forge-tmp-"
/* Each is taken away by somebody who sweeps. */
#define TRIES_MAX 100u

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
	return remove(path);
}

static int remove_tree(const char *path)
{
	return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void sweep(const char *name)
{
	char path[512];
	struct stat s;

	snprintf(path, sizeof(path), WHERE "/%s", name);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &s) == 0 && s.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0)
		remove_tree(path);
	close(fd);
}

void tempdir_sweep(void)
{
	DIR *d = opendir(WHERE);

	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0)
			sweep(e->d_name);
	if (d)
		closedir(d);
}

/* 1: it is ours; 0: somebody has removed it; -1 with errno. */
static int take(struct tempdir *t)
{
	struct stat s, named;

	t->lock = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->lock < 0)
		return 0;
	if (flock(t->lock, LOCK_SH) == 0 && fstat(t->lock, &s) == 0) {
		if (stat(t->path, &named) == 0 && named.st_ino == s.st_ino)
			return 1;
		close(t->lock);
		return 0;
	}
	close(t->lock);
	return -1;
}

int tempdir_make(struct tempdir *t)
{
	static int has_swept;
	int taken = 0;

	if (!has_swept)
		tempdir_sweep();
	has_swept = 1;
	for (unsigned i = 0; i < TRIES_MAX && taken == 0; i++) {
		snprintf(t->path, sizeof(t->path), WHERE "/" PREFIX "%ld-XXXXXX", (long)getpid());
		if (!mkdtemp(t->path))
			return -1;
		taken = take(t);
	}
	return taken == 1 ? 0 : -1;
}

int tempdir_remove(struct tempdir *t)
{
	int status = remove_tree(t->path);

	close(t->lock);
	return status;
}
