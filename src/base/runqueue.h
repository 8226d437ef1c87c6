/*
 * runqueue.h: how long a thread has waited for a processor.
 *
 * The kernel counts, for each thread, the time in which it could have run and had no processor
 * (the second figure of /proc/PID/task/TID/schedstat).  It is brought up to date when the thread
 * gets one.  Where the kernel does not count it, or there is no /proc, it is 0 for ever.
 */
#ifndef FORGE_BASE_RUNQUEUE_H
#define FORGE_BASE_RUNQUEUE_H

#include <stdint.h>
#include <sys/types.h>

/* The descriptor to read a thread of this process by, or -1: not known here.  The caller closes it.
 */
int runqueue_open(pid_t tid);

/* Nanoseconds that it has waited since it began; of -1, or when it has ended, 0.  Any thread. */
uint64_t runqueue_waited_ns(int fd);

#endif
