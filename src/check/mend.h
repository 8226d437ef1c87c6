/*
 * mend.h: putting a damaged pool right: check, take out what breaks a rule, check again.
 *
 * Called by the node when it takes over a pool and by `forge check --repair`.  The caller holds
 * the locks of all compute nodes and keeps them until it is done: nobody else changes a word.  One
 * worker; owns what it allocates until it returns.
 *
 * What is taken out is lost, as if evicted; what stays has been verified.  A slot that breaks a
 * rule is cleared; of a key's two slots the lower one stays, as everywhere; a chunk whose TWIM or
 * contents contradict themselves is emptied; everything else is rebuilt (pool/rebuild.h).
 */
#ifndef FORGE_CHECK_MEND_H
#define FORGE_CHECK_MEND_H

#include "check/check.h"
#include "pool/rebuild.h"

/* Rounds of check and repair; damage behind damage has been seen to need two. */
#define MEND_ROUNDS_MAX 6u

/*
 * Mend until the check at rest is clean.  *report adds up what was done, *after is the last check.
 * Waits.  0; FORGE_E_CORRUPT when violations remain, of which *after tells; FORGE_E_NO_MEMORY;
 * FORGE_E_NODE.
 */
MAY_WAIT int mend_pool(struct worker *, const struct pool *, struct rebuild_report *report,
		       struct check_report *after);

/*
 * Does the small metadata hold together: superblock, cursors, chunk words, nodes?  What nodes left
 * that died is no damage, so this comes before recovery, which has to believe the cursors.  *first
 * receives one violation if there is one.  Nobody is at work.  Waits.  0, FORGE_E_CORRUPT with
 * *first filled in, FORGE_E_NO_MEMORY, FORGE_E_NODE.
 */
MAY_WAIT int mend_is_needed(struct worker *, const struct pool *, struct check_finding *first);

#endif
