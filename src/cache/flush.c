/*
 * flush.c: forgetting everything at once.
 *
 * The pool has a flush generation, part of the fence, a word beside the cursors that only grows.
 * Every object carries the one it was stored under; an object of an older one than the reader's is
 * over: it is dealt with as an invalid one (look.h), and regroup drops it.  So a flush is one FAA,
 * and no slot is touched.
 *
 * The argument.  An operation takes one sample of the word at its start (cache_begin()), judges old
 * objects by it and stamps new ones with it: were it to look again in between, an increment could
 * judge a value by the old generation and store its successor under the new one, and the flushed
 * value would live on.  What is stored over an object of a later generation than the sample gets
 * that later one, because it certainly came after it.
 *
 * When the flush returns, everything stored before it was called must be gone for every operation
 * that starts from then on, on any node.  A node does not READ the word at each start: its sample
 * may be from a look that began up to flush_trust_us before (poll.c sees to it).  So the flush
 * waits for twice that long after its FAA has landed: clocks of different hosts then only have to
 * run at rates that differ by less than half.  An operation that started before the flush returned
 * may still see, change or store something under the old generation, and takes its place in the
 * order before the flush, with which it overlaps; what it leaves is over for everyone after.
 * Nobody is asked and nobody is waited for, so a node that sleeps or is dead holds up no flush.
 *
 * Crash after the FAA: the flush has happened, and nobody was told.
 */
#include "cache/cache.h"

int cache_flush(struct cache *c)
{
	struct cn *cn = c->cn;
	struct fab_op op = fab_faa(FAB_CONTROL, plan_fence_address(&cn->pool->plan), 1);
	int status = cache_begin(c);

	if (!status)
		status = flow_run(c->worker, &op, 1);
	if (status)
		return status;
	uint64_t raised_ns = clock_now_ns(c->worker->clock);

	c->count.flushes++;
	if (cn->flush_every_op || !pool_rule(cn->pool, RULE_FLUSH_WAITS))
		return 0;
	while (clock_now_ns(c->worker->clock) - raised_ns <= UINT64_C(2000) * cn->flush_trust_us)
		flow_pause(c->worker);
	return 0;
}
