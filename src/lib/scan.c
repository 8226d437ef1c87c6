/*
 * scan.c: the keys of the pool, for programs.
 *
 * A scan finds the keys of a page of buckets, by the flows of the session that are free, and hands
 * them out one by one.  They are copied to memory of its own, so that the session may be used in
 * between.
 */
#include "client/scan.h"

#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

/* The keys that a page of buckets had, some of them twice perhaps. */
struct page {
	struct forge_entry *entries;
	size_t count, capacity, next;
	int status; /* FORGE_E_NO_MEMORY: an entry was lost */
};

struct forge_scan {
	struct forge_session *session;
	struct scan at;
	struct page page;
	struct arena keys;
};

int forge_scan_open(struct forge_session *s, struct forge_scan **out)
{
	int status = lib_check_session(s);

	if (!status && !out)
		status = lib_fail(FORGE_E_INVAL, "the pointer for the scan is NULL");
	if (status)
		return status;
	struct forge_scan *scan = calloc(1, sizeof(*scan));

	if (!scan)
		return lib_fail(FORGE_E_NO_MEMORY, "%s", status_sentence(FORGE_E_NO_MEMORY));
	scan->session = s;
	*out = scan;
	return 0;
}

static struct forge_entry *page_add(struct page *page)
{
	if (page->count == page->capacity) {
		size_t capacity = page->capacity ? 2 * page->capacity : LAYOUT_NEIGHBOURHOOD;
		struct forge_entry *more = realloc(page->entries, capacity * sizeof(*more));

		if (!more)
			return NULL;
		page->entries = more;
		page->capacity = capacity;
	}
	return &page->entries[page->count++];
}

static void add(void *context, struct cache_key key, const struct cache_value *value,
		uint64_t now_ms)
{
	struct forge_scan *scan = context;
	void *copy = arena_take(&scan->keys, key.bytes);
	struct forge_entry *entry = copy ? page_add(&scan->page) : NULL;

	if (!entry) {
		scan->page.status = FORGE_E_NO_MEMORY;
		return;
	}
	memcpy(copy, key.data, key.bytes);
	*entry = (struct forge_entry){
	    .key = {copy, key.bytes},
	    .value_bytes = value->bytes,
	    .flags = value->flags,
	    .cas = value->cas_id,
	    .ttl_ms = value->expiry_ms == 0	  ? FORGE_TTL_NEVER
		      : value->expiry_ms > now_ms ? value->expiry_ms - now_ms
						  : 0,
	};
}

/* The keys of the next page; what it finds is complete or void. */
static int fill_page(struct forge_scan *scan)
{
	struct scan before = scan->at;

	scan->page.count = scan->page.next = 0;
	scan->page.status = 0;
	arena_reset(&scan->keys);
	int status = scan_page(&scan->at, &scan->session->flight.flows, add, scan);

	if (!status && scan->page.status) {
		status = scan->page.status;
		scan->at = before;
	}
	if (status)
		scan->page.count = 0;
	return status;
}

/* Of several memory nodes the first that is lost is named. */
static int fail(const struct forge_scan *scan, int status)
{
	const struct forge_client *c = scan->session->client;
	const char *name = NULL;

	if (status == FORGE_E_NODE && scan_lost(&scan->at))
		name =
		    client_member_name(c->client, (uint32_t)__builtin_ctzll(scan_lost(&scan->at)));
	return lib_fail(status, "pool %s: %s", name ? name : c->pool_name, status_sentence(status));
}

int forge_scan_next(struct forge_scan *scan, struct forge_entry *entry)
{
	int status =
	    scan ? lib_check_session(scan->session) : lib_fail(FORGE_E_INVAL, "the scan is NULL");

	if (!status && !entry)
		status = lib_fail(FORGE_E_INVAL, "the pointer for the entry is NULL");
	while (!status && scan->page.next == scan->page.count) {
		if (scan_is_over(&scan->at, scan->session->client->client))
			return FORGE_MISS;
		status = fill_page(scan);
		if (status)
			return fail(scan, status);
	}
	if (!status)
		*entry = scan->page.entries[scan->page.next++];
	return status;
}

double forge_scan_progress(const struct forge_scan *scan)
{
	return scan ? scan_progress(&scan->at, scan->session->client->client) : 0;
}

void forge_scan_close(struct forge_scan *scan)
{
	if (!scan)
		return;
	free(scan->page.entries);
	arena_destroy(&scan->keys);
	free(scan);
}
