/* quiet.c: the checker, and what a pool without compute nodes has to fulfil besides. */
#include "quiet.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/compiler.h"
#include "check/check.h"
#include "fabric/shm.h"

struct quiet {
	struct shm_map *map;
	struct fab *fab;
	struct worker worker;
	struct pool pool;
	char *reason;
	size_t reason_bytes;
};

PRINTF_LIKE(2, 3) static int broken(const struct quiet *q, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(q->reason, q->reason_bytes, format, arguments);
	va_end(arguments);
	return -1;
}

static int quiet_open(struct quiet *q, const char *pool_name)
{
	if (shm_map_open(pool_name, 0, q->reason, q->reason_bytes, &q->map))
		return -1;
	int status = shm_open_connection(q->map, &q->fab);

	if (!status) {
		worker_init(&q->worker, q->fab, clock_monotonic(), 1);
		status = pool_open(&q->worker, &q->pool, q->reason, q->reason_bytes);
	}
	if (!status)
		return 0;
	fab_close(q->fab);
	shm_map_close(q->map);
	return -1;
}

static void quiet_close(struct quiet *q)
{
	fab_close(q->fab);
	shm_map_close(q->map);
}

/* Keeps the first finding. */
static void found(void *context, const struct check_finding *f)
{
	struct quiet *q = context;

	if (!q->reason[0])
		broken(q, "%s at %" PRIx64 ": %s", check_rule_name(f->rule), f->address, f->text);
}

static int check_all(struct quiet *q)
{
	const struct check_options options = {0};
	struct check_report r;
	int status = check_pool(&q->worker, &q->pool, &options, &r, found, q);

	if (status)
		return broken(q, "the checker: %s", status_name(status));
	if (r.findings)
		return -1;
	if (r.chunks_free + r.chunks_queued + r.chunks_part != q->pool.plan.chunk_count)
		return broken(q, "%u chunks, but %" PRIu64 " free and %" PRIu64 " queued",
			      q->pool.plan.chunk_count, r.chunks_free, r.chunks_queued);
	if (r.slots_live > (uint64_t)q->pool.plan.chunk_count * q->pool.plan.group_objects)
		return broken(q, "%" PRIu64 " objects are more than fit", r.slots_live);
	if (r.cns_live || r.cns_dead)
		return broken(q, "%" PRIu64 " registry lines are still taken",
			      r.cns_live + r.cns_dead);
	return 0;
}

int quiet_check(const char *pool_name, char *reason, size_t reason_bytes)
{
	struct quiet q = {.reason = reason, .reason_bytes = reason_bytes};

	reason[0] = '\0';
	if (quiet_open(&q, pool_name))
		return -1;
	int result = check_all(&q);

	quiet_close(&q);
	return result;
}

static void print_words(const struct quiet *q, FILE *out)
{
	static const char *const states[] = {"free",   "reserved", "open",
					     "queued", "evicting", "part"};
	const struct plan *p = &q->pool.plan;
	const uint8_t *base = shm_map_base(q->map);

	for (uint32_t ring = 0; ring < RING_COUNT; ring++) {
		const uint64_t *cursors = (const void *)(base + plan_head_address(p, ring));

		fprintf(out, "ring %u: head %" PRIu64 ", tail %" PRIu64 "\n", ring, cursors[0],
			cursors[1]);
	}
	for (uint32_t chunk = 0; chunk < p->chunk_count && chunk < 256; chunk++) {
		uint64_t word =
		    *(const uint64_t *)(const void *)(base + plan_chunk_word_address(p, chunk));
		uint32_t state = chunk_state(word);

		fprintf(out, "chunk %u: %s, cn %u, ring %u, generation %u, position %" PRIu64 "\n",
			chunk, state < CHUNK_STATES ? states[state] : "?", chunk_owner(word),
			chunk_ring(word), chunk_generation(word), chunk_position(word));
	}
}

void quiet_print(const char *pool_name, FILE *out)
{
	char reason[256] = "";
	struct quiet q = {.reason = reason, .reason_bytes = sizeof(reason)};

	if (quiet_open(&q, pool_name)) {
		fprintf(out, "%s\n", reason);
		return;
	}
	print_words(&q, out);
	quiet_close(&q);
}
