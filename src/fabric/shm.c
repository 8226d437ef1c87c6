/*
 * shm.c: exports, mappings and connections in shared memory.
 *
 * A store to a page that the file system cannot supply kills the process with SIGBUS, long after
 * anybody could explain it.  So creation reserves every byte, and opening reserves again, which
 * costs nothing unless somebody copied the file with holes.  Pages are then faulted in before the
 * first verb, since a first touch costs a hundred times a READ.
 */
#include "fabric/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"
#include "fabric/memory.h"
#include "fabric/shm_fill.h"

struct shm_map {
	void *base;
	uint64_t bytes;
	int flags;    /* SHM_MAP_... */
	dev_t device; /* which file it is, whatever has its name by now */
	ino_t inode;
};

/* Where an error sentence goes. */
struct error_out {
	char *text;
	size_t bytes;
};

/* A parsed `where`. */
struct shm_place {
	const char *where; /* as the user wrote it, for messages */
	const char *path;
	int is_posix;
};

PRINTF_LIKE(3, 4)
static int fail(struct error_out e, int status, const char *format, ...)
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

static int place_parse(const char *where, struct error_out e, struct shm_place *out)
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
		return fail(e, FORGE_E_INVAL,
			    "'%s' names no shared memory: write shm:/name, file:/path, /path or "
			    "./path",
			    where);
	if (p.is_posix && strchr(p.path + 1, '/'))
		return fail(e, FORGE_E_INVAL,
			    "'%s' has a slash inside the name: for a file write file:/path", where);
	if (p.is_posix && strlen(p.path + 1) > NAME_MAX)
		return fail(e, FORGE_E_INVAL, "'%.20s...' is longer than %d bytes: shorten it",
			    where, NAME_MAX);
	if (p.is_posix ? strchr(p.path, '?') : strstr(p.path, "?latency="))
		return fail(e, FORGE_E_INVAL,
			    "'%s' has a '?', but a memory node's own name has no options: leave it "
			    "out",
			    where);
	if (p.is_posix && (strcmp(p.path, "/.") == 0 || strcmp(p.path, "/..") == 0))
		return fail(e, FORGE_E_INVAL, "'%s' is a directory: choose another name", where);
	*out = p;
	return FORGE_OK;
}

/* A name may stand for anything: without O_NONBLOCK a FIFO would wait for its other end. */
static int place_open(const struct shm_place *p, int flags)
{
	flags |= O_NONBLOCK;
	if (p->is_posix)
		return shm_open(p->path, flags | O_CLOEXEC, 0660);
	return open(p->path, flags | O_CLOEXEC, 0660);
}

static int place_unlink(const struct shm_place *p)
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
static int fail_errno(const struct shm_place *p, int error, const char *what, struct error_out e)
{
	switch (error) {
	case EEXIST:
		return fail(e, FORGE_E_POOL_EXISTS,
			    "%s exists already: choose another name or remove it first", p->where);
	case ENAMETOOLONG:
		return fail(e, FORGE_E_INVAL, "cannot %s %s: the name is too long: shorten it",
			    what, p->where);
	case ENOENT:
	case ENOTDIR:
		if (directory_is_absent(p))
			return fail(e, FORGE_E_POOL_ABSENT,
				    "there is no directory for %s: check the path, or make it with "
				    "mkdir",
				    p->where);
		return fail(e, FORGE_E_POOL_ABSENT,
			    "there is no %s: check the name, or create the pool first", p->where);
	case EACCES:
	case EPERM:
		return fail(e, FORGE_E_SYSTEM,
			    "no permission to %s %s: run as its owner or change its mode", what,
			    p->where);
	case EMFILE:
	case ENFILE:
		return fail(e, FORGE_E_SYSTEM, "cannot %s %s: %s; raise the limit (ulimit -n)",
			    what, p->where, strerror(error));
	default:
		return fail(e, FORGE_E_SYSTEM, "cannot %s %s: %s", what, p->where, strerror(error));
	}
}

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
	return fail(e, FORGE_E_POOL_SPACE,
		    "no space for %s: %llu bytes needed, %llu free; make the pool smaller or give "
		    "its file system more%s",
		    p->where, (unsigned long long)bytes, (unsigned long long)free_bytes(fd),
		    p->is_posix ? " (mount -o remount,size=... /dev/shm)" : "");
}

