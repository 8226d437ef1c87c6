/*
 * link_shm.c: a pool on this host: its memory mapped, its locks the kernel's own (alive.h).
 *
 * Who only looks maps it read-only, which works without permission to write; the connections are
 * then such that can do nothing but READ.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "client/alive.h"
#include "client/link.h"
#include "client/name.h"
#include "fabric/loop.h"
#include "fabric/shm.h"
#include "layout/plan.h"

struct shm_link {
	struct link link;
	struct shm_map *map;
	struct alive *alive;
	int flags;
	char where[];
};

static struct shm_link *shm_link(struct link *l)
{
	return (struct shm_link *)l;
}

static void close_shm(struct link *l)
{
	struct shm_link *s = shm_link(l);

	alive_close(s->alive);
	shm_map_close(s->map);
	free(s);
}

/* Before anything is said of a file that may be anybody's. */
static int check_is_pool(const char *where, char *error_text, size_t error_bytes)
{
	uint64_t head[LAYOUT_SUPERBLOCK_BYTES / 8] = {0};
	size_t bytes;
	int status = shm_peek_most(where, head, sizeof(head), &bytes, error_text, error_bytes);

	if (status || layout_is_of_a_pool(head, bytes))
		return status;
	snprintf(error_text, error_bytes, "%s is not a FORGE pool: check the name", where);
	return FORGE_E_NOT_A_POOL;
}

static int open_shm(const struct pool_name *name, int flags, const struct pass_wish *beside,
		    struct cancel *cancel, struct link **out, char *error_text, size_t error_bytes)
{
	const char *where = name->where;
	struct shm_link *s = calloc(1, sizeof(*s) + strlen(where) + 1);
	int map_flags = (flags & LINK_LAZY ? SHM_MAP_LAZY : 0) |
			(flags & LINK_READ_ONLY ? SHM_MAP_READ_ONLY : 0);

	if (!s) {
		snprintf(error_text, error_bytes, "%s", status_sentence(FORGE_E_NO_MEMORY));
		return FORGE_E_NO_MEMORY;
	}
	strcpy(s->where, where);
	s->flags = flags;
	int status = check_is_pool(where, error_text, error_bytes);

	if (!status)
		status = shm_map_open(where, map_flags, error_text, error_bytes, &s->map);

	if (!status) {
		status = alive_open(where, s->map, &s->alive);
		if (status)
			snprintf(error_text, error_bytes, "%s", status_sentence(status));
	}
	if (status) {
		close_shm(&s->link);
		return status;
	}
	s->link.liveness = alive_liveness(s->alive);
	s->link.base = shm_map_base(s->map);
	s->link.bytes = shm_map_bytes(s->map);
	*out = &s->link;
	return 0;
}

static int connect_shm(struct link *l, struct fab **out)
{
	struct shm_link *s = shm_link(l);

	return s->flags & LINK_READ_ONLY
		   ? loop_open(shm_map_base(s->map), shm_map_bytes(s->map), out)
		   : shm_open_connection(s->map, out);
}

static int is_held_shm(struct link *l, uint32_t cn)
{
	return alive_is_held(shm_link(l)->alive, cn);
}

static int watch_shm(struct link *l, int fd)
{
	return shm_watch_add(fd, shm_link(l)->where);
}

static int probe_shm(const struct pool_name *name, char *error_text, size_t error_bytes)
{
	int status = check_is_pool(name->where, error_text, error_bytes);

	return status ? status : shm_is_held(name->where, ALIVE_NODE_BYTE, error_text, error_bytes);
}

static int is_served_shm(struct link *l)
{
	char ignored[256];

	return shm_is_held(shm_link(l)->where, ALIVE_NODE_BYTE, ignored, sizeof(ignored)) > 0;
}

const struct link_medium link_shm = {
    .open = open_shm,
    .close = close_shm,
    .connect = connect_shm,
    .is_held = is_held_shm,
    .is_served = is_served_shm,
    .watch = watch_shm,
    .probe = probe_shm,
};
