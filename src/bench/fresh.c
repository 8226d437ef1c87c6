/* fresh.c: who writes which key in a stress run, and with which version. */
#include "bench/fresh.h"

uint64_t fresh_own_key(const struct fresh_table *f, uint64_t key, uint32_t worker)
{
	if (fresh_may_write(f, key, worker))
		return key;
	uint64_t own = key - key % f->workers + worker;

	/* The last keys of the table may have no such neighbour above; everybody has one below. */
	return own < f->count || own < f->workers ? own : own - f->workers;
}

uint64_t fresh_issue(struct fresh_table *f, uint64_t key)
{
	struct fresh_key *k = &f->keys[key];
	uint64_t version = atomic_load_explicit(&k->issued, memory_order_relaxed) + 1;

	if (version <= f->first_version)
		version = f->first_version + 1;
	/* One writer a key: nobody else stores here.  Issued before it can be seen in the cache. */
	atomic_store_explicit(&k->issued, version, memory_order_release);
	return version;
}
