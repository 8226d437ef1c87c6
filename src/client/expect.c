/* expect.c: bringing closer to the processor what operations will READ from mapped memory. */
#include "client/inside.h"
#include "pool/index.h"

/* More keys than this at once would push each other out again. */
#define EXPECT_KEYS_MAX 32u
/* Of an object: header, key and the beginning of the value. */
#define EXPECT_OBJECT_BYTES 256u

static void prefetch(const char *from, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += 64)
		fetch_ahead(from + at);
}

/* A glance at words that may change under us: all that comes of it is a prefetch. */
static void expect_objects(const struct plan *p, const char *base, const struct index_home *home)
{
	const _Atomic uint64_t *words =
	    (const _Atomic uint64_t *)(base + plan_bucket_address(p, home->bucket));

	for (unsigned slot = 0; slot < LAYOUT_NEIGHBOURHOOD; slot++) {
		uint64_t word =
		    atomic_load_explicit(&words[slot * p->slot_words], memory_order_relaxed);
		uint64_t address = index_object_address(word), bytes = index_object_bytes(word);

		if (index_fingerprint(word) == home->fingerprint && bytes > 0 &&
		    address < p->pool_bytes)
			prefetch(base + address, min_u64(bytes, EXPECT_OBJECT_BYTES));
	}
}

/* The memory of the member that has the key, if it is mapped here; it is up, or was a moment ago.
 */
static const struct attachment *mapped(const struct session *s, struct cache_key key)
{
	const struct map *m = s->view.map;

	if (!m)
		return NULL;
	uint32_t i = map_slot_of(m, key);
	const struct seat *seat = s->seats[i];

	return seat && link_base(seat->of->link) ? seat->of : NULL;
}

void session_expect(struct session *s, const struct cache_key *keys, unsigned n)
{
	const struct attachment *where[EXPECT_KEYS_MAX];
	struct index_home homes[EXPECT_KEYS_MAX];

	n = (unsigned)min_u64(n, EXPECT_KEYS_MAX);
	for (unsigned i = 0; i < n; i++) {
		where[i] = mapped(s, keys[i]);
		if (!where[i])
			continue;
		const struct plan *p = &where[i]->pool.plan;

		homes[i] = index_locate(p, keys[i].data, keys[i].bytes);
		prefetch(link_base(where[i]->link) + plan_bucket_address(p, homes[i].bucket),
			 index_view_bytes(p));
	}
	for (unsigned i = 0; i < n; i++)
		if (where[i])
			expect_objects(&where[i]->pool.plan, link_base(where[i]->link), &homes[i]);
}
