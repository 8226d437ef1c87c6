/*
 * shm.h: a provider for several processes on one host, over POSIX shared memory or a file.
 *
 * Who may call: the node, which creates and removes exports, and set-up code of clients and
 * tools, on any thread.  Three things with three lives: the export (a name, until it is unlinked),
 * a mapping of it (one per process, shared by its threads), and connections over the mapping (one
 * per thread).  A mapping must outlive its connections and is closed by whoever opened it.
 *
 * `where` names an export: "shm:/name" for POSIX shared memory, "/path", "./path" or
 * "file:" before either for a file that can be mapped (tmpfs, hugetlbfs, a file on a DAX file
 * system).
 *
 * On failure each function writes one sentence into error_text (never NULL, truncated to
 * error_bytes) which names the thing and the remedy.
 */
#ifndef FORGE_FABRIC_SHM_H
#define FORGE_FABRIC_SHM_H

#include <signal.h>

#include "fabric/fabric.h"

/* Smaller than this nothing can be an export. */
#define SHM_EXPORT_BYTES_MIN 4096u

/* Flags of shm_map_open(). */
#define SHM_MAP_LAZY	  0x01 /* do not pre-fault; for a tool that looks at a few pages */
#define SHM_MAP_READ_ONLY 0x02 /* to look only: no connections, no pre-fault */
#define SHM_MAP_RESERVED  0x04 /* by who has created it just now and holds it: it has no holes */

struct shm_map;

/*
 * From here on, while *stop is not 0, exports are neither made nor faulted in: who is at it ends
 * within a tenth of a second or so with FORGE_E_SYSTEM, and what was half made is removed.  What
 * takes longer than a second is logged as a warning.  For a program whose user waits for it; a
 * signal handler sets *stop, which is borrowed for good.  NULL: nothing stops it, and nothing is
 * logged.
 */
void shm_stop_by(const volatile sig_atomic_t *stop);

/*
 * Create the export, zeroed, readable and writable by its owner and group.  Every byte is
 * reserved now, so no later access can meet a full file system.  bytes is a multiple of 8.  flags
 * must be 0.  On failure nothing is left behind.
 * 0, FORGE_E_POOL_EXISTS, FORGE_E_POOL_SPACE, FORGE_E_INVAL or FORGE_E_SYSTEM.
 */
int shm_export_create(const char *where, uint64_t bytes, int flags, char *error_text,
		      size_t error_bytes);

/*
 * Remove the name; existing mappings stay valid.  0, FORGE_E_POOL_ABSENT, FORGE_E_INVAL or
 * FORGE_E_SYSTEM.
 */
int shm_export_unlink(const char *where, char *error_text, size_t error_bytes);

/*
 * Map an existing export at the size it has.
 * 0, FORGE_E_POOL_ABSENT, FORGE_E_POOL_TRUNCATED (empty, short or not whole words),
 * FORGE_E_POOL_SPACE (holes that cannot be filled), FORGE_E_NO_MEMORY, FORGE_E_INVAL or
 * FORGE_E_SYSTEM.
 */
int shm_map_open(const char *where, int flags, char *error_text, size_t error_bytes,
		 struct shm_map **out);

/* Unmap.  Every connection over the mapping has been closed.  NULL is permitted. */
void shm_map_close(struct shm_map *map);

/* The mapped bytes, for tools on the node's host; others change them at any time. */
void *shm_map_base(const struct shm_map *map);
uint64_t shm_map_bytes(const struct shm_map *map);

/* So many of them are in huge pages; 0 where the system does not tell. */
uint64_t shm_map_huge_bytes(const struct shm_map *map);

/*
 * Does the name still stand for what is mapped?  1, 0 when it was replaced, or an error as
 * shm_hold_open()'s, FORGE_E_POOL_ABSENT when it was removed.
 */
int shm_map_is_named(const struct shm_map *map, const char *where, char *error_text,
		     size_t error_bytes);

/*
 * Being told instead of asking that again and again: a descriptor, the caller's to close, that
 * becomes readable when a name that was added may stand for something else (shm_watch.c says what
 * goes unheard); -1: the system has none to give.  Who adds a name, again after each event, asks
 * afterwards, or what happened in between is missed.  0: this one is not watched.  drain makes it
 * unreadable until the next event.
 */
int shm_watch_open(void);
int shm_watch_add(int fd, const char *where);
void shm_watch_drain(int fd);

/*
 * Open a connection over map, which is borrowed until close.
 * 0, FORGE_E_INVAL for a read-only mapping, FORGE_E_NO_MEMORY.
 */
int shm_open_connection(struct shm_map *map, struct fab **out);

/* ---- holding an export -------------------------------------------------------------------- */

/*
 * A hold says "this process serves the export": the kernel keeps a lock on one byte of it and
 * lets go when the process dies, however it dies.  It is an open-file-description lock, since
 * a record lock of the process vanishes when any other descriptor of that file is closed.
 */
struct shm_hold;

/*
 * Open the export and lock byte_index of it, or fail at once.  The bytes may be anything.
 * 0, FORGE_E_AGAIN when another holds it, FORGE_E_POOL_ABSENT, FORGE_E_INVAL, FORGE_E_NO_MEMORY
 * or FORGE_E_SYSTEM.
 */
int shm_hold_open(const char *where, uint64_t byte_index, char *error_text, size_t error_bytes,
		  struct shm_hold **out);

/* Lock all bytes below byte_count, or fail at once and lock none; else as shm_hold_open(). */
int shm_hold_open_all(const char *where, uint64_t byte_count, char *error_text, size_t error_bytes,
		      struct shm_hold **out);

/*
 * Create the export as shm_export_create() does, and hold it before it has a single byte: nobody
 * else can hold it later.  Whoever holds an export and finds it empty lets go at once, since it is
 * being created; this waits for that.  Its first first_bytes are written before its memory is
 * reserved, which takes long: who finds it after its maker was killed sees by them what it is.
 * 0, or as shm_export_create(), or FORGE_E_AGAIN when somebody removed it meanwhile.
 */
int shm_hold_create(const char *where, uint64_t bytes, uint64_t byte_index, const void *first,
		    size_t first_bytes, char *error_text, size_t error_bytes,
		    struct shm_hold **out);

/* Let go.  NULL is permitted. */
void shm_hold_close(struct shm_hold *hold);

/* Copy the first bytes of the export into buf, at most bytes; how many there were. */
size_t shm_hold_peek(const struct shm_hold *hold, void *buf, size_t bytes);

/*
 * Remove the name if it still stands for the export that is held, and leave it alone if someone
 * has put another in its place.  0, FORGE_E_POOL_ABSENT, or FORGE_E_SYSTEM.
 */
int shm_hold_unlink(struct shm_hold *hold, char *error_text, size_t error_bytes);

/*
 * Copy the first bytes of whatever has that name, without a lock, a mapping or a hold.
 * 0, FORGE_E_POOL_TRUNCATED when it has fewer, or an error as shm_hold_open()'s.
 */
int shm_peek(const char *where, void *buf, size_t bytes, char *error_text, size_t error_bytes);

/* As many of them as there are, *got, up to bytes.  0, or an error as shm_hold_open()'s. */
int shm_peek_most(const char *where, void *buf, size_t bytes, size_t *got, char *error_text,
		  size_t error_bytes);

/* Does anyone hold it?  1, 0, or an error as shm_hold_open()'s. */
int shm_is_held(const char *where, uint64_t byte_index, char *error_text, size_t error_bytes);

#endif
