/*
 * shm_huge.h: exports in huge pages, where the system gives them.
 *
 * A Get touches two or three places anywhere in a pool.  In pages of 4 KiB each costs a walk
 * through the page tables, whose entries are in no cache either; in a virtual machine each step of
 * the walk is a walk through the host's.  So a Get took 2.8 to 12 us on one host, as its pool's
 * pages happened to lie, and 2.8 us in pages of 2 MiB, always (doc/benchmarks.md).
 *
 * Shared memory has small pages unless its file system is mounted for others (huge=) or the host is
 * set up so (shmem_enabled), and by default it is neither.  But who asks for huge pages by
 * madvise(MADV_COLLAPSE) gets them (Linux 6.1), unless the host denies them, or has no 2 MiB of
 * memory in a piece any more.  To collapse a range that has one page of 4 KiB costs less than to
 * fill it with 512 of them.  So who makes an export asks for it, range by range, and fills with
 * small pages what was refused; and whoever maps one does so where huge pages can be mapped whole.
 *
 * For shm.c and shm_fill.c alone.  Any thread.
 */
#ifndef FORGE_FABRIC_SHM_HUGE_H
#define FORGE_FABRIC_SHM_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define SHM_HUGE_BYTES (UINT64_C(2) << 20)

/* An export that is being made, at its full size. */
struct shm_huge {
	int fd;
	char *base; /* NULL: there is nothing to be had */
	uint64_t bytes, taken;
	unsigned refused; /* times in a row that it got nothing */
};

void shm_huge_begin(struct shm_huge *, int fd, uint64_t bytes);
void shm_huge_end(struct shm_huge *);

/*
 * Have what lies before that offset in huge pages, and perhaps more, as far as possible; elsewhere
 * there may still be holes.  Contents stay.  When it has been in vain for a while it does nothing
 * any more.
 */
void shm_huge_take(struct shm_huge *, uint64_t up_to);

/* How much of what is mapped there is mapped in huge pages; 0 where the system does not tell. */
uint64_t shm_huge_mapped_bytes(const void *base);

/* As mmap(NULL, bytes, protection, MAP_SHARED, fd, 0), at an address for huge pages. */
void *shm_huge_map(int fd, uint64_t bytes, int protection);

#endif
