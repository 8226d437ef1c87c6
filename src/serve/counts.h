/*
 * counts.h: what a server counts, by memcached's names where it has one.
 *
 * One struct serve_counts per worker thread: that thread alone writes it, with relaxed stores, and
 * anyone may read it at any time.  Totals are sums over threads; all are 64 bits and only rise.
 */
#ifndef FORGE_SERVE_COUNTS_H
#define FORGE_SERVE_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

/* COUNT(name, sentence) */
#define SERVE_COUNTS(COUNT)                                                               \
	COUNT(cmd_get, "keys looked up")                                                  \
	COUNT(cmd_set, "values sent to be stored")                                        \
	COUNT(cmd_flush, "flushes of everything")                                         \
	COUNT(cmd_touch, "keys whose expiry was to be changed")                           \
	COUNT(cmd_meta, "meta commands")                                                  \
	COUNT(get_hits, "keys looked up and found")                                       \
	COUNT(get_misses, "keys looked up and not found")                                 \
	COUNT(delete_misses, "deletes that found nothing")                                \
	COUNT(delete_hits, "deletes that removed a key")                                  \
	COUNT(incr_misses, "increments of an absent key")                                 \
	COUNT(incr_hits, "increments done")                                               \
	COUNT(decr_misses, "decrements of an absent key")                                 \
	COUNT(decr_hits, "decrements done")                                               \
	COUNT(cas_misses, "compare-and-stores of an absent key")                          \
	COUNT(cas_hits, "compare-and-stores done")                                        \
	COUNT(cas_badval, "compare-and-stores of a value that had changed")               \
	COUNT(touch_hits, "expiries changed")                                             \
	COUNT(touch_misses, "expiries of absent keys")                                    \
	COUNT(store_too_large, "values refused for their size")                           \
	COUNT(store_no_memory, "values refused because no chunk was free")                \
	COUNT(auth_cmds, "attempts to authenticate")                                      \
	COUNT(auth_errors, "attempts to authenticate that failed")                        \
	COUNT(bytes_read, "bytes received")                                               \
	COUNT(bytes_written, "bytes sent")                                                \
	COUNT(requests, "requests of any kind")                                           \
	COUNT(protocol_errors, "requests that were no valid ones")                        \
	COUNT(server_errors, "requests that failed although they were valid")             \
	COUNT(connections_opened, "connections accepted")                                 \
	COUNT(connections_closed, "connections ended")                                    \
	COUNT(connections_idle_closed, "connections closed because nothing came")         \
	COUNT(reads_paused, "times a connection was not read because its replies waited") \
	COUNT(wakeups, "times a connection had something to do")                          \
	COUNT(handed_over, "connections that one worker gave to another")                 \
	COUNT(gathered, "connections that were read beside others before any was answered")

struct serve_counts {
#define COUNT(name, sentence) _Atomic uint64_t name;
	SERVE_COUNTS(COUNT)
#undef COUNT
};

/* Of the owning thread. */
static inline void counts_add(_Atomic uint64_t *count, uint64_t n)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

static inline void counts_up(_Atomic uint64_t *count)
{
	counts_add(count, 1);
}

#endif
