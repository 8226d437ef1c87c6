/*
 * witness.h: what processes were doing while somebody waited for them in vain.
 *
 * For tests that give up on a process: a sentence that it made no progress says nothing of why.
 * Who waits notes the processes when half of the time is over, and prints them at its end, before
 * anything is killed.  Of each thread that is: its state, how often it slept, how much of a
 * processor it got and how long it waited for one since the note, and where in the kernel it is;
 * of each connection how many bytes lie unread or unsent in the kernel; where gdb is installed,
 * every thread's stack; and of the host how much of its time somebody else took.
 *
 * The kernel may hold a process for long: who exits, forks, maps a file or faults in a page of one
 * waits, uninterruptibly (state D), for locks that all processes with this file share, and who has
 * such a lock may wait for a processor himself.  On a guest of two processors with a load of 40 a
 * process that had been killed did not end for 25 s, in unlink_file_vma_batch_process(), while the
 * kernel's own kdamond, which walks the pages of all processes, was in __rmap_walk_file() without
 * a processor; several runs that shared nothing but libraries stood still together.
 *
 * How to read it.  A thread that ran hardly at all, and waited for a processor most of the time,
 * starved.  One that ran is in a loop, and its stack says which.  One that slept all the time with
 * bytes unread on its connection overlooked them; without, the other end is to blame.  If the
 * watcher itself was away (its longest absence is printed), all were.
 *
 * Linux.  What cannot be read is left out.  One thread; children of the caller or anybody else's.
 */
#ifndef FORGE_TEST_SUPPORT_WITNESS_H
#define FORGE_TEST_SUPPORT_WITNESS_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define WITNESS_PIDS_MAX    16u
#define WITNESS_THREADS_MAX 64u
#define WITNESS_CPUS_MAX    64u
#define WITNESS_TICKS	    8u

/* Of a thread, since it was born. */
struct witness_thread {
	pid_t tid;
	uint64_t ran_ns, waited_ns; /* on a processor, and for one */
	uint64_t slept, pushed;	    /* gave its processor up, or was made to */
};

struct witness {
	pid_t pids[WITNESS_PIDS_MAX];
	unsigned pid_count;
	struct witness_thread threads[WITNESS_THREADS_MAX];
	unsigned thread_count;
	uint64_t noted_ns;
	uint64_t host_ticks[WITNESS_CPUS_MAX][WITNESS_TICKS]; /* of /proc/stat */
};

/* Begin anew, without processes; 0 is none and not added. */
void witness_begin(struct witness *);
void witness_add(struct witness *, pid_t);

/* What they have had of the host so far. */
void witness_note(struct witness *);

/*
 * Since the note, was it the host that kept that process from going on?  A thread of it is held by
 * the kernel, or ends, or waited for a processor for more than half of the time.
 */
int witness_blames_host(const struct witness *, pid_t);

/* What they had since, and what they are at.  Processes stand still for a moment. */
void witness_print(const struct witness *, FILE *out);

#endif