/* Asked to stop while it was being made or mapped. */
static int fail_stopped(const struct shm_place *p, struct error_out e)
{
	return fail(e, FORGE_E_SYSTEM, "%s: stopped by a signal before it was ready", p->where);
}

/* Reserve [0, bytes); only the holes cost anything. */
static int reserve(const struct shm_place *p, int fd, uint64_t bytes, struct error_out e)
{
	int error = shm_fill_reserve(p->where, fd, bytes);
	struct rlimit limit;

	if (error == ECANCELED)
		return fail_stopped(p, e);
	if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
		return fail(e, FORGE_E_POOL_SPACE,
			    "%s needs %llu bytes, and this process may make files of %llu at most: "
			    "raise the limit (ulimit -f)",
			    p->where, (unsigned long long)bytes,
			    (unsigned long long)limit.rlim_cur);
	if (error == ENOSPC || error == EFBIG || error == ENOMEM || error == EDQUOT)
		return fail_space(p, fd, bytes, e);
	if (error != 0)
		return fail_errno(p, error, "reserve space for", e);
	return FORGE_OK;
}

/* Create the file, still empty; its descriptor, or an error. */
static int create_empty(const struct shm_place *p, uint64_t bytes, struct error_out e)
{
	int fd;

	if (bytes < SHM_EXPORT_BYTES_MIN || bytes % 8 != 0 || bytes > INT64_MAX)
		return fail(e, FORGE_E_INVAL,
			    "%s cannot have %llu bytes: use a multiple of 8, at least %u", p->where,
			    (unsigned long long)bytes, SHM_EXPORT_BYTES_MIN);
	fd = place_open(p, O_RDWR | O_CREAT | O_EXCL);
	if (fd >= 0)
		return fd;
	return errno == ENOSPC ? fail(e, FORGE_E_POOL_SPACE,
				      "no space even for the name of %s: free some", p->where)
			       : fail_errno(p, errno, "create", e);
}

/* Ask before taking: a refused fallocate may first have filled all of memory. */
static int fill(const struct shm_place *p, int fd, uint64_t bytes, struct error_out e)
{
	return free_bytes(fd) < bytes ? fail_space(p, fd, bytes, e) : reserve(p, fd, bytes, e);
}

int shm_export_create(const char *where, uint64_t bytes, int flags, char *error_text,
		      size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status, fd;

	if (flags != 0)
		return fail(e, FORGE_E_INVAL, "unknown flags 0x%x", (unsigned)flags);
	status = place_parse(where, e, &p);
	if (status != FORGE_OK)
		return status;
	fd = create_empty(&p, bytes, e);
	if (fd < 0)
		return fd;
	status = fill(&p, fd, bytes, e);
	if (status != FORGE_OK)
		place_unlink(&p);
	close(fd);
	return status;
}

int shm_export_unlink(const char *where, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = place_parse(where, e, &p);

	if (status != FORGE_OK)
		return status;
	if (place_unlink(&p) != 0)
		return fail_errno(&p, errno, "remove", e);
	return FORGE_OK;
}

static int populate(const struct shm_place *p, void *base, uint64_t bytes, struct error_out e)
{
	int error = shm_fill_populate(p->where, base, bytes);

	if (error == ECANCELED)
		return fail_stopped(p, e);
	if (error)
		return fail(e, FORGE_E_SYSTEM, "cannot fault in %llu bytes of %s: %s",
			    (unsigned long long)bytes, p->where, strerror(error));
	return FORGE_OK;
}

