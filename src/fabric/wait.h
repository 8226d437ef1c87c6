/*
 * wait.h: whether who waits for the fabric had better look again, or sleep.
 *
 * Who may call: whoever has looked in vain, at either end of a connection: wait backends, the
 * threads of the tcp server, benchmarks.  One fab_wait for each thread, all zero at first, which
 * means patient.  Pure: the time comes from the caller.
 *
 * Looking pays where the other side answers soon from a processor of its own, since waking up takes
 * longer than a small verb.  It does harm where the other side, or anybody else, waits for this
 * very processor.  Both are told by what came of it.  A wait was good when something came while one
 * looked; it was in vain when nothing came within the time given for it, or when the processor was
 * somebody else's meanwhile, which is a look that took much longer than a look does.  Who waited in
 * vain FAB_WAIT_FORGIVEN times, and not once well in between, sleeps at once from then on, and
 * looks only every FAB_WAIT_RETRY-th time, until that was good.
 *
 * READs over TCP, 64 at once, both sides on one processor: 1.4 M/s when each side looks for 50 us
 * each time, 2.35 when both sleep at once, 2.2 this way.  On two processors: 3.9, 1.1 to 2.3, 3.9.
 */
#ifndef FORGE_FABRIC_WAIT_H
#define FORGE_FABRIC_WAIT_H

#include <stdint.h>

#define FAB_WAIT_FORGIVEN 8u
#define FAB_WAIT_RETRY	  32u

/* Between two looks, which take a microsecond at most, somebody else had the processor. */
#define FAB_WAIT_AWAY_NS UINT64_C(5000)

struct fab_wait {
	uint8_t sleeps;	   /* do not look, sleep */
	uint8_t was_away;  /* since since_ns */
	uint8_t in_vain;   /* waits in a row, at most FAB_WAIT_FORGIVEN */
	uint8_t at_once;   /* waits since then, modulo FAB_WAIT_RETRY */
	uint64_t since_ns; /* nothing has come since; 0: something had, at the last look */
	uint64_t looked_ns;
};

static inline void fab_wait_was_in_vain(struct fab_wait *w)
{
	w->in_vain += w->in_vain < FAB_WAIT_FORGIVEN;
}

/* Something has come; `sleeps` says what to do about the next wait. */
static inline void fab_wait_found(struct fab_wait *w)
{
	if (w->since_ns && !w->sleeps) {
		if (w->was_away)
			fab_wait_was_in_vain(w);
		else
			w->in_vain = 0;
	}
	w->since_ns = 0;
	w->sleeps = w->in_vain == FAB_WAIT_FORGIVEN;
	if (w->sleeps) {
		w->at_once = (uint8_t)((w->at_once + 1) % FAB_WAIT_RETRY);
		w->sleeps = w->at_once != 0;
	}
}

/* Looked, and nothing had come: `sleeps` says what to do now. */
static inline void fab_wait_in_vain(struct fab_wait *w, uint64_t now_ns, uint64_t spin_ns)
{
	if (w->sleeps)
		return;
	if (!w->since_ns) {
		w->since_ns = now_ns;
		w->was_away = 0;
	} else if (now_ns - w->looked_ns > FAB_WAIT_AWAY_NS) {
		w->was_away = 1;
	}
	w->looked_ns = now_ns;
	if (now_ns - w->since_ns < spin_ns)
		return;
	fab_wait_was_in_vain(w);
	w->sleeps = 1;
}

#endif
