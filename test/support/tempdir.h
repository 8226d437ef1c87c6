/*
 * tempdir.h: temporary directories of tests, which do not pile up.
 *
 * The one place that makes them, for C; harness.py has the same for Python.  A directory is called
 * /tmp/forge-tmp-PID-XXXXXX, and whoever uses it holds a lock on it, as do the children that it
 * forks.  A test that is killed, or fails half-way, leaves its directory and no lock: whoever makes
 * the next one removes it, also where the process id was given to somebody else, or means somebody
 * else in another container.
 *
 * Any program; one thread.
 */
#ifndef FORGE_TEST_SUPPORT_TEMPDIR_H
#define FORGE_TEST_SUPPORT_TEMPDIR_H

struct tempdir {
	char path[48];
	int lock;
};

/*
 * A new one, after those of the dead were removed; they are looked for once in a process.  0, or -1
 * with errno.
 */
int tempdir_make(struct tempdir *);

/* Remove it with all that is in it.  0, or -1 with errno. */
int tempdir_remove(struct tempdir *);

/* Remove those of the dead now. */
void tempdir_sweep(void);

#endif