/* The size of the export behind fd, or an error that says why it cannot be one. */
static int export_bytes(const struct shm_place *p, int fd, struct error_out e, uint64_t *out)
{
	struct stat s;

	if (fstat(fd, &s) != 0)
		return fail_errno(p, errno, "examine", e);
	if (!S_ISREG(s.st_mode))
		return fail(e, FORGE_E_INVAL, "%s is not a regular file: name the pool's file",
			    p->where);
	if (s.st_size == 0)
		return fail(e, FORGE_E_POOL_TRUNCATED,
			    "%s is empty: it is being created, or its creation was cut short; if "
			    "it stays so, remove it and create the pool again",
			    p->where);
	if ((uint64_t)s.st_size < SHM_EXPORT_BYTES_MIN || s.st_size % 8 != 0)
		return fail(e, FORGE_E_POOL_TRUNCATED,
			    "%s has %lld bytes, which no pool has: remove it and create the pool "
			    "again",
			    p->where, (long long)s.st_size);
	*out = (uint64_t)s.st_size;
	return FORGE_OK;
}

static int map_fd(const struct shm_place *p, int fd, struct error_out e, struct shm_map *map)
{
	int read_only = map->flags & SHM_MAP_READ_ONLY;
	int protection = read_only ? PROT_READ : PROT_READ | PROT_WRITE;
	int status = export_bytes(p, fd, e, &map->bytes);
	struct stat s;

	if (status == FORGE_OK && !read_only)
		status = reserve(p, fd, map->bytes, e);
	if (status != FORGE_OK)
		return status;
	if (fstat(fd, &s) != 0)
		return fail_errno(p, errno, "examine", e);
	map->device = s.st_dev;
	map->inode = s.st_ino;
	map->base = mmap(NULL, map->bytes, protection, MAP_SHARED, fd, 0);
	if (map->base == MAP_FAILED)
		return fail(e, errno == ENOMEM ? FORGE_E_NO_MEMORY : FORGE_E_SYSTEM,
			    "cannot map the %llu bytes of %s: %s", (unsigned long long)map->bytes,
			    p->where, strerror(errno));
	/* Fewer TLB misses where the file system has huge pages; refused elsewhere, harmlessly. */
	madvise(map->base, map->bytes, MADV_HUGEPAGE);
	if (!(map->flags & (SHM_MAP_LAZY | SHM_MAP_READ_ONLY)))
		status = populate(p, map->base, map->bytes, e);
	if (status != FORGE_OK)
		munmap(map->base, map->bytes);
	return status;
}

int shm_map_open(const char *where, int flags, char *error_text, size_t error_bytes,
		 struct shm_map **out)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	struct shm_map *map;
	int status, fd;

	status = place_parse(where, e, &p);
	if (status != FORGE_OK)
		return status;
	fd = place_open(&p, flags & SHM_MAP_READ_ONLY ? O_RDONLY : O_RDWR);
	if (fd < 0)
		return fail_errno(&p, errno, "open", e);
	map = calloc(1, sizeof(*map));
	if (!map) {
		status = fail(e, FORGE_E_NO_MEMORY, "out of memory while opening %s", where);
		goto out;
	}
	map->flags = flags;
	status = map_fd(&p, fd, e, map);
	if (status == FORGE_OK)
		*out = map;
	else
		free(map);
out:
	close(fd);
	return status;
}

void shm_map_close(struct shm_map *map)
{
	if (!map)
		return;
	munmap(map->base, map->bytes);
	free(map);
}

void *shm_map_base(const struct shm_map *map)
{
	return map->base;
}

uint64_t shm_map_bytes(const struct shm_map *map)
{
	return map->bytes;
}

static void shm_close(struct fab *f)
{
	free(f);
}

static const struct fab_provider shm_provider = {
    .name = "shm",
    .close = shm_close,
    .reg = memory_reg,
    .post = memory_post,
    .kick = memory_kick,
    .poll = memory_poll,
};

