/* shm_hold.c: exports are held by locks of the kernel, and looked at without being mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/shm.h"
#include "fabric/shm_inside.h"

struct shm_hold {
	int fd;
	struct shm_place place; /* of where, which is a copy */
	char where[];
};

static int hold_is_named(const struct shm_place *p, int held_fd, struct error_out e)
{
	struct stat held;

	return fstat(held_fd, &held) == 0 && shm_place_is_named(p, held.st_dev, held.st_ino, e);
}

/* An unheld hold on where; NULL with the error in *status. */
static struct shm_hold *hold_init(const char *where, struct error_out e, int *status)
{
	struct shm_hold *hold = malloc(sizeof(*hold) + strlen(where) + 1);

	if (!hold) {
		*status = shm_fail(e, FORGE_E_NO_MEMORY, "out of memory while opening %s", where);
		return NULL;
	}
	strcpy(hold->where, where);
	hold->fd = -1;
	*status = shm_place_parse(hold->where, e, &hold->place);
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
		return shm_fail(e, FORGE_E_AGAIN, "%s is held by another process", hold->where);
	if (failed)
		return shm_place_fail(&hold->place, errno, "lock", e);
	/* Its holder may have removed the name between our open and our lock. */
	named = hold_is_named(&hold->place, hold->fd, e);
	if (named == 0)
		return shm_fail(e, FORGE_E_AGAIN, "%s was replaced just now", hold->where);
	return named < 0 ? named : FORGE_OK;
}

static int hold_open(const char *where, struct hold_bytes bytes, struct error_out e,
		     struct shm_hold **out)
{
	int status;
	struct shm_hold *hold = hold_init(where, e, &status);

	if (!hold)
		return status;
	hold->fd = shm_place_open_file(&hold->place, O_RDWR, e);
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

static int write_first(const struct shm_hold *hold, const void *first, size_t bytes,
		       struct error_out e)
{
	ssize_t n = pwrite(hold->fd, first, bytes, 0);

	return n == (ssize_t)bytes
		   ? FORGE_OK
		   : shm_place_fail(&hold->place, n < 0 ? errno : ENOSPC, "write to", e);
}

int shm_hold_create(const char *where, uint64_t bytes, uint64_t byte_index, const void *first,
		    size_t first_bytes, char *error_text, size_t error_bytes, struct shm_hold **out)
{
	struct error_out e = {error_text, error_bytes};
	int status;
	struct shm_hold *hold = hold_init(where, e, &status);

	if (!hold)
		return status;
	hold->fd = shm_export_create_empty(&hold->place, bytes, e);
	status = hold->fd < 0
		     ? hold->fd
		     : hold_lock(hold, (struct hold_bytes){byte_index, 1}, F_OFD_SETLKW, e);
	if (status == FORGE_OK) {
		status = write_first(hold, first, first_bytes, e);
		if (status == FORGE_OK)
			status = shm_export_fill(&hold->place, hold->fd, bytes, e);
		if (status != FORGE_OK)
			shm_place_unlink(&hold->place);
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
		return shm_fail(e, FORGE_E_POOL_ABSENT,
				"%s is another file by now and was left alone: see who made it",
				hold->where);
	return shm_export_unlink(hold->where, error_text, error_bytes);
}

int shm_peek_most(const char *where, void *buf, size_t bytes, size_t *got, char *error_text,
		  size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = shm_place_parse(where, e, &p), fd;
	ssize_t n;

	if (status != FORGE_OK)
		return status;
	fd = shm_place_open_file(&p, O_RDONLY, e);
	if (fd < 0)
		return fd;
	n = pread(fd, buf, bytes, 0);
	if (n < 0)
		status = shm_place_fail(&p, errno, "read", e);
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
	return shm_fail((struct error_out){error_text, error_bytes}, FORGE_E_POOL_TRUNCATED,
			"%s has fewer bytes", where);
}

int shm_is_held(const char *where, uint64_t byte_index, char *error_text, size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct flock lock = {.l_type = F_RDLCK, .l_start = (off_t)byte_index, .l_len = 1};
	struct shm_place p;
	int status = shm_place_parse(where, e, &p), fd;

	if (status != FORGE_OK)
		return status;
	fd = shm_place_open_file(&p, O_RDONLY, e);
	if (fd < 0)
		return fd;
	status = fcntl(fd, F_OFD_GETLK, &lock) == 0
		     ? lock.l_type != F_UNLCK
		     : shm_place_fail(&p, errno, "ask for a lock of", e);
	close(fd);
	return status;
}
