/*
 * refcache.h: exact LRU and FIFO, to print beside the hit ratio of the real cache.
 *
 * A yardstick, not a cache: it holds no values, only which ids would be resident.  The limit
 * is a number of objects, a number of bytes, or both.  An access that misses inserts the id at
 * once (fill on miss); an object larger than the limit is passed by and counted.  One
 * refcache, one thread; memory grows with the distinct ids (about 45 bytes each).
 */
#ifndef FORGE_LOAD_REFCACHE_H
#define FORGE_LOAD_REFCACHE_H

#include <stdbool.h>
#include <stdint.h>

enum refcache_kind {
	REFCACHE_LRU,
	REFCACHE_FIFO,
};

struct refcache_limit {
	uint64_t objects; /* 0: any number */
	uint64_t bytes;	  /* 0: any number */
};

struct refcache_counts {
	uint64_t accesses;
	uint64_t hits;
	uint64_t access_bytes;
	uint64_t hit_bytes;
	uint64_t evictions;
	uint64_t too_large; /* accesses to objects beyond the limit of bytes */
	uint64_t objects;   /* resident now */
	uint64_t bytes;
};

struct refcache;

/* 0, FORGE_E_INVAL when neither limit is set, or FORGE_E_NO_MEMORY. */
int refcache_open(struct refcache **, enum refcache_kind, struct refcache_limit);

void refcache_close(struct refcache *);

#define REFCACHE_HIT  1
#define REFCACHE_MISS 0

/*
 * Look the id up and fill it on a miss.  A hit whose size has changed takes the new size.
 * REFCACHE_HIT, REFCACHE_MISS, or FORGE_E_NO_MEMORY.
 */
int refcache_access(struct refcache *, uint64_t id, uint32_t bytes);

/* Forget the id, as a delete does; no access.  True when it was there. */
bool refcache_remove(struct refcache *, uint64_t id);

/* All counts; the residents stay.  For the end of a warm-up. */
void refcache_counts_reset(struct refcache *);

struct refcache_counts refcache_counts(const struct refcache *);

/* Hits of accesses; 0 before the first. */
double refcache_hit_ratio(const struct refcache *);

#endif
