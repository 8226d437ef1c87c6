/*
 * scan.h: walking through the keys of the pool, one home bucket after another.
 *
 * Any number of scans may go on beside all other flows; a scan keeps nothing in the pool and
 * changes nothing.  It belongs to the worker of its cache.
 */
#ifndef FORGE_CACHE_SCAN_H
#define FORGE_CACHE_SCAN_H

#include "cache/cache.h"

/*
 * A key that was found; key and value are borrowed for the call, which must not wait.  The bytes of
 * a value larger than a chunk are not READ: its data is NULL.
 */
typedef void (*cache_scan_fn)(void *context, struct cache_key key, const struct cache_value *value);

/*
 * Find the keys whose home is that bucket, from 0 to the plan's bucket_count - 1.  A key that a Get
 * would have found at any moment of the call is found at least once; others that were there at
 * some moment may be.  Calls for all buckets in turn are a scan of all keys.  Waits.
 * 0, FORGE_E_AGAIN when others kept changing the bucket (repeat it), FORGE_E_NODE.
 */
MAY_WAIT int cache_scan_home(struct cache *, uint32_t bucket, cache_scan_fn, void *context);

#endif
