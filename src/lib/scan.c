/*
 * scan.c: the keys of the pool, for programs.
 *
 * A scan finds the keys of one home bucket after another and hands them out one by one.  They are
 * copied to memory of its own, so that the session may be used in between.
 */
#include "cache/scan.h"

#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

/* Most keys that one look at a bucket can find: a pass may be repeated, hence the vector. */
struct scan_page {
	struct forge_entry *entries;
	size_t count, capacity, next;
	int status; /* FORGE_E_NO_MEMORY: an entry was lost */
};

struct forge_scan {
	struct forge_session *session;
	uint32_t member, member_count; /* the memory node it is at */
	uint32_t bucket, bucket_count; /* 0 as count: not known yet */
	uint64_t now_ms;	       /* there */
	struct scan_page page;
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
	scan->member_count = client_member_count(s->client->client);
	*out = scan;
	return 0;
}

static struct forge_entry *page_add(struct scan_page *page)
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

static void add(void *context, struct cache_key key, const struct cache_value *value)
{
	struct forge_scan *scan = context;

	if (view_member_of(scan->session->view, key) != scan->member)
		return; /* left behind when the nodes were changed */
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
	    .ttl_ms = value->expiry_ms == 0		? FORGE_TTL_NEVER
		      : value->expiry_ms > scan->now_ms ? value->expiry_ms - scan->now_ms
							: 0,
	};
}

/* The keys of the next bucket; what it finds is complete or void. */
static int fill_page(struct forge_scan *scan)
{
	struct view *view = scan->session->view;
	struct cache *cache;

	scan->page.count = scan->page.next = 0;
	scan->page.status = 0;
	arena_reset(&scan->keys);
	int status = view_cache(view, scan->member, &cache);

	if (!status) {
		uint32_t buckets = cache->cn->pool->plan.bucket_count;

		/* The node came back with another pool: what it has now is new. */
		if (scan->bucket_count != buckets)
			scan->bucket = 0;
		scan->bucket_count = buckets;
		scan->now_ms = cache_pool_ms(cache);
		status = cache_scan_home(cache, scan->bucket, add, scan);
	}
	if (status == FORGE_E_NODE)
		view_lost(view, scan->member);
	if (!status)
		status = scan->page.status;
	if (status)
		scan->page.count = 0;
	else if (++scan->bucket == scan->bucket_count) {
		scan->member++;
		scan->bucket = scan->bucket_count = 0;
	}
	return status;
}

int forge_scan_next(struct forge_scan *scan, struct forge_entry *entry)
{
	int status =
	    scan ? lib_check_session(scan->session) : lib_fail(FORGE_E_INVAL, "the scan is NULL");

	if (!status && !entry)
		status = lib_fail(FORGE_E_INVAL, "the pointer for the entry is NULL");
	while (!status && scan->page.next == scan->page.count) {
		if (scan->member == scan->member_count)
			return FORGE_MISS;
		status = fill_page(scan);
		if (status)
			lib_fail(status, "pool %s: %s", scan->session->client->pool_name,
				 status_sentence(status));
	}
	if (!status)
		*entry = scan->page.entries[scan->page.next++];
	return status;
}

double forge_scan_progress(const struct forge_scan *scan)
{
	if (!scan)
		return 0;
	double here = scan->bucket_count ? (double)scan->bucket / scan->bucket_count : 0;

	return (scan->member + here) / scan->member_count;
}

void forge_scan_close(struct forge_scan *scan)
{
	if (!scan)
		return;
	free(scan->page.entries);
	arena_destroy(&scan->keys);
	free(scan);
}
