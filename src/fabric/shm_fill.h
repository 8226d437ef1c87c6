/*
 * shm_fill.h: taking the memory of an export, which lasts: seconds for each GiB.
 *
 * For shm.c and shm_export.c alone, on any thread.  It goes in steps, so that a process whose user
 * has asked it to stop does so within a step, and tells a user who waits how far it is; both only
 * after shm_stop_by() (shm.h).
 */
#ifndef FORGE_FABRIC_SHM_FILL_H
#define FORGE_FABRIC_SHM_FILL_H

#include <stdint.h>

/*
 * Reserve [0, bytes) of the file, which has so many; only the holes cost anything.  where: for the
 * log.  0, or an errno: ECANCELED when asked to stop.
 */
int shm_fill_reserve(const char *where, int fd, uint64_t bytes);

/*
 * The same for a file that nobody else uses yet and that may be shorter, in huge pages as far as
 * there are any (shm_huge.h).  It has its full size from the beginning.
 */
int shm_fill_make(const char *where, int fd, uint64_t bytes);

/* Fault every page in for writing, without changing a byte that others may be changing.  Likewise.
 */
int shm_fill_populate(const char *where, void *base, uint64_t bytes);

#endif
