/*
 * inside.c: what the library shows of its inside: statuses are those of the table, counters are
 * wide enough, and memory comes from where the program says, is all given back, and may be short at
 * any moment.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forge/forge.h" /* first: its enum is the one compared */

#include "lib/lib.h"
#include "rig.h"

static void test_statuses(void **state)
{
	static const struct {
		const char *name, *sentence;
		int here, there;
	} rows[] = {
#define STATUS(name, value, sentence) {#name, sentence, name, value},
#include "base/status.def"
#undef STATUS
	};

	for (unsigned i = 0; i < ARRAY_COUNT(rows); i++) {
		assert_int_equal(rows[i].here, rows[i].there);
		assert_string_equal(forge_status_name(rows[i].here), rows[i].name);
		assert_string_equal(forge_status_text(rows[i].here), rows[i].sentence);
	}
}

static void note_hits(void *context, const char *name, uint64_t value, const char *sentence)
{
	if (strcmp(name, "hits") == 0)
		*(uint64_t *)context = value;
}

/* X05: counters have 64 bits and only grow. */
static void test_counters_are_wide(void **state)
{
	struct lib_rig r;
	uint64_t hits = 0;

	lib_rig_open(&r, 64, NULL, NULL);
	OK(put_text(r.session, "key", "v"));
	r.session->view->places[0]->cache->count.hits = UINT32_MAX - UINT64_C(1);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t before = hits;

		assert_true(says(r.session, "key", "v"));
		OK(forge_session_stats(r.session, note_hits, &hits));
		assert_true(hits > before);
	}
	assert_true(hits == UINT32_MAX + UINT64_C(3));
	lib_rig_close(&r);
}

/* ---- memory ------------------------------------------------------------------------------- */

static struct heap {
	uint64_t calls, fail_at; /* which call fails, and all after it; 0: none */
	int64_t blocks;
} heap;

static int fails(void)
{
	heap.calls++;
	return heap.fail_at && heap.calls >= heap.fail_at;
}

static void *heap_allocate(void *context, size_t alignment, size_t bytes)
{
	void *memory = NULL;

	assert_ptr_equal(context, &heap);
	assert_int_equal(alignment & (alignment - 1), 0);
	if (fails() || posix_memalign(&memory, alignment < 16 ? 16 : alignment, bytes))
		return NULL;
	memset(memory, 0xa5, bytes); /* not zeroed: whoever needs that has to do it */
	heap.blocks++;
	return memory;
}

static void *heap_resize(void *context, void *memory, size_t bytes)
{
	return fails() ? NULL : realloc(memory, bytes);
}

static void heap_release(void *context, void *memory)
{
	assert_non_null(memory);
	heap.blocks--;
	free(memory);
}

/* On a slow fabric a scan is found by all the flows that are free; with none it is found, too. */
static void test_scan_overlaps(void **state)
{
	for (unsigned taken = 0; taken < 2; taken++) {
		struct forge_op ops[8], *done[8];
		struct forge_entry entry;
		struct forge_scan *scan;
		struct lib_rig r;

		lib_rig_open(&r, 64, "2us", &(struct forge_options){.in_flight_max = 8});
		OK(put_text(r.session, "key", "v"));
		for (unsigned i = 0; i < 8; i++)
			ops[i] = (struct forge_op){.verb = FORGE_GET, .key = forge_text("key")};
		OK(forge_submit(r.session, ops, taken ? 8 : 0));
		/* Until they are polled for, and the next poll, they keep their flows. */
		if (taken)
			assert_int_equal(forge_poll(r.session, done, 1, FORGE_WAIT_FOREVER), 1);
		OK(forge_scan_open(r.session, &scan));
		OK(forge_scan_next(scan, &entry));
		assert_memory_equal(entry.key.data, "key", 3);
		assert_int_equal(forge_scan_next(scan, &entry), FORGE_MISS);
		assert_int_equal(r.session->flight.flows.flow_count, 8);
		forge_scan_close(scan);
		lib_rig_close(&r);
	}
}

static int first_error(int status, int next)
{
	return status ? status : next;
}

/* Something of everything; the first error. */
static int use_all(const char *pool, const char *latency)
{
	struct forge_client *client;
	struct forge_session *session = NULL;
	struct forge_bytes keys[8];
	struct forge_value values[8];
	struct forge_op ops[64], *done[64];
	struct forge_scan *scan = NULL;
	struct forge_entry entry;
	char name[128], text[64][4];

	snprintf(name, sizeof(name), "%s%s", pool, latency);
	int status = forge_open(name, NULL, &client);

	if (status)
		return status;
	status = forge_session_open(client, &session);
	for (unsigned i = 0; i < 64 && !status; i++) {
		snprintf(text[i], sizeof(text[i]), "k%u", i % 50);
		ops[i] = (struct forge_op){
		    .verb = FORGE_SET, .key = forge_text(text[i]), .item.value = forge_text("v")};
		if (i < 8)
			keys[i] = ops[i].key;
	}
	if (!status)
		status = forge_run(session, ops, 64);
	for (unsigned i = 0; i < 64 && !status; i++) {
		status = ops[i].status;
		ops[i].verb = FORGE_GET;
	}
	if (!status)
		status = forge_get_many(session, keys, 8, values, NULL);
	if (!status)
		status = forge_submit(session, ops, 64);
	for (unsigned n = 0; n < 64 && !status;) {
		int got = forge_poll(session, done, 64, FORGE_WAIT_FOREVER);

		assert_in_range(got, 1, 64);
		n += (unsigned)got;
	}
	for (unsigned i = 0; i < 64 && !status; i++)
		status = ops[i].status;
	if (!status)
		status = forge_scan_open(session, &scan);
	while (!status)
		status = forge_scan_next(scan, &entry);
	forge_scan_close(scan);
	forge_session_close(session);
	return first_error(status == FORGE_MISS ? 0 : status, forge_close(client));
}

static void check_short_memory(const char *latency)
{
	const struct forge_allocator own = {heap_allocate, heap_resize, heap_release, &heap};
	char pool[MADE_POOL_NAME_BYTES];
	struct lib_rig r;

	lib_rig_open(&r, 64, NULL, NULL);
	memcpy(pool, r.pool, sizeof(pool));
	forge_session_close(r.session);
	OK(forge_close(r.client));

	OK(forge_set_allocator(&own));
	heap = (struct heap){0};
	OK(use_all(pool, latency));
	uint64_t calls = heap.calls;

	assert_true(calls > 30);
	assert_int_equal(heap.blocks, 0);
	unsigned refused = 0;

	for (uint64_t fail_at = 1; fail_at <= calls; fail_at++) {
		heap = (struct heap){.fail_at = fail_at};
		int status = use_all(pool, latency);

		/* With fewer flows than asked for it goes on. */
		assert_true(status == 0 || status == FORGE_E_NO_MEMORY);
		refused += status != 0;
		assert_int_equal(heap.blocks, 0);
	}
	assert_true(refused > 10);
	OK(forge_set_allocator(NULL));
	made_pool_unlink(pool);
}

static void test_short_memory(void **state)
{
	check_short_memory("");
	check_short_memory("?latency=1us");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_statuses),
	    cmocka_unit_test(test_counters_are_wide),
	    cmocka_unit_test(test_scan_overlaps),
	    cmocka_unit_test(test_short_memory),
	};

	return cmocka_run_group_tests_name("inside the library", tests, NULL, NULL);
}