int shm_open_connection(struct shm_map *map, struct fab **out)
{
	struct memory_fab *m;

	if (map->flags & SHM_MAP_READ_ONLY)
		return FORGE_E_INVAL;
	m = malloc(sizeof(*m));
	if (!m)
		return FORGE_E_NO_MEMORY;
	memory_init(m, &shm_provider, map->base, map->bytes);
	*out = (struct fab *)m;
	return FORGE_OK;
}

struct shm_hold {
	int fd;
	struct shm_place place; /* of where, which is a copy */
	char where[];
};

/* Open the place and make sure that it is a file; the descriptor, or an error. */
static int hold_fd(const struct shm_place *p, int flags, struct error_out e)
{
	struct stat s;
	int fd = place_open(p, flags);

	if (fd < 0 && errno != EISDIR)
		return fail_errno(p, errno, "open", e);
	if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	return fail(e, FORGE_E_INVAL, "%s is not a regular file: name the pool's file", p->where);
}

/* Does the name stand for that file?  1, 0, or an error. */
static int is_named(const struct shm_place *p, dev_t device, ino_t inode, struct error_out e)
{
	struct stat named;
	int fd = hold_fd(p, O_RDONLY, e), same;

	if (fd < 0)
		return fd;
	same = fstat(fd, &named) == 0 && device == named.st_dev && inode == named.st_ino;
	close(fd);
	return same;
}

static int hold_is_named(const struct shm_place *p, int held_fd, struct error_out e)
{
	struct stat held;

	return fstat(held_fd, &held) == 0 && is_named(p, held.st_dev, held.st_ino, e);
}

int shm_map_is_named(const struct shm_map *map, const char *where, char *error_text,
		     size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = place_parse(where, e, &p);

	return status != FORGE_OK ? status : is_named(&p, map->device, map->inode, e);
}

/* An unheld hold on where; NULL with the error in *status. */
static struct shm_hold *hold_init(const char *where, struct error_out e, int *status)
{
	struct shm_hold *hold = malloc(sizeof(*hold) + strlen(where) + 1);

	if (!hold) {
		*status = fail(e, FORGE_E_NO_MEMORY, "out of memory while opening %s", where);
		return NULL;
	}
	strcpy(hold->where, where);
	hold->fd = -1;
	*status = place_parse(hold->where, e, &hold->place);
	if (*status == FORGE_OK)
		return hold;
	free(hold);
	return NULL;
}

/* Bytes of an export to be locked. */
struct hold_bytes {
	uint64_t first, count;
};

/* Lock the bytes, at once or not at all, or after whoever has them lets go. */
static int hold_lock(struct shm_hold *hold, struct hold_bytes bytes, int command,
		     struct error_out e)
{
	struct flock lock = {
	    .l_type = F_WRLCK, .l_start = (off_t)bytes.first, .l_len = (off_t)bytes.count};
	int named, failed;

	do {
		failed = fcntl(hold->fd, command, &lock) != 0;
	} while (failed && errno == EINTR);
	if (failed && (errno == EAGAIN || errno == EACCES))
		return fail(e, FORGE_E_AGAIN, "%s is held by another process", hold->where);
	if (failed)
		return fail_errno(&hold->place, errno, "lock", e);
	/* Its holder may have removed the name between our open and our lock. */
	named = hold_is_named(&hold->place, hold->fd, e);
	if (named == 0)
		return fail(e, FORGE_E_AGAIN, "%s was replaced just now", hold->where);
	return named < 0 ? named : FORGE_OK;
}

static int hold_open(const char *where, struct hold_bytes bytes, struct error_out e,
		     struct shm_hold **out)
{
	int status;
	struct shm_hold *hold = hold_init(where, e, &status);

	if (!hold)
		return status;
	hold->fd = hold_fd(&hold->place, O_RDWR, e);
	status = hold->fd < 0 ? hold->fd : hold_lock(hold, bytes, F_OFD_SETLK, e);
	if (status == FORGE_OK)
		*out = hold;
	else
		shm_hold_close(hold);
	return status;
}

