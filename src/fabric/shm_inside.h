/*
 * shm_inside.h: what the files of shared memory have in common: places, and taking space there.
 *
 * For shm.c, shm_export.c, shm_hold.c and shm_place.c alone; any thread.  A place is a parsed name
 * of an export, which it borrows.  What fails has put one sentence into the error_out.
 */
#ifndef FORGE_FABRIC_SHM_INSIDE_H
#define FORGE_FABRIC_SHM_INSIDE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/compiler.h"
#include "base/status.h"

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

/* ---- shm_place.c -------------------------------------------------------------------------- */

/* Write the sentence; status. */
PRINTF_LIKE(3, 4)
int shm_fail(struct error_out, int status, const char *format, ...);
/* Turn the errno of a failed open, create or unlink into a status and a sentence. */
int shm_place_fail(const struct shm_place *, int error, const char *what, struct error_out);

/* 0 or FORGE_E_INVAL. */
int shm_place_parse(const char *where, struct error_out, struct shm_place *out);

/* As open() and unlink(), with errno. */
int shm_place_open(const struct shm_place *, int flags);
int shm_place_unlink(const struct shm_place *);

/* Open the place and make sure that it is a file; the descriptor, or an error. */
int shm_place_open_file(const struct shm_place *, int flags, struct error_out);

/* Does the name stand for that file?  1, 0, or an error. */
int shm_place_is_named(const struct shm_place *, dev_t device, ino_t inode, struct error_out);

/* ---- shm_export.c ------------------------------------------------------------------------- */

/* Create the file, still empty; its descriptor, or an error. */
int shm_export_create_empty(const struct shm_place *, uint64_t bytes, struct error_out);

/* Reserve [0, bytes) of it, if there is space; of a file that is there, where only holes cost. */
int shm_export_fill(const struct shm_place *, int fd, uint64_t bytes, struct error_out);
int shm_export_reserve(const struct shm_place *, int fd, uint64_t bytes, struct error_out);

/* Asked to stop while it was being made or mapped. */
int shm_fail_stopped(const struct shm_place *, struct error_out);

#endif
