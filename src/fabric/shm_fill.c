/* shm_fill.c: see shm_fill.h. */
#include "fabric/shm_fill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/text.h"
#include "fabric/shm.h"
#include "fabric/shm_huge.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* A tenth of a second where a disk writes 160 MB/s. */
#define STEP_BYTES (UINT64_C(16) << 20)

/* Who waits for longer is told why. */
#define SAY_FIRST_NS   UINT64_C(1000000000)
#define SAY_BETWEEN_NS UINT64_C(10000000000)

static const volatile sig_atomic_t *_Atomic stop_flag;

void shm_stop_by(const volatile sig_atomic_t *stop)
{
	atomic_store_explicit(&stop_flag, stop, memory_order_release);
}

/* One walk over all bytes. */
struct walk {
	const char *where, *doing;
	uint64_t bytes, say_ns;
	int fd;
	char *base;
	struct shm_huge huge;
};

/* Before each step.  ECANCELED or 0. */
static int look_up(struct walk *w, uint64_t at)
{
	const volatile sig_atomic_t *stop = atomic_load_explicit(&stop_flag, memory_order_acquire);
	uint64_t now_ns;
	struct text done, all;

	if (!stop)
		return 0;
	if (*stop)
		return ECANCELED;
	now_ns = clock_now_ns(clock_monotonic());
	if (!w->say_ns)
		w->say_ns = now_ns + SAY_FIRST_NS;
	if (now_ns < w->say_ns)
		return 0;
	w->say_ns = now_ns + SAY_BETWEEN_NS;
	/* No mistake, but by default nothing less is logged, and somebody waits without a sign. */
	log_warn("%s: %s: %s of %s so far", w->where, w->doing, text_bytes(&done, at),
		 text_bytes(&all, w->bytes));
	return 0;
}

typedef int (*step_fn)(struct walk *, uint64_t at, uint64_t bytes);

/* 0 or an errno; a signal that stops nothing makes its step be done again. */
static int walk(struct walk *w, step_fn step)
{
	int error = 0;

	for (uint64_t at = 0; at < w->bytes && !error; at += STEP_BYTES) {
		uint64_t bytes = min_u64(STEP_BYTES, w->bytes - at);

		do {
			error = look_up(w, at);
			if (!error)
				error = step(w, at, bytes);
		} while (error == EINTR || error == EAGAIN);
	}
	return error;
}

static int step_reserve(struct walk *w, uint64_t at, uint64_t bytes)
{
	return fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes) ? errno : 0;
}

static int step_make(struct walk *w, uint64_t at, uint64_t bytes)
{
	shm_huge_take(&w->huge, at + bytes);
	return step_reserve(w, at, bytes);
}

static int step_write(struct walk *w, uint64_t at, uint64_t bytes)
{
	return posix_fallocate(w->fd, (off_t)at, (off_t)bytes);
}

int shm_fill_reserve(const char *where, int fd, uint64_t bytes)
{
	struct walk w = {.where = where,
			 .doing = "its memory is being searched for holes",
			 .bytes = bytes,
			 .fd = fd};
	int error = walk(&w, step_reserve);

	return error == EOPNOTSUPP || error == ENOSYS ? walk(&w, step_write) : error;
}

int shm_fill_make(const char *where, int fd, uint64_t bytes)
{
	struct walk w = {
	    .where = where, .doing = "its memory is being reserved", .bytes = bytes, .fd = fd};
	int error;

	if (ftruncate(fd, (off_t)bytes))
		return errno;
	shm_huge_begin(&w.huge, fd, bytes);
	error = walk(&w, step_make);
	shm_huge_end(&w.huge);
	return error == EOPNOTSUPP || error == ENOSYS ? walk(&w, step_write) : error;
}

static int step_populate(struct walk *w, uint64_t at, uint64_t bytes)
{
	return madvise(w->base + at, bytes, MADV_POPULATE_WRITE) ? errno : 0;
}

static int step_touch(struct walk *w, uint64_t at, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t end = at + bytes; at < end; at += page_bytes)
		atomic_fetch_or_explicit((_Atomic uint64_t *)(w->base + at), 0,
					 memory_order_relaxed);
	return 0;
}

int shm_fill_populate(const char *where, void *base, uint64_t bytes)
{
	struct walk w = {.where = where,
			 .doing = "its memory is being faulted in",
			 .bytes = bytes,
			 .base = base};
	int error = walk(&w, step_populate);

	return error == EINVAL || error == ENOSYS ? walk(&w, step_touch) : error;
}