int shm_hold_open(const char *where, uint64_t byte_index, char *error_text, size_t error_bytes,
		  struct shm_hold **out)
{
	return hold_open(where, (struct hold_bytes){byte_index, 1},
			 (struct error_out){error_text, error_bytes}, out);
}

int shm_hold_open_all(const char *where, uint64_t byte_count, char *error_text, size_t error_bytes,
		      struct shm_hold **out)
{
	return hold_open(where, (struct hold_bytes){0, byte_count},
			 (struct error_out){error_text, error_bytes}, out);
}

int shm_hold_create(const char *where, uint64_t bytes, uint64_t byte_index, char *error_text,
		    size_t error_bytes, struct shm_hold **out)
{
	struct error_out e = {error_text, error_bytes};
	int status;
	struct shm_hold *hold = hold_init(where, e, &status);

	if (!hold)
		return status;
	hold->fd = create_empty(&hold->place, bytes, e);
	status = hold->fd < 0
		     ? hold->fd
		     : hold_lock(hold, (struct hold_bytes){byte_index, 1}, F_OFD_SETLKW, e);
	if (status == FORGE_OK) {
		status = fill(&hold->place, hold->fd, bytes, e);
		if (status != FORGE_OK)
			place_unlink(&hold->place);
	}
	if (status == FORGE_OK)
		*out = hold;
	else
		shm_hold_close(hold);
	return status;
}

void shm_hold_close(struct shm_hold *hold)
{
	if (!hold)
		return;
	if (hold->fd >= 0)
		close(hold->fd);
	free(hold);
}

size_t shm_hold_peek(const struct shm_hold *hold, void *buf, size_t bytes)
{
	ssize_t n = pread(hold->fd, buf, bytes, 0);

	return n > 0 ? (size_t)n : 0;
}

int shm_hold_unlink(struct shm_hold *hold, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	int named = hold_is_named(&hold->place, hold->fd, e);

	if (named < 0)
		return named;
	if (!named)
		return fail(e, FORGE_E_POOL_ABSENT,
			    "%s is another file by now and was left alone: see who made it",
			    hold->where);
	return shm_export_unlink(hold->where, error_text, error_bytes);
}

int shm_peek_most(const char *where, void *buf, size_t bytes, size_t *got, char *error_text,
		  size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = place_parse(where, e, &p), fd;
	ssize_t n;

	if (status != FORGE_OK)
		return status;
	fd = hold_fd(&p, O_RDONLY, e);
	if (fd < 0)
		return fd;
	n = pread(fd, buf, bytes, 0);
	if (n < 0)
		status = fail_errno(&p, errno, "read", e);
	else
		*got = (size_t)n;
	close(fd);
	return status;
}

int shm_peek(const char *where, void *buf, size_t bytes, char *error_text, size_t error_bytes)
{
	size_t got = 0;
	int status = shm_peek_most(where, buf, bytes, &got, error_text, error_bytes);

	if (status != FORGE_OK || got == bytes)
		return status;
	return fail((struct error_out){error_text, error_bytes}, FORGE_E_POOL_TRUNCATED,
		    "%s has fewer bytes", where);
}

int shm_is_held(const char *where, uint64_t byte_index, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct flock lock = {.l_type = F_RDLCK, .l_start = (off_t)byte_index, .l_len = 1};
	struct shm_place p;
	int status = place_parse(where, e, &p), fd;

	if (status != FORGE_OK)
		return status;
	fd = hold_fd(&p, O_RDONLY, e);
	if (fd < 0)
		return fd;
	status = fcntl(fd, F_OFD_GETLK, &lock) == 0 ? lock.l_type != F_UNLCK
						    : fail_errno(&p, errno, "ask for a lock of", e);
	close(fd);
	return status;
}
