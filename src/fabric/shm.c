/*
 * shm.c: mappings of shared memory, and connections over them.
 *
 * The space is reserved when an export is made, and again when it is mapped (shm_export.c).  Pages
 * are then faulted in before the first verb, since a first touch costs a hundred times a READ.
 */
#include "fabric/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/memory.h"
#include "fabric/shm_fill.h"
#include "fabric/shm_huge.h"
#include "fabric/shm_inside.h"

struct shm_map {
	void *base;
	uint64_t bytes;
	int flags;    /* SHM_MAP_... */
	dev_t device; /* which file it is, whatever has its name by now */
	ino_t inode;
};

static int populate(const struct shm_place *p, void *base, uint64_t bytes, struct error_out e)
{
	int error = shm_fill_populate(p->where, base, bytes);

	if (error == ECANCELED)
		return shm_fail_stopped(p, e);
	if (error)
		return shm_fail(e, FORGE_E_SYSTEM, "cannot fault in %llu bytes of %s: %s",
				(unsigned long long)bytes, p->where, strerror(error));
	return FORGE_OK;
}

/* The size of the export behind fd, or an error that says why it cannot be one. */
static int export_bytes(const struct shm_place *p, int fd, struct error_out e, uint64_t *out)
{
	struct stat s;

	if (fstat(fd, &s) != 0)
		return shm_place_fail(p, errno, "examine", e);
	if (!S_ISREG(s.st_mode))
		return shm_fail(e, FORGE_E_INVAL, "%s is not a regular file: name the pool's file",
				p->where);
	if (s.st_size == 0)
		return shm_fail(e, FORGE_E_POOL_TRUNCATED,
				"%s is empty: wait until its memory node says 'ready'; if none is "
				"making it, 'forge gc --pool' with this name removes it",
				p->where);
	if ((uint64_t)s.st_size < SHM_EXPORT_BYTES_MIN || s.st_size % 8 != 0)
		return shm_fail(
		    e, FORGE_E_POOL_TRUNCATED,
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

	if (status == FORGE_OK && !read_only && !(map->flags & SHM_MAP_RESERVED))
		status = shm_export_reserve(p, fd, map->bytes, e);
	if (status != FORGE_OK)
		return status;
	if (fstat(fd, &s) != 0)
		return shm_place_fail(p, errno, "examine", e);
	map->device = s.st_dev;
	map->inode = s.st_ino;
	map->base = shm_huge_map(fd, map->bytes, protection);
	if (map->base == MAP_FAILED)
		return shm_fail(e, errno == ENOMEM ? FORGE_E_NO_MEMORY : FORGE_E_SYSTEM,
				"cannot map the %llu bytes of %s: %s",
				(unsigned long long)map->bytes, p->where, strerror(errno));
	/* Also where the file system alone decides; refused elsewhere, harmlessly. */
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

	status = shm_place_parse(where, e, &p);
	if (status != FORGE_OK)
		return status;
	fd = shm_place_open(&p, flags & SHM_MAP_READ_ONLY ? O_RDONLY : O_RDWR);
	if (fd < 0)
		return shm_place_fail(&p, errno, "open", e);
	map = calloc(1, sizeof(*map));
	if (!map) {
		status = shm_fail(e, FORGE_E_NO_MEMORY, "out of memory while opening %s", where);
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

uint64_t shm_map_huge_bytes(const struct shm_map *map)
{
	return shm_huge_mapped_bytes(map->base);
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

int shm_map_is_named(const struct shm_map *map, const char *where, char *error_text,
		     size_t error_bytes)
{
	struct error_out e = {error_text, error_bytes};
	struct shm_place p;
	int status = shm_place_parse(where, e, &p);

	return status != FORGE_OK ? status : shm_place_is_named(&p, map->device, map->inode, e);
}
