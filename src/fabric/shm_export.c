/*
 * shm_export.c: exports in shared memory are made, with space for every byte, and removed.
 *
 * A store to a page that the file system cannot supply kills the process with SIGBUS, long after
 * anybody could explain it.  So creation reserves every byte, and opening (shm.c) reserves again,
 * in case that somebody copied the file with holes: a walk over all of it, which is left out by who
 * has just created it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fabric/shm.h"
#include "fabric/shm_fill.h"
#include "fabric/shm_inside.h"

/* What the host could still give to a file in memory; UINT64_MAX when it does not say. */
static uint64_t memory_available_bytes(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib, sum_kib = 0;
	int found = 0;
	char line[128];

	if (!f)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
			found = 1;
		else if (sscanf(line, "SwapFree: %llu", &kib) != 1)
			continue;
		sum_kib += kib;
	}
	fclose(f);
	return found ? (uint64_t)sum_kib * 1024 : UINT64_MAX;
}

/*
 * A tmpfs may promise more than the host has; who takes it at its word is killed for it.  One
 * that is mounted without a limit reports no blocks at all.
 */
static uint64_t free_bytes(int fd)
{
	uint64_t bytes = UINT64_MAX;
	struct statfs s;

	if (fstatfs(fd, &s) != 0)
		return bytes;
	if (s.f_blocks > 0)
		bytes = (uint64_t)s.f_bavail * (uint64_t)s.f_bsize;
	if (s.f_type == TMPFS_MAGIC)
		bytes = min_u64(bytes, memory_available_bytes());
	return bytes;
}

static int fail_space(const struct shm_place *p, int fd, uint64_t bytes, struct error_out e)
{
	return shm_fail(
	    e, FORGE_E_POOL_SPACE,
	    "no space for %s: %llu bytes needed, %llu free; make the pool smaller or give "
	    "its file system more%s",
	    p->where, (unsigned long long)bytes, (unsigned long long)free_bytes(fd),
	    p->is_posix ? " (mount -o remount,size=... /dev/shm)" : "");
}

/* Asked to stop while it was being made or mapped. */
int shm_fail_stopped(const struct shm_place *p, struct error_out e)
{
	return shm_fail(e, FORGE_E_SYSTEM, "%s: stopped by a signal before it was ready", p->where);
}

/* After reserving its bytes ended with an errno, or 0. */
static int reserved(const struct shm_place *p, int error, int fd, uint64_t bytes,
		    struct error_out e)
{
	struct rlimit limit;

	if (error == ECANCELED)
		return shm_fail_stopped(p, e);
	if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		return shm_fail(
		    e, FORGE_E_POOL_SPACE,
		    "%s needs %llu bytes, and this process may make files of %llu at most: "
		    "raise the limit (ulimit -f)",
		    p->where, (unsigned long long)bytes, (unsigned long long)limit.rlim_cur);
	if (error == ENOSPC || error == EFBIG || error == ENOMEM || error == EDQUOT)
		return fail_space(p, fd, bytes, e);
	if (error != 0)
		return shm_place_fail(p, error, "reserve space for", e);
	return FORGE_OK;
}

int shm_export_reserve(const struct shm_place *p, int fd, uint64_t bytes, struct error_out e)
{
	return reserved(p, shm_fill_reserve(p->where, fd, bytes), fd, bytes, e);
}

/* Create the file, still empty; its descriptor, or an error. */
int shm_export_create_empty(const struct shm_place *p, uint64_t bytes, struct error_out e)
{
	int fd;

	if (bytes < SHM_EXPORT_BYTES_MIN || bytes % 8 != 0 || bytes > INT64_MAX)
		return shm_fail(e, FORGE_E_INVAL,
				"%s cannot have %llu bytes: use a multiple of 8, at least %u",
				p->where, (unsigned long long)bytes, SHM_EXPORT_BYTES_MIN);
	fd = shm_place_open(p, O_RDWR | O_CREAT | O_EXCL);
	if (fd >= 0)
		return fd;
	return errno == ENOSPC ? shm_fail(e, FORGE_E_POOL_SPACE,
					  "no space even for the name of %s: free some", p->where)
			       : shm_place_fail(p, errno, "create", e);
}

/* Ask before taking: a refused fallocate may first have filled all of memory. */
int shm_export_fill(const struct shm_place *p, int fd, uint64_t bytes, struct error_out e)
{
	if (free_bytes(fd) < bytes)
		return fail_space(p, fd, bytes, e);
	return reserved(p, shm_fill_make(p->where, fd, bytes), fd, bytes, e);
}

int shm_export_create(const char *where, uint64_t bytes, int flags, char *error_text,
		      size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status, fd;

	if (flags != 0)
		return shm_fail(e, FORGE_E_INVAL, "unknown flags 0x%x", (unsigned)flags);
	status = shm_place_parse(where, e, &p);
	if (status != FORGE_OK)
		return status;
	fd = shm_export_create_empty(&p, bytes, e);
	if (fd < 0)
		return fd;
	status = shm_export_fill(&p, fd, bytes, e);
	if (status != FORGE_OK)
		shm_place_unlink(&p);
	close(fd);
	return status;
}

int shm_export_unlink(const char *where, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = shm_place_parse(where, e, &p);

	if (status != FORGE_OK)
		return status;
	if (shm_place_unlink(&p) != 0)
		return shm_place_fail(&p, errno, "remove", e);
	return FORGE_OK;
}
