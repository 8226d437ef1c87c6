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
 * Reserve [0, bytes) of the file; only the holes cost anything.  The file has its old size until
 * all is reserved, where the file system can do that.  where, doing: for the log.
 * 0, or an errno: ECANCELED when asked to stop.
 */
int shm_fill_reserve(const char *where, const char *doing, int fd, uint64_t bytes);

/* Fault every page in for writing, without changing a byte that others may be changing.  Likewise.
 */
int shm_fill_populate(const char *where, void *base, uint64_t bytes);

#endif
