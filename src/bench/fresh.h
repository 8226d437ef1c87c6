/*
 * fresh.h: is a value that a Get returns the latest acknowledged one?  Private to this folder.
 *
 * For stress runs.  Most keys have one writer each, the worker key % count, who numbers its
 * versions.  A Get notes which version was acknowledged before it begins; what it returns must
 * not be older, nor newer than any that was issued when it ended.  A Delete takes a version of
 * its own, so a value from before it is too old.  Every eighth key may be written by everybody,
 * so that Sets race as well; of these nothing is known but that their values are whole.
 *
 * The table lies in the run's shared mapping.  Versions begin at the wall clock, so values that
 * an earlier run left in the pool are older than all of this one.
 */
#ifndef FORGE_BENCH_FRESH_H
#define FORGE_BENCH_FRESH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fresh_key {
	_Atomic uint64_t issued; /* the newest version that may be in the cache */
	_Atomic uint64_t acknowledged;
};

struct fresh_table {
	struct fresh_key *keys;
	uint64_t count; /* keys from here on may be written by everybody */
	uint64_t first_version;
	uint32_t workers;
};

static inline bool fresh_is_known(const struct fresh_table *f, uint64_t key)
{
	return key < f->count && key % 8 != 7;
}

static inline bool fresh_may_write(const struct fresh_table *f, uint64_t key, uint32_t worker)
{
	return !fresh_is_known(f, key) || key % f->workers == worker;
}

/* A key near this one that the worker may write. */
uint64_t fresh_own_key(const struct fresh_table *f, uint64_t key, uint32_t worker);

/* The version for a Set or Delete of a known key that this worker may write; call it before. */
uint64_t fresh_issue(struct fresh_table *f, uint64_t key);

/* It has been acknowledged.  F1: pairs with F2. */
static inline void fresh_acknowledge(struct fresh_table *f, uint64_t key, uint64_t version)
{
	atomic_store_explicit(&f->keys[key].acknowledged, version, memory_order_release);
}

/* The oldest version that a Get which begins now may return.  F2. */
static inline uint64_t fresh_floor(const struct fresh_table *f, uint64_t key)
{
	return atomic_load_explicit(&f->keys[key].acknowledged, memory_order_acquire);
}

/* The newest one that a Get which ended may have returned. */
static inline uint64_t fresh_ceiling(const struct fresh_table *f, uint64_t key)
{
	uint64_t issued = atomic_load_explicit(&f->keys[key].issued, memory_order_acquire);

	return issued > f->first_version ? issued : f->first_version;
}

#endif
