/* shm_huge.c: see shm_huge.h. */
#include "fabric/shm_huge.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/compiler.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/*
 * Taken at once: before each the kernel has every processor put back what it holds of pages, and on
 * a busy host that is what takes time.  A quarter of a second where memory is zeroed slowly.
 */
#define TAKE_BYTES (32 * SHM_HUGE_BYTES)

/* The kernel has tried hard each time, so a host without free ranges is not asked for all. */
#define REFUSED_MAX 2u

void *shm_huge_map(int fd, uint64_t bytes, int protection)
{
	uint64_t room = bytes + SHM_HUGE_BYTES;
	char *from, *base, *end, *mapped;

	if (bytes < SHM_HUGE_BYTES)
		return mmap(NULL, bytes, protection, MAP_SHARED, fd, 0);
	from = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (from == MAP_FAILED)
		return MAP_FAILED;
	base = from + (round_up_u64((uintptr_t)from, SHM_HUGE_BYTES) - (uintptr_t)from);
	mapped = mmap(base, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0);
	if (mapped == MAP_FAILED) {
		munmap(from, room);
		return MAP_FAILED;
	}
	/* A mapping ends with a whole page. */
	end = base + round_up_u64(bytes, (uint64_t)sysconf(_SC_PAGESIZE));
	if (base > from)
		munmap(from, (size_t)(base - from));
	if (end < from + room)
		munmap(end, (size_t)(from + room - end));
	return mapped;
}

void shm_huge_begin(struct shm_huge *h, int fd, uint64_t bytes)
{
	struct statfs s;
	void *base;

	*h = (struct shm_huge){.fd = fd, .bytes = bytes};
	/* Elsewhere pages are of another kind, or huge already. */
	if (bytes < SHM_HUGE_BYTES || fstatfs(fd, &s) || s.f_type != TMPFS_MAGIC)
		return;
	base = shm_huge_map(fd, bytes, PROT_READ | PROT_WRITE);
	if (base != MAP_FAILED)
		h->base = base;
}

void shm_huge_end(struct shm_huge *h)
{
	if (h->base)
		munmap(h->base, h->bytes);
	h->base = NULL;
}

void shm_huge_take(struct shm_huge *h, uint64_t up_to)
{
	uint64_t end = h->bytes / SHM_HUGE_BYTES * SHM_HUGE_BYTES;

	while (h->base && h->refused < REFUSED_MAX && h->taken < min_u64(up_to, end)) {
		uint64_t from = h->taken, to = min_u64(from + TAKE_BYTES, end);

		h->taken = to;
		/* A range without any page is not collapsed.  Who fills finds out what is wrong. */
		for (uint64_t first = from; first < to; first += SHM_HUGE_BYTES)
			if (fallocate(h->fd, FALLOC_FL_KEEP_SIZE, (off_t)first, 1))
				return;
		h->refused = madvise(h->base + from, to - from, MADV_COLLAPSE) ? h->refused + 1 : 0;
	}
}

uint64_t shm_huge_mapped_bytes(const void *base)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	uint64_t from, to, kib = 0;
	bool is_there = false;
	char line[512];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		/* Each mapping has a line with its addresses, and then some with a name and colon.
		 */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2)
			is_there = from == (uintptr_t)base;
		else if (is_there && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			break;
	}
	fclose(f);
	return kib * 1024;
}
